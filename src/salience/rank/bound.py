"""What a memory outside the candidates could have scored at best: whether an answer is exact."""

from __future__ import annotations

from typing import Final

import numpy as np

from salience.batch import Batch
from salience.ports import Need
from salience.rank.profile import Profile
from salience.rank.run import Ranked
from salience.rank.signals import SIGNALS

LIFTING: Final = ("spread", "update")
"""Stages that can give a memory more than the score of its signals."""


CLEARING: Final = ("expired", "superseded", "outdated", "importance_floor", "same_fact", "near_duplicate")
"""Stages at which a memory falls however well it fits the query."""


def exact(profile: Profile, batch: Batch, need: Need, ranked: Ranked) -> bool:
    """Return whether no visible memory outside the candidates could have reached the answer.

    One outside is no nearer than `batch.beyond`. It would have had to pass the least score and, where the answer is
    full, the score of the last hit.
    """
    if batch.complete or need.limit == 0:
        return True
    return not _lifts(profile) and ceiling(profile, need, batch.beyond) < _to_pass(profile, need, ranked)


def provable(profile: Profile, batch: Batch, need: Need, ranked: Ranked) -> bool:
    """Return whether more candidates are likely to make an answer exact.

    The first ones lie between the nearest and `batch.beyond`; many times as many are taken to lie no further beyond
    that than those do before it.
    """
    if need.candidates is not None or need.vector is None or _lifts(profile) or not len(batch):
        return False
    farthest = max(0.0, 2 * batch.beyond - float(batch["cosine"].max()))
    return ceiling(profile, need, farthest) < _to_pass(profile, need, ranked)


def starved(profile: Profile, need: Need, ranked: Ranked) -> bool:
    """Return whether fewer candidates than are wanted stood for how well they fit the query.

    Those that fell since their time is over, or another stands for them, took up the places of others, which may fit.
    """
    clearing = [step for step, name in enumerate(profile.stages) if name in CLEARING]
    standing = len(ranked.fates) - int(np.isin(ranked.fates, clearing).sum())
    return need.candidates is None and standing < need.wanted


def _lifts(profile: Profile) -> bool:
    return any(stage in LIFTING for stage in profile.stages)


def _to_pass(profile: Profile, need: Need, ranked: Ranked) -> float:
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
    return summed * product if any(term.combine == "sum" for term in profile.terms) else product
