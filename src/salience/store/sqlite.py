"""The embedded store: an SQLite file that many processes may share, with a columnar cache in each."""

from __future__ import annotations

import copy
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Self

from sqlalchemy import Connection

from salience.batch import Batch, Vectors32
from salience.errors import DamagedError, PinnedError, StoreError
from salience.ports import Adopt, Answered, Change, Distinguish, Erase, Model, Need, Stored, Touch
from salience.records import Filter, Finding, Memory, OutOfScope, Receipt, Scope
from salience.store import copying, integrity, opening, reading, sql
from salience.store.arena import Arena
from salience.store.cached import Arenas, Cached
from salience.store.direct import Direct
from salience.store.filling import PART
from salience.store.gather import Activations, gather, out_of_scope, speakers
from salience.store.maintain import make, runs
from salience.store.meta import TRACES, Meta, keep, note_pruned, pinning, void
from salience.store.pins import Handle, Pin
from salience.store.places import PLACES, InMemory
from salience.store.recounted import shows_counters
from salience.store.rows import STORED, damaged, to_stored
from salience.store.sqlite_writer import Writer
from salience.store.values import carries_vectors, count_changed, derives_vectors
from salience.store.values import counted as check_counts
from salience.store.write import Transaction, is_bulk, patience, shareable


class SQLiteStore:
    """Memories in an SQLite file; made by `open`.

    One connection writes and one reads, each behind a lock; what is computed on an arena runs outside the locks.
    """

    def __init__(
        self, path: str, model: Model, language: str, writer: Connection, reader: Connection, busy_timeout: float
    ) -> None:
        self._path = path
        self._identity = opening.identity(path)
        self._handle = Handle(model, path)
        self._language = language
        self._busy_timeout = busy_timeout
        self._writer = writer
        self._reader = reader
        self._seen = Direct(reader)
        self._writes = Writer(path, writer, self._check_open)
        self._writing = self._writes.turns
        self._reading = threading.Lock()
        self._tidying = threading.Lock()
        self._log_is_due = threading.Event()
        self._noting = 0
        self._arenas = Arenas(self._seen, InMemory(Path(path).parent))

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
        arena: str = "memory",
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
            fingerprint: as in `Model`; pinned with the first vector.
            moving: whether the file may be pinned to another model, which this one is to replace.
            arena: where vectors lie that are searched, one of `places.PLACES`.

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
        model = Model(embedder, dimension, fingerprint)
        with opening.mapped(path):
            writer, reader = opening.writing(engine.connect()), engine.connect()
            store = cls(path, model, language, writer, reader, busy_timeout)
            store._arenas = Arenas(store._seen, PLACES[arena](Path(path).parent))
            try:
                opening.ready(writer, reader, path, busy_timeout, distinguish)
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
        told: list[int] = []
        work = partial(self._make, changes, own, counted, told)
        waits = patience(changes, self._busy_timeout)
        try:
            if shareable(changes):
                receipts = self._writes.together(work, waits)
            else:
                with self._writes.alone(waits):
                    receipts = work()
        except BaseException:
            with self._reading:
                self._arenas.untold(told)
            raise
        if any(isinstance(change, Erase) for change in changes):
            self._wipe()
        elif self._log_is_due.is_set():
            self._empty_log(0.0)
        elif is_bulk(changes):
            threading.Thread(target=self.tidy, name="salience-tidy", daemon=True).start()
        return receipts

    def _own_pin(self, changes: Sequence[Change]) -> Pin:
        """Return the pin of this handle's model, with its fingerprint where the changes need it."""
        needed = carries_vectors(changes) or derives_vectors(changes)
        if needed or any(isinstance(change, Adopt) for change in changes):
            self._handle.own()
        return self._handle.own() if needed else self._handle.bare()

    def _make(self, changes: Sequence[Change], own: Pin, counted: bool, told: list[int]) -> list[Receipt]:
        """Make changes in the transaction that is begun; put the change sequence of touches alone into `told`."""
        writer, direct = self._writes.connection, self._writes.direct
        direct.leave_log(is_bulk(changes))
        meta = Meta(dict(direct.asked(sql.META)))
        if carries_vectors(changes):
            self._handle.admit(meta.pin())
        sequence = meta.sequence + 1
        touches = [change for change in changes if isinstance(change, Touch)]
        if len(touches) == len(changes) and not counted:
            self._noting = sequence
            told.append(sequence)
            self._arenas.told(sequence, touches)  # before anybody can see them
        first = {"language": self._language, **pinning(meta.pin(), own, changes), "sequence": str(sequence)}
        traces = {TRACES: "due"} if any(isinstance(change, Erase) for change in changes) else {}
        new = {name: value for name, value in {**first, **traces}.items() if meta.values.get(name) != value}
        direct.run(sql.keep_meta(), [{"name": name, "value": value} for name, value in new.items()])
        before = reading.counts(writer) if counted else (0, 0)
        transaction = Transaction(
            writer, direct, self._handle, lambda _: sequence, lambda _: void(writer), partial(note_pruned, writer)
        )
        receipts = [receipt for run in runs(changes) for receipt in make(transaction, *run)]
        if counted:
            check_counts(before, reading.counts(writer), count_changed(changes, receipts))
        return receipts

    def reached(self) -> int:
        """Return the change sequence of the last write that a read from now on sees."""
        with self._reading, opening.mapped(self._path):
            self._check_closed()
            return self._arenas.reached()

    def noting(self) -> int:
        """Return the change sequence of the touches that this handle writes, or wrote last; 0 for none."""
        return self._noting

    def tidy(self) -> None:
        """Move what the log beside the file holds into the file, so that no write has to; a failure is left.

        It has a connection of its own: others read and write meanwhile, of this process too.
        """
        with self._tidying, suppress(StoreError, sqlite3.Error), opening.mapped(self._path):
            self._check_open()
            opening.move_log(self._path)

    def gather(self, need: Need) -> Batch:
        """Return the candidates as columns, rows ordered by id.

        Raises:
            PinnedError: vectors of another model than the file is pinned to; `MovedError` if that came meanwhile.
            StoreError: the store is closed, or the file cannot be read.
        """
        arena, meta, activations = self._seen_by(need)
        if need.vector is not None or need.near is not None:
            self._handle.admit(meta.pin())  # after the lock: it may ask a provider
        return gather(arena, need, activations)

    def _seen_by(self, need: Need) -> tuple[Arena, Meta, Activations]:
        """Return what a need is answered from, as it stands at one instant."""
        tenant, session_key = need.scope.tenant, need.scope.session_key
        primed = "turns_since_activation" in need.columns and session_key is not None and need.as_of is None
        if need.as_of is None and not primed:
            cached = self._current(need)
            return cached.arena, cached.meta, Activations()
        with self._transaction(self._reader, self._reading) as reader, self._naming(tenant):
            cached = self._arenas.current(tenant, self._dimension, shows_counters(need))
            if need.as_of is not None:
                return self._arenas.then(reader, tenant, need.as_of), cached.meta, Activations()
            return cached.arena, cached.meta, reading.activations(reader, tenant, str(session_key))

    def _current(self, need: Need) -> Cached:
        """Return the tenant's arena; where nothing was written since it was read, no transaction is begun for it."""
        with self._reading, opening.mapped(self._path), self._naming(need.scope.tenant):
            self._check_open()
            return self._arenas.latest(need.scope.tenant, self._dimension, shows_counters(need))

    @contextmanager
    def _naming(self, tenant: str) -> Iterator[None]:
        """Have an error for a damaged row of a tenant name the row, where it does not yet; the reader is locked."""
        try:
            yield
        except DamagedError as error:
            if error.id is None:
                self._name_damaged(tenant)
            raise

    def _name_damaged(self, tenant: str) -> None:
        """Raise `DamagedError` for the first memory of a tenant that cannot be read, if one is found."""
        dimension = self._dimension(Meta(dict(self._seen.asked(sql.META))))
        for rows in self._seen.parts(sql.every(), {"tenant": tenant}, PART):
            for row in rows:
                stored = to_stored(dict(zip(STORED, row, strict=True)), {})
                if stored.vector is not None and stored.vector.shape != (dimension,):
                    raise damaged(row, "vector")

    def fetch(self, scope: Scope, ids: Sequence[str], *, as_of: datetime | None = None) -> list[Memory]:
        """Return the live memories of these ids (whole or short) visible in `scope`, as asked, absent ones left out."""
        if as_of is None and reading.are_whole(ids):
            with self._reading, opening.mapped(self._path):
                self._check_open()
                return self._arenas.fetched(scope, ids)
        with self._transaction(self._reader, self._reading) as reader:
            return reading.fetch(reader, scope, ids, as_of)

    def speakers(self, scope: Scope, names: Sequence[str], *, as_of: datetime | None = None) -> list[str]:
        """Return who said live memories visible in `scope` and is meant by one of some names, sorted and distinct."""
        if as_of is None:
            with self._reading, opening.mapped(self._path), self._naming(scope.tenant):
                self._check_closed()  # that the file is where it was is for `gather` to see, which comes next
                arena = self._arenas.latest(scope.tenant, self._dimension).arena
            return speakers(arena, scope, names)
        with self._transaction(self._reader, self._reading) as reader:
            self._arenas.current(scope.tenant, self._dimension)
            arena = self._arenas.then(reader, scope.tenant, as_of)
        return speakers(arena, scope, names)

    def keyed(self, home: Scope, keys: Sequence[str]) -> list[Memory]:
        """Return the memories, forgotten ones too, that live at `home` under these idempotency keys, in any order."""
        with self._transaction(self._reader, self._reading) as reader:
            return reading.keyed(reader, home, keys)

    def answered(self, home: Scope, key: str) -> Answered | None:
        """Return what was answered to a request from `home` under an idempotency key; None if none is known."""
        with self._transaction(self._reader, self._reading) as reader:
            return reading.answered(reader, home, key)

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
        with self._transaction(self._reader, self._reading) as reader:
            return reading.scan(
                reader, scope, after, limit, filter, forgotten=forgotten, versions=versions, passed=passed
            )

    def history(self, scope: Scope, id: str) -> list[Stored]:
        """Return the versions of the memory of an id (whole or short), live or not, visible in `scope`."""
        with self._transaction(self._reader, self._reading) as reader:
            return reading.history(reader, scope, id)

    def out_of_scope(self, scope: Scope, limit: int = 5) -> list[OutOfScope]:
        """Return how many live memories each place has that `scope.widened()` shows and `scope` does not."""
        with self._reading, opening.mapped(self._path):
            self._check_open()
            arena = self._arenas.latest(scope.tenant, self._dimension).arena
        return out_of_scope(arena, scope, limit)

    def unembedded(self, after: tuple[str, str, int] = ("", "", 0), limit: int = 100) -> list[Stored]:
        """Return up to `limit` versions of all tenants without a vector of this handle's model, in order."""
        with self._reading, opening.mapped(self._path):
            self._check_open()
            meta, lacks = Meta(dict(self._seen.asked(sql.META))), self._seen.asked(sql.LACKING)
        if not lacks and self._handle.is_known(meta.pin()):  # as after most writes
            return []
        asked = reading.without_vector(meta, self._handle, after, limit)  # outside the lock: it may ask a provider
        with self._transaction(self._reader, self._reading) as reader:
            return reading.unembedded(reader, asked, limit)

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
        with self._transaction(self._reader, self._reading) as reader:
            return reading.tenants(reader)

    def pinned(self) -> Model | None:
        """Return the model that the store is pinned to, with any known fingerprint; None before its first memory."""
        with self._transaction(self._reader, self._reading) as reader:
            pin = Meta.read(reader).pin()
        return None if pin is None else pin.model()

    def check(self, *, repair: bool = False) -> list[Finding]:
        """Return what is wrong with the file, its tables and their numbers, mended where `repair` asks for it.

        Raises:
            StoreError: the file cannot be read, or not be written where something is to be mended.
        """
        if repair:
            with self._writes.alone(self._busy_timeout) as writer:
                return integrity.check(writer, repair=True)
        with self._transaction(self._reader, self._reading) as reader:
            return integrity.check(reader)

    def backup(self, path: str, progress: Callable[[int, int], None] | None = None, *, overwrite: bool = False) -> None:
        """Write a copy of the file, as it stands at one instant, to a new file, while others read and write.

        Raises:
            InputError: a file is there and may not be replaced, or is no store; or none can be made.
            StoreError: the store cannot be read.
        """
        self._check_open()
        with opening.mapped(self._path):
            copying.backup(self._path, path, progress, overwrite=overwrite)

    def close(self) -> None:
        """Release the file, which is then one file; further calls raise `StoreError`."""
        with self._tidying, self._writing, self._reading:
            self._arenas.clear()
            self._writer.close()
            self._reader.close()

    @contextmanager
    def _transaction(self, connection: Connection, lock: threading.Lock) -> Iterator[Connection]:
        with lock, opening.mapped(self._path):
            self._check_open()
            with self._seen.begun(writes=False):
                yield connection

    def _check_open(self) -> None:
        self._check_closed()
        opening.check_there(self._path, self._identity)

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
            self._arenas.clear()
        with suppress(StoreError), self._writing, opening.mapped(self._path):
            self._check_open()
            self._writes.direct.wait_at_most(self._busy_timeout)
            opening.vacuum(self._writer)
            with self._writer.begin():
                keep(self._writer, {TRACES: ""})
        self._empty_log(self._busy_timeout)

    def _empty_log(self, patience: float) -> None:
        """Empty the log beside the file; a later write does where that fails, or another process reads on from it.

        What was to be written is on disk already, and does not fail for it.
        """
        self._log_is_due.set()
        with suppress(StoreError), self._writing, opening.mapped(self._path):
            self._check_open()
            self._writes.direct.wait_at_most(patience)
            if opening.empty_log(self._writer):
                self._log_is_due.clear()
