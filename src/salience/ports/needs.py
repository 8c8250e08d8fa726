"""What a store is asked for, and what ranking has to know besides."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np

from salience.batch import Floats, Vectors32
from salience.ports.models import Calibration
from salience.records import Filter, Intent, Replaceable, Scope


@dataclass(frozen=True, slots=True, eq=False)
class Near:
    """Ask for the memories whose cosine to any of `vectors` (float32[m, d], unit rows) is above `above` (raw)."""

    vectors: Vectors32
    above: float


@dataclass(frozen=True, slots=True)
class Matching:
    """A lexical channel of a score: BM25 of these parameters as a share of what the terms tell, times `weight`."""

    weight: float
    k1: float
    b: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pruning:
    """Bounds of a score, by which a store may leave out memories that score too little.

    A score is the sum of the known channels, each its value in [0, 1] times its weight, and of the rest, times the
    factors. The store says in `Batch.floor` which score each memory that it leaves out is under.

    Attributes:
        keep: how many of the best are needed.
        least: bring all that may score this; None: the store chooses, so that about `keep` of the best come.
        similarity, context_similarity, speaker, entity: weights of these channels.
        lexical, context_lexical: these channels; None for one that the profile has not.
        rest: the most that all other summed channels add.
        most: the most that the product of the factors is.
        drops: which memories do not count: `expired`, or `outdated` (another memory is its `successor`).
        moments: whether to bring `Batch.moments`.
    """

    keep: int
    least: float | None = None
    similarity: float = 0.0
    context_similarity: float = 0.0
    speaker: float = 0.0
    entity: float = 0.0
    lexical: Matching | None = None
    context_lexical: Matching | None = None
    rest: float = 0.0
    most: float = 1.0
    drops: frozenset[str] = frozenset()
    moments: bool = False

    @property
    def total(self) -> float:
        """The sum of all weights."""
        matching = sum(channel.weight for channel in (self.lexical, self.context_lexical) if channel is not None)
        return self.similarity + self.context_similarity + self.speaker + self.entity + matching + self.rest


@dataclass(frozen=True, kw_only=True, eq=False)
class Need(Replaceable):
    """What a store has to bring, and what ranking has to know besides.

    Candidates are the live memories that are visible in `scope` and pass `filter`; of these, those named by `ids`,
    those `near` some vectors, or the `candidates` nearest to `vector` (ties by id) with all that have no vector yet.
    Expired and superseded memories are among them: to drop those is a matter of ranking.

    With `as_of`, all of this is as it stood at that instant: each memory in the version that held then (`changed_at` is
    not after it, that of the next version is), with the recall counters that it had; what was forgotten only later is
    there, what was stored later is not. `turns_since_activation` is then inf for all.

    The context of a memory are the memories before and after it in its session, in the order of `created_at`, then
    `turn`, then id: those that are live, visible in `scope` and not expired at `now`, whether they pass `filter` or
    not. It is read anew each time, so that a turn that comes late, an edit and a forgotten neighbour are all heeded.
    An expired memory, and one of no session, is alone.

    The `successor` of a memory is the one that supersedes it, else the one of the same fact that was updated last (of
    two at one instant, the one with the greater id): among those that are live, visible and not expired, whether they
    pass `filter` or not. Of several that supersede it, it is the one with the greatest id.

    Attributes:
        columns: names from `batch.COLUMNS` to bring.
        vector: unit vector of the query, float32[d]; None leaves `cosine` at 0.
        terms: distinct terms of the query; not empty asks for `Batch.lexicon`.
        voice: unit vector of the query as a speaker whom it names would put it; `cosine` and `context_cosine` of a
            memory that somebody said are to it, if it is given, those of others to `vector`.
        windows: whether to bring `Batch.windows` too, if there are terms.
        names: names that the query may mean, in normal form; `Batch.entities.of_query` are those known among them.
        speakers: names of those who speak, in normal form; `speaker_named` tells the memories of a speaker whom one
            of them means (see `Store.speakers`), and those that nobody said and whose entities hold one of them.
        anchor: those of `terms` that name the event which bounds the query's time (see `TimeCue`).
        entities, vectors, distinctions: whether to bring `Batch.entities`, `Batch.vectors`, `Batch.distinctions`.
        as_of: the instant whose state is asked for; None for the present one.
        reach: how many of the nearest, and how many of those that hold the rarer terms, may stand for all candidates in
            a store that has indexes, where more are visible than it has at hand; None: every candidate is to come.
        latest: whether such a store is to bring as many of those stored last too, however far from the query they are.
        now, limit, min_score, intent: for ranking.
        depth: how many of the best ranking is to return where a reranker chooses among them; None: as many as `limit`.
        calibration: what cosines mean under the engine's embedder; `calibrated` asks for similarities on its scale.
        pruning: which memories may be left out, since they score too little; None: every candidate is to come. A store
            that knows no better way brings them all.
    """

    scope: Scope
    now: datetime
    filter: Filter = Filter()
    as_of: datetime | None = None
    columns: frozenset[str] = frozenset()
    vector: Vectors32 | None = None
    voice: Vectors32 | None = None
    terms: tuple[str, ...] = ()
    windows: bool = False
    names: tuple[str, ...] = ()
    speakers: tuple[str, ...] = ()
    anchor: tuple[str, ...] = ()
    entities: bool = False
    vectors: bool = False
    distinctions: bool = False
    candidates: int | None = None
    ids: tuple[str, ...] | None = None
    near: Near | None = None
    latest: bool = False
    reach: int | None = None
    limit: int = 5
    depth: int | None = None
    min_score: float | None = None
    intent: Intent = Intent()
    calibration: Calibration | None = None
    calibrated: bool = False
    pruning: Pruning | None = None

    def related(self, cosine: Floats) -> Floats:
        """Return what cosines mean, [0, 1]: as they are, below 0 as 0; or on the calibration's scale if asked for."""
        clipped: Floats = np.minimum(np.maximum(cosine, 0.0), 1.0)
        if not self.calibrated or self.calibration is None:
            return clipped
        return self.calibration.related(clipped)

    @property
    def wanted(self) -> int:
        """How many of the best ranking is to return."""
        return self.limit if self.depth is None else self.depth
