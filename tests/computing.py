"""Libraries that compute the products of a recall, chosen in a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from unittest.mock import patch

from salience.store import kernels

LIBRARIES = [name for name in kernels.LIBRARIES if find_spec(name)]
"""Installed libraries for the products of int8 vectors."""
WAYS = [None, *LIBRARIES]
"""NumPy alone, and each library."""


@contextmanager
def computed_by(way: str | None) -> Iterator[None]:
    """Compute the products in one of these ways."""
    with patch.object(kernels, "LIBRARIES", (way,) if way in LIBRARIES else ()):
        kernels.dots.cache_clear()
        try:
            yield
        finally:
            kernels.dots.cache_clear()
