"""SQL conditions and queries that both databases use; every value is a parameter. No I/O."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from itertools import islice
from types import SimpleNamespace
from typing import Any, Final, cast

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    CompoundSelect,
    Dialect,
    Double,
    FromClause,
    Select,
    Table,
    Text,
    TypeDecorator,
    and_,
    bindparam,
    case,
    exists,
    false,
    func,
    literal,
    literal_column,
    not_,
    or_,
    select,
    tuple_,
    union_all,
)  # fmt: skip
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

from salience.ports import SESSION, After, RevisionFilter, Selection
from salience.records import ANY, FACETS, NARROWING, Coordinate, Filter, Scope
from salience.records.where import ORDERED, Condition, kind_of
from salience.records.where import conditions as conditions_of
from salience.store.rows import RECORD, STORED
from salience.store.schema import TEXT, memories, recalls, touches, versions
from salience.store.values import microseconds

Conditions = list[ColumnElement[bool]]
CHUNK: Final = 5000
"""Maximum values in one list of parameters; SQLite allows 32,766 in a statement."""
DAY: Final = 24 * 3600 * 1_000_000
"""Microseconds of a day."""
INDEXED: Final = (
    "id", "version", "seq", "environment", "project", "user_id", "agent_id", "session_id", "kind", "tier", "importance",
    "weight", "created_at", "updated_at", "accessed_at", "expires_at", "forgotten_at", "access_count", "fact_key",
    "supersedes", "relations", "turn", "speaker", "tags", "entities", "terms", "distinctions",
    "event_start", "event_end", "vector",
)  # fmt: skip
"""Columns of the in-memory index."""
PART: Final = 1_000
"""Rows that are read into the index at a time: larger parts are no faster, and leave the process larger."""
_STORED: Final = [memories.c[name] for name in STORED]
_SEEN: Final = ("tenant", "environment", *NARROWING)
Free = tuple[tuple[str, Coordinate], ...]
"""Coordinates of a scope that are no texts: name and value."""


def chunks(values: Iterable[str]) -> Iterator[list[str]]:
    """Return the distinct values in lists of at most `CHUNK`."""
    rest = iter(dict.fromkeys(values))
    while chunk := list(islice(rest, CHUNK)):
        yield chunk


def of_ids(tenant: str, ids: Sequence[str]) -> Select[Any]:
    """Return the memories, forgotten or not, of these ids."""
    return select(*_STORED).where(memories.c.tenant == tenant, memories.c.id.in_(ids))


def of_keys(tenant: str, home: str, keys: Sequence[str]) -> Select[Any]:
    """Return the memories of a home, forgotten or not, of these idempotency keys."""
    return select(*_STORED).where(memories.c.tenant == tenant, memories.c.home == home, memories.c.key.in_(keys))


def live_of(
    scope: Scope, ids: Sequence[str], column: str = "id", columns: tuple[str, ...] = RECORD
) -> tuple[Select[Any], dict[str, Any]]:
    """Return the query for columns of the live visible memories of some ids or short ids, with its values.

    The coordinates are parameters, so that scopes which leave the same ones free share a statement: to build one takes
    longer than to run it.
    """
    values, free = bound(scope)
    return _live_of(free, column, columns), {**values, "ids": ids}


@cache
def _live_of(free: Free, column: str, columns: tuple[str, ...]) -> Select[Any]:
    among = memories.c[column].bool_op("IN")(_EachOf(bindparam("ids", type_=_Texts())))
    shown = [memories.c[name] for name in columns]
    return select(*shown).where(*visible(as_parameters(free)), memories.c.forgotten_at.is_(None), among)


def bound(scope: Scope) -> tuple[dict[str, str], Free]:
    """Return the coordinates of a scope that are texts, for parameters, and the other ones."""
    values = {name: value for name in _SEEN if isinstance(value := getattr(scope, name), str)}
    return values, tuple((name, getattr(scope, name)) for name in _SEEN if name not in values)


def as_parameters(free: Free) -> SimpleNamespace:
    """Return a scope for `visible` whose coordinates are parameters, but for the `free` ones."""
    return SimpleNamespace(**{name: bindparam(name) for name in _SEEN} | dict(free))


def live(now: datetime | None) -> ColumnElement[bool]:
    """Return the condition of `Memory.is_live`; None where `expires_at` does not matter."""
    hidden, ends = memories.c.forgotten_at, memories.c.expires_at
    return hidden.is_(None) if now is None else and_(hidden.is_(None), or_(ends.is_(None), ends > microseconds(now)))


def due(tenant: str, now: datetime) -> Select[Any]:
    """Return the memories of a tenant that are past their time to live but not hidden, in the order of ids."""
    past = [memories.c.forgotten_at.is_(None), memories.c.expires_at <= microseconds(now)]
    return (
        select(*(memories.c[name] for name in RECORD)).where(memories.c.tenant == tenant, *past).order_by(memories.c.id)
    )


def page(
    scope: Scope, after: str, limit: int, filter: Filter, forgotten: bool, newest_first: bool = False
) -> Select[Any]:
    """Return the visible memories after an id, in the order of ids, or before it, in the reverse order."""
    live = [] if forgotten else [memories.c.forgotten_at.is_(None)]
    order = memories.c.id + "" if filter.fact_keys else memories.c.id  # + "" lets SQLite use the index of facts
    conditions = [*visible(scope), *accepted(filter), *live]
    if after or not newest_first:
        conditions.append(order < after if newest_first else order > after)
    return select(*_STORED).where(*conditions).order_by(order.desc() if newest_first else order).limit(limit)


def revisions(
    table: Table, scope: Scope, before: tuple[datetime, str, int] | None, limit: int, filter: RevisionFilter
) -> Select[Any]:
    """Return `changed_at`, id and version of the visible rows of `memories` or `versions` before a key, newest first.

    To sort the keys alone takes half the time of sorting whole rows.
    """
    key = (table.c.changed_at, table.c.id, table.c.version)
    conditions = [*visible(scope, table), *_period(table, filter)]
    conditions += [
        table.c[name] == value for name in ("change", "changed_by") if (value := getattr(filter, name)) is not None
    ]
    if before is not None:
        last = (microseconds(before[0]), *before[1:])
        conditions.append(
            tuple_(*key) < tuple_(*(literal(value, part.type) for value, part in zip(last, key, strict=True)))
        )
    return select(*key).where(*conditions).order_by(*(part.desc() for part in key)).limit(limit)


def daily(scope: Scope, filter: RevisionFilter) -> CompoundSelect[Any]:
    """Return day since 1970, change and count of the versions of visible memories.

    Memories count as `date` on the day of their text, and as `recall` on that of their last recall; they are read once.
    """
    names = ("project", "change", "changed_at", "created_at", "accessed_at")
    read = select(*(memories.c[name] for name in names)).where(*visible(scope)).cte().prefix_with("MATERIALIZED")
    sources: list[tuple[FromClause, str, str | None, Conditions]] = [
        (read, "changed_at", None, []), (versions, "changed_at", None, visible(scope, versions)),
        (read, "created_at", "date", []), (read, "accessed_at", "recall", []),
    ]  # fmt: skip
    counts = []
    for table, at, name, seen in sources:
        day: ColumnElement[int] = table.c[at] // literal_column(str(DAY))  # not a parameter: it is repeated in GROUP BY
        change = table.c.change if name is None else literal(name, TEXT())
        among = [*seen, *_period(table, filter, at), table.c[at].is_not(None)]
        by = [day, table.c.change] if name is None else [day]
        counts.append(select(day, change, func.count()).where(*among).group_by(*by))
    return union_all(*counts)


def _period(table: FromClause, filter: RevisionFilter, at: str = "changed_at") -> Conditions:
    """Return the conditions of the period and the level of a filter, the period on the column `at`."""
    conditions: Conditions = [] if filter.since is None else [table.c[at] >= microseconds(filter.since)]
    if filter.until is not None:
        conditions.append(table.c[at] < microseconds(filter.until))
    return conditions + _of_level(table, filter.level)


def _of_level(table: FromClause, level: str | None) -> Conditions:
    absent = table.c.project.is_(None)
    return [] if level is None else [absent if level == "global" else ~absent]


def out_of_scope(selection: Selection, limit: int) -> Select[Any]:
    """Return environment, project, user, agent and count of the selected memories that only the widened scope sees."""
    home = [memories.c[name] for name in _SEEN[1:]]
    wide = replace(selection, scope=selection.scope.widened())
    among = [*_containing(wide, in_order=True), not_(and_(*visible(selection.scope))), *_chosen(selection)]
    order = [func.count().desc(), *(func.coalesce(column, "") for column in home)]
    return select(*home, func.count()).where(*among).group_by(*home).order_by(*order).limit(limit)


def visible(scope: Scope | SimpleNamespace, table: FromClause = memories) -> Conditions:
    """Return the conditions of `Scope.sees` on the memories, or on another table with their scopes."""
    conditions = [table.c.tenant == scope.tenant]
    if scope.environment is not ANY:
        conditions.append(table.c.environment == scope.environment)
    for coordinate in NARROWING:
        value, column = getattr(scope, coordinate), table.c[coordinate]
        if value is not ANY:
            conditions.append(column.is_(None) if value is None else or_(column.is_(None), column == value))
    return conditions


def logged(scope: Scope) -> Conditions:
    """Return the conditions for the entries of the recall log that belong to a scope, as `Store.recalls` says."""
    conditions = [recalls.c.tenant == scope.tenant]
    for coordinate in _SEEN[1:]:
        value = getattr(scope, coordinate)
        if value is not ANY:
            conditions.append(recalls.c[coordinate] == value)  # `IS NULL` for None
    return conditions if scope.session_id is None else [*conditions, recalls.c.session_id == scope.session_id]


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
    conditions += map(_meets, conditions_of(filter.where))
    return conditions + _of_level(memories, filter.level)


def having(scope: Scope, where: Mapping[str, Any]) -> Select[Any]:
    """Return the ids of the live visible memories whose metadata meets conditions, in the order that SQLite reads."""
    conditions = [*visible(scope), memories.c.forgotten_at.is_(None), *map(_meets, conditions_of(where))]
    return select(memories.c.id).where(*conditions).order_by(memories.c.id)


def _meets(condition: Condition) -> ColumnElement[bool]:
    """Return `Condition.accepts` for the column `metadata`."""
    key = literal(condition.key)

    def equals(value: Any) -> ColumnElement[bool]:
        found = _Found(memories.c.metadata, key, kind=kind_of(value))
        return found.is_not(None) if value is None else found == _operand(value)

    match condition.operator:
        case "$eq":
            return equals(condition.operand)
        case "$ne":
            return func.coalesce(equals(condition.operand), false()) == false()
        case "$in":
            return or_(false(), *map(equals, condition.operand))
    found = _Found(memories.c.metadata, key, kind=kind_of(condition.operand))
    ordered: Any = ORDERED[condition.operator](found, _operand(condition.operand))
    return cast(ColumnElement[bool], ordered)


def _operand(value: Any) -> ColumnElement[Any]:
    if isinstance(value, str):
        return literal(value, TEXT())
    return literal(int(value), BigInteger()) if isinstance(value, int) else literal(value, Double())


def _facet(name: str, now: datetime | None) -> ColumnElement[Any]:
    """Return a field of `FACETS`, "" for none; of the status, that of `Memory.seen_at`."""
    if name != "status":
        return func.coalesce(memories.c[name], "").label(name)
    return case(
        (live(now), "live"),
        (or_(memories.c.forgotten_at.is_(None), memories.c.change == "expire"), "expired"),
        (memories.c.change == "stale", "stale"),
        else_="forgotten",
    )


def browse(selection: Selection, order: str, limit: int, ascending: bool, after: After | None) -> Select[Any]:
    """Return the selected memories, sorted by a column, then by id."""
    conditions = [*_containing(selection, in_order=order == "id"), *_chosen(selection)]
    column: ColumnElement[Any] = memories.c[order]
    if order == "accessed_at":
        column = func.coalesce(column, 0)
    if order == "id" and selection.filter.fact_keys:
        column = memories.c.id + ""  # lets SQLite use the index of facts
    keys = [column] if order == "id" else [column, memories.c.id]
    if after is not None:
        beyond = memories.c.id > after.id if ascending else memories.c.id < after.id
        if order != "id":
            number = after.value if order in ("importance", "weight") else int(after.value)
            value = literal(number, memories.c[order].type)
            beyond = or_(column > value if ascending else column < value, and_(column == value, beyond))
        conditions.append(beyond)
    sorted_by = keys if ascending else [key.desc() for key in keys]
    first = select(memories.c.id).where(*conditions).order_by(*sorted_by).limit(limit)  # sorts no whole rows
    among = [memories.c.tenant == selection.scope.tenant, memories.c.id.in_(first)]
    return select(*(memories.c[name] for name in RECORD)).where(*among).order_by(*sorted_by)


def ids(selection: Selection) -> Select[Any]:
    """Return the ids of the live memories of a selection, whatever its values, in one JSON list; SQLite only.

    One text is read several times as fast as a row for each id.
    """
    return select(func.json_group_array(memories.c.id)).where(*_containing(selection, gone=False))


def groups(selection: Selection, *, gone: bool | None = None) -> Select[Any]:
    """Return the value of each facet but the session, and the number of memories; `gone` is as in `_containing`.

    Of `selection.values`, only those of the session are applied. Sessions are counted by `sessions`: there are many.
    """
    session = {name: values for name, values in selection.values.items() if name == SESSION}
    conditions = [*_containing(selection, gone=gone), *_chosen(replace(selection, values=session))]
    return _counted([_facet(name, selection.now) for name in FACETS if name != SESSION], conditions)


def sessions(selection: Selection, *, gone: bool | None = None) -> Select[Any]:
    """Return each session of the memories that the selection accepts in any session, and their number."""
    others = {name: values for name, values in selection.values.items() if name != SESSION}
    conditions = [*_containing(selection, gone=gone), *_chosen(replace(selection, values=others))]
    return _counted([_facet(SESSION, selection.now)], conditions)


def tags(selection: Selection, *, gone: bool | None = None) -> Select[Any]:
    """Return each list of tags of the selected memories, as JSON, and the number of memories."""
    return _counted([memories.c.tags], [*_containing(selection, gone=gone), *_chosen(selection)])


def session_summaries(selection: Selection, limit: int, after: After | None) -> Select[Any]:
    """Return the fields of `SessionSummary` of each session, with instants in microseconds."""
    of = [memories.c.environment, memories.c.user_id, memories.c.session_id]
    separator, last = literal("\x1f"), func.max(memories.c.created_at)
    key = memories.c.environment + separator + func.coalesce(memories.c.user_id, "") + separator + memories.c.session_id
    found = select(*of, func.count(), func.min(memories.c.created_at), last).group_by(*of)
    found = found.where(memories.c.session_id.is_not(None), *_containing(selection), *_chosen(selection))
    if after is not None:
        found = found.having(or_(last < int(after.value), and_(last == int(after.value), key < after.id)))
    return found.order_by(last.desc(), key.desc()).limit(limit)


def entities(selection: Selection) -> Select[Any]:
    """Return each list of entities of the selected memories, as JSON, and the number of memories."""
    return _counted([memories.c.entities], [*_containing(selection), *_chosen(selection)])


def _counted(columns: Sequence[ColumnElement[Any]], conditions: Conditions) -> Select[Any]:
    positions: list[ColumnElement[Any]] = [literal_column(str(position)) for position in range(1, len(columns) + 1)]
    return select(*columns, func.count()).where(*conditions).group_by(*positions)


def _containing(selection: Selection, *, in_order: bool = False, gone: bool | None = None) -> Conditions:
    """Return the conditions of a selection but its values; `gone`: and that the memory is not live, or that it is.

    Unless an index gives the order, the facts or the ids, SQLite is to read the table from end to end: an index of all
    rows is slower.
    """
    seen = visible(selection.scope)
    if not (in_order or selection.filter.fact_keys or selection.ids):
        seen[0] = _Unindexed(memories.c.tenant) == selection.scope.tenant
    words = [memories.c.content.icontains(word, autoescape=True) for word in selection.words]
    ids, is_live = selection.ids, live(selection.now)
    named: Conditions = [or_(memories.c.id.in_(ids), memories.c.short_id.in_(ids))] if ids else []
    named += [memories.c.supersedes.in_(selection.supersedes)] if selection.supersedes else []
    state = [] if gone is None else [not_(is_live) if gone else is_live]
    return [*seen, *words, *named, *accepted(selection.filter), *_connected(selection), *state]


def _connected(selection: Selection) -> Conditions:
    """Return the conditions `entities` and `linked_to`."""
    conditions: Conditions = []
    if selection.entities:
        conditions.append(or_(*(_Holds(memories.c.entities, literal(name)) for name in selection.entities)))
    if ids := selection.linked_to:
        sums_up = and_(memories.c.sources != "[]", or_(*(_Holds(memories.c.sources, literal(id_)) for id_ in ids)))
        replacing = (memories.c.relations.contains(f'"{id_}"') for id_ in ids)
        conditions.append(or_(memories.c.supersedes.in_(ids), *replacing, sums_up))
    return conditions


def _chosen(selection: Selection) -> Conditions:
    return [
        live(selection.now) if (name, *values) == ("status", "live") else _facet(name, selection.now).in_(values)
        for name, values in selection.values.items()
    ]


class _Unindexed(FunctionElement[str]):
    """A column of text, in a form for which SQLite uses no index; argument: the column."""

    type = Text()
    inherit_cache = True


@compiles(_Unindexed, "sqlite")
def _unindexed_in_sqlite(element: _Unindexed, compiler: SQLCompiler, **options: Any) -> str:
    return f"+{compiler.process(element.clauses, **options)}"


@compiles(_Unindexed, "postgresql")
def _unindexed_in_postgresql(element: _Unindexed, compiler: SQLCompiler, **options: Any) -> str:
    return compiler.process(element.clauses, **options)


class _Texts(TypeDecorator[list[str]]):
    """A list of texts as one parameter: JSON in SQLite, an array in PostgreSQL."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return the type of the parameter."""
        return dialect.type_descriptor(ARRAY(TEXT()) if dialect.name == "postgresql" else Text())

    def process_bind_param(self, value: list[str] | None, dialect: Dialect) -> Any:
        """Return the parameter."""
        return value if dialect.name == "postgresql" else json.dumps(value)


class _EachOf(FunctionElement[str]):
    """The rows of a parameter of `_Texts`."""

    inherit_cache = True


@compiles(_EachOf, "sqlite")
def _each_in_sqlite(element: _EachOf, compiler: SQLCompiler, **options: Any) -> str:
    return f"(SELECT value FROM json_each({compiler.process(element.clauses, **options)}))"  # noqa: S608 - compiled


@compiles(_EachOf)
def _each_in_postgresql(element: _EachOf, compiler: SQLCompiler, **options: Any) -> str:
    return f"(SELECT unnest({compiler.process(element.clauses, **options)}))"


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


class _Found(FunctionElement[Any]):
    """A value in a JSON object, or NULL if it has another type; arguments: the column and the key.

    True and false are 1 and 0, and null is 1, as is a missing value.
    """

    inherit_cache = False  # `kind` is no argument of the function

    def __init__(self, *arguments: Any, kind: str) -> None:
        super().__init__(*arguments)
        self.kind = kind
        self.type = TEXT() if kind == "text" else Double() if kind == "number" else BigInteger()


_IN_SQLITE: Final = {
    "text": "CASE json_type({at}) WHEN 'text' THEN json_extract({at}) END",
    "number": "CASE WHEN json_type({at}) IN ('integer', 'real') THEN json_extract({at}) END",
    "boolean": "CASE json_type({at}) WHEN 'true' THEN 1 WHEN 'false' THEN 0 END",
    "nothing": "CASE WHEN coalesce(json_type({at}), 'null') = 'null' THEN 1 END",
}
_IN_POSTGRESQL: Final = {
    "text": "CASE jsonb_typeof({at}) WHEN 'string' THEN ({at} #>> '{{}}') COLLATE \"C\" END",
    "number": "CASE jsonb_typeof({at}) WHEN 'number' THEN CAST({at} #>> '{{}}' AS numeric) END",
    "boolean": "CASE jsonb_typeof({at}) WHEN 'boolean' THEN CAST(CAST({at} #>> '{{}}' AS boolean) AS integer) END",
    "nothing": "CASE WHEN coalesce(jsonb_typeof({at}), 'null') = 'null' THEN 1 END",
}


@compiles(_Found, "sqlite")
def _found_in_sqlite(element: _Found, compiler: SQLCompiler, **options: Any) -> str:
    column, key = (compiler.process(argument, **options) for argument in element.clauses)
    readable = f"CASE WHEN json_valid({column}) THEN {column} ELSE '{{}}' END"
    return _IN_SQLITE[element.kind].format(at=f"{readable}, '$.\"' || {key} || '\"'")


@compiles(_Found, "postgresql")
def _found_in_postgresql(element: _Found, compiler: SQLCompiler, **options: Any) -> str:
    column, key = (compiler.process(argument, **options) for argument in element.clauses)
    return _IN_POSTGRESQL[element.kind].format(at=f"jsonb_extract_path(CAST({column} AS jsonb), {key})")


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
