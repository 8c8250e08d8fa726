"""By what the long loops of a recall are done in a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from unittest.mock import patch

from salience.store import kernels, loops

LIBRARIES = [name for name in kernels.LIBRARIES if find_spec(name)]
"""Those for the products of quantised vectors that are installed here."""
LOOPS = "loops"
WAYS = [None, *LIBRARIES, *([LOOPS] if loops.built() else [])]
"""NumPy alone, a library for the products, and all that is written in C, where it was built."""


@contextmanager
def computed_by(way: str | None) -> Iterator[None]:
    """Have it done in one of these ways."""
    hidden = () if way == LOOPS else (loops.MODULE,)
    with (
        patch.object(kernels, "LIBRARIES", (way,) if way in LIBRARIES else ()),
        patch.dict("sys.modules", dict.fromkeys(hidden)),  # None: cannot be imported
    ):
        forget()
        try:
            yield
        finally:
            forget()


def forget() -> None:
    """Look anew for what is there."""
    kernels.dots.cache_clear()
    loops.built.cache_clear()
