"""Inner products of int8 vectors by a library of SIMD kernels, where one is installed; the engine runs without."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from salience.store.loops import Int8

Dots = Callable[[Int8, Int8], NDArray[Any]]
LIBRARIES: Final = ("numkong",)
"""Libraries with the kernels."""
_EXACT_IN_FLOAT32: Final = (1 << 24) // 127**2
"""Dimensions up to which every sum of products of int8 numbers is a whole number that float32 holds."""

_CACHED: Final = 1 << 23
"""Numbers that a processor's cache holds about."""


@cache
def dots() -> Dots | None:
    """Return what takes int8[n, d] and int8[d] to float[n], their inner products, exact; None without a library."""
    for name in LIBRARIES:
        library = _imported(name)
        if library is not None:
            return _by(library)
    return None


def is_quick() -> bool:
    """Return whether vectors of int8 are quicker to go through than those of float32, which NumPy alone is not."""
    return dots() is not None


def _imported(name: str) -> ModuleType | None:
    try:
        return import_module(name)
    except ImportError:
        return None


def _by(library: ModuleType) -> Dots:
    """Return the products by a library; of rows that a cache holds numkong is quicker with the query packed."""

    def products(rows: Int8, query: Int8) -> NDArray[Any]:
        if rows.size <= _CACHED and hasattr(library, "dots_pack"):
            packed: NDArray[Any] = np.asarray(library.dots_packed(rows, library.dots_pack(query[None])))
            return packed[:, 0].astype(np.float32 if len(query) <= _EXACT_IN_FLOAT32 else np.float64)
        wide = "float32" if len(query) <= _EXACT_IN_FLOAT32 else "float64"
        found: NDArray[Any] = np.asarray(library.cdist(query[None], rows, metric="dot", out_dtype=wide))[0]
        return found

    return products
