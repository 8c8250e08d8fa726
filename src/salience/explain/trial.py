"""One ranking with every stage of it kept, and what became of each row of the batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from salience.batch import Batch, Codes, Floats, Rows
from salience.ports import Need
from salience.rank.profile import Profile
from salience.rank.run import advanced
from salience.rank.stages import ALIVE, SCORE, STAGES, State

RETURNED: Final = "returned"
OUT_OF_SCOPE: Final = "out_of_scope"
FORGOTTEN: Final = "forgotten"
NOT_STORED: Final = "not_stored"
FILTERED: Final = "filtered"
CANDIDATES: Final = "candidates"
OUTDATED: Final = "outdated"
TRIM: Final = "trim"
OUTRANKED: Final = "outranked"
"""What became of a memory that fell at `trim`."""
RERANK: Final = "rerank"
FATES: Final = (
    OUT_OF_SCOPE,
    FORGOTTEN,
    NOT_STORED,
    FILTERED,
    CANDIDATES,
    *(name for name in STAGES if name not in (SCORE, "spread", "update", TRIM)),
    OUTRANKED,
    RERANK,
    RETURNED,
)
"""Everything that can become of a memory: the values of `Explanation.stage`."""
Outcome = Literal["passed", "fell", "revived", "not reached"]
Gather = Callable[[Need], Batch]


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """A batch and what each stage left of it.

    Attributes:
        states: the state before each stage of the profile, and behind them what the last stage left.
        ranked: what the last stage left, as `rank` returns it.
    """

    states: tuple[State, ...]
    ranked: State

    @classmethod
    def of(cls, profile: Profile, batch: Batch, need: Need) -> Trial:
        """Return the trial of `batch`: the same steps that `rank` takes."""
        start = State.start(profile, batch, need)
        states = tuple(accumulate(range(len(profile.stages)), advanced, initial=start))
        return cls(states, states[-1])

    @property
    def profile(self) -> Profile:
        """The profile that ranked."""
        return self.states[0].profile

    @property
    def batch(self) -> Batch:
        """What was ranked."""
        return self.states[0].batch

    @property
    def need(self) -> Need:
        """What the batch was gathered for."""
        return self.states[0].need

    def row(self, id: str) -> int | None:
        """Return the row of a memory; None if it is not in the batch."""
        return row_of(self.batch, id)

    def returned(self, row: int) -> bool:
        """Return whether the answer holds the row."""
        return bool(self.ranked.fates[row] == ALIVE)

    def place(self, row: int, step: int) -> int | None:
        """Return the place, from 1, of a row among those with a score that stage number `step` meets; None if none."""
        state = self.states[step]
        places = np.flatnonzero(state.rows == row)
        return int(places[0]) + 1 if state.parts and len(places) else None

    def outcome(self, row: int, step: int) -> Outcome:
        """Return what stage number `step` did to a row."""
        before, after = (bool(state.fates[row] == ALIVE) for state in self.states[step : step + 2])
        if before:
            return "passed" if after else "fell"
        return "revived" if after else "not reached"


def row_of(batch: Batch, id: str) -> int | None:
    """Return the row of a memory; None if it is not in the batch."""
    row = int(np.searchsorted(batch.ids, id)) if len(batch) else 0
    return row if row < len(batch) and batch.ids[row] == id else None


def listless(need: Need) -> Need:
    """Return the need of every memory that passes the filter, with cosines, however many candidates were asked for."""
    return replace(need, candidates=None, reach=None, columns=need.columns | {"cosine"})


def nearness(batch: Batch, row: int) -> int:
    """Return the place, from 1, of a row by falling cosine, ties by id, as candidates are taken."""
    cosine = batch["cosine"]
    return 1 + int((cosine > cosine[row]).sum()) + int((cosine[:row] == cosine[row]).sum())


@dataclass(frozen=True, slots=True, eq=False)
class Verdicts:
    """What became of every row of a trial.

    Attributes:
        stage: object[n], one of `FATES`.
        rank: int64[n], the place, from 1, among those with a score that met the stage at which the row fell, or in the
            answer; 0 for a row that fell before there were scores.
        score: float64[n].
        by: int64[n], the row of the other memory that decided, as in `Explanation.by`; -1 for none.
    """

    stage: NDArray[np.object_]
    rank: Codes
    score: Floats
    by: Codes


def verdicts(trial: Trial) -> Verdicts:
    """Return what became of every row, as ranking noted it."""
    names = [OUTRANKED if name == TRIM else name for name in trial.profile.stages]
    by_fate = np.array([*names, RETURNED], object)  # a returned row's fate is -1, and so the last of these
    return Verdicts(by_fate[trial.ranked.fates], _ranks(trial), trial.ranked.scores, _others(trial))


def _ranks(trial: Trial) -> Codes:
    fates, stages = trial.ranked.fates, trial.profile.stages
    ranks = np.zeros(len(trial.batch), np.int64)
    for step in range(stages.index(SCORE) + 1, len(stages)):
        there = _places(trial.states[step].rows, len(ranks))
        ranks = np.where(fates == step, there, ranks)
    return np.where(fates == ALIVE, _places(trial.ranked.rows, len(ranks)), ranks)


def _places(rows: Rows, count: int) -> Codes:
    """Return int64[count], the place of each row in `rows`, from 1; 0 where it is not among them."""
    places = np.zeros(count, np.int64)
    places[rows] = np.arange(1, len(rows) + 1)
    return places


def _others(trial: Trial) -> Codes:
    ranked, by = trial.ranked, trial.ranked.by.copy()
    for row, link in ranked.spread.items():
        if ranked.fates[row] == ALIVE:
            by[row] = link.parent
    if len(ranked.rows):
        by[ranked.fates == len(trial.profile.stages) - 1] = ranked.rows[-1]
    return by
