"""What changed of memories since their slots were written: their recall counters. A touch copies these few alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from salience.batch import Column, Rows
from salience.store.slots import Slots

_MANY: Final = 1024
_SHARE: Final = 64
"""So many, or a part so large of all, are too many to be kept aside."""


@dataclass(frozen=True, slots=True, eq=False)
class Touched:
    """Columns, those of `COUNTERS` that a touch moved, for some slots: int[k], ascending."""

    slots: Rows = field(default_factory=lambda: np.empty(0, np.intp))
    columns: Mapping[str, Column] = field(default_factory=dict)

    def column(self, table: Slots, name: str, slots: Column) -> Column:
        """Return a counter of some slots, as it now is."""
        values: Column = table[name][slots]
        moved = self.columns.get(name)
        if moved is not None and len(moved):
            places = np.minimum(self.slots.searchsorted(slots), len(moved) - 1)
            values = np.where(self.slots[places] == slots, moved[places], values)
        return values

    def noting(self, table: Slots, slots: Rows, columns: Mapping[str, Column]) -> Touched:
        """Return these and others, each of which comes once and stands before what was noted of it earlier."""
        stay = self.slots[~np.isin(self.slots, slots)]
        merged = np.concatenate((stay, slots))
        order = np.argsort(merged)
        moved = {
            name: np.concatenate((self.column(table, name, stay), columns.get(name, self.column(table, name, slots))))
            for name in {*self.columns, *columns}
        }
        return Touched(merged[order], {name: column[order] for name, column in moved.items()})

    def settled(self, table: Slots) -> tuple[Touched, Slots]:
        """Return what is to be kept aside of a table, and the table with the rest: all, once it is much."""
        if len(self.slots) <= max(_MANY, table.length // _SHARE):
            return self, table
        return Touched(), self.all_in(table)

    def all_in(self, table: Slots) -> Slots:
        """Return a table with these in their place."""
        arrays = {name: table.arrays[name].copy() for name in self.columns}
        for name, array in arrays.items():
            array[self.slots] = self.columns[name]
        return table.put(arrays)
