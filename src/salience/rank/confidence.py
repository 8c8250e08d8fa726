"""Confidence: the probability that a hit answers the query, from a few features of the hit.

The table `[confidence]` of a profile holds a logistic model as data. `bench/confidence.py` fits it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from salience.batch import Batch, Floats, Rows
from salience.rank.signals import (
    holding,
    inverse_document_frequency,
    not_answering,
    numbers_or_names,
    of_another,
)
from salience.records import EMPTY_PERIOD, Part

if TYPE_CHECKING:  # a profile is checked against the features, which are computed from this state
    from salience.rank.stages import State


@dataclass(frozen=True, slots=True)
class Model:
    """A logistic model: confidence = 1 / (1 + exp(-(intercept + sum of weight x feature))).

    Attributes:
        intercept: the constant.
        weights: feature -> weight. A feature is a name from `FEATURES`, or the label of a signal: the signal's
            contribution to the score.
        confident_from: confidence from which a hit answers the query.
        possible_from: confidence from which it may answer.
    """

    intercept: float
    weights: Mapping[str, float]
    confident_from: float = 0.5
    possible_from: float = 0.25


def match(state: State, sources: Rows) -> Floats:
    """Return the larger of `coverage` and similarity, [0, 1].

    An answer shares the question's words or its meaning. If half the words match and the meaning is half alike, which
    often comes from a shared name, the sum of the two is as large as for an answer, and the larger one is not. It is 0
    if no memory lies in the period that the question asks for: no other memory answers it.
    """
    if state.criteria.reading.intent.name == EMPTY_PERIOD:
        return np.zeros(len(sources))
    similarity = state.criteria.scale.similarity(state.batch["cosine"][sources])
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


def margin(state: State, _: Rows) -> Floats:
    """Return by how much each hit is above the best other memory, as a share of the best score, [-1, 1].

    Memories beyond the limit, the least score and the cut-off are among the others, so that a hit is as sure under any
    of these; a memory that is surely replaced by a hit (stage `replaced`, parameter `sure`) is not. Neutral: 0, also
    for the hit of a store without another memory.
    """
    scores = state.scores[state.rows]
    if not len(scores) or scores.max() <= 0:
        return np.zeros(len(scores))
    sure = state.profile.stage_parameters.get("replaced", {}).get("sure", 1.0)
    parents, chance = inherited(state)
    heirs = parents[(parents != state.rows) & (chance >= sure)]
    is_rival = state.alive
    for step, name in enumerate(state.profile.stages):
        if name in LIMITS:
            is_rival |= state.dropped_at == step
    is_rival[heirs] = False
    best = np.sort(state.scores[is_rival])[::-1]
    if len(best) < 2:
        return np.zeros(len(scores))
    ahead: Floats = (scores - np.where(scores >= best[0], best[1], best[0])) / scores.max()
    return np.minimum(np.maximum(ahead, -1.0), 1.0)


def words(state: State, sources: Rows) -> Floats:
    """Return the share of the query's terms that each hit contains, by IDF, [0, 1]."""
    return coverage(state.batch)[sources]


def asked(state: State, sources: Rows) -> Floats:
    """Return the number of terms of the query, as a share of `MANY`, [0, 1]."""
    return np.full(len(sources), min(len(state.criteria.reading.terms), MANY) / MANY)


def question(state: State, sources: Rows) -> Floats:
    """Return 1 for a memory that only asks, else 0."""
    return state.batch["asks"][sources].astype(np.float64)


def another(state: State, sources: Rows) -> Floats:
    """Return 1 for a memory of another thing of the kind that the question asks about, else 0; see `same_thing`."""
    return of_another(state.batch, state.criteria)[sources].astype(np.float64)


def other_name(state: State, sources: Rows) -> Floats:
    """Return 1 for a memory that lacks a name of the question and names something else instead, else 0."""
    batch, reading = state.batch, state.criteria.reading
    lacks, has_other = np.zeros((2, len(batch)), np.bool_)
    if reading.named and batch.lexicon is not None:
        for term in reading.named:
            lacks |= ~holding(batch, reading, term)
        rows, is_asked = numbers_or_names(batch, "name")
        has_other[rows[~is_asked]] = True
    return (lacks & has_other)[sources].astype(np.float64)


def lacking(state: State, sources: Rows) -> Floats:
    """Return 1 for a memory without an answer of the asked kind, or that denies or reverses it; see `answer_kind`."""
    return not_answering(state.batch, state.criteria)[sources].astype(np.float64)


def old(state: State, _: Rows) -> Floats:
    """Return the probability that another memory replaces each hit, [0, 1]; 0 for a question about the past."""
    return state.batch["replaced"][state.rows] * (state.criteria.reading.tense == "present")


LIMITS: Final = ("threshold", "cut_off", "trim")
"""Stages that drop memories which the answer has no room for."""
MANY: Final = 6
"""Terms of a long query."""
FEATURES: Final[Mapping[str, Callable[[State, Rows], Floats]]] = {
    "match": match,
    "rank": inverse_rank,
    "margin": margin,
    "words": words,
    "asked": asked,
    "question": question,
    "another": another,
    "other_name": other_name,
    "lacking": lacking,
    "old": old,
}
"""Features beside the profile's own signals."""
READS: Final = ("asks", "cosine", "distinctions", "replaced", "terms")
"""Columns and part of the batch that the features read."""


def features(state: State, sources: Rows | None = None) -> dict[str, Floats]:
    """Return feature -> its values, float64[len(state.rows)], for the features that the profile's model names.

    Args:
        state: after the last stage.
        sources: intp[len(state.rows)], the row whose features each hit has, except its rank, margin and `old`; by
            default that of `inherited`.
    """
    profile, model = state.profile, state.profile.confidence
    sources = inherited(state)[0] if sources is None else sources
    weights = profile.weights(state.criteria.reading.intent.name)
    combine = {term.label: term.combine for term in profile.terms}
    found = {}
    for name in model.weights if model else ():
        if name in FEATURES:
            found[name] = FEATURES[name](state, sources)
        elif name in combine:  # `for_graph` has other signals than the profile of the model
            raw, weight = state.parts[name][sources], weights[name]
            found[name] = weight * raw if combine[name] == "sum" else raw**weight
    return found


def inherited(state: State) -> tuple[Rows, Floats]:
    """Return the row whose score each hit took over (stage `replaced`), and the probability of that relation.

    For a hit with a score of its own they are its own row and 1.
    """
    if not state.spread:
        return state.rows, np.ones(len(state.rows))
    links = [state.spread.get(row) for row in state.rows.tolist()]
    parents = [
        row if link is None or link.link != "update" else link.parent
        for row, link in zip(state.rows.tolist(), links, strict=True)
    ]
    sources = np.array(parents, np.intp)
    if (sources == state.rows).all():
        return sources, np.ones(len(sources))
    replaced = state.batch["replaced"]
    chance = np.where(replaced[sources] > 0, replaced[sources], replaced[state.rows])  # the latter for a former state
    return sources, np.where(sources == state.rows, 1.0, chance)


def confidences(state: State) -> Floats | None:
    """Return the confidence of each of `state.rows`, [0, 1]; None if the profile has no model.

    A hit that took over a score is as sure as the memory that it replaces, times the probability that it does, or as
    sure as by its own words.
    """
    model = state.profile.confidence
    if model is None:
        return None
    sources, chance = inherited(state)
    own = _chances(model, state, state.rows)
    return own if (sources == state.rows).all() else np.maximum(own, chance * _chances(model, state, sources))


def _chances(model: Model, state: State, sources: Rows) -> Floats:
    total = np.full(len(state.rows), model.intercept)
    for name, values in features(state, sources).items():
        total += model.weights[name] * values
    chances: Floats = 1.0 / (1.0 + np.exp(-np.clip(total, -500.0, 500.0)))
    return chances


def confidence_parts(state: State, place: int) -> tuple[Part, ...]:
    """Return the terms of the logistic model for the hit at `place` in `state.rows`; empty without a model.

    The part `relation` of a hit that took over a score has what the doubt about the relation subtracts.
    """
    model, found = state.profile.confidence, confidences(state)
    if model is None or found is None:
        return ()
    sources, chance = inherited(state)
    before = _chances(model, state, sources)
    is_own = bool(sources[place] == state.rows[place] or found[place] > chance[place] * before[place])
    parts = [Part("intercept", 1.0, model.intercept, model.intercept, "sum")]
    for name, values in features(state, state.rows if is_own else sources).items():
        raw, weight = float(values[place]), model.weights[name]
        parts.append(Part(name, raw, weight, weight * raw, "sum"))
    if not is_own:
        share = float(found[place])
        doubt = float(np.log(share) - np.log1p(-share)) - sum(part.contribution for part in parts)
        parts.append(Part("relation", float(chance[place]), 1.0, doubt, "sum"))
    return tuple(parts)
