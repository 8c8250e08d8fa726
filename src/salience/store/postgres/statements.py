"""Statements for PostgreSQL alone, and the keys and postings by which words, tags and names find memories.

A posting says that a search key leads to a live memory. Postings are a table, not an index over a list in the row,
since PostgreSQL uses no such index while row-level security stands before the rows: the operators of lists are not
"leakproof", those of numbers are.

A search key is a number for a tenant, a kind and a text. The tenant is part of the number, so that the postings of
tenants lie apart in one index. Two texts share a number by a chance of 2^-64.
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
"""A statement that returns ids."""
_INDEXED = [memories.c[name] for name in INDEXED]


@dataclass(frozen=True, slots=True)
class VectorIndex:
    """What the vector index is made of: as `vector` or as `halfvec`, and of how many dimensions.

    A statement that orders by another expression is answered without the index.

    Attributes:
        dimension, is_half: of what it holds.
        goes_on: whether a search in it goes on until it found as many as asked for.
        exists: whether there is one.
    """

    dimension: int
    is_half: bool = False
    goes_on: bool = True
    exists: bool = True

    @property
    def type(self) -> PostgresVector:
        """The type that it casts vectors to."""
        return PostgresVector(self.dimension, self.is_half)


@dataclass(frozen=True, slots=True)
class Nearness:
    """Which of the nearest are asked for.

    Attributes:
        count: how many.
        spoken: True for memories that somebody said alone, False for the others alone, None for all.
    """

    count: int
    spoken: bool | None = None


WHOLE_INDEX: Final = "ix_memories_hnsw"
"""Name of the vector index, where it holds vectors as `vector`."""
HALF_INDEX: Final = "ix_memories_hnsw_half"
"""Name of the vector index, where it holds vectors as `halfvec`."""


def vector_index() -> Select[Any]:
    """Return whether there is a vector index of `vector`, and of `halfvec`, and the version of pgvector."""
    version: Select[Any] = (
        select(literal_column("extversion")).select_from(table("pg_extension")).where(text("extname = 'vector'"))
    )
    there: list[ColumnElement[Any]] = [func.to_regclass(name).is_not(None) for name in (WHOLE_INDEX, HALF_INDEX)]
    return select(*there, version.scalar_subquery())


def at_least(scope: Scope, count: int, filter: Filter = Filter(), spoken: bool | None = None) -> Select[Any]:
    """Return how many live memories visible in `scope` pass `filter`, counted no further than `count`.

    Those that somebody said alone, or the others, if `spoken` is given.
    """
    passing = (*_seen(scope), *_passing(scope, filter), *_spoken(spoken))
    some = select(literal(1)).select_from(memories).where(*passing)
    return select(func.count()).select_from(some.limit(count).subquery())


def live(scope: Scope) -> Select[Any]:
    """Return the arena's columns of the live memories visible in `scope`."""
    return select(*_INDEXED).where(*visible(scope), memories.c.forgotten_at.is_(None))


def newer(scope: Scope, sequence: int) -> Select[Any]:
    """Return the arena's columns of the memories visible in `scope`, forgotten ones too, that changed since."""
    changed = union(
        select(memories.c.id).where(memories.c.tenant == scope.tenant, memories.c.seq > sequence),
        select(touches.c.id).where(touches.c.tenant == scope.tenant, touches.c.seq > sequence),
    )
    return select(*_INDEXED).where(*visible(scope), memories.c.id.in_(changed))


def size(scope: Scope) -> Select[Any]:
    """Return how many live memories are visible in `scope`, and how many terms they have together."""
    total = func.coalesce(func.sum(memories.c.length), 0)
    columns: list[ColumnElement[Any]] = [func.count(), cast(total, BigInteger)]
    return select(*columns).where(*_seen(scope))


def wanted(scope: Scope, filter: Filter, count: int | None = None) -> Select[Any]:
    """Return the ids of the live memories visible in `scope` that pass `filter`, up to `count` of them."""
    return select(memories.c.id).where(*_seen(scope), *_passing(scope, filter)).limit(count)


def latest(scope: Scope, filter: Filter, count: int) -> Select[Any]:
    """Return the ids of those of them that were stored last."""
    passing = (*_seen(scope), *_passing(scope, filter))
    return select(memories.c.id).where(*passing).order_by(memories.c.created_at.desc()).limit(count)


def without_vector(scope: Scope, filter: Filter, count: int) -> Select[Any]:
    """Return the ids of the first of them that have no vector yet."""
    pending = memories.c.vector.is_(None)
    return select(memories.c.id).where(*_seen(scope), *_passing(scope, filter), pending).order_by("id").limit(count)


def nearest(scope: Scope, filter: Filter, index: VectorIndex | None, vector: bytes, near: Nearness) -> Select[Any]:
    """Return the ids of those with the greatest cosines to a vector, and these.

    By an index, its own expression has to be what is ordered by; without one, another, which no index has, is.
    """
    type_ = PostgresVector() if index is None else index.type
    stored = memories.c.vector if index is None else cast(memories.c.vector, type_)
    sent = literal(vector, PostgresVector())  # whole, as it is put into its own form
    distance = stored.op("<#>", return_type=Double)(sent if index is None else cast(sent, type_))
    conditions = [*_seen(scope), *_passing(scope, filter), *_spoken(near.spoken), memories.c.vector.is_not(None)]
    return select(memories.c.id, (-distance).label("cosine")).where(*conditions).order_by(distance).limit(near.count)


def holders(scope: Scope, keys: Sequence[int]) -> Select[Any]:
    """Return, for each of some search keys, how many live visible memories hold it."""
    asked = func.unnest(literal(list(keys), ARRAY(BigInteger))).table_valued("key", name="asked").render_derived()
    held = select(func.count().label("df")).where(*posted(scope), postings.c.key == asked.c.key).lateral("held")
    return select(asked.c.key, held.c.df).select_from(asked.join(held, true()))


def held_ids(scope: Scope, filter: Filter, keys: Sequence[int], budget: int) -> CompoundSelect[Any]:
    """Return rows of two kinds: search keys with the numbers of memories that hold them, and ids of such memories.

    The holders of a key count as long as, with those of all rarer keys, there are no more than `budget`. The ids are
    those of live memories visible in `scope` that pass `filter`.
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
    """Return the ids of up to `count` live visible memories that hold a search key and pass `filter`."""
    held = select(postings.c.number).where(*posted(scope), postings.c.key == key)
    numbers = held.order_by(postings.c.number).limit(count)
    return select(memories.c.id).where(*_seen(scope), *accepted(filter), memories.c.number.in_(numbers))


def posted(scope: Scope) -> Conditions:
    """Return the conditions that `Scope.sees` states on postings; two coordinates share a hash once in a long while."""
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
    """Return the ids of the memories up to `reach` places before and after some of them in their sessions.

    They are live, visible in `scope` and not expired at `now`, and each comes with how far it is at least.
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
    """Return the memories after, or before, one in its session, with how many places they are away."""
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
    """Return the ids of the live visible memories that supersede some, or are of the same facts."""
    old, new = memories.alias("old"), memories.alias("new")
    mine = (old.c.tenant == scope.tenant, _among(old.c.id, ids))
    seen = (*visible(scope, new), new.c.forgotten_at.is_(None))
    same = (new.c.fact_key == old.c.fact_key, new.c.user_id.is_not_distinct_from(old.c.user_id))
    return union(
        select(new.c.id).where(*seen, _among(new.c.supersedes, ids)),
        select(new.c.id).select_from(old.join(new, and_(*same))).where(*mine, *seen),
    )


def replaced(scope: Scope, ids: Sequence[str]) -> Select[Any]:
    """Return the ids that some memories supersede."""
    named = (memories.c.tenant == scope.tenant, _among(memories.c.id, ids))
    return select(memories.c.supersedes).where(*named, memories.c.supersedes.is_not(None))


def rows_of(scope: Scope, ids: Sequence[str]) -> Select[Any]:
    """Return the arena's columns of live memories of these ids."""
    named = (memories.c.tenant == scope.tenant, _among(memories.c.id, ids))
    return select(*_INDEXED).where(*named, memories.c.forgotten_at.is_(None))


def everybody(scope: Scope) -> Select[Any]:
    """Return all speakers of the tenant, in the order of their names: its index is read one name at a time."""
    least = func.min(memories.c.speaker).label("name")
    named = select(least).where(memories.c.tenant == scope.tenant).cte("named", recursive=True)
    last = named.alias("last")
    next_one = select(least).where(memories.c.tenant == scope.tenant, memories.c.speaker > last.c.name)
    named = named.union_all(select(next_one.scalar_subquery()).where(last.c.name.is_not(None)))
    return select(named.c.name).where(named.c.name.is_not(None))


def is_heard(scope: Scope, name: str) -> Select[Any]:
    """Return 1 if a live memory visible in `scope` is by that speaker."""
    return select(literal(1)).where(*_seen(scope), memories.c.speaker == name).limit(1)


def _seen(scope: Scope) -> Conditions:
    return [*visible(scope), memories.c.forgotten_at.is_(None)]


def _spoken(spoken: bool | None) -> Conditions:
    if spoken is None:
        return []
    return [memories.c.speaker.is_not(None) if spoken else memories.c.speaker.is_(None)]


def _among(column: ColumnElement[Any], values: Sequence[str]) -> ColumnElement[bool]:
    """Return whether a column is one of some values, however many, in one parameter."""
    return column == any_(literal(list(values), ARRAY(TEXT())))


def _passing(scope: Scope, filter: Filter) -> Conditions:
    """Return the conditions of `filter`, with those on search keys that lead to the rows which may pass."""
    of = partial(search_keys, scope.tenant)
    held: list[Sequence[int]] = [[tag] for tag in of("tag", filter.tags)]
    held += [of("kind", filter.kinds), of("session", filter.sessions)]
    return [*accepted(filter), *(_holding(scope, keys) for keys in held if keys)]


def _holding(scope: Scope, keys: Sequence[int]) -> ColumnElement[bool]:
    """Return whether a memory holds one of some search keys."""
    found = select(postings.c.number).where(postings.c.tenant == scope.tenant, postings.c.key.in_(keys))
    return memories.c.number.in_(found)


Kind = Literal["term", "tag", "entity", "kind", "session", "id"]


_json: Final = json.JSONEncoder(ensure_ascii=False).encode


def key(tenant: str, kind: Kind, text: str) -> int:
    """Return the key of a text, in [-2^63, 2^63)."""
    told = _json([tenant, kind, text]).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(told, digest_size=8).digest(), "big", signed=True)


def search_keys(tenant: str, kind: Kind, texts: Iterable[str]) -> list[int]:
    """Return the keys of texts, in order."""
    return [key(tenant, kind, text) for text in texts]


def indexed(memory: Memory, terms: Sequence[str]) -> dict[str, Any]:
    """Return the columns by which PostgreSQL finds a memory: its keys, its number in their lists, and its length."""
    tenant = memory.scope.tenant
    return {"search_keys": memory_keys(memory, terms), "number": number(tenant, memory.id), "length": len(terms)}


def number(tenant: str, id: str) -> int:
    """Return the number by which the posting table names a memory, in [-2^63, 2^63)."""
    return key(tenant, "id", id)


def memory_keys(memory: Memory, terms: Sequence[str]) -> list[int]:
    """Return the distinct keys of a memory, ascending: of its terms, tags, entities, kind and session."""
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
    """Return what is to be posted of the live ones among some memories, as their rows stand."""
    rows = connection.execute(_keys(), {"tenant": tenant, "ids": sorted(ids)})
    return frozenset((key, row.number) for row in rows for key in row.search_keys or ())


def repost(connection: Connection, tenant: str, ids: Iterable[str], before: Posted) -> None:
    """Post what is due of some memories now, where `before` is what was due before they were changed."""
    if gone := before - due_postings(connection, tenant, ids) if before else frozenset():
        keys, numbers = zip(*sorted(gone), strict=True)
        connection.execute(_unpost(), {"tenant": tenant, "keys": list(keys), "numbers": list(numbers)})
    connection.execute(_post(), {"tenant": tenant, "ids": sorted(ids)})


def post_all(connection: Connection, tenant: str) -> None:
    """Post what is due of every memory of a tenant; what is posted already stays."""
    connection.execute(_post_all(), {"tenant": tenant})


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
def _post_all() -> TextClause:
    return text(_POST.format(some=""))


@cache
def _unpost() -> TextClause:
    return text(
        "DELETE FROM postings AS p "
        "USING unnest(CAST(:keys AS bigint[]), CAST(:numbers AS bigint[])) AS gone (key, number) "
        "WHERE p.tenant = :tenant AND p.key = gone.key AND p.number = gone.number"
    )
