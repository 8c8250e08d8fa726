"""By which library the products of quantised vectors are computed in a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from unittest.mock import patch

from salience.store import kernels

LIBRARIES = [name for name in kernels.LIBRARIES if find_spec(name)]
"""Those that are installed here."""


@contextmanager
def computed_by(library: str | None) -> Iterator[None]:
    """Have one library do the products, or NumPy alone."""
    with patch.object(kernels, "LIBRARIES", (library,) if library else ()):
        kernels.dots.cache_clear()
        try:
            yield
        finally:
            kernels.dots.cache_clear()
