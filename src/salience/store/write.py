"""Changes made on a connection, inside the transaction of the store that calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import Connection, CursorResult, Executable

from salience.ports import Add, Adopt, Answered, Change, Lease, Revise, Stored, Touch
from salience.records import Memory, Receipt
from salience.store import rows, sql, sql_history
from salience.store.pins import Handle
from salience.store.values import already, instant, merged, microseconds, own_metadata, own_vector, revised, stale

UNASKED: Final = 0
"""As the instant of a touch of which nobody asks back: it is before every state that is asked for."""
Indexed = Callable[[Memory, Sequence[str]], Mapping[str, Any]]
TOUCH_PATIENCE: Final = 0.5
"""Most seconds that the touch of a recall waits for another write."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """Where a run of changes is made.

    Attributes:
        connection: with a write transaction begun.
        handle: whose changes they are.
        sequence: from a tenant to the change sequence of every row of it that is written.
        void: makes void what was computed from a tenant's rows before.
        indexed: from a memory and its terms to the columns that the database finds it by; none where it needs none.
        logs_touches: whether what a touch changed is found by what is noted of the touch, and not by the memory's row.
        of_all: lets what is done in it be about the rows of all tenants.
        tenants: returns those whose rows have to be changed one tenant at a time; None stands for all of them at once.
    """

    connection: Connection
    handle: Handle
    sequence: Callable[[str], int]
    void: Callable[[str], None]
    indexed: Indexed = lambda *_: {}
    logs_touches: bool = False
    of_all: Callable[[], AbstractContextManager[object]] = nullcontext
    tenants: Callable[[], Sequence[str | None]] = lambda: (None,)

    @property
    def dimension(self) -> int:
        """Length of the handle's vectors."""
        return self.handle.model.dimension


def patience(changes: Sequence[Change], busy_timeout: float) -> float:
    """Return how many seconds some changes wait for another write."""
    only_touches = all(isinstance(change, Touch) for change in changes)
    return min(busy_timeout, TOUCH_PATIENCE) if only_touches else busy_timeout


def tenant_of(change: Change) -> str:
    """Return whose memories a change is about; empty for a change of the store as a whole."""
    if isinstance(change, Add):
        return change.stored.memory.scope.tenant
    if isinstance(change, Revise):
        return change.memory.scope.tenant
    if isinstance(change, Touch):
        return change.scope.tenant
    if isinstance(change, Answered):
        return change.home.tenant
    return "" if isinstance(change, Lease | Adopt) else change.tenant


def add_all(transaction: Transaction, tenant: str, changes: Sequence[Add]) -> list[Receipt]:
    """Store new memories; return a receipt for each."""
    plan = _Plan.read(transaction.connection, tenant, changes)
    receipts = [plan.place(change) for change in changes]
    new = [
        (replace(change.stored, memory=receipt.memory), change.history)
        for change, receipt in zip(changes, receipts, strict=True)
        if receipt.status == "created"
    ]
    _insert(transaction, sql.add(), [_row(transaction, stored) for stored, _ in new])
    _insert(transaction, sql.add_version(), [row for pair in new for row in _history(transaction, *pair)])
    _insert(transaction, sql.activate(), [row for stored, _ in new for row in _activations(tenant, stored)])
    clocks = [{"tenant": tenant, "session_key": name, "turns": turns} for name, turns in plan.clocks.items()]
    _insert(transaction, sql.set_clock(), clocks)
    return receipts


def _insert(transaction: Transaction, statement: Executable, values: Sequence[Mapping[str, Any]]) -> None:
    if values:  # no parameters at all would run the statement once, without any
        transaction.connection.execute(statement, values)


def _row(transaction: Transaction, stored: Stored) -> dict[str, Any]:
    memory = stored.memory
    derived = {"seq": transaction.sequence(memory.scope.tenant), "short_id": memory.short_id}
    return {**rows.of_stored(stored, transaction.dimension), **derived, **transaction.indexed(memory, stored.terms)}


def _history(transaction: Transaction, stored: Stored, history: Sequence[Stored]) -> list[dict[str, Any]]:
    """Return the rows of the versions before `stored`; each was valid until the next one was made."""
    ends = [microseconds(later.memory.changed_at) for later in (*history[1:], stored)]
    return [
        {**rows.of_stored(older, transaction.dimension), "valid_to": end}
        for older, end in zip(history, ends, strict=False)
    ]


def _activations(tenant: str, stored: Stored) -> list[dict[str, Any]]:
    return [
        {"tenant": tenant, "session_key": session_key, "memory_id": stored.memory.id, "turn": turn}
        for session_key, turn in stored.activations.items()
    ]


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a run of additions meets and makes.

    Attributes:
        by_id, by_key: memories by id, and by home and key.
        clocks: of sessions.
        said: ids of memories that have a key and were changed, with the content hashes of their older versions.
    """

    by_id: dict[str, Memory]
    by_key: dict[tuple[str, str], Memory]
    clocks: dict[str, int]
    said: set[tuple[str, str]]

    @classmethod
    def read(cls, connection: Connection, tenant: str, changes: Sequence[Add]) -> _Plan:
        plan = cls({}, {}, {}, set())
        memories = [change.stored.memory for change in changes]
        for chunk in sql.chunks(memory.id for memory in memories):
            plan._meet(connection.execute(sql.of_ids(tenant, chunk)))
        for home, keys in _keys_by_home(memories).items():
            for chunk in sql.chunks(keys):
                plan._meet(connection.execute(sql.of_keys(tenant, home, chunk)))
        for chunk in sql.chunks(known.id for known in plan.by_key.values() if known.version > 1):
            plan.said.update((row.id, row.content_hash) for row in connection.execute(sql_history.said(tenant, chunk)))
        sessions = [memory.scope.session_key for memory in memories]
        carried = [session for change in changes for session in change.stored.activations]
        for chunk in sql.chunks(session for session in (*sessions, *carried) if session is not None):
            plan.clocks.update({row.session_key: row.turns for row in connection.execute(sql.clocks(tenant, chunk))})
        return plan

    def place(self, change: Add) -> Receipt:
        """Decide what becomes of one addition, with those before it in view."""
        memory = change.stored.memory
        taken = self.by_key.get((memory.scope.home_key, memory.key)) if memory.key is not None else None
        present = self.by_id.get(memory.id) if taken is None else taken
        if present is not None:
            return already(present, memory, (present.id, memory.content_hash) in self.said)
        for session_key, turn in change.stored.activations.items():
            self.clocks[session_key] = max(turn, self.clocks.get(session_key, 0))
        memory = self._in_turn(own_metadata(memory))
        self._know(memory)
        return Receipt(memory, "created")

    def _meet(self, found: CursorResult[Any]) -> None:
        for row in found.mappings():
            self._know(rows.to_memory(row))

    def _know(self, memory: Memory) -> None:
        self.by_id[memory.id] = memory
        if memory.key is not None:
            self.by_key[memory.scope.home_key, memory.key] = memory

    def _in_turn(self, memory: Memory) -> Memory:
        """Return `memory` with its place in its session, and move the session's clock to it."""
        session_key = memory.scope.session_key
        if session_key is None:
            return memory
        clock = self.clocks.get(session_key, 0)
        turn = clock + 1 if memory.turn is None else memory.turn
        self.clocks[session_key] = max(turn, clock)
        return replace(memory, turn=turn)


def _keys_by_home(memories: Sequence[Memory]) -> dict[str, list[str]]:
    keys: dict[str, list[str]] = {}
    for memory in memories:
        if memory.key is not None:
            keys.setdefault(memory.scope.home_key, []).append(memory.key)
    return keys


def revise_all(transaction: Transaction, tenant: str, changes: Sequence[Revise]) -> list[Receipt]:
    """Put next versions in the place of memories; return a receipt for each."""
    return [_revise(transaction, tenant, change) for change in changes]


def _revise(transaction: Transaction, tenant: str, change: Revise) -> Receipt:
    given, connection = change.memory, transaction.connection
    current = connection.execute(sql.current(tenant, given.id)).one_or_none()
    if current is None or current.version != given.version - 1:
        raise stale(given, None if current is None else current.version)
    accessed_at = None if current.accessed_at is None else instant(current.accessed_at)
    memory = merged(change, current.importance, accessed_at, current.access_count)
    values = rows.of_memory(memory)
    values["seq"] = transaction.sequence(tenant)
    values |= transaction.indexed(memory, rows.to_terms(current.terms) if change.terms is None else change.terms)
    if change.unembeds:
        values["vector"] = None
    if change.vector is not None:
        values["vector"] = rows.of_vector(own_vector(change.vector, transaction.dimension))
    if change.terms is not None:
        values["terms"] = rows.of_terms(change.terms)
    if change.distinctions is not None:
        values["distinctions"] = rows.of_distinctions(change.distinctions)
    of = {"of_tenant": tenant, "of_id": given.id}
    connection.execute(sql.keep_version(), {**of, "until": values["changed_at"]})
    rest = {name: value for name, value in values.items() if name not in ("tenant", "id")}
    connection.execute(sql.revise(frozenset(rest)), {**rest, **of})
    return revised(memory)


def touch_all(transaction: Transaction, tenant: str, changes: Sequence[Touch]) -> list[Receipt]:
    """Record what recalls returned; return no receipts."""
    for change in changes:
        _touch(transaction, tenant, change)
    return []


def _touch(transaction: Transaction, tenant: str, change: Touch) -> None:
    connection, session_key = transaction.connection, change.scope.session_key
    chunks, sequence = list(sql.chunks(change.ids)), transaction.sequence(tenant)
    at = UNASKED if change.at is None and transaction.logs_touches else change.at and microseconds(change.at)
    if change.counts:
        for chunk in chunks:
            if at is not None:
                values = {"tenant": tenant, "seq": sequence, "at": at, "ids": chunk}
                connection.execute(sql_history.note_touches(), values)
            connection.execute(*sql.touch(change, chunk, None if transaction.logs_touches else sequence))
    if session_key is None:
        return
    turn = sum(row.turns for row in connection.execute(sql.clocks(tenant, [session_key]))) + 1
    connection.execute(sql.set_clock(), {"tenant": tenant, "session_key": session_key, "turns": turn})
    for chunk in chunks if change.activate else ():
        connection.execute(*sql.note_activations(change, chunk, turn))
