"""What a memory outside the candidates could have scored at best: which may be left out, and is an answer exact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from salience.batch import Batch, Floats
from salience.ports import EDGE, Matching, Need, Pruning
from salience.rank.profile import Profile, Term
from salience.rank.signals import SIGNALS
from salience.rank.stages import State

LIFTING: Final = ("spread", "update")
"""Stages that can give a memory more than the score of its signals."""


CLEARING: Final = ("expired", "superseded", "outdated", "importance_floor", "same_fact", "near_duplicate")
"""Stages at which a memory falls however well it fits the query."""
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
"""Stages that come to the same without memories of which it is known that they score too little, in this order.

In another they do not: one that scores too little would be absorbed before it falls, or not count as one with a chance.
"""
KNOWN: Final = ("similarity", "context_similarity", "speaker", "entity")
"""Channels that a store knows bounds of, by their weight."""
MATCHING: Final = ("lexical", "context_lexical")
"""Those that are told by terms."""
SPARE: Final = 8
"""How many more of the best are kept than are looked at for sure, since near-duplicates fall."""


def exact(profile: Profile, batch: Batch, need: Need, ranked: State) -> bool:
    """Return whether no visible memory outside the candidates could have reached the answer.

    One outside is no nearer than `batch.beyond`. It would have had to pass the least score and, where the answer is
    full, the score of the last hit.
    """
    if batch.complete or need.limit == 0:
        return True
    if batch.floor is not None:
        return _settled(profile, batch, need, ranked, batch.floor)
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


def pruning(profile: Profile, need: Need, times: int = 1) -> Pruning | None:
    """Return what lets a store leave out those that score too little; None where each memory has a say in the others.

    Args:
        profile: whose scores they are.
        need: of the query.
        times: how many times as many are to be kept as are likely to do.
    """
    if need.candidates is not None or not need.limit or need.anchor:  # an event is what any memory may tell of best
        return None
    made = _made_of(profile, need.intent.name)
    if made is None:
        return None
    rule = made.cut_off
    return Pruning(
        keep=times * _kept(profile, need),
        **made.channels,
        rest=made.rest,
        most=made.most,
        drops=made.drops,
        moments=need.intent.time is not None and bool(need.intent.time.order),
        columns=made.columns,
        others=partial(_others, made, need),
        content=None if need.min_score is not None or rule is None else partial(_content, rule),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Made:
    """What a profile's scores are made of under an intent, as `Pruning` has it.

    Attributes:
        channels: the known ones by name, each with what `Pruning` wants of it.
        others: the terms besides, each with its weight.
        rest, most, drops, columns: as there.
        cut_off: the parameters of that stage; None without it.
    """

    channels: Mapping[str, Any]
    others: Sequence[tuple[Term, float]]
    rest: float
    most: float
    drops: frozenset[str]
    columns: frozenset[str]
    cut_off: Mapping[str, float] | None


def _made_of(profile: Profile, intent: str) -> _Made | None:
    """Return what the scores are made of; None where each memory has a say in the others."""
    in_order = tuple(name for name in PRUNABLE for _ in range(profile.stages.count(name)))
    signals = [term.signal for term in profile.terms]
    if profile.stages != in_order or any(SIGNALS[name].whole for name in signals):
        return None
    weights, rest, most, others = profile.weights(intent), 0.0, 1.0, list[tuple[Term, float]]()
    channels: dict[str, Any] = {}
    for term in profile.terms:
        high, weight = SIGNALS[term.signal].high, weights[term.label]
        if term.signal in channels:
            return None
        if term.combine == "sum" and term.signal in KNOWN:
            channels[term.signal] = weight
        elif term.combine == "sum" and term.signal in MATCHING:
            channels[term.signal] = Matching(weight, term.parameters["k1"], term.parameters["b"])
        else:
            others.append((term, weight))
            rest += weight * high if term.combine == "sum" else 0.0
            most *= high**weight if term.combine == "product" else 1.0
    if not channels:
        return None
    return _Made(
        channels,
        others,
        rest,
        most,
        frozenset(profile.stages) & {"expired", "outdated"},
        frozenset().union(*(SIGNALS[term.signal].columns(term.parameters) for term, _ in others)),
        profile.stage_parameters.get("cut_off"),
    )


def _others(made: _Made, need: Need, batch: Batch) -> tuple[Floats, Floats]:
    """Return what some signals of a profile add to the sum of each row, and what they multiply it by."""
    rest, factors = np.zeros(len(batch)), np.ones(len(batch))
    for term, weight in made.others:
        values = SIGNALS[term.signal].formula(batch, need, **term.parameters)
        if term.combine == "sum":
            rest += weight * values
        else:
            factors *= values**weight
    return rest, factors


def _kept(profile: Profile, need: Need) -> int:
    """Return how many of the best the stages are likely to look at; `update` looks at no more."""
    return max(_updated(profile), need.wanted + SPARE)


def _updated(profile: Profile) -> int:
    return int(profile.stage_parameters.get("update", {}).get("top", 0))


def _settled(profile: Profile, batch: Batch, need: Need, ranked: State, floor: float) -> bool:
    """Return whether the ranking would be the same with the memories that are not here, which score less than `floor`.

    They would stand below as many as `update` looks at. The cut-off heeds how many there are, which the batch tells,
    and whether one has the content: if any has, one that has it is here. Otherwise they would be in the answer only if
    it is not full, and only with the score that the others had to reach.
    """
    if floor == -np.inf or (len(ranked.rows) >= need.wanted and ranked.scores[ranked.rows[-1]] >= floor):
        return True
    if need.min_score is not None:
        return "threshold" in profile.stages and need.min_score - EDGE >= floor
    rule = profile.stage_parameters.get("cut_off")
    if rule is None:
        return False
    if not len(ranked.rows):  # all fell, for want of content, which the store has looked for, or for that of fit
        return need.pruning is not None and need.pruning.content is not None
    least: float = max(_chance(rule, batch.standing or 0), rule["share"] * float(ranked.scores[ranked.rows[0]])) - EDGE
    return least >= floor


def _chance(rule: Mapping[str, float], count: int) -> float:
    """Return the score that chance alone gives the best of so many memories, as `stages.cut_off` has it."""
    return float(min(rule["alone"] * count ** rule["growth"], rule["most"]))


def _content(rule: Mapping[str, float], count: int) -> float:
    """Return the content that some memory must have, likewise."""
    return rule["content"] * _chance(rule, count) - EDGE
