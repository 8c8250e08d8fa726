"""In-memory indexes of scopes, updated by the change sequence of their tenant."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from sqlalchemy import Connection

from salience.errors import SalienceError
from salience.loading import uncollected
from salience.records import ANY, Scope
from salience.store.index import Index
from salience.store.pins import Meta
from salience.store.postgres import statements
from salience.store.postgres.connection import Runner
from salience.store.postgres.search import Size, index_of
from salience.store.statements import PART

INDEX_OVERHEAD: Final = 8
"""Memory of an empty index, in rows: about 15 kB; a row of 384 dimensions takes 2 kB."""
FEW_ROWS: Final = 5_000
"""Memories up to which an index is always read: that takes no longer than a search by the indexes of the server."""
AT_ONCE: Final = 50_000
"""Memories up to which a recall waits for its index, about a second; a thread reads larger ones."""
THREAD: Final = "salience-index"
"""Name of the threads that read indexes."""
CLOSING: Final = 5.0
"""Maximum seconds that `close` waits for a thread that reads an index."""
IDLE: Final = 60.0
"""Seconds without use after which an index makes room for a large one."""
SHARE: Final = 100
"""A size stays valid until one in this many memories may have changed, too few to change the weight of a term."""


@dataclass(frozen=True, slots=True)
class TenantState:
    """The state of a tenant's rows in a transaction.

    Attributes:
        sequence: last change sequence that the transaction sees.
        epoch: differs after changes that the sequence does not count, of the tenant, store or server.
        has_pending: whether a memory has no vector.
    """

    sequence: int
    epoch: str
    has_pending: bool


def read_state(reader: Connection, tenant: str) -> tuple[Meta, TenantState]:
    """Return the store's meta, and the state of a tenant's rows."""
    return _state(*reader.execute(statements.STATE, {"tenant": tenant}).one())


def _state(
    values: dict[str, str] | None, sequence: int, epoch: str, has_pending: bool, *_: object
) -> tuple[Meta, TenantState]:
    meta = Meta(values or {})
    return meta, TenantState(sequence, f"{meta.epoch} {epoch}", has_pending)


@dataclass(slots=True)
class _Entry:
    """The cached index and size of a scope.

    Attributes:
        index: index of its memories; None if there are too many, or if it was not read yet.
        state: state of the index, or in which there was none; None if it was not read yet.
        until: when to try again if there is no index, in seconds of the monotonic clock.
        is_refused: whether a recall found no index.
        is_loading: whether a thread reads the index.
        size: number of its memories, and the state in which they were counted.
        used: when it was last used, in seconds of the monotonic clock.
    """

    lock: threading.RLock = field(default_factory=threading.RLock)
    index: Index | None = None
    state: TenantState | None = None
    until: float = 0.0
    is_refused: bool = False
    is_loading: bool = False
    size: tuple[Size, TenantState] | None = None
    used: float = 0.0

    @property
    def rows(self) -> int:
        """Memory of the entry, in rows."""
        index = self.index  # another thread may replace it
        return 1 if index is None else INDEX_OVERHEAD + len(index)


class ScopeIndexes:
    """In-memory indexes of the most recently used scopes.

    Each scope has an index of its own. Once those of a tenant would together hold as many rows as the tenant has
    memories, one index of all its memories replaces them.

    Args:
        runner: for the threads that read large indexes.
        most: maximum memories of a scope with an index.
        kept: maximum rows of all indexes; the least recently used index is evicted first.
    """

    def __init__(self, runner: Runner, most: int, kept: int) -> None:
        self._runner = runner
        self._most = min(most, max(kept, FEW_ROWS))
        self._kept = kept
        self._lock = threading.Lock()
        self._entries: OrderedDict[Scope, _Entry] = OrderedDict()
        self._loading = threading.Lock()
        self._closed = False

    def of(
        self, reader: Connection, scope: Scope, state: TenantState, dimension: int, *, is_recall: bool = True
    ) -> Index | None:
        """Return an index with the live visible memories, as of the transaction or later; it may hold others, too.

        None if there are more than `most`, or more than fit beside the indexes in use, or while a thread reads them;
        they are counted again after that many changes of the tenant, and after a minute. Only a recall reads more than
        `FEW_ROWS`: a process that only writes needs no index.
        """
        whole, scope = _whole(scope.tenant), replace(scope, session_id=None)
        index = self._updated(reader, whole, state, dimension)
        if index is None:
            index = self._updated(reader, scope, state, dimension)
        if index is None:
            index = self._read(reader, scope, state, dimension, is_recall)
            self._evict(scope.tenant)
        return index

    def known(self, reader: Connection, scope: Scope, dimension: Callable[[Meta], int]) -> tuple[Meta, Index | None]:
        """Return the store's meta, and the index of `of` if it is in memory and valid, brought up to date by one query.

        It needs no transaction.
        """
        for held in (_whole(scope.tenant), replace(scope, session_id=None)):
            known = self._state_of(held)
            if known is not None:
                break
        else:
            return read_state(reader, scope.tenant)[0], None
        rows = reader.execute(*statements.state_and_newer(held, known.sequence)).all()
        meta, state = _state(*rows[0])
        entry = self._entry(held)
        with entry.lock:
            if entry.state is None or entry.state.epoch != state.epoch or len(rows) > statements.FEW_CHANGES:
                return meta, self._updated(reader, held, state, dimension(meta))
            if entry.index is None or entry.index.dimension != dimension(meta):
                return meta, None
            if state.sequence > entry.state.sequence:
                index = entry.index.extended([[row[4:] for row in rows if row.id is not None]])
                entry.index, entry.state = index if len(index) <= self._most else None, state
            return meta, entry.index

    def _state_of(self, scope: Scope) -> TenantState | None:
        """Return the state of the index of a scope; None if there is no index."""
        with self._lock:
            entry = self._entries.get(scope)
        if entry is None or entry.state is None:  # without the lock, which whoever reads the index holds
            return None
        with entry.lock:
            return None if entry.index is None else entry.state

    def _updated(self, reader: Connection, scope: Scope, state: TenantState, dimension: int) -> Index | None:
        """Return the index of a scope after the changes since its state; None if there is none."""
        with self._lock:
            entry = self._entries.get(scope)
        if entry is None or entry.state is None:
            return None
        entry = self._entry(scope)
        with entry.lock:
            known, index = entry.state, entry.index
            if known is None or known.epoch != state.epoch or (index is not None and index.dimension != dimension):
                entry.index = entry.state = None
            elif index is not None and state.sequence > known.sequence:
                newer = reader.execute(*statements.newer(scope, known.sequence)).partitions(PART)
                index = index.extended(newer)
                entry.index, entry.state = index if len(index) <= self._most else None, state
            return entry.index

    def _read(
        self, reader: Connection, scope: Scope, state: TenantState, dimension: int, is_recall: bool
    ) -> Index | None:
        """Return the index of a scope or of the whole tenant after reading it.

        None if it would have too many rows, or if a thread has to read it.
        """
        whole, entry, index = _whole(scope.tenant), self._entry(scope), None
        with entry.lock:
            known = entry.state
            if known is not None and known.epoch == state.epoch:
                if entry.index is not None:  # another thread has read it, perhaps in an earlier state
                    return self._updated(reader, scope, state, dimension)
                is_recent = state.sequence - known.sequence <= self._most and time.monotonic() < entry.until
                if is_recent and (entry.is_refused or not is_recall):
                    return None
            counted = statements.counted(statements.passing(scope), self._most + 1)
            count = reader.execute(counted).scalar_one()
            if count <= self._most and (is_recall or count <= FEW_ROWS):
                held = count + sum(each.rows for key, each in self._others(scope) if key.tenant == scope.tenant)
                if held > FEW_ROWS and scope != whole and self.size(reader, whole, state).documents <= held:
                    index = self._read(reader, whole, state, dimension, is_recall)
                if index is not None:
                    return index
                if count <= FEW_ROWS or count <= self._kept - self._in_use(scope):
                    if count <= AT_ONCE:
                        with uncollected():
                            index = index_of(reader, statements.all_rows(scope), dimension, count)
                    elif not (entry.is_loading or self._entry(whole).is_loading):
                        entry.is_loading = True
                        given = (scope, entry, dimension, count)
                        threading.Thread(target=self._load, args=given, name=THREAD, daemon=True).start()
            entry.index, entry.state, entry.is_refused = index, state, is_recall
            entry.until = time.monotonic() + IDLE
            return index

    def _load(self, scope: Scope, entry: _Entry, dimension: int, count: int) -> None:
        """Read a large index; one thread at a time does so. After an error, a recall tries again after `IDLE`."""

        def work(reader: Connection) -> None:
            _, state = read_state(reader, scope.tenant)
            index = index_of(reader, statements.all_rows(scope), dimension, count, is_wanted=lambda: not self._closed)
            with entry.lock:
                if not self._closed:
                    entry.index, entry.state = index, state

        try:
            with self._loading, suppress(SalienceError):
                self._runner.read(scope.tenant, work)
        finally:
            entry.is_loading = False
        self._evict(scope.tenant)

    def _evict(self, tenant: str) -> None:
        """Drop indexes that one of the whole tenant replaces, and the least recently used ones beyond the maximum."""
        with self._lock:
            whole = self._entries.get(_whole(tenant))
            if whole is not None and whole.index is not None:
                for key in [key for key, each in self._entries.items() if key.tenant == tenant and each is not whole]:
                    del self._entries[key]
            rows = [each.rows for each in self._entries.values()]
            excess = sum(rows) - self._kept
            for count in rows[:-1]:
                if excess > 0:
                    self._entries.popitem(last=False)
                    excess -= count

    def _in_use(self, scope: Scope) -> int:
        """Return the rows of other indexes that were used lately, without those that one of a whole tenant replaces."""
        since, is_whole = time.monotonic() - IDLE, scope == _whole(scope.tenant)
        others = [(key, each) for key, each in self._others(scope) if not (is_whole and key.tenant == scope.tenant)]
        return sum(each.rows for _, each in others if each.used >= since)

    def _others(self, scope: Scope) -> list[tuple[Scope, _Entry]]:
        with self._lock:
            return [(key, each) for key, each in self._entries.items() if key != scope and each.index is not None]

    def size(self, reader: Connection, scope: Scope, state: TenantState) -> Size:
        """Return the size of a scope, counted again when a hundredth of the memories may have changed."""
        entry = self._entry(scope)
        with entry.lock:
            if entry.size is not None:
                size, then = entry.size
                if then.epoch == state.epoch and state.sequence - then.sequence <= size.documents // SHARE:
                    return size
            size = Size(*reader.execute(statements.size(scope)).one())
            entry.size = (size, state)
            return size

    def was_large(self, scope: Scope) -> bool:
        """Return whether there was no index of the scope at its last read."""
        with self._lock:
            entry = self._entries.get(replace(scope, session_id=None))
        return entry is not None and entry.state is not None and entry.index is None

    def close(self) -> None:
        """Drop all indexes, and end the thread that reads one; wait for it, unless the server does not answer."""
        self._closed = True
        if self._loading.acquire(timeout=CLOSING):
            self._loading.release()
        with self._lock:
            self._entries.clear()

    def _entry(self, scope: Scope) -> _Entry:
        scope = replace(scope, session_id=None)  # a session hides nothing
        with self._lock:
            entry = self._entries.setdefault(scope, _Entry())
            self._entries.move_to_end(scope)
            entry.used = time.monotonic()
            return entry


def _whole(tenant: str) -> Scope:
    """Return the scope of all memories of a tenant."""
    return Scope(tenant, ANY, ANY, ANY, ANY)
