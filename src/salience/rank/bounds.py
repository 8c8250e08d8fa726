"""Bounds of the scores of memories that a store leaves out: what it may leave out, and whether an answer is exact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from salience.batch import Batch
from salience.ports import EDGE, Matching, Need, Pruning
from salience.rank.profile import Profile
from salience.rank.signals import SIGNALS
from salience.rank.stages import State, without_speaker

LIFTING: Final = ("spread", "update")
"""Stages that can give a memory more than the score of its signals."""


CLEARING: Final = ("expired", "superseded", "outdated", "importance_floor", "same_fact", "near_duplicate")
"""Stages that drop a memory however well it fits the query."""
PRUNABLE: Final = (
    "expired",
    "outdated",
    "score",
    "update",
    "cut_off",
    "threshold",
    "nonzero",
    "near_duplicate",
    "trim",
)
"""Stages, in this order, whose result does not depend on memories that score too little."""
KNOWN: Final = ("similarity", "context_similarity", "speaker", "entity")
"""Channels that a store bounds by their weight."""
MATCHING: Final = ("lexical", "context_lexical")
"""Channels of terms, which a store bounds by their weight and parameters."""
SPARE: Final = 8
"""How many more of the best are brought than are wanted, since near-duplicates fall."""
WIDER: Final = 16
"""How many times as many a store is asked for where near-duplicates left too few."""


def exact(profile: Profile, batch: Batch, need: Need, ranked: State) -> bool:
    """Return whether no visible memory outside the candidates could have reached the answer.

    One outside is no nearer than `batch.beyond`. It would have had to pass the least score and, where the answer is
    full, the score of the last hit.
    """
    if batch.complete or need.limit == 0:
        return True
    if batch.floor is not None:
        return least_that_matters(profile, batch, need, ranked) >= batch.floor
    return not _lifts(profile) and ceiling(profile, need, batch.beyond) < _to_pass(profile, need, ranked)


def provable(profile: Profile, batch: Batch, need: Need, ranked: State) -> bool:
    """Return whether more candidates are likely to make an answer exact.

    The first ones lie between the nearest and `batch.beyond`; many times as many are taken to lie no further beyond
    that than those do before it.
    """
    if need.candidates is not None or need.vector is None or _lifts(profile) or not len(batch):
        return False
    farthest = max(0.0, 2 * batch.beyond - float(batch["cosine"].max()))
    return ceiling(profile, need, farthest) < _to_pass(profile, need, ranked)


def starved(profile: Profile, need: Need, ranked: State) -> bool:
    """Return whether fewer candidates than are wanted stood for how well they fit the query.

    Those that fell since their time is over, or another stands for them, took up the places of others, which may fit.
    """
    clearing = [step for step, name in enumerate(profile.stages) if name in CLEARING]
    standing = len(ranked.fates) - int(np.isin(ranked.fates, clearing).sum())
    return need.candidates is None and standing < need.wanted


def _lifts(profile: Profile) -> bool:
    return any(stage in LIFTING for stage in profile.stages)


def _to_pass(profile: Profile, need: Need, ranked: State) -> float:
    """Return the score that a memory outside the candidates would have to pass."""
    last = float(ranked.scores[ranked.rows[-1]]) if len(ranked.rows) >= need.wanted else -np.inf
    least = -np.inf if need.min_score is None or "threshold" not in profile.stages else need.min_score
    return max(last, least)


def ceiling(profile: Profile, need: Need, cosine: float) -> float:
    """Return a score that no memory of at most this cosine exceeds: each other signal at the top of its range."""
    weights, summed, product = profile.weights(need.intent.name), 0.0, 1.0
    for term in profile.terms:
        signal = SIGNALS[term.signal]
        most = signal.high
        if term.signal == "similarity":
            one = Batch(np.array([""], object), {"cosine": np.array([cosine])})
            most = float(signal.formula(one, need)[0])
        if term.combine == "sum":
            summed += weights[term.label] * most
        else:
            product *= most ** weights[term.label]
    return summed * product if profile.sums else product


def pruning(profile: Profile, need: Need) -> Pruning | None:
    """Return how a store may bound scores, to leave out memories that score too little; None: each one matters."""
    if need.candidates is not None or not need.limit or need.anchor:  # any memory may name an event best
        return None
    made = _channels(profile, need.intent.name)
    if made is None:
        return None
    top = int(profile.stage_parameters.get("update", {}).get("top", 0))
    return Pruning(
        keep=max(top, need.wanted + SPARE),
        **made.channels,
        rest=made.rest,
        most=made.most,
        drops=made.drops,
        moments=need.intent.time is not None and bool(need.intent.time.order),
    )


def widened(profile: Profile, batch: Batch, need: Need, ranked: State) -> Pruning | None:
    """Return the bounds for another search, after one whose answer may not be exact; None: bring every candidate."""
    before = need.pruning
    if before is None or batch.floor is None or before.least is not None:
        return None
    least = least_that_matters(profile, batch, need, ranked)
    if least >= batch.floor / 2:
        return replace(before, least=least)
    return replace(before, keep=WIDER * before.keep) if before.keep < WIDER * SPARE else None


def least_that_matters(profile: Profile, batch: Batch, need: Need, ranked: State) -> float:
    """Return a score that a memory outside the batch would have to reach to change the ranking.

    It would have to be one of those that `update` looks at, and to be returned: to pass the last hit of a full answer,
    the least score, or what `cut_off` asks for, which heeds how many memories there are and whether one has the
    content.
    """
    bounds = [np.inf]
    top = int(profile.stage_parameters.get("update", {}).get("top", 0))
    if top:
        own = np.delete(ranked.scores, list(ranked.spread))  # without what `update` added
        bounds.append(float(np.sort(own)[-top]) if len(own) >= top else -np.inf)
    rule = profile.stage_parameters.get("cut_off") if need.min_score is None else None
    if rule is not None:
        chance: float = min(rule["alone"] * (batch.standing or 0) ** rule["growth"], rule["most"])
        scored = (ranked.fates < 0) | (ranked.fates >= profile.stages.index("cut_off"))
        content = without_speaker(profile, need.intent.name, ranked.scores, ranked.factors, ranked.parts)[scored]
        if content.max(initial=-np.inf) < rule["content"] * chance - EDGE:
            return float(min(*bounds, rule["content"] * chance - EDGE))
        least: float = max(chance, rule["share"] * float(ranked.scores[scored].max(initial=0.0))) - EDGE
    elif need.min_score is not None and "threshold" in profile.stages:
        least = need.min_score - EDGE
    else:
        least = -np.inf
    if len(ranked.rows) >= need.wanted:
        least = float(ranked.scores[ranked.rows[-1]])
    return float(min(*bounds, least))


@dataclass(frozen=True, slots=True, eq=False)
class _Channels:
    """What a profile's scores are made of under an intent, as `Pruning` has it.

    Attributes:
        channels: the channels that a store bounds, by name.
        rest, most, drops: as there.
    """

    channels: Mapping[str, Any]
    rest: float
    most: float
    drops: frozenset[str]


def _channels(profile: Profile, intent: str) -> _Channels | None:
    """Return what the scores are made of; None where a memory's score or fate depends on each of the others."""
    in_order = tuple(name for name in PRUNABLE for _ in range(profile.stages.count(name)))
    signals = [term.signal for term in profile.terms]
    if profile.stages != in_order or any(SIGNALS[name].whole for name in signals):
        return None
    weights, rest, most = profile.weights(intent), 0.0, 1.0
    channels: dict[str, Any] = {}
    for term in profile.terms:
        high, weight = SIGNALS[term.signal].high, weights[term.label]
        if term.signal in channels:
            return None
        if term.combine == "sum" and term.signal in KNOWN:
            channels[term.signal] = weight
        elif term.combine == "sum" and term.signal in MATCHING:
            channels[term.signal] = Matching(weight, term.parameters["k1"], term.parameters["b"])
        elif term.combine == "sum":
            rest += weight * high
        else:
            most *= high**weight
    return _Channels(channels, rest, most, frozenset(profile.stages) & {"expired", "outdated"}) if channels else None
