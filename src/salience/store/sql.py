"""Statements, built here and run elsewhere; every value is a parameter. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import islice
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
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
    func,
    insert,
    literal,
    literal_column,
    not_,
    or_,
    select,
    text,
    union,
    update,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from salience.ports import Touch
from salience.records import ANY, NARROWING, Coordinate, Filter, Scope
from salience.store.rows import RECORD, STORED
from salience.store.schema import activations, memories, sessions, touches, versions
from salience.store.values import microseconds

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
