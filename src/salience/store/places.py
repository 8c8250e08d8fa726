"""Where an arena's vectors lie: in memory, or in a file of which the system keeps in memory what is in use."""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final, Protocol

import numpy as np

from salience.batch import Column
from salience.errors import StoreError


class Place(Protocol):
    """A place for arrays."""

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Column:
        """Return an array of which nothing is written yet."""

    def settle(self) -> None:
        """Have no more of them in memory than is in use."""


class InMemory:
    """The process's own memory."""

    def __init__(self, folder: Path) -> None:
        """Take a folder, as any place does; it is not used."""

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Column:
        """Return an array of which nothing is written yet."""
        return np.empty(shape, dtype)

    def settle(self) -> None:
        """Do nothing: all of it is in use."""


class OnDisk:
    """Files for their owner alone, which have no name: they end with the arrays, or with the process however it ends.

    Args:
        folder: where they lie.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mappings: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Column:
        """Return an array of which nothing is written yet.

        Raises:
            StoreError: the disk has no room for it.
        """
        size = prod(shape) * dtype.itemsize
        if not size:
            return np.empty(shape, dtype)
        try:
            mapping = self._mapping(size)
        except OSError as error:
            raise StoreError(
                f"store: {self._folder}: no room for a file of {size:,} bytes with vectors "
                f"({error.strerror or 'failed'}). Free some, or set SALIENCE_ARENA=memory."
            ) from None
        self._mappings.add(mapping)
        return np.frombuffer(mapping, dtype).reshape(shape)

    def settle(self) -> None:
        """Let go of the pages that were written, or read once; the system has them on disk."""
        if hasattr(mmap, "MADV_DONTNEED"):  # as on Windows it is not
            for mapping in list(self._mappings):
                mapping.madvise(mmap.MADV_DONTNEED)

    def _mapping(self, size: int) -> mmap.mmap:
        with TemporaryFile(dir=self._folder) as file:
            _reserve(file.fileno(), size)
            return mmap.mmap(file.fileno(), size)


PLACES: Final[Mapping[str, Callable[[Path], Place]]] = {"memory": InMemory, "mapped": OnDisk}
"""By what `SALIENCE_ARENA` says."""


def _reserve(file: int, size: int) -> None:
    """Give a file its size on disk, lest the disk be full when a page of it is written, which would end the process."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
    else:
        os.ftruncate(file, size)
