"""Confidence: the probability that a hit answers the query, from a few features of the hit.

The table `[confidence]` of a profile holds a logistic model as data. `bench/confidence.py` fits it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from salience.batch import Batch, Floats, Rows
from salience.rank.signals import inverse_document_frequency
from salience.records import Part

if TYPE_CHECKING:  # a profile is checked against the features, which are computed from this state
    from salience.rank.stages import State


@dataclass(frozen=True, slots=True)
class Model:
    """A logistic model: confidence = 1 / (1 + exp(-(intercept + sum of weight x feature))).

    Attributes:
        intercept: the constant.
        weights: feature -> weight. A feature is a name from `FEATURES`, or the label of a signal: the signal's
            contribution to the score.
        confident_from: confidence from which a hit is not weak.
    """

    intercept: float
    weights: Mapping[str, float]
    confident_from: float = 0.5


def match(state: State, sources: Rows) -> Floats:
    """Return the larger of `coverage` and similarity, [0, 1].

    An answer shares the question's words or its meaning. If half the words match and the meaning is half alike, which
    often comes from a shared name, the sum of the two is as large as for an answer, and the larger one is not.
    """
    similarity = state.need.related(state.batch["cosine"][sources])
    return np.maximum(coverage(state.batch)[sources], similarity)


def coverage(batch: Batch) -> Floats:
    """Return the share of the query's terms that each memory contains, by IDF, [0, 1]; 0 without terms."""
    lexicon = batch.lexicon
    if lexicon is None or not len(lexicon.postings):
        return np.zeros(len(batch))
    rarity = inverse_document_frequency(lexicon)
    found = np.bincount(
        lexicon.postings.rows, weights=rarity.repeat(lexicon.postings.lengths), minlength=len(lexicon.length)
    )
    return found / max(float(rarity.sum()), 1e-9)


def inverse_rank(_: State, sources: Rows) -> Floats:
    """Return 1 / rank of each hit, (0, 1]: 1 for the best hit."""
    return 1.0 / np.arange(1, len(sources) + 1)


FEATURES: Final[Mapping[str, Callable[[State, Rows], Floats]]] = {"match": match, "rank": inverse_rank}
"""Features beside the profile's own signals."""
READS: Final = ("cosine", "terms")
"""Column and part of the batch that the features read."""


def features(state: State) -> dict[str, Floats]:
    """Return feature -> its values, float64[len(state.rows)], for the features that the profile's model names.

    A hit that took over the score of an older memory (stage `update`) has the features of that memory, except its rank.
    """
    profile, model = state.profile, state.profile.confidence
    older = {row: origin.parent for row, origin in state.spread.items() if origin.link == "update"}
    sources = np.array([older.get(row, row) for row in state.rows.tolist()], np.intp)
    weights = profile.weights(state.need.intent.name)
    combine = {term.label: term.combine for term in profile.terms}
    found = {}
    for name in model.weights if model else ():
        if name in FEATURES:
            found[name] = FEATURES[name](state, sources)
        elif name in combine:  # `for_graph` has other signals than the profile of the model
            raw, weight = state.parts[name][sources], weights[name]
            found[name] = weight * raw if combine[name] == "sum" else raw**weight
    return found


def confidences(state: State) -> Floats | None:
    """Return the confidence of each of `state.rows`, [0, 1]; None if the profile has no model."""
    model = state.profile.confidence
    if model is None:
        return None
    total = np.full(len(state.rows), model.intercept)
    for name, values in features(state).items():
        total += model.weights[name] * values
    chances: Floats = 1.0 / (1.0 + np.exp(-np.clip(total, -500.0, 500.0)))
    return chances


def confidence_parts(state: State, place: int) -> tuple[Part, ...]:
    """Return the terms of the logistic model for the hit at `place` in `state.rows`; empty without a model."""
    model = state.profile.confidence
    if model is None:
        return ()
    parts = [Part("intercept", 1.0, model.intercept, model.intercept, "sum")]
    for name, values in features(state).items():
        raw, weight = float(values[place]), model.weights[name]
        parts.append(Part(name, raw, weight, weight * raw, "sum"))
    return tuple(parts)
