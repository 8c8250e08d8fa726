"""Searches in large scopes: the indexes of PostgreSQL find the candidates.

The candidates become an in-memory index, which computes their columns as for a small scope. The statistics of all
visible memories come from separate queries.
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
"""Maximum difference between a cosine of PostgreSQL and of NumPy."""
_FEW: Final = 15_000
"""Memories up to which a full scan is no slower than the vector index: see docs/decisions/0027."""
_EF: Final = 100
_EF_LIMIT: Final = 1_000
"""Minimum and maximum breadth of a search in the index; the maximum is pgvector's limit."""
_REPLACING: Final = frozenset({"supersedes", "successor", "fact"})
"""Columns that depend on the successors of a memory."""
_FORCE_INDEX: Final[Mapping[str, object]] = {"enable_sort": "off"}
"""Settings that make the planner use the index; row-level security distorts its estimates."""
_ITERATIVE_SCAN: Final[Mapping[str, object]] = {"hnsw.iterative_scan": "relaxed_order"}
"""Settings that make a search in the index continue until it has found enough."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidates.

    Attributes:
        ids: ids of the candidates.
        frequency: search key -> number of visible memories with it, for the requested keys.
        everything: whether these are all memories that pass the filter.
        is_all: whether these are all visible memories.
        is_wide: whether the need's own conditions still have to be applied to them.
        beyond: upper bound of the cosines of all other memories.
        line: ids of the neighbours in their sessions; None if not known yet.
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
class Search:
    """The search for the candidates of a need.

    Attributes:
        reader: in a transaction of the present state.
        need: the need.
        index: properties of the vector index.
        most: maximum number of memories that a filter may return whole.
        size: returns the size of the scope.
        has_pending: whether a memory of the tenant has no vector.
    """

    reader: Connection
    need: Need
    index: VectorIndex
    most: int
    size: Callable[[], Size]
    has_pending: bool = True

    def run(self) -> Callable[[Activations], Batch]:
        """Return a function from the activations of a session to the batch; it runs no more queries."""
        asked = tuple(statements.search_keys(self.need.scope.tenant, "term", self.need.terms))
        named = tuple(statements.search_keys(self.need.scope.tenant, "entity", map(normalise, self.need.names)))
        chosen = self.candidates((*asked, *named))
        if chosen.is_all:
            return partial(gather, self.index_of_ids(chosen.ids), self.need)
        found = self.index_of_ids(self.with_others(chosen))
        need = self.need if chosen.is_wide else replace(self.need, ids=tuple(chosen.ids))
        need = replace(need, pruning=None)  # pruning would use the statistics of these memories alone
        size = self.size() if asked or named or need.entities else None

        def answer(activations: Activations) -> Batch:
            batch = gather(found, need, activations)
            if not chosen.everything:
                batch = replace(batch, complete=False, beyond=max(batch.beyond, chosen.beyond))
            elif need.windows and need.terms:  # window statistics are estimated: others might rank higher
                batch = replace(batch, complete=False, beyond=1.0)
            return batch if size is None else self.with_statistics(batch, found, chosen, asked, size)

        return answer

    def candidates(self, asked: Sequence[int]) -> Candidates:
        """Return the candidates; `asked` are the search keys of the need's terms and names."""
        need = self.need
        if need.reach is None:  # window statistics need all visible memories, or are estimated
            counts_windows = need.windows and bool(need.terms)
            if not counts_windows and self.has_only_ids():
                return self.of_ids(asked)
            passing = Filter() if counts_windows else need.filter
            return self.everything(self.ids(statements.wanted(need.scope, passing)), asked, is_all=passing == Filter())
        if need.filter != Filter():
            most = 4 * need.reach if need.windows else self.most  # each memory would add its neighbours
            few = self.ids(statements.wanted(need.scope, need.filter, most + 1))
            if len(few) <= most:
                return self.everything(few, asked)
        if need.ids is not None or need.near is not None or need.candidates is not None:
            return self.near_or_of_ids(asked, need.reach)
        return self.best(asked, need.reach)

    def has_only_ids(self) -> bool:
        """Return whether the need asks only for memories by id."""
        need = self.need
        is_near = need.near is not None and len(need.near.vectors) > 0
        return need.candidates is None and not is_near and (need.ids is not None or need.near is not None)

    def of_ids(self, asked: Sequence[int]) -> Candidates:
        """Return the memories of the need's ids."""
        ids = frozenset(self.need.ids or ())
        passing = self.ids(statements.wanted(self.need.scope, self.need.filter, len(ids) + 1))
        return self.everything(passing, asked) if passing <= ids else self.near_or_of_ids(asked, 0)

    def everything(self, ids: frozenset[str], asked: Sequence[int], is_all: bool = False) -> Candidates:
        """Return all memories that pass the filter, or all visible ones."""
        return Candidates(ids, {} if is_all else self.frequency(asked), everything=True, is_all=is_all)

    def near_or_of_ids(self, asked: Sequence[int], reach: int) -> Candidates:
        """Return the memories of the need's ids, those near its vectors, and the requested number of nearest ones."""
        need, beyond = self.need, 1.0
        ids = frozenset(need.ids or ())
        if need.near is not None:
            above = need.near.above - MARGIN
            for vector in need.near.vectors:
                ids |= {found for found, cosine in self.nearest(vector, Nearness(reach)) if cosine > above}
        if need.candidates is not None:
            near, beyond = self.near_or_pending(need.candidates)
            ids |= near
        return Candidates(ids, self.frequency(asked), beyond=beyond)

    def best(self, asked: Sequence[int], reach: int) -> Candidates:
        """Return the nearest memories, those without a vector, holders of rare terms, and all their successors."""
        need = self.need
        ids, beyond = self.near_or_pending(reach)
        frequency, holding = self.holders(asked, reach)
        ids |= holding
        if need.latest or need.vector is None:  # without a vector, only words lead to a memory
            ids |= self.ids(statements.latest(need.scope, need.filter, reach))
        if (cue := need.intent.time) is not None and need.intent.name == PERIOD:
            window = need.filter.within(cue.start, cue.end)
            ids |= self.ids(statements.latest(need.scope, window, reach)) if window else frozenset()
        ids = self.with_heirs(ids)
        closed = ids if _REPLACING & need.columns else frozenset()
        if not need.windows:
            return Candidates(ids, frequency, is_wide=False, beyond=beyond, closed=closed)
        line = self.beside(ids, 2 * REACH)
        ids |= {found for found, step in line if step <= REACH}
        known = frozenset(found for found, _ in line)
        return Candidates(ids, frequency, is_wide=False, beyond=beyond, line=known, closed=closed)

    def with_heirs(self, ids: frozenset[str]) -> frozenset[str]:
        """Return the ids with those of all successors, if ranking needs them.

        A near memory may have been replaced several times; its last successor is ranked in its place.
        """
        new = ids if _REPLACING & self.need.columns else frozenset()
        while new:
            new = self.ids(statements.heirs(self.need.scope, list(new))) - ids
            ids |= new
        return ids

    def near_or_pending(self, count: int) -> tuple[frozenset[str], float]:
        """Return the nearest to the query and those without a vector, and the bound on the cosines of others."""
        near, beyond = self.near_query(count)
        if not self.has_pending:
            return near, beyond
        pending = self.ids(statements.without_vector(self.need.scope, self.need.filter, self.most + 1))
        return near | pending, beyond if len(pending) <= self.most else 1.0

    def near_query(self, count: int) -> tuple[frozenset[str], float]:
        """Return the nearest to the query (for memories with a speaker, to its voice), and the bound on others."""
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
        """Return the nearest to a vector with their cosines, in descending order.

        A full scan finds them if there are few, or if the index did not find enough.
        """
        count = self.passing(near.spoken)
        found = self.query_nearest(self.index, vector, near) if count > _FEW and self.index.exists else []
        return found if len(found) >= near.count or not count else self.query_nearest(None, vector, near)

    def query_nearest(self, index: VectorIndex | None, vector: Vectors32, near: Nearness) -> list[tuple[str, float]]:
        """Return the nearest to a vector from an index, or, without one, from a full scan."""
        given = of_vector(vector)
        assert given is not None  # noqa: S101 - the vector is not None
        statement = statements.nearest(self.need.scope, self.need.filter, index, given, near)
        if index is not None:
            self.set_local(
                **_FORCE_INDEX,
                **(_ITERATIVE_SCAN if index.is_iterative else {}),
                **{"hnsw.ef_search": min(max(near.count, _EF), _EF_LIMIT)},
            )
        rows = [(row.id, row.cosine) for row in self.reader.execute(statement)]
        if index is not None:
            self.set_local(enable_sort="on")
        return sorted(rows, key=lambda row: (-row[1], row[0]))

    def set_local(self, **settings: object) -> None:
        """Change settings for the rest of the transaction."""
        run(driver(self.reader), "; ".join(f"SET LOCAL {name} = {value}" for name, value in settings.items()))

    def passing(self, spoken: bool | None) -> int:
        """Return the number of visible memories that pass the filter, counted up to `_FEW + 1`."""
        if spoken is None and self.need.filter == Filter():
            return self.size().documents
        if spoken and self.need.filter == Filter():
            return max(0, self.passing(None) - self.passing(False))  # an index counts the others
        asked = statements.at_least(self.need.scope, _FEW + 1, self.need.filter, spoken)
        count: int = self.reader.execute(asked).scalar_one()
        return count

    def holders(self, asked: Sequence[int], budget: int) -> tuple[dict[int, int], frozenset[str]]:
        """Return the number of holders of each search key, and the ids of the holders of the rarest keys.

        The holders of a key count as long as they and those of all rarer keys are no more than `budget`; if the rarest
        key has more, that many of its holders. All other memories can match only the more frequent terms: the idea of
        MaxScore (Turtle and Flood, Query Evaluation: Strategies and Optimizations, 1995).
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
        """Return search key -> number of visible memories with it."""
        return self.holders(asked, 0)[0]

    def beside(self, ids: Iterable[str], reach: int) -> list[tuple[str, int]]:
        """Return the ids of memories up to `reach` places from these in their sessions, with their distances."""
        now = microseconds(self.need.now)
        found = self.reader.execute(statements.beside(self.need.scope, list(ids), now, reach))
        return [(id_, step) for id_, step in found]

    def with_others(self, chosen: Candidates) -> frozenset[str]:
        """Return the ids of the candidates and of the memories that their columns depend on."""
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
        """Return the ids that a query returns."""
        return frozenset(self.reader.execute(statement).scalars())

    def index_of_ids(self, ids: frozenset[str]) -> Index:
        """Return an index of the live memories of these ids."""
        return index_of(self.reader, statements.rows_of(self.need.scope, sorted(ids)), self.index.dimension)

    def with_statistics(
        self, batch: Batch, found: Index, chosen: Candidates, asked: Sequence[int], size: Size
    ) -> Batch:
        """Return the batch with the statistics of all visible memories."""
        own = replace_frequency(batch.lexicon, size, [chosen.frequency[key] for key in asked])
        return replace(
            batch,
            lexicon=own,
            windows=estimate_windows(batch.windows, batch.lexicon, own),
            entities=self.with_frequency(batch.entities, found, size.documents, chosen.frequency),
        )

    def with_frequency(
        self, entities: Entities | None, found: Index, documents: int, frequency: Mapping[int, int]
    ) -> Entities | None:
        """Return the entities with the number of visible memories that name each entity of the query."""
        if entities is None:
            return None
        held: dict[int, int] = {}
        for name in dict.fromkeys(map(normalise, self.need.names)):
            if count := frequency[statements.search_keys(self.need.scope.tenant, "entity", [name])[0]]:
                held[found.codes.entities[name]] = min(count, documents)
        codes, counts = np.array(list(held), np.int64), np.array(list(held.values()), np.float64)
        return replace(entities, of_query=codes, frequency=counts, documents=documents)


def vector_index(reader: Connection, dimension: int) -> VectorIndex:
    """Return the properties of the vector index of the database."""
    is_whole, is_half, version = reader.execute(statements.vector_index()).one()
    is_iterative = admin.numbers(version) >= admin.ITERATIVE_SCAN
    return VectorIndex(dimension, is_half, is_iterative, exists=is_whole or is_half)


def replace_frequency(lexicon: Lexicon | None, size: Size, frequency: Sequence[int]) -> Lexicon | None:
    """Return the lexicon with the statistics of all visible memories."""
    if lexicon is None:
        return None
    average = size.terms / size.documents if size.documents else 0.0
    held = np.minimum(np.array(frequency, np.float64), size.documents)  # the counts may be slightly older
    return replace(lexicon, documents=size.documents, average_length=average, document_frequency=held)


def estimate_windows(windows: Lexicon | None, candidates: Lexicon | None, own: Lexicon | None) -> Lexicon | None:
    """Return the lexicon of windows with statistics estimated for all visible memories.

    The estimate takes the ratios of windows to memories, for a term and for lengths, from the candidates; exact counts
    would need every memory of every session.
    """
    if windows is None or candidates is None or own is None:
        return windows
    ratio = windows.average_length / candidates.average_length if candidates.average_length else 1.0
    spread = windows.document_frequency / np.maximum(candidates.document_frequency, 1.0)
    held = np.minimum(own.document_frequency * np.maximum(spread, 1.0), own.documents)
    return replace(windows, documents=own.documents, average_length=own.average_length * ratio, document_frequency=held)


def speakers(reader: Connection, scope: Scope, names: Sequence[str]) -> list[str]:
    """Return the speakers of live visible memories that match one of the names, sorted."""
    if not names:
        return []
    matching = [name for name in reader.execute(statements.all_speakers(scope)).scalars() if means(names, name)]
    return sorted(name for name in matching if reader.execute(statements.has_memory_of(scope, name)).scalar())
