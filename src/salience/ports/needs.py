"""Need: the request to a store for candidates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from salience.batch import Floats, Vectors32
from salience.ports.models import RAW, Calibration
from salience.records import Filter, Scope, TimeCue


@dataclass(frozen=True, slots=True, eq=False)
class Near:
    """Select the memories whose raw cosine to any of `vectors` (float32[m, d], unit rows) is above `above`."""

    vectors: Vectors32
    above: float


@dataclass(frozen=True, slots=True)
class Matching:
    """A lexical channel of a score: the BM25 share under these parameters, times `weight`."""

    weight: float
    k1: float
    b: float


@dataclass(frozen=True, slots=True, eq=False)
class ColumnBound:
    """An upper bound of what one column adds to a score, as a table over equal steps of its values.

    Attributes:
        column: name from `batch.COLUMNS`.
        low, width: start of the first step, and width of each; smaller and larger values use the first and last step.
        most: float64[t, s], the bound in each of s steps: one row for each of `records.TIERS`, or one row for all.
    """

    column: str
    low: float
    width: float
    most: Floats


@dataclass(frozen=True, slots=True)
class WindowBound:
    """Upper bounds of a channel for the memories whose time overlaps a window, and for all others.

    Attributes:
        first, last: columns of the begin and the end of a memory's time.
        start, end: the window in seconds since 1970; infinite where it is open.
        inside, outside: weight times the greatest value.
    """

    first: str
    last: str
    start: float
    end: float
    inside: float
    outside: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pruning:
    """Bounds of a score, by which a store may leave out memories that score too little.

    A score is the sum of the known channels (value in [0, 1] times weight) and of the rest, times the factors. The
    scores of all memories that the store leaves out are below `Batch.floor`, also if `by_column` and `by_window` are
    their values and the factors are at their maximum.

    Attributes:
        keep: number of best memories that are needed.
        scale: what similarities mean, as in the score.
        least: return all memories that may reach this score; None: the store chooses a score that about `keep` reach.
        similarity, context_similarity, speaker, entity: weights of these channels.
        lexical, context_lexical: these channels; None if the profile does not use them.
        by_column: bounds of other channels, each from one column.
        by_window: bounds of channels of time.
        rest: maximum sum of all other summed channels.
        most: maximum product of the factors.
        drops: states of memories to ignore: `expired`.
        heirs: whether the successor of each memory that is returned, and the memories whose successor is, are needed
            too: one takes over the score of the other.
    """

    keep: int
    scale: Calibration = RAW
    least: float | None = None
    similarity: float = 0.0
    context_similarity: float = 0.0
    speaker: float = 0.0
    entity: float = 0.0
    lexical: Matching | None = None
    context_lexical: Matching | None = None
    by_column: tuple[ColumnBound, ...] = ()
    by_window: tuple[WindowBound, ...] = ()
    rest: float = 0.0
    most: float = 1.0
    drops: frozenset[str] = frozenset()
    heirs: bool = False

    @property
    def total(self) -> float:
        """The sum of all weights."""
        matching = sum(channel.weight for channel in (self.lexical, self.context_lexical) if channel is not None)
        others = sum(float(bound.most.max()) for bound in self.by_column) + self.rest
        others += sum(max(bound.inside, bound.outside) for bound in self.by_window)
        return self.similarity + self.context_similarity + self.speaker + self.entity + matching + others


class SessionSpan(NamedTuple):
    """The id of a session, and the `created_at` of the first and of the last of its live visible memories."""

    id: str
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Need:
    """A request for candidates.

    Candidates are the live memories that are visible in `scope` and pass `filter`. If given, `ids` selects among them,
    `near` those near some vectors, and `candidates` the given number nearest to `vector` (ties by id), with all pending
    memories. Expired and superseded memories are included; ranking drops them.

    With `as_of`, everything is as it was at that instant: each memory in its version of that time (`changed_at` is not
    later, that of the next version is), with its recall counters of that time. Memories forgotten later are included,
    memories stored later are not. `turns_since_activation` is then inf for all.

    The context of a memory is the memories before and after it in its session, in the order of `created_at`, `turn`,
    id: those that are live, visible in `scope` and not expired at `now`, whether or not they pass `filter`. It is
    computed for each need, so late turns, edits and forgotten neighbours count. An expired memory, and one without a
    session, has no context.

    The `successor` of a memory is the memory that replaces it (`Memory.relations`), among those that are live, visible
    and not expired, whether or not they pass `filter`. Of several it is the most probable one, of equals the one with
    the greatest id.

    Attributes:
        scope, filter: see above.
        now: the instant at which memories are expired or not.
        as_of: the instant of the requested state; None for the present.
        columns: names from `batch.COLUMNS` to return.
        vector: unit vector of the query, float32[d]; None leaves `cosine` at 0.
        first_person_vector: unit vector of the query in the first person of a speaker that it names. If given, `cosine`
            and `context_cosine` of memories with a speaker are relative to it, those of other memories to `vector`.
        parts: names from `batch.PARTS` to return. The windows need terms; the neighbours are the context of a memory.
        terms: distinct terms of the query; if any, `Batch.lexicon` is returned.
        asked: numbers and names of the query, as distinctions; `Batch.asked` has their codes.
        rivals: terms and distinctions by which a memory is of another thing, or lacks an answer; `Batch.rivals` has
            their rows.
        names: names that the query may contain, in normal form; `Batch.entities.of_query` are the known ones.
        speakers: names of speakers, in normal form. `speaker_named` is true for memories of a speaker that one of them
            means (see `Store.speakers`), and for memories without a speaker that have one of them as an entity.
        is_of_user: whether the query is about the user, so that `speaker_named` is true for memories without a speaker
            too, if there are any with one.
        correctable: terms that may be misspelt. Where no visible memory contains such a term, a store searches for the
            `text.similar_term` that one contains, if any. Its frequencies are then multiplied by
            `batch.CORRECTED`. Memories that have expired at `now` do not count, except in searches by indexes.
        corrections: term -> the similar term to search for, as found by a store that searches in several steps.
        candidates, ids, near: see above; None for no such limit.
        reach: for a store that searches by indexes when many memories are visible: the number of nearest memories, and
            of memories with rare terms, that suffice. None: every candidate is needed.
        latest: whether such a store also returns as many of the latest memories, whatever their cosine.
        period: the time of which such a store also returns as many of the memories; None for no such time.
        pruning: bounds by which the store may leave out memories that score too little; None: every candidate is
            needed. A store may ignore it.
        outside: whether a store with an index in memory also returns a few of the memories with a vector that pass
            `filter` and that only `scope.widened()` shows, those that fit the query best. A server's store returns
            none.
    """

    scope: Scope
    now: datetime
    filter: Filter = Filter()
    as_of: datetime | None = None
    columns: frozenset[str] = frozenset()
    parts: frozenset[str] = frozenset()
    vector: Vectors32 | None = None
    first_person_vector: Vectors32 | None = None
    terms: tuple[str, ...] = ()
    correctable: frozenset[str] = frozenset()
    corrections: Mapping[str, str] = field(default_factory=dict)
    asked: tuple[str, ...] = ()
    rivals: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    speakers: tuple[str, ...] = ()
    is_of_user: bool = False
    candidates: int | None = None
    ids: tuple[str, ...] | None = None
    near: Near | None = None
    latest: bool = False
    reach: int | None = None
    period: TimeCue | None = None
    pruning: Pruning | None = None
    outside: bool = False
