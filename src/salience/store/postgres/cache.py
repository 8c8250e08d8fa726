"""State that a process keeps of a tenant between calls: indexes of small scopes, sizes of scopes, change sequences."""

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
"""Memory of an empty index, in rows: about 15 kB, where a row of 384 dimensions takes 2."""
SCOPES: Final = 10_000
"""Scopes whose sizes are kept, most recently used first."""
SHARE: Final = 100
"""One in this many memories may have come or gone since a scope was counted: too few to change the weight of a term."""
READ_STATE: Final = """
    SELECT (SELECT json_object_agg(name, value) FROM meta), coalesce(max(sequence), 0),
        coalesce(max(epoch || ' ' || extract(epoch FROM pg_postmaster_start_time())), ''),
        EXISTS (SELECT 1 FROM memories WHERE tenant = %(tenant)s AND vector IS NULL)
    FROM tenants WHERE tenant = %(tenant)s"""
"""With the start of the server: one that took over, or was restored, may assign its sequence numbers a second time."""


@dataclass(frozen=True, slots=True)
class TenantState:
    """The state of a tenant's rows in a transaction.

    Attributes:
        sequence: number of the last change; the transaction sees all changes up to it.
        epoch: differs whenever something changed that the sequence does not show, in the tenant, store or server.
        has_pending: whether a memory has no vector.
    """

    sequence: int
    epoch: str
    has_pending: bool

    def invalidates(self, earlier: TenantState) -> bool:
        """Return whether what was computed in an earlier state is void."""
        return earlier.epoch != self.epoch


def read_state(connection: Connection, tenant: str) -> tuple[Meta, TenantState]:
    """Return the store's meta and the tenant's state."""
    values, sequence, epoch, has_pending = connection.exec_driver_sql(READ_STATE, {"tenant": tenant}).one()
    meta = Meta(values or {})
    return meta, TenantState(sequence, f"{meta.epoch} {epoch}", has_pending)


def advance(connection: Connection, tenant: str, steps: int) -> int:
    """Return the tenant's next change sequence, `steps` on; its other writers wait until the transaction ends."""
    statement = text(
        "INSERT INTO tenants AS t (tenant, sequence, epoch) VALUES (:tenant, :steps, '') "
        "ON CONFLICT (tenant) DO UPDATE SET sequence = t.sequence + excluded.sequence RETURNING sequence"
    )
    sequence: int = connection.execute(statement, {"tenant": tenant, "steps": steps}).scalar_one()
    return sequence


def list_tenants(connection: Connection) -> list[str]:
    """Return the tenants that ever wrote, sorted."""
    return list(connection.exec_driver_sql("SELECT tenant FROM tenants ORDER BY tenant").scalars())


def void(connection: Connection, tenant: str) -> None:
    """Give the tenant a new epoch, so that every process drops what it computed from its rows."""
    renew = text("UPDATE tenants SET epoch = :epoch WHERE tenant = :tenant")
    connection.execute(renew, {"epoch": new_epoch(), "tenant": tenant})


@dataclass(frozen=True, slots=True)
class Size:
    """The number of live memories visible in a scope, and of their terms, as counted in some state."""

    documents: int
    terms: int
    state: TenantState

    def holds(self, state: TenantState) -> bool:
        """Return whether a count in `state` would differ too little to matter."""
        changed = state.sequence - self.state.sequence
        return not state.invalidates(self.state) and changed <= self.documents // SHARE


class ScopeSizes:
    """Sizes by scope, counted again once a hundredth of the memories may have changed."""

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
    """The index of a scope, None for one with too many memories, and the state in which it was read."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    index: Index | None = None
    state: TenantState | None = None

    @property
    def size(self) -> int:
        return 1 if self.index is None else INDEX_OVERHEAD + len(self.index)


class ScopeIndexes:
    """In-memory indexes of the scopes used last, brought up to date by the change sequence of the tenant.

    Args:
        most: memories of a scope up to which it gets an index.
        kept: rows of all indexes together; the index that was used least recently goes first.
    """

    def __init__(self, most: int, kept: int) -> None:
        self._most = most
        self._kept = kept
        self._lock = threading.Lock()
        self._entries: OrderedDict[Scope, _Entry] = OrderedDict()

    def of(self, reader: Connection, scope: Scope, state: TenantState, dimension: int) -> Index | None:
        """Return the index of the live memories visible in `scope`, as of the transaction or later.

        None where there are more than `most`; they are counted again once the tenant has changed that often.
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
        """Return whether the scope had too many memories for an index when it was looked at last."""
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
    """Return an index of the rows that a statement returns."""
    index = Index.empty(dimension)
    for rows in reader.execute(statement).partitions(PART):
        index = index.refreshed(rows)
    return index


def index_as_of(reader: Connection, scope: Scope, dimension: int, as_of: datetime) -> Index:
    """Return an index of the memories visible in `scope` as they were at an instant."""
    rows = rows_as_of(reader, scope.tenant, INDEXED, as_of, seen=scope)
    return Index.empty(dimension).refreshed([tuple(row[name] for name in INDEXED) for row in rows])
