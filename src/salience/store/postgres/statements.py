"""SQL for PostgreSQL alone, and the search keys and postings of memories.

A posting leads from a search key to a live memory. Postings are a table, not an index over an array in the row:
under row-level security, PostgreSQL uses an index only for "leakproof" operators, and those of arrays are not.

A search key is a hash of a tenant, a kind and a text; a memory also has the numbers of those that it replaces as keys.
It includes the tenant, so that the postings of tenants are
separate in one index. Two texts share a key with a probability of 2^-64. The coordinates of a posting are such hashes
too. All are BLAKE2b, computed here: PostgreSQL may change its own hash functions between major versions.

Functions return queries unless their docstring says otherwise. `Ids` are ids, or the query for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cache, reduce
from hashlib import blake2b
from json.encoder import encode_basestring
from typing import Any, Final, Literal

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    CompoundSelect,
    Connection,
    Double,
    FromClause,
    Select,
    Table,
    all_,
    and_,
    any_,
    bindparam,
    cast,
    column,
    func,
    insert,
    literal,
    null,
    or_,
    select,
    text,
    true,
    tuple_,
    union,
    union_all,
)
from sqlalchemy.dialects.postgresql import ARRAY, psycopg

from salience.records import ANY, NARROWING, Filter, Memory, Scope
from salience.store.postgres.connection import Numbered
from salience.store.schema import TEXT, PostgresVector, memories, postings, touches
from salience.store.statements import INDEXED, Conditions, Free, accepted, as_parameters, bound, chunks, visible
from salience.text import normalise

Query = Select[Any] | CompoundSelect[Any]
Ids = Set[str] | Sequence[str] | Query
Kind = Literal["term", "tag", "entity", "kind", "session", "id", "environment", "project", "user_id", "agent_id"]
COORDINATES: Final[tuple[Kind, ...]] = ("environment", "project", "user_id", "agent_id")
"""Coordinates of a scope whose hashes a posting has."""
_INDEXED: Final = [memories.c[name] for name in INDEXED]
PAGE: Final = 2_000
"""Rows read at a time by checks and repairs."""
PAIRS: Final = 100_000
"""Postings deleted by a statement, so that a large change meets no statement time-out."""
ROWS: Final = 64
"""Maximum rows inserted by a statement; a power of two."""
_DIALECT: Final = psycopg.dialect()  # type: ignore[no-untyped-call]
_PARAMETER: Final = re.compile(r"%\((\w+)\)s")
SCAN: Final = 20_000
"""Maximum number of postings to count in a search for memories that match several keys."""
POOL: Final = 4
"""Memories to compare by their vectors, for each one that such a search returns."""
FEW_CHANGES: Final = 50
"""Changed memories that come with a tenant's state; more of them need a query of their own."""
STATE: Final = text(
    "SELECT (SELECT json_object_agg(name, value) FROM meta) AS meta, coalesce(max(sequence), 0) AS sequence, "
    "coalesce(max(epoch || ' ' || extract(epoch FROM pg_postmaster_start_time())), '') AS epoch, "
    "EXISTS (SELECT 1 FROM memories WHERE tenant = :tenant AND vector IS NULL) AS has_pending "
    "FROM tenants WHERE tenant = :tenant"
).columns(*map(column, ("meta", "sequence", "epoch", "has_pending")))
"""The store's meta, and the state of a tenant's rows.

The epoch includes the start of the server, since a restored server may reuse sequence numbers.
"""
_PLACE: Final = ("created_at", "turn", "id")
"""Order of the memories of a session."""


def live(scope: Scope, table: FromClause = memories) -> Conditions:
    """Return the conditions for the live visible memories."""
    return [*visible(scope, table), table.c.forgotten_at.is_(None)]


def passing(scope: Scope, filter: Filter = Filter(), spoken: bool | None = None) -> Select[Any]:
    """Return the ids of the live visible memories that pass a filter, with (True) or without (False) a speaker."""
    conditions = [*live(scope), *accepted(filter)]
    wanted = [*(search_keys(scope.tenant, "tag", [tag]) for tag in filter.tags)]
    wanted += [search_keys(scope.tenant, "kind", filter.kinds), search_keys(scope.tenant, "session", filter.sessions)]
    for keys in wanted:
        if keys:  # the postings find them faster than the row's own columns
            held = select(postings.c.number).where(postings.c.tenant == scope.tenant, postings.c.key.in_(keys))
            conditions.append(memories.c.number.in_(held))
    if spoken is not None:
        conditions.append(memories.c.speaker.is_not(None) if spoken else memories.c.speaker.is_(None))
    return select(memories.c.id).where(*conditions)


def latest(scope: Scope, filter: Filter, count: int) -> Select[Any]:
    """Return the ids of the newest live visible memories that pass a filter."""
    return passing(scope, filter).order_by(memories.c.created_at.desc()).limit(count)


def stating(scope: Scope, filter: Filter, start: int | None, end: int | None, count: int) -> Select[Any]:
    """Return the ids of live visible memories that pass a filter and state a time in a window, latest first.

    `start` and `end` are in microseconds; None is open.
    """
    begin, until = memories.c.event_start, memories.c.event_end
    ids = passing(scope, filter).where(begin.is_not(None))
    if end is not None:
        ids = ids.where(begin < end)
    if start is not None:
        ids = ids.where(until > start)
    return ids.order_by(begin.desc()).limit(count)


def counted(ids: Select[Any], most: int) -> Select[Any]:
    """Return the number of rows of a query, up to `most`."""
    return select(func.count()).select_from(ids.limit(most).subquery())


def all_rows(scope: Scope) -> Select[Any]:
    """Return the columns `INDEXED` of the live visible memories."""
    return select(*_INDEXED).where(*live(scope))


def size(scope: Scope) -> Select[Any]:
    """Return the number of live visible memories, and of their terms."""
    terms = cast(func.coalesce(func.sum(memories.c.length), 0), BigInteger)
    columns: list[ColumnElement[Any]] = [func.count(), terms]  # all that an index has to hold is the length
    return select(*columns).where(*live(scope))


def newer(scope: Scope, sequence: int) -> tuple[Select[Any], dict[str, Any]]:
    """Return the query for the columns `INDEXED` of visible memories that changed after a sequence, with its values.

    They include forgotten ones.
    """
    values, free = bound(scope)
    return _newer(free), {**values, "sequence": sequence}


def state_and_newer(scope: Scope, sequence: int) -> tuple[Select[Any], dict[str, Any]]:
    """Return the query for the columns of `STATE` and those of `newer`, with its values.

    Its rows are up to `FEW_CHANGES` + 1 of the changed memories, each with the state; or a single one with the state.
    """
    values, free = bound(scope)
    return _state_and_newer(free), {**values, "sequence": sequence}


@cache
def _newer(free: Free) -> Select[Any]:
    """Return the query of `newer`. It finds ids first: a join would be planned as a scan of the whole tenant."""
    tenant: BindParameter[str] = bindparam("tenant")
    last = bindparam("sequence", type_=BigInteger)
    changed = union(
        select(memories.c.id).where(memories.c.tenant == tenant, memories.c.seq > last),
        select(touches.c.id).where(touches.c.tenant == tenant, touches.c.seq > last),
    )
    return select(*_INDEXED).where(*visible(as_parameters(free)), _among(memories.c.id, changed))


@cache
def _state_and_newer(free: Free) -> Select[Any]:
    state, rows = STATE.subquery("state"), _newer(free).limit(FEW_CHANGES + 1).subquery("newer")
    return select(state, rows).select_from(state.outerjoin(rows, true()))


def rows_of(scope: Scope, *ids: Ids) -> Select[Any]:
    """Return the columns `INDEXED` of the live memories of some ids."""
    found = reduce(lambda one, other: one.op("||")(other), map(_array, ids))
    return select(*_INDEXED).where(
        memories.c.tenant == scope.tenant, memories.c.id == any_(found), memories.c.forgotten_at.is_(None)
    )


def nearest(
    scope: Scope, filter: Filter, vector: bytes, count: int, spoken: bool | None, indexed_as: PostgresVector | None
) -> Select[Any]:
    """Return the ids of the live visible memories nearest to a vector, with their cosines.

    With the type of the index, the query orders by the index's expression; without, by one that no index has.
    """
    stored, sent = memories.c.vector, literal(vector, PostgresVector())
    if indexed_as is None:
        distance = stored.op("<#>", return_type=Double)(sent)
    else:
        distance = cast(stored, indexed_as).op("<#>", return_type=Double)(cast(sent, indexed_as))
    ids = passing(scope, filter, spoken).where(stored.is_not(None))
    return ids.add_columns((-distance).label("cosine")).order_by(distance).limit(count)


def frequencies(scope: Scope, keys: Sequence[int]) -> Select[Any]:
    """Return search keys with their numbers of live visible memories."""
    requested = _requested(keys)
    held = select(func.count().label("df")).where(*_posted(scope), postings.c.key == requested.c.key).lateral("held")
    return select(requested.c.key, held.c.df).select_from(requested.join(held, true()))


def holders(
    scope: Scope,
    filter: Filter,
    keys: Sequence[int],
    vector: bytes | None,
    documents: int,
    count: int,
    near: Ids,
    more: Sequence[Select[Any]] = (),
) -> Query | None:
    """Return rows of key, number of memories with it, and id: of each search key the first two, of memories the id.

    The ids are of the `count` memories that pass `filter`, are not among `near`, and fit best: by their share of the
    keys, where a key that df of N `documents` have weighs ln(1 + N / df), plus their cosine to `vector`. Only the
    `POOL` x `count` best by keys are compared with the vector. Only the rarest keys count, which have up to `SCAN`
    postings in total, or the first `SCAN` postings of the rarest key: all other memories can match only more frequent
    keys, the idea of MaxScore (Turtle and Flood, Query Evaluation: Strategies and Optimizations, 1995).

    The ids of the queries `more` are added. Returns None if there are neither keys nor such queries.
    """
    found = [select(null(), null(), ids.subquery().c.id) for ids in more]
    if keys:
        requested = _requested(keys)
        numbers = func.array_agg(postings.c.number, type_=ARRAY(BigInteger))
        posted = (
            select(func.count().label("df"), numbers.label("numbers"))
            .where(*_posted(scope), postings.c.key == requested.c.key)
            .lateral("posted")
        )
        total = func.sum(posted.c.df).over(order_by=(posted.c.df, requested.c.key), rows=(None, 0))
        weight = func.ln(1 + documents / cast(func.nullif(posted.c.df, 0), Double))
        held = (
            select(requested.c.key, *posted.c, total.label("total"), (weight / func.sum(weight).over()).label("share"))
            .select_from(requested.join(posted, true()))
            .cte("held")
        )
        # of the rarest key, the total is its own number, since all keys before it are of no memory
        within = or_(held.c.total <= SCAN, held.c.total == held.c.df)
        each = select(func.unnest(held.c.numbers[1:SCAN]).label("number"), held.c.share).where(within).subquery("each")
        share, passing = func.sum(each.c.share).label("share"), [*live(scope), *accepted(filter)]
        pool: Select[Any] = select(each.c.number, share).group_by(each.c.number).order_by(share.desc(), each.c.number)
        if filter != Filter():
            pool = pool.join(memories, memories.c.number == each.c.number).where(*passing)
        matching = pool.limit(POOL * count).subquery("matching")
        sent = literal(vector, PostgresVector())
        fit = matching.c.share - func.coalesce(memories.c.vector.op("<#>", return_type=Double)(sent), 0.0)
        best = select(memories.c.id).join(matching, memories.c.number == matching.c.number)
        best = best.where(*passing, memories.c.id != all_(_array(near))).order_by(fit.desc(), memories.c.id)
        counts = select(held.c.key, held.c.df, cast(null(), TEXT()))
        found = [counts, select(null(), null(), best.limit(count).subquery("best").c.id), *found]
    return union_all(*found) if found else None


def _requested(keys: Sequence[int]) -> Any:
    return func.unnest(literal(list(keys), ARRAY(BigInteger))).table_valued("key", name="asked").render_derived()


def _posted(scope: Scope) -> Conditions:
    """Return the conditions of `Scope.sees` on postings; coordinates are hashed, so that a few other rows may pass."""
    conditions: Conditions = [postings.c.tenant == scope.tenant]
    if scope.environment is not ANY:
        conditions.append(postings.c.environment == _coordinate_key(scope, "environment"))
    for coordinate in NARROWING:
        value, column = getattr(scope, coordinate), postings.c[coordinate]
        if value is not ANY:
            is_none = column.is_(None)
            conditions.append(is_none if value is None else or_(is_none, column == _coordinate_key(scope, coordinate)))
    return conditions


def around(scope: Scope, ids: Ids, *, heirs: bool, reach: int, now: int) -> Select[Any]:
    """Return memories, their heirs, and their neighbours in sessions: id, and distance in places.

    Args:
        scope: the scope.
        ids: of the memories; their distance is 0.
        heirs: whether to follow heirs, which take the place of a memory, to the last one; their distance is 0.
        reach: maximum distance of a neighbour; 0 for no neighbours.
        now: instant at which the neighbours have not expired, microseconds.
    """
    named = (memories.c.tenant == scope.tenant, _among(memories.c.id, ids))
    chosen = select(memories.c.id).where(*named).cte("chosen", recursive=heirs)
    if heirs:
        last = chosen.alias("last")
        heir = heirs_of(scope, last.c.id).lateral("heir")
        chosen = chosen.union(select(heir.c.id).select_from(last.join(heir, true())))
    found = select(chosen.c.id, literal(0).label("step"))
    if not reach:
        return found
    near = union_all(found, beside(scope, select(chosen.c.id), now, reach)).subquery("near")
    return select(near.c.id, near.c.step)


def beside(scope: Scope, ids: Ids, now: int, reach: int) -> Select[Any]:
    """Return the ids of the memories up to `reach` places from these in their sessions, with the least distances.

    They are live, visible, and not expired at `now`.
    """
    here = memories.alias("here")
    order, start = [memories.c[name] for name in _PLACE], tuple_(*(here.c[name] for name in _PLACE))
    near = []
    for name, side, sorting in (
        ("after", tuple_(*order) > start, order),
        ("before", tuple_(*order) < start, [each.desc() for each in order]),
    ):
        same = (
            memories.c.session_id == here.c.session_id,
            memories.c.environment == here.c.environment,
            memories.c.user_id.is_not_distinct_from(here.c.user_id),
            or_(memories.c.expires_at.is_(None), memories.c.expires_at > now),
        )
        step = func.row_number().over(order_by=sorting).label("step")
        place = (
            select(memories.c.id, step).where(*live(scope), *same, side).order_by(*sorting).limit(reach).lateral(name)
        )
        from_here = (here.c.tenant == scope.tenant, _among(here.c.id, ids), here.c.session_id.is_not(None))
        near.append(select(place.c.id, place.c.step).select_from(here.join(place, true())).where(*from_here))
    both = union_all(*near).subquery("both")
    return select(both.c.id, func.min(both.c.step).label("step")).group_by(both.c.id)


def heirs_of(scope: Scope, ids: Ids | ColumnElement[str]) -> CompoundSelect[Any]:
    """Return the ids of the live visible memories that replace these, or state the same facts."""
    old, new, posted = memories.alias("old"), memories.alias("new"), postings.alias("posted")
    seen, given = live(scope, new), (old.c.tenant == scope.tenant, _among(old.c.id, ids))
    same = (new.c.fact_key == old.c.fact_key, new.c.user_id.is_not_distinct_from(old.c.user_id))
    by_key = and_(posted.c.tenant == scope.tenant, posted.c.key == old.c.number)
    replacing = old.join(posted, by_key).join(new, new.c.number == posted.c.number)
    return union_all(
        select(new.c.id).select_from(replacing).where(*given, *seen),
        select(new.c.id).select_from(old.join(new, and_(*same))).where(*given, *seen),
    )


def replaced(scope: Scope, ids: Ids) -> Select[Any]:
    """Return the ids that these memories supersede."""
    named = (memories.c.tenant == scope.tenant, _among(memories.c.id, ids))
    return select(memories.c.supersedes).where(*named, memories.c.supersedes.is_not(None))


def all_speakers(scope: Scope) -> Select[Any]:
    """Return all speakers of the tenant, sorted; the recursion skips from name to name in the index."""
    least = func.min(memories.c.speaker).label("name")
    named = select(least).where(memories.c.tenant == scope.tenant).cte("named", recursive=True)
    last = named.alias("last")
    next_one = select(least).where(memories.c.tenant == scope.tenant, memories.c.speaker > last.c.name)
    named = named.union_all(select(next_one.scalar_subquery()).where(last.c.name.is_not(None)))
    return select(named.c.name).where(named.c.name.is_not(None))


def speakers_of(scope: Scope, names: Sequence[str]) -> Select[Any]:
    """Return the speakers among `names` that a live visible memory has."""
    each = func.unnest(literal(list(names), ARRAY(TEXT()))).table_valued("name", name="each").render_derived()
    one = select(literal(1)).where(*live(scope), memories.c.speaker == each.c.name).limit(1).lateral("one")
    return select(each.c.name).select_from(each.join(one, true()))


def sessions_of(scope: Scope) -> Select[Any]:
    """Return the session and the first and last `created_at` of the live visible memories of each session."""
    home = (memories.c.environment, memories.c.user_id, memories.c.session_id)
    made = memories.c.created_at
    held = select(memories.c.session_id, func.min(made), func.max(made)).where(*live(scope))
    return held.where(memories.c.session_id.is_not(None)).group_by(*home)


def _array(ids: Ids) -> ColumnElement[Any]:
    if isinstance(ids, Select | CompoundSelect):
        return func.array(ids.scalar_subquery(), type_=ARRAY(TEXT()))
    return literal(list(ids), ARRAY(TEXT()))


def _among(column: ColumnElement[Any], ids: Ids | ColumnElement[str]) -> ColumnElement[bool]:
    """Return the condition that a column is one of some ids; they are one parameter, or found first by their query."""
    return column == (ids if isinstance(ids, ColumnElement) else any_(_array(ids)))


def search_keys(tenant: str, kind: Kind, texts: Iterable[str]) -> list[int]:
    """Return the search keys of texts, in order, in [-2^63, 2^63): hashes of the JSON list of the three texts."""
    start = f"[{encode_basestring(tenant)}, {encode_basestring(kind)}, "
    lists = (f"{start}{encode_basestring(text)}]".encode("utf-8", "surrogatepass") for text in texts)
    return [int.from_bytes(blake2b(one, digest_size=8).digest(), "big", signed=True) for one in lists]


def search_columns(memory: Memory, terms: Sequence[str]) -> dict[str, Any]:
    """Return the search columns of a memory: its search keys, its number in the postings, and its length in terms."""
    texts: dict[Kind, Iterable[str]] = {
        "term": set(terms),
        "tag": memory.tags,
        "entity": map(normalise, memory.entities),
        "kind": [memory.kind],
        "session": [] if memory.scope.session_id is None else [memory.scope.session_id],
        "id": [one.id for one in memory.relations or () if one.kind == "replaces"],  # the numbers of replaced memories
    }
    keys = {key for kind, each in texts.items() for key in search_keys(memory.scope.tenant, kind, each)}
    (number,) = search_keys(memory.scope.tenant, "id", [memory.id])
    return {"search_keys": sorted(keys), "number": number, "length": len(terms)}


def coordinate_keys(scope: Scope) -> list[int | None]:
    """Return the hashes of the `COORDINATES` of a memory's scope, in order; None for those without a value."""
    return [None if getattr(scope, name) is None else _coordinate_key(scope, name) for name in COORDINATES]


def _coordinate_key(scope: Scope, name: Any) -> int:
    return search_keys(scope.tenant, name, [getattr(scope, name)])[0]


def insert_rows(connection: Connection, table: Table, values: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows of the same columns, up to `ROWS` by a statement.

    A cluster routes each statement by itself. The statements have few sizes, so that the driver prepares them.
    """
    columns, start, count = tuple(values[0]), 0, ROWS
    while left := len(values) - start:
        while count > left:
            count //= 2
        statement, processors = _insertion(table, columns, count)
        page = values[start : start + count]
        start += count
        parameters = (row[name] if to is None else to(row[name]) for row in page for name, to in processors)
        connection.exec_driver_sql(statement, tuple(parameters))


@cache
def _insertion(table: Table, columns: Sequence[str], count: int) -> tuple[Numbered, list[tuple[str, Any]]]:
    """Return the statement that inserts so many rows, and the columns in the order of its parameters.

    Each column has a function from the value to the parameter; None for the value itself.
    """
    compiled = str(insert(table).compile(dialect=_DIALECT, column_keys=columns))
    head, _, row = compiled.partition(" VALUES ")
    names = _PARAMETER.findall(row)
    numbered, width = _PARAMETER.sub("$%d", row), len(names)
    rows = (numbered % tuple(range(first + 1, first + width + 1)) for first in range(0, count * width, width))
    processors = [(name, table.c[name].type.dialect_impl(_DIALECT).bind_processor(_DIALECT)) for name in names]
    return Numbered(f"{head} VALUES {', '.join(rows)}"), processors


_POSTED: Final = """
    SELECT m.id, m.number, m.search_keys, m.environment, m.project, m.user_id, m.agent_id FROM memories AS m
    WHERE m.tenant = %(tenant)s AND m.id = ANY(%(ids)s) AND m.forgotten_at IS NULL"""
_UNPOST: Final = """
    DELETE FROM postings AS p USING unnest(%(keys)s::bigint[], %(numbers)s::bigint[]) AS gone (key, number)
    WHERE p.tenant = %(tenant)s AND p.key = gone.key AND p.number = gone.number AND NOT EXISTS (
        SELECT 1 FROM memories AS m WHERE m.tenant = %(tenant)s AND m.number = p.number AND m.forgotten_at IS NULL
        AND p.key = ANY (m.search_keys))"""
_POST: Final = """
    INSERT INTO postings (tenant, key, number, environment, project, user_id, agent_id)
    SELECT m.tenant, k.key, m.number, s.environment, s.project, s.user_id, s.agent_id
    FROM memories AS m JOIN unnest(%(ids)s::text[], %(environment)s::bigint[], %(project)s::bigint[],
        %(user_id)s::bigint[], %(agent_id)s::bigint[]) AS s (id, environment, project, user_id, agent_id)
    ON s.id = m.id, unnest(m.search_keys) AS k (key) WHERE m.tenant = %(tenant)s AND m.forgotten_at IS NULL
    ON CONFLICT (tenant, key, number) DO NOTHING"""


@dataclass(slots=True)
class Posted:
    """The postings of memories: search keys and numbers of the memories, in pairs; and id -> scope."""

    keys: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    scopes: dict[str, Scope] = field(default_factory=dict)


def read_postings(connection: Connection, tenant: str, ids: Iterable[str]) -> Posted:
    """Return the postings of the live memories among `ids`, according to their rows."""
    found = Posted()
    for row in connection.exec_driver_sql(_POSTED, {"tenant": tenant, "ids": sorted(ids)}):
        keys = row.search_keys or ()
        found.keys += keys
        found.numbers += [row.number] * len(keys)
        found.scopes[row.id] = Scope(tenant, **{name: getattr(row, name) for name in COORDINATES})
    return found


def update_postings(connection: Connection, tenant: str, scopes: Mapping[str, Scope], before: Posted) -> None:
    """Update the postings of changed memories: `scopes` maps their ids to their scopes, `before` are the old ones."""
    for start in range(0, len(before.keys), PAIRS):
        part = {"keys": before.keys[start : start + PAIRS], "numbers": before.numbers[start : start + PAIRS]}
        connection.exec_driver_sql(_UNPOST, {"tenant": tenant, **part})
    all_scopes = {**before.scopes, **scopes}
    keys = {scope: coordinate_keys(scope) for scope in set(all_scopes.values())}
    for ids in chunks(all_scopes):
        values: dict[str, Any] = {"tenant": tenant, "ids": ids}
        for place, name in enumerate(COORDINATES):
            values[name] = [keys[all_scopes[id_]][place] for id_ in ids]
        connection.exec_driver_sql(_POST, values)


def add_postings(connection: Connection, tenant: str) -> None:
    """Add the missing postings of a tenant's live memories."""
    last: str | None = ""
    while last is not None:
        page = select(memories.c.id).where(memories.c.tenant == tenant, memories.c.id > last)
        ids = connection.execute(page.order_by(memories.c.id).limit(PAGE)).scalars().all()
        update_postings(connection, tenant, read_postings(connection, tenant, ids).scopes, Posted())
        last = ids[-1] if ids else None
