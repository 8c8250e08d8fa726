"""The one change that would have a memory returned: each is tried by ranking again under it."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from salience.batch import COLUMNS, Batch
from salience.explain.trial import CANDIDATES, OUTRANKED, RETURNED, Gather, Trial, listless, nearness, row_of, verdicts
from salience.ports import Need
from salience.recall import reach_for
from salience.records.ids import short_id

SMALL: Final = 4
"""Times the limit up to which asking for more counts as a small change."""
TRIES: Final = 5
"""How often a limit is raised anew, where more candidates or seeds move the memory down."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A memory that a change is sought for.

    Attributes:
        trial: the ranking as it went.
        id: the memory; a list of candidates may have kept it out of the ranking.
        gather: brings the batch for a need, as the recall does.
    """

    trial: Trial
    id: str
    gather: Gather

    @property
    def row(self) -> int:
        """The row of the memory, which the ranking met."""
        row = self.trial.row(self.id)
        if row is None:
            raise AssertionError("a memory that was not ranked has no row to change")
        return row

    @property
    def returned(self) -> bool:
        """Whether the answer holds the memory."""
        return self.standing[0] == 0

    @property
    def standing(self) -> tuple[int, int]:
        """How well the memory does, smaller being better: (0 returned, 1 outranked, 2 neither; its rank)."""
        row = self.trial.row(self.id)
        if row is None:
            return 2, 0
        found = verdicts(self.trial)
        level = {RETURNED: 0, OUTRANKED: 1}.get(found.stage[row], 2)
        return level, int(found.rank[row]) if level < 2 else 0

    def under(self, **columns: float) -> Case:
        """Return the case in which the memory holds other values in these columns."""
        changed = {name: self.trial.batch[name].copy() for name in columns}
        for name, column in changed.items():
            column[self.row] = columns[name]
        return self.ranking(self.trial.batch.with_columns(**changed), self.trial.need)

    def ranking(self, batch: Batch, need: Need) -> Case:
        """Return the case in which the profile ranks another batch, or for another need."""
        return replace(self, trial=Trial.of(self.trial.profile, batch, need))


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """One change, as the subject of a sentence, and the case under it."""

    words: str
    case: Case


Lever = Callable[[Case], Iterator[Change]]
"""The changes to try for a case; none where it cannot help."""


def counterfactual(case: Case, stage: str) -> str | None:
    """Return, as a sentence, the first change that would return the memory, else the first that would rank it higher.

    Args:
        case: the memory and its ranking.
        stage: what became of it, one of `FATES`.
    """
    before, higher = case.standing, None
    for change in (change for lever in LEVERS.get(stage, ()) for change in lever(case)):
        if change.case.standing >= before:
            continue
        if change.case.returned:
            return effect(change, "put" if case.returned else "return")
        higher = higher or effect(change)
    return higher


def effect(change: Change, verb: str = "return") -> str | None:
    """Return, as a sentence, where the change puts the memory; None if nowhere in the order that the limit cuts."""
    level, rank = change.case.standing
    if level == 0:
        return f"{change.words} would {verb} it at rank {rank}."
    if level == 1:
        return f"{change.words} would put it at rank {rank}, past the {change.case.trial.need.wanted} asked for."
    return None


def full_weight(case: Case) -> Iterator[Change]:
    """Yield the memory's weight at its neutral value, if it is less."""
    neutral, held = COLUMNS["weight"].neutral, case.trial.batch.columns.get("weight")
    if held is not None and (weight := float(held[case.row])) < neutral:
        yield Change(f"Weight {neutral:.1f} instead of {weight:.3g}", case.under(weight=neutral))


def more_importance(case: Case) -> Iterator[Change]:
    """Yield the least importance, in hundredths, that returns the memory; the greatest of all where none does."""
    held = case.trial.batch.columns.get("importance")
    if held is not None and (importance := float(held[case.row])) < 1:
        steps = range(math.floor(importance * 100) + 1, 101)
        value = _first(steps, lambda step: case.under(importance=step / 100).returned) / 100
        yield Change(f"Importance {value:g} instead of {importance:.3g}", case.under(importance=value))


def lower_min_score(case: Case) -> Iterator[Change]:
    """Yield the largest least score, in thousandths, under which the memory stays in the running; 0 where none does.

    A least score that the caller gives also takes the place of the profile's own cut-off.
    """
    batch, need = case.trial.batch, case.trial.need
    held = float(case.trial.ranked.scores[case.row]) if need.min_score is None else need.min_score
    steps = range(math.ceil(held * 1000) - 1, -1, -1)

    def under(step: int) -> Case:
        return case.ranking(batch, replace(need, min_score=step / 1000))

    if steps:
        value = _first(steps, lambda step: under(step).standing[0] < 2)
        yield Change(f"A min_score of {value / 1000:g}", under(value))


def _first(steps: range, holds: Callable[[int], bool]) -> int:
    """Return the first step from which on something holds, by halving; the last where it never does."""
    return steps[min(bisect_left(steps, True, key=holds), len(steps) - 1)]


def small_limit(case: Case) -> Iterator[Change]:
    """Yield a limit that returns the memory, if one does that is not much larger."""
    yield from _limits(case, _small(case))


def any_limit(case: Case) -> Iterator[Change]:
    """Yield a limit that returns the memory, if one does that the profile allows."""
    yield from _limits(case, case.trial.profile.max_limit)


def _small(case: Case) -> int:
    return min(SMALL * case.trial.need.limit, case.trial.profile.max_limit)


def _limits(case: Case, most: int) -> Iterator[Change]:
    """Yield the first limit tried that returns the memory.

    That is the memory's rank; with a larger limit come candidates, seeds and duplicates that may move it, so its new
    rank is tried next.
    """
    for _ in range(TRIES):
        if case.returned:
            yield Change(f"A limit of {case.trial.need.limit}", case)
            return
        level, rank = case.standing
        if level != 1 or rank > most:
            return
        case = asked_for(case, rank)


def asked_for(case: Case, limit: int) -> Case:
    """Return the case with another limit, on the candidates that it brings."""
    old = case.trial.need
    reach = old.reach and max(old.reach, reach_for(limit))
    need = replace(old, limit=limit, candidates=case.trial.profile.candidate_count(limit), reach=reach)
    is_same = (need.candidates, reach) == (old.candidates, old.reach)
    return case.ranking(case.trial.batch if is_same else case.gather(need), need)


def more_candidates(case: Case) -> Iterator[Change]:
    """Yield a limit whose candidates hold the memory and that returns it; then the ranking of every memory.

    Nothing where no list kept the memory out, but the indexes of a store with more memories than it ranks one by one.
    """
    if case.trial.need.candidates is None:
        return
    need, profile, most = listless(case.trial.need), case.trial.profile, _small(case)
    everyone = case.gather(need)
    row = row_of(everyone, case.id)
    if row is None:  # it went away meanwhile
        return
    limits = range(case.trial.need.limit + 1, most + 1)
    first = bisect_left(limits, nearness(everyone, row), key=lambda limit: profile.candidate_count(limit) or 0)
    if first < len(limits):
        yield from _limits(asked_for(case, limits[first]), most)
    yield Change("A profile without a list of candidates", case.ranking(everyone, need))


def unexpired(case: Case) -> Iterator[Change]:
    """Yield the memory without a time to live."""
    yield Change("No time to live", case.under(expires_at=math.inf))


def unsuperseded(case: Case) -> Iterator[Change]:
    """Yield the memory with nothing that supersedes it."""
    batch = case.trial.batch
    links = np.where(batch["supersedes"] == batch["code"][case.row], -1, batch["supersedes"])
    alone = case.ranking(batch.with_columns(supersedes=links), case.trial.need)
    yield Change(f"Not being superseded by {_other(case)}", alone)


def lasting(case: Case) -> Iterator[Change]:
    """Yield the memory with nothing that holds in its place."""
    yield Change("Nothing newer in its place", case.under(successor=-1))


def without_fact(case: Case) -> Iterator[Change]:
    """Yield the memory without a fact_key."""
    yield Change("No fact_key", case.under(fact=-1))


def without_keeper(case: Case) -> Iterator[Change]:
    """Yield the batch without the memory that absorbed this one; the statistics of terms are left as they are."""
    others = np.delete(np.arange(len(case.trial.batch)), case.trial.ranked.by[case.row])
    yield Change(f"Forgetting {_other(case)}", case.ranking(case.trial.batch.take(others), case.trial.need))


def _other(case: Case) -> str:
    return short_id(str(case.trial.batch.ids[case.trial.ranked.by[case.row]]))


LEVERS: Final[Mapping[str, tuple[Lever, ...]]] = {
    RETURNED: (full_weight,),
    OUTRANKED: (full_weight, small_limit, more_importance, any_limit),
    CANDIDATES: (more_candidates,),
    "expired": (unexpired,),
    "superseded": (unsuperseded,),
    "outdated": (lasting,),
    "same_fact": (without_fact,),
    "importance_floor": (more_importance,),
    "similarity_floor": (lower_min_score,),
    "nonzero": (full_weight, more_importance),
    "threshold": (full_weight, lower_min_score, more_importance),
    "cut_off": (full_weight, lower_min_score, more_importance),
    "near_duplicate": (without_keeper,),
}
"""What became of a memory -> what to try, the simplest first."""
