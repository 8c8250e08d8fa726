"""The store on PostgreSQL: many processes, many tenants, each behind row-level security."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Final, Self

from sqlalchemy import Connection, text

from salience.batch import Batch, Vectors32
from salience.errors import InputError, Words
from salience.ports import (
    Add,
    Adopt,
    Answered,
    Change,
    Derive,
    Erase,
    Lease,
    LogRecall,
    Model,
    Need,
    Revise,
    SessionSpan,
    Stored,
    Touch,
)
from salience.records import Finding, Receipt, Scope
from salience.store import sql_store
from salience.store.index import Activations, Index, gather, sessions, speakers
from salience.store.pins import Handle, Meta, new_epoch, pinning
from salience.store.postgres import admin, checking, search, statements
from salience.store.postgres.cache import FEW_ROWS, ScopeIndexes, TenantState, read_state
from salience.store.postgres.checking import INDEXES
from salience.store.postgres.connection import EXCLUSIVE, SHARED, Runner
from salience.store.schema import PostgresVector
from salience.store.sql_store import WRITERS, SQLStore, T, Transaction, grouped, patience, tenant_of
from salience.store.statements import INDEXED
from salience.store.values import carries_vectors, check_counts, count_changed, derives_vectors

EXACT_ROWS: Final = 250_000
"""Default of `exact_rows` and of `cached_rows`."""
LOOK_AGAIN: Final = 10.0
"""Seconds after which a search checks again for a vector index."""
_WRITE_STATE: Final = """
    SELECT (SELECT json_object_agg(name, value) FROM meta), max(id),
        EXISTS (SELECT 1 FROM memories WHERE tenant = %(tenant)s AND vector IS NULL)
        OR EXISTS (SELECT 1 FROM versions WHERE tenant = %(tenant)s AND vector IS NULL)
    FROM memories WHERE tenant = %(tenant)s"""
"""The store's meta, the tenant's greatest id, and whether a version of it has no vector."""
_VECTOR_INDEXES: Final = (
    f"SELECT to_regclass('{INDEXES['vector']}') IS NOT NULL, to_regclass('{INDEXES['halfvec']}') IS NOT NULL"
)
_ADVANCE: Final = """
    INSERT INTO tenants AS t (tenant, sequence, epoch) VALUES (%s, %s, '')
    ON CONFLICT (tenant) DO UPDATE SET sequence = t.sequence + excluded.sequence RETURNING sequence"""
"""Advances the tenant's change sequence; its other writers wait until the transaction ends."""
_PIN: Final = text("INSERT INTO meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO NOTHING")
"""Adds a pin; only the operator may change one."""


@dataclass(eq=False)
class PostgresStore(SQLStore):
    """Memories in a PostgreSQL database; created by `open`.

    Every transaction sets its tenant, and row-level security hides the rows of all others. Writers of one tenant wait
    for each other; readers and writers of other tenants do not.
    """

    _runner: Runner
    _handle: Handle
    language: str
    _busy_timeout: float
    _exact_rows: int
    _indexes: ScopeIndexes
    _is_iterative: bool
    """Whether pgvector continues a search until it has found enough."""
    _vectors: tuple[float, bool, bool] = (0.0, False, False)
    """Until when this holds, and whether there is an index of vectors, and of their halves."""
    _embedded: set[str | None] = field(default_factory=set)
    """Tenants whose last write left no memory without a vector."""

    @classmethod
    def open(
        cls,
        dsn: str,
        *,
        embedder: str,
        dimension: int,
        language: str | None,
        busy_timeout: float = 30.0,
        statement_timeout: float = 60.0,
        node_timeout: float = 1.0,
        pool_size: int = 10,
        exact_rows: int = EXACT_ROWS,
        cached_rows: int = EXACT_ROWS,
        prepares: bool = True,
        fingerprint: Callable[[], Vectors32] | None = None,
        moving: bool = False,
        create: bool = True,
    ) -> Self:
        """Return the store in a database.

        Args:
            dsn: `postgresql://user:password@host:port/database`.
            embedder: name of the embedder; pinned by the first write.
            dimension: length of a vector; pinned.
            language: language of the terms; pinned. None: the pinned one, or `auto` for a new database.
            busy_timeout: seconds to wait for a lock, a connection of the pool, or an unreachable server.
            statement_timeout: maximum seconds of a statement.
            node_timeout: maximum seconds to wait for a node of a cluster that is down.
            pool_size: maximum connections of this store.
            exact_rows: visible memories up to which each is scored; above that, indexes find the candidates.
            cached_rows: maximum rows in memory, of all scopes together.
            prepares: whether to use prepared statements; some poolers lose them.
            fingerprint: as in `Model`; pinned with the first vector.
            moving: whether the database may be pinned to another model, which this one will replace.
            create: whether to create missing tables.

        Raises:
            InputError: an invalid DSN.
            NotAStoreError, VersionError, StoreError: as `admin.connect`.
            PinnedError: the store was written with another embedder, dimension or language.
        """
        runner, found = admin.connect(
            dsn,
            pool_size=pool_size,
            busy_timeout=busy_timeout,
            statement_timeout=statement_timeout,
            node_timeout=node_timeout,
            prepares=prepares,
            create=create,
        )
        handle = Handle(Model(embedder, dimension, fingerprint), runner.where)
        indexes = ScopeIndexes(runner, exact_rows, cached_rows)
        try:
            meta = runner.read("", Meta.read)
            language = handle.check_opening(meta, language, "database", moving=moving)
        except BaseException:
            runner.close()
            raise
        is_iterative = found.pgvector >= admin.ITERATIVE_SCAN
        return cls(runner, handle, language, busy_timeout, exact_rows, indexes, is_iterative)

    def apply(self, changes: Sequence[Change], *, counted: bool = False) -> list[Receipt]:
        """Make all changes in one transaction or none; return a receipt for each `Add` and `Revise`, in order.

        When it returns, the changes are on the server's disk, unless `synchronous_commit` is off.

        Raises:
            ConflictError: an idempotency key or id of other content; `StaleError` for a stale revision.
            PinnedError: vectors of another model; `MovedError` if the pin changed after the store was opened.
            BusyError: another transaction locked the tenant for longer than the timeout.
            StoreError: the store is closed or cannot be written, or `counted` found a wrong number.
        """
        if not changes:
            self._runner.check_open()
            return []
        adopts = any(isinstance(change, Adopt) for change in changes)
        if adopts or carries_vectors(changes) or derives_vectors(changes):
            self._handle.pin()  # before any lock: it may call a provider
        counts = Counter(tenant_of(change) for change in changes if not isinstance(change, Touch | LogRecall | Lease))
        moved = {tenant_of(change) for change in changes if not isinstance(change, Lease)}
        tenants = sorted({tenant_of(change) for change in changes} - {""})  # all writers lock them in one order
        steps = {name: max(int(name in moved), counts[name]) for name in tenants}
        first = None if adopts else next(iter(tenants), "")
        write = partial(
            self._runner.write, first, patience=patience(changes, self._busy_timeout), steps=steps.get(first or "", 0)
        )
        work = partial(self._write, changes, steps, counted)
        try:
            return write(partial(work, adopts), lock=EXCLUSIVE if adopts else SHARED)
        except _NeedsExclusiveLock:  # the first write pins the store, without other writers
            return write(partial(work, True), lock=EXCLUSIVE)

    def _write(
        self,
        changes: Sequence[Change],
        steps: Mapping[str, int],
        counted: bool,
        is_exclusive: bool,
        connection: Connection,
        sequence: int,
    ) -> list[Receipt]:
        """Make changes, and update the postings.

        Args:
            changes: the changes.
            steps: tenant -> increase of its change sequence; 0 for a tenant of leases alone.
            counted: whether to count memories and versions before and after.
            is_exclusive: whether this transaction may pin the store; if it has to and may not: `_NeedsExclusiveLock`.
            connection: in a transaction of the first tenant.
            sequence: the first tenant's new change sequence; 0 if it was not advanced.
        """
        first = next(iter(steps), "")
        last_ids: dict[str, str | None] = {}
        if not all(isinstance(change, Touch | LogRecall | Lease) for change in changes):
            if sequence:
                values, last_ids[first], lacks = connection.exec_driver_sql(_WRITE_STATE, {"tenant": first}).one()
                meta = Meta(values or {})
            else:
                meta, lacks = Meta.read(connection), True
            brings = carries_vectors(changes)
            if brings:
                self._handle.check_vectors(meta.pin())
            own = self._handle.pin() if brings or derives_vectors(changes) else self._handle.pin_without_fingerprint()
            pins = {"language": meta.values.get("language", self.language), **pinning(meta.pin(), own, changes)}
            new = {name: value for name, value in pins.items() if meta.values.get(name) != value}
            if new and not is_exclusive:
                raise _NeedsExclusiveLock
            if new:
                connection.execute(_PIN, [{"name": name, "value": value} for name, value in new.items()])
            is_embedded = brings and not lacks and all(map(_is_embedded, changes))
            (self._embedded.add if is_embedded else self._embedded.discard)(first)  # in each attempt
        adopts = any(isinstance(change, Adopt) for change in changes)

        current = first

        def enter(tenant: str) -> None:
            nonlocal current
            if len(steps) > 1 and not adopts:  # which sees all tenants
                self._runner.switch(connection, tenant)
                current = tenant

        @contextmanager
        def all_tenants() -> Iterator[None]:
            self._runner.switch(connection, None)
            yield
            self._runner.switch(connection, current)

        def counts() -> tuple[int, int]:
            """Return the numbers of memories and of older versions of the tenants."""
            memories, versions = 0, 0
            for tenant in steps if counted else ():
                enter(tenant)
                held, older = sql_store.counts(connection, [tenant])
                memories, versions = memories + held, versions + older
            return memories, versions

        sequences = {first: sequence} if sequence else {}
        for tenant in (tenant for tenant, step in steps.items() if step and tenant not in sequences):
            enter(tenant)
            sequences[tenant] = connection.exec_driver_sql(_ADVANCE, (tenant, steps[tenant])).scalar_one()
        before = counts()
        posted: dict[str, statements.Posted] = {}
        for tenant, ids in _reindexed(changes).items():
            enter(tenant)
            posted[tenant] = statements.read_postings(connection, tenant, ids)
        transaction = Transaction(
            connection,
            self._handle,
            sequence=sequences.__getitem__,
            invalidate=partial(invalidate, connection),
            pruned=lambda tenant, _: invalidate(connection, tenant),
            search_columns=statements.search_columns,
            insert=statements.insert_rows,
            of_all=nullcontext if adopts else all_tenants,
            tenants=partial(list_tenants, connection),
            last_ids=last_ids,
        )
        receipts: list[Receipt] = []
        for kind, tenant, group in grouped(changes):
            if tenant:
                enter(tenant)
            receipts += WRITERS[kind](transaction, tenant, group)
            if kind is Add:
                last_ids.pop(tenant, None)  # a later addition of this write may have the same id
        scopes: dict[str, dict[str, Scope]] = {tenant: {} for tenant in posted}
        for memory in (receipt.memory for receipt in receipts):
            scopes.setdefault(memory.scope.tenant, {})[memory.id] = memory.scope
        for tenant, each in scopes.items():
            enter(tenant)
            statements.update_postings(connection, tenant, each, posted.get(tenant, statements.Posted()))
        if counted:
            check_counts(before, counts(), count_changed(changes, receipts))
        return receipts

    def gather(self, need: Need) -> Batch:
        """Return the candidates as columns, rows ordered by id.

        If few memories are visible, all are candidates. Otherwise the vector index finds the nearest and the postings
        find those that match terms, and the batch is not `complete`.

        Raises:
            PinnedError: vectors of another model; `MovedError` if the pin changed after the store was opened.
            StoreError: the store is closed, or cannot be read.
        """
        scope, directed = need.scope, need.vector is not None or need.near is not None
        counts_turns = "turns_since_activation" in need.columns and scope.session_key is not None
        is_large = need.as_of is None and self._indexes.was_large(scope)
        if need.as_of is None and not (is_large or counts_turns or need.filter.where):
            meta, index = self._known_index(scope)
            if index is not None:
                if directed:
                    self._handle.check_vectors(meta.pin())  # after the queries: it may call a provider
                return gather(index, need)

        def read(reader: Connection) -> tuple[Meta, Callable[[], Batch] | None]:
            meta, state = read_state(reader, scope.tenant)
            if directed and not self._handle.accepts(meta.pin()):
                return meta, None
            activations, dimension = Activations(), self._dimension(meta)
            if counts_turns and need.as_of is None:
                activations = sql_store.session_activations(reader, scope.tenant, str(scope.session_key))
            is_recall = need.ids is None and (need.near is None or len(need.near.vectors) > search.MANY)
            index = self._index(reader, scope, dimension, state, need.as_of, is_recall=is_recall)
            if index is not None:
                having = sql_store.having(reader, scope, need.filter.where, need.as_of)
                return meta, partial(gather, index, need, activations, having)
            if not is_large:
                return meta, None
            size = partial(self._indexes.size, reader, scope, state)
            indexed_as = self._indexed_as(reader, dimension)
            few = min(self._exact_rows, FEW_ROWS)
            found = search.Search(reader, need, indexed_as, dimension, few, size, state.has_pending)
            return meta, partial(found.run(), activations)

        while True:
            settings = search.settings(self._is_iterative) if is_large else {}
            meta, answer = self._runner.read(scope.tenant, read, settings=settings)
            if directed:
                self._handle.check_vectors(meta.pin())  # after the transaction: it may call a provider
            if answer is not None:
                return answer()
            is_large = True  # once more, with the settings of a search

    def _known_index(self, scope: Scope) -> tuple[Meta, Index | None]:
        """Return the store's meta, and the index in memory of the visible memories, if there is one."""
        return self._query(scope.tenant, lambda reader: self._indexes.known(reader, scope, self._dimension))

    def _indexed_as(self, reader: Connection, dimension: int) -> PostgresVector | None:
        """Return the type of the indexed vectors; None if there was no vector index `LOOK_AGAIN` seconds ago."""
        until, is_whole, is_half = self._vectors
        if time.monotonic() > until:
            is_whole, is_half = reader.exec_driver_sql(_VECTOR_INDEXES).one()
            self._vectors = (time.monotonic() + LOOK_AGAIN, is_whole, is_half)
        return PostgresVector(dimension, is_half) if is_whole or is_half else None

    def _index(
        self,
        reader: Connection,
        scope: Scope,
        dimension: int,
        state: TenantState,
        as_of: datetime | None,
        *,
        is_recall: bool = True,
    ) -> Index | None:
        """Return an index of the visible memories; None if there are too many at present."""
        if as_of is None:
            return self._indexes.of(reader, scope, state, dimension, is_recall=is_recall)
        rows = sql_store.rows_as_of(reader, scope.tenant, INDEXED, as_of, seen=scope)
        return Index.empty(dimension).refreshed([tuple(row[name] for name in INDEXED) for row in rows])

    def speakers(self, scope: Scope, names: Sequence[str], *, as_of: datetime | None = None) -> list[str]:
        """Return the speakers of live visible memories that match one of the names, sorted and distinct."""
        if not names:
            self._runner.check_open()
            return []
        if as_of is None and self._indexes.was_large(scope):
            return self._runner.read(scope.tenant, lambda reader: search.speakers(reader, scope, names))
        return self._of_index(
            scope,
            as_of,
            lambda index: speakers(index, scope, names),
            lambda reader: search.speakers(reader, scope, names),
        )

    def sessions(self, scope: Scope, *, as_of: datetime | None = None) -> list[SessionSpan]:
        """Return the sessions of the live visible memories, in the order of their first memory."""
        return self._of_index(
            scope, as_of, lambda index: sessions(index, scope), lambda reader: search.sessions(reader, scope)
        )

    def _of_index(
        self, scope: Scope, as_of: datetime | None, find: Callable[[Index], T], search: Callable[[Connection], T]
    ) -> T:
        """Return what `find` finds in the index of the visible memories, or `search` in the tables without an index."""
        if as_of is None and (index := self._known_index(scope)[1]) is not None:
            return find(index)

        def read(reader: Connection) -> T | Index:
            meta, state = read_state(reader, scope.tenant)
            index = self._index(reader, scope, self._dimension(meta), state, as_of)
            return search(reader) if index is None else index

        found = self._runner.read(scope.tenant, read)
        return find(found) if isinstance(found, Index) else found

    def unembedded(
        self, after: tuple[str, str, int] = ("", "", 0), limit: int = 100, *, tenant: str | None = None
    ) -> list[Stored]:
        """Return up to `limit` versions without a vector of this handle's model, of all tenants or one, in order."""
        if tenant in self._embedded:
            self._embedded.discard(tenant)
            return []  # the last write has checked this
        meta = self._query("", Meta.read)
        # outside a transaction: it may call a provider
        queries = sql_store.without_vector(meta, self._handle, after, limit, tenant)
        return self._runner.read(tenant, lambda reader: sql_store.unembedded(reader, queries, limit))

    def with_model(self, model: Model) -> Self:
        """Return a handle on this store for an engine that embeds with `model`."""
        return replace(self, _handle=Handle(model, self._runner.where))

    def check(self, *, repair: bool = False) -> list[Finding]:
        """Return the problems of the tables and indexes, repaired if `repair` is set and there is a repair.

        Raises:
            StoreError: the tables cannot be read, or not be written for a repair.
        """
        return checking.check_all(self._runner, repair, self._busy_timeout)

    def finish_erasures(self, *, rewrite: bool = True) -> bool:
        """Return True: PostgreSQL frees the space by itself."""
        return True

    def backup(self, path: str, progress: Callable[[int, int], None] | None = None, *, overwrite: bool = False) -> None:
        """Raise `InputError`, which names the tools of PostgreSQL for backups."""
        where = self._runner.where
        remedy = f"Run: pg_dump --format=custom --file={path} {where}, or salience copy {where} {path}"
        raise InputError("backup", Words(where), remedy, "is for a file, and this store is on PostgreSQL")

    @property
    def sees_all(self) -> bool:
        """Whether the user may see the rows of all tenants."""
        return self._runner.sees_all

    @property
    def is_degraded(self) -> bool:
        """Whether a node of the cluster was unavailable to a tenant's last request, less than a minute ago."""
        return self._runner.is_degraded

    def connections(self) -> dict[str, int]:
        """Return the number of connections by state: `in_use`, `idle`."""
        return self._runner.connections()

    def close(self) -> None:
        """Close the connections; further calls raise `StoreError`."""
        self._indexes.close()
        self._runner.close()

    def _read(self, tenant: str | None, work: Callable[[Connection], T]) -> T:
        return self._runner.read(tenant, work)

    def _query(self, tenant: str | None, work: Callable[[Connection], T]) -> T:
        return self._runner.read(tenant, work, one_state=False)

    def _dimension(self, meta: Meta) -> int:
        return (meta.pin() or self._handle.model).dimension


class _NeedsExclusiveLock(Exception):  # noqa: N818 - never leaves this module
    """The write has to pin the store to a model or language."""


def invalidate(connection: Connection, tenant: str) -> None:
    """Give the tenant a new epoch, which invalidates the caches of every process."""
    connection.exec_driver_sql("UPDATE tenants SET epoch = %s WHERE tenant = %s", (new_epoch(), tenant))


def list_tenants(connection: Connection) -> list[str]:
    """Return all tenants that have written, sorted."""
    return list(connection.exec_driver_sql("SELECT tenant FROM tenants ORDER BY tenant").scalars())


def _is_embedded(change: Change) -> bool:
    """Return whether a change leaves no version without a vector."""
    if isinstance(change, Add):
        return all(stored.vector is not None for stored in (change.stored, *change.history))
    return isinstance(change, Touch | LogRecall | Answered) or (isinstance(change, Revise) and not change.unembeds)


def _reindexed(changes: Iterable[Change]) -> dict[str, set[str]]:
    """Return tenant -> ids of stored memories whose postings may change."""
    ids: dict[str, set[str]] = {}
    for change in changes:
        if isinstance(change, Revise):
            ids.setdefault(change.memory.scope.tenant, set()).add(change.memory.id)
        elif isinstance(change, Erase):
            ids.setdefault(change.tenant, set()).update(change.ids)
        elif isinstance(change, Derive) and (change.terms is not None or change.relations is not None):
            ids.setdefault(change.tenant, set()).add(change.id)
    return ids
