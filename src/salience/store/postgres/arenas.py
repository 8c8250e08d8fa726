"""The columnar caches of the scopes asked for last, each brought up to date by the change sequence of its tenant."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from sqlalchemy import Connection

from salience.records import Scope
from salience.store.index import Index
from salience.store.past import stood
from salience.store.postgres import statements
from salience.store.postgres.books import Books
from salience.store.sql import ARENA

PART: Final = 5_000
"""Rows taken into an arena at a time."""
OWN: Final = 8
"""As many rows as an arena of none takes memory: some 15 kB, where a row of 384 dimensions takes 2."""


@dataclass(slots=True)
class _Entry:
    """What is kept of a scope.

    Attributes:
        lock: held while it is brought up to date.
        arena: of the memories visible in it; None while there is none, or they are too many.
        books: as they stood when it was read.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    arena: Index | None = None
    books: Books | None = None


class Arenas:
    """Arenas by scope, the one used least lately let go of first.

    Args:
        most: rows of a scope up to which it gets an arena.
        kept: rows of all arenas together.
    """

    def __init__(self, most: int, kept: int) -> None:
        self._most = most
        self._kept = kept
        self._lock = threading.Lock()
        self._entries: OrderedDict[Scope, _Entry] = OrderedDict()

    def of(self, reader: Connection, scope: Scope, books: Books, dimension: int) -> Index | None:
        """Return the arena of the live memories visible in `scope`, as of the transaction or later.

        None where they are more than the most, which is looked at again once the tenant has changed by as much.
        """
        entry = self._entry(replace(scope, session_id=None))  # which hides nothing
        with entry.lock:
            known = entry.books
            if known is None or known.is_void(books) or (entry.arena and entry.arena.dimension != dimension):
                entry.arena, entry.books = self._load(reader, scope, dimension), books
            elif entry.arena is None:
                if books.sequence - known.sequence > self._most:
                    entry.arena, entry.books = self._load(reader, scope, dimension), books
            elif books.sequence > known.sequence:
                entry.arena, entry.books = self._fresh(reader, scope, entry.arena, known.sequence), books
            arena = entry.arena
        self._let_go()
        return arena

    def clear(self) -> None:
        """Forget them all."""
        with self._lock:
            self._entries.clear()

    def _entry(self, scope: Scope) -> _Entry:
        with self._lock:
            entry = self._entries.setdefault(scope, _Entry())
            self._entries.move_to_end(scope)
            return entry

    def _load(self, reader: Connection, scope: Scope, dimension: int) -> Index | None:
        if reader.execute(statements.at_least(scope, self._most + 1)).scalar_one() > self._most:
            return None
        arena = Index.empty(dimension)
        for rows in reader.execute(statements.live(scope)).partitions(PART):
            arena = arena.refreshed(rows)
        return arena

    def _fresh(self, reader: Connection, scope: Scope, arena: Index, sequence: int) -> Index | None:
        for rows in reader.execute(statements.newer(scope, sequence)).partitions(PART):
            arena = arena.refreshed(rows)
        return arena if len(arena) <= self._most else None

    def _let_go(self) -> None:
        with self._lock:
            held = sum(_size(entry) for entry in self._entries.values())
            while held > self._kept and len(self._entries) > 1:
                held -= _size(self._entries.popitem(last=False)[1])


def _size(entry: _Entry) -> int:
    """Return how much of what may be kept an entry takes, in rows; so does what it needs beside its rows."""
    arena = entry.arena
    return 1 if arena is None else OWN + arena.slots.length


def then(reader: Connection, scope: Scope, dimension: int, as_of: datetime) -> Index:
    """Return the arena of the memories visible in `scope` as they stood; what was forgotten then is left out."""
    rows = stood(reader, scope.tenant, ARENA, as_of, seen=scope)
    return Index.empty(dimension).refreshed([tuple(row[name] for name in ARENA) for row in rows])
