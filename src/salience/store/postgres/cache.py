"""Caches of a process: indexes of small scopes and sizes of scopes, validated by the tenant's state."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection
from sqlalchemy.sql.expression import text

from salience.records import Scope
from salience.store.index import Index
from salience.store.pins import Meta, new_epoch
from salience.store.postgres import statements
from salience.store.sql_store import rows_as_of
from salience.store.statements import INDEXED

PART: Final = 5_000
"""Rows read into an index at a time."""
INDEX_OVERHEAD: Final = 8
"""Memory of an empty index, in rows: about 15 kB; a row of 384 dimensions takes 2 kB."""
SCOPES: Final = 10_000
"""Maximum cached sizes of scopes."""
SHARE: Final = 100
"""A size stays valid until one in this many memories may have changed, too few to change the weight of a term."""
READ_STATE: Final = """
    SELECT (SELECT json_object_agg(name, value) FROM meta), coalesce(max(sequence), 0),
        coalesce(max(epoch || ' ' || extract(epoch FROM pg_postmaster_start_time())), ''),
        EXISTS (SELECT 1 FROM memories WHERE tenant = %(tenant)s AND vector IS NULL)
    FROM tenants WHERE tenant = %(tenant)s"""
"""The epoch includes the start of the server, since a restored server may reuse sequence numbers."""


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

    def invalidates(self, earlier: TenantState) -> bool:
        """Return whether caches of an earlier state are invalid."""
        return earlier.epoch != self.epoch


def read_state(connection: Connection, tenant: str) -> tuple[Meta, TenantState]:
    """Return the store's meta and the tenant's state."""
    values, sequence, epoch, has_pending = connection.exec_driver_sql(READ_STATE, {"tenant": tenant}).one()
    meta = Meta(values or {})
    return meta, TenantState(sequence, f"{meta.epoch} {epoch}", has_pending)


def advance(connection: Connection, tenant: str, steps: int) -> int:
    """Advance the tenant's change sequence and return it; its other writers wait until the transaction ends."""
    statement = text(
        "INSERT INTO tenants AS t (tenant, sequence, epoch) VALUES (:tenant, :steps, '') "
        "ON CONFLICT (tenant) DO UPDATE SET sequence = t.sequence + excluded.sequence RETURNING sequence"
    )
    sequence: int = connection.execute(statement, {"tenant": tenant, "steps": steps}).scalar_one()
    return sequence


def list_tenants(connection: Connection) -> list[str]:
    """Return all tenants that have written, sorted."""
    return list(connection.exec_driver_sql("SELECT tenant FROM tenants ORDER BY tenant").scalars())


def void(connection: Connection, tenant: str) -> None:
    """Give the tenant a new epoch, which invalidates the caches of every process."""
    renew = text("UPDATE tenants SET epoch = :epoch WHERE tenant = :tenant")
    connection.execute(renew, {"epoch": new_epoch(), "tenant": tenant})


@dataclass(frozen=True, slots=True)
class Size:
    """The number of live memories visible in a scope, and of their terms, in a state."""

    documents: int
    terms: int
    state: TenantState

    def holds(self, state: TenantState) -> bool:
        """Return whether the size is still accurate enough in `state`."""
        changed = state.sequence - self.state.sequence
        return not state.invalidates(self.state) and changed <= self.documents // SHARE


class ScopeSizes:
    """Sizes by scope, counted again when a hundredth of the memories may have changed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sizes: OrderedDict[Scope, Size] = OrderedDict()

    def of(self, reader: Connection, scope: Scope, state: TenantState) -> Size:
        """Return the size of a scope."""
        scope = replace(scope, session_id=None)  # a session hides nothing
        with self._lock:
            size = self._sizes.get(scope)
        if size is None or not size.holds(state):
            documents, terms = reader.execute(statements.size(scope)).one()
            size = Size(documents, terms, state)
        with self._lock:
            self._sizes[scope] = size
            self._sizes.move_to_end(scope)
            while len(self._sizes) > SCOPES:
                self._sizes.popitem(last=False)
        return size


@dataclass(slots=True)
class _Entry:
    """The index of a scope (None if it has too many memories), and its state."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    index: Index | None = None
    state: TenantState | None = None

    @property
    def size(self) -> int:
        return 1 if self.index is None else INDEX_OVERHEAD + len(self.index)


class ScopeIndexes:
    """In-memory indexes of the most recently used scopes, updated by the change sequence of the tenant.

    Args:
        most: maximum memories of a scope with an index.
        kept: maximum rows of all indexes; the least recently used index is evicted first.
    """

    def __init__(self, most: int, kept: int) -> None:
        self._most = most
        self._kept = kept
        self._lock = threading.Lock()
        self._entries: OrderedDict[Scope, _Entry] = OrderedDict()

    def of(self, reader: Connection, scope: Scope, state: TenantState, dimension: int) -> Index | None:
        """Return the index of the live visible memories, as of the transaction or later.

        None if there are more than `most`; they are counted again after that many changes of the tenant.
        """
        entry = self._entry(replace(scope, session_id=None))  # a session hides nothing
        with entry.lock:
            known = entry.state
            if known is None or state.invalidates(known) or (entry.index and entry.index.dimension != dimension):
                entry.index, entry.state = self._load(reader, scope, dimension), state
            elif entry.index is None:
                if state.sequence - known.sequence > self._most:
                    entry.index, entry.state = self._load(reader, scope, dimension), state
            elif state.sequence > known.sequence:
                entry.index, entry.state = self._refresh(reader, scope, entry.index, known.sequence), state
            index = entry.index
        self._evict()
        return index

    def was_large(self, scope: Scope) -> bool:
        """Return whether the scope had too many memories for an index at its last read."""
        with self._lock:
            entry = self._entries.get(replace(scope, session_id=None))
        return entry is not None and entry.state is not None and entry.index is None

    def clear(self) -> None:
        """Drop all indexes."""
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
        return index_of(reader, statements.live(scope), dimension)

    def _refresh(self, reader: Connection, scope: Scope, index: Index, sequence: int) -> Index | None:
        for rows in reader.execute(statements.newer(scope, sequence)).partitions(PART):
            index = index.refreshed(rows)
        return index if len(index) <= self._most else None

    def _evict(self) -> None:
        with self._lock:
            held = sum(entry.size for entry in self._entries.values())
            while held > self._kept and len(self._entries) > 1:
                held -= self._entries.popitem(last=False)[1].size


def index_of(reader: Connection, statement: Any, dimension: int) -> Index:
    """Return an index of the rows of a query."""
    index = Index.empty(dimension)
    for rows in reader.execute(statement).partitions(PART):
        index = index.refreshed(rows)
    return index


def index_as_of(reader: Connection, scope: Scope, dimension: int, as_of: datetime) -> Index:
    """Return an index of the visible memories at an instant."""
    rows = rows_as_of(reader, scope.tenant, INDEXED, as_of, seen=scope)
    return Index.empty(dimension).refreshed([tuple(row[name] for name in INDEXED) for row in rows])
