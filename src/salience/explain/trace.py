"""A ranking with the state before each stage, and the outcome for each row of the batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from salience.batch import Batch, Codes, Floats, Rows
from salience.ports import Need
from salience.rank.criteria import Criteria
from salience.rank.profile import Profile
from salience.rank.run import advanced
from salience.rank.stages import ALIVE, SCORE, STAGES, State, TokenReader

RETURNED: Final = "returned"
OUT_OF_SCOPE: Final = "out_of_scope"
FORGOTTEN: Final = "forgotten"
NOT_STORED: Final = "not_stored"
FILTERED: Final = "filtered"
CANDIDATES: Final = "candidates"
REPLACED: Final = "replaced"
TRIM: Final = "trim"
OUTRANKED: Final = "outranked"
"""The outcome of a memory that `trim` drops."""
RERANK: Final = "rerank"
OUTCOMES: Final = (
    OUT_OF_SCOPE,
    FORGOTTEN,
    NOT_STORED,
    FILTERED,
    CANDIDATES,
    *(name for name in STAGES if name not in (SCORE, "spread", TRIM)),
    OUTRANKED,
    RERANK,
    RETURNED,
)
"""The values of `Explanation.stage`."""
Outcome = Literal["passed", "fell", "revived", "not reached"]
Gather = Callable[[Need], Batch]


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """A ranking, stage by stage.

    Attributes:
        states: the state before each stage of the profile, then the state after the last stage.
        ranked: the state after the last stage, as `rank` returns it.
    """

    states: tuple[State, ...]
    ranked: State

    @classmethod
    def of(cls, profile: Profile, batch: Batch, criteria: Criteria, tokens: TokenReader | None = None) -> Trace:
        """Rank `batch` by the same steps as `rank`."""
        start = State.start(profile, batch, criteria, tokens)
        states = tuple(accumulate(range(len(profile.stages)), advanced, initial=start))
        return cls(states, states[-1])

    @property
    def profile(self) -> Profile:
        """The profile that ranked."""
        return self.states[0].profile

    @property
    def batch(self) -> Batch:
        """The ranked batch."""
        return self.states[0].batch

    @property
    def criteria(self) -> Criteria:
        """The query as read."""
        return self.states[0].criteria

    def row(self, id: str) -> int | None:
        """Return the row of a memory; None if it is not in the batch."""
        return row_of(self.batch, id)

    @property
    def first(self) -> int | None:
        """The row that ranks first, whatever the limit; None if no row is ranked."""
        state = self.states[-2] if self.profile.stages[-1] == TRIM else self.ranked
        return int(state.rows[0]) if len(state.rows) else None

    def returned(self, row: int) -> bool:
        """Return whether the row is in the answer."""
        return bool(self.ranked.dropped_at[row] == ALIVE)

    def place(self, row: int, step: int) -> int | None:
        """Return the rank, from 1, of a row before stage number `step`; None if it was dropped or is not scored yet."""
        state = self.states[step]
        places = np.flatnonzero(state.rows == row)
        return int(places[0]) + 1 if state.parts and len(places) else None

    def outcome(self, row: int, step: int) -> Outcome:
        """Return the effect of stage number `step` on a row."""
        before, after = (bool(state.dropped_at[row] == ALIVE) for state in self.states[step : step + 2])
        if before:
            return "passed" if after else "fell"
        return "revived" if after else "not reached"


def row_of(batch: Batch, id: str) -> int | None:
    """Return the row of a memory; None if it is not in the batch."""
    row = int(np.searchsorted(batch.ids, id)) if len(batch) else 0
    return row if row < len(batch) and batch.ids[row] == id else None


def every_candidate(need: Need) -> Need:
    """Return the need without limits on candidates, with cosines."""
    return replace(need, candidates=None, reach=None, columns=need.columns | {"cosine"})


def cosine_rank(batch: Batch, row: int) -> int:
    """Return the rank, from 1, of a row by cosine, ties by id, as candidates are chosen."""
    cosine = batch["cosine"]
    return 1 + int((cosine > cosine[row]).sum()) + int((cosine[:row] == cosine[row]).sum())


@dataclass(frozen=True, slots=True, eq=False)
class Verdicts:
    """The outcome for every row of a trace.

    Attributes:
        stage: object[n], one of `OUTCOMES`.
        rank: int64[n], the place, from 1, among the scored rows before the stage that dropped the row, or in the
            answer; 0 for a row that was dropped before scoring.
        score: float64[n].
        by: int64[n], the row of the other memory that decided, as in `Explanation.by`; -1 for none.
    """

    stage: NDArray[np.object_]
    rank: Codes
    score: Floats
    by: Codes


def verdicts(trace: Trace) -> Verdicts:
    """Return the outcome for every row, as the ranking recorded it."""
    ranked, stages, dropped_at = trace.ranked, trace.profile.stages, trace.ranked.dropped_at
    names = [OUTRANKED if name == TRIM else name for name in stages]
    by_step = np.array([*names, RETURNED], object)  # a returned row's fate is -1, and so the last of these
    ranks = np.where(dropped_at == ALIVE, _places(ranked.rows, len(dropped_at)), 0)
    for step in range(stages.index(SCORE) + 1, len(stages)):
        ranks = np.where(dropped_at == step, _places(trace.states[step].rows, len(dropped_at)), ranks)
    by = ranked.by.copy()
    for row, link in ranked.spread.items():
        if dropped_at[row] == ALIVE:
            by[row] = link.parent
    if len(ranked.rows):
        by[dropped_at == len(stages) - 1] = ranked.rows[-1]
    return Verdicts(by_step[dropped_at], ranks, ranked.scores, by)


def _places(rows: Rows, count: int) -> Codes:
    """Return int64[count], the place, from 1, of each row in `rows`; 0 for other rows."""
    places = np.zeros(count, np.int64)
    places[rows] = np.arange(1, len(rows) + 1)
    return places
