"""The embedded store: an SQLite file that many processes may share, with a columnar cache in each."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Self

from sqlalchemy import Connection

from salience.batch import Batch
from salience.errors import BusyError, PinnedError, StoreError
from salience.ids import SHORT
from salience.ports import Change, Distinguish, Need, Stored, Touch
from salience.records import Filter, Memory, Receipt, Scope
from salience.store import opening, sql
from salience.store.arena import Arena
from salience.store.gather import Activations, gather, speakers
from salience.store.rows import to_memory, to_stored
from salience.store.write import WRITERS, Transaction, tenant_of

PART: Final = 20_000
"""Rows taken into an arena at a time, which bounds what a load holds twice."""
_SEQUENCE: Final = "sequence"
TOUCH_PATIENCE: Final = 0.5
"""Most seconds that the touch of a recall waits for another write."""


@dataclass(frozen=True, slots=True)
class _Cached:
    """An arena and the `PRAGMA data_version` under which it was read."""

    arena: Arena
    data_version: int


class SQLiteStore:
    """Memories in an SQLite file; made by `open`.

    One connection writes and one reads, each behind a lock; what is computed on an arena runs outside the locks.
    """

    def __init__(
        self, path: str, pins: Mapping[str, str], writer: Connection, reader: Connection, busy_timeout: float
    ) -> None:
        self._path = path
        self._busy_timeout = busy_timeout
        self._pins = dict(pins)
        self._writer = writer
        self._reader = reader
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        self._cache: dict[str, _Cached] = {}
        self._closed = False

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        embedder: str,
        dimension: int,
        language: str,
        busy_timeout: float,
        distinguish: Distinguish | None = None,
    ) -> Self:
        """Return the store in the file `path`, which is made if it is not there, its folder too.

        Args:
            path: the file.
            embedder: name of the embedder that the vectors come from; pinned by the first write.
            dimension: length of a vector; pinned.
            language: language of the terms; pinned.
            busy_timeout: seconds to wait for another process's write.
            distinguish: gives the memories of a file of revision 0001 their distinctions; None: they get none,
                and none of them counts as a near-duplicate.

        Raises:
            NotAStoreError: the file is something else.
            ReadOnlyError: the file or its folder cannot be written.
            VersionError: the file is newer than this code.
            PinnedError: the file was written with another embedder, dimension or language.
            BusyError: another process kept the file locked for longer than the timeout.
        """
        path = str(path)
        opening.prepare(path)
        engine = opening.engine(path, busy_timeout)
        pins = {"embedder": embedder, "dimension": str(dimension), "language": language}
        with opening.mapped(path):
            writer, reader = opening.writing(engine.connect()), engine.connect()
            store = cls(path, pins, writer, reader, busy_timeout)
            try:
                opening.ready(writer, reader, path, busy_timeout, distinguish)
                with reader.begin():
                    store._meta(reader)
            except BaseException:
                store.close()
                raise
        return store

    def apply(self, changes: Sequence[Change]) -> list[Receipt]:
        """Make all changes in one transaction or none; return a receipt for each `Add` and `Revise`, in order.

        When it returns, the changes are on disk. Touches alone wait for another write no longer than
        `TOUCH_PATIENCE`: the recall that they belong to has its answer already.

        Raises:
            ConflictError: an idempotency key or id that stands for other content; `StaleError` for a stale revision.
            PinnedError: another process pinned the file to another embedder meanwhile.
            BusyError: another process kept the write lock for longer than the timeout.
            StoreError: the store is closed, or the file cannot be written.
        """
        if not changes:
            self._check_open()
            return []
        with self._write(_patience(changes, self._busy_timeout)) as writer:
            meta = self._meta(writer)
            transaction = Transaction(writer, int(meta.get(_SEQUENCE, "0")) + 1, int(self._pins["dimension"]))
            receipts: list[Receipt] = []
            for (kind, tenant), run in groupby(changes, lambda change: (type(change), tenant_of(change))):
                receipts += WRITERS[kind](transaction, tenant, list(run))
            values = {**self._pins, _SEQUENCE: str(transaction.sequence)}
            writer.execute(sql.keep_meta(), [{"name": name, "value": values[name]} for name in values])
        return receipts

    def gather(self, need: Need) -> Batch:
        """Return the candidates as columns, rows ordered by id.

        Raises:
            StoreError: the store is closed, or the file cannot be read.
        """
        with self._transaction(self._reader, self._reading) as reader:
            arena = self._arena(reader, need.scope.tenant)
            activations = Activations()
            if "turns_since_activation" in need.columns and need.scope.session_key is not None:
                activations = _activations(reader, need.scope.tenant, need.scope.session_key)
        return gather(arena, need, activations)

    def fetch(self, scope: Scope, ids: Sequence[str]) -> list[Memory]:
        """Return the live memories of these ids (whole or short) visible in `scope`, as asked, absent ones left out."""
        with self._transaction(self._reader, self._reading) as reader:
            rows = [row for chunk in sql.chunks(ids) for row in reader.execute(sql.named(scope, chunk)).mappings()]
            for chunk in sql.chunks(asked for asked in ids if len(asked) == SHORT):
                rows += reader.execute(sql.named_short(scope, chunk)).mappings()
        fits: dict[str, dict[str, Memory]] = {}
        for memory in map(to_memory, rows):
            for name in (memory.id, memory.short_id):
                fits.setdefault(name, {})[memory.id] = memory
        return [next(iter(fits[asked].values())) for asked in ids if len(fits.get(asked, ())) == 1]

    def speakers(self, scope: Scope, names: Sequence[str]) -> list[str]:
        """Return who said live memories visible in `scope` and is meant by one of some names, sorted and distinct."""
        with self._transaction(self._reader, self._reading) as reader:
            arena = self._arena(reader, scope.tenant)
        return speakers(arena, scope, names)

    def keyed(self, home: Scope, keys: Sequence[str]) -> list[Memory]:
        """Return the memories, forgotten ones too, that live at `home` under these idempotency keys, in any order."""
        with self._transaction(self._reader, self._reading) as reader:
            return [
                to_memory(row)
                for chunk in sql.chunks(keys)
                for row in reader.execute(sql.of_keys(home.tenant, home.home_key, chunk)).mappings()
            ]

    def scan(
        self,
        scope: Scope,
        after: str = "",
        limit: int = 100,
        filter: Filter = Filter(),
        *,
        forgotten: bool = False,
        versions: bool = False,
    ) -> list[Stored]:
        """Return up to `limit` visible memories whose id is greater than `after`, in the order of ids."""
        with self._transaction(self._reader, self._reading) as reader:
            rows = reader.execute(sql.page(scope, after, limit, filter, forgotten)).mappings().all()
            ids = [row["id"] for row in rows]
            activations = _by_memory(reader, scope.tenant, ids)
            older = _older(reader, scope.tenant, ids) if versions else {}
        return [
            stored
            for row in rows
            for stored in (*older.get(row["id"], ()), to_stored(row, activations.get(row["id"], {})))
        ]

    def close(self) -> None:
        """Release the file; further calls raise `StoreError`."""
        with self._writing, self._reading:
            self._closed = True
            self._cache.clear()
            self._writer.close()
            self._reader.close()

    @contextmanager
    def _transaction(self, connection: Connection, lock: threading.Lock) -> Iterator[Connection]:
        with lock, opening.mapped(self._path):
            self._check_open()
            with connection.begin():
                yield connection

    @contextmanager
    def _write(self, patience: float) -> Iterator[Connection]:
        """Begin a write once no other is under way, in this process or another, within `patience` seconds."""
        if not self._writing.acquire(timeout=patience):
            raise BusyError(f"store: {self._path}: another thread kept writing to it. Try again.")
        try:
            with opening.mapped(self._path):
                self._check_open()
                opening.wait_at_most(self._writer, patience)
                with self._writer.begin():
                    yield self._writer
        finally:
            self._writing.release()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"store: {self._path} is closed. Connect again.")

    def _meta(self, connection: Connection) -> dict[str, str]:
        """Return what `meta` holds, if the file is pinned to what this store was opened with, or not yet pinned."""
        meta = {row.name: row.value for row in connection.execute(sql.pins())}
        if any(meta.get(name, value) != value for name, value in self._pins.items()):
            raise PinnedError(
                f"store: {self._path} was written with {_pinned(meta)}, not with {_pinned(self._pins)}. "
                f"Open it with {_pinned(meta)}, or name a new file for {_pinned(self._pins)}."
            )
        return meta

    def _arena(self, reader: Connection, tenant: str) -> Arena:
        """Return the tenant's arena as of the reader's transaction."""
        data_version = reader.exec_driver_sql("PRAGMA data_version").scalar_one()
        cached = self._cache.get(tenant)
        if cached is None or cached.data_version != data_version:
            self._meta(reader)
            arena = Arena.empty(int(self._pins["dimension"])) if cached is None else cached.arena
            for rows in reader.execute(sql.newer(tenant, arena.sequence)).partitions(PART):
                arena = arena.refresh(rows)
            cached = self._cache[tenant] = _Cached(arena, data_version)
        return cached.arena


def _patience(changes: Sequence[Change], busy_timeout: float) -> float:
    only_touches = all(isinstance(change, Touch) for change in changes)
    return min(busy_timeout, TOUCH_PATIENCE) if only_touches else busy_timeout


def _pinned(meta: Mapping[str, str]) -> str:
    return f"embedder {meta['embedder']!r} ({meta['dimension']} dimensions, language {meta['language']!r})"


def _activations(reader: Connection, tenant: str, session_key: str) -> Activations:
    clock = sum(row.turns for row in reader.execute(sql.clocks(tenant, [session_key])))
    return Activations(
        clock, {row.memory_id: row.turn for row in reader.execute(sql.activations_in(tenant, session_key))}
    )


def _by_memory(reader: Connection, tenant: str, ids: Sequence[str]) -> dict[str, dict[str, int]]:
    held: dict[str, dict[str, int]] = {}
    for chunk in sql.chunks(ids):
        for memory_id, session_key, turn in reader.execute(sql.activations_of(tenant, chunk)):
            held.setdefault(memory_id, {})[session_key] = turn
    return held


def _older(reader: Connection, tenant: str, ids: Sequence[str]) -> dict[str, list[Stored]]:
    held: dict[str, list[Stored]] = {}
    rows: list[Any] = [row for chunk in sql.chunks(ids) for row in reader.execute(sql.older(tenant, chunk)).mappings()]
    for row in rows:
        held.setdefault(row["id"], []).append(to_stored(row, {}))
    return held
