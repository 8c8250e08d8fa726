"""Bounds of the scores of memories outside the candidates: what a store may leave out, whether an answer is exact."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from salience.batch import COLUMNS, Batch
from salience.ports import EDGE, ColumnBound, Matching, Pruning, WindowBound
from salience.rank.criteria import Criteria
from salience.rank.profile import Profile, Term
from salience.rank.signals import HOUR, SIGNALS, period_bounds
from salience.rank.stages import ALIVE, LATE, SHORTLIST, State, cut_off_scores, without_speaker
from salience.records import EMPTY_PERIOD, TIERS

LIFTING: Final = ("spread",)
"""Stages that can give any memory more than the score of its signals."""
CLEARING: Final = (
    "expired", "superseded", "replaced", "importance_floor", "same_fact", "near_duplicate", "same_statement",
)  # fmt: skip
"""Stages that drop a memory however well it fits the query."""
PRUNABLE: Final = (
    "expired",
    "similarity_floor",
    SHORTLIST,
    "score",
    "replaced",
    "cut_off",
    "threshold",
    "nonzero",
    "near_duplicate",
    "same_statement",
    "trim",
)
"""Stages, in this order, whose result does not depend on memories that score too little."""
KNOWN: Final = ("similarity", "context_similarity", "speaker", "entity")
"""Channels that a store bounds by their weight."""
MATCHING: Final = ("lexical", "context_lexical")
"""Channels of terms, which a store bounds by their weight and parameters."""
SPARE: Final = 8
"""Memories to request beyond the wanted ones, to replace those that collapse."""
STEPS: Final = 4096
"""Steps of a `ColumnBound`."""
AGE_STEP: Final = 6 * HOUR
"""Width of a step of a column of instants, in seconds; the steps end now."""
WIDER: Final = 16
"""Factor on the requested memories after collapsed memories left too few."""


def is_exact(ranked: State, used: Pruning | None) -> bool:
    """Return whether it is proven that no visible memory outside the candidates could have reached the answer.

    An approximate index proves nothing: it may have missed a nearer memory. `used` are the bounds by which the store
    left out memories, if any.
    """
    return is_settled(ranked, used) and (ranked.criteria.limit == 0 or not ranked.batch.approximate)


def is_settled(ranked: State, used: Pruning | None) -> bool:
    """Return whether no memory with a cosine of at most `batch.beyond` could have reached the answer.

    Such a memory outside the candidates would need more than the least score and, if the answer is full, more than the
    score of the last hit.
    """
    profile, batch, criteria = ranked.profile, ranked.batch, ranked.criteria
    if batch.complete or criteria.limit == 0:
        return True
    if batch.floor is not None:
        is_full = not _is_of_period(ranked, used) and least_that_matters(ranked, used) >= batch.floor
        return batch.floor == -np.inf or is_full
    return not _lifts(profile) and ceiling(profile, criteria, batch.beyond) < _to_pass(ranked)


def _is_of_period(ranked: State, used: Pruning | None) -> bool:
    """Return whether the store left out memories by the weights of a period that holds no row of the batch."""
    return ranked.criteria.reading.intent.name == EMPTY_PERIOD and used is not None and bool(used.by_window)


def may_become_exact(ranked: State) -> bool:
    """Return whether more candidates are likely to make an answer exact.

    The cosines of the first candidates lie between the maximum and `batch.beyond`; those of a wider search are assumed
    to fall by no more than the same distance.
    """
    profile, batch, criteria = ranked.profile, ranked.batch, ranked.criteria
    if profile.candidates is not None or criteria.vector is None or _lifts(profile) or not len(batch):
        return False
    farthest = max(0.0, 2 * batch.beyond - float(batch["cosine"].max()))
    return ceiling(profile, criteria, farthest) < _to_pass(ranked)


def lacks_candidates(ranked: State) -> bool:
    """Return whether fewer candidates than wanted remain after the stages that drop expired and replaced memories.

    The dropped memories took the places of others, which may fit the query.
    """
    clearing = [step for step, name in enumerate(ranked.profile.stages) if name in CLEARING]
    remaining = len(ranked.dropped_at) - int(np.isin(ranked.dropped_at, clearing).sum())
    return ranked.profile.candidates is None and remaining < ranked.criteria.wanted


def _lifts(profile: Profile) -> bool:
    return any(stage in LIFTING for stage in profile.stages)


def _to_pass(ranked: State) -> float:
    """Return the score that a memory outside the candidates would have to pass to change the answer."""
    criteria = ranked.criteria
    last = float(ranked.scores[ranked.rows[-1]]) if len(ranked.rows) >= criteria.wanted else -np.inf
    least = -np.inf if criteria.min_score is None or "threshold" not in ranked.profile.stages else criteria.min_score
    return min(max(last, least), ranked.ordered_from)


def ceiling(profile: Profile, criteria: Criteria, cosine: float) -> float:
    """Return the maximum score of a memory with at most this cosine: every other signal is at the top of its range."""
    weights, summed, product = profile.weights(criteria.reading.intent.name), 0.0, 1.0
    for term in profile.terms:
        signal = SIGNALS[term.signal]
        most = signal.high
        if term.signal == "similarity":
            one = Batch(np.array([""], object), {"cosine": np.array([cosine])})
            most = float(signal.formula(one, criteria)[0])
        if term.combine == "sum":
            summed += weights[term.label] * most
        else:
            product *= most ** weights[term.label]
    product *= _most_lift(profile)
    return summed * product if profile.sums else product


def _most_lift(profile: Profile) -> float:
    """Return the maximum factor by which a memory outside the candidates outdoes the one whose score it takes over.

    With the stage `shortlist` it takes over none.
    """
    if "replaced" not in profile.stages or SHORTLIST in profile.stages:
        return 1.0
    return float(profile.stage_parameters["replaced"]["lift"]) ** 2


def pruning(profile: Profile, criteria: Criteria) -> Pruning | None:
    """Return the bounds by which a store may leave out memories that score too little.

    None if a memory's score or outcome depends on every other memory, so that the store must return all.
    """
    if (
        profile.candidates is not None or not criteria.limit or criteria.reading.anchor
    ):  # any memory may name an event best
        return None
    stages = profile.stages
    if not set(stages).issubset(PRUNABLE) or list(stages) != sorted(stages, key=PRUNABLE.index):
        return None
    if "similarity_floor" in stages and ("cut_off" in stages or profile.reads_time):  # these look at all that pass it
        return None
    weights, rest, most = profile.weights(criteria.reading.intent.name), 0.0, 1.0
    channels, named = dict[str, Any](), set[str]()
    by_column, by_window = [], list[WindowBound]()
    for term in profile.terms:
        signal, weight = SIGNALS[term.signal], weights[term.label]
        if signal.needs_all or term.signal in named:
            return None
        named.add(term.signal)
        if term.combine == "product":
            most *= signal.high**weight
        elif term.signal in KNOWN:
            channels[term.signal] = channels.get(term.signal, 0.0) + weight
        elif term.signal == LATE and SHORTLIST in stages:  # a store leaves out memories by the first pass
            for channel in ("similarity", "context_similarity"):
                channels[channel] = channels.get(channel, 0.0) + weight / 2
        elif term.signal in MATCHING:
            channels[term.signal] = Matching(weight, term.parameters["k1"], term.parameters["b"])
        elif term.signal == "period":
            by_window += period_bounds(criteria, weight)
        elif signal.rises:
            by_column.append(_column_bound(term, weight, criteria))
        else:
            rest += weight * signal.high
    if not channels:
        return None
    return Pruning(
        keep=max(criteria.wanted + SPARE, _shortlist_top(profile, criteria)),
        scale=criteria.scale,
        **channels,
        by_column=tuple(by_column),
        by_window=tuple(by_window),
        rest=rest,
        most=most * _most_lift(profile),
        drops=frozenset(stages) & {"expired"},
        heirs="replaced" in stages,
    )


def _column_bound(term: Term, weight: float, criteria: Criteria) -> ColumnBound:
    """Return the bound of a summed signal that rises with a column: in each step its value at the end of the step."""
    column, *others = SIGNALS[term.signal].inputs(term.parameters)
    if np.isfinite(COLUMNS[column].high):
        low, high = COLUMNS[column].low, COLUMNS[column].high
    else:
        low, high = criteria.reading.now.timestamp() - STEPS * AGE_STEP, criteria.reading.now.timestamp()
    ends = np.linspace(low, high, STEPS + 1)[1:]
    most = []
    for tier in range(len(TIERS) if "tier" in others else 1):
        batch = Batch(np.empty(STEPS, object), {column: ends, "tier": np.full(STEPS, tier)})
        most.append(weight * SIGNALS[term.signal].formula(batch, criteria, **term.parameters))
    return ColumnBound(column, low, (high - low) / STEPS, np.stack(most))


def _shortlist_top(profile: Profile, criteria: Criteria) -> int:
    """Return how many memories the stage `shortlist` keeps; 0 without that stage."""
    top = profile.stage_parameters.get(SHORTLIST, {}).get("top", 0)
    return max(int(top), 2 * criteria.wanted) if top else 0


def widen(ranked: State, before: Pruning | None) -> Pruning | None:
    """Return the bounds for the next search after an answer that may not be exact; None: request every candidate."""
    floor = ranked.batch.floor
    if before is None or floor is None or before.least is not None:
        return None
    if _is_of_period(
        ranked, before
    ):  # if no memory of the period can be left out, search by the weights that now count
        is_empty = floor <= (min(bound.inside for bound in before.by_window) + before.rest) * before.most
        return pruning(ranked.profile, ranked.criteria) if is_empty else None
    least = least_that_matters(ranked, before)
    if least >= floor / 2:
        return replace(before, least=least)
    return replace(before, keep=WIDER * before.keep) if before.keep < WIDER * SPARE else None


def least_that_matters(ranked: State, used: Pruning | None) -> float:
    """Return the score that a memory outside the batch would need to change the ranking.

    It would need to be among those that an order such as "the latest" ranks; or to be on the shortlist, or without one
    to be returned: above the last hit of a full answer, the least score, or the score that `cut_off` requires.
    """
    profile, criteria, dropped_at = ranked.profile, ranked.criteria, ranked.dropped_at
    ordered = ranked.ordered_from * (used.most if used else 1.0)
    if SHORTLIST in profile.stages:
        return min(ordered, ranked.shortlisted)
    least = -np.inf
    if criteria.min_score is None and "cut_off" in profile.stages:
        rows = np.flatnonzero((dropped_at == ALIVE) | (dropped_at >= profile.stages.index("cut_off")))
        least, content = cut_off_scores(ranked, rows, **profile.stage_parameters["cut_off"])
        if without_speaker(ranked)[rows].max(initial=-np.inf) < content:
            return min(ordered, content)
    elif criteria.min_score is not None and "threshold" in profile.stages:
        least = criteria.min_score - EDGE
    if len(ranked.rows) >= criteria.wanted:
        least = float(ranked.scores[ranked.rows[-1]])
    return min(ordered, least)
