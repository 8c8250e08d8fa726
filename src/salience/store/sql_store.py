"""Writes and reads that both databases share, inside a transaction of the calling store."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from itertools import groupby, pairwise
from operator import index
from typing import Any, Final, TypeVar

from sqlalchemy import (
    BigInteger,
    Connection,
    Double,
    LargeBinary,
    Select,
    Table,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    text,
    tuple_,
    update,
)  # fmt: skip

from salience.batch import Tokens, unpacked
from salience.errors import DamagedError, PinnedError
from salience.ports import (
    Add,
    Adopt,
    After,
    Answered,
    Change,
    Counts,
    Derive,
    Erase,
    Interval,
    Lease,
    LogRecall,
    Model,
    Prune,
    Revise,
    Revision,
    RevisionFilter,
    Selection,
    Stored,
    Touch,
)
from salience.ports.browsing import SESSION, counted, facets
from salience.records import (
    ANY,
    TAG,
    Facets,
    Filter,
    LoggedRecall,
    Memory,
    OutOfScope,
    Receipt,
    Relation,
    Scope,
    SessionSummary,
)
from salience.records.ids import SHORT
from salience.records.where import conditions
from salience.store import rows, statements
from salience.store.index import Activations
from salience.store.pins import SET_ASIDE, Handle, Meta, Pin, new_epoch, of_pin, write_meta
from salience.store.rows import (
    RECORD,
    STORED,
    UNREADABLE,
    damaged,
    is_text,
    readable,
    to_logged,
    to_memories,
    to_memory,
    to_stored,
)
from salience.store.schema import (
    VECTOR,
    activations,
    laid_by,
    leases,
    memories,
    recalls,
    requests,
    sessions,
    touches,
    versions,
)
from salience.store.statements import COUNTERS, visible
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

T = TypeVar("T")
NO_INSTANT: Final = 0
"""Recorded for a touch without an instant: it is earlier than any `as_of`."""
TOUCH_PATIENCE: Final = 0.5
"""Maximum seconds that the touch of a recall waits for another write."""
_TABLES: Final = (memories, versions)
_VERSIONED: Final = [column.name for column in versions.c if column.name != "valid_to"]
"""Columns that a memory passes on to its older version."""
_LAST_ID: Final = select(func.max(memories.c.id)).where(memories.c.tenant == bindparam("tenant"))
_INSERT: Final = {table: insert(table) for table in (memories, versions, activations)}
_SET_CLOCK: Final = text(
    "INSERT INTO sessions (tenant, session_key, turns) VALUES (:tenant, :session_key, :turns) "
    "ON CONFLICT (tenant, session_key) DO UPDATE SET turns = excluded.turns"
)
_RECORD_TOUCHES: Final = text(
    "INSERT INTO touches (tenant, id, seq, at, version, accessed_at, access_count, importance) "
    "SELECT m.tenant, m.id, :seq, :at, m.version, m.accessed_at, m.access_count, m.importance "
    "FROM memories AS m WHERE m.tenant = :tenant AND m.id IN :ids AND m.forgotten_at IS NULL "
    "ON CONFLICT (tenant, id, version, seq, at) DO NOTHING"
).bindparams(bindparam("ids", expanding=True))
_RAISED: Final = memories.c.importance + bindparam("more_importance", type_=Double)
_ACCESSED: Final = bindparam("accessed", type_=BigInteger)
_RAISE_COUNTERS: Final = (
    update(memories)
    .where(
        memories.c.tenant == bindparam("of_tenant"),
        memories.c.id.in_(bindparam("ids", expanding=True)),
        memories.c.forgotten_at.is_(None),
    )
    .values(
        access_count=memories.c.access_count + bindparam("more_accesses", type_=BigInteger),
        importance=case((_RAISED > 1.0, 1.0), else_=_RAISED),
        accessed_at=case(
            (or_(_ACCESSED.is_(None), memories.c.accessed_at > _ACCESSED), memories.c.accessed_at), else_=_ACCESSED
        ),
    )
)
_ACTIVATE: Final = text(
    "INSERT INTO activations (tenant, session_key, memory_id, turn) "
    "SELECT m.tenant, :session_key, m.id, :turn FROM memories AS m "
    "WHERE m.tenant = :tenant AND m.id IN :ids AND m.forgotten_at IS NULL "
    "ON CONFLICT (tenant, session_key, memory_id) DO UPDATE SET turn = excluded.turn"
).bindparams(bindparam("ids", expanding=True))
_RECORD_ANSWER: Final = text(
    "INSERT INTO requests (tenant, home, key, verb, id, version, at) "
    "VALUES (:tenant, :home, :key, :verb, :id, :version, :at) "
    "ON CONFLICT (tenant, home, key) DO NOTHING RETURNING key"
)
_LOG_RECALL: Final = text(
    "INSERT INTO recalls (tenant, id, at, expires_at, environment, project, user_id, agent_id, session_id, question, "
    "cited, trace) VALUES (:tenant, :id, :at, :expires_at, :environment, :project, :user_id, :agent_id, :session_id, "
    ":question, :cited, :trace) ON CONFLICT (tenant, id) DO NOTHING"
)
_TAKE_LEASE: Final = text(
    "INSERT INTO leases (name, holder, until) VALUES (:name, :holder, :until) "
    "ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until "
    "WHERE leases.holder = excluded.holder OR leases.until <= :now RETURNING name"
)


@dataclass(frozen=True, slots=True)
class Transaction:
    """A write transaction, and the steps in which the databases differ.

    Attributes:
        connection: in a write transaction.
        handle: of the engine that writes.
        sequence: returns the change sequence of a tenant's new rows.
        invalidate: discards all indexes of a tenant's rows.
        pruned: records the change sequence up to which a tenant's touches are deleted.
        search_columns: returns the search columns of a memory and its terms.
        insert: inserts rows into a table, each of the same columns.
        of_all: context in which statements see the rows of all tenants.
        tenants: returns the tenants to update one at a time; None stands for all of them at once.
        last_ids: tenant -> greatest id before the transaction, where it is known already.
    """

    connection: Connection
    handle: Handle
    sequence: Callable[[str], int]
    invalidate: Callable[[str], None]
    pruned: Callable[[str, int], None]
    search_columns: Callable[[Memory, Sequence[str]], Mapping[str, Any]] = lambda *_: {}
    insert: Callable[[Connection, Table, list[dict[str, Any]]], object] = lambda connection, table, values: (
        connection.execute(_INSERT[table], values)
    )
    of_all: Callable[[], AbstractContextManager[object]] = nullcontext
    tenants: Callable[[], Sequence[str | None]] = lambda: (None,)
    last_ids: dict[str, str | None] = field(default_factory=dict)

    def derived(
        self,
        vector: Any = None,
        terms: Sequence[str] | None = None,
        distinctions: Sequence[str] | None = None,
        tokens: Tokens | None = None,
        event: Interval | None = None,
        relations: Sequence[Relation] | None = None,
    ) -> dict[str, Any]:
        """Return the columns of derived data, without those that are None.

        A vector alone clears `tokens`; `event` goes with `distinctions`.
        """
        values: dict[str, Any] = {}
        if vector is not None:
            values["vector"] = rows.of_vector(own_vector(vector, self.handle.model.dimension))
        if vector is not None or tokens is not None:
            values["tokens"] = rows.of_tokens(tokens)
        if terms is not None:
            values["terms"] = " ".join(terms)
        if distinctions is not None:
            values |= {"distinctions": "\n".join(distinctions), **rows.of_event(event)}
        if relations is not None:
            values["relations"] = rows.of_relations(relations)
        return values


def patience(changes: Sequence[Change], busy_timeout: float) -> float:
    """Return the seconds that changes wait for another write."""
    only_touches = all(isinstance(change, Touch | LogRecall) for change in changes)
    return min(busy_timeout, TOUCH_PATIENCE) if only_touches else busy_timeout


def tenant_of(change: Change) -> str:
    """Return the tenant of a change; empty for a change of the whole store."""
    match change:
        case Add():
            return change.stored.memory.scope.tenant
        case Revise():
            return change.memory.scope.tenant
        case Touch() | LogRecall():
            return change.scope.tenant
        case Answered():
            return change.home.tenant
        case Adopt():
            return ""
    return change.tenant


def add_all(transaction: Transaction, tenant: str, changes: Sequence[Add]) -> list[Receipt]:
    """Store new memories with their older versions and activations; return a receipt for each."""
    known = [change.stored.memory for change in changes]
    by_id, by_key, older_hashes = _present(transaction, tenant, known)
    clocks = _clocks(transaction.connection, tenant, changes)
    receipts: list[Receipt] = []
    created: list[tuple[Stored, tuple[Stored, ...]]] = []
    for change in changes:
        memory = change.stored.memory
        home_and_key = memory.scope.home_key, memory.key
        present = by_key.get(home_and_key, by_id.get(memory.id))
        if present is not None:
            receipts.append(already(present, memory, (present.id, memory.content_hash) in older_hashes))
            continue
        for session_key, turn in change.stored.activations.items():
            clocks[session_key] = max(turn, clocks.get(session_key, 0))
        memory = own_metadata(memory)
        if memory.scope.session_key is not None:
            clock = clocks.get(memory.scope.session_key, 0)
            turn = clock + 1 if memory.turn is None else memory.turn
            clocks[memory.scope.session_key] = max(turn, clock)
            memory = memory if memory.turn == turn else replace(memory, turn=turn)
        by_id[memory.id] = memory
        if memory.key is not None:
            by_key[home_and_key] = memory
        created.append((replace(change.stored, memory=memory), change.history))
        receipts.append(Receipt(memory, "created"))
    _insert(transaction, tenant, created)
    turns = [{"tenant": tenant, "session_key": name, "turns": turn} for name, turn in clocks.items()]
    if turns:
        transaction.connection.execute(_SET_CLOCK, turns)
    return receipts


def _present(
    transaction: Transaction, tenant: str, new: Sequence[Memory]
) -> tuple[dict[str, Memory], dict[tuple[str, str | None], Memory], set[tuple[str, str]]]:
    """Return the stored memories with the ids or keys of new ones: by id, and by home and key.

    Also the ids of the changed ones among the latter, each with the content hashes of its older versions.
    """
    connection = transaction.connection
    if tenant in transaction.last_ids:
        last = transaction.last_ids.pop(tenant)  # known only before the first insertion
    else:
        last = connection.execute(_LAST_ID, {"tenant": tenant}).scalar()
    # a new id sorts after all others, as a rule, and needs no query
    ids = [memory.id for memory in new if memory.id <= (last or "")]
    queries = [statements.of_ids(tenant, chunk) for chunk in statements.chunks(ids)]
    keys: dict[str, list[str]] = {}
    for memory in new:
        if memory.key is not None:
            keys.setdefault(memory.scope.home_key, []).append(memory.key)
    for home, names in keys.items():
        queries += [statements.of_keys(tenant, home, chunk) for chunk in statements.chunks(names)]
    found = [to_memory(row) for query in queries for row in connection.execute(query).mappings()]
    by_key: dict[tuple[str, str | None], Memory] = {
        (memory.scope.home_key, memory.key): memory for memory in found if memory.key is not None
    }
    hashes: set[tuple[str, str]] = set()
    for chunk in statements.chunks(memory.id for memory in by_key.values() if memory.version > 1):
        of = (versions.c.tenant == tenant, versions.c.id.in_(chunk))
        older = connection.execute(select(versions.c.id, versions.c.content_hash).where(*of).distinct())
        hashes.update((row.id, row.content_hash) for row in older)
    return {memory.id: memory for memory in found}, by_key, hashes


def _clocks(connection: Connection, tenant: str, changes: Sequence[Add]) -> dict[str, int]:
    """Return session key -> turns, for the sessions of new memories and of their activations."""
    own = (change.stored.memory.scope.session_key for change in changes)
    carried = (session_key for change in changes for session_key in change.stored.activations)
    found: dict[str, int] = {}
    for chunk in statements.chunks(name for name in (*own, *carried) if name is not None):
        of = (sessions.c.tenant == tenant, sessions.c.session_key.in_(chunk))
        with readable():
            found |= {row.session_key: index(row.turns) for row in connection.execute(select(sessions).where(*of))}
    return found


def _insert(transaction: Transaction, tenant: str, new: Sequence[tuple[Stored, tuple[Stored, ...]]]) -> None:
    """Insert memories, each given with its older versions; a version is valid until the next one."""
    if not new:
        return
    dimension, sequence = transaction.handle.model.dimension, transaction.sequence(tenant)
    inserted = {
        memories: [
            {
                "seq": sequence,
                "short_id": stored.memory.short_id,
                **rows.of_stored(stored, dimension),
                **transaction.search_columns(stored.memory, stored.terms),
            }
            for stored, _ in new
        ],
        versions: [
            {**rows.of_stored(older, dimension), "valid_to": microseconds(later.memory.changed_at)}
            for stored, history in new
            for older, later in pairwise((*history, stored))
        ],
        activations: [
            {"tenant": tenant, "session_key": session_key, "memory_id": stored.memory.id, "turn": turn}
            for stored, _ in new
            for session_key, turn in stored.activations.items()
        ],
    }
    for table, values in inserted.items():
        if values:
            transaction.insert(transaction.connection, table, values)


def revise_all(transaction: Transaction, tenant: str, changes: Sequence[Revise]) -> list[Receipt]:
    """Replace memories by their next versions; return a receipt for each."""
    connection, receipts = transaction.connection, []
    for change in changes:
        given = change.memory
        of = (memories.c.tenant == tenant, memories.c.id == given.id)
        columns = [memories.c[name] for name in ("version", "importance", "accessed_at", "access_count", "terms")]
        current = connection.execute(select(*columns).where(*of)).one_or_none()
        if current is None or current.version != given.version - 1:
            raise stale(given, None if current is None else current.version)
        accessed_at = None if current.accessed_at is None else instant(current.accessed_at)
        memory = merged(change, current.importance, accessed_at, current.access_count)
        terms = rows.to_terms(current.terms) if change.terms is None else change.terms
        values = {
            **rows.of_memory(memory),
            "seq": transaction.sequence(tenant),
            **transaction.search_columns(memory, terms),
        }
        if change.unembeds:
            values |= {"vector": None, "tokens": None}
        tokens = None if change.vector is None else change.tokens
        values |= transaction.derived(change.vector, change.terms, change.distinctions, tokens, change.event)
        row = select(*(memories.c[name] for name in _VERSIONED), literal(values["changed_at"], BigInteger)).where(*of)
        connection.execute(insert(versions).from_select([*_VERSIONED, "valid_to"], row))
        del values["tenant"], values["id"]
        connection.execute(update(memories).where(*of).values(values))
        receipts.append(revised(memory))
    return receipts


def touch_all(transaction: Transaction, tenant: str, changes: Sequence[Touch]) -> list[Receipt]:
    """Raise recall counters and record the values before; advance sessions by a turn; return no receipts."""
    connection = transaction.connection
    for change in changes:
        if change.counts:
            moment = NO_INSTANT if change.at is None else microseconds(change.at)
            recorded = {"tenant": tenant, "seq": transaction.sequence(tenant), "at": moment}
            raised = {
                "of_tenant": tenant,
                "more_accesses": change.access_count,
                "more_importance": change.importance,
                "accessed": None if change.accessed_at is None else microseconds(change.accessed_at),
            }
            for chunk in statements.chunks(change.ids):
                connection.execute(_RECORD_TOUCHES, {**recorded, "ids": chunk})
                connection.execute(_RAISE_COUNTERS, {**raised, "ids": chunk})
        session_key = change.scope.session_key
        if session_key is not None:
            of = (sessions.c.tenant == tenant, sessions.c.session_key == session_key)
            with readable():
                turn = index(connection.execute(select(sessions.c.turns).where(*of)).scalar() or 0) + 1
            session = {"tenant": tenant, "session_key": session_key}
            connection.execute(_SET_CLOCK, {**session, "turns": turn})
            for chunk in statements.chunks(change.ids if change.activate else ()):
                connection.execute(_ACTIVATE, {**session, "ids": chunk, "turn": turn})
    return []


def log_all(transaction: Transaction, tenant: str, changes: Sequence[LogRecall]) -> list[Receipt]:
    """Add entries to the recall log, unless a memory that they cite was erased meanwhile; return no receipts."""
    known: set[str] = set()
    for chunk in statements.chunks(id_ for change in changes for id_ in change.entry.cited):
        of = (memories.c.tenant == tenant, memories.c.id.in_(chunk))
        known.update(transaction.connection.execute(select(memories.c.id).where(*of)).scalars())
    values = [rows.of_logged(change.entry) for change in changes if change.entry.cited <= known]
    if values:
        transaction.connection.execute(_LOG_RECALL, values)
    return []


def derive_all(transaction: Transaction, _: str, changes: Sequence[Derive]) -> list[Receipt]:
    """Replace derived data, or store vectors for a model that is not adopted yet; return no receipts."""
    meta = Meta.read(transaction.connection)  # an earlier change in this transaction may have pinned another model
    pin = meta.pin()
    vectors = [change for change in changes if change.vector is not None or change.tokens is not None]
    # without vectors `matches` is not called, since it may call the embedder
    is_pinned_model = pin is None or not vectors or transaction.handle.matches(pin)
    if not is_pinned_model:
        _set_aside(transaction, meta.pin(SET_ASIDE), vectors)
    for change in changes:
        vector, tokens = (change.vector, change.tokens) if is_pinned_model else (None, None)
        values = transaction.derived(vector, change.terms, change.distinctions, tokens, change.event, change.relations)
        if not values:
            continue
        key = (change.tenant, change.id, change.version)
        current = transaction.connection.execute(_version(memories, *key)).mappings().one_or_none()
        table = versions if current is None else memories
        if vector is None and tokens is not None:
            given = literal(values["tokens"], LargeBinary)
            values["tokens"] = case((table.c.vector.is_not(None), given), else_=table.c.tokens)
        if current is not None and values.keys() != {"tokens"}:  # an index has no token vectors
            # an index picks up a first vector by the change sequence
            if current["vector"] is not None or values.keys() != {"vector", "tokens"}:
                transaction.invalidate(change.tenant)
            values["seq"] = transaction.sequence(change.tenant)
            if change.terms is not None or change.relations is not None:
                memory = to_memory({**current, "relations": values.get("relations", current["relations"])})
                terms = rows.to_terms(current["terms"]) if change.terms is None else change.terms
                values |= transaction.search_columns(memory, terms)
        same = table.c.content_hash == change.content_hash
        transaction.connection.execute(update(table).where(*_of_key(table, *key), same).values(values))
    return []


def _of_key(table: Any, tenant: str, id: str, version: int) -> tuple[Any, ...]:
    return table.c.tenant == tenant, table.c.id == id, table.c.version == version


def _version(table: Any, tenant: str, id: str, version: int) -> Select[Any]:
    return select(*(table.c[name] for name in STORED)).where(*_of_key(table, tenant, id, version))


def _set_aside(transaction: Transaction, pin: Pin | None, changes: Sequence[Derive]) -> None:
    """Store vectors and tokens for a model that is not adopted yet; drop stored ones of another model."""
    connection, embedded = transaction.connection, [change for change in changes if change.vector is not None]
    if pin is None or not transaction.handle.matches(pin):
        if not embedded:
            return
        with transaction.of_all():
            connection.execute(delete(laid_by))
            write_meta(connection, of_pin(transaction.handle.pin(), SET_ASIDE))
    values = [
        {
            "tenant": change.tenant,
            "id": change.id,
            "version": change.version,
            "content_hash": change.content_hash,
            **transaction.derived(change.vector, tokens=change.tokens),
        }
        for change in embedded
    ]
    for table in _TABLES if values else ():
        statement = text(
            "INSERT INTO laid_by (tenant, id, version, content_hash, vector, tokens) "  # noqa: S608 - a table of the schema
            f"SELECT v.tenant, v.id, v.version, v.content_hash, :vector, :tokens FROM {table.name} AS v "
            "WHERE v.tenant = :tenant AND v.id = :id AND v.version = :version AND v.content_hash = :content_hash "
            "ON CONFLICT (tenant, id, version) "
            "DO UPDATE SET content_hash = excluded.content_hash, vector = excluded.vector, tokens = excluded.tokens"
        )
        types = bindparam("vector", type_=VECTOR()), bindparam("tokens", type_=LargeBinary)
        connection.execute(statement.bindparams(*types), values)
    for change in changes:
        if change.vector is None:
            key = _of_key(laid_by, change.tenant, change.id, change.version)
            same = laid_by.c.content_hash == change.content_hash
            connection.execute(update(laid_by).where(*key, same).values(transaction.derived(tokens=change.tokens)))


def erase_all(transaction: Transaction, tenant: str, changes: Sequence[Erase]) -> list[Receipt]:
    """Delete memories with all their data, and sessions that no memory is left of; return no receipts."""
    connection = transaction.connection
    homes = select(memories.c.environment, memories.c.user_id, memories.c.session_id).distinct()
    for change in changes:
        ended: list[str] = []
        for chunk in statements.chunks(change.ids):
            of = (memories.c.tenant == tenant, memories.c.id.in_(chunk))
            present = set(connection.execute(select(memories.c.id).where(*of)).scalars())
            for absent in (id_ for id_ in chunk if id_ not in present):
                raise missing(absent)
            in_session = homes.where(*of, memories.c.session_id.is_not(None))
            ended += [_session_key(tenant, *row) for row in connection.execute(in_session)]
            for table in (touches, requests, memories):  # foreign keys delete versions, activations and the rest
                connection.execute(delete(table).where(table.c.tenant == tenant, table.c.id.in_(chunk)))
        for chunk in statements.chunks(_erased_recalls(connection, change)):
            connection.execute(delete(recalls).where(recalls.c.tenant == tenant, recalls.c.id.in_(chunk)))
        if change.sessions is not None:
            known = connection.execute(select(sessions.c.session_key).where(sessions.c.tenant == tenant)).scalars()
            ended += [key for key in known if is_session_of(key, change.sessions)]
        for keys in statements.chunks(ended):
            names = list({key.rpartition("\x1f")[2] for key in keys})
            left = homes.where(memories.c.tenant == tenant, memories.c.session_id.in_(names))
            left_keys = {_session_key(tenant, *row) for row in connection.execute(left)}
            gone = [key for key in keys if key not in left_keys]
            for table in (sessions, activations):
                connection.execute(delete(table).where(table.c.tenant == tenant, table.c.session_key.in_(gone)))
    transaction.invalidate(tenant)
    return []


def _erased_recalls(connection: Connection, change: Erase) -> set[str]:
    """Return the ids of the entries of the recall log that a change deletes."""
    of_tenant, found = recalls.c.tenant == change.tenant, set[str]()
    if change.recalls is not None:
        own = (
            recalls.c[name] != ANY.value if value is ANY else recalls.c[name] == value  # no `!=` holds for NULL
            for name, value in change.recalls.items()
        )
        found.update(connection.execute(select(recalls.c.id).where(of_tenant, *own)).scalars())
    if change.ids:
        ids, query = frozenset(change.ids), select(recalls.c.id, recalls.c.cited).where(of_tenant)
        for id_, cited in connection.execute(query, execution_options={"yield_per": statements.CHUNK}):
            if not ids.isdisjoint(cited.split("\n")):
                found.add(id_)
    return found


def _session_key(tenant: str, environment: str, user_id: str | None, session_id: str) -> str:
    return str(Scope(tenant, environment, user_id=user_id, session_id=session_id).session_key)


def answer_all(transaction: Transaction, _: str, changes: Sequence[Answered]) -> list[Receipt]:
    """Record requests under idempotency keys; return no receipts."""
    for change in changes:
        values = {
            "tenant": change.home.tenant,
            "home": change.home.home_key,
            "key": change.key,
            "verb": change.verb,
            "id": change.id,
            "version": change.version,
            "at": microseconds(change.at),
        }
        if transaction.connection.execute(_RECORD_ANSWER, values).one_or_none() is None:
            raise answered_already(change)
    return []


def prune_all(transaction: Transaction, tenant: str, changes: Sequence[Prune]) -> list[Receipt]:
    """Delete older versions, records of touches and requests, and log entries; return no receipts.

    Other processes update their indexes from the records of touches; `Transaction.pruned` tells them of the deletion.
    """
    connection = transaction.connection
    for change in changes:
        numbers: dict[str, list[int]] = {}
        for id_, version in change.versions:
            numbers.setdefault(id_, []).append(version)
        for id_, dropped in numbers.items():
            of = (versions.c.tenant == tenant, versions.c.id == id_, versions.c.version.in_(dropped))
            connection.execute(delete(versions).where(*of))
        if change.touches_before is not None:
            old = (touches.c.tenant == tenant, touches.c.at < microseconds(change.touches_before))
            last = connection.execute(select(func.max(touches.c.seq)).where(*old)).scalar()
            if last is not None:
                connection.execute(delete(touches).where(*old))
                transaction.pruned(tenant, last)
        if change.requests_before is not None:
            before = microseconds(change.requests_before)
            connection.execute(delete(requests).where(requests.c.tenant == tenant, requests.c.at < before))
        if change.now is not None:
            over = recalls.c.expires_at <= microseconds(change.now)
            connection.execute(delete(recalls).where(recalls.c.tenant == tenant, over))
    return []


def lease_all(transaction: Transaction, tenant: str, changes: Sequence[Lease]) -> list[Receipt]:
    """Grant leases; return no receipts."""
    with nullcontext() if tenant else transaction.of_all():
        for change in changes:
            values = {"name": change.name, "holder": change.holder}
            instants = {"until": microseconds(change.until), "now": microseconds(change.now)}
            if transaction.connection.execute(_TAKE_LEASE, {**values, **instants}).one_or_none() is None:
                held = transaction.connection.execute(select(leases).where(leases.c.name == change.name)).one()
                with readable():
                    until = instant(held.until)
                raise held_by(change.name, held.holder, until)
    return []


def adopt_all(transaction: Transaction, _: str, __: Sequence[Adopt]) -> list[Receipt]:
    """Pin the store to the handle's model, with the vectors and tokens stored for it; return no receipts."""
    connection, meta = transaction.connection, Meta.read(transaction.connection)
    pin, prepared = meta.pin(), meta.pin(SET_ASIDE)
    if pin is not None and transaction.handle.matches(pin):
        return []
    if prepared is not None and not transaction.handle.matches(prepared):
        raise PinnedError("store: the vectors that were set aside are of another model. Run reembed again.")
    for tenant in transaction.tenants():
        for table in _TABLES:
            of = [] if tenant is None else [table.c.tenant == tenant]
            # Citus needs the tenant as a value in the subquery too
            mine = [*_laid_by_for(table), *([] if tenant is None else [laid_by.c.tenant == tenant])]
            prepared_values = {
                name: select(laid_by.c[name]).where(*mine).scalar_subquery() for name in ("vector", "tokens")
            }
            connection.execute(update(table).where(*of).values(prepared_values))
    connection.execute(delete(laid_by))
    write_meta(connection, {**of_pin(transaction.handle.pin()), **of_pin(None, SET_ASIDE), "epoch": new_epoch()})
    return []


def _laid_by_for(table: Any) -> list[Any]:
    """Return the conditions for the vector that is set aside for a version whose text is unchanged."""
    return [laid_by.c[name] == table.c[name] for name in ("tenant", "id", "version", "content_hash")]


WRITERS: Final[Mapping[type, Callable[[Transaction, str, Any], list[Receipt]]]] = {
    Add: add_all,
    Revise: revise_all,
    Touch: touch_all,
    LogRecall: log_all,
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


class SQLStore(ABC):
    """The reads of a `Store` that both databases share.

    Attributes:
        language: of the terms.
    """

    language: str
    _handle: Handle

    @abstractmethod
    def _read(self, tenant: str | None, work: Callable[[Connection], T]) -> T:
        """Return the result of `work` in one snapshot of a tenant's rows, or of all rows for None."""

    @abstractmethod
    def _query(self, tenant: str | None, work: Callable[[Connection], T]) -> T:
        """Return the result of `work`, as `_read` does, but outside a transaction: for a single query."""

    def fetch(self, scope: Scope, ids: Sequence[str], *, as_of: datetime | None = None) -> list[Memory]:
        """Return the live visible memories of whole or short ids, in their order; absent ids are left out."""

        def read(reader: Connection) -> list[Memory]:
            texts = [id_ for id_ in ids if is_text(id_)]  # a driver refuses other ones
            short = [id_ for id_ in texts if len(id_) == SHORT]
            found: list[Memory] = []
            if as_of is None:
                for column, names in (("id", texts), ("short_id", short)):
                    for chunk in statements.chunks(names):
                        found += to_memories(reader.execute(*statements.live_of(scope, chunk, column)).all())
            else:
                whole = [
                    *texts,
                    *(id_ for name in short for id_ in _visible_ids(reader, scope, memories.c.short_id, name)),
                ]
                for chunk in statements.chunks(whole):
                    found += map(to_memory, rows_as_of(reader, scope.tenant, RECORD, as_of, chunk))
                found = [memory for memory in found if scope.sees(memory.scope) and memory.forgotten_at is None]
            by_name: dict[str, dict[str, Memory]] = {memory.id: {memory.id: memory} for memory in found}
            for memory in found if short else ():
                by_name.setdefault(memory.short_id, {})[memory.id] = memory
            return [next(iter(by_name[name].values())) for name in texts if len(by_name.get(name, ())) == 1]

        return (self._query if as_of is None else self._read)(scope.tenant, read)

    def token_vectors(self, scope: Scope, ids: Sequence[str], *, as_of: datetime | None = None) -> list[Tokens | None]:
        """Return the token vectors of the live visible memories of whole ids, in their order; None where absent."""

        def read(reader: Connection) -> dict[str, Tokens]:
            names, found = ("id", "version", "forgotten_at", "tokens"), dict[str, Tokens]()
            for chunk in statements.chunks(filter(is_text, ids)):
                if as_of is None:
                    rows = reader.execute(*statements.live_of(scope, chunk, columns=names)).all()
                else:
                    rows = reader.execute(
                        statements.as_of(scope.tenant, names, microseconds(as_of), chunk, scope)
                    ).all()
                for row in rows:
                    id_, _, forgotten_at, data = row
                    if data is not None and forgotten_at is None:
                        try:
                            found[id_] = unpacked(data)
                        except UNREADABLE:
                            raise damaged(row._mapping, "tokens") from None
            return found

        return list(map(self._query(scope.tenant, read).get, ids))

    def find_by_key(self, home: Scope, keys: Sequence[str]) -> list[Memory]:
        """Return the memories at `home` under these idempotency keys, forgotten ones too, in any order."""
        queries = [statements.of_keys(home.tenant, home.home_key, chunk) for chunk in statements.chunks(keys)]
        return self._query(
            home.tenant,
            lambda reader: [to_memory(row) for query in queries for row in reader.execute(query).mappings()],
        )

    def answered(self, home: Scope, key: str) -> Answered | None:
        """Return the recorded request from `home` under an idempotency key; None if there is none."""
        of = (requests.c.tenant == home.tenant, requests.c.home == home.home_key, requests.c.key == key)
        query = select(requests).where(*of)
        row = self._query(home.tenant, lambda reader: reader.execute(query).one_or_none())
        with readable():
            return None if row is None else Answered(home, key, row.verb, row.id, row.version, instant(row.at))

    def recalls(
        self,
        scope: Scope,
        now: datetime,
        limit: int = 100,
        *,
        before: str | None = None,
        text: str | None = None,
        id: str | None = None,
        memory_id: str | None = None,
    ) -> list[LoggedRecall]:
        """Return up to `limit` entries of the recall log that belong to `scope`, newest first."""
        conditions = [*statements.logged(scope), recalls.c.expires_at > microseconds(now)]
        if before is not None:
            conditions.append(recalls.c.id < before)
        if text is not None:
            conditions.append(recalls.c.question.icontains(text, autoescape=True))
        if id is not None:
            conditions.append(recalls.c.id == id)
        if memory_id is not None:  # a short id is the end of a line
            conditions.append((recalls.c.cited + "\n").contains(f"{memory_id}\n", autoescape=True))
        query = select(recalls).where(*conditions).order_by(recalls.c.id.desc()).limit(limit)
        return self._query(scope.tenant, lambda reader: list(map(to_logged, reader.execute(query).mappings())))

    def count_logged(self, erase: Erase) -> int:
        """Return how many entries of the recall log a change would delete."""
        return self._read(erase.tenant, lambda reader: len(_erased_recalls(reader, erase)))

    def scan(
        self,
        scope: Scope,
        after: str = "",
        limit: int = 100,
        filter: Filter = Filter(),
        *,
        forgotten: bool = False,
        versions: bool = False,
        newest_first: bool = False,
        passed: list[DamagedError] | None = None,
    ) -> list[Stored]:
        """Return up to `limit` visible memories with ids greater than `after`, in the order of ids, or in reverse."""

        def read(reader: Connection) -> list[Stored]:
            found: list[Stored] = []
            left, last, page = limit, after, None
            while page is None or (passed and left and page):
                page = (
                    reader.execute(statements.page(scope, last, left, filter, forgotten, newest_first)).mappings().all()
                )
                ids = [row["id"] for row in page]
                readable_ids = [one for one in ids if is_text(one)]
                active = _activations(reader, scope.tenant, readable_ids)
                before = _older(reader, scope.tenant, readable_ids, passed) if versions else {}
                for row in page:
                    try:
                        newest = to_stored(row, active.get(row["id"], {}))
                    except DamagedError as error:
                        if passed is None or error.id is None:  # without an id, the next page has no start
                            raise
                        passed.append(error)
                    else:
                        found += (*before.get(newest.memory.id, ()), newest)
                        left -= 1
                last = ids[-1] if ids else last
            return found

        return self._read(scope.tenant, read)

    def revisions(
        self,
        scope: Scope,
        before: tuple[datetime, str, int] | None = None,
        limit: int = 100,
        filter: RevisionFilter = RevisionFilter(),
    ) -> list[Revision]:
        """Return up to `limit` versions of visible memories, current and older, the newest first."""

        def read(reader: Connection) -> list[Revision]:
            tenant, keys = scope.tenant, list[tuple[int, str, int]]()
            for table in _TABLES:
                keys += map(tuple, reader.execute(statements.revisions(table, scope, before, limit, filter)))
            chosen = [(id_, version) for _, id_, version in sorted(keys, reverse=True)[:limit]]
            wanted = [*chosen, *((id_, version - 1) for id_, version in chosen)]
            current = statements.of_ids(tenant, list(dict(chosen)))
            of = (versions.c.tenant == tenant, tuple_(versions.c.id, versions.c.version).in_(wanted))
            older = select(*(versions.c[name] for name in RECORD), versions.c.valid_to).where(*of)
            rows = [*reader.execute(current).mappings(), *reader.execute(older).mappings()] if chosen else []
            found = {(row["id"], row["version"]): (to_memory(row), row.get("valid_to")) for row in rows}
            with readable():
                return [
                    Revision(
                        memory, found.get((id_, version - 1), (None,))[0], None if until is None else instant(until)
                    )
                    for id_, version in chosen
                    for memory, until in [found[id_, version]]
                ]

        return self._read(scope.tenant, read)

    def daily(self, scope: Scope, filter: RevisionFilter) -> list[tuple[date, str, int]]:
        """Return the number of versions by day in UTC and change, and of memories by both of their other days."""
        query = statements.daily(scope, filter)
        counts: dict[tuple[int, str], int] = {}
        for day, change, count in self._query(scope.tenant, lambda reader: reader.execute(query).all()):
            counts[day, change] = counts.get((day, change), 0) + count  # current and older versions apart
        with readable():
            return [(instant(day * statements.DAY).date(), change, count) for (day, change), count in counts.items()]

    def history(self, scope: Scope, id: str) -> list[Stored]:
        """Return the versions of the visible memory with a whole or short id, live or not."""

        def read(reader: Connection) -> list[Stored]:
            columns = (memories.c.id, memories.c.short_id)[: 2 if len(id) == SHORT else 1]
            found = {one for column in columns for one in _visible_ids(reader, scope, column, id)}
            if len(found) != 1:
                return []
            (whole,) = found
            row = reader.execute(statements.of_ids(scope.tenant, [whole])).mappings().one()
            active = _activations(reader, scope.tenant, [whole])
            return [*_older(reader, scope.tenant, [whole]).get(whole, ()), to_stored(row, active.get(whole, {}))]

        return self._read(scope.tenant, read)

    def counts(self, scope: Scope, now: datetime) -> Counts:
        """Return the numbers of live visible memories, with all values of each of `FACETS`."""
        of = Selection(scope=scope, now=now)

        def read(reader: Connection) -> Counts:
            return Counts(*field_counts(reader, of, gone=False), count_pending(reader, scope, now))

        return self._read(scope.tenant, read)

    def out_of_scope(self, selection: Selection, limit: int = 5) -> list[OutOfScope]:
        """Return the places with the most selected memories that only the widened scope sees, with their counts."""
        query, tenant = statements.out_of_scope(selection, limit), selection.scope.tenant
        found = self._query(tenant, lambda reader: reader.execute(query).all())
        return [OutOfScope(Scope(tenant, *home), count) for *home, count in found]

    def due(self, tenant: str, now: datetime) -> list[Memory]:
        """Return the memories of a tenant that are past their time to live but not hidden, in the order of ids."""
        query = statements.due(tenant, now)
        return self._query(tenant, lambda reader: list(map(to_memory, reader.execute(query).mappings())))

    def may_be_due(self, tenant: str, now: datetime) -> bool:
        """Return False: only a query tells."""
        return False

    def browse(
        self,
        selection: Selection,
        order: str,
        limit: int,
        *,
        ascending: bool = False,
        after: After | None = None,
        passed: list[DamagedError] | None = None,
    ) -> list[Memory]:
        """Return up to `limit` selected memories, live or not, sorted by `order`, then by id."""

        def read(reader: Connection) -> list[Memory]:
            found, last, rows_read = list[Memory](), after, limit
            while rows_read and len(found) < limit:
                query = statements.browse(selection, order, limit - len(found), ascending, last)
                page = reader.execute(query).mappings().all()
                for row in page:
                    try:
                        memory = to_memory(row)
                        found.append(memory if selection.now is None else memory.seen_at(selection.now))
                    except DamagedError as error:
                        if passed is None or error.id is None:  # without an id, the next page has no start
                            raise
                        passed.append(error)
                rows_read = len(page) if passed else 0
                last = After(0 if order == "id" else page[-1][order] or 0, page[-1]["id"]) if page else last
            return found

        return self._query(selection.scope.tenant, read)

    def facets(self, selection: Selection, top: int = 20) -> Facets:
        """Return the number of selected memories, and the `top` most frequent values of each facet."""
        return facets(*self._read(selection.scope.tenant, lambda reader: facet_counts(reader, selection)), top)

    def browse_sessions(self, selection: Selection, limit: int, after: After | None = None) -> list[SessionSummary]:
        """Return up to `limit` sessions of selected memories: the latest `end` first, then the greatest `key`."""
        query = statements.session_summaries(selection, limit, after)
        rows = self._query(selection.scope.tenant, lambda reader: reader.execute(query).all())
        return [
            SessionSummary(environment, user, session, size, instant(start), instant(end))
            for environment, user, session, size, start, end in rows
        ]

    def count_entities(self, selection: Selection) -> dict[str, int]:
        """Return the number of selected memories per entity that they name: the most frequent first, then by name."""
        query = statements.entities(selection)
        lists = self._query(selection.scope.tenant, lambda reader: reader.execute(query).all())
        return dict(sorted(_numbers(lists).items(), key=lambda item: (-item[1], item[0])))

    def tenants(self) -> dict[str, int]:
        """Return tenant -> number of its memories, forgotten ones included."""
        query = "SELECT tenant, count(*) FROM memories GROUP BY tenant"
        return dict(map(tuple, self._query(None, lambda reader: reader.exec_driver_sql(query).all())))

    def pinned(self) -> Model | None:
        """Return the pinned model, with any known fingerprint; None before the first memory."""
        pin = self._query("", Meta.read).pin()
        return None if pin is None else pin.model()

    @property
    def moved(self) -> bool:
        """Whether the store was found to be pinned to another model since this handle was made."""
        return self._handle.moved

    @property
    def sees_all(self) -> bool:
        """Whether it may read the memories of every tenant."""
        return True

    @property
    def is_degraded(self) -> bool:
        """Whether a part of the store was unavailable not long ago."""
        return False

    def connections(self) -> Mapping[str, int]:
        """Return the number of connections by state; none of a file."""
        return {}


def _numbers(lists: Iterable[Any]) -> Counter[str]:
    """Return the number of memories per tag or entity, from (a JSON list of them, the number of memories with it)."""
    counts = Counter[str]()
    with readable():
        for text, number in lists:
            counts.update(dict.fromkeys(json.loads(text), number))
    return counts


def facet_counts(
    reader: Connection, selection: Selection, *, gone: bool | None = None
) -> tuple[int, dict[str, Counter[str]]]:
    """Return the number of selected memories, and for each facet value -> number; `gone` is as in `field_counts`."""
    total, counts = field_counts(reader, selection, gone=gone)
    counts[TAG] = _numbers(reader.execute(statements.tags(selection, gone=gone)).all()) if total else Counter()
    return total, counts


def field_counts(
    reader: Connection, selection: Selection, *, gone: bool | None = None
) -> tuple[int, dict[str, Counter[str]]]:
    """Return the number of selected memories, and for each of `FACETS` value -> number.

    `gone` True counts only memories that are not live, False only live ones.
    """
    groups = reader.execute(statements.groups(selection, gone=gone)).all()
    total, counts = counted([(tuple(values), number) for *values, number in groups], selection)
    counts[SESSION] = Counter()
    if not (gone and selection.values.get("status") == ("live",)):
        counts[SESSION].update(dict(map(tuple, reader.execute(statements.sessions(selection, gone=gone)).all())))
    return total, counts


def count_pending(reader: Connection, scope: Scope, now: datetime) -> int:
    """Return the number of live visible memories without a vector."""
    without = [statements.live(now), memories.c.vector.is_(None)]
    query = select(func.count()).select_from(memories).where(*visible(scope), *without)
    return int(reader.execute(query).scalar_one())


def _visible_ids(reader: Connection, scope: Scope, column: Any, name: str) -> Iterable[str]:
    """Return the ids of the visible memories, forgotten or not, with a value of `id` or `short_id`."""
    return reader.execute(select(memories.c.id).where(*visible(scope), column == name)).scalars().all()


def without_vector(
    meta: Meta, handle: Handle, after: tuple[str, str, int], limit: int, tenant: str | None = None
) -> list[Select[Any]]:
    """Return the queries for the keys of versions without a vector of the handle's model, after a key, in order.

    Raises:
        EmbedderError: the model's fingerprint is not available.
    """
    pin, prepared = meta.pin(), meta.pin(SET_ASIDE)
    is_pinned_model = pin is None or handle.matches(pin)
    counts_prepared = not is_pinned_model and prepared is not None and handle.matches(prepared)
    found = []
    for table in _TABLES:
        key = (table.c.tenant, table.c.id, table.c.version)
        conditions = [
            tuple_(*key) > tuple_(*(literal(value, part.type) for value, part in zip(after, key, strict=True)))
        ]
        if is_pinned_model:
            conditions.append(table.c.vector.is_(None))
        if counts_prepared:
            conditions.append(~exists(select(1).where(*_laid_by_for(table))))
        if tenant is not None:
            conditions.append(table.c.tenant == tenant)
        found.append(select(*key).where(*conditions).order_by(*key).limit(limit))
    return found


def unembedded(reader: Connection, queries: Sequence[Select[Any]], limit: int) -> list[Stored]:
    """Return the first `limit` versions of the queries of `without_vector`."""
    found = []
    for key in sorted(tuple(row) for query in queries for row in reader.execute(query))[:limit]:
        tenant, id_, _ = key
        current = reader.execute(_version(memories, *key)).mappings().one_or_none()
        if current is not None:
            found.append(to_stored(current, _activations(reader, tenant, [id_]).get(id_, {})))
        else:
            found.append(to_stored(reader.execute(_version(versions, *key)).mappings().one(), {}))
    return found


def session_activations(reader: Connection, tenant: str, session_key: str) -> Activations:
    """Return the activations of a session."""
    clock = select(sessions.c.turns).where(sessions.c.tenant == tenant, sessions.c.session_key == session_key)
    of = (activations.c.tenant == tenant, activations.c.session_key == session_key)
    turns = reader.execute(select(activations.c.memory_id, activations.c.turn).where(*of))
    with readable():
        return Activations(
            index(reader.execute(clock).scalar() or 0), {row.memory_id: index(row.turn) for row in turns}
        )


def _activations(reader: Connection, tenant: str, ids: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return the activations of memories: id -> session key -> turn."""
    found: dict[str, dict[str, int]] = {}
    for chunk in statements.chunks(ids):
        of = (activations.c.tenant == tenant, activations.c.memory_id.in_(chunk))
        for row in reader.execute(select(activations).where(*of)):
            found.setdefault(row.memory_id, {})[row.session_key] = row.turn
    return found


def _older(
    reader: Connection, tenant: str, ids: Sequence[str], passed: list[DamagedError] | None = None
) -> dict[str, list[Stored]]:
    """Return id -> older versions, oldest first; errors of damaged ones are added to `passed`, if given."""
    found: dict[str, list[Stored]] = {}
    for chunk in statements.chunks(ids):
        of = (versions.c.tenant == tenant, versions.c.id.in_(chunk))
        query = select(*(versions.c[name] for name in STORED)).where(*of).order_by(versions.c.version)
        for row in reader.execute(query).mappings():
            try:
                found.setdefault(row["id"], []).append(to_stored(row, {}))
            except DamagedError as error:
                if passed is None:
                    raise
                passed.append(error)
    return found


def counts(connection: Connection, tenants: Sequence[str] | None = None) -> tuple[int, int]:
    """Return the numbers of memories and of older versions, of all or some tenants."""
    of = [] if tenants is None else [tenants]
    numbers = (
        select(func.count()).select_from(table).where(*(table.c.tenant.in_(some) for some in of)).scalar_subquery()
        for table in _TABLES
    )
    current, older = connection.execute(select(*numbers)).one()
    return current, older


def having(
    reader: Connection, scope: Scope, where: Mapping[str, Any], as_of: datetime | None, ids: Iterable[str] | None = None
) -> list[str] | None:
    """Return the ids of the visible memories (of `ids`, if given) whose metadata meets conditions; None without any."""
    if not where:
        return None
    if as_of is None:
        queries = [statements.having(scope, where)]
        if ids is not None:
            queries = [queries[0].where(memories.c.id.in_(chunk)) for chunk in statements.chunks(ids)]
        return [id_ for query in queries for id_ in reader.execute(query).scalars()]
    wanted, names = conditions(where), ("id", "version", *COUNTERS, "metadata")
    found = (
        (row["id"], json.loads(row["metadata"])) for row in rows_as_of(reader, scope.tenant, names, as_of, seen=scope)
    )
    return [id_ for id_, metadata in found if all(one.accepts(metadata) for one in wanted)]


def rows_as_of(
    reader: Connection,
    tenant: str,
    names: Sequence[str],
    as_of: datetime,
    ids: Sequence[str] | None = None,
    seen: Scope | None = None,
) -> Iterator[Mapping[str, Any]]:
    """Yield columns of the memories at an instant, forgotten ones too, with the recall counters of that time.

    `names` has to include `id`, `version` and `COUNTERS`; see `statements.as_of` for `ids` and `seen`.
    """
    moment = microseconds(as_of)
    before: dict[tuple[str, int], list[Any]] = {}
    for id_, version, *counters in reader.execute(statements.touched_since(tenant, moment, ids)):
        before.setdefault((id_, version), counters)
    for row in reader.execute(statements.as_of(tenant, names, moment, ids, seen)).mappings():
        counters = before.get((row["id"], row["version"]), [])
        then = {"relations": rows.relations_at(row["relations"], moment)} if "relations" in row else {}
        yield {**row, **then, **dict(zip(COUNTERS, counters, strict=False))}
