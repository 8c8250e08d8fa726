"""The embedded store: an SQLite file that many processes may share, or a database in memory, with an index in each."""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final, Self

from sqlalchemy import Connection, bindparam, func, select, union

from salience import temporary
from salience.batch import Batch, Vectors32
from salience.errors import BusyError, DamagedError, InputError, StoreError, Words
from salience.loading import uncollected
from salience.ports import LIVE, Adopt, Change, Counts, Erase, Model, Need, Selection, SessionSpan, Stored
from salience.ports.browsing import facets
from salience.records import FACETS, Facets, Filter, Finding, OutOfScope, Receipt, Scope
from salience.store import backup, integrity, sql_store, sqlite_file, statements
from salience.store.index import Activations, Index, facet_counts, gather, out_of_scope, sessions, speakers
from salience.store.pins import ERASE_PENDING, Handle, Meta, invalidate, note_pruned, pinning, write_meta
from salience.store.rows import STORED, damaged, to_stored
from salience.store.schema import memories, touches
from salience.store.sql_store import WRITERS, SQLStore, T, Transaction, grouped, patience, rows_as_of
from salience.store.statements import INDEXED, PART
from salience.store.values import carries_vectors, check_counts, count_changed, derives_vectors, microseconds

MEMORY: Final = ":memory:"
"""Path of a store in memory, which is lost when it is closed."""
REWRITTEN: Final = 16 * 1024 * 1024
"""Bytes of a database that an erasure rewrites at once. Upkeep rewrites a larger one: other writers wait meanwhile."""
LOG_PATIENCE: Final = 0.5
"""Maximum seconds that emptying the log waits for readers, while writers wait for it."""
_OF_TENANT: Final = memories.c.tenant == bindparam("tenant")
_INDEXED: Final = select(*(memories.c[name] for name in INDEXED)).where(_OF_TENANT)
_NEWER: Final = _INDEXED.where(
    memories.c.id.in_(
        union(
            select(memories.c.id).where(_OF_TENANT, memories.c.seq > bindparam("sequence")),
            select(touches.c.id).where(touches.c.tenant == bindparam("tenant"), touches.c.seq > bindparam("sequence")),
        )
    )
)
"""Query for the memories, forgotten ones too, that were written or touched after a change sequence."""
_PENDING: Final = (
    "SELECT 1 FROM memories WHERE vector IS NULL UNION ALL SELECT 1 FROM versions WHERE vector IS NULL LIMIT 1"
)
"""Query for a row if any memory or version has no vector."""


@dataclass(frozen=True, slots=True)
class _Current:
    """A tenant's index, and the state of the database that it was read in.

    Attributes:
        index: of the tenant's memories.
        version: changes with every write; see `sqlite_file.data_version`.
        meta: of that state.
    """

    index: Index
    version: tuple[int, int]
    meta: Meta


class SQLiteStore(SQLStore):
    """Memories in an SQLite file, or in memory; made by `open`.

    One connection writes and one reads, each behind a lock; in memory both share one connection. Searches of an index
    run outside the locks.
    """

    def __init__(self, path: str, model: Model, writer: Connection, reader: Connection, busy_timeout: float) -> None:
        self._path = path
        self._identity = sqlite_file.identity(path)
        self._handle = Handle(model, path)
        self._busy_timeout = busy_timeout
        self._writer = writer
        self._reader = reader
        self._writing = threading.Lock()
        self._reading = self._writing if reader is writer else threading.Lock()
        self._wal_is_due = threading.Event()  # the write-ahead log may hold erased bytes
        self._rewritten: str | None = None  # the mark of the last erasure before this handle rewrote the file
        self._current: dict[str, _Current] = {}
        self._past: tuple[str, int, Index] | None = None  # tenant, instant and index of the last `as_of`

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        embedder: str,
        dimension: int,
        language: str | None,
        busy_timeout: float,
        fingerprint: Callable[[], Vectors32] | None = None,
        moving: bool = False,
    ) -> Self:
        """Return the store in a file; create the file and its folder if they are missing.

        Args:
            path: the file, or `MEMORY`.
            embedder: name of the embedder that the vectors come from; pinned by the first write.
            dimension: length of a vector; pinned.
            language: language of the terms; pinned. None: the pinned one, or `auto` for a new file.
            busy_timeout: seconds to wait for another process's write.
            fingerprint: as in `Model`; pinned with the first vector.
            moving: whether the file may be pinned to another model, which this one will replace.

        Raises:
            NotAStoreError: the file is not a Salience store.
            ReadOnlyError: the file or its folder cannot be written.
            VersionError: the file is newer than this code.
            PinnedError: the file was written with another embedder, dimension or language.
            BusyError: another process kept the file locked for longer than the timeout.
        """
        path = str(path)
        if path != MEMORY:
            sqlite_file.prepare(path)
        engine = sqlite_file.engine(path, busy_timeout)
        model = Model(embedder, dimension, fingerprint)
        with sqlite_file.mapped(path):
            writer = sqlite_file.writing(engine.connect())
            reader = writer if path == MEMORY else engine.connect()
            store = cls(path, model, writer, reader, busy_timeout)
            try:
                sqlite_file.ready(writer, reader, path, busy_timeout)
                with reader.begin():
                    meta = Meta.read(reader)
                store.language = store._handle.check_opening(meta, language, "file", moving=moving)
                if meta.values.get(ERASE_PENDING):
                    store.finish_erasures(rewrite=False)
            except BaseException:
                store.close()
                raise
        return store

    def apply(self, changes: Sequence[Change], *, counted: bool = False) -> list[Receipt]:
        """Make all changes in one transaction or none; return a receipt for each `Add` and `Revise`, in order.

        When it returns, the changes are on disk. A batch of touches only waits at most `TOUCH_PATIENCE` for another
        write: the recall that they belong to has its answer already.

        Raises:
            ConflictError: an idempotency key or id of other content; `StaleError` for a stale revision.
            PinnedError: vectors of another model than the file is pinned to; `MovedError` if it changed after opening.
            BusyError: another process kept the write lock for longer than the timeout.
            StoreError: the store is closed, the file cannot be written, or `counted` found a wrong number.
        """
        if not changes:
            self._check_closed()
            return []
        embeds = carries_vectors(changes) or derives_vectors(changes)
        if embeds or any(isinstance(change, Adopt) for change in changes):
            self._handle.pin()  # before the lock: it may call a provider
        own = self._handle.pin() if embeds else self._handle.pin_without_fingerprint()
        erases = any(isinstance(change, Erase) for change in changes)
        with self._write(patience(changes, self._busy_timeout)) as writer:
            meta = Meta.read(writer)
            if carries_vectors(changes):
                self._handle.check_vectors(meta.pin())
            sequence = meta.sequence + 1
            values = {
                "language": meta.values.get("language", self.language),
                **pinning(meta.pin(), own, changes),
                "sequence": str(sequence),
            }
            values |= {ERASE_PENDING: str(sequence)} if erases else {}
            write_meta(writer, {name: value for name, value in values.items() if meta.values.get(name) != value})
            before = sql_store.counts(writer) if counted else (0, 0)
            transaction = Transaction(  # a file has one change sequence and one epoch for all tenants
                writer,
                self._handle,
                sequence=lambda _: sequence,
                invalidate=lambda _: invalidate(writer),
                pruned=lambda _, last: note_pruned(writer, last),
            )
            receipts: list[Receipt] = []
            for kind, tenant, group in grouped(changes):
                receipts += WRITERS[kind](transaction, tenant, group)
            if counted:
                check_counts(before, sql_store.counts(writer), count_changed(changes, receipts))
        if erases:
            with self._reading:
                self._drop_indexes(*self._current)
        elif self._wal_is_due.is_set():
            self._empty_wal(0.0)
        return receipts

    def finish_erasures(self, *, rewrite: bool = True) -> bool:
        """Remove the bytes of erased memories from unused pages of the file, its log and temporary files.

        Without `rewrite`, a file of more than `REWRITTEN` bytes is left to a later call with it. Returns False while
        bytes may be left: in such a file, in a log that another process reads, or because the disk is full.
        """
        if self._path != MEMORY:
            temporary.clear(temporary.folders_of(self._path))
        with self._transaction() as reader:
            mark = Meta.read(reader).values.get(ERASE_PENDING)
        if not mark:
            return True
        with suppress(StoreError), self._writing, sqlite_file.mapped(self._path):
            self._check_open()
            sqlite_file.wait_at_most(self._writer, self._busy_timeout)
            if mark != self._rewritten and (rewrite or sqlite_file.size(self._writer) <= REWRITTEN):
                sqlite_file.vacuum(self._writer)
                self._rewritten = mark
        return self._empty_wal(min(self._busy_timeout, LOG_PATIENCE))

    def gather(self, need: Need) -> Batch:
        """Return the candidates as columns, rows ordered by id.

        Raises:
            PinnedError: vectors of another model than the file is pinned to; `MovedError` if it changed after opening.
            StoreError: the store is closed, or the file cannot be read.
        """
        tenant, session_key = need.scope.tenant, need.scope.session_key
        activations, having = Activations(), None
        counts_turns = need.as_of is None and session_key is not None and "turns_since_activation" in need.columns
        if counts_turns or need.filter.where:
            with self._transaction() as reader:
                index, meta = self._index(reader, tenant, need.as_of)
                if counts_turns:
                    activations = sql_store.session_activations(reader, tenant, str(session_key))
                having = sql_store.having(reader, need.scope, need.filter.where, need.as_of)
        else:
            index, meta = self._index_alone(tenant, need.as_of)
        if need.vector is not None or need.near is not None:
            self._handle.check_vectors(meta.pin())  # after the lock: it may call a provider
        return gather(index, need, activations, having)

    def speakers(self, scope: Scope, names: Sequence[str], *, as_of: datetime | None = None) -> list[str]:
        """Return the speakers of live visible memories that match one of the names, sorted and distinct."""
        index, _ = self._index_alone(scope.tenant, as_of)
        return speakers(index, scope, names)

    def sessions(self, scope: Scope, *, as_of: datetime | None = None) -> list[SessionSpan]:
        """Return the sessions of the live visible memories, in the order of their first memory."""
        index, _ = self._index_alone(scope.tenant, as_of)
        return sessions(index, scope)

    def out_of_scope(self, selection: Selection, limit: int = 5) -> list[OutOfScope]:
        """Return the places with the most selected memories that only the widened scope sees, with their counts.

        The index counts live memories that pass a filter; a statement applies other conditions.
        """
        scope, accepts, now = selection.scope, replace(selection.filter, where={}), selection.now
        if now is None or selection != Selection(scope=scope, filter=accepts, values=LIVE, now=now):
            return super().out_of_scope(selection, limit)
        index, _ = self._index_alone(scope.tenant)
        return out_of_scope(index, scope, accepts, now, limit)

    def may_be_due(self, tenant: str, now: datetime) -> bool:
        """Return whether the index that this process has read, if any, has a memory past its time to live."""
        known = self._current.get(tenant)
        return known is not None and known.index.has_due(now) and self._index_alone(tenant)[0].has_due(now)

    def facets(self, selection: Selection, top: int = 20) -> Facets:
        """Return the number of selected memories, and the `top` most frequent values of each facet.

        The index counts the live memories. It has no texts, facts or links: a statement applies conditions on these.
        """
        scope, tags, values = selection.scope, selection.filter.tags, selection.values
        indexed = Selection(scope=scope, filter=Filter(tags=tags), values=values, now=selection.now)
        is_indexed = selection == indexed
        with self._transaction() as reader:
            index, _ = self._index(reader, scope.tenant)
            ids = None if is_indexed else json.loads(reader.execute(statements.ids(selection)).scalar_one())
            gone, counts = sql_store.facet_counts(reader, selection, gone=True)
        live, of_live = facet_counts(index, selection, ids)
        return facets(gone + live, {name: counts[name] + of_live[name] for name in counts}, top)

    def counts(self, scope: Scope, now: datetime) -> Counts:
        """Return the numbers of live visible memories, with all values of each of `FACETS`.

        An index in memory has them; to read one takes longer than to count the rows.
        """
        if scope.tenant not in self._current:
            return super().counts(scope, now)
        with self._transaction() as reader:
            index, _ = self._index(reader, scope.tenant)
            pending = sql_store.count_pending(reader, scope, now)
        total, counts = facet_counts(index, Selection(scope=scope, now=now))
        return Counts(total, {name: counts[name] for name in FACETS}, pending)

    def unembedded(
        self, after: tuple[str, str, int] = ("", "", 0), limit: int = 100, *, tenant: str | None = None
    ) -> list[Stored]:
        """Return up to `limit` versions without a vector of this handle's model, of all tenants or one, in order."""
        with self._transaction() as reader:
            meta, has_pending = Meta.read(reader), reader.exec_driver_sql(_PENDING).first() is not None
        pin = meta.pin()
        if not has_pending and (pin is None or self._handle.matches(pin)):  # as after most writes
            return []
        queries = sql_store.without_vector(meta, self._handle, after, limit, tenant)  # may call a provider
        with self._transaction() as reader:
            return sql_store.unembedded(reader, queries, limit)

    def with_model(self, model: Model) -> Self:
        """Return a handle on this store for an engine that embeds with `model`."""
        made = copy.copy(self)
        made._handle = Handle(model, self._path)
        return made

    def check(self, *, repair: bool = False) -> list[Finding]:
        """Return the problems of the file and its tables, repaired if `repair` is set and there is a repair.

        Raises:
            StoreError: the file cannot be read, or not be written for a repair.
        """
        if repair:
            self.finish_erasures()
        with self._write(self._busy_timeout) if repair else self._transaction() as connection:
            return integrity.check(connection, repair=repair)

    def backup(self, path: str, progress: Callable[[int, int], None] | None = None, *, overwrite: bool = False) -> None:
        """Write a consistent copy of the file to a new file, while others read and write.

        Raises:
            InputError: a file is there and may not be replaced, or is not a store; or it cannot be created; or
                this store is in memory.
            StoreError: the store cannot be read.
        """
        if self._path == MEMORY:
            given, remedy = Words("a copy of a store in memory"), "Use export, or connect to a file."
            raise InputError("file", given, remedy, "cannot hold a store in memory")
        self._check_open()
        with sqlite_file.mapped(self._path):
            backup.backup(self._path, path, progress, overwrite=overwrite)

    def close(self) -> None:
        """Merge the write-ahead log into the file and release it; further calls raise `StoreError`."""
        with ExitStack() as locks:
            for lock in {self._writing, self._reading}:
                locks.enter_context(lock)
            self._drop_indexes(*self._current)
            self._writer.close()
            self._reader.close()

    @contextmanager
    def _write(self, seconds: float) -> Iterator[Connection]:
        """Begin a write transaction once no other is under way, in this process or another, within some seconds."""
        if not self._writing.acquire(timeout=seconds):
            raise BusyError(f"store: {self._path}: another thread kept writing to it. Try again.")
        try:
            with sqlite_file.mapped(self._path):
                self._check_open()
                sqlite_file.wait_at_most(self._writer, seconds)
                with sqlite_file.transaction(self._writer):
                    yield self._writer
        finally:
            self._writing.release()

    def _read(self, _: str | None, work: Callable[[Connection], T]) -> T:
        with self._transaction() as reader:
            return work(reader)

    def _query(self, tenant: str | None, work: Callable[[Connection], T]) -> T:
        return self._read(tenant, work)

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """Begin a read transaction."""
        with self._reading, sqlite_file.mapped(self._path):
            self._check_open()
            with sqlite_file.transaction(self._reader):
                yield self._reader

    def _index_alone(self, tenant: str, as_of: datetime | None = None) -> tuple[Index, Meta]:
        """Return the index of `_index`, in a transaction only if the database changed since the index was read."""
        if as_of is None:
            with self._reading, sqlite_file.mapped(self._path):
                self._check_open()
                known = self._valid(tenant, sqlite_file.data_version(self._reader))
            if known is not None:
                return known.index, known.meta
        with self._transaction() as reader:
            return self._index(reader, tenant, as_of)

    def _index(self, reader: Connection, tenant: str, as_of: datetime | None = None) -> tuple[Index, Meta]:
        """Return the index of a tenant's memories, at present or at an instant."""
        current = self._present(reader, tenant)
        if as_of is None:
            return current.index, current.meta
        key = (tenant, microseconds(as_of))
        if self._past is None or self._past[:2] != key:
            rows = [tuple(row[name] for name in INDEXED) for row in rows_as_of(reader, tenant, INDEXED, as_of)]
            self._drop_indexes()
            self._past = (*key, Index.empty(current.index.dimension).refreshed(rows))
        return self._past[2], current.meta

    def _present(self, reader: Connection, tenant: str) -> _Current:
        """Return the index of a tenant's live memories in a read transaction, updated if it is out of date."""
        before, version = self._current.get(tenant), sqlite_file.data_version(reader)
        valid = self._valid(tenant, version)
        if valid is not None:
            return valid
        meta = Meta.read(reader)
        dimension = (meta.pin() or self._handle.model).dimension
        self._drop_indexes()  # the index of the past
        try:
            if (
                before is not None
                and 0 < before.index.sequence >= meta.pruned
                and before.meta.epoch == meta.epoch
                and before.index.dimension == dimension
            ):
                values = {"tenant": tenant, "sequence": before.index.sequence}
                index = before.index.extended(reader.execute(_NEWER, values).partitions(PART), meta.sequence)
            else:
                self._drop_indexes(tenant)
                index = self._loaded(reader, tenant, dimension, meta.sequence)
        except DamagedError as error:
            if error.id is None:
                _name_damaged(reader, tenant, dimension)
            raise
        self._current[tenant] = current = _Current(index, version, meta)
        return current

    def _valid(self, tenant: str, version: tuple[int, int]) -> _Current | None:
        """Return the index of a tenant's live memories if it is that of a version of the database; None otherwise."""
        known = self._current.get(tenant)
        if known is None or known.version != version:
            return None
        is_fit = known.meta.pin() is not None or known.index.dimension == self._handle.model.dimension
        return known if is_fit else None

    def _loaded(self, reader: Connection, tenant: str, dimension: int, sequence: int) -> Index:
        of_tenant = memories.c.tenant == tenant
        count = reader.execute(select(func.count()).select_from(memories).where(of_tenant)).scalar_one()
        live = _INDEXED.where(memories.c.forgotten_at.is_(None)).order_by(memories.c.id)
        with uncollected():
            rows = reader.execute(live, {"tenant": tenant}).partitions(PART)
            return Index.empty(dimension, count + count // 4).extended(rows, sequence)  # room for later writes

    def _drop_indexes(self, *tenants: str) -> None:
        """Drop the index of the past and those of some tenants."""
        gone = [self._current.pop(tenant).index for tenant in tenants if tenant in self._current]
        if self._past is not None:
            gone.append(self._past[2])
            self._past = None
        for index in gone:
            index.views.clear()  # breaks the reference cycle: each view refers to its index

    def _check_open(self) -> None:
        self._check_closed()
        if self._path != MEMORY:
            sqlite_file.check_there(self._path, self._identity)

    def _check_closed(self) -> None:
        if self._writer.closed:
            raise StoreError(f"store: {self._path} is closed. Connect again.")

    def _empty_wal(self, seconds: float) -> bool:
        """Empty the write-ahead log, and return whether no bytes of erased memories are left there and in the file.

        If that fails, or another process still reads the log, a later write tries again.
        """
        self._wal_is_due.set()
        with suppress(StoreError), self._writing, sqlite_file.mapped(self._path):
            self._check_open()
            sqlite_file.wait_at_most(self._writer, seconds)
            if sqlite_file.empty_log(self._writer):
                self._wal_is_due.clear()
                with self._writer.begin():
                    mark = Meta.read(self._writer).values.get(ERASE_PENDING)
                    if mark == self._rewritten:  # another erasure may have come meanwhile
                        write_meta(self._writer, {ERASE_PENDING: ""})
                return mark == self._rewritten
        return False


def _name_damaged(reader: Connection, tenant: str, dimension: int) -> None:
    """Raise `DamagedError` for the first memory of a tenant that cannot be read, if one is found."""
    query = select(*(memories.c[name] for name in STORED)).where(memories.c.tenant == tenant)
    for row in reader.execute(query).mappings():
        stored = to_stored(row, {})
        if stored.vector is not None and stored.vector.shape != (dimension,):
            raise damaged(row, "vector")
