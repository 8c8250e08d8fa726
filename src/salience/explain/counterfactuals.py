"""Counterfactuals: the one change that would return a memory, found by ranking again under each candidate change."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from salience.batch import COLUMNS, Batch
from salience.explain.trace import (
    OUTRANKED,
    RETURNED,
    Gather,
    Trace,
    cosine_rank,
    every_candidate,
    row_of,
    verdicts,
)
from salience.ports import Need
from salience.recall import reach_for
from salience.records.ids import short_id

SMALL: Final = 4
"""Multiple of the limit up to which a larger limit counts as a small change."""
TRIES: Final = 5
"""Limits to try in turn, since more candidates or seeds may move the memory down."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A memory and a ranking that a change is applied to.

    Attributes:
        trace: the ranking.
        id: the memory; it may be missing from the ranking's candidates.
        gather: returns the batch for a need, as the recall does.
    """

    trace: Trace
    id: str
    gather: Gather

    @property
    def row(self) -> int:
        """The row of the memory, which is in the ranking."""
        row = self.trace.row(self.id)
        if row is None:
            raise AssertionError("the memory is not in the ranking")
        return row

    @property
    def returned(self) -> bool:
        """Whether the memory is in the answer."""
        return self.standing[0] == 0

    @property
    def standing(self) -> tuple[int, int]:
        """The memory's standing, smaller is better: (0 returned, 1 outranked or 2 neither, rank)."""
        row = self.trace.row(self.id)
        if row is None:
            return 2, 0
        found = verdicts(self.trace)
        level = {RETURNED: 0, OUTRANKED: 1}.get(found.stage[row], 2)
        return level, int(found.rank[row]) if level < 2 else 0

    def under(self, **columns: float) -> Case:
        """Return the case with other values of the memory in these columns."""
        changed = {name: self.trace.batch[name].copy() for name in columns}
        for name, column in changed.items():
            column[self.row] = columns[name]
        return self.ranking(self.trace.batch.with_columns(**changed), self.trace.need)

    def ranking(self, batch: Batch, need: Need) -> Case:
        """Return the case with another batch or need."""
        return replace(self, trace=Trace.of(self.trace.profile, batch, need, self.trace.states[0].tokens))


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """One change: the subject of a sentence, the case under it, and arguments as in `Explanation.change`."""

    words: str
    case: Case
    arguments: Mapping[str, Any] = field(default_factory=dict)


Counterfactual = Mapping[str, Any]
"""The fields `counterfactual` and `change` of `Explanation`; empty if nothing helps."""
NONE: Final[Counterfactual] = {}


def counterfactual(case: Case, stage: str) -> Counterfactual:
    """Return the first change that would return the memory, else the first that would rank it higher.

    `stage` is the outcome of the memory, one of `OUTCOMES`.
    """
    before, higher = case.standing, NONE
    for change in _changes(case, stage):
        if change.case.standing >= before:
            continue
        if change.case.returned:
            return effect(change, "put" if case.returned else "return")
        higher = higher or effect(change)
    return higher


def effect(change: Change, verb: str = "return") -> Counterfactual:
    """Return the change and, as a sentence, the rank of the memory after it; `NONE` if the memory is not ranked."""
    level, rank = change.case.standing
    if level == 2:
        return NONE
    past = f"put it at rank {rank}, past the limit of {change.case.trace.need.wanted}"
    words = f"{change.words} would {past if level else f'{verb} it at rank {rank}'}."
    return {"counterfactual": words, "change": change.arguments}


def _changes(case: Case, stage: str) -> Iterator[Change]:
    """Yield the changes to try for an outcome, the simplest first."""
    small = min(SMALL * case.trace.need.limit, case.trace.profile.max_limit)
    match stage:
        case "returned":
            yield from _full_weight(case)
        case "outranked":
            yield from _full_weight(case)
            yield from _limits(case, small)
            yield from _more_importance(case)
            yield from _limits(case, case.trace.profile.max_limit)
        case "candidates":
            yield from _more_candidates(case, small)
        case "expired":
            yield Change("No time to live", case.under(expires_at=math.inf), {"ttl": None})
        case "superseded":
            batch = case.trace.batch
            links = np.where(batch["supersedes"] == batch["code"][case.row], -1, batch["supersedes"])
            alone = case.ranking(batch.with_columns(supersedes=links), case.trace.need)
            yield Change(f"Not being superseded by {_other(case)}", alone)
        case "outdated":
            yield Change("Not being replaced", case.under(successor=-1))
        case "same_fact":
            yield Change("No fact_key", case.under(fact=-1), {"fact_key": None})
        case "importance_floor":
            yield from _more_importance(case)
        case "similarity_floor":
            yield from _lower_min_score(case)
        case "shortlist":
            yield from _full_weight(case)
            yield from _more_importance(case)
        case "nonzero":
            yield from _full_weight(case)
            yield from _more_importance(case)
        case "threshold" | "cut_off":
            yield from _full_weight(case)
            yield from _lower_min_score(case)
            yield from _more_importance(case)
        case "near_duplicate":  # the statistics of terms are left as they are
            others = np.delete(np.arange(len(case.trace.batch)), case.trace.ranked.by[case.row])
            without = case.ranking(case.trace.batch.take(others), case.trace.need)
            yield Change(f"Forgetting {_other(case)}", without, {"forget": _other_id(case)})


def _other(case: Case) -> str:
    return short_id(_other_id(case))


def _other_id(case: Case) -> str:
    return str(case.trace.batch.ids[case.trace.ranked.by[case.row]])


def _full_weight(case: Case) -> Iterator[Change]:
    """Yield the neutral weight, if the memory's is less."""
    neutral, weights = COLUMNS["weight"].neutral, case.trace.batch.columns.get("weight")
    if weights is not None and (weight := float(weights[case.row])) < neutral:
        words = f"Weight {neutral:.1f} instead of {weight:.3g}"
        yield Change(words, case.under(weight=neutral), {"weight": neutral})


def _more_importance(case: Case) -> Iterator[Change]:
    """Yield the least importance, in hundredths, that returns the memory; 1 if none does."""
    column = case.trace.batch.columns.get("importance")
    if column is not None and (importance := float(column[case.row])) < 1:
        steps = range(math.floor(importance * 100) + 1, 101)
        value = _first(steps, lambda step: case.under(importance=step / 100).returned) / 100
        words = f"Importance {value:g} instead of {importance:.3g}"
        yield Change(words, case.under(importance=value), {"importance": value})


def _lower_min_score(case: Case) -> Iterator[Change]:
    """Yield the largest `min_score`, in thousandths, under which the memory is ranked; 0 if none does.

    A `min_score` from the caller also replaces the profile's cut-off.
    """
    batch, need = case.trace.batch, case.trace.need
    bound = float(case.trace.ranked.scores[case.row]) if need.min_score is None else need.min_score
    steps = range(math.ceil(bound * 1000) - 1, -1, -1)

    def under(step: int) -> Case:
        return case.ranking(batch, replace(need, min_score=step / 1000))

    if steps:
        value = _first(steps, lambda step: under(step).standing[0] < 2)
        yield Change(f"A min_score of {value / 1000:g}", under(value), {"min_score": value / 1000})


def _first(steps: range, holds: Callable[[int], bool]) -> int:
    """Return the first step for which `holds`, by bisection, else the last step."""
    return steps[min(bisect_left(steps, True, key=holds), len(steps) - 1)]


def _limits(case: Case, most: int) -> Iterator[Change]:
    """Yield the first limit tried that returns the memory, if it is at most `most`.

    The first try is the memory's rank. A larger limit adds candidates, seeds and duplicates that may move the memory;
    its new rank is then tried.
    """
    for _ in range(TRIES):
        if case.returned:
            limit = case.trace.need.limit
            yield Change(f"A limit of {limit}", case, {"limit": limit})
            return
        level, rank = case.standing
        if level != 1 or rank > most:
            return
        case = _with_limit(case, rank)


def _with_limit(case: Case, limit: int) -> Case:
    """Return the case with another limit and its candidates."""
    old = case.trace.need
    reach = old.reach and max(old.reach, reach_for(limit))
    need = replace(old, limit=limit, candidates=case.trace.profile.candidate_count(limit), reach=reach)
    is_same = (need.candidates, reach) == (old.candidates, old.reach)
    return case.ranking(case.trace.batch if is_same else case.gather(need), need)


def _more_candidates(case: Case, most: int) -> Iterator[Change]:
    """Yield a limit whose candidates hold the memory and that returns it; then the ranking of every memory.

    Yield nothing if the vector index of a large store left the memory out.
    """
    if case.trace.need.candidates is None:
        return
    need, profile = every_candidate(case.trace.need), case.trace.profile
    all_candidates = case.gather(need)
    row = row_of(all_candidates, case.id)
    if row is None:  # deleted in the meantime
        return
    limits = range(case.trace.need.limit + 1, most + 1)
    first = bisect_left(limits, cosine_rank(all_candidates, row), key=lambda limit: profile.candidate_count(limit) or 0)
    if first < len(limits):
        yield from _limits(_with_limit(case, limits[first]), most)
    yield Change("A profile without a list of candidates", case.ranking(all_candidates, need))
