"""SQL statements that both databases run; every value is a parameter. No I/O.

Unless a docstring says otherwise, functions return queries or statements, and describe their rows or effects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import islice
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    CompoundSelect,
    Delete,
    Double,
    Executable,
    FromClause,
    Insert,
    Select,
    Table,
    Text,
    TextClause,
    Update,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    literal,
    literal_column,
    not_,
    or_,
    select,
    text,
    tuple_,
    union,
    update,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from salience.ports import Answered, Touch
from salience.records import ANY, NARROWING, Coordinate, Filter, Scope
from salience.store.rows import RECORD, STORED
from salience.store.schema import VECTOR, activations, laid_by, leases, memories, requests, sessions, touches, versions
from salience.store.values import instant, microseconds

Conditions = list[ColumnElement[bool]]
Query = tuple[Select[Any], dict[str, Any]]
"""A query with its values."""
CHUNK: Final = 5000
"""Maximum values in one list of parameters; SQLite allows 32,766 in a statement."""
INDEXED: Final = (
    "id", "version", "seq", "environment", "project", "user_id", "agent_id", "session_id", "kind", "tier", "importance",
    "weight", "created_at", "updated_at", "accessed_at", "expires_at", "forgotten_at", "access_count", "fact_key",
    "supersedes", "turn", "speaker", "tags", "entities", "terms", "distinctions", "vector",
)  # fmt: skip
"""Columns of the in-memory index."""
META: Final = "SELECT name, value FROM meta"
"""Query for the table `meta`."""
LACKING: Final = (
    "SELECT 1 FROM memories WHERE vector IS NULL UNION ALL SELECT 1 FROM versions WHERE vector IS NULL LIMIT 1"
)
"""Query for one row if any memory or version has no vector."""
_RECORD: Final = [memories.c[name] for name in RECORD]
_STORED: Final = [memories.c[name] for name in STORED]
_SEEN: Final = ("tenant", "environment", *NARROWING)
_OF_TENANT: Final = memories.c.tenant == bindparam("tenant", type_=Text)
_OF: Final = (memories.c.tenant == bindparam("of_tenant"), memories.c.id == bindparam("of_id"))
_MOVED: Final = [column.name for column in versions.c if column.name != "valid_to"]


def chunks(values: Iterable[str]) -> Iterator[list[str]]:
    """Return the distinct values in lists of at most `CHUNK`."""
    rest = iter(dict.fromkeys(values))
    while chunk := list(islice(rest, CHUNK)):
        yield chunk


@cache
def keep_meta() -> TextClause:
    """Return the statement that writes `value` under `name`."""
    return text(
        "INSERT INTO meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    )


@cache
def newer() -> Select[Any]:
    """Return the columns `INDEXED` of a tenant's memories, forgotten ones too, changed after a `sequence`."""
    later = bindparam("sequence", type_=BigInteger)
    changed = union(
        select(memories.c.id).where(_OF_TENANT, memories.c.seq > later),
        select(touches.c.id).where(touches.c.tenant == bindparam("tenant", type_=Text), touches.c.seq > later),
    )
    return select(*(memories.c[name] for name in INDEXED)).where(_OF_TENANT, memories.c.id.in_(changed))


def of_ids(tenant: str, ids: Sequence[str]) -> Select[Any]:
    """Return the memories, forgotten or not, of these ids."""
    return select(*_STORED).where(memories.c.tenant == tenant, memories.c.id.in_(ids))


def of_keys(tenant: str, home: str, keys: Sequence[str]) -> Select[Any]:
    """Return the memories of a home, forgotten or not, of these idempotency keys."""
    return select(*_STORED).where(memories.c.tenant == tenant, memories.c.home == home, memories.c.key.in_(keys))


def live_of(scope: Scope, ids: Sequence[str], column: str = "id") -> Query:
    """Return the query for the `RECORD` of the live visible memories of these whole ids or short ids (`short_id`)."""
    given, shape = _given(scope)
    return _live_of(shape, column), {**given, "ids": ids}


def _given(scope: Scope) -> tuple[dict[str, Any], tuple[Coordinate, ...]]:
    """Return the values of a scope, and its shape: the names of its values, and ANY or None for the others.

    Each shape has one statement.
    """
    seen = {name: getattr(scope, name) for name in _SEEN}
    given = {name: value for name, value in seen.items() if isinstance(value, str)}
    return given, tuple(name if name in given else value for name, value in seen.items())


@cache
def _live_of(shape: tuple[Coordinate, ...], column: str) -> Select[Any]:
    seen: dict[str, Any] = {
        name: bindparam(name) if value == name else value for name, value in zip(_SEEN, shape, strict=True)
    }
    among = memories.c[column].in_(bindparam("ids", expanding=True))
    return select(*_RECORD).where(*_visible(seen, memories), memories.c.forgotten_at.is_(None), among)


@cache
def every() -> Select[Any]:
    """Return the columns `STORED` of all memories of a tenant."""
    return select(*_STORED).where(_OF_TENANT)


def page(scope: Scope, after: str, limit: int, filter: Filter, forgotten: bool) -> Select[Any]:
    """Return the visible memories after an id, in the order of ids."""
    live = [] if forgotten else [memories.c.forgotten_at.is_(None)]
    order = memories.c.id + "" if filter.fact_keys else memories.c.id  # + "" lets SQLite use the index of facts
    conditions = [*visible(scope), *accepted(filter), *live, order > after]
    return select(*_STORED).where(*conditions).order_by(order).limit(limit)


def out_of_scope(scope: Scope, limit: int) -> Select[Any]:
    """Return environment, project, user, agent and count of the live memories that only the widened scope sees."""
    home = [memories.c[name] for name in _SEEN[1:]]
    among = [*visible(scope.widened()), not_(and_(*visible(scope))), memories.c.forgotten_at.is_(None)]
    order = [func.count().desc(), *(func.coalesce(column, "") for column in home)]
    return select(*home, func.count()).where(*among).group_by(*home).order_by(*order).limit(limit)


def counts_by(scope: Scope) -> Select[Any]:
    """Return the values of `ports.Count` for the live memories visible in `scope`."""
    names = ("kind", "tier", "project", "user_id", "agent_id", "session_id")
    by = [memories.c[name] for name in names]
    vectors = func.count(memories.c.id).filter(memories.c.vector.is_(None))
    live = memories.c.forgotten_at.is_(None)
    return select(*by, func.count(), vectors).where(*visible(scope), live).group_by(*by)


def older(tenant: str, ids: Sequence[str]) -> Select[Any]:
    """Return the older versions of these memories, oldest first."""
    columns = [versions.c[name] for name in STORED]
    return select(*columns).where(versions.c.tenant == tenant, versions.c.id.in_(ids)).order_by(versions.c.version)


def activations_of(tenant: str, ids: Sequence[str]) -> Select[Any]:
    """Return the activations of these memories."""
    columns = (activations.c.memory_id, activations.c.session_key, activations.c.turn)
    return select(*columns).where(activations.c.tenant == tenant, activations.c.memory_id.in_(ids))


def activations_in(tenant: str, session_key: str) -> Select[Any]:
    """Return the ids and turns of the activations of a session."""
    columns = (activations.c.memory_id, activations.c.turn)
    return select(*columns).where(activations.c.tenant == tenant, activations.c.session_key == session_key)


def clocks(tenant: str, session_keys: Sequence[str]) -> Select[Any]:
    """Return the clocks of these sessions."""
    known = sessions.c.session_key.in_(session_keys)
    return select(sessions.c.session_key, sessions.c.turns).where(sessions.c.tenant == tenant, known)


@cache
def set_clock() -> TextClause:
    """Return the statement that sets a session's clock."""
    return text(
        "INSERT INTO sessions (tenant, session_key, turns) VALUES (:tenant, :session_key, :turns) "
        "ON CONFLICT (tenant, session_key) DO UPDATE SET turns = excluded.turns"
    )


@lru_cache(maxsize=64)
def insertion(table: Table, names: tuple[str, ...], rows: int = 1) -> str:
    """Return the text of an insertion of rows with these columns, with a `?` for each value."""
    places = ", ".join([f"({', '.join('?' * len(names))})"] * rows)
    return f"INSERT INTO {table.name} ({', '.join(names)}) VALUES {places}"  # noqa: S608 - names of the schema


@cache
def last_id() -> Select[Any]:
    """Return the greatest id of a tenant, or null."""
    return select(func.max(memories.c.id)).where(_OF_TENANT)


@cache
def clock() -> Select[Any]:
    """Return the clock of the session `session_key` of a tenant."""
    of_tenant = sessions.c.tenant == bindparam("tenant", type_=Text)
    return select(sessions.c.turns).where(of_tenant, sessions.c.session_key == bindparam("session_key", type_=Text))


def current(tenant: str, id: str) -> Select[Any]:
    """Return the columns of a memory that its revision depends on."""
    names = ("version", "importance", "accessed_at", "access_count", "terms")
    return select(*(memories.c[name] for name in names)).where(memories.c.tenant == tenant, memories.c.id == id)


@cache
def keep_version() -> Insert:
    """Return the statement that copies the memory `of_id` of `of_tenant` to the versions."""
    row = select(*(memories.c[name] for name in _MOVED), bindparam("until", type_=BigInteger)).where(*_OF)
    return insert(versions).from_select([*_MOVED, "valid_to"], row)


@cache
def revise(names: frozenset[str]) -> Update:
    """Return the statement that updates these columns of the memory `of_id` of `of_tenant`."""
    return update(memories).where(*_OF).values({name: bindparam(name) for name in sorted(names)})


def touch(change: Touch, ids: Sequence[str]) -> tuple[Update, dict[str, Any]]:
    """Return the statement, with its values, that raises the recall counters of the live memories among `ids`."""
    values = {"of_tenant": change.scope.tenant, "ids": list(ids)}
    raised = {"count": change.access_count, "raised": change.importance}
    moment = {} if change.accessed_at is None else {"moment": microseconds(change.accessed_at)}
    return _touch(bool(moment)), {**values, **raised, **moment}


@cache
def _touch(has_moment: bool) -> Update:
    """Return the statement that raises the recall counters, and the instant if there is one."""
    values: dict[str, Any] = {
        "access_count": memories.c.access_count + bindparam("count", type_=BigInteger),
        "importance": _raised(),
    }
    if has_moment:
        moment = bindparam("moment", type_=BigInteger)
        values["accessed_at"] = case((memories.c.accessed_at > moment, memories.c.accessed_at), else_=moment)
    return update(memories).where(*_touched()).values(values)


def _raised() -> ColumnElement[float]:
    raised, whole = memories.c.importance + bindparam("raised", type_=Double), literal_column("1.0", Double)
    return case((raised > whole, whole), else_=raised)


def _touched() -> Conditions:
    """Return the conditions for the live memories of a tenant among `ids`."""
    live = and_(memories.c.id.in_(bindparam("ids", expanding=True)), memories.c.forgotten_at.is_(None))
    return [memories.c.tenant == bindparam("of_tenant"), live]


def note_activations(change: Touch, ids: Sequence[str], turn: int) -> tuple[Executable, dict[str, Any]]:
    """Return the statement, with its values, that records a turn of the live memories among `ids`."""
    scope = change.scope
    values = {"tenant": scope.tenant, "session_key": scope.session_key, "ids": list(ids), "turn": turn}
    return _note_activations(), values


@cache
def _note_activations() -> Executable:
    return text(
        "INSERT INTO activations (tenant, session_key, memory_id, turn) "
        "SELECT m.tenant, :session_key, m.id, :turn FROM memories AS m "
        "WHERE m.tenant = :tenant AND m.id IN :ids AND m.forgotten_at IS NULL "
        "ON CONFLICT (tenant, session_key, memory_id) DO UPDATE SET turn = excluded.turn"
    ).bindparams(bindparam("ids", expanding=True))


def visible(scope: Scope, table: FromClause = memories) -> Conditions:
    """Return the conditions of `Scope.sees` on the memories, or on another table with their scopes."""
    return _visible({name: getattr(scope, name) for name in _SEEN}, table)


def _visible(seen: Mapping[str, Any], table: FromClause) -> Conditions:
    """Return the conditions of `visible` for coordinates that are values or parameters."""
    conditions = [table.c.tenant == seen["tenant"]]
    if seen["environment"] is not ANY:
        conditions.append(table.c.environment == seen["environment"])
    for coordinate in NARROWING:
        asked = seen[coordinate]
        if asked is not ANY:
            column = table.c[coordinate]
            conditions.append(column.is_(None) if asked is None else or_(column.is_(None), column == asked))
    return conditions


def accepted(filter: Filter) -> Conditions:
    """Return the conditions of `Filter.accepts`."""
    columns = {
        "kinds": memories.c.kind,
        "tiers": memories.c.tier,
        "sessions": memories.c.session_id,
        "fact_keys": memories.c.fact_key,
    }
    conditions: Conditions = [_Holds(memories.c.tags, literal(tag)) for tag in filter.tags]
    conditions += [column.in_(getattr(filter, name)) for name, column in columns.items() if getattr(filter, name)]
    if filter.since is not None:
        conditions.append(memories.c.created_at >= microseconds(filter.since))
    if filter.until is not None:
        conditions.append(memories.c.created_at < microseconds(filter.until))
    if filter.level is not None:
        absent = memories.c.project.is_(None)
        conditions.append(absent if filter.level == "global" else ~absent)
    return conditions


class _Holds(FunctionElement[bool]):
    """Whether a JSON list of texts holds a text; arguments: the column and the text."""

    type = Boolean()
    inherit_cache = True


@compiles(_Holds, "sqlite")
def _holds_in_sqlite(element: _Holds, compiler: SQLCompiler, **options: Any) -> str:
    column, held = (compiler.process(argument, **options) for argument in element.clauses)
    found = f"EXISTS (SELECT 1 FROM json_each({column}) AS held WHERE held.value = {held})"  # noqa: S608 - compiled
    return f"CASE WHEN json_valid({column}) THEN {found} ELSE 1 END"  # so that a damaged row is reported


@compiles(_Holds, "postgresql")
def _holds_in_postgresql(element: _Holds, compiler: SQLCompiler, **options: Any) -> str:
    column, held = (compiler.process(argument, **options) for argument in element.clauses)
    return f"jsonb_exists(CAST({column} AS jsonb), {held})"


COUNTERS: Final = ("accessed_at", "access_count", "importance")
"""Columns that a touch changes."""
_KEPT: Final = frozenset(column.name for column in versions.c)


def as_of(
    tenant: str, names: Sequence[str], instant: int, ids: Sequence[str] | None = None, seen: Scope | None = None
) -> CompoundSelect[Any]:
    """Return columns of a tenant's memories, forgotten ones too, in the last version made by an instant.

    Columns that only `memories` has are 0 in older versions. `ids` and `seen` restrict the result to these ids, and to
    memories visible in a scope.
    """
    own: Conditions = [memories.c.tenant == tenant, memories.c.changed_at <= instant]
    newer = versions.alias()
    is_current = exists(
        select(1).where(memories.c.tenant == tenant, memories.c.id == versions.c.id, memories.c.changed_at <= instant)
    )
    last = (
        select(func.max(newer.c.version))
        .where(newer.c.tenant == tenant, newer.c.id == versions.c.id, newer.c.changed_at <= instant)
        .scalar_subquery()
    )
    older: Conditions = [versions.c.tenant == tenant, versions.c.version == last, ~is_current]
    if ids is not None:
        own.append(memories.c.id.in_(ids))
        older.append(versions.c.id.in_(ids))
    if seen is not None:
        own += visible(seen)
        older += visible(seen, versions)
    then = [versions.c[name] if name in _KEPT else literal(0).label(name) for name in names]
    return select(*(memories.c[name] for name in names)).where(*own).union_all(select(*then).where(*older))


def touched_since(tenant: str, instant: int, ids: Sequence[str] | None = None) -> Select[Any]:
    """Return the recall counters before each touch after an instant, in the order of the touches.

    Within a version, counters only grow, which gives the order of touches of one transaction.
    """
    some = [] if ids is None else [touches.c.id.in_(ids)]
    columns = (touches.c.id, touches.c.version, *(touches.c[name] for name in COUNTERS))
    after = select(*columns).where(touches.c.tenant == tenant, touches.c.at > instant, *some)
    return after.order_by(
        touches.c.seq, touches.c.access_count, touches.c.importance, touches.c.accessed_at.nulls_first()
    )


@cache
def note_touches() -> TextClause:
    """Return the statement that records the counters of the live memories among `ids` before a touch."""
    statement = text(
        "INSERT INTO touches (tenant, id, seq, at, version, accessed_at, access_count, importance) "
        "SELECT m.tenant, m.id, :seq, :at, m.version, m.accessed_at, m.access_count, m.importance "
        "FROM memories AS m WHERE m.tenant = :tenant AND m.id IN :ids AND m.forgotten_at IS NULL "
        "ON CONFLICT (tenant, id, version, seq, at) DO NOTHING"
    )
    return statement.bindparams(bindparam("ids", expanding=True))


def meant(scope: Scope, id: str, short: bool) -> Select[Any]:
    """Return the ids of the visible memories, forgotten or not, with a whole or a short id."""
    column = memories.c.short_id if short else memories.c.id
    return select(memories.c.id).where(*visible(scope), column == id)


def older_hashes(tenant: str, ids: Sequence[str]) -> Select[Any]:
    """Return the ids of some memories with the distinct content hashes of their older versions."""
    of = (versions.c.tenant == tenant, versions.c.id.in_(ids))
    return select(versions.c.id, versions.c.content_hash).where(*of).distinct()


def unembedded(after: tuple[str, str, int], limit: int, tenant: str | None = None) -> list[Query]:
    """Return the queries for the keys of memories and of versions without a vector, after a key, in order."""
    return [(statement, _from(after, limit, tenant)) for statement in _unembedded(tenant is not None)]


@cache
def _unembedded(of_one_tenant: bool) -> tuple[Select[Any], ...]:
    return tuple(_keys(table, of_one_tenant).where(table.c.vector.is_(None)) for table in (memories, versions))


def not_laid_by(after: tuple[str, str, int], limit: int, known: bool, tenant: str | None = None) -> list[Query]:
    """Return the queries for the keys of memories and of versions without a prepared vector, after a key, in order.

    Prepared vectors count only if their model is `known` to be the requested one.
    """
    found = []
    for table in (memories, versions):
        is_there = exists(
            select(1).where(
                laid_by.c.tenant == table.c.tenant,
                laid_by.c.id == table.c.id,
                laid_by.c.version == table.c.version,
                laid_by.c.content_hash == table.c.content_hash,
            )
        )
        statement = _keys(table, tenant is not None).where(*([~is_there] if known else []))
        found.append((statement, _from(after, limit, tenant)))
    return found


def _keys(table: Any, of_one_tenant: bool) -> Select[Any]:
    """Return the keys of a table after a key, in order; the values are those of `_from`."""
    key = (table.c.tenant, table.c.id, table.c.version)
    after = (bindparam("tenant", type_=Text), bindparam("id", type_=Text), bindparam("version", type_=BigInteger))
    some = [table.c.tenant == bindparam("of_tenant", type_=Text)] if of_one_tenant else []
    later = tuple_(*key) > tuple_(*after)
    return select(*key).where(*some, later).order_by(*key).limit(bindparam("limit", type_=BigInteger))


def _from(after: tuple[str, str, int], limit: int, tenant: str | None) -> dict[str, Any]:
    of = {} if tenant is None else {"of_tenant": tenant}
    return {"tenant": after[0], "id": after[1], "version": after[2], "limit": limit, **of}


def version_of(table: Any, tenant: str, id: str, version: int) -> Select[Any]:
    """Return a version of a memory from `memories` or `versions`."""
    columns = [table.c[name] for name in STORED]
    return select(*columns).where(table.c.tenant == tenant, table.c.id == id, table.c.version == version)


def rederive(table: Any, tenant: str, id: str, version: int, content_hash: str) -> Update:
    """Return the statement that updates the derived columns of a version whose text is unchanged."""
    same = (table.c.tenant == tenant, table.c.id == id, table.c.version == version)
    return update(table).where(*same, table.c.content_hash == content_hash)


def lay_by(table: Any) -> TextClause:
    """Return the statement that prepares a vector for a version whose text is unchanged."""
    statement = text(  # the table is one of the schema
        "INSERT INTO laid_by (tenant, id, version, content_hash, vector) "  # noqa: S608
        f"SELECT v.tenant, v.id, v.version, v.content_hash, :vector FROM {table.name} AS v "
        "WHERE v.tenant = :tenant AND v.id = :id AND v.version = :version AND v.content_hash = :content_hash "
        "ON CONFLICT (tenant, id, version) DO UPDATE SET content_hash = excluded.content_hash, vector = excluded.vector"
    )
    return statement.bindparams(bindparam("vector", type_=VECTOR()))


def drop_laid_by() -> Delete:
    """Return the statement that deletes all prepared vectors."""
    return delete(laid_by)


def adopt(table: Any, tenant: str | None = None) -> Update:
    """Return the statement that replaces all vectors, or those of one tenant, by the prepared ones or null."""
    fits = (
        select(laid_by.c.vector)
        .where(
            laid_by.c.tenant == (table.c.tenant if tenant is None else tenant),
            laid_by.c.id == table.c.id,
            laid_by.c.version == table.c.version,
            laid_by.c.content_hash == table.c.content_hash,
        )
        .scalar_subquery()
    )
    change = update(table).values(vector=fits)
    return change if tenant is None else change.where(table.c.tenant == tenant)


def in_sessions(tenant: str, ids: Sequence[str]) -> Select[Any]:
    """Return the coordinates of the distinct sessions of some memories."""
    columns = (memories.c.environment, memories.c.user_id, memories.c.session_id)
    with_one = (memories.c.tenant == tenant, memories.c.id.in_(ids), memories.c.session_id.is_not(None))
    return select(*columns).where(*with_one).distinct()


def sessions_left(tenant: str, session_ids: Sequence[str]) -> Select[Any]:
    """Return the coordinates of the distinct sessions with these names that contain a memory."""
    columns = (memories.c.environment, memories.c.user_id, memories.c.session_id)
    return select(*columns).where(memories.c.tenant == tenant, memories.c.session_id.in_(session_ids)).distinct()


def session_keys(tenant: str) -> Select[Any]:
    """Return the keys of a tenant's sessions."""
    return select(sessions.c.session_key).where(sessions.c.tenant == tenant)


def drop_sessions(tenant: str, session_keys: Sequence[str]) -> list[Delete]:
    """Return the statements that drop the clocks and activations of sessions."""
    return [
        delete(table).where(table.c.tenant == tenant, table.c.session_key.in_(session_keys))
        for table in (sessions, activations)
    ]


def erase(tenant: str, ids: Sequence[str]) -> Delete:
    """Return the statement that deletes memories; foreign keys delete their versions and activations."""
    return delete(memories).where(memories.c.tenant == tenant, memories.c.id.in_(ids))


def prune(tenant: str, id: str, numbers: Sequence[int]) -> Delete:
    """Return the statement that drops older versions of a memory."""
    return delete(versions).where(versions.c.tenant == tenant, versions.c.id == id, versions.c.version.in_(numbers))


def erase_touches(tenant: str, ids: Sequence[str]) -> Delete:
    """Return the statement that deletes the records of touches of memories."""
    return delete(touches).where(touches.c.tenant == tenant, touches.c.id.in_(ids))


def last_noted(tenant: str, instant: int) -> Select[Any]:
    """Return the last change sequence with a recorded touch before an instant, or null."""
    return select(func.max(touches.c.seq)).where(touches.c.tenant == tenant, touches.c.at < instant)


def prune_touches(tenant: str, instant: int) -> Delete:
    """Return the statement that deletes the records of touches before an instant."""
    return delete(touches).where(touches.c.tenant == tenant, touches.c.at < instant)


def lease(name: str) -> Select[Any]:
    """Return the holder and the end of a lease."""
    return select(leases.c.holder, leases.c.until).where(leases.c.name == name)


def take_lease() -> TextClause:
    """Return the statement that takes a lease, and returns its name, unless another holder has it until after `now`."""
    return text(
        "INSERT INTO leases (name, holder, until) VALUES (:name, :holder, :until) "
        "ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until "
        "WHERE leases.holder = excluded.holder OR leases.until <= :now RETURNING name"
    )


def counts(tenants: Sequence[str] | None = None) -> Select[Any]:
    """Return the numbers of memories and of older versions, of all or some tenants."""
    of = [] if tenants is None else [tenants]
    held, older = (
        select(func.count()).select_from(table).where(*(table.c.tenant.in_(some) for some in of)).scalar_subquery()
        for table in (memories, versions)
    )
    return select(held, older)


@cache
def note_answer() -> TextClause:
    """Return the statement that records a request, and returns its key, unless the key is recorded already."""
    return text(
        "INSERT INTO requests (tenant, home, key, verb, id, version, at) "
        "VALUES (:tenant, :home, :key, :verb, :id, :version, :at) "
        "ON CONFLICT (tenant, home, key) DO NOTHING RETURNING key"
    )


def answer_values(answered: Answered) -> dict[str, Any]:
    """Return a recorded request as values of a row."""
    return {
        "tenant": answered.home.tenant,
        "home": answered.home.home_key,
        "key": answered.key,
        "verb": answered.verb,
        "id": answered.id,
        "version": answered.version,
        "at": microseconds(answered.at),
    }


def answer_under(home: Scope, key: str) -> Select[Any]:
    """Return the recorded request from a home under a key."""
    mine = (requests.c.tenant == home.tenant, requests.c.home == home.home_key, requests.c.key == key)
    return select(requests.c.verb, requests.c.id, requests.c.version, requests.c.at).where(*mine)


def to_answered(row: Any, home: Scope, key: str) -> Answered:
    """Return the recorded request in a row of `answer_under`."""
    return Answered(home, key, row.verb, row.id, row.version, instant(row.at))


def drop_answers(tenant: str, ids: Sequence[str]) -> Delete:
    """Return the statement that deletes the recorded requests about some memories."""
    return delete(requests).where(requests.c.tenant == tenant, requests.c.id.in_(ids))


def _is_stray() -> ColumnElement[bool]:
    of = (memories.c.tenant == requests.c.tenant, memories.c.id == requests.c.id)
    return ~exists(select(1).where(*of))


def stray_answers() -> Select[Any]:
    """Return the number of recorded requests about missing memories."""
    return select(func.count()).select_from(requests).where(_is_stray())


def drop_stray_answers() -> Delete:
    """Return the statement that deletes the recorded requests about missing memories."""
    return delete(requests).where(_is_stray())


def prune_answers(tenant: str, before: int) -> Delete:
    """Return the statement that deletes the requests recorded before an instant."""
    return delete(requests).where(requests.c.tenant == tenant, requests.c.at < before)
