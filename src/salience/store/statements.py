"""SQL statements that both databases run; every value is a parameter. No I/O."""

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
CHUNK: Final = 5000
"""Most values in one list of parameters; SQLite allows 32,766 in a statement."""
ARENA: Final = (
    "id", "version", "seq", "environment", "project", "user_id", "agent_id", "session_id", "kind", "tier", "importance",
    "weight", "created_at", "updated_at", "accessed_at", "expires_at", "forgotten_at", "access_count", "fact_key",
    "supersedes", "turn", "speaker", "tags", "entities", "terms", "distinctions", "vector",
)  # fmt: skip
"""Columns that the arena is made of."""
META: Final = "SELECT name, value FROM meta"
"""What a store says of itself as a whole; read at every turn, so it is no statement that has to be compiled."""
FEWEST: Final = 16
"""Fewest places for ids in a statement that is made once: a recall's answer has no more, for the most part."""
LACKING: Final = (
    "SELECT 1 FROM memories WHERE vector IS NULL UNION ALL SELECT 1 FROM versions WHERE vector IS NULL LIMIT 1"
)
"""Whether any memory or version has no vector; asked after every write."""
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
    """Return the columns `ARENA` of a tenant's memories, forgotten ones too, written or touched after a `sequence`."""
    later = bindparam("sequence", type_=BigInteger)
    changed = union(
        select(memories.c.id).where(_OF_TENANT, memories.c.seq > later),
        select(touches.c.id).where(touches.c.tenant == bindparam("tenant", type_=Text), touches.c.seq > later),
    )
    return select(*(memories.c[name] for name in ARENA)).where(_OF_TENANT, memories.c.id.in_(changed))


def of_ids(tenant: str, ids: Sequence[str]) -> Select[Any]:
    """Return the memories, forgotten or not, of these ids."""
    return select(*_STORED).where(memories.c.tenant == tenant, memories.c.id.in_(ids))


def of_keys(tenant: str, home: str, keys: Sequence[str]) -> Select[Any]:
    """Return the memories of a home, forgotten or not, of these idempotency keys."""
    return select(*_STORED).where(memories.c.tenant == tenant, memories.c.home == home, memories.c.key.in_(keys))


def named(scope: Scope, ids: Sequence[str], column: str = "id") -> tuple[Select[Any], dict[str, Any]]:
    """Return the statement, with its values, for the `RECORD` of the live memories visible in `scope` of these ids.

    It is one of a few, made once: places are a power of two, and those left over name the first id again.

    Args:
        scope: who asks.
        ids: at least one, whole or short.
        column: `id` or `short_id`.
    """
    given, shape = _given(scope)
    places = _places(max(FEWEST, 1 << (len(ids) - 1).bit_length()))
    values = {**given, **dict.fromkeys(places, ids[0]), **dict(zip(places, ids, strict=False))}
    return _named(shape, column, places), values


def among(scope: Scope, ids: Sequence[str]) -> tuple[Select[Any], dict[str, Any]]:
    """Return the same for whole ids, of which there may be none, as `Driver.found` takes it: one statement for all."""
    given, shape = _given(scope)
    return _among(shape), {**given, "ids": ids}


def _given(scope: Scope) -> tuple[dict[str, Any], tuple[Coordinate, ...]]:
    """Return the values of a scope by their names, and its shape: these names, and what stands where it has no value.

    Statements are made once for each shape.
    """
    seen = {name: getattr(scope, name) for name in _SEEN}
    given = {name: value for name, value in seen.items() if isinstance(value, str)}
    return given, tuple(name if name in given else value for name, value in seen.items())


@cache
def _named(shape: tuple[Coordinate, ...], column: str, places: tuple[str, ...]) -> Select[Any]:
    """Return the statement for a scope of some shape, with places for ids."""
    return _live_of(shape, memories.c[column].in_([bindparam(place, type_=Text) for place in places]))


@cache
def _among(shape: tuple[Coordinate, ...]) -> Select[Any]:
    """Return the statement for a scope of some shape, with a list of ids."""
    return _live_of(shape, memories.c.id.in_(bindparam("ids", expanding=True)))


def _live_of(shape: tuple[Coordinate, ...], asked: ColumnElement[bool]) -> Select[Any]:
    named = zip(_SEEN, shape, strict=True)
    seen: dict[str, Any] = {name: bindparam(name) if value == name else value for name, value in named}
    return select(*_RECORD).where(*_visible(seen, memories), memories.c.forgotten_at.is_(None), asked)


@cache
def _places(count: int) -> tuple[str, ...]:
    """Return the names of the places for ids."""
    return tuple(f"id{number}" for number in range(count))


@cache
def every() -> Select[Any]:
    """Return the columns `STORED` of all memories of a tenant."""
    return select(*_STORED).where(_OF_TENANT)


def page(scope: Scope, after: str, limit: int, filter: Filter, forgotten: bool) -> Select[Any]:
    """Return the visible memories after an id, in the order of ids.

    Those of a fact are few and have an index, which SQLite takes only where the order by id looks like no index to it.
    """
    live = [] if forgotten else [memories.c.forgotten_at.is_(None)]
    order = memories.c.id + "" if filter.fact_keys else memories.c.id
    conditions = [*visible(scope), *accepted(filter), *live, order > after]
    return select(*_STORED).where(*conditions).order_by(order).limit(limit)


def out_of_scope(scope: Scope, limit: int) -> Select[Any]:
    """Return environment, project, user, agent and count of the live memories that the scope sees only if widened."""
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
    """Return what was activated in a session, and when."""
    columns = (activations.c.memory_id, activations.c.turn)
    return select(*columns).where(activations.c.tenant == tenant, activations.c.session_key == session_key)


def clocks(tenant: str, session_keys: Sequence[str]) -> Select[Any]:
    """Return the turns so far of these sessions."""
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
    """Return the statement that inserts these columns of some rows into a table, as text with places in their order."""
    places = ", ".join([f"({', '.join('?' * len(names))})"] * rows)
    return f"INSERT INTO {table.name} ({', '.join(names)}) VALUES {places}"  # noqa: S608 - names of the schema


@cache
def last_id() -> Select[Any]:
    """Return the greatest id of a tenant, if any; a new memory's is greater, as a rule, and needs no looking for."""
    return select(func.max(memories.c.id)).where(_OF_TENANT)


@cache
def clock() -> Select[Any]:
    """Return the turns so far of the session `session_key` of a tenant."""
    of_tenant = sessions.c.tenant == bindparam("tenant", type_=Text)
    return select(sessions.c.turns).where(of_tenant, sessions.c.session_key == bindparam("session_key", type_=Text))


def current(tenant: str, id: str) -> Select[Any]:
    """Return what a revision has to know of the row that it replaces."""
    names = ("version", "importance", "accessed_at", "access_count", "terms")
    return select(*(memories.c[name] for name in names)).where(memories.c.tenant == tenant, memories.c.id == id)


@cache
def keep_version() -> Insert:
    """Return the statement that copies the memory `of_id` of `of_tenant`, as it stands, among the versions."""
    row = select(*(memories.c[name] for name in _MOVED), bindparam("until", type_=BigInteger)).where(*_OF)
    return insert(versions).from_select([*_MOVED, "valid_to"], row)


@cache
def revise(names: frozenset[str]) -> Update:
    """Return the statement that gives the columns of these names other values in the row `of_id` of `of_tenant`."""
    return update(memories).where(*_OF).values({name: bindparam(name) for name in sorted(names)})


def touch(change: Touch, ids: Sequence[str]) -> tuple[Update, dict[str, Any]]:
    """Return the statement, with its values, that moves the recall counters of the live ones among `ids`."""
    values = {"of_tenant": change.scope.tenant, "ids": list(ids)}
    raised = {"count": change.access_count, "raised": change.importance}
    moment = {} if change.accessed_at is None else {"moment": microseconds(change.accessed_at)}
    return _touch(bool(moment)), {**values, **raised, **moment}


@cache
def _touch(has_moment: bool) -> Update:
    """Return the statement that moves the recall counters, and the instant where it is given."""
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
    """Return the conditions on the live memories of a tenant among some ids."""
    live = and_(memories.c.id.in_(bindparam("ids", expanding=True)), memories.c.forgotten_at.is_(None))
    return [memories.c.tenant == bindparam("of_tenant"), live]


def note_activations(change: Touch, ids: Sequence[str], turn: int) -> tuple[Executable, dict[str, Any]]:
    """Return the statement, with its values, that notes a turn on the live ones among `ids`."""
    scope = change.scope
    values = {"tenant": scope.tenant, "session_key": scope.session_key, "ids": list(ids), "turn": turn}
    return _note_activations(), values


@cache
def _note_activations() -> Executable:
    """Return the statement that notes a turn."""
    return text(
        "INSERT INTO activations (tenant, session_key, memory_id, turn) "
        "SELECT m.tenant, :session_key, m.id, :turn FROM memories AS m "
        "WHERE m.tenant = :tenant AND m.id IN :ids AND m.forgotten_at IS NULL "
        "ON CONFLICT (tenant, session_key, memory_id) DO UPDATE SET turn = excluded.turn"
    ).bindparams(bindparam("ids", expanding=True))


def visible(scope: Scope, table: FromClause = memories) -> Conditions:
    """Return the conditions that `Scope.sees` states, on the memories or on another table with their scopes."""
    return _visible({name: getattr(scope, name) for name in _SEEN}, table)


def _visible(seen: Mapping[str, Any], table: FromClause) -> Conditions:
    """Return the same for coordinates that are values or parameters."""
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
    """Return the conditions that `Filter.accepts` states."""
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
    return f"CASE WHEN json_valid({column}) THEN {found} ELSE 1 END"  # a damaged row is brought, so that it is told


@compiles(_Holds, "postgresql")
def _holds_in_postgresql(element: _Holds, compiler: SQLCompiler, **options: Any) -> str:
    column, held = (compiler.process(argument, **options) for argument in element.clauses)
    return f"jsonb_exists(CAST({column} AS jsonb), {held})"


COUNTERS: Final = ("accessed_at", "access_count", "importance")
"""Columns that a touch changes."""
_KEPT: Final = frozenset(column.name for column in versions.c)


def stood(
    tenant: str, names: Sequence[str], instant: int, ids: Sequence[str] | None = None, seen: Scope | None = None
) -> CompoundSelect[Any]:
    """Return columns of a tenant's memories, forgotten ones too, in the version that held at an instant.

    A version is the one that held if it is the last that was made by then. Columns that versions have not are 0.
    `ids` and `seen` leave out all others: those of other ids, and those that are not visible in a scope.
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
    """Return the recall counters as they were before each touch after an instant, in the order of the touches.

    Within a version, counters only grow: they tell the order of touches of one transaction.
    """
    some = [] if ids is None else [touches.c.id.in_(ids)]
    columns = (touches.c.id, touches.c.version, *(touches.c[name] for name in COUNTERS))
    after = select(*columns).where(touches.c.tenant == tenant, touches.c.at > instant, *some)
    return after.order_by(
        touches.c.seq, touches.c.access_count, touches.c.importance, touches.c.accessed_at.nulls_first()
    )


@cache
def note_touches() -> TextClause:
    """Return the statement that notes the counters of the live ones among `ids` before a touch."""
    statement = text(
        "INSERT INTO touches (tenant, id, seq, at, version, accessed_at, access_count, importance) "
        "SELECT m.tenant, m.id, :seq, :at, m.version, m.accessed_at, m.access_count, m.importance "
        "FROM memories AS m WHERE m.tenant = :tenant AND m.id IN :ids AND m.forgotten_at IS NULL "
        "ON CONFLICT (tenant, id, version, seq, at) DO NOTHING"
    )
    return statement.bindparams(bindparam("ids", expanding=True))


def meant(scope: Scope, id: str, short: bool) -> Select[Any]:
    """Return the ids of the memories, forgotten or not, visible in `scope`, that a whole or a short id means."""
    column = memories.c.short_id if short else memories.c.id
    return select(memories.c.id).where(*visible(scope), column == id)


Asked = tuple[Select[Any], dict[str, Any]]
"""A statement with its values."""


def said(tenant: str, ids: Sequence[str]) -> Select[Any]:
    """Return the distinct content hashes of the older versions of some memories, with their ids."""
    of = (versions.c.tenant == tenant, versions.c.id.in_(ids))
    return select(versions.c.id, versions.c.content_hash).where(*of).distinct()


def unembedded(after: tuple[str, str, int], limit: int, tenant: str | None = None) -> list[Asked]:
    """Return the statements for the keys of memories and of versions without a vector, after a key, in order."""
    return [(statement, _from(after, limit, tenant)) for statement in _unembedded(tenant is not None)]


@cache
def _unembedded(of_one_tenant: bool) -> tuple[Select[Any], ...]:
    return tuple(_keys(table, of_one_tenant).where(table.c.vector.is_(None)) for table in (memories, versions))


def not_laid_by(after: tuple[str, str, int], limit: int, known: bool, tenant: str | None = None) -> list[Asked]:
    """Return the statements for the keys of memories and of versions that no vector was prepared for, in order.

    Prepared vectors count only where their model is `known` to be the one asked for.
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
    """Return a memory (or an older version) at a number."""
    columns = [table.c[name] for name in STORED]
    return select(*columns).where(table.c.tenant == tenant, table.c.id == id, table.c.version == version)


def rederive(table: Any, tenant: str, id: str, version: int, content_hash: str) -> Update:
    """Return the statement that puts anew what is derived from a version that still has a text."""
    same = (table.c.tenant == tenant, table.c.id == id, table.c.version == version)
    return update(table).where(*same, table.c.content_hash == content_hash)


def lay_by(table: Any) -> TextClause:
    """Return the statement that lays a vector by for a memory (or an older version) that still has a text."""
    statement = text(  # the table is one of the schema
        "INSERT INTO laid_by (tenant, id, version, content_hash, vector) "  # noqa: S608
        f"SELECT v.tenant, v.id, v.version, v.content_hash, :vector FROM {table.name} AS v "
        "WHERE v.tenant = :tenant AND v.id = :id AND v.version = :version AND v.content_hash = :content_hash "
        "ON CONFLICT (tenant, id, version) DO UPDATE SET content_hash = excluded.content_hash, vector = excluded.vector"
    )
    return statement.bindparams(bindparam("vector", type_=VECTOR()))


def drop_laid_by() -> Delete:
    """Return the statement that drops every vector laid by."""
    return delete(laid_by)


def adopt(table: Any, tenant: str | None = None) -> Update:
    """Return the statement that puts the vectors laid by in the place of all others; null where there is none.

    Those of one tenant, if one is given.
    """
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
    """Return the distinct sessions of some memories, by their coordinates."""
    columns = (memories.c.environment, memories.c.user_id, memories.c.session_id)
    with_one = (memories.c.tenant == tenant, memories.c.id.in_(ids), memories.c.session_id.is_not(None))
    return select(*columns).where(*with_one).distinct()


def sessions_left(tenant: str, session_ids: Sequence[str]) -> Select[Any]:
    """Return the distinct sessions of these names, by their coordinates, in which a memory is."""
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
    """Return the statement that deletes memories; what belongs to them goes with them."""
    return delete(memories).where(memories.c.tenant == tenant, memories.c.id.in_(ids))


def prune(tenant: str, id: str, numbers: Sequence[int]) -> Delete:
    """Return the statement that drops older versions of a memory."""
    return delete(versions).where(versions.c.tenant == tenant, versions.c.id == id, versions.c.version.in_(numbers))


def erase_touches(tenant: str, ids: Sequence[str]) -> Delete:
    """Return the statement that deletes what is kept of touches of memories; in a file nothing else does."""
    return delete(touches).where(touches.c.tenant == tenant, touches.c.id.in_(ids))


def last_noted(tenant: str, instant: int) -> Select[Any]:
    """Return the last change sequence of which something is kept of touches before an instant; null for none."""
    return select(func.max(touches.c.seq)).where(touches.c.tenant == tenant, touches.c.at < instant)


def prune_touches(tenant: str, instant: int) -> Delete:
    """Return the statement that drops what is kept of touches before an instant."""
    return delete(touches).where(touches.c.tenant == tenant, touches.c.at < instant)


def lease(name: str) -> Select[Any]:
    """Return who holds a lease, and until when."""
    return select(leases.c.holder, leases.c.until).where(leases.c.name == name)


def take_lease() -> TextClause:
    """Return the statement that gives a lease to a holder, and returns it, unless another has it until after `now`."""
    return text(
        "INSERT INTO leases (name, holder, until) VALUES (:name, :holder, :until) "
        "ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until "
        "WHERE leases.holder = excluded.holder OR leases.until <= :now RETURNING name"
    )


def counts(tenants: Sequence[str] | None = None) -> Select[Any]:
    """Return how many memories and how many older versions there are, in all or of some tenants."""
    of = [] if tenants is None else [tenants]
    held, older = (
        select(func.count()).select_from(table).where(*(table.c.tenant.in_(some) for some in of)).scalar_subquery()
        for table in (memories, versions)
    )
    return select(held, older)


@cache
def note_answer() -> TextClause:
    """Return the statement that notes the answer of `answer_values`, and returns its key, unless the key has one."""
    return text(
        "INSERT INTO requests (tenant, home, key, verb, id, version, at) "
        "VALUES (:tenant, :home, :key, :verb, :id, :version, :at) "
        "ON CONFLICT (tenant, home, key) DO NOTHING RETURNING key"
    )


def answer_values(answered: Answered) -> dict[str, Any]:
    """Return an answer as values of a row."""
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
    """Return what was answered from a home under a key."""
    mine = (requests.c.tenant == home.tenant, requests.c.home == home.home_key, requests.c.key == key)
    return select(requests.c.verb, requests.c.id, requests.c.version, requests.c.at).where(*mine)


def to_answered(row: Any, home: Scope, key: str) -> Answered:
    """Return the answer in a row of `answer_under`."""
    return Answered(home, key, row.verb, row.id, row.version, instant(row.at))


def drop_answers(tenant: str, ids: Sequence[str]) -> Delete:
    """Return the statement that drops what was answered about some memories."""
    return delete(requests).where(requests.c.tenant == tenant, requests.c.id.in_(ids))


def _is_stray() -> ColumnElement[bool]:
    of = (memories.c.tenant == requests.c.tenant, memories.c.id == requests.c.id)
    return ~exists(select(1).where(*of))


def stray_answers() -> Select[Any]:
    """Return how many answers are about memories that are not there."""
    return select(func.count()).select_from(requests).where(_is_stray())


def drop_stray_answers() -> Delete:
    """Return the statement that drops them."""
    return delete(requests).where(_is_stray())


def prune_answers(tenant: str, before: int) -> Delete:
    """Return the statement that drops what was answered before an instant."""
    return delete(requests).where(requests.c.tenant == tenant, requests.c.at < before)
