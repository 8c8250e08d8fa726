"""Searches in large scopes: the indexes of PostgreSQL find the candidates.

The candidates become an in-memory index, which computes their columns as for a small scope. The statistics of all
visible memories come from separate queries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from typing import Any, Final

import numpy as np
from sqlalchemy import Connection, Select, select

from salience.batch import CONTEXT_RADIUS, WINDOW_RADIUS, Batch, Floats, Lexicon, Vectors32
from salience.ports import Need, SessionSpan
from salience.records import Filter, Scope
from salience.store import sql_store
from salience.store.index import Activations, Index, gather
from salience.store.index.view import view_of
from salience.store.postgres import statements
from salience.store.rows import of_vector
from salience.store.schema import PostgresVector, memories
from salience.store.statements import PART
from salience.store.values import instant, means, microseconds
from salience.text import normalise, similar_term, similar_terms

MARGIN: Final = 1e-4
"""Maximum difference between a cosine of PostgreSQL and of NumPy."""
_FEW: Final = 15_000
"""Memories up to which a full scan is no slower than the vector index: see docs/decisions/0027."""
MANY: Final = 8
"""Vectors up to which a scan for each of them is faster than to read all vectors once."""
_EF: Final = 1_000
"""Breadth of a search in the index: pgvector's limit."""
_REPLACING: Final = frozenset({"supersedes", "replaced", "fact"})
"""Columns that depend on the successors of a memory."""


def settings(is_iterative: bool) -> dict[str, object]:
    """Return the settings of the transaction of a search.

    Without sorting, the planner uses the indexes; row-level security distorts its estimates. An iterative search
    continues until it has found enough.
    """
    iterative = {"hnsw.iterative_scan": "relaxed_order"} if is_iterative else {}
    return {"enable_sort": "off", "hnsw.ef_search": _EF, **iterative}


@dataclass(frozen=True, slots=True)
class Size:
    """The number of live memories visible in a scope, and of their terms."""

    documents: int
    terms: int


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidates.

    Attributes:
        ids: ids of the candidates, or the query for them.
        frequency: search key -> number of visible memories with it, for the keys of the need.
        is_complete: whether these are all memories that pass the filter.
        is_wide: whether the need's own conditions still have to be applied to them.
        beyond: upper bound of the cosines of all other memories.
        approximate: whether `beyond` is an estimate, since the vector index found the nearest.
        line: ids of the candidates and of their neighbours in sessions; None if not known yet.
        closed: those of `ids` that are no neighbours in sessions; their heirs are among them.
    """

    ids: frozenset[str] | Select[Any]
    frequency: Mapping[int, int]
    is_complete: bool = False
    is_wide: bool = True
    beyond: float = 1.0
    approximate: bool = False
    line: frozenset[str] | None = None
    closed: frozenset[str] = frozenset()


@dataclass
class Search:
    """The search for the candidates of a need.

    Attributes:
        reader: in a transaction with `settings`.
        need: the need.
        indexed_as: type of the indexed vectors; None if there is no vector index.
        dimension: length of a vector.
        most: maximum number of memories that a filter may return whole.
        size: returns the size of the scope.
        has_pending: whether a memory of the tenant has no vector.
    """

    reader: Connection
    need: Need
    indexed_as: PostgresVector | None
    dimension: int
    most: int
    size: Callable[[], Size]
    has_pending: bool

    def __post_init__(self) -> None:
        self.scope = self.need.scope
        names = dict.fromkeys(map(normalise, self.need.names))
        terms = [self.need.corrections.get(term, term) for term in self.need.terms]
        self.terms = statements.search_keys(self.scope.tenant, "term", terms)
        self.names = dict(zip(names, statements.search_keys(self.scope.tenant, "entity", names), strict=True))
        self.keys = list(dict.fromkeys((*self.terms, *self.names.values())))

    def run(self) -> Callable[[Activations], Batch]:
        """Return a function from the activations of a session to the batch; it runs no more queries."""
        need = self.need
        counts_windows = "windows" in need.parts and bool(need.terms)
        wants_all = counts_windows or (need.filter == Filter() and not self._has_only_ids())
        if need.reach is None and wants_all:  # statistics of windows need all visible memories, or are estimated
            index = index_of(self.reader, statements.all_rows(self.scope), self.dimension)
            having = sql_store.having(self.reader, self.scope, need.filter.where, None)
            return partial(gather, index, need, having=having)
        chosen = self._candidates()
        corrections = self._corrections(chosen.frequency)
        if need.correctable:  # the index of the candidates does not know every term
            need = replace(need, correctable=frozenset(), corrections=corrections)
            if corrections:
                return replace(self, need=need).run()
        found = self._index(chosen)
        if not chosen.is_wide:
            need = replace(need, ids=tuple(self.ids(chosen.ids)))
        need = replace(need, pruning=None)  # pruning would use the statistics of these memories alone
        size = self.size() if self.keys or "entities" in need.parts else None
        having = sql_store.having(self.reader, self.scope, need.filter.where, None, ids=found.ids(found.by_id["slot"]))

        def answer(activations: Activations) -> Batch:
            batch = gather(found, need, activations, having)
            if not chosen.is_complete:
                beyond = max(batch.beyond, chosen.beyond)
                batch = replace(batch, complete=False, beyond=beyond, approximate=chosen.approximate)
            elif counts_windows:  # window statistics are estimated: others might rank higher
                batch = replace(batch, complete=False, beyond=1.0)
            return batch if size is None else self._with_statistics(batch, found, chosen, size)

        return answer

    def _candidates(self) -> Candidates:
        need = self.need
        if need.reach is None and self._has_only_ids():
            ids = frozenset(need.ids or ())
            passing = self.ids(statements.passing(self.scope, need.filter).limit(len(ids) + 1))
            if not passing <= ids:
                return self._near_or_named(0)
            return Candidates(passing, self._frequency(), is_complete=True)
        if need.reach is None:
            return Candidates(statements.passing(self.scope, need.filter), self._frequency(), is_complete=True)
        if need.filter != Filter():
            most = 4 * need.reach if "windows" in need.parts else self.most  # each memory would add its neighbours
            few = self.ids(statements.passing(self.scope, need.filter).limit(most + 1))
            if len(few) <= most:
                return Candidates(few, self._frequency(), is_complete=True)
        if need.ids is not None or need.near is not None or need.candidates is not None:
            return self._near_or_named(need.reach)
        return self._best(need.reach)

    def _has_only_ids(self) -> bool:
        """Return whether the need names its memories."""
        need = self.need
        is_near = need.near is not None and len(need.near.vectors) > 0
        return need.candidates is None and not is_near and (need.ids is not None or need.near is not None)

    def _near_or_named(self, reach: int) -> Candidates:
        """Return the memories of the need's ids, those near its vectors, and the requested number of nearest ones."""
        need, beyond, approximate = self.need, 1.0, False
        ids = frozenset(need.ids or ())
        if need.near is not None:
            above = need.near.above - MARGIN
            vectors = need.near.vectors
            if len(vectors) > MANY and (self.indexed_as is None or self._passing(None) <= _FEW):
                ids |= self._nearest_of_all(vectors, reach, above)
            else:
                for vector in vectors:
                    ids |= {found for found, cosine in self._nearest(vector, reach)[0] if cosine > above}
        if need.candidates is not None:
            near, beyond, approximate = self._near_query(need.candidates)
            ids |= near
        return Candidates(ids, self._frequency(), beyond=beyond, approximate=approximate)

    def _best(self, reach: int) -> Candidates:
        """Return the nearest memories, those without a vector, those that fit best by words, and their successors."""
        need = self.need
        ids, beyond, approximate = self._near_query(reach)
        queries: list[Select[Any]] = []
        if need.latest or need.vector is None:  # without a vector, only words lead to a memory
            queries.append(statements.latest(self.scope, need.filter, reach))
        if (cue := need.period) is not None:
            window = need.filter.within(cue.told_from or cue.start, cue.told_until or cue.end)
            queries += [statements.latest(self.scope, window, reach)] if window else []
            if cue.sessions is None:
                start, end = (None if edge is None else microseconds(edge) for edge in (cue.start, cue.end))
                queries.append(statements.stating(self.scope, need.filter, start, end, reach))
        vector, documents = of_vector(need.vector), self.size().documents if self.keys else 0
        rows = statements.holders(self.scope, need.filter, self.keys, vector, documents, reach, ids, queries)
        found: Sequence[Any] = self.reader.execute(rows).all() if rows is not None else []
        frequency = {key: count for key, count, id_ in found if id_ is None}
        ids |= {id_ for _, _, id_ in found if id_ is not None}
        # a near memory may have been replaced several times; its last heir is ranked in its place
        heirs, line = bool(_REPLACING & need.columns), 2 * WINDOW_RADIUS if "windows" in need.parts else 0
        if not ids or not (heirs or line):
            return Candidates(ids, frequency, is_wide=False, beyond=beyond, approximate=approximate)
        now = microseconds(need.now)
        near = self.reader.execute(statements.around(self.scope, ids, heirs=heirs, reach=line, now=now)).all()
        closed = frozenset(id_ for id_, step in near if not step)
        ids = frozenset(id_ for id_, step in near if step <= WINDOW_RADIUS)
        known = frozenset(id_ for id_, _ in near)
        return Candidates(
            ids,
            frequency,
            is_wide=False,
            beyond=beyond,
            approximate=approximate,
            line=known if line else None,
            closed=closed,
        )

    def _near_query(self, count: int) -> tuple[frozenset[str], float, bool]:
        """Return the nearest to the query and those without a vector; and a bound of the others' cosines.

        The last value says whether that bound is an estimate of the vector index. Memories with a speaker are compared
        with the query in the first person.
        """
        need, ids, beyond, approximate = self.need, frozenset[str](), 1.0, False
        if need.vector is not None and count:
            vectors: list[tuple[Vectors32, bool | None]] = [(need.vector, None)]
            if need.first_person_vector is not None:
                vectors = [(need.vector, False), (need.first_person_vector, True)]
            found = [self._nearest(vector, count, spoken) for vector, spoken in vectors]
            ids = frozenset(id_ for rows, _ in found for id_, _ in rows)
            beyond = min(1.0, max((rows[-1][1] + MARGIN if len(rows) == count else -1.0) for rows, _ in found))
            approximate = any(by_index for _, by_index in found)
        if self.has_pending:
            lacking = statements.passing(self.scope, need.filter).where(memories.c.vector.is_(None))
            pending = self.ids(lacking.order_by("id").limit(self.most + 1))
            ids |= pending
            beyond = beyond if len(pending) <= self.most else 1.0
        return ids, beyond, approximate

    def _nearest(
        self, vector: Vectors32, count: int, spoken: bool | None = None
    ) -> tuple[list[tuple[str, float]], bool]:
        """Return the nearest to a vector with their cosines, in descending order, and whether the index found them.

        A full scan finds them if there are few, or if the index did not find enough. The index may miss some.
        """
        passing = self._passing(spoken)
        found, by_index = list[tuple[str, float]](), False
        for type_ in (self.indexed_as, None) if passing > _FEW and self.indexed_as is not None else (None,):
            if len(found) < count and passing:
                given = of_vector(vector) or b""
                query = statements.nearest(self.scope, self.need.filter, given, count, spoken, type_)
                found, by_index = [(row.id, row.cosine) for row in self.reader.execute(query)], type_ is not None
        return sorted(found, key=lambda row: (-row[1], row[0])), by_index

    def _nearest_of_all(self, vectors: Vectors32, count: int, above: float) -> frozenset[str]:
        """Return the nearest to each of several vectors, with a cosine above `above`, after one read of all vectors."""
        near: list[list[tuple[float, str]]] = [[] for _ in vectors]
        held = statements.passing(self.scope, self.need.filter).where(memories.c.vector.is_not(None))
        for rows in self.reader.execute(held.add_columns(memories.c.vector)).partitions(PART):
            ids, data = zip(*rows, strict=True)
            alike = np.frombuffer(b"".join(data), "<f4").reshape(len(ids), -1) @ vectors.T
            for row, column in np.argwhere(alike > above).tolist():
                near[column].append((float(alike[row, column]), ids[row]))
        return frozenset(id_ for each in near for _, id_ in sorted(each, reverse=True)[:count])

    def _passing(self, spoken: bool | None) -> int:
        """Return the number of visible memories that pass the filter, counted up to `_FEW + 1`."""
        if self.need.filter == Filter() and spoken is not False:
            # an index counts those without a speaker
            return max(0, self.size().documents - (self._passing(False) if spoken else 0))
        query = statements.counted(statements.passing(self.scope, self.need.filter, spoken), _FEW + 1)
        count: int = self.reader.execute(query).scalar_one()
        return count

    def _frequency(self) -> dict[int, int]:
        """Return search key -> number of visible memories with it."""
        if not self.keys:
            return {}
        return {row.key: row.df for row in self.reader.execute(statements.frequencies(self.scope, self.keys))}

    def _corrections(self, frequency: Mapping[int, int]) -> dict[str, str]:
        """Return term of the need that no visible memory contains -> the similar term that one contains."""
        need, tenant = self.need, self.scope.tenant
        known = zip(need.terms, self.terms, strict=True)
        unknown = [term for term, key in known if term in need.correctable and not frequency.get(key)]
        similar = [other for term in unknown for each in similar_terms(term) for other in each]
        if not similar:
            return {}
        keys = dict(zip(similar, statements.search_keys(tenant, "term", similar), strict=True))
        rows = self.reader.execute(statements.frequencies(self.scope, list(keys.values())))
        counts = {row.key: row.df for row in rows}
        found = {term: similar_term(term, lambda other: counts.get(keys[other], 0)) for term in unknown}
        return {term: other for term, other in found.items() if other is not None and other not in need.terms}

    def ids(self, ids: frozenset[str] | Select[Any]) -> frozenset[str]:
        """Return the ids that a query returns."""
        return ids if isinstance(ids, frozenset) else frozenset(self.reader.execute(ids).scalars())

    def _index(self, chosen: Candidates) -> Index:
        """Return an index of the candidates, and of the memories that their columns depend on."""
        need, ids, scope = self.need, chosen.ids, self.scope
        found: list[statements.Ids] = [ids]
        if chosen.line is not None:
            found.append(chosen.line)
        elif reach := max(
            WINDOW_RADIUS if "windows" in need.parts and need.terms else 0,
            CONTEXT_RADIUS if "neighbours" in need.parts or "context_cosine" in need.columns else 0,
        ):
            near = statements.beside(scope, ids, microseconds(need.now), reach).subquery()
            found.append(select(near.c.id))
        if "supersedes" in need.columns:
            found.append(statements.replaced(scope, ids))
        unclosed = ids - chosen.closed if isinstance(ids, frozenset) else ids
        if ("successors" in need.parts or "replaced" in need.columns) and (isinstance(unclosed, Select) or unclosed):
            found.append(statements.heirs_of(scope, unclosed))
        return index_of(self.reader, statements.rows_of(scope, *found), self.dimension)

    def _windows(self, found: Index, sample: Set[str], own: Lexicon) -> Lexicon:
        """Return `own` with the estimated average length of windows, and number of windows with each term.

        Both come from a sample of the memories. A window in which k memories have a term counts as 1/k for each of
        them, so that it counts once. Each memory with the term outside the sample counts as much as those in it and one
        more on average, which is alone with the term in as many windows as memories usually are.
        """
        view = view_of(found, self.scope, microseconds(self.need.now))
        sampled = np.array([id_ in sample for id_ in found.ids(view.slots)], np.bool_)

        def summed(values: Floats) -> Floats:
            return np.asarray(values + np.append(values, 0.0)[view.neighbours].sum(axis=0))

        usual, counts = summed(np.ones(len(view)))[sampled].sum() / max(sampled.sum(), 1), list[float]()
        for term, frequency in zip(self.need.terms, own.document_frequency.tolist(), strict=True):
            number = found.codes.terms.get(self.need.corrections.get(term, term), -1)
            held = np.zeros(len(view))
            held[view.occurrences([number]).places] = 1.0
            each = summed(1 / np.maximum(summed(held), 1.0))[sampled & (held > 0)]
            others = max(frequency - len(each), 0.0)
            counts.append(each.sum() + others * (each.sum() + usual) / (len(each) + 1))
        ratio = view.window_length[sampled].sum() / max(view.length[sampled].sum(), 1.0)
        return replace(
            own,
            average_length=float(own.average_length * ratio),
            document_frequency=np.clip(counts, own.document_frequency, own.documents),
        )

    def _with_statistics(self, batch: Batch, found: Index, chosen: Candidates, size: Size) -> Batch:
        """Return the batch with the statistics of all visible memories.

        Those of windows are estimated: the ratios of windows to memories, for a term and for lengths, come from the
        candidates. Exact counts would need every memory of every session.
        """
        own, windows, entities, frequency = batch.lexicon, batch.windows, batch.entities, chosen.frequency
        if own is not None:
            average = size.terms / size.documents if size.documents else 0.0
            held = np.array([frequency[key] for key in self.terms], np.float64)
            held = np.minimum(held, size.documents)  # the counts may be slightly older
            own = replace(own, documents=size.documents, average_length=average, document_frequency=held)
        if windows is not None and own is not None:
            estimated = self._windows(found, chosen.closed or frozenset(batch.ids), own)
            windows = replace(estimated, postings=windows.postings, length=windows.length)
        if entities is not None:
            named = {found.codes.entities[name]: frequency[key] for name, key in self.names.items() if frequency[key]}
            entities = replace(
                entities,
                of_query=np.array(list(named), np.int64),
                frequency=np.minimum(np.array(list(named.values()), np.float64), size.documents),
                documents=size.documents,
            )
        return replace(batch, lexicon=own, windows=windows, entities=entities)


def index_of(
    reader: Connection, query: Any, dimension: int, count: int = 0, is_wanted: Callable[[], bool] = lambda: True
) -> Index:
    """Return an index of the rows of a query.

    If about `count` are many, the server sends them part by part, as long as the index `is_wanted`.
    """
    options = {"yield_per": PART} if count > PART else {}
    rows = reader.execute(query, execution_options=options).partitions(PART)
    room = count + count // 4  # for later writes
    return Index.empty(dimension, room).extended(takewhile(lambda _: is_wanted(), rows))


def sessions(reader: Connection, scope: Scope) -> list[SessionSpan]:
    """Return the sessions of live visible memories, in the order of their first memory."""
    rows = reader.execute(statements.sessions_of(scope))
    spans = [SessionSpan(id_, instant(start), instant(end)) for id_, start, end in rows]
    return sorted(spans, key=lambda span: (span.start, span.id))


def speakers(reader: Connection, scope: Scope, names: Sequence[str]) -> list[str]:
    """Return the speakers of live visible memories that match one of the names, sorted."""
    matching = [name for name in reader.execute(statements.all_speakers(scope)).scalars() if means(names, name)]
    return sorted(reader.execute(statements.speakers_of(scope, matching)).scalars()) if matching else []
