"""A table of NumPy columns that only grows, whose spare room later snapshots fill."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from salience.batch import Column, Rows


@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """Columns of equal length. An older snapshot knows its own length, so that growth does not disturb it.

    Attributes:
        arrays: columns with spare room behind `length`.
        length: how many slots this snapshot has.
        filled: one number, shared by the snapshots that share the arrays: how many slots are written.
    """

    arrays: Mapping[str, Column]
    length: int
    filled: list[int]

    @classmethod
    def of(cls, arrays: Mapping[str, Column], length: int) -> Slots:
        """Return a table of columns that are full, or of which `length` slots are."""
        return cls(arrays, length, [length])

    def __getitem__(self, name: str) -> Column:
        return self.arrays[name][: self.length]

    def append(self, more: Mapping[str, Column]) -> Slots:
        """Return this table with further slots: in the spare room, if no other snapshot took it, else in a copy."""
        added = len(next(iter(more.values())))
        length = self.length + added
        roomy = self if self._has_room(length) else self._copied(length + length // 4)
        for name, values in more.items():
            roomy.arrays[name][self.length : length] = values
        roomy.filled[0] = length
        return replace(roomy, length=length)

    def take(self, slots: Rows) -> Slots:
        """Return a table of these slots alone."""
        return Slots.of({name: self[name][slots] for name in self.arrays}, len(slots))

    def _has_room(self, length: int) -> bool:
        return self.filled[0] == self.length and all(len(array) >= length for array in self.arrays.values())

    def _copied(self, capacity: int) -> Slots:
        arrays = {name: np.empty((capacity, *array.shape[1:]), array.dtype) for name, array in self.arrays.items()}
        for name, array in arrays.items():
            array[: self.length] = self[name]
        return Slots.of(arrays, self.length)
