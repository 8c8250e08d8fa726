"""The store on PostgreSQL: many processes, many tenants, each behind row-level security."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import datetime
from functools import partial
from typing import Self

from sqlalchemy import Connection

from salience.batch import Batch, Vectors32
from salience.errors import DamagedError, InputError, PinnedError, Words
from salience.ports import Adopt, Answered, Change, Distinguish, Model, Need, Stored, Touch
from salience.records import Filter, Finding, Memory, OutOfScope, Receipt, Scope
from salience.store import reading, sql
from salience.store.index import Activations, Index, gather, speakers
from salience.store.maintain import make, runs
from salience.store.meta import Meta, keep, pinning
from salience.store.pins import Handle
from salience.store.postgres import arenas, books, checking, opening, search, standing, statements, tokens, words
from salience.store.postgres.arenas import Arenas
from salience.store.postgres.books import Books
from salience.store.postgres.keys import indexed
from salience.store.postgres.locks import alone, shared
from salience.store.postgres.running import Runner
from salience.store.postgres.sizes import Sizes
from salience.store.postgres.statements import VectorIndex
from salience.store.values import carries_vectors, count_changed, derives_vectors
from salience.store.values import counted as check_counts
from salience.store.write import Through, Transaction, patience, tenant_of


class PostgresStore:
    """Memories in a PostgreSQL database; made by `open`.

    Every statement runs in a transaction that says whose rows it is about, so that row-level security keeps all others
    out. A tenant's writers take turns; tenants do not wait for each other, and readers for nobody.
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
        self._arenas = Arenas(exact_rows, cached_rows)
        self._sizes = Sizes()

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
        """Return the store in a database; one without tables gets them.

        Args:
            dsn: `postgresql://user:password@host:port/database`.
            embedder: name of the embedder that the vectors come from; pinned by the first write.
            dimension: length of a vector; pinned.
            language: language of the terms; pinned.
            busy_timeout: seconds to wait for a lock, a connection of the pool, or a server that is away.
            statement_timeout: seconds that one statement may take.
            pool_size: most connections of this store at a time.
            exact_rows: visible memories up to which each is scored; of more, an index brings the candidates.
            cached_rows: rows that this process keeps in memory, of all scopes together.
            prepares: whether the server keeps statements that come again; False behind a pooler that cannot.
            distinguish: gives memories of older revisions their distinctions.
            fingerprint: as in `Model`; pinned with the first vector.
            moving: whether the database may be pinned to another model, which this one is to replace.
            create: whether a database without tables gets them; a `StoreError` if not.

        Raises:
            InputError: a DSN that is none.
            NotAStoreError: the database has no pgvector.
            VersionError: its tables are of another revision than this code's.
            PinnedError: it was written with another embedder, dimension or language.
            StoreError: it cannot be reached.
        """
        place = opening.place(dsn)
        where = opening.named(place)
        engine = opening.engine(place, pool_size, busy_timeout, prepares=prepares)
        try:
            with opening.mapped(where):
                found = standing.ready(engine, where, distinguish, create=create)
            runner = Runner(engine, where, found.rules(statement_timeout), busy_timeout)
            model = Model(embedder, dimension, fingerprint)
            store = cls(runner, where, model, language, busy_timeout, exact_rows, cached_rows)
            store._refuse_other(moving)
        except BaseException:
            engine.dispose()
            raise
        return store

    def apply(self, changes: Sequence[Change], *, counted: bool = False) -> list[Receipt]:
        """Make all changes in one transaction or none; return a receipt for each `Add` and `Revise`, in order.

        When it returns, the changes are on the server's disk, as far as its `synchronous_commit` says so.

        Raises:
            ConflictError: an idempotency key or id that stands for other content; `StaleError` for a stale revision.
            PinnedError: vectors of another model than the store is pinned to; `MovedError` if that came meanwhile.
            BusyError: another transaction kept the tenant locked for longer than the timeout.
            StoreError: the store is closed or cannot be written, or a count is not what the changes make it.
        """
        if not changes:
            self._runner.check_open()
            return []
        adopts = any(isinstance(change, Adopt) for change in changes)
        if adopts or carries_vectors(changes) or derives_vectors(changes):
            self._handle.own()  # before any lock: it may ask a provider
        tenants = sorted({tenant_of(change) for change in changes} - {""})
        first = None if adopts else next(iter(tenants), "")
        waits = patience(changes, self._busy_timeout)
        work = partial(self._make, changes, tenants, counted, adopts)
        receipts = self._runner.write(first, work, waits)
        if receipts is None:  # the first write of a store pins it, with nobody else at work
            receipts = self._runner.write(first, partial(work, is_alone=True), waits)
        assert receipts is not None  # noqa: S101 - alone, it pins
        return receipts

    def _make(
        self,
        changes: Sequence[Change],
        tenants: Sequence[str],
        counted: bool,
        adopts: bool,
        connection: Connection,
        is_alone: bool = False,
    ) -> list[Receipt] | None:
        """Make changes in a transaction; None, and nothing is written, where that needs a store to itself."""
        (alone if adopts or is_alone else shared)(connection)
        meta = Meta.read(connection)
        brings = carries_vectors(changes)
        if brings:
            self._handle.admit(meta.pin())
        own = self._handle.own() if brings or derives_vectors(changes) else self._handle.bare()
        first = {"language": self._language, **pinning(meta.pin(), own, changes)}
        new = {name: value for name, value in first.items() if meta.values.get(name) != value}
        if new and not (adopts or is_alone):
            return None
        keep(connection, new)
        return self._written(connection, changes, tenants, counted, adopts)

    def _written(
        self, connection: Connection, changes: Sequence[Change], tenants: Sequence[str], counted: bool, adopts: bool
    ) -> list[Receipt]:
        """Make changes in a transaction, in which nothing stands in their way, with the words that they come to."""
        enter = partial(self._runner.enter, connection) if len(tenants) > 1 and not adopts else stay
        moved = Counter(tenant_of(change) for change in changes if not isinstance(change, Touch))
        sequences = {tenant: taken(connection, tenant, enter, max(1, moved[tenant])) for tenant in tenants}
        before = counts(connection, tenants, enter) if counted else (0, 0)
        posted: dict[str, words.Posted] = {}
        for tenant, ids in words.existing(changes).items():
            enter(tenant)
            posted[tenant] = words.due(connection, tenant, ids)
        transaction = Transaction(
            connection,
            Through(connection),
            self._handle,
            sequence=sequences.__getitem__,
            void=partial(books.void, connection),
            pruned=lambda tenant, _: books.void(connection, tenant),
            indexed=indexed,
            of_all=nullcontext if adopts else partial(self._runner.operating, connection),
            tenants=partial(books.tenants, connection),
        )
        receipts: list[Receipt] = []
        for kind, tenant, run in runs(changes):
            if tenant:
                enter(tenant)
            receipts += make(transaction, kind, tenant, run)
        for tenant, ids in words.changed(changes).items():
            enter(tenant)
            words.repost(connection, tenant, ids, posted.get(tenant, frozenset()))
        if counted:
            check_counts(before, counts(connection, tenants, enter), count_changed(changes, receipts))
        return receipts

    def gather(self, need: Need) -> Batch:
        """Return the candidates as columns, rows ordered by id.

        Where few memories are visible, each is a candidate that the need may mean; of many, an index brings those that
        are near, and another those that hold the rarer terms, and the batch is not `complete`.

        Raises:
            PinnedError: vectors of another model than the store is pinned to; `MovedError` if that came meanwhile.
            StoreError: the store is closed, or cannot be read.
        """
        directed = need.vector is not None or need.near is not None

        def read(reader: Connection) -> tuple[Meta, Callable[[], Batch] | None]:
            meta = Meta.read(reader)
            if directed and not self._handle.owns(meta.pin()):
                return meta, None
            activations = self._activations(reader, need)
            now = Books.read(reader, meta, need.scope.tenant)
            arena = self._arena(reader, need.scope, self._dimension(meta), now, need.as_of)
            if arena is not None:
                return meta, partial(gather, arena, need, activations)
            return meta, partial(self._search(reader, need, self._dimension(meta), now), activations)

        meta, answer = self._runner.read(need.scope.tenant, read)
        if directed:
            self._handle.admit(meta.pin())  # after the transaction: it may ask a provider
        assert answer is not None  # noqa: S101 - what is not the handle's own was not admitted
        return answer()

    def _search(self, reader: Connection, need: Need, dimension: int, now: Books) -> Callable[[Activations], Batch]:
        """Return what answers a need out of what the indexes brought."""
        is_half, version = reader.execute(statements.vector_index()).one()
        index = VectorIndex(dimension, is_half, standing.numbers(version) >= standing.GOING_ON)
        size = partial(self._sizes.of, reader, need.scope, now)
        return search.brought(reader, need, index, self._exact_rows, size)

    def _activations(self, reader: Connection, need: Need) -> Activations:
        if "turns_since_activation" not in need.columns or need.scope.session_key is None or need.as_of is not None:
            return Activations()
        return reading.activations(reader, need.scope.tenant, need.scope.session_key)

    def _arena(
        self, reader: Connection, scope: Scope, dimension: int, now: Books, as_of: datetime | None
    ) -> Index | None:
        """Return the arena of what is visible in `scope`; None where it is too much at present."""
        if as_of is not None:
            return arenas.then(reader, scope, dimension, as_of)
        return self._arenas.of(reader, scope, now, dimension)

    def fetch(self, scope: Scope, ids: Sequence[str], *, as_of: datetime | None = None) -> list[Memory]:
        """Return the live memories of these ids (whole or short) visible in `scope`, as asked, absent ones left out."""
        return self._runner.read(scope.tenant, lambda reader: reading.fetch(reader, scope, ids, as_of))

    def speakers(self, scope: Scope, names: Sequence[str], *, as_of: datetime | None = None) -> list[str]:
        """Return who said live memories visible in `scope` and is meant by one of some names, sorted and distinct."""

        def read(reader: Connection) -> list[str] | Index:
            meta = Meta.read(reader)
            now = Books.read(reader, meta, scope.tenant)
            arena = self._arena(reader, scope, self._dimension(meta), now, as_of)
            return search.speakers(reader, scope, names) if arena is None else arena

        found = self._runner.read(scope.tenant, read)
        return found if isinstance(found, list) else speakers(found, scope, names)

    def keyed(self, home: Scope, keys: Sequence[str]) -> list[Memory]:
        """Return the memories, forgotten ones too, that live at `home` under these idempotency keys, in any order."""
        return self._runner.read(home.tenant, lambda reader: reading.keyed(reader, home, keys))

    def answered(self, home: Scope, key: str) -> Answered | None:
        """Return what was answered to a request from `home` under an idempotency key; None if none is known."""
        return self._runner.read(home.tenant, lambda reader: reading.answered(reader, home, key))

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
        """Return up to `limit` visible memories whose id is greater than `after`, in the order of ids."""
        work = partial(reading.scan, forgotten=forgotten, versions=versions, passed=passed)
        return self._runner.read(scope.tenant, lambda reader: work(reader, scope, after, limit, filter))

    def history(self, scope: Scope, id: str) -> list[Stored]:
        """Return the versions of the memory of an id (whole or short), live or not, visible in `scope`."""
        return self._runner.read(scope.tenant, lambda reader: reading.history(reader, scope, id))

    def out_of_scope(self, scope: Scope, limit: int = 5) -> list[OutOfScope]:
        """Return how many live memories each place has that `scope.widened()` shows and `scope` does not."""
        asked = sql.out_of_scope(scope, limit)
        found = self._runner.read(scope.tenant, lambda reader: reader.execute(asked).all())
        return [OutOfScope(Scope(scope.tenant, *home), count) for *home, count in found]

    def unembedded(self, after: tuple[str, str, int] = ("", "", 0), limit: int = 100) -> list[Stored]:
        """Return up to `limit` versions of all tenants without a vector of this handle's model, in order."""
        meta = self._runner.read(None, Meta.read)
        asked = reading.without_vector(meta, self._handle, after, limit)  # between: it may ask a provider
        return self._runner.read(None, lambda reader: reading.unembedded(reader, asked, limit))

    def under(self, model: Model) -> Self:
        """Return a handle on this store for an engine that embeds with `model`."""
        made = copy.copy(self)
        made._handle = Handle(model, self._where)
        return made

    @property
    def moved(self) -> bool:
        """Whether the store was found to be pinned to another model since this handle was made."""
        return self._handle.moved

    def tenants(self) -> dict[str, int]:
        """Return the number of memories of each tenant that has some, forgotten ones included."""
        return self._runner.read(None, reading.tenants)

    def pinned(self) -> Model | None:
        """Return the model that the store is pinned to, with any known fingerprint; None before its first memory."""
        pin = self._runner.read(None, Meta.read).pin()
        return None if pin is None else pin.model()

    def check(self, *, repair: bool = False) -> list[Finding]:
        """Return what is wrong with the tables, their numbers and indexes, mended where `repair` asks for it.

        Raises:
            StoreError: they cannot be read, or not be written where something is to be mended.
        """
        if repair:
            return self._runner.write(None, partial(checking.check, repair=True), self._busy_timeout)
        return self._runner.read(None, checking.check)

    def backup(self, path: str, progress: Callable[[int, int], None] | None = None, *, overwrite: bool = False) -> None:
        """Refuse: a server's own tools back it up.

        Raises:
            InputError: always; it names them.
        """
        remedy = f"Run: pg_dump --format=custom --file={path} {self._where}, or salience copy {self._where} {path}"
        raise InputError("backup", Words(self._where), remedy, "is for a file, and this store is on PostgreSQL")

    def connections(self) -> dict[str, int]:
        """Return how many connections stand, by their state: `in_use`, `idle`."""
        return self._runner.connections()

    def close(self) -> None:
        """Close the connections; further calls raise `StoreError`."""
        self._arenas.clear()
        self._runner.close()

    def _refuse_other(self, moving: bool) -> None:
        """Raise unless the store is pinned to this language and model, or not yet pinned."""
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


Enter = Callable[[str], None]
"""Lets a transaction go on with the rows of another tenant."""


def stay(_: str) -> None:
    """Enter nowhere: the rows at hand are those that are meant."""


def taken(connection: Connection, tenant: str, enter: Enter, steps: int) -> int:
    """Return the next change sequence of a tenant; those of a transaction are to be taken in the order of the names."""
    enter(tenant)
    sequence = books.take(connection, tenant, steps)
    tokens.sweep(connection, tenant, sequence, steps)
    return sequence


def counts(connection: Connection, tenants: Sequence[str], enter: Enter) -> tuple[int, int]:
    """Return how many memories and how many older versions some tenants have."""
    memories, versions = 0, 0
    for tenant in tenants:
        enter(tenant)
        held, older = reading.counts(connection, [tenant])
        memories, versions = memories + held, versions + older
    return memories, versions
