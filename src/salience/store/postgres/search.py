"""A need answered out of more memories than are at hand: indexes bring the candidates, and what stands beside them.

What is brought becomes an index of its own, from which the columns are computed as from any other. The statistics,
which are of all that is visible, are asked for besides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
from sqlalchemy import Connection

from salience.batch import NEAREST, REACH, Batch, Entities, Lexicon, Vectors32
from salience.ports import Need
from salience.records import PERIOD, Filter, Scope
from salience.store.index import Activations, Index, gather
from salience.store.postgres import admin, statements
from salience.store.postgres.cache import Size, index_of
from salience.store.postgres.connection import driver, run
from salience.store.postgres.statements import Nearness, VectorIndex
from salience.store.rows import of_vector
from salience.store.values import means, microseconds
from salience.text import normalise

MARGIN: Final = 1e-4
"""By how much PostgreSQL may compute a cosine of two vectors other than it is computed here."""
_FEW: Final = 15_000
"""Memories up to which it is no slower to look at each than to ask the index of vectors: see docs/decisions/0027."""
_EF: Final = 100
_EF_LIMIT: Final = 1_000
"""Breadth of a search in the index: at least, and at most, which is pgvector's own limit."""
_REPLACING: Final = frozenset({"supersedes", "successor", "fact"})
"""Columns of those who ask which memory holds in the place of another."""
_TAKING: Final[Mapping[str, object]] = {"enable_sort": "off"}
"""How the planner is made to take the index: row-level security spoils its own estimates."""
_GOING_ON: Final[Mapping[str, object]] = {"hnsw.iterative_scan": "relaxed_order"}
"""How the index is made to go on until there are enough."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The candidates.

    Attributes:
        ids: theirs.
        frequency: search key -> how many visible memories hold it, of those that were looked up.
        everything: whether all that pass the filter are here.
        is_all: whether all that are visible are here.
        is_wide: whether those that are meant are still to be picked from them.
        beyond: a cosine that no other one exceeds.
        line: ids of memories that stand beside them in their sessions; None: not known yet.
        closed: ids whose heirs are among `ids`.
    """

    ids: frozenset[str]
    frequency: Mapping[int, int]
    everything: bool = False
    is_all: bool = False
    is_wide: bool = True
    beyond: float = 1.0
    line: frozenset[str] | None = None
    closed: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Searching:
    """A need on its way.

    Attributes:
        reader: in a transaction.
        need: what is asked for.
        index: what the vector index is made of.
        most: how many memories may be brought whole.
        size: returns the size of the scope.
        has_pending: whether a memory of the tenant has no vector.
    """

    reader: Connection
    need: Need
    index: VectorIndex
    most: int
    size: Callable[[], Size]
    has_pending: bool = True

    def brought(self) -> Callable[[Activations], Batch]:
        """Return what makes columns of the candidates; it reads nothing more."""
        asked = tuple(statements.search_keys(self.need.scope.tenant, "term", self.need.terms))
        named = tuple(statements.search_keys(self.need.scope.tenant, "entity", map(normalise, self.need.names)))
        chosen = self.chosen((*asked, *named))
        if chosen.is_all:
            return partial(gather, self.index_of_ids(chosen.ids), self.need)
        found = self.index_of_ids(self.with_others(chosen))
        need = self.need if chosen.is_wide else replace(self.need, ids=tuple(chosen.ids))
        need = replace(need, pruning=None)  # which would go by the statistics of these memories alone
        size = self.size() if asked or named or need.entities else None

        def answer(activations: Activations) -> Batch:
            batch = gather(found, need, activations)
            if not chosen.everything:
                batch = replace(batch, complete=False, beyond=max(batch.beyond, chosen.beyond))
            elif need.windows and need.terms:  # how words stand in windows is estimated: others might come first
                batch = replace(batch, complete=False, beyond=1.0)
            return batch if size is None else self.measured(batch, found, chosen, asked, size)

        return answer

    def chosen(self, asked: Sequence[int]) -> Chosen:
        """Return the candidates of the need; `asked` are the search keys of its terms and names."""
        need = self.need
        if need.reach is None:  # how words stand in windows is known of all that is visible, or estimated
            counts_windows = need.windows and bool(need.terms)
            if not counts_windows and self.is_named():
                return self.named(asked)
            passing = Filter() if counts_windows else need.filter
            return self.everything(self.ids(statements.wanted(need.scope, passing)), asked, is_all=passing == Filter())
        if need.filter != Filter():
            most = 4 * need.reach if need.windows else self.most  # each of them would bring its neighbours too
            few = self.ids(statements.wanted(need.scope, need.filter, most + 1))
            if len(few) <= most:
                return self.everything(few, asked)
        if need.ids is not None or need.near is not None or need.candidates is not None:
            return self.meant(asked, need.reach)
        return self.best(asked, need.reach)

    def is_named(self) -> bool:
        """Return whether no memories are meant but those of some ids."""
        need = self.need
        is_near = need.near is not None and len(need.near.vectors) > 0
        return need.candidates is None and not is_near and (need.ids is not None or need.near is not None)

    def named(self, asked: Sequence[int]) -> Chosen:
        """Return the memories of some ids, and whether they are all that pass the filter."""
        ids = frozenset(self.need.ids or ())
        passing = self.ids(statements.wanted(self.need.scope, self.need.filter, len(ids) + 1))
        return self.everything(passing, asked) if passing <= ids else self.meant(asked, 0)

    def everything(self, ids: frozenset[str], asked: Sequence[int], is_all: bool = False) -> Chosen:
        """Return all that pass the filter, or all that are visible."""
        return Chosen(ids, {} if is_all else self.frequency(asked), everything=True, is_all=is_all)

    def meant(self, asked: Sequence[int], reach: int) -> Chosen:
        """Return what holds those of some ids, those near some vectors, and as many of the nearest as are asked for."""
        need, beyond = self.need, 1.0
        ids = frozenset(need.ids or ())
        if need.near is not None:
            above = need.near.above - MARGIN
            for vector in need.near.vectors:
                ids |= {found for found, cosine in self.nearest(vector, Nearness(reach)) if cosine > above}
        if need.candidates is not None:
            near, beyond = self.near_or_pending(need.candidates)
            ids |= near
        return Chosen(ids, self.frequency(asked), beyond=beyond)

    def best(self, asked: Sequence[int], reach: int) -> Chosen:
        """Return the nearest, those without a vector, holders of rare terms, and what holds in the place of these."""
        need = self.need
        ids, beyond = self.near_or_pending(reach)
        frequency, holding = self.holders(asked, reach)
        ids |= holding
        if need.latest or need.vector is None:  # without one, what no word leads to would not be found at all
            ids |= self.ids(statements.latest(need.scope, need.filter, reach))
        if (cue := need.intent.time) is not None and need.intent.name == PERIOD:
            window = need.filter.within(cue.start, cue.end)
            ids |= self.ids(statements.latest(need.scope, window, reach)) if window else frozenset()
        ids = self.with_heirs(ids)
        closed = ids if _REPLACING & need.columns else frozenset()
        if not need.windows:
            return Chosen(ids, frequency, is_wide=False, beyond=beyond, closed=closed)
        line = self.beside(ids, 2 * REACH)
        ids |= {found for found, step in line if step <= REACH}
        known = frozenset(found for found, _ in line)
        return Chosen(ids, frequency, is_wide=False, beyond=beyond, line=known, closed=closed)

    def with_heirs(self, ids: frozenset[str]) -> frozenset[str]:
        """Return some ids with those of all that hold in the place of these, where ranking looks for them.

        What is nearest may be what was replaced, again and again; what replaced it is to be ranked in its place.
        """
        new = ids if _REPLACING & self.need.columns else frozenset()
        while new:
            new = self.ids(statements.heirs(self.need.scope, list(new))) - ids
            ids |= new
        return ids

    def near_or_pending(self, count: int) -> tuple[frozenset[str], float]:
        """Return the nearest to the query, those without a vector, of which nobody knows, and the bound on others."""
        near, beyond = self.near_query(count)
        if not self.has_pending:
            return near, beyond
        pending = self.ids(statements.without_vector(self.need.scope, self.need.filter, self.most + 1))
        return near | pending, beyond if len(pending) <= self.most else 1.0

    def near_query(self, count: int) -> tuple[frozenset[str], float]:
        """Return the nearest to the query, or to its voice for memories that somebody said, and the bound on others."""
        need = self.need
        if need.vector is None or not count:
            return frozenset(), 1.0
        asked = [(need.vector, Nearness(count))]
        if need.voice is not None:
            asked = [(need.vector, Nearness(count, spoken=False)), (need.voice, Nearness(count, spoken=True))]
        found = [self.nearest(*each) for each in asked]
        beyond = max((rows[-1][1] if len(rows) == count else -1.0) for rows in found)
        return frozenset(id_ for rows in found for id_, _ in rows), min(beyond, 1.0)

    def nearest(self, vector: Vectors32, near: Nearness) -> list[tuple[str, float]]:
        """Return the nearest to a vector, with their cosines, by falling cosine.

        Of few, each is looked at; so it is where the index, which leaves off after so many, did not find enough.
        """
        count = self.passing(near.spoken)
        found = self.by(self.index, vector, near) if count > _FEW and self.index.exists else []
        return found if len(found) >= near.count or not count else self.by(None, vector, near)

    def by(self, index: VectorIndex | None, vector: Vectors32, near: Nearness) -> list[tuple[str, float]]:
        """Return the nearest to a vector by an index, or, without one, by each."""
        given = of_vector(vector)
        assert given is not None  # noqa: S101 - there is one
        statement = statements.nearest(self.need.scope, self.need.filter, index, given, near)
        if index is not None:
            self.let(
                **_TAKING,
                **(_GOING_ON if index.goes_on else {}),
                **{"hnsw.ef_search": min(max(near.count, _EF), _EF_LIMIT)},
            )
        rows = [(row.id, row.cosine) for row in self.reader.execute(statement)]
        if index is not None:
            self.let(enable_sort="on")
        return sorted(rows, key=lambda row: (-row[1], row[0]))

    def let(self, **settings: object) -> None:
        """Let the planner go by other settings for the rest of the transaction."""
        run(driver(self.reader), "; ".join(f"SET LOCAL {name} = {value}" for name, value in settings.items()))

    def passing(self, spoken: bool | None) -> int:
        """Return how many visible memories pass the filter, counted a little further than the few."""
        if spoken is None and self.need.filter == Filter():
            return self.size().documents
        if spoken and self.need.filter == Filter():
            return max(0, self.passing(None) - self.passing(False))  # the others have an index
        asked = statements.at_least(self.need.scope, _FEW + 1, self.need.filter, spoken)
        count: int = self.reader.execute(asked).scalar_one()
        return count

    def holders(self, asked: Sequence[int], budget: int) -> tuple[dict[int, int], frozenset[str]]:
        """Return how many hold each of some search keys, and the ids of those that hold the rarest of them.

        The holders of a key are brought as long as, with those of all rarer ones, they are no more than `budget`; of
        the rarest, that many if it has more. What a memory outside all of these can hold of the query are the other
        terms alone: the idea of MaxScore (Turtle and Flood, Query Evaluation: Strategies and Optimizations, 1995).
        """
        scope, distinct = self.need.scope, list(dict.fromkeys(asked))
        if not distinct:
            return {}, frozenset()
        if not budget:
            return {row.key: row.df for row in self.reader.execute(statements.holders(scope, distinct))}, frozenset()
        found = self.reader.execute(statements.held_ids(scope, self.need.filter, distinct, budget)).all()
        frequency = {key: count for key, count, id_ in found if id_ is None}
        counts = sorted((count, key) for key, count in frequency.items() if count)
        if not counts or counts[0][0] <= budget:
            return frequency, frozenset(id_ for _, _, id_ in found if id_ is not None)
        return frequency, self.ids(statements.some_held_ids(scope, self.need.filter, counts[0][1], budget))

    def frequency(self, asked: Sequence[int]) -> dict[int, int]:
        """Return how many visible memories hold each of some search keys."""
        return self.holders(asked, 0)[0]

    def beside(self, ids: Iterable[str], reach: int) -> list[tuple[str, int]]:
        """Return those up to `reach` places from some in their sessions, with how far they are."""
        now = microseconds(self.need.now)
        found = self.reader.execute(statements.beside(self.need.scope, list(ids), now, reach))
        return [(id_, step) for id_, step in found]

    def with_others(self, chosen: Chosen) -> frozenset[str]:
        """Return the ids of the candidates with those of the memories that the columns of these depend on."""
        need, ids, others = self.need, chosen.ids, chosen.ids | (chosen.line or frozenset())
        reach = max(REACH if need.windows and need.terms else 0, NEAREST if "context_cosine" in need.columns else 0)
        if reach and chosen.line is None:
            others |= {found for found, _ in self.beside(ids, reach)}
        if "supersedes" in need.columns:
            others |= self.ids(statements.replaced(need.scope, list(ids)))
        if "successor" in need.columns and ids - chosen.closed:
            others |= self.ids(statements.heirs(need.scope, list(ids - chosen.closed)))
        return others

    def ids(self, statement: statements.Ids) -> frozenset[str]:
        """Return the ids that a statement finds."""
        return frozenset(self.reader.execute(statement).scalars())

    def index_of_ids(self, ids: frozenset[str]) -> Index:
        """Return an index of the live memories of these ids."""
        return index_of(self.reader, statements.rows_of(self.need.scope, sorted(ids)), self.index.dimension)

    def measured(self, batch: Batch, found: Index, chosen: Chosen, asked: Sequence[int], size: Size) -> Batch:
        """Return the batch with the statistics of all that is visible, where it has those of the found."""
        own = replace_frequency(batch.lexicon, size, [chosen.frequency[key] for key in asked])
        return replace(
            batch,
            lexicon=own,
            windows=widened(batch.windows, batch.lexicon, own),
            entities=self.known(batch.entities, found, size.documents, chosen.frequency),
        )

    def known(
        self, entities: Entities | None, found: Index, documents: int, frequency: Mapping[int, int]
    ) -> Entities | None:
        """Return the entities with how many visible memories name each of those in the query."""
        if entities is None:
            return None
        held: dict[int, int] = {}
        for name in dict.fromkeys(map(normalise, self.need.names)):
            if count := frequency[statements.search_keys(self.need.scope.tenant, "entity", [name])[0]]:
                held[found.codes.entities[name]] = min(count, documents)
        asked, told = np.array(list(held), np.int64), np.array(list(held.values()), np.float64)
        return replace(entities, of_query=asked, frequency=told, documents=documents)


def candidates(
    reader: Connection, need: Need, index: VectorIndex, most: int, size: Callable[[], Size], has_pending: bool
) -> Callable[[Activations], Batch]:
    """Return a function from the activations of a session to the batch; it reads nothing more.

    Args:
        reader: in a transaction, of the present state.
        need: what to bring.
        index: the vector index.
        most: how many memories that pass a filter are brought whole.
        size: returns the size of the need's scope.
        has_pending: whether a memory of the tenant has no vector.
    """
    return Searching(reader, need, index, most, size, has_pending).brought()


def vector_index(reader: Connection, dimension: int) -> VectorIndex:
    """Return what the vector index of the database is made of."""
    is_whole, is_half, version = reader.execute(statements.vector_index()).one()
    goes_on = admin.numbers(version) >= admin.ITERATIVE_SCAN
    return VectorIndex(dimension, is_half, goes_on, exists=is_whole or is_half)


def replace_frequency(lexicon: Lexicon | None, size: Size, frequency: Sequence[int]) -> Lexicon | None:
    """Return the lexicon with the statistics of all that is visible."""
    if lexicon is None:
        return None
    average = size.terms / size.documents if size.documents else 0.0
    held = np.minimum(np.array(frequency, np.float64), size.documents)  # which may have been counted a little earlier
    return replace(lexicon, documents=size.documents, average_length=average, document_frequency=held)


def widened(windows: Lexicon | None, brought: Lexicon | None, own: Lexicon | None) -> Lexicon | None:
    """Return the lexicon of windows with statistics estimated for all that is visible.

    A term has as many windows to a memory that holds it as among those brought, and a window as many terms to one of a
    memory; to count them all would take every memory of every session.
    """
    if windows is None or brought is None or own is None:
        return windows
    ratio = windows.average_length / brought.average_length if brought.average_length else 1.0
    spread = windows.document_frequency / np.maximum(brought.document_frequency, 1.0)
    held = np.minimum(own.document_frequency * np.maximum(spread, 1.0), own.documents)
    return replace(windows, documents=own.documents, average_length=own.average_length * ratio, document_frequency=held)


def speakers(reader: Connection, scope: Scope, names: Sequence[str]) -> list[str]:
    """Return the speakers of live memories visible in `scope` whom one of some names means, sorted."""
    meant = (
        [name for name in reader.execute(statements.everybody(scope)).scalars() if means(names, name)] if names else []
    )
    return sorted(name for name in meant if reader.execute(statements.is_heard(scope, name)).scalar())
