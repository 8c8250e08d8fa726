"""Writes and reads that both databases share, inside a transaction of the calling store."""

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

NO_INSTANT: Final = 0
"""Recorded for a touch without an instant: it is before every state that a read asks for."""
Values = Mapping[str, Any]
Indexed = Callable[[Memory, Sequence[str]], Mapping[str, Any]]
TOUCH_PATIENCE: Final = 0.5
"""Maximum seconds that the touch of a recall waits for another write."""


class Executor(Protocol):
    """Runs the frequent statements of a write."""

    def rows(self, statement: Executable, values: Values) -> Sequence[Sequence[Any]]:
        """Return the rows of a query."""
        ...

    def run(self, statement: Executable, values: Sequence[Values]) -> None:
        """Run a statement once for each set of values; not at all without any."""
        ...

    def run_with_ids(self, statement: Executable, values: Values) -> None:
        """Run a statement whose values include a list `ids`."""
        ...

    def insert(self, table: Table, names: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> None:
        """Insert rows of these columns into a table."""
        ...


@dataclass(frozen=True, slots=True)
class SQLAlchemyExecutor:
    """Runs them through SQLAlchemy, which converts the types of PostgreSQL."""

    connection: Connection

    def rows(self, statement: Executable, values: Values) -> Sequence[Sequence[Any]]:
        """Return the rows of a query."""
        return self.connection.execute(statement, values).all()

    def run(self, statement: Executable, values: Sequence[Values]) -> None:
        """Run a statement once for each set of values; not at all without any."""
        if values:  # SQLAlchemy would run it once, without values
            self.connection.execute(statement, values)

    def run_with_ids(self, statement: Executable, values: Values) -> None:
        """Run a statement whose values include a list `ids`."""
        self.connection.execute(statement, values)

    def insert(self, table: Table, names: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> None:
        """Insert rows of these columns into a table."""
        self.run(table.insert(), [dict(zip(names, row, strict=True)) for row in rows])


@dataclass(frozen=True, slots=True)
class Transaction:
    """A write transaction, and the steps in which the databases differ.

    Attributes:
        connection: in a write transaction.
        executor: runs the frequent statements in it.
        handle: of the engine that writes.
        sequence: returns the change sequence of a tenant's new rows.
        void: invalidates all indexes of a tenant's rows.
        pruned: records the change sequence up to which a tenant's touches are deleted.
        indexed: returns the search columns of a memory and its terms.
        of_all: context in which statements see the rows of all tenants.
        tenants: returns the tenants to update one at a time; None stands for all of them at once.
        last_ids: tenant -> greatest id, where it is known already.
    """

    connection: Connection
    executor: Executor
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
    """Return the seconds that changes wait for another write."""
    only_touches = all(isinstance(change, Touch) for change in changes)
    return min(busy_timeout, TOUCH_PATIENCE) if only_touches else busy_timeout


def tenant_of(change: Change) -> str:
    """Return the tenant of a change; empty for a change of the whole store."""
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
    transaction.executor.run(statements.set_clock(), clocks)
    return receipts


def _with(stored: Stored, memory: Memory) -> Stored:
    return stored if stored.memory is memory else replace(stored, memory=memory)


def _insert_memories(transaction: Transaction, tenant: str, new: Sequence[Stored]) -> None:
    if not new:
        return
    names = ("seq", "short_id", *rows.HELD, *transaction.indexed(new[0].memory, new[0].terms))
    transaction.executor.insert(memories, names, _rows(transaction, transaction.sequence(tenant), new))


def _rows(transaction: Transaction, sequence: int, new: Iterable[Stored]) -> Iterator[tuple[Any, ...]]:
    """Yield new memories as rows."""
    for stored in new:
        derived = stored.terms, stored.distinctions
        more = transaction.indexed(stored.memory, derived[0])
        yield (sequence, stored.memory.short_id, *rows.held(stored, transaction.dimension, derived), *more.values())


def _insert_versions(transaction: Transaction, histories: Sequence[tuple[Stored, Sequence[Stored]]]) -> None:
    """Store the older versions of memories; each is valid until the next one."""
    values = [
        (*rows.held(older, transaction.dimension), microseconds(later.memory.changed_at))
        for stored, history in histories
        for older, later in zip(history, (*history[1:], stored), strict=True)
    ]
    transaction.executor.insert(versions, (*rows.HELD, "valid_to"), values)


def _insert_activations(transaction: Transaction, tenant: str, new: Sequence[Stored]) -> None:
    values = [
        (tenant, session_key, stored.memory.id, turn)
        for stored in new
        for session_key, turn in stored.activations.items()
    ]
    transaction.executor.insert(activations, ("tenant", "session_key", "memory_id", "turn"), values)


@dataclass(frozen=True, slots=True)
class _Plan:
    """Known memories and session clocks, kept up to date while additions are placed.

    Attributes:
        by_id, by_key: memories by id, and by home and key.
        clocks: session key -> turns.
        older_hashes: ids of changed memories with a key, with the content hashes of their older versions.
    """

    by_id: dict[str, Memory]
    by_key: dict[tuple[str, str], Memory]
    clocks: dict[str, int]
    older_hashes: set[tuple[str, str]]

    @classmethod
    def read(cls, transaction: Transaction, tenant: str, changes: Sequence[Add]) -> _Plan:
        """Read the memories and sessions that additions refer to."""
        connection, new = transaction.connection, [change.stored.memory for change in changes]
        plan = cls({}, {}, _clocks(transaction, tenant, changes), set())
        if tenant in transaction.last_ids:
            last = transaction.last_ids[tenant]
        else:
            ((last,),) = transaction.executor.rows(statements.last_id(), {"tenant": tenant})
        # a new id sorts after all others, as a rule, and needs no query
        for chunk in statements.chunks(memory.id for memory in new if memory.id <= (last or "")):
            plan._add_rows(connection.execute(statements.of_ids(tenant, chunk)))
        for home, keys in _keys_by_home(new).items():
            for chunk in statements.chunks(keys):
                plan._add_rows(connection.execute(statements.of_keys(tenant, home, chunk)))
        for chunk in statements.chunks(known.id for known in plan.by_key.values() if known.version > 1):
            plan.older_hashes.update(
                (row.id, row.content_hash) for row in connection.execute(statements.older_hashes(tenant, chunk))
            )
        return plan

    def place(self, change: Add) -> Receipt:
        """Return the receipt of an addition, given the ones before it."""
        memory = change.stored.memory
        taken = self.by_key.get((memory.scope.home_key, memory.key)) if memory.key is not None else None
        present = self.by_id.get(memory.id) if taken is None else taken
        if present is not None:
            return already(present, memory, (present.id, memory.content_hash) in self.older_hashes)
        for session_key, turn in change.stored.activations.items():
            self.clocks[session_key] = max(turn, self.clocks.get(session_key, 0))
        memory = self._with_turn(own_metadata(memory))
        self._add(memory)
        return Receipt(memory, "created")

    def _add_rows(self, found: CursorResult[Any]) -> None:
        for row in found.mappings():
            self._add(rows.to_memory(row))

    def _add(self, memory: Memory) -> None:
        self.by_id[memory.id] = memory
        if memory.key is not None:
            self.by_key[memory.scope.home_key, memory.key] = memory

    def _with_turn(self, memory: Memory) -> Memory:
        """Return `memory` with its turn in its session, and advance the session's clock to it."""
        session_key = memory.scope.session_key
        if session_key is None:
            return memory
        clock = self.clocks.get(session_key, 0)
        turn = clock + 1 if memory.turn is None else memory.turn
        self.clocks[session_key] = max(turn, clock)
        return memory if memory.turn == turn else replace(memory, turn=turn)


def _clocks(transaction: Transaction, tenant: str, changes: Sequence[Add]) -> dict[str, int]:
    """Return the clocks of the sessions of additions and of their activations."""
    own = (change.stored.memory.scope.session_key for change in changes)
    carried = (session_key for change in changes for session_key in change.stored.activations)
    names = list(dict.fromkeys(name for name in (*own, *carried) if name is not None))
    return {
        row.session_key: row.turns
        for chunk in statements.chunks(names)
        for row in transaction.connection.execute(statements.clocks(tenant, chunk))
    }


def _keys_by_home(memories: Sequence[Memory]) -> dict[str, list[str]]:
    keys: dict[str, list[str]] = {}
    for memory in memories:
        if memory.key is not None:
            keys.setdefault(memory.scope.home_key, []).append(memory.key)
    return keys


def revise_all(transaction: Transaction, tenant: str, changes: Sequence[Revise]) -> list[Receipt]:
    """Replace memories by their next versions; return a receipt for each."""
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
    """Record recalls; return no receipts."""
    for change in changes:
        if change.counts:
            _update_counters(transaction, tenant, change)
        _advance_session(transaction, tenant, change)
    return []


def _update_counters(transaction: Transaction, tenant: str, change: Touch) -> None:
    """Raise the recall counters, and record the values before."""
    recorded = {
        "tenant": tenant,
        "seq": transaction.sequence(tenant),
        "at": NO_INSTANT if change.at is None else microseconds(change.at),
    }
    for chunk in statements.chunks(change.ids):
        transaction.executor.run_with_ids(statements.note_touches(), {**recorded, "ids": chunk})
        transaction.executor.run_with_ids(*statements.touch(change, chunk))


def _advance_session(transaction: Transaction, tenant: str, change: Touch) -> None:
    """Advance the session of a recall by a turn, and activate the returned memories if the change says so."""
    executor, session_key = transaction.executor, change.scope.session_key
    if session_key is None:
        return
    of = {"tenant": tenant, "session_key": session_key}
    turn = sum(turns for (turns,) in executor.rows(statements.clock(), of)) + 1
    executor.run(statements.set_clock(), [{**of, "turns": turn}])
    for chunk in statements.chunks(change.ids) if change.activate else ():
        executor.run_with_ids(*statements.note_activations(change, chunk, turn))


_TABLES: Final = (memories, versions)


def derive_all(transaction: Transaction, _: str, changes: Sequence[Derive]) -> list[Receipt]:
    """Replace derived data, or store vectors for a model that is not adopted yet; return no receipts."""
    meta = Meta.read(transaction.connection)  # an earlier change in this transaction may have pinned another model
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
        # an index picks up a first vector by the change sequence
        if current["vector"] is not None or values.keys() != {"vector"}:
            transaction.void(change.tenant)
        values["seq"] = transaction.sequence(change.tenant)
        if change.terms is not None:
            values |= transaction.indexed(rows.to_memory(current), change.terms)
    transaction.connection.execute(statements.rederive(table, *named, change.content_hash).values(values))


def _lay_by(transaction: Transaction, pin: Pin | None, changes: Sequence[Derive]) -> None:
    """Store vectors for a model that is not adopted yet; drop stored ones of another model."""
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
    """Delete memories with all their data; return no receipts."""
    for change in changes:
        for chunk in statements.chunks(change.ids):
            _erase(transaction.connection, tenant, chunk)
        if change.sessions is not None:
            _end_sessions(transaction.connection, tenant, change.sessions)
    transaction.void(tenant)
    return []


def _erase(connection: Connection, tenant: str, ids: Sequence[str]) -> None:
    held = {row["id"] for row in connection.execute(statements.of_ids(tenant, ids)).mappings()}
    for absent in (id_ for id_ in ids if id_ not in held):
        raise missing(absent)
    ended = [_session_key(tenant, *row) for row in connection.execute(statements.in_sessions(tenant, ids))]
    connection.execute(statements.erase_touches(tenant, ids))
    connection.execute(statements.erase(tenant, ids))
    connection.execute(statements.drop_answers(tenant, ids))
    _end(connection, tenant, ended)


def _end_sessions(connection: Connection, tenant: str, whose: Scope) -> None:
    known = connection.execute(statements.session_keys(tenant)).scalars().all()
    _end(connection, tenant, [key for key in known if is_session_of(key, whose)])


def _end(connection: Connection, tenant: str, session_keys: Sequence[str]) -> None:
    """Drop the clocks and activations of the sessions without a memory."""
    for keys in statements.chunks(session_keys):
        names = list({key.rpartition("\x1f")[2] for key in keys})
        left = {_session_key(tenant, *row) for row in connection.execute(statements.sessions_left(tenant, names))}
        for statement in statements.drop_sessions(tenant, [key for key in keys if key not in left]):
            connection.execute(statement)


def _session_key(tenant: str, environment: str, user_id: str | None, session_id: str) -> str:
    return str(Scope(tenant, environment, user_id=user_id, session_id=session_id).session_key)


def answer_all(transaction: Transaction, _: str, changes: Sequence[Answered]) -> list[Receipt]:
    """Record requests under idempotency keys; return no receipts."""
    for change in changes:
        values = statements.answer_values(change)
        if transaction.connection.execute(statements.note_answer(), values).one_or_none() is None:
            raise answered_already(change)
    return []


def prune_all(transaction: Transaction, tenant: str, changes: Sequence[Prune]) -> list[Receipt]:
    """Delete older versions and records of touches and requests; return no receipts."""
    for change in changes:
        numbers: dict[str, list[int]] = {}
        for id_, version in change.versions:
            numbers.setdefault(id_, []).append(version)
        for id_, dropped in numbers.items():
            transaction.connection.execute(statements.prune(tenant, id_, dropped))
        if change.touches_before is not None:
            _prune_touches(transaction, tenant, microseconds(change.touches_before))
        if change.requests_before is not None:
            before = microseconds(change.requests_before)
            transaction.connection.execute(statements.prune_answers(tenant, before))
    return []


def _prune_touches(transaction: Transaction, tenant: str, before: int) -> None:
    """Delete the records of touches before an instant.

    Other processes update their indexes from these records; `Transaction.pruned` lets them notice the deletion.
    """
    connection = transaction.connection
    last = connection.execute(statements.last_noted(tenant, before)).scalar()
    if last is None:
        return
    connection.execute(statements.prune_touches(tenant, before))
    transaction.pruned(tenant, last)


def lease_all(transaction: Transaction, _: str, changes: Sequence[Lease]) -> list[Receipt]:
    """Grant leases; return no receipts."""
    for change in changes:
        values = {"name": change.name, "holder": change.holder}
        instants = {"until": microseconds(change.until), "now": microseconds(change.now)}
        taken = transaction.connection.execute(statements.take_lease(), {**values, **instants}).one_or_none()
        if taken is None:
            held = transaction.connection.execute(statements.lease(change.name)).one()
            raise held_by(change.name, held.holder, instant(held.until))
    return []


def adopt_all(transaction: Transaction, _: str, __: Sequence[Adopt]) -> list[Receipt]:
    """Pin the store to the handle's model, with the vectors stored for it; return no receipts."""
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
"""Kind of change -> function that makes consecutive changes of that kind."""


def grouped(changes: Sequence[Change]) -> Iterator[tuple[type, str, list[Change]]]:
    """Yield consecutive changes of one kind and tenant together, in order."""
    for (kind, tenant), group in groupby(changes, lambda change: (type(change), tenant_of(change))):
        yield kind, tenant, list(group)


def fetch(reader: Connection, scope: Scope, ids: Sequence[str], as_of: datetime | None) -> list[Memory]:
    """Return the live visible memories of whole or short ids, in their order; see `ports.Store.fetch`."""
    found = {memory.id: memory for memory in fetched(reader, scope, ids, as_of)}
    if are_whole(ids):
        return [found[id_] for id_ in ids if id_ in found]
    fits: dict[str, dict[str, Memory]] = {}
    for memory in found.values():
        for name in (memory.id, memory.short_id):
            fits.setdefault(name, {})[memory.id] = memory
    return [next(iter(fits[name].values())) for name in ids if len(fits.get(name, ())) == 1]


def are_whole(ids: Sequence[str]) -> bool:
    """Return whether none of some ids is a short one."""
    return SHORT not in map(len, ids)


def in_order(ids: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[Memory]:
    """Return the memories in rows of `RECORD`, in the order of `ids`; absent ids are left out.

    Raises:
        DamagedError: a row cannot be read.
    """
    found = {memory.id: memory for memory in map(of_record, rows)}
    return [found[id_] for id_ in ids if id_ in found]


def fetched(reader: Connection, scope: Scope, ids: Sequence[str], as_of: datetime | None) -> list[Memory]:
    """Return the live visible memories of whole or short ids, possibly more than once, in any order."""
    short = [id_ for id_ in ids if len(id_) == SHORT]
    if as_of is None:
        found: list[Memory] = []
        for column, names in (("id", ids), ("short_id", short)):
            for chunk in statements.chunks(names):
                found += map(of_record, reader.execute(*statements.live_of(scope, chunk, column)))
        return found
    whole = list(ids)
    for name in short:
        whole += reader.execute(statements.meant(scope, name, short=True)).scalars()
    rows = [row for chunk in statements.chunks(whole) for row in rows_as_of(reader, scope.tenant, RECORD, as_of, chunk)]
    memories = map(to_memory, rows)
    return [memory for memory in memories if scope.sees(memory.scope) and memory.forgotten_at is None]


def keyed(reader: Connection, home: Scope, keys: Sequence[str]) -> list[Memory]:
    """Return the memories at `home` under these idempotency keys, forgotten ones too."""
    return [
        to_memory(row)
        for chunk in statements.chunks(keys)
        for row in reader.execute(statements.of_keys(home.tenant, home.home_key, chunk)).mappings()
    ]


def answered(reader: Connection, home: Scope, key: str) -> Answered | None:
    """Return the recorded request from `home` under an idempotency key, if any."""
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
    """Return a page of visible memories, with their older versions if `versions` is set; see `ports.Store.scan`."""
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
                if passed is None or error.id is None:  # without an id, the next page has no start
                    raise
                passed.append(error)
            else:
                found += (*before.get(newest.memory.id, ()), newest)
                left -= 1
        after = ids[-1] if ids else after
    return found


def history(reader: Connection, scope: Scope, id: str) -> list[Stored]:
    """Return the versions of the visible memory with a whole or short id; see `ports.Store.history`."""
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
) -> list[statements.Query]:
    """Return the queries for the keys of versions without a vector of the handle's model, after a key, in order.

    Raises:
        EmbedderError: the model's fingerprint is not available.
    """
    pin, laid_by = meta.pin(), meta.pin(LAID_BY)
    if pin is None or handle.matches(pin):
        return statements.unembedded(after, limit, tenant)
    return statements.not_laid_by(after, limit, laid_by is not None and handle.matches(laid_by), tenant)


def unembedded(reader: Connection, queries: Sequence[statements.Query], limit: int) -> list[Stored]:
    """Return the first `limit` versions of these queries."""
    keys = sorted(tuple(row) for query in queries for row in reader.execute(*query))[:limit]
    return [version(reader, *key) for key in keys]


def version(reader: Connection, tenant: str, id: str, version: int) -> Stored:
    """Return one version, current or older."""
    for table in (memories, versions):
        found = reader.execute(statements.version_of(table, tenant, id, version)).mappings().one_or_none()
        if found is not None:
            is_current = table is memories
            return to_stored(found, by_memory(reader, tenant, [id]).get(id, {}) if is_current else {})
    raise AssertionError("a version disappeared within a transaction")


def session_activations(reader: Connection, tenant: str, session_key: str) -> Activations:
    """Return the activations of a session."""
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
    """Return id -> older versions, oldest first; errors of damaged ones are added to `passed`, if given."""
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
    """Return tenant -> number of its memories."""
    found = reader.exec_driver_sql("SELECT tenant, count(*) FROM memories GROUP BY tenant")
    return dict(map(tuple, found))


def counts_by(reader: Connection, scope: Scope) -> list[Count]:
    """Return the numbers of live visible memories; see `ports.Store.counts`."""
    return [Count(*row) for row in reader.execute(statements.counts_by(scope))]


def counts(connection: Connection, tenants: Sequence[str] | None = None) -> tuple[int, int]:
    """Return the numbers of memories and of older versions, of all or some tenants."""
    held, older = connection.execute(statements.counts(tenants)).one()
    return held, older


def rows_as_of(
    reader: Connection,
    tenant: str,
    names: Sequence[str],
    as_of: datetime,
    ids: Sequence[str] | None = None,
    seen: Scope | None = None,
) -> Iterator[Mapping[str, Any]]:
    """Yield columns of the memories at an instant, forgotten ones too, with the recall counters of then.

    `names` has to include `id`, `version` and `COUNTERS`; see `statements.as_of` for `ids` and `seen`.
    """
    instant = microseconds(as_of)
    before: dict[tuple[str, int], list[Any]] = {}
    for id_, version, *counters in reader.execute(statements.touched_since(tenant, instant, ids)):
        before.setdefault((id_, version), counters)
    for row in reader.execute(statements.as_of(tenant, names, instant, ids, seen)).mappings():
        counters = before.get((row["id"], row["version"]), [])
        yield {**row, **dict(zip(COUNTERS, counters, strict=False))}
