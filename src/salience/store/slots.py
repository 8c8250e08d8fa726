"""A table of NumPy columns that only grows, whose spare room later snapshots fill."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from salience.batch import Column

Empty = Callable[[tuple[int, ...], "np.dtype[Any]"], Column]
"""Makes an array of a shape and type, of which nothing is written yet."""
_LEAST: Final = 16
"""So many slots have room at least where an array is copied for want of it."""


@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """Columns of equal length. An older snapshot knows its own length, so that growth does not disturb it.

    Attributes:
        arrays: columns with spare room behind `length`.
        length: how many slots this snapshot has.
        filled: one number, shared by the snapshots that share the arrays: how many slots are written.
        elsewhere: what makes the arrays of columns that do not lie in memory.
    """

    arrays: Mapping[str, Column]
    length: int
    filled: list[int]
    elsewhere: Mapping[str, Empty] = field(default_factory=dict)

    @classmethod
    def of(cls, arrays: Mapping[str, Column], length: int, elsewhere: Mapping[str, Empty] | None = None) -> Slots:
        """Return a table of columns that are full, or of which `length` slots are."""
        return cls(arrays, length, [length], elsewhere or {})

    def __getitem__(self, name: str) -> Column:
        return self.arrays[name][: self.length]

    def append(self, more: Mapping[str, Any], count: int) -> Slots:
        """Return this table with further slots: in the spare room, if no other snapshot took it, else in a copy.

        Args:
            more: values of columns, `count` each, or one for all of the slots; columns that it has not are for the
                caller to fill, before anybody reads them.
            count: how many slots.
        """
        length = self.length + count
        roomy = self if self._has_room(length) else self._copied(length + max(length // 4, _LEAST))
        for name, values in more.items():
            roomy.arrays[name][self.length : length] = values
        roomy.filled[0] = length
        return Slots(roomy.arrays, length, roomy.filled, self.elsewhere)

    def put(self, columns: Mapping[str, Column]) -> Slots:
        """Return this table with other columns in the place of some; the others are shared."""
        return replace(self, arrays={**self.arrays, **columns})

    def take(self, slots: Column) -> Slots:
        """Return a table of these slots alone."""
        arrays = {name: self._empty(name, len(slots)) for name in self.arrays}
        for name, array in arrays.items():
            np.take(self[name], slots, axis=0, out=array, mode="clip")  # which alone takes no copy first
        return Slots.of(arrays, len(slots), self.elsewhere)

    def _has_room(self, length: int) -> bool:
        return self.filled[0] == self.length and len(next(iter(self.arrays.values()))) >= length

    def _copied(self, capacity: int) -> Slots:
        arrays = {name: self._empty(name, capacity) for name in self.arrays}
        for name, array in arrays.items():
            array[: self.length] = self[name]
        return Slots.of(arrays, self.length, self.elsewhere)

    def _empty(self, name: str, capacity: int) -> Column:
        array = self.arrays[name]
        return self.elsewhere.get(name, np.empty)((capacity, *array.shape[1:]), array.dtype)
