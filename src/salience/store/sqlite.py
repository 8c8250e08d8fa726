"""The embedded store: an SQLite file that many processes may share, or a database in memory, with an index in each."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final, Self

from sqlalchemy import Connection, Text, bindparam, func, select

from salience.batch import Batch, Vectors32
from salience.errors import BusyError, DamagedError, InputError, PinnedError, StoreError, Words
from salience.loading import uncollected
from salience.ports import Adopt, Answered, Change, Count, Distinguish, Erase, Model, Need, Stored
from salience.records import Filter, Finding, Memory, OutOfScope, Receipt, Scope
from salience.store import backup, integrity, sql_store, sqlite_file, statements
from salience.store.index import Activations, Index, gather, out_of_scope, speakers
from salience.store.pins import TRACES, Handle, Meta, Pin, keep, note_pruned, pinning, void
from salience.store.rows import STORED, damaged, to_stored
from salience.store.schema import memories
from salience.store.sql_store import WRITERS, Transaction, grouped, patience, rows_as_of
from salience.store.sqlite_file import Driver
from salience.store.values import carries_vectors, count_changed, derives_vectors, microseconds
from salience.store.values import counted as check_counts

MEMORY: Final = ":memory:"
"""Path of a store in memory, which ends with its handle."""
PART: Final = 5_000
"""Rows that are read into an index at a time."""
_OF_TENANT: Final = memories.c.tenant == bindparam("tenant", type_=Text)
_COUNT: Final = select(func.count()).select_from(memories).where(_OF_TENANT)
_LIVE: Final = (
    select(*(memories.c[name] for name in statements.INDEXED))
    .where(_OF_TENANT, memories.c.forgotten_at.is_(None))
    .order_by(memories.c.id)
)


@dataclass(frozen=True, slots=True)
class _Current:
    """A tenant's index, and the state of the database that it was read in.

    Attributes:
        index: of the tenant's memories.
        version: changes with every write; see `SQLiteStore._version`.
        meta: of that state.
    """

    index: Index
    version: tuple[int, int]
    meta: Meta


class SQLiteStore:
    """Memories in an SQLite file, or in memory; made by `open`.

    One connection writes and one reads, each behind a lock; in memory they are one. Searches of an index run outside
    the locks.
    """

    def __init__(
        self, path: str, model: Model, language: str, writer: Connection, reader: Connection, busy_timeout: float
    ) -> None:
        self._path = path
        self._identity = sqlite_file.identity(path)
        self._handle = Handle(model, path)
        self._language = language
        self._busy_timeout = busy_timeout
        self._writer = writer
        self._reader = reader
        self._write_driver = Driver(writer)
        self._read_driver = self._write_driver if reader is writer else Driver(reader)
        self._writing = threading.Lock()
        self._reading = self._writing if reader is writer else threading.Lock()
        self._log_is_due = threading.Event()
        self._current: dict[str, _Current] = {}
        self._past: dict[tuple[str, int], Index] = {}

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
        fingerprint: Callable[[], Vectors32] | None = None,
        moving: bool = False,
    ) -> Self:
        """Return the store in the file `path`, which is made if it is not there, its folder too; or in `MEMORY`.

        Args:
            path: the file.
            embedder: name of the embedder that the vectors come from; pinned by the first write.
            dimension: length of a vector; pinned.
            language: language of the terms; pinned.
            busy_timeout: seconds to wait for another process's write.
            distinguish: gives the memories of a file of revision 0001 their distinctions; None: they get none,
                and none of them counts as a near-duplicate.
            fingerprint: as in `Model`; pinned with the first vector.
            moving: whether the file may be pinned to another model, which this one is to replace.

        Raises:
            NotAStoreError: the file is something else.
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
            store = cls(path, model, language, writer, reader, busy_timeout)
            try:
                sqlite_file.ready(writer, reader, path, busy_timeout, distinguish)
                with reader.begin():
                    meta = Meta.read(reader)
                store._refuse_other(meta, moving)
                if meta.values.get(TRACES):
                    store._wipe()
            except BaseException:
                store.close()
                raise
        return store

    def apply(self, changes: Sequence[Change], *, counted: bool = False) -> list[Receipt]:
        """Make all changes in one transaction or none; return a receipt for each `Add` and `Revise`, in order.

        When it returns, the changes are on disk. Touches alone wait for another write no longer than
        `TOUCH_PATIENCE`: the recall that they belong to has its answer already.

        Raises:
            ConflictError: an idempotency key or id that stands for other content; `StaleError` for a stale revision.
            PinnedError: vectors of another model than the file is pinned to; `MovedError` if that came meanwhile.
            BusyError: another process kept the write lock for longer than the timeout.
            StoreError: the store is closed, the file cannot be written, or a count is not what the changes make it.
        """
        if not changes:
            self._check_closed()
            return []
        own = self._own_pin(changes)  # before the lock: it may ask a provider
        with self._write(patience(changes, self._busy_timeout)) as writer:
            receipts = self._make(writer, changes, own, counted)
        if any(isinstance(change, Erase) for change in changes):
            self._wipe()
        elif self._log_is_due.is_set():
            self._empty_log(0.0)
        return receipts

    def _own_pin(self, changes: Sequence[Change]) -> Pin:
        """Return the pin of this handle's model, with its fingerprint where the changes need it."""
        needed = carries_vectors(changes) or derives_vectors(changes)
        if needed or any(isinstance(change, Adopt) for change in changes):
            self._handle.own()
        return self._handle.own() if needed else self._handle.bare()

    def _make(self, writer: Connection, changes: Sequence[Change], own: Pin, counted: bool) -> list[Receipt]:
        """Make changes in the transaction that is begun."""
        meta = Meta(dict(self._write_driver.select(statements.META)))
        if carries_vectors(changes):
            self._handle.admit(meta.pin())
        sequence = meta.sequence + 1
        first = {"language": self._language, **pinning(meta.pin(), own, changes), "sequence": str(sequence)}
        traces = {TRACES: "due"} if any(isinstance(change, Erase) for change in changes) else {}
        new = {name: value for name, value in {**first, **traces}.items() if meta.values.get(name) != value}
        self._write_driver.run(statements.keep_meta(), [{"name": name, "value": value} for name, value in new.items()])
        before = sql_store.counts(writer) if counted else (0, 0)
        transaction = Transaction(
            writer,
            self._write_driver,
            self._handle,
            lambda _: sequence,
            lambda _: void(writer),
            partial(note_pruned, writer),
        )
        receipts = [
            receipt for kind, tenant, group in grouped(changes) for receipt in WRITERS[kind](transaction, tenant, group)
        ]
        if counted:
            check_counts(before, sql_store.counts(writer), count_changed(changes, receipts))
        return receipts

    def reached(self) -> int:
        """Return the change sequence of the last write that a read from now on sees."""
        with self._read():
            return Meta(dict(self._read_driver.select(statements.META))).sequence

    def gather(self, need: Need) -> Batch:
        """Return the candidates as columns, rows ordered by id.

        Raises:
            PinnedError: vectors of another model than the file is pinned to; `MovedError` if that came meanwhile.
            StoreError: the store is closed, or the file cannot be read.
        """
        tenant, session_key = need.scope.tenant, need.scope.session_key
        activations = Activations()
        if need.as_of is not None:
            index, meta = self._then(tenant, need.as_of)
        elif "turns_since_activation" in need.columns and session_key is not None:
            with self._transaction() as reader:
                current = self._refreshed(tenant)
                index, meta = current.index, current.meta
                activations = sql_store.session_activations(reader, tenant, session_key)
        else:
            with self._read():
                current = self._latest(tenant)
                index, meta = current.index, current.meta
        if need.vector is not None or need.near is not None:
            self._handle.admit(meta.pin())  # after the lock: it may ask a provider
        return gather(index, need, activations)

    def fetch(self, scope: Scope, ids: Sequence[str], *, as_of: datetime | None = None) -> list[Memory]:
        """Return the live memories of these ids (whole or short) visible in `scope`, as asked, absent ones left out."""
        if as_of is None and sql_store.are_whole(ids):
            with self._read():
                return sql_store.in_order(ids, self._read_driver.found(*statements.live_of(scope, ids)))
        with self._transaction() as reader:
            return sql_store.fetch(reader, scope, ids, as_of)

    def speakers(self, scope: Scope, names: Sequence[str], *, as_of: datetime | None = None) -> list[str]:
        """Return who said live memories visible in `scope` and is meant by one of some names, sorted and distinct."""
        if as_of is not None:
            return speakers(self._then(scope.tenant, as_of)[0], scope, names)
        with self._read():
            index = self._latest(scope.tenant).index
        return speakers(index, scope, names)

    def keyed(self, home: Scope, keys: Sequence[str]) -> list[Memory]:
        """Return the memories, forgotten ones too, that live at `home` under these idempotency keys, in any order."""
        with self._transaction() as reader:
            return sql_store.keyed(reader, home, keys)

    def answered(self, home: Scope, key: str) -> Answered | None:
        """Return what was answered to a request from `home` under an idempotency key; None if none is known."""
        with self._transaction() as reader:
            return sql_store.answered(reader, home, key)

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
        with self._transaction() as reader:
            return sql_store.scan(
                reader, scope, after, limit, filter, forgotten=forgotten, versions=versions, passed=passed
            )

    def history(self, scope: Scope, id: str) -> list[Stored]:
        """Return the versions of the memory of an id (whole or short), live or not, visible in `scope`."""
        with self._transaction() as reader:
            return sql_store.history(reader, scope, id)

    def out_of_scope(self, scope: Scope, limit: int = 5) -> list[OutOfScope]:
        """Return how many live memories each place has that `scope.widened()` shows and `scope` does not."""
        with self._read():
            index = self._latest(scope.tenant).index
        return out_of_scope(index, scope, limit)

    def counts(self, scope: Scope) -> list[Count]:
        """Return the numbers of live memories visible in `scope`, one for each combination of values, in any order."""
        with self._transaction() as reader:
            return sql_store.counts_by(reader, scope)

    def unembedded(
        self, after: tuple[str, str, int] = ("", "", 0), limit: int = 100, *, tenant: str | None = None
    ) -> list[Stored]:
        """Return up to `limit` versions of all tenants without a vector of this handle's model, in order."""
        with self._read():
            meta = Meta(dict(self._read_driver.select(statements.META)))
            lacks = self._read_driver.select(statements.LACKING)
        if not lacks and self._handle.is_known(meta.pin()):  # as after most writes
            return []
        asked = sql_store.without_vector(
            meta, self._handle, after, limit, tenant
        )  # outside the lock: may ask a provider
        with self._transaction() as reader:
            return sql_store.unembedded(reader, asked, limit)

    def under(self, model: Model) -> Self:
        """Return a handle on this store for an engine that embeds with `model`."""
        made = copy.copy(self)
        made._handle = Handle(model, self._path)
        return made

    @property
    def moved(self) -> bool:
        """Whether the store was found to be pinned to another model since this handle was made."""
        return self._handle.moved

    def tenants(self) -> dict[str, int]:
        """Return the number of memories of each tenant that has some, forgotten ones included."""
        with self._transaction() as reader:
            return sql_store.tenants(reader)

    def pinned(self) -> Model | None:
        """Return the model that the store is pinned to, with any known fingerprint; None before its first memory."""
        with self._transaction() as reader:
            pin = Meta.read(reader).pin()
        return None if pin is None else pin.model()

    def check(self, *, repair: bool = False) -> list[Finding]:
        """Return what is wrong with the file, its tables and their numbers, mended where `repair` asks for it.

        Raises:
            StoreError: the file cannot be read, or not be written where something is to be mended.
        """
        if repair:
            with self._write(self._busy_timeout) as writer:
                return integrity.check(writer, repair=True)
        with self._transaction() as reader:
            return integrity.check(reader)

    def backup(self, path: str, progress: Callable[[int, int], None] | None = None, *, overwrite: bool = False) -> None:
        """Write a copy of the file, as it stands at one instant, to a new file, while others read and write.

        Raises:
            InputError: a file is there and may not be replaced, or is no store; or none can be made; or this store is
                in memory.
            StoreError: the store cannot be read.
        """
        if self._path == MEMORY:
            given, remedy = Words("a copy of a store in memory"), "Use export, or connect to a file."
            raise InputError("file", given, remedy, "cannot hold a store in memory")
        self._check_open()
        with sqlite_file.mapped(self._path):
            backup.backup(self._path, path, progress, overwrite=overwrite)

    def close(self) -> None:
        """Release the file, which is then one file; further calls raise `StoreError`."""
        with ExitStack() as locks:
            for lock in {self._writing, self._reading}:
                locks.enter_context(lock)
            self._forget(*self._current)
            self._writer.close()
            self._reader.close()

    # The locks and the index

    @contextmanager
    def _write(self, seconds: float) -> Iterator[Connection]:
        """Begin a write once no other is under way, in this process or another, within some seconds."""
        if not self._writing.acquire(timeout=seconds):
            raise BusyError(f"store: {self._path}: another thread kept writing to it. Try again.")
        try:
            with sqlite_file.mapped(self._path):
                self._check_open()
                self._write_driver.wait_at_most(seconds)
                with self._write_driver.begun():
                    yield self._writer
        finally:
            self._writing.release()

    @contextmanager
    def _read(self) -> Iterator[None]:
        """Use the reader, outside a transaction."""
        with self._reading, sqlite_file.mapped(self._path):
            self._check_open()
            yield

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """Begin a transaction of the reader."""
        with self._read(), self._read_driver.begun(writes=False):
            yield self._reader

    def _version(self) -> tuple[int, int]:
        """Return two numbers that tell whether something was written since: by others, and on the same connection."""
        ((others,),) = self._read_driver.select("PRAGMA data_version")
        return int(others), self._read_driver.changes

    def _latest(self, tenant: str) -> _Current:
        """Return the tenant's index as the database now is; a transaction begins only after a write."""
        current = self._current.get(tenant)
        if current is not None and current.version == self._version():
            return current
        with self._read_driver.begun(writes=False):
            return self._refreshed(tenant)

    def _refreshed(self, tenant: str) -> _Current:
        """Return the tenant's index as of the reader's transaction."""
        before, version = self._current.get(tenant), self._version()
        if before is not None and before.version == version:
            return before
        meta = Meta(dict(self._read_driver.select(statements.META)))
        self._forget()  # indexes of the past
        try:
            if before is not None and self._goes_on(before, meta):
                index = before.index
                values = {"tenant": tenant, "sequence": index.sequence}
                for rows in self._read_driver.parts(statements.newer(), values, PART):
                    index = index.refreshed(rows)
                index = index.refreshed([], meta.sequence)
                if index.views is not before.index.views:
                    before.index.views.clear()  # each view refers to its index
            else:
                self._forget(tenant)
                index = self._loaded(tenant, meta)
        except DamagedError as error:
            if error.id is None:
                self._name_damaged(tenant, meta)
            raise
        self._current[tenant] = current = _Current(index, version, meta)
        return current

    def _goes_on(self, before: _Current, meta: Meta) -> bool:
        """Return whether the rows that changed since are all that an index lacks."""
        index = before.index
        is_known = index.sequence > 0 and index.sequence >= meta.pruned
        return is_known and before.meta.epoch == meta.epoch and index.dimension == self._dimension(meta)

    def _loaded(self, tenant: str, meta: Meta) -> Index:
        """Return an index of all live memories of a tenant."""
        values = {"tenant": tenant}
        ((count,),) = self._read_driver.rows(_COUNT, values)
        index = Index.empty(self._dimension(meta), count + count // 4)  # room for what is written next
        with uncollected():
            for rows in self._read_driver.parts(_LIVE, values, PART):
                index = index.refreshed(rows)
        return index.refreshed([], meta.sequence)

    def _then(self, tenant: str, as_of: datetime) -> tuple[Index, Meta]:
        """Return the index of the tenant's memories as they were; the last one is kept until something is written."""
        key = (tenant, microseconds(as_of))
        with self._transaction() as reader:
            current = self._refreshed(tenant)
            if key not in self._past:
                rows = [
                    tuple(row[name] for name in statements.INDEXED)
                    for row in rows_as_of(reader, tenant, statements.INDEXED, as_of)
                ]
                self._forget()
                self._past[key] = Index.empty(current.index.dimension).refreshed(rows)
            return self._past[key], current.meta

    def _forget(self, *tenants: str) -> None:
        """Let go of the indexes of the past and of some tenants."""
        gone = [self._current.pop(tenant).index for tenant in tenants if tenant in self._current]
        for index in (*gone, *self._past.values()):
            index.views.clear()  # each view refers to its index
        self._past.clear()

    def _name_damaged(self, tenant: str, meta: Meta) -> None:
        """Raise `DamagedError` for the first memory of a tenant that cannot be read, if one is found."""
        dimension = self._dimension(meta)
        for rows in self._read_driver.parts(statements.every(), {"tenant": tenant}, PART):
            for row in rows:
                stored = to_stored(dict(zip(STORED, row, strict=True)), {})
                if stored.vector is not None and stored.vector.shape != (dimension,):
                    raise damaged(row, "vector")

    def _check_open(self) -> None:
        self._check_closed()
        if self._path != MEMORY:
            sqlite_file.check_there(self._path, self._identity)

    def _check_closed(self) -> None:
        if self._writer.closed:
            raise StoreError(f"store: {self._path} is closed. Connect again.")

    def _refuse_other(self, meta: Meta, moving: bool) -> None:
        """Raise `PinnedError` unless the file is pinned to this language and model, or not yet pinned."""
        language, pin = meta.values.get("language", self._language), meta.pin()
        if language != self._language:
            raise PinnedError(
                f"store: {self._path} was written for the language {language!r}, not for {self._language!r}. "
                f"Set SALIENCE_LANGUAGE={language}, or name a new file."
            )
        if not moving:
            self._handle.claim(pin)

    def _dimension(self, meta: Meta) -> int:
        return (meta.pin() or self._handle.bare()).dimension

    def _wipe(self) -> None:
        """Let nothing of what was erased stay in memory here, in unused places of the file, or in the log beside it.

        Where the file cannot be written anew, for want of space, that stays due: at the next opening it is tried again.
        """
        with self._reading:
            self._forget(*self._current)
        with suppress(StoreError), self._writing, sqlite_file.mapped(self._path):
            self._check_open()
            self._write_driver.wait_at_most(self._busy_timeout)
            sqlite_file.vacuum(self._writer)
            with self._writer.begin():
                keep(self._writer, {TRACES: ""})
        self._empty_log(self._busy_timeout)

    def _empty_log(self, patience: float) -> None:
        """Empty the log beside the file; a later write does where that fails, or another process reads on from it.

        What was to be written is on disk already, and does not fail for it.
        """
        self._log_is_due.set()
        with suppress(StoreError), self._writing, sqlite_file.mapped(self._path):
            self._check_open()
            self._write_driver.wait_at_most(patience)
            if sqlite_file.empty_log(self._writer):
                self._log_is_due.clear()
