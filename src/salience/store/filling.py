"""An arena filled from a file by its driver, in two passes, so that nothing is held twice."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import numpy as np

from salience.batch import Rows
from salience.store import sql
from salience.store.arena import Arena
from salience.store.direct import Direct
from salience.store.parsed import Parsed
from salience.store.places import Place
from salience.store.rows import readable

PART: Final = 4_000
"""Rows taken into an arena at a time, which bounds what is held twice."""
BLOCK: Final = 1_000
"""Vectors likewise: so many stay in the processor's own memory while they are quantised."""
ROOM: Final = 4
"""What part of all has room beside them, so that what is written next is not what has all of them copied."""


def refreshed(reader: Direct, tenant: str, arena: Arena) -> Arena:
    """Return a tenant's arena brought up to date."""
    for rows in reader.parts(sql.newer(), {"tenant": tenant, "sequence": arena.sequence}, PART):
        arena = arena.refresh(rows)
    return arena


def filled(reader: Direct, tenant: str, dimension: int, place: Place) -> Arena:
    """Return an arena of the live memories of a tenant.

    All but the vectors comes first, so that it is known where each of them is to lie. Then the vectors go straight
    there. What needs no Python is done beside it: memory is made ready for them, and what was read is written there.

    Args:
        reader: of the file, in a transaction.
        tenant: whose memories.
        dimension: length of a vector.
        place: where the vectors are to lie.

    Raises:
        StoreError: a value that no memory has; the file is damaged.
    """
    values = {"tenant": tenant}
    ((count, sequence),) = reader.rows(sql.written(), values)
    arena = Arena.empty(dimension, place.empty, count + count // ROOM)
    if not count:
        return arena
    with _uncollected(), ThreadPoolExecutor(2, "salience-filling") as beside:
        parts = list(_parsed(arena, reader.parts(sql.live(), values, PART), beside))
        if parts:
            parsed = Parsed.joined(parts)
            arena, slots = _laid(arena, parsed)
            blocks = reader.parts(sql.live_vectors(), values, BLOCK)
            embedded = beside.submit(_embedded, arena, slots, blocks, beside)
            arena = arena.with_index(parsed, slots)
            arena = replace(arena, error=embedded.result())
            del parsed
    del parts
    place.settle()
    _give_back()
    return replace(arena, sequence=sequence)


def _parsed(arena: Arena, parts: Iterable[Sequence[Any]], beside: Executor) -> Iterator[Parsed]:
    """Yield parts of the rows parsed, while memory is made ready for their vectors."""
    first = 0
    for rows in parts:
        beside.submit(_touch, arena, first, first + len(rows))
        first += len(rows)
        with readable():
            yield Parsed.of(arena.numbers, dict(zip(sql.PARSED, zip(*rows, strict=True), strict=True)))


def _touch(arena: Arena, first: int, end: int) -> None:
    """Have the system provide the memory of some slots, which it does when it is first written to."""
    for name in ("vector", "quantised"):
        if name in arena.slots.arrays:
            arena.slots.arrays[name][first:end] = 0


def _laid(arena: Arena, parsed: Parsed) -> tuple[Arena, Rows]:
    """Return the arena with some memories, but for their vectors and terms, and their slots."""
    with readable():
        arena, slots = arena.with_slots(parsed)
        by_id = np.argsort(parsed.ids, kind="stable")
        return arena.with_rows(parsed.ids[by_id], slots[by_id], 0), slots


def _embedded(arena: Arena, slots: Rows, blocks: Iterable[Sequence[Any]], beside: Executor) -> float:
    """Write the vectors of some slots, in their order, one block while the next is read; return as `_written`."""
    first, error, last = 0, 0.0, beside.submit(float)
    for rows in blocks:
        under_way = beside.submit(_written, arena, slots[first : first + len(rows)], rows)
        first, error, last = first + len(rows), max(error, last.result()), under_way
    return max(error, last.result())


def _written(arena: Arena, slots: Rows, rows: Sequence[Any]) -> float:
    """Write the vectors of some slots, and return how far a quantised one is from the whole one at most."""
    with readable():
        return arena.with_vectors(slots, [vector for (vector,) in rows]).error


@contextmanager
def _uncollected() -> Iterator[None]:
    """Make no search for garbage among what is being read: there is much of it, and none is garbage."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _give_back() -> None:
    """Give the system back what was in use while an arena was filled; glibc keeps it for later unless it is told."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
