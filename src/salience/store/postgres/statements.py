"""SQL statements for PostgreSQL alone, and the search keys and postings of memories.

A posting leads from a search key to a live memory. Postings are a table, not an index over an array in the row:
under row-level security, PostgreSQL uses an index only for "leakproof" operators, and those of arrays are not.

A search key is a hash of a tenant, a kind and a text. It includes the tenant, so that the postings of tenants are
separate in one index. Two texts share a key with a probability of 2^-64.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from hashlib import blake2b
from typing import Any, Final, Literal

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    CompoundSelect,
    Connection,
    Double,
    FromClause,
    Select,
    TextClause,
    and_,
    any_,
    cast,
    func,
    literal,
    literal_column,
    null,
    or_,
    select,
    table,
    text,
    true,
    tuple_,
    union,
    union_all,
)
from sqlalchemy.dialects.postgresql import ARRAY

from salience.records import ANY, NARROWING, Filter, Memory, Scope
from salience.store.schema import TEXT, PostgresVector, memories, postings, touches
from salience.store.statements import INDEXED, Conditions, accepted, visible
from salience.text import normalise

Ids = Select[Any] | CompoundSelect[Any]
"""A query for ids."""
_INDEXED = [memories.c[name] for name in INDEXED]


@dataclass(frozen=True, slots=True)
class VectorIndex:
    """Properties of the vector index; PostgreSQL uses it only for queries that order by its expression.

    Attributes:
        dimension: dimension of the vectors.
        is_half: whether the index holds `halfvec`.
        is_iterative: whether a search continues until it has found enough.
        exists: whether there is an index.
    """

    dimension: int
    is_half: bool = False
    is_iterative: bool = True
    exists: bool = True

    @property
    def type(self) -> PostgresVector:
        """The type of the indexed vectors."""
        return PostgresVector(self.dimension, self.is_half)


@dataclass(frozen=True, slots=True)
class Nearness:
    """Selection of the nearest memories.

    Attributes:
        count: maximum number.
        spoken: True for memories with a speaker, False for those without, None for all.
    """

    count: int
    spoken: bool | None = None


WHOLE_INDEX: Final = "ix_memories_hnsw"
"""Name of the vector index of `vector`."""
HALF_INDEX: Final = "ix_memories_hnsw_half"
"""Name of the vector index of `halfvec`."""


def vector_index() -> Select[Any]:
    """Return whether there is a vector index of `vector`, and of `halfvec`, and the version of pgvector."""
    version: Select[Any] = (
        select(literal_column("extversion")).select_from(table("pg_extension")).where(text("extname = 'vector'"))
    )
    there: list[ColumnElement[Any]] = [func.to_regclass(name).is_not(None) for name in (WHOLE_INDEX, HALF_INDEX)]
    return select(*there, version.scalar_subquery())


def at_least(scope: Scope, count: int, filter: Filter = Filter(), spoken: bool | None = None) -> Select[Any]:
    """Return the number of live visible memories that pass `filter` and `spoken`, counted up to `count`."""
    passing = (*_seen(scope), *_passing(scope, filter), *_spoken(spoken))
    some = select(literal(1)).select_from(memories).where(*passing)
    return select(func.count()).select_from(some.limit(count).subquery())


def live(scope: Scope) -> Select[Any]:
    """Return the columns `INDEXED` of the live visible memories."""
    return select(*_INDEXED).where(*visible(scope), memories.c.forgotten_at.is_(None))


def newer(scope: Scope, sequence: int) -> Select[Any]:
    """Return the columns `INDEXED` of the visible memories, forgotten ones too, that changed after a sequence."""
    changed = union(
        select(memories.c.id).where(memories.c.tenant == scope.tenant, memories.c.seq > sequence),
        select(touches.c.id).where(touches.c.tenant == scope.tenant, touches.c.seq > sequence),
    )
    return select(*_INDEXED).where(*visible(scope), memories.c.id.in_(changed))


def size(scope: Scope) -> Select[Any]:
    """Return the number of live visible memories, and of their terms."""
    total = func.coalesce(func.sum(memories.c.length), 0)
    columns: list[ColumnElement[Any]] = [func.count(), cast(total, BigInteger)]
    return select(*columns).where(*_seen(scope))


def wanted(scope: Scope, filter: Filter, count: int | None = None) -> Select[Any]:
    """Return the ids of up to `count` live visible memories that pass `filter`."""
    return select(memories.c.id).where(*_seen(scope), *_passing(scope, filter)).limit(count)


def latest(scope: Scope, filter: Filter, count: int) -> Select[Any]:
    """Return the ids of the newest live visible memories that pass `filter`."""
    passing = (*_seen(scope), *_passing(scope, filter))
    return select(memories.c.id).where(*passing).order_by(memories.c.created_at.desc()).limit(count)


def without_vector(scope: Scope, filter: Filter, count: int) -> Select[Any]:
    """Return the first ids of the live visible memories without a vector that pass `filter`."""
    pending = memories.c.vector.is_(None)
    return select(memories.c.id).where(*_seen(scope), *_passing(scope, filter), pending).order_by("id").limit(count)


def nearest(scope: Scope, filter: Filter, index: VectorIndex | None, vector: bytes, near: Nearness) -> Select[Any]:
    """Return the ids of the live visible memories nearest to a vector, with their cosines.

    With an index, the query orders by its expression; without one, by an expression that no index has.
    """
    type_ = PostgresVector() if index is None else index.type
    stored = memories.c.vector if index is None else cast(memories.c.vector, type_)
    sent = literal(vector, PostgresVector())

    distance = stored.op("<#>", return_type=Double)(sent if index is None else cast(sent, type_))
    conditions = [*_seen(scope), *_passing(scope, filter), *_spoken(near.spoken), memories.c.vector.is_not(None)]
    return select(memories.c.id, (-distance).label("cosine")).where(*conditions).order_by(distance).limit(near.count)


def holders(scope: Scope, keys: Sequence[int]) -> Select[Any]:
    """Return the number of live visible memories of each search key."""
    asked = func.unnest(literal(list(keys), ARRAY(BigInteger))).table_valued("key", name="asked").render_derived()
    held = select(func.count().label("df")).where(*posted(scope), postings.c.key == asked.c.key).lateral("held")
    return select(asked.c.key, held.c.df).select_from(asked.join(held, true()))


def held_ids(scope: Scope, filter: Filter, keys: Sequence[int], budget: int) -> CompoundSelect[Any]:
    """Return search keys with their numbers of holders, and the ids of holders that pass `filter`.

    The ids are of the holders of a key as long as they and those of all rarer keys are no more than `budget`.
    """
    asked = func.unnest(literal(list(keys), ARRAY(BigInteger))).table_valued("key", name="asked").render_derived()
    posted_under = (
        select(func.count().label("df"), func.array_agg(postings.c.number).label("numbers"))
        .where(*posted(scope), postings.c.key == asked.c.key)
        .lateral("posted")
    )
    total = func.sum(posted_under.c.df).over(order_by=(posted_under.c.df, asked.c.key), rows=(None, 0))
    held = (
        select(asked.c.key, posted_under.c.df, posted_under.c.numbers, total.label("total"))
        .select_from(asked.join(posted_under, true()))
        .cte("held")
    )
    numbers = select(func.unnest(held.c.numbers)).where(held.c.total <= budget)
    found = select(null(), null(), memories.c.id).where(
        *_seen(scope), *accepted(filter), memories.c.number.in_(numbers)
    )
    return union_all(select(held.c.key, held.c.df, cast(null(), TEXT())), found)


def some_held_ids(scope: Scope, filter: Filter, key: int, count: int) -> Select[Any]:
    """Return the ids of up to `count` live visible memories with a search key that pass `filter`."""
    held = select(postings.c.number).where(*posted(scope), postings.c.key == key)
    numbers = held.order_by(postings.c.number).limit(count)
    return select(memories.c.id).where(*_seen(scope), *accepted(filter), memories.c.number.in_(numbers))


def posted(scope: Scope) -> Conditions:
    """Return the conditions of `Scope.sees` on postings; coordinates are hashed, so that a few other rows may pass."""
    conditions: Conditions = [postings.c.tenant == scope.tenant]
    if scope.environment is not ANY:
        conditions.append(postings.c.environment == func.hashtext(scope.environment))
    for coordinate in NARROWING:
        asked = getattr(scope, coordinate)
        if asked is not ANY:
            column = postings.c[coordinate]
            is_none = column.is_(None)
            conditions.append(is_none if asked is None else or_(is_none, column == func.hashtext(asked)))
    return conditions


def beside(scope: Scope, ids: Sequence[str], now: int, reach: int) -> Select[Any]:
    """Return the ids of the memories up to `reach` places from these in their sessions, with the least distances.

    They are live, visible, and not expired at `now`.
    """
    here = memories.alias("here")
    places = [
        _stretch(scope, here, now, reach, forward).lateral("after" if forward else "before")
        for forward in (True, False)
    ]
    near = [
        select(place.c.id, place.c.step)
        .select_from(here.join(place, true()))
        .where(here.c.tenant == scope.tenant, _among(here.c.id, ids), here.c.session_id.is_not(None))
        for place in places
    ]
    both = union_all(*near).subquery("near")
    return select(both.c.id, func.min(both.c.step)).group_by(both.c.id)


def _stretch(scope: Scope, here: FromClause, now: int, reach: int, forward: bool) -> Select[Any]:
    """Return the ids of the memories after or before `here` in its session, with their distances."""
    order = [memories.c[name] for name in ("created_at", "turn", "id")]
    start = tuple_(*(here.c[name] for name in ("created_at", "turn", "id")))
    line = tuple_(*order)
    sorting = order if forward else [column.desc() for column in order]
    step = func.row_number().over(order_by=sorting)
    same = (
        memories.c.session_id == here.c.session_id,
        memories.c.environment == here.c.environment,
        memories.c.user_id.is_not_distinct_from(here.c.user_id),
        or_(memories.c.expires_at.is_(None), memories.c.expires_at > now),
    )
    side = line > start if forward else line < start
    return select(memories.c.id, step.label("step")).where(*_seen(scope), *same, side).order_by(*sorting).limit(reach)


def heirs(scope: Scope, ids: Sequence[str]) -> Ids:
    """Return the ids of the live visible memories that supersede these, or state the same facts."""
    old, new = memories.alias("old"), memories.alias("new")
    mine = (old.c.tenant == scope.tenant, _among(old.c.id, ids))
    seen = (*visible(scope, new), new.c.forgotten_at.is_(None))
    same = (new.c.fact_key == old.c.fact_key, new.c.user_id.is_not_distinct_from(old.c.user_id))
    return union(
        select(new.c.id).where(*seen, _among(new.c.supersedes, ids)),
        select(new.c.id).select_from(old.join(new, and_(*same))).where(*mine, *seen),
    )


def replaced(scope: Scope, ids: Sequence[str]) -> Select[Any]:
    """Return the ids that these memories supersede."""
    named = (memories.c.tenant == scope.tenant, _among(memories.c.id, ids))
    return select(memories.c.supersedes).where(*named, memories.c.supersedes.is_not(None))


def rows_of(scope: Scope, ids: Sequence[str]) -> Select[Any]:
    """Return the columns `INDEXED` of the live memories of these ids."""
    named = (memories.c.tenant == scope.tenant, _among(memories.c.id, ids))
    return select(*_INDEXED).where(*named, memories.c.forgotten_at.is_(None))


def all_speakers(scope: Scope) -> Select[Any]:
    """Return all speakers of the tenant, sorted; the recursion skips from name to name in the index."""
    least = func.min(memories.c.speaker).label("name")
    named = select(least).where(memories.c.tenant == scope.tenant).cte("named", recursive=True)
    last = named.alias("last")
    next_one = select(least).where(memories.c.tenant == scope.tenant, memories.c.speaker > last.c.name)
    named = named.union_all(select(next_one.scalar_subquery()).where(last.c.name.is_not(None)))
    return select(named.c.name).where(named.c.name.is_not(None))


def has_memory_of(scope: Scope, name: str) -> Select[Any]:
    """Return one row if a live visible memory is by the speaker."""
    return select(literal(1)).where(*_seen(scope), memories.c.speaker == name).limit(1)


def _seen(scope: Scope) -> Conditions:
    return [*visible(scope), memories.c.forgotten_at.is_(None)]


def _spoken(spoken: bool | None) -> Conditions:
    if spoken is None:
        return []
    return [memories.c.speaker.is_not(None) if spoken else memories.c.speaker.is_(None)]


def _among(column: ColumnElement[Any], values: Sequence[str]) -> ColumnElement[bool]:
    """Return the condition that a column is one of the values, as one parameter."""
    return column == any_(literal(list(values), ARRAY(TEXT())))


def _passing(scope: Scope, filter: Filter) -> Conditions:
    """Return the conditions of `filter`, and conditions on search keys that use the postings."""
    of = partial(search_keys, scope.tenant)
    held: list[Sequence[int]] = [[tag] for tag in of("tag", filter.tags)]
    held += [of("kind", filter.kinds), of("session", filter.sessions)]
    return [*accepted(filter), *(_holding(scope, keys) for keys in held if keys)]


def _holding(scope: Scope, keys: Sequence[int]) -> ColumnElement[bool]:
    """Return the condition that a memory has one of the search keys."""
    found = select(postings.c.number).where(postings.c.tenant == scope.tenant, postings.c.key.in_(keys))
    return memories.c.number.in_(found)


Kind = Literal["term", "tag", "entity", "kind", "session", "id"]


_json: Final = json.JSONEncoder(ensure_ascii=False).encode


def key(tenant: str, kind: Kind, text: str) -> int:
    """Return the search key of a text, in [-2^63, 2^63)."""
    data = _json([tenant, kind, text]).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big", signed=True)


def search_keys(tenant: str, kind: Kind, texts: Iterable[str]) -> list[int]:
    """Return the search keys of texts, in order."""
    return [key(tenant, kind, text) for text in texts]


def indexed(memory: Memory, terms: Sequence[str]) -> dict[str, Any]:
    """Return the search columns of a memory: its search keys, its number in the postings, and its length in terms."""
    tenant = memory.scope.tenant
    return {"search_keys": memory_keys(memory, terms), "number": number(tenant, memory.id), "length": len(terms)}


def number(tenant: str, id: str) -> int:
    """Return the number of a memory in the postings, in [-2^63, 2^63)."""
    return key(tenant, "id", id)


def memory_keys(memory: Memory, terms: Sequence[str]) -> list[int]:
    """Return the distinct search keys of a memory's terms, tags, entities, kind and session, ascending."""
    tenant, session = memory.scope.tenant, memory.scope.session_id
    found = {
        *search_keys(tenant, "term", set(terms)),
        *search_keys(tenant, "tag", memory.tags),
        *search_keys(tenant, "entity", map(normalise, memory.entities)),
        key(tenant, "kind", memory.kind),
        *(() if session is None else (key(tenant, "session", session),)),
    }
    return sorted(found)


Posted = frozenset[tuple[int, int]]
"""Pairs of a search key and the number of a memory."""
_POST: Final = (
    "INSERT INTO postings (tenant, key, number, environment, project, user_id, agent_id) "
    "SELECT m.tenant, k.key, m.number, hashtext(m.environment), hashtext(m.project), hashtext(m.user_id), "
    "hashtext(m.agent_id) FROM memories AS m, unnest(m.search_keys) AS k (key) "
    "WHERE m.tenant = :tenant AND m.forgotten_at IS NULL{some} ON CONFLICT (tenant, key, number) DO NOTHING"
)


def due_postings(connection: Connection, tenant: str, ids: Iterable[str]) -> Posted:
    """Return the postings of the live memories among `ids`, according to their rows."""
    rows = connection.execute(_keys(), {"tenant": tenant, "ids": sorted(ids)})
    return frozenset((key, row.number) for row in rows for key in row.search_keys or ())


def repost(connection: Connection, tenant: str, ids: Iterable[str], before: Posted) -> None:
    """Update the postings of changed memories; `before` are their postings before the change."""
    if gone := before - due_postings(connection, tenant, ids) if before else frozenset():
        keys, numbers = zip(*sorted(gone), strict=True)
        connection.execute(_unpost(), {"tenant": tenant, "keys": list(keys), "numbers": list(numbers)})
    connection.execute(_post(), {"tenant": tenant, "ids": sorted(ids)})


def post_all(connection: Connection, tenant: str) -> None:
    """Add the missing postings of a tenant."""
    connection.execute(text(_POST.format(some="")), {"tenant": tenant})


@cache
def _keys() -> TextClause:
    return text(
        "SELECT number, search_keys FROM memories "
        "WHERE tenant = :tenant AND id = ANY(CAST(:ids AS text[])) AND forgotten_at IS NULL"
    )


@cache
def _post() -> TextClause:
    return text(_POST.format(some=" AND m.id = ANY(CAST(:ids AS text[]))"))


@cache
def _unpost() -> TextClause:
    return text(
        "DELETE FROM postings AS p "
        "USING unnest(CAST(:keys AS bigint[]), CAST(:numbers AS bigint[])) AS gone (key, number) "
        "WHERE p.tenant = :tenant AND p.key = gone.key AND p.number = gone.number"
    )
