"""The kernels that compute inner products, and a context manager that selects one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from salience.batch import int8_products

KERNELS = ["numkong", "numpy"]


@contextmanager
def computed_by(kernel: str) -> Iterator[None]:
    """Have inner products computed by numkong, or by NumPy as where numkong cannot be imported."""
    with patch.dict("sys.modules", {} if kernel == "numkong" else {"numkong": None}):
        int8_products.cache_clear()
        try:
            yield
        finally:
            int8_products.cache_clear()
