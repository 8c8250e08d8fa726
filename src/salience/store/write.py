"""Changes made on a connection, inside the transaction of the store that calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from sqlalchemy import Connection, CursorResult, Executable, Table

from salience.ports import Add, Adopt, Answered, Change, Lease, Revise, Stored, Touch
from salience.records import Memory, Receipt
from salience.store import rows, sql, sql_history
from salience.store.pins import Handle
from salience.store.schema import activations, memories, versions
from salience.store.values import already, instant, merged, microseconds, own_metadata, own_vector, revised, stale

UNASKED: Final = 0
"""As the instant of a touch of which nobody asks back: it is before every state that is asked for."""
Values = Mapping[str, Any]
Indexed = Callable[[Memory, Sequence[str]], Mapping[str, Any]]
TOUCH_PATIENCE: Final = 0.5
"""Most seconds that the touch of a recall waits for another write."""


class Runs(Protocol):
    """Runs the statements of a write that come with every memory, each made once."""

    def rows(self, statement: Executable, values: Values) -> Sequence[Sequence[Any]]:
        """Return what a statement finds."""
        ...

    def run(self, statement: Executable, values: Sequence[Values]) -> None:
        """Run a statement with each of some values, if there are any."""
        ...

    def among(self, statement: Executable, values: Values) -> None:
        """Run a statement on what the list `ids` of its values names."""
        ...

    def insert(self, table: Table, names: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> None:
        """Insert rows of these columns into a table, if there are any."""
        ...


@dataclass(frozen=True, slots=True)
class Through:
    """Runs them through SQLAlchemy, for databases whose columns have types of their own."""

    connection: Connection

    def rows(self, statement: Executable, values: Values) -> Sequence[Sequence[Any]]:
        """Return what a statement finds."""
        return self.connection.execute(statement, values).all()

    def run(self, statement: Executable, values: Sequence[Values]) -> None:
        """Run a statement with each of some values, if there are any."""
        if values:  # no values at all would run it once, without any
            self.connection.execute(statement, values)

    def among(self, statement: Executable, values: Values) -> None:
        """Run a statement on what the list `ids` of its values names."""
        self.connection.execute(statement, values)

    def insert(self, table: Table, names: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> None:
        """Insert rows of these columns into a table, if there are any."""
        self.run(table.insert(), [dict(zip(names, row, strict=True)) for row in rows])


@dataclass(frozen=True, slots=True)
class Transaction:
    """Where a run of changes is made.

    Attributes:
        connection: with a write transaction begun.
        runs: runs statements in it.
        handle: whose changes they are.
        sequence: from a tenant to the change sequence of every row of it that is written.
        void: makes void what was computed from a tenant's rows before.
        pruned: notes up to which change sequence touches of a tenant were dropped.
        indexed: from a memory and its terms to the columns that the database finds it by; none where it needs none.
        of_all: lets what is done in it be about the rows of all tenants.
        tenants: returns those whose rows have to be changed one tenant at a time; None stands for all of them at once.
        last_ids: the greatest id of tenants, where it is known already.
    """

    connection: Connection
    runs: Runs
    handle: Handle
    sequence: Callable[[str], int]
    void: Callable[[str], None]
    pruned: Callable[[str, int], None]
    indexed: Indexed = lambda *_: {}
    of_all: Callable[[], AbstractContextManager[object]] = nullcontext
    tenants: Callable[[], Sequence[str | None]] = lambda: (None,)
    last_ids: Mapping[str, str | None] = field(default_factory=dict)

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
    plan = _Plan.read(transaction, tenant, changes)
    receipts = [plan.place(change) for change in changes]
    new = [
        (_with(change.stored, receipt.memory), change.history)
        for change, receipt in zip(changes, receipts, strict=True)
        if receipt.status == "created"
    ]
    _insert_memories(transaction, tenant, [stored for stored, _ in new])
    _insert_versions(transaction, [pair for pair in new if pair[1]])
    _insert_activations(transaction, tenant, [stored for stored, _ in new if stored.activations])
    clocks = [{"tenant": tenant, "session_key": name, "turns": turns} for name, turns in plan.clocks.items()]
    transaction.runs.run(sql.set_clock(), clocks)
    return receipts


def _with(stored: Stored, memory: Memory) -> Stored:
    return stored if stored.memory is memory else replace(stored, memory=memory)


def _insert_memories(transaction: Transaction, tenant: str, new: Sequence[Stored]) -> None:
    if not new:
        return
    names = ("seq", "short_id", *rows.HELD, *transaction.indexed(new[0].memory, new[0].terms))
    transaction.runs.insert(memories, names, _rows(transaction, transaction.sequence(tenant), new))


def _rows(transaction: Transaction, sequence: int, new: Iterable[Stored]) -> Iterator[tuple[Any, ...]]:
    """Yield new memories as rows, one when it is asked for: what is derived of a text may still have to be read."""
    for stored in new:
        derived = stored.terms, stored.distinctions
        more = transaction.indexed(stored.memory, derived[0])
        yield (sequence, stored.memory.short_id, *rows.held(stored, transaction.dimension, derived), *more.values())


def _insert_versions(transaction: Transaction, histories: Sequence[tuple[Stored, Sequence[Stored]]]) -> None:
    """Store the versions before some memories; each was valid until the next one was made."""
    values = [
        (*rows.held(older, transaction.dimension), microseconds(later.memory.changed_at))
        for stored, history in histories
        for older, later in zip(history, (*history[1:], stored), strict=True)
    ]
    transaction.runs.insert(versions, (*rows.HELD, "valid_to"), values)


def _insert_activations(transaction: Transaction, tenant: str, new: Sequence[Stored]) -> None:
    values = [
        (tenant, session_key, stored.memory.id, turn)
        for stored in new
        for session_key, turn in stored.activations.items()
    ]
    transaction.runs.insert(activations, ("tenant", "session_key", "memory_id", "turn"), values)


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
    def read(cls, transaction: Transaction, tenant: str, changes: Sequence[Add]) -> _Plan:
        """Return what is known of the ids, keys and sessions of some additions; an id after all others is of none."""
        connection, new = transaction.connection, [change.stored.memory for change in changes]
        plan = cls({}, {}, _clocks(transaction, tenant, changes), set())
        if tenant in transaction.last_ids:
            last = transaction.last_ids[tenant]
        else:
            ((last,),) = transaction.runs.rows(sql.last_id(), {"tenant": tenant})
        for chunk in sql.chunks(memory.id for memory in new if memory.id <= (last or "")):
            plan._meet(connection.execute(sql.of_ids(tenant, chunk)))
        for home, keys in _keys_by_home(new).items():
            for chunk in sql.chunks(keys):
                plan._meet(connection.execute(sql.of_keys(tenant, home, chunk)))
        for chunk in sql.chunks(known.id for known in plan.by_key.values() if known.version > 1):
            plan.said.update((row.id, row.content_hash) for row in connection.execute(sql_history.said(tenant, chunk)))
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
        return memory if memory.turn == turn else replace(memory, turn=turn)


def _clocks(transaction: Transaction, tenant: str, changes: Sequence[Add]) -> dict[str, int]:
    """Return the turns so far of the sessions that some additions are in, or bring activations of."""
    own = (change.stored.memory.scope.session_key for change in changes)
    carried = (session_key for change in changes for session_key in change.stored.activations)
    names = list(dict.fromkeys(name for name in (*own, *carried) if name is not None))
    known: dict[str, int] = {}
    if len(names) == 1:  # as for a turn of a conversation that is stored as it is said
        of = {"tenant": tenant, "session_key": names[0]}
        known.update((names[0], turns) for (turns,) in transaction.runs.rows(sql.clock(), of))
        return known
    for chunk in sql.chunks(names):
        known.update({row.session_key: row.turns for row in transaction.connection.execute(sql.clocks(tenant, chunk))})
    return known


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
        if change.counts:
            _count(transaction, tenant, change)
        _move_on(transaction, tenant, change)
    return []


def _count(transaction: Transaction, tenant: str, change: Touch) -> None:
    """Count what one recall returned."""
    noted = {
        "tenant": tenant,
        "seq": transaction.sequence(tenant),
        "at": UNASKED if change.at is None else microseconds(change.at),
    }
    for chunk in sql.chunks(change.ids):
        transaction.runs.among(sql_history.note_touches(), {**noted, "ids": chunk})
        transaction.runs.among(*sql.touch(change, chunk))


def _move_on(transaction: Transaction, tenant: str, change: Touch) -> None:
    """Have the session of a recall, if it has one, move on by a turn."""
    runs, session_key = transaction.runs, change.scope.session_key
    if session_key is None:
        return
    of = {"tenant": tenant, "session_key": session_key}
    turn = sum(turns for (turns,) in runs.rows(sql.clock(), of)) + 1
    runs.run(sql.set_clock(), [{**of, "turns": turn}])
    for chunk in sql.chunks(change.ids) if change.activate else ():
        runs.among(*sql.note_activations(change, chunk, turn))
