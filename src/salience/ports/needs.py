"""What a store is asked for, and what ranking has to know besides."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from salience.batch import Vectors32
from salience.ports.models import Calibration
from salience.records import Filter, Intent, Scope


@dataclass(frozen=True, slots=True, eq=False)
class Near:
    """Ask for the memories whose cosine to any of `vectors` (float32[m, d], unit rows) is above `above` (raw)."""

    vectors: Vectors32
    above: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Need:
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
        names: casefolded names that the query may mean; `Batch.entities.of_query` are those known among them.
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

    @property
    def wanted(self) -> int:
        """How many of the best ranking is to return."""
        return self.limit if self.depth is None else self.depth
