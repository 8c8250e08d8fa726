"""An arena filled from a file by its driver, in two passes, so that nothing is held twice."""

from __future__ import annotations

import ctypes
import json
import sqlite3
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np
from sqlalchemy import Executable

from salience.batch import Codes, Rows
from salience.errors import DamagedError
from salience.loading import uncollected
from salience.store import sql, sql_filling
from salience.store.arena import Arena
from salience.store.direct import Direct
from salience.store.opening import error_code
from salience.store.parsed import Parsed
from salience.store.places import Place
from salience.store.recent import Recent
from salience.store.rows import DAMAGED, readable
from salience.store.single import id_of
from salience.store.words import Known

Read = TypeVar("Read")
Found = TypeVar("Found")
PART: Final = 2_000
"""Rows taken into an arena at a time, which bounds what is held twice."""
AHEAD: Final = 2
"""Parts that are read before they are wanted."""
BLOCK: Final = 1_000
"""Vectors likewise: so many stay in the processor's own memory while they are quantised."""
ROOM: Final = 4
"""What part of all has room beside them, so that what is written next is not what has all of them copied."""


def refreshed(reader: Direct, tenant: str, arena: Arena, recent: Recent, sequence: int) -> Arena:
    """Return a tenant's arena up to a change sequence; `recent` lets go of the memories that are not what they were."""
    for rows in reader.parts(sql.newer(), {"tenant": tenant, "sequence": arena.sequence}, PART):
        recent.changed(map(id_of, rows))
        arena = arena.refresh(rows)
    return arena.upto(sequence)


def filled(reader: Direct, tenant: str, dimension: int, place: Place, sequence: int) -> Arena:
    """Return an arena of the live memories of a tenant, up to the sequence of the last write.

    All but the vectors comes first, so that it is known where each of them is to lie. Then the vectors go straight
    there. What needs no Python is done beside it: SQLite reads on, memory is made ready for the vectors, and those that
    were read are written there.

    Args:
        reader: of the file, in a transaction.
        tenant: whose memories.
        dimension: length of a vector.
        place: where the vectors are to lie.
        sequence: of the last write.

    Raises:
        StoreError: a value that no memory has; the file is damaged.
    """
    values = {"tenant": tenant}
    ((count, rowids),) = reader.rows(sql_filling.written(), values)
    arena = Arena.empty(dimension, place.empty, count + count // ROOM)
    if not count:
        return arena
    with uncollected(), _thread("reading") as reading, _thread("writing") as writing:
        read = partial(_rows, reader, tenant)
        parts = _ahead(partial(read, sql_filling.lists()), _chunks(np.sort(_numbers(rowids)), PART), reading)
        live, parsed = _parsed(arena, parts, writing)
        if parsed is not None:
            slots = arena.slots_for(parsed)
            blocks = map(partial(read, sql_filling.vectors()), _chunks(live, BLOCK))
            embedded = reading.submit(_embedded, arena, slots, blocks, writing)  # in the room that it has for all
            arena = replace(_laid(arena, parsed, slots).with_index(parsed, slots), error=embedded.result())
        del parsed
    place.settle()
    _give_back()
    return replace(arena, sequence=sequence)


def _thread(name: str) -> ThreadPoolExecutor:
    """Return a thread that does one thing after the other."""
    return ThreadPoolExecutor(1, f"salience-{name}")


def _rows(reader: Direct, tenant: str, statement: Executable, rowids: Codes) -> list[tuple[Any, ...]]:
    """Return what a statement of `sql_filling` finds of some memories."""
    try:
        return reader.rows(statement, {"tenant": tenant, "rowids": json.dumps(rowids.tolist())})
    except sqlite3.OperationalError as error:
        if error_code(error) != sqlite3.SQLITE_ERROR:
            raise
        raise DamagedError(DAMAGED) from None  # bytes stand where text should, which JSON does not take


def _numbers(listed: str) -> Codes:
    """Return the numbers of a list in JSON, which take a quarter so."""
    return np.array(json.loads(listed), np.int64)


def _chunks(rowids: Codes, size: int) -> Iterator[Codes]:
    """Return row ids in parts of a size."""
    return (rowids[first : first + size] for first in range(0, len(rowids), size))


def _ahead(read: Callable[[Read], Found], parts: Iterable[Read], reading: Executor) -> Iterator[Found]:
    """Yield what is read of each part, the next ones read while this one is worked on.

    Of two, one is ready by the time it is wanted: whoever works holds up the thread that reads, which begins late.
    """
    under_way: deque[Future[Found]] = deque()
    for part in parts:
        under_way.append(reading.submit(read, part))
        if len(under_way) > AHEAD:
            yield under_way.popleft().result()
    while under_way:
        yield under_way.popleft().result()


def _parsed(arena: Arena, parts: Iterable[Sequence[Any]], writing: Executor) -> tuple[Codes, Parsed | None]:
    """Return the row ids of live memories, and these parsed, if any; room is made for their vectors meanwhile."""
    rowids: list[Codes] = []
    first = 0
    parsed: list[Parsed] = []
    known = Known()
    for (lists,) in parts:
        with readable():
            texts = dict(zip(sql_filling.LISTED, map(json.loads, lists), strict=True))
            rowids.append(np.array(texts["rowid"], np.int64))
            writing.submit(_touch, arena, first, first + len(rowids[-1]))
            first += len(rowids[-1])
            if len(rowids[-1]):
                parsed.append(Parsed.of(arena.numbers, texts, known))
    return np.concatenate(rowids), Parsed.joined(parsed) if parsed else None


def _touch(arena: Arena, first: int, end: int) -> None:
    """Have the system provide the memory of some slots, which it does when it is first written to."""
    for name in ("vector", "quantised"):
        if name in arena.slots.arrays:
            arena.slots.arrays[name][first:end] = 0


def _laid(arena: Arena, parsed: Parsed, slots: Rows) -> Arena:
    """Return the arena with some memories in their slots, but for their vectors and terms."""
    with readable():
        by_id = np.argsort(parsed.ids, kind="stable")
        return arena.with_slots(parsed, slots).with_rows(parsed.ids[by_id], slots[by_id], 0)


def _embedded(arena: Arena, slots: Rows, blocks: Iterable[Sequence[Any]], writing: Executor) -> float:
    """Write the vectors of some slots, in their order, one block while the next is read; return as `_written`."""
    first, error, last = 0, 0.0, writing.submit(float)
    for rows in blocks:
        under_way = writing.submit(_written, arena, slots[first : first + len(rows)], rows)
        first, error, last = first + len(rows), max(error, last.result()), under_way
    return max(error, last.result())


def _written(arena: Arena, slots: Rows, rows: Sequence[Any]) -> float:
    """Write the vectors of some slots, and return how far a quantised one is from the whole one at most."""
    with readable():
        vectors, *measured = zip(*rows, strict=True)
        for name, column in zip(sql_filling.MEASURED, measured, strict=True):
            arena.slots.arrays[name][slots] = column
        return arena.with_vectors(slots, vectors).error


def _give_back() -> None:
    """Give the system back what was in use while an arena was filled; glibc keeps it for later unless it is told."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
