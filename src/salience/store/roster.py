"""Which slot holds each live memory: a snapshot, of which the next is made with as little copied as can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salience.batch import Column, Rows
from salience.store.ids import Held, Ids, held, wide
from salience.store.postings import Numbers32
from salience.store.slots import Slots

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Roster:
    """A row is a live memory; rows stand in the order of ids. A slot to which no row points is dead.

    Attributes:
        table: by row, its `id` and its `slot`.
        places: by slot, its `row`; -1 for a dead one.
    """

    table: Slots
    places: Slots

    @classmethod
    def empty(cls) -> Roster:
        """Return that of no memories."""
        return cls.of(held(()), np.empty(0, np.int32), 0)

    @classmethod
    def of(cls, ids: Held, order: Column, length: int) -> Roster:
        """Return that of some ids, ascending, which are in the slots of `order`, out of `length` slots."""
        rows = np.full(length, -1, np.int32)
        rows[order] = np.arange(len(order), dtype=np.int32)
        table = {"id": ids, "slot": order.astype(np.int32, copy=False)}
        return cls(Slots.of(table, len(ids)), Slots.of({"row": rows}, length))

    @property
    def ids(self) -> Ids:
        """The ids, ascending."""
        return Ids(self.held)

    @property
    def held(self) -> Held:
        """The same as bytes."""
        return self.table["id"]

    @property
    def order(self) -> Numbers32:
        """int32[n], the slot of each row."""
        return self.table["slot"]

    @property
    def rows(self) -> Numbers32:
        """int32[slots], the row that points to each slot; -1 for a dead one."""
        return self.places["row"]

    def find(self, ids: Sequence[str]) -> tuple[Rows, Bools]:
        """Return in which row each id stands, or would stand, and whether it is there."""
        return find(self.held, held(ids))

    def changed(self, ids: Held, slots: Column, length: int) -> Roster:
        """Return it after a change.

        Args:
            ids: those of the memories that changed, ascending.
            slots: the slot of each now, no other's; -1 for one that is no longer live.
            length: how many slots there are now.
        """
        rows, known = find(self.held, ids)
        matters = known | (slots >= 0)
        ids, slots, rows, known = ids[matters], slots[matters], rows[matters], known[matters]
        if (rows == len(self.ids)).all():
            return self._followed(ids, slots, length)
        if known.all() and np.array_equal(self.order[rows], slots):
            return self
        stay, gone = known & (slots >= 0), known & (slots < 0)
        order = self.order.copy()
        order[rows[stay]] = slots[stay]
        left, order = np.delete(self.held, rows[gone]), np.delete(order, rows[gone])
        at = find(left, ids[~known])[0]
        left = wide(left, ids.dtype.itemsize)
        return Roster.of(np.insert(left, at, ids[~known]), np.insert(order, at, slots[~known]), length)

    def _followed(self, ids: Held, slots: Column, length: int) -> Roster:
        """Return it with ids that are greater than all others; new ones are so, since they begin with the time."""
        if not len(ids):
            return self
        places = np.full(length - self.places.length, -1, np.int32)
        places[slots - self.places.length] = np.arange(len(self.ids), len(self.ids) + len(ids), dtype=np.int32)
        table = self._wide(ids.dtype.itemsize).append({"id": ids, "slot": slots}, len(ids))
        return Roster(table, self.places.append({"row": places}, len(places)))

    def following(self, id: str) -> bool:
        """Return whether an id is greater than all others, as that of a new memory is."""
        return not len(self.held) or id.encode() > self.held[-1]

    def followed(self, id: str) -> Roster:
        """Return it with an id that is greater than all others, whose slot comes after all others as well."""
        row, slot = self.table.length, self.places.length
        name = id.encode()
        table = self._wide(len(name)).append({"id": name, "slot": slot}, 1)
        return Roster(table, self.places.append({"row": row}, 1))

    def _wide(self, width: int) -> Slots:
        """Return the table with room for ids of so many bytes."""
        ids = self.table.arrays["id"]
        return self.table if ids.dtype.itemsize >= width else self.table.put({"id": wide(ids, width)})


def find(ids: NDArray[Any], wanted: NDArray[Any]) -> tuple[Rows, Bools]:
    """Return where each wanted id stands, or would stand, in the sorted `ids`, and whether it is there."""
    places = np.searchsorted(ids, wanted)
    there = places < len(ids)
    there[there] = ids[places[there]] == wanted[there]
    return places, there
