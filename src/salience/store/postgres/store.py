"""The store on PostgreSQL: many processes, many tenants, each behind row-level security."""

from __future__ import annotations

import copy
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final, Self

from sqlalchemy import Connection

from salience.batch import Batch, Vectors32
from salience.errors import DamagedError, InputError, PinnedError, Words
from salience.ports import (
    Add,
    Adopt,
    Answered,
    Change,
    Count,
    Derive,
    Distinguish,
    Erase,
    Model,
    Need,
    Revise,
    Stored,
    Touch,
)
from salience.records import Filter, Finding, Memory, OutOfScope, Receipt, Scope
from salience.store import sql_store
from salience.store import statements as shared
from salience.store.index import Activations, Index, gather, speakers
from salience.store.pins import Handle, Meta, keep, pinning
from salience.store.postgres import admin, checking, search, statements
from salience.store.postgres.cache import (
    ScopeIndexes,
    ScopeSizes,
    TenantState,
    advance,
    index_as_of,
    list_tenants,
    read_state,
    void,
)
from salience.store.postgres.connection import (
    EXCLUSIVE,
    SHARED,
    Address,
    Runner,
    all_tenants,
    create_pool,
    mapped,
    switch_tenant,
)
from salience.store.postgres.statements import VectorIndex
from salience.store.sql_store import WRITERS, SQLAlchemyExecutor, Transaction, grouped, patience, tenant_of
from salience.store.values import carries_vectors, count_changed, derives_vectors
from salience.store.values import counted as check_counts

LOOK_AGAIN: Final = 10.0
"""Seconds after which a search checks again for a vector index."""
_WRITE_STATE: Final = """
    SELECT (SELECT json_object_agg(name, value) FROM meta), max(id),
        EXISTS (SELECT 1 FROM memories WHERE tenant = %(tenant)s AND vector IS NULL)
        OR EXISTS (SELECT 1 FROM versions WHERE tenant = %(tenant)s AND vector IS NULL)
    FROM memories WHERE tenant = %(tenant)s"""
"""The store's meta, the tenant's greatest id, and whether a version of it has no vector."""


class PostgresStore:
    """Memories in a PostgreSQL database; created by `open`.

    Every transaction sets its tenant, and row-level security hides the rows of all others. Writers of one tenant wait
    for each other; readers and writers of other tenants do not.
    """

    def __init__(
        self,
        runner: Runner,
        where: str,
        model: Model,
        language: str,
        busy_timeout: float,
        exact_rows: int,
        cached_rows: int,
    ) -> None:
        self._runner = runner
        self._where = where
        self._handle = Handle(model, where)
        self._language = language
        self._busy_timeout = busy_timeout
        self._exact_rows = exact_rows
        self._indexes = ScopeIndexes(exact_rows, cached_rows)
        self._sizes = ScopeSizes()
        self._vectors: tuple[float, VectorIndex | None] = (0.0, None)
        self._embedded = set[str | None]()  # tenants whose last write left no memory without a vector

    @classmethod
    def open(
        cls,
        dsn: str,
        *,
        embedder: str,
        dimension: int,
        language: str,
        busy_timeout: float = 30.0,
        statement_timeout: float = 60.0,
        pool_size: int = 10,
        exact_rows: int = 5_000,
        cached_rows: int = 100_000,
        prepares: bool = True,
        distinguish: Distinguish | None = None,
        fingerprint: Callable[[], Vectors32] | None = None,
        moving: bool = False,
        create: bool = True,
    ) -> Self:
        """Return the store in a database; create missing tables.

        Args:
            dsn: `postgresql://user:password@host:port/database`.
            embedder: name of the embedder; pinned by the first write.
            dimension: length of a vector; pinned.
            language: language of the terms; pinned.
            busy_timeout: seconds to wait for a lock, a connection of the pool, or an unreachable server.
            statement_timeout: maximum seconds of a statement.
            pool_size: maximum connections of this store.
            exact_rows: visible memories up to which each is scored; above that, indexes find the candidates.
            cached_rows: maximum rows in memory, of all scopes together.
            prepares: whether to use prepared statements; some poolers lose them.
            distinguish: returns the distinctions of memories of older revisions.
            fingerprint: as in `Model`; pinned with the first vector.
            moving: whether the database may be pinned to another model, which this one will replace.
            create: whether to create missing tables; if not, they are a `StoreError`.

        Raises:
            InputError: an invalid DSN.
            NotAStoreError: the database has no pgvector.
            VersionError: the tables are of another revision.
            PinnedError: the store was written with another embedder, dimension or language.
            StoreError: the database cannot be reached.
        """
        address = Address.parse(dsn)
        where, engine = address.name, create_pool(address, pool_size, busy_timeout, prepares=prepares)
        try:
            with mapped(where):
                found = admin.ready(engine, where, distinguish, create=create)
            runner = Runner(engine, where, found.session(statement_timeout), busy_timeout)
            model = Model(embedder, dimension, fingerprint)
            store = cls(runner, where, model, language, busy_timeout, exact_rows, cached_rows)
            store._refuse_other(moving)
        except BaseException:
            engine.dispose()
            raise
        return store

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
            self._handle.own()  # before any lock: it may call a provider
        moved = Counter(dict.fromkeys(sorted({tenant_of(change) for change in changes} - {""}), 0))
        moved.update(tenant_of(change) for change in changes if not isinstance(change, Touch) and tenant_of(change))
        write = _Write(self._handle, self._language, changes, {name: max(1, steps) for name, steps in moved.items()})
        first = None if adopts else next(iter(moved), "")
        run = partial(self._runner.write, first, steps=write.steps.get(first or "", 0))
        waits = patience(changes, self._busy_timeout)
        try:
            receipts, embedded = run(partial(write.make, counted, adopts), waits, lock=EXCLUSIVE if adopts else SHARED)
        except _NeedsExclusiveLock:  # the first write pins the store, without other writers
            receipts, embedded = run(partial(write.make, counted, True), waits, lock=EXCLUSIVE)
        if embedded is not None:
            self._embedded.add(embedded)
        return receipts

    def gather(self, need: Need) -> Batch:
        """Return the candidates as columns, rows ordered by id.

        If few memories are visible, all are candidates. Otherwise the vector index finds the nearest and the postings
        find the holders of rare terms, and the batch is not `complete`.

        Raises:
            PinnedError: vectors of another model; `MovedError` if the pin changed after the store was opened.
            StoreError: the store is closed, or cannot be read.
        """
        directed = need.vector is not None or need.near is not None

        def read(reader: Connection) -> tuple[Meta, Callable[[], Batch] | None]:
            meta, state = read_state(reader, need.scope.tenant)
            if directed and not self._handle.owns(meta.pin()):
                return meta, None
            dimension, activations = self._dimension(meta), self._activations(reader, need)
            index = self._index(reader, need.scope, dimension, state, need.as_of)
            if index is not None:
                return meta, partial(gather, index, need, activations)
            size, vectors = partial(self._sizes.of, reader, need.scope, state), self._vector_index(reader, dimension)
            answer = search.Search(reader, need, vectors, self._exact_rows, size, state.has_pending).run()
            return meta, partial(answer, activations)

        meta, answer = self._runner.read(need.scope.tenant, read)
        if directed:
            self._handle.admit(meta.pin())  # after the transaction: it may call a provider
        assert answer is not None  # noqa: S101 - `admit` has raised
        return answer()

    def _vector_index(self, reader: Connection, dimension: int) -> VectorIndex:
        """Return the properties of the vector index, at most `LOOK_AGAIN` seconds old."""
        until, known = self._vectors
        if known is None or known.dimension != dimension or time.monotonic() > until:
            known = search.vector_index(reader, dimension)
            self._vectors = (time.monotonic() + LOOK_AGAIN, known)
        return known

    def _activations(self, reader: Connection, need: Need) -> Activations:
        if "turns_since_activation" not in need.columns or need.scope.session_key is None or need.as_of is not None:
            return Activations()
        return sql_store.session_activations(reader, need.scope.tenant, need.scope.session_key)

    def _index(
        self, reader: Connection, scope: Scope, dimension: int, state: TenantState, as_of: datetime | None
    ) -> Index | None:
        """Return an index of the visible memories; None if there are too many at present."""
        if as_of is not None:
            return index_as_of(reader, scope, dimension, as_of)
        return self._indexes.of(reader, scope, state, dimension)

    def fetch(self, scope: Scope, ids: Sequence[str], *, as_of: datetime | None = None) -> list[Memory]:
        """Return the live visible memories of whole or short ids, in their order; absent ids are left out."""
        return self._runner.read(scope.tenant, lambda reader: sql_store.fetch(reader, scope, ids, as_of))

    def speakers(self, scope: Scope, names: Sequence[str], *, as_of: datetime | None = None) -> list[str]:
        """Return the speakers of live visible memories that match one of the names, sorted and distinct."""

        def read(reader: Connection) -> list[str] | Index:
            if as_of is None and self._indexes.was_large(scope):
                return search.speakers(reader, scope, names)
            meta, state = read_state(reader, scope.tenant)
            index = self._index(reader, scope, self._dimension(meta), state, as_of)
            return search.speakers(reader, scope, names) if index is None else index

        found = self._runner.read(scope.tenant, read)
        return found if isinstance(found, list) else speakers(found, scope, names)

    def keyed(self, home: Scope, keys: Sequence[str]) -> list[Memory]:
        """Return the memories at `home` under these idempotency keys, forgotten ones too, in any order."""
        return self._runner.read(home.tenant, lambda reader: sql_store.keyed(reader, home, keys))

    def answered(self, home: Scope, key: str) -> Answered | None:
        """Return the recorded request from `home` under an idempotency key; None if there is none."""
        return self._runner.read(home.tenant, lambda reader: sql_store.answered(reader, home, key))

    def scan(
        self,
        scope: Scope,
        after: str = "",
        limit: int = 100,
        filter: Filter = Filter(),
        *,
        forgotten: bool = False,
        versions: bool = False,
        passed: list[DamagedError] | None = None,
    ) -> list[Stored]:
        """Return up to `limit` visible memories with ids greater than `after`, in the order of ids."""
        work = partial(sql_store.scan, forgotten=forgotten, versions=versions, passed=passed)
        return self._runner.read(scope.tenant, lambda reader: work(reader, scope, after, limit, filter))

    def history(self, scope: Scope, id: str) -> list[Stored]:
        """Return the versions of the visible memory with a whole or short id, live or not."""
        return self._runner.read(scope.tenant, lambda reader: sql_store.history(reader, scope, id))

    def out_of_scope(self, scope: Scope, limit: int = 5) -> list[OutOfScope]:
        """Return the places with the most live memories that only `scope.widened()` sees, with their counts."""
        query = shared.out_of_scope(scope, limit)
        found = self._runner.read(scope.tenant, lambda reader: reader.execute(query).all())
        return [OutOfScope(Scope(scope.tenant, *home), count) for *home, count in found]

    def counts(self, scope: Scope) -> list[Count]:
        """Return the number of live visible memories for each combination of values, in any order."""
        return self._runner.read(scope.tenant, lambda reader: sql_store.counts_by(reader, scope))

    def unembedded(
        self, after: tuple[str, str, int] = ("", "", 0), limit: int = 100, *, tenant: str | None = None
    ) -> list[Stored]:
        """Return up to `limit` versions without a vector of this handle's model, of all tenants or one, in order."""
        if tenant in self._embedded:
            self._embedded.discard(tenant)
            return []  # the last write has checked this
        meta = self._runner.read(tenant, Meta.read)
        # outside a transaction: it may call a provider
        queries = sql_store.without_vector(meta, self._handle, after, limit, tenant)
        return self._runner.read(tenant, lambda reader: sql_store.unembedded(reader, queries, limit))

    def under(self, model: Model) -> Self:
        """Return a handle on this store for an engine that embeds with `model`."""
        made = copy.copy(self)
        made._handle = Handle(model, self._where)
        return made

    @property
    def moved(self) -> bool:
        """Whether the store has been pinned to another model since this handle was created."""
        return self._handle.moved

    def tenants(self) -> dict[str, int]:
        """Return tenant -> number of its memories, forgotten ones included."""
        return self._runner.read(None, sql_store.tenants)

    def pinned(self) -> Model | None:
        """Return the pinned model, with any known fingerprint; None before the first memory."""
        pin = self._runner.read(None, Meta.read).pin()
        return None if pin is None else pin.model()

    def check(self, *, repair: bool = False) -> list[Finding]:
        """Return the problems of the tables and indexes, repaired if `repair` is set and there is a repair.

        Raises:
            StoreError: the tables cannot be read, or not be written for a repair.
        """
        if repair:
            return self._runner.write(None, lambda writer, _: checking.check(writer, repair=True), self._busy_timeout)
        return self._runner.read(None, checking.check)

    def backup(self, path: str, progress: Callable[[int, int], None] | None = None, *, overwrite: bool = False) -> None:
        """Raise `InputError`, which names the tools of PostgreSQL for backups."""
        remedy = f"Run: pg_dump --format=custom --file={path} {self._where}, or salience copy {self._where} {path}"
        raise InputError("backup", Words(self._where), remedy, "is for a file, and this store is on PostgreSQL")

    def connections(self) -> dict[str, int]:
        """Return the number of connections by state: `in_use`, `idle`."""
        return self._runner.connections()

    def close(self) -> None:
        """Close the connections; further calls raise `StoreError`."""
        self._indexes.clear()
        self._runner.close()

    def _refuse_other(self, moving: bool) -> None:
        """Raise `PinnedError` if the store is pinned to another language or model."""
        meta = self._runner.read(None, Meta.read)
        language = meta.values.get("language", self._language)
        if language != self._language:
            raise PinnedError(
                f"store: {self._where} was written for the language {language!r}, not for {self._language!r}. "
                f"Set SALIENCE_LANGUAGE={language}, or name a new database."
            )
        if not moving:
            self._handle.claim(meta.pin())

    def _dimension(self, meta: Meta) -> int:
        return (meta.pin() or self._handle.bare()).dimension


class _NeedsExclusiveLock(Exception):  # noqa: N818 - never leaves this module
    """The write has to pin the store to a model or language."""


@dataclass(frozen=True, slots=True)
class _Write:
    """Changes of one transaction.

    Attributes:
        handle: handle of the store.
        language: language of the terms.
        changes: the changes.
        steps: tenant -> increase of its change sequence; sorted, so that all writers lock tenants in one order.
    """

    handle: Handle
    language: str
    changes: Sequence[Change]
    steps: Mapping[str, int]

    def make(
        self, counted: bool, is_exclusive: bool, connection: Connection, sequence: int
    ) -> tuple[list[Receipt], str | None]:
        """Make the changes; return receipts, and the tenant if all its memories have vectors.

        Raises:
            _NeedsExclusiveLock: the changes pin the store, and the lock is shared.
        """
        first = next(iter(self.steps), "")
        last_ids: dict[str, str | None] = {}
        embedded = None
        if not all(isinstance(change, Touch) for change in self.changes):
            if sequence:
                values, last_ids[first], lacks = connection.exec_driver_sql(_WRITE_STATE, {"tenant": first}).one()
                meta = Meta(values or {})
            else:
                meta, lacks = Meta.read(connection), True
            self._pin(connection, meta, is_exclusive)
            if not lacks and carries_vectors(self.changes) and _all_embedded(self.changes):
                embedded = first
        return self._apply(connection, {first: sequence} if sequence else {}, last_ids, counted), embedded

    def _pin(self, connection: Connection, meta: Meta, is_exclusive: bool) -> None:
        """Admit the vectors of the changes, and pin a new store to the model and language."""
        brings = carries_vectors(self.changes)
        if brings:
            self.handle.admit(meta.pin())
        own = self.handle.own() if brings or derives_vectors(self.changes) else self.handle.bare()
        pins = {"language": self.language, **pinning(meta.pin(), own, self.changes)}
        new = {name: value for name, value in pins.items() if meta.values.get(name) != value}
        if new and not is_exclusive:
            raise _NeedsExclusiveLock
        keep(connection, new)

    def _enter(self, connection: Connection, tenant: str) -> None:
        """Switch to a tenant, if the transaction has several and does not see all."""
        if len(self.steps) > 1 and not self._adopts:
            switch_tenant(connection, tenant)

    @property
    def _adopts(self) -> bool:
        return any(isinstance(change, Adopt) for change in self.changes)

    def _apply(
        self, connection: Connection, sequences: dict[str, int], last_ids: Mapping[str, str | None], counted: bool
    ) -> list[Receipt]:
        """Make the changes, and update the postings."""
        for tenant, steps in self.steps.items():
            if tenant not in sequences:
                self._enter(connection, tenant)
                sequences[tenant] = advance(connection, tenant, steps)
        before = self._counts(connection) if counted else (0, 0)
        posted: dict[str, statements.Posted] = {}
        for tenant, ids in _reindexed(change for change in self.changes if not isinstance(change, Add)).items():
            self._enter(connection, tenant)
            posted[tenant] = statements.due_postings(connection, tenant, ids)
        transaction = Transaction(
            connection,
            SQLAlchemyExecutor(connection),
            self.handle,
            sequence=sequences.__getitem__,
            void=partial(void, connection),
            pruned=lambda tenant, _: void(connection, tenant),
            indexed=statements.indexed,
            of_all=nullcontext if self._adopts else partial(all_tenants, connection),
            tenants=partial(list_tenants, connection),
            last_ids=last_ids,
        )
        receipts: list[Receipt] = []
        for kind, tenant, group in grouped(self.changes):
            if tenant:
                self._enter(connection, tenant)
            receipts += WRITERS[kind](transaction, tenant, group)
        for tenant, ids in _reindexed(self.changes).items():
            self._enter(connection, tenant)
            statements.repost(connection, tenant, ids, posted.get(tenant, frozenset()))
        if counted:
            check_counts(before, self._counts(connection), count_changed(self.changes, receipts))
        return receipts

    def _counts(self, connection: Connection) -> tuple[int, int]:
        """Return the numbers of memories and of older versions of the tenants."""
        memories, versions = 0, 0
        for tenant in self.steps:
            self._enter(connection, tenant)
            held, older = sql_store.counts(connection, [tenant])
            memories, versions = memories + held, versions + older
        return memories, versions


def _all_embedded(changes: Sequence[Change]) -> bool:
    """Return whether the changes add no version without a vector."""
    return all(
        all(stored.vector is not None for stored in (change.stored, *change.history))
        if isinstance(change, Add)
        else isinstance(change, Touch | Answered) or (isinstance(change, Revise) and not change.unembeds)
        for change in changes
    )


def _reindexed(changes: Iterable[Change]) -> dict[str, set[str]]:
    """Return tenant -> ids of memories whose postings may change."""
    ids: dict[str, set[str]] = {}
    for change in changes:
        if isinstance(change, Add):
            memory = change.stored.memory
            ids.setdefault(memory.scope.tenant, set()).add(memory.id)
        elif isinstance(change, Revise):
            ids.setdefault(change.memory.scope.tenant, set()).add(change.memory.id)
        elif isinstance(change, Derive) and change.terms is not None:
            ids.setdefault(change.tenant, set()).add(change.id)
        elif isinstance(change, Erase):
            ids.setdefault(change.tenant, set()).update(change.ids)
    return ids
