"""Writes and reads that both databases run, inside a transaction of the store that calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from typing import Any, Final, Protocol

from sqlalchemy import Connection, CursorResult, Executable, Table

from salience.errors import DamagedError, PinnedError
from salience.ports import Add, Adopt, Answered, Change, Count, Derive, Erase, Lease, Prune, Revise, Stored, Touch
from salience.records import Filter, Memory, Receipt, Scope
from salience.records.ids import SHORT
from salience.store import rows, statements
from salience.store.index import Activations
from salience.store.pins import LAID_BY, Handle, Meta, Pin, keep, new_epoch, of_pin
from salience.store.rows import RECORD, is_text, of_record, readable, to_memory, to_stored
from salience.store.schema import activations, memories, versions
from salience.store.sqlite_file import Driver
from salience.store.statements import COUNTERS
from salience.store.values import (
    already,
    answered_already,
    held_by,
    instant,
    is_session_of,
    merged,
    microseconds,
    missing,
    own_metadata,
    own_vector,
    revised,
    stale,
)

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
    transaction.runs.run(statements.set_clock(), clocks)
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
            ((last,),) = transaction.runs.rows(statements.last_id(), {"tenant": tenant})
        for chunk in statements.chunks(memory.id for memory in new if memory.id <= (last or "")):
            plan._meet(connection.execute(statements.of_ids(tenant, chunk)))
        for home, keys in _keys_by_home(new).items():
            for chunk in statements.chunks(keys):
                plan._meet(connection.execute(statements.of_keys(tenant, home, chunk)))
        for chunk in statements.chunks(known.id for known in plan.by_key.values() if known.version > 1):
            plan.said.update((row.id, row.content_hash) for row in connection.execute(statements.said(tenant, chunk)))
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
        known.update((names[0], turns) for (turns,) in transaction.runs.rows(statements.clock(), of))
        return known
    for chunk in statements.chunks(names):
        known.update(
            {row.session_key: row.turns for row in transaction.connection.execute(statements.clocks(tenant, chunk))}
        )
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
    current = connection.execute(statements.current(tenant, given.id)).one_or_none()
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
    connection.execute(statements.keep_version(), {**of, "until": values["changed_at"]})
    rest = {name: value for name, value in values.items() if name not in ("tenant", "id")}
    connection.execute(statements.revise(frozenset(rest)), {**rest, **of})
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
    for chunk in statements.chunks(change.ids):
        transaction.runs.among(statements.note_touches(), {**noted, "ids": chunk})
        transaction.runs.among(*statements.touch(change, chunk))


def _move_on(transaction: Transaction, tenant: str, change: Touch) -> None:
    """Have the session of a recall, if it has one, move on by a turn."""
    runs, session_key = transaction.runs, change.scope.session_key
    if session_key is None:
        return
    of = {"tenant": tenant, "session_key": session_key}
    turn = sum(turns for (turns,) in runs.rows(statements.clock(), of)) + 1
    runs.run(statements.set_clock(), [{**of, "turns": turn}])
    for chunk in statements.chunks(change.ids) if change.activate else ():
        runs.among(*statements.note_activations(change, chunk, turn))


_TABLES: Final = (memories, versions)


def derive_all(transaction: Transaction, _: str, changes: Sequence[Derive]) -> list[Receipt]:
    """Put anew what is derived, or lay vectors by for a model that is not adopted yet; return no receipts."""
    meta = Meta.read(transaction.connection)  # anew: a change before in this transaction may have pinned another model
    pin = meta.pin()
    vectors = [change for change in changes if change.vector is not None]
    is_home = pin is None or not vectors or transaction.handle.matches(pin)  # only vectors need a provider to answer
    if not is_home:
        _lay_by(transaction, meta.pin(LAID_BY), vectors)
    for change in changes:
        _derive(transaction, change, is_home)
    return []


def _derive(transaction: Transaction, change: Derive, is_home: bool) -> None:
    values: dict[str, Any] = {}
    if change.vector is not None and is_home:
        values["vector"] = rows.of_vector(own_vector(change.vector, transaction.dimension))
    if change.terms is not None:
        values["terms"] = rows.of_terms(change.terms)
    if change.distinctions is not None:
        values["distinctions"] = rows.of_distinctions(change.distinctions)
    if not values:
        return
    named = (change.tenant, change.id, change.version)
    current = transaction.connection.execute(statements.version_of(memories, *named)).mappings().one_or_none()
    table = versions if current is None else memories
    if current is not None:
        if current["vector"] is not None or values.keys() != {"vector"}:  # an arena sees a first vector, and no more
            transaction.void(change.tenant)
        values["seq"] = transaction.sequence(change.tenant)
        if change.terms is not None:
            values |= transaction.indexed(rows.to_memory(current), change.terms)
    transaction.connection.execute(statements.rederive(table, *named, change.content_hash).values(values))


def _lay_by(transaction: Transaction, pin: Pin | None, changes: Sequence[Derive]) -> None:
    """Lay the vectors by; those that are there stay only if their model, that of `pin`, is the same."""
    if changes and (pin is None or not transaction.handle.matches(pin)):
        with transaction.of_all():
            transaction.connection.execute(statements.drop_laid_by())
        keep(transaction.connection, of_pin(transaction.handle.own(), LAID_BY))
    values = [
        {
            "tenant": change.tenant,
            "id": change.id,
            "version": change.version,
            "content_hash": change.content_hash,
            "vector": rows.of_vector(own_vector(change.vector, transaction.dimension)),
        }
        for change in changes
    ]
    for table in _TABLES if values else ():
        transaction.connection.execute(statements.lay_by(table), values)


def erase_all(transaction: Transaction, tenant: str, changes: Sequence[Erase]) -> list[Receipt]:
    """Delete memories with all that belongs to them; return no receipts."""
    for change in changes:
        for chunk in statements.chunks(change.ids):
            _erase(transaction.connection, tenant, chunk)
        if change.sessions is not None:
            _end_sessions(transaction.connection, tenant, change.sessions)
    transaction.void(tenant)
    return []


def _erase(connection: Connection, tenant: str, ids: Sequence[str]) -> None:
    held = {row["id"] for row in connection.execute(statements.of_ids(tenant, ids)).mappings()}
    for gone in (erased for erased in ids if erased not in held):
        raise missing(gone)
    ended = [_session_key(tenant, *row) for row in connection.execute(statements.in_sessions(tenant, ids))]
    connection.execute(statements.erase_touches(tenant, ids))
    connection.execute(statements.erase(tenant, ids))
    connection.execute(statements.drop_answers(tenant, ids))
    _end(connection, tenant, ended)


def _end_sessions(connection: Connection, tenant: str, whose: Scope) -> None:
    known = connection.execute(statements.session_keys(tenant)).scalars().all()
    _end(connection, tenant, [key for key in known if is_session_of(key, whose)])


def _end(connection: Connection, tenant: str, session_keys: Sequence[str]) -> None:
    """Drop the clocks and the activations of sessions, but for those that a memory is in; one pass for many of them."""
    for keys in statements.chunks(session_keys):
        names = list({key.rpartition("\x1f")[2] for key in keys})
        left = {_session_key(tenant, *row) for row in connection.execute(statements.sessions_left(tenant, names))}
        for statement in statements.drop_sessions(tenant, [key for key in keys if key not in left]):
            connection.execute(statement)


def _session_key(tenant: str, environment: str, user_id: str | None, session_id: str) -> str:
    return str(Scope(tenant, environment, user_id=user_id, session_id=session_id).session_key)


def answer_all(transaction: Transaction, _: str, changes: Sequence[Answered]) -> list[Receipt]:
    """Note what was answered under idempotency keys; return no receipts."""
    for change in changes:
        if (
            transaction.connection.execute(statements.note_answer(), statements.answer_values(change)).one_or_none()
            is None
        ):
            raise answered_already(change)
    return []


def prune_all(transaction: Transaction, tenant: str, changes: Sequence[Prune]) -> list[Receipt]:
    """Drop older versions, and what is kept of touches and requests; return no receipts."""
    for change in changes:
        numbers: dict[str, list[int]] = {}
        for named, version in change.versions:
            numbers.setdefault(named, []).append(version)
        for named, dropped in numbers.items():
            transaction.connection.execute(statements.prune(tenant, named, dropped))
        if change.touches_before is not None:
            _prune_touches(transaction, tenant, microseconds(change.touches_before))
        if change.requests_before is not None:
            before = microseconds(change.requests_before)
            transaction.connection.execute(statements.prune_answers(tenant, before))
    return []


def _prune_touches(transaction: Transaction, tenant: str, before: int) -> None:
    """Drop what is kept of touches before an instant, which tells other processes what was touched.

    A file says up to where it is gone, for those who have not read so far; on a server, what they read before is void.
    """
    connection = transaction.connection
    last = connection.execute(statements.last_noted(tenant, before)).scalar()
    if last is None:
        return
    connection.execute(statements.prune_touches(tenant, before))
    transaction.pruned(tenant, last)


def lease_all(transaction: Transaction, _: str, changes: Sequence[Lease]) -> list[Receipt]:
    """Give leases to those who ask; return no receipts."""
    for change in changes:
        values = {"name": change.name, "holder": change.holder}
        instants = {"until": microseconds(change.until), "now": microseconds(change.now)}
        taken = transaction.connection.execute(statements.take_lease(), {**values, **instants}).one_or_none()
        if taken is None:
            held = transaction.connection.execute(statements.lease(change.name)).one()
            raise held_by(change.name, held.holder, instant(held.until))
    return []


def adopt_all(transaction: Transaction, _: str, __: Sequence[Adopt]) -> list[Receipt]:
    """Pin the store to the handle's model, with the vectors laid by for it; return no receipts."""
    connection, meta = transaction.connection, Meta.read(transaction.connection)
    pin, laid_by = meta.pin(), meta.pin(LAID_BY)
    if pin is not None and transaction.handle.matches(pin):
        return []
    if laid_by is not None and not transaction.handle.matches(laid_by):
        raise PinnedError("store: the vectors that were laid by are of another model. Run reembed again.")
    for tenant in transaction.tenants():
        for table in _TABLES:
            connection.execute(statements.adopt(table, tenant))
    connection.execute(statements.drop_laid_by())
    pins = {**of_pin(transaction.handle.own()), **of_pin(None, LAID_BY)}
    keep(connection, {**pins, "epoch": new_epoch()})
    return []


WRITERS: Final[Mapping[type, Callable[[Transaction, str, Any], list[Receipt]]]] = {
    Add: add_all,
    Revise: revise_all,
    Touch: touch_all,
    Derive: derive_all,
    Erase: erase_all,
    Answered: answer_all,
    Prune: prune_all,
    Lease: lease_all,
    Adopt: adopt_all,
}
"""What makes a run of changes of a kind."""


def runs(changes: Sequence[Change]) -> Iterator[tuple[type, str, list[Change]]]:
    """Return changes in their order, those of one kind and one tenant that follow each other together."""
    for (kind, tenant), run in groupby(changes, lambda change: (type(change), tenant_of(change))):
        yield kind, tenant, list(run)


def make(transaction: Transaction, kind: type, tenant: str, changes: Sequence[Change]) -> list[Receipt]:
    """Make a run of changes; return a receipt for each `Add` and `Revise`."""
    return WRITERS[kind](transaction, tenant, changes)


def fetch(reader: Connection, scope: Scope, ids: Sequence[str], as_of: datetime | None) -> list[Memory]:
    """Return the live memories of these ids (whole or short) visible in `scope`, as asked; see `ports.Store`."""
    found = {memory.id: memory for memory in fetched(reader, scope, ids, as_of)}
    if are_whole(ids):
        return [found[asked] for asked in ids if asked in found]
    fits: dict[str, dict[str, Memory]] = {}
    for memory in found.values():
        for name in (memory.id, memory.short_id):
            fits.setdefault(name, {})[memory.id] = memory
    return [next(iter(fits[asked].values())) for asked in ids if len(fits.get(asked, ())) == 1]


def are_whole(ids: Sequence[str]) -> bool:
    """Return whether none of some ids is a short one."""
    return SHORT not in map(len, ids)


def in_order(ids: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[Memory]:
    """Return the memories in rows of `RECORD` in the order of their whole ids; those that are not there are left out.

    Raises:
        StoreError: a value that no memory has; the file is damaged.
    """
    found = {memory.id: memory for memory in map(of_record, rows)}
    return [found[asked] for asked in ids if asked in found]


def fetched(reader: Connection, scope: Scope, ids: Sequence[str], as_of: datetime | None) -> list[Memory]:
    """Return the live memories of these ids, whole or short, visible in `scope`, each as often as it is named."""
    if as_of is not None:
        return fetched_then(reader, scope, ids, as_of)
    rows = [row for chunk in statements.chunks(ids) for row in _found(reader, *statements.named(scope, chunk))]
    for chunk in statements.chunks(asked for asked in ids if len(asked) == SHORT):
        rows += _found(reader, *statements.named(scope, chunk, "short_id"))
    return [of_record(row) for row in rows]


def _found(reader: Connection, statement: Executable, values: Mapping[str, Any]) -> Iterable[Sequence[Any]]:
    """Return what a statement that is made once finds; SQLite's own driver is done before SQLAlchemy has asked."""
    if reader.dialect.name == "sqlite":
        return Driver(reader).rows(statement, values)
    return reader.execute(statement, values)


def fetched_then(reader: Connection, scope: Scope, ids: Sequence[str], as_of: datetime) -> list[Memory]:
    """Return the same as they stood at an instant."""
    whole = list(ids)
    for asked in ids:
        if len(asked) == SHORT:
            whole += reader.execute(statements.meant(scope, asked, short=True)).scalars()
    rows = [row for chunk in statements.chunks(whole) for row in stood(reader, scope.tenant, RECORD, as_of, chunk)]
    then = map(to_memory, rows)
    return [memory for memory in then if scope.sees(memory.scope) and memory.forgotten_at is None]


def keyed(reader: Connection, home: Scope, keys: Sequence[str]) -> list[Memory]:
    """Return the memories, forgotten ones too, that live at `home` under these idempotency keys."""
    return [
        to_memory(row)
        for chunk in statements.chunks(keys)
        for row in reader.execute(statements.of_keys(home.tenant, home.home_key, chunk)).mappings()
    ]


def answered(reader: Connection, home: Scope, key: str) -> Answered | None:
    """Return what was answered to a request from `home` under an idempotency key, if anything is kept of one."""
    row = reader.execute(statements.answer_under(home, key)).one_or_none()
    with readable():
        return None if row is None else statements.to_answered(row, home, key)


def scan(
    reader: Connection,
    scope: Scope,
    after: str,
    limit: int,
    filter: Filter,
    *,
    forgotten: bool,
    versions: bool,
    passed: list[DamagedError] | None = None,
) -> list[Stored]:
    """Return a page of visible memories, with their older versions if they are wanted; see `ports.Store`."""
    found: list[Stored] = []
    left, rows = limit, None
    while rows is None or (passed and left and rows):
        rows = reader.execute(statements.page(scope, after, left, filter, forgotten)).mappings().all()
        ids = [row["id"] for row in rows]
        sound = [one for one in ids if is_text(one)]
        held = by_memory(reader, scope.tenant, sound)
        before = older(reader, scope.tenant, sound, passed) if versions else {}
        for row in rows:
            try:
                newest = to_stored(row, held.get(row["id"], {}))
            except DamagedError as error:
                if passed is None or error.id is None:  # without an id there is no place after it
                    raise
                passed.append(error)
            else:
                found += (*before.get(newest.memory.id, ()), newest)
                left -= 1
        after = ids[-1] if ids else after
    return found


def history(reader: Connection, scope: Scope, id: str) -> list[Stored]:
    """Return the versions of the memory, visible in `scope`, that an id means; see `ports.Store`."""
    found = set(reader.execute(statements.meant(scope, id, short=False)).scalars())
    found |= set(reader.execute(statements.meant(scope, id, short=True)).scalars())
    if len(found) != 1:
        return []
    (whole,) = found
    (row,) = reader.execute(statements.of_ids(scope.tenant, [whole])).mappings().all()
    held = by_memory(reader, scope.tenant, [whole])
    return [*older(reader, scope.tenant, [whole]).get(whole, ()), to_stored(row, held.get(whole, {}))]


def without_vector(
    meta: Meta, handle: Handle, after: tuple[str, str, int], limit: int, tenant: str | None = None
) -> list[statements.Asked]:
    """Return what finds the keys of the versions without a vector of the handle's model, after a key, in order.

    Raises:
        EmbedderError: whether the store's model is the handle's is not to be had.
    """
    pin, laid_by = meta.pin(), meta.pin(LAID_BY)
    if pin is None or handle.matches(pin):
        return statements.unembedded(after, limit, tenant)
    return statements.not_laid_by(after, limit, laid_by is not None and handle.matches(laid_by), tenant)


def unembedded(reader: Connection, asked: Sequence[statements.Asked], limit: int) -> list[Stored]:
    """Return the first versions that these statements find the keys of."""
    keys = sorted(tuple(row) for one in asked for row in reader.execute(*one))[:limit]
    return [version(reader, *key) for key in keys]


def version(reader: Connection, tenant: str, id: str, version: int) -> Stored:
    """Return one version, current or older."""
    for table in (memories, versions):
        found = reader.execute(statements.version_of(table, tenant, id, version)).mappings().one_or_none()
        if found is not None:
            is_current = table is memories
            return to_stored(found, by_memory(reader, tenant, [id]).get(id, {}) if is_current else {})
    raise AssertionError("a version went away within a transaction")


def session_activations(reader: Connection, tenant: str, session_key: str) -> Activations:
    """Return what a session recalled."""
    clock = sum(row.turns for row in reader.execute(statements.clocks(tenant, [session_key])))
    return Activations(
        clock, {row.memory_id: row.turn for row in reader.execute(statements.activations_in(tenant, session_key))}
    )


def by_memory(reader: Connection, tenant: str, ids: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return the activations of memories: id -> session key -> turn."""
    held: dict[str, dict[str, int]] = {}
    for chunk in statements.chunks(ids):
        for memory_id, session_key, turn in reader.execute(statements.activations_of(tenant, chunk)):
            held.setdefault(memory_id, {})[session_key] = turn
    return held


def older(
    reader: Connection, tenant: str, ids: Sequence[str], passed: list[DamagedError] | None = None
) -> dict[str, list[Stored]]:
    """Return the older versions of memories, oldest first, by id; damaged ones go into `passed` where it is given."""
    held: dict[str, list[Stored]] = {}
    rows: list[Any] = [
        row for chunk in statements.chunks(ids) for row in reader.execute(statements.older(tenant, chunk)).mappings()
    ]
    for row in rows:
        try:
            held.setdefault(row["id"], []).append(to_stored(row, {}))
        except DamagedError as error:
            if passed is None:
                raise
            passed.append(error)
    return held


def tenants(reader: Connection) -> dict[str, int]:
    """Return the number of memories of each tenant that has some."""
    found = reader.exec_driver_sql("SELECT tenant, count(*) FROM memories GROUP BY tenant")
    return dict(map(tuple, found))


def counts_by(reader: Connection, scope: Scope) -> list[Count]:
    """Return the numbers of live memories visible in a scope; see `ports.Store.counts`."""
    return [Count(*row) for row in reader.execute(statements.counts_by(scope))]


def counts(connection: Connection, tenants: Sequence[str] | None = None) -> tuple[int, int]:
    """Return how many memories and how many older versions there are, in all or of some tenants."""
    held, older = connection.execute(statements.counts(tenants)).one()
    return held, older


def stood(
    reader: Connection,
    tenant: str,
    names: Sequence[str],
    as_of: datetime,
    ids: Sequence[str] | None = None,
    seen: Scope | None = None,
) -> Iterator[Mapping[str, Any]]:
    """Yield columns of the memories, forgotten ones too, as they stood; `id`, `version` and `COUNTERS` among them.

    Those of some ids alone, and those visible in a scope alone, where they are given.
    """
    instant = microseconds(as_of)
    before: dict[tuple[str, int], list[Any]] = {}
    for id_, version, *counters in reader.execute(statements.touched_since(tenant, instant, ids)):
        before.setdefault((id_, version), counters)
    for row in reader.execute(statements.stood(tenant, names, instant, ids, seen)).mappings():
        counters = before.get((row["id"], row["version"]), [])
        yield {**row, **dict(zip(COUNTERS, counters, strict=False))}
