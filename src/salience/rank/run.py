"""Ranking from end to end: a profile's stages folded over a batch, and any score taken apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from salience.batch import Batch, Codes, Floats, Rows
from salience.ports import EDGE, Need
from salience.rank.profile import Profile, Term
from salience.rank.stages import without_speaker
from salience.rank.state import Spread, State
from salience.records import Part, ScoreDetail, Via, score_detail


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """A batch in order.

    Attributes:
        rows: intp[k], the rows to return, best first.
        scores: float64[n], every row's score, returned or not.
        factors: float64[n], the product of each row's multiplying signals.
        parts: raw value of each signal by its label, float64[n].
        fates: int64[n], number of the stage (in `profile.stages`) at which a row fell; -1: returned.
        by: int64[n], the row because of which it fell; -1: none.
        absorbed: returned row -> rows collapsed into it, best first.
        spread: row -> where the score came from that is more than its own.
    """

    rows: Rows
    scores: Floats
    factors: Floats
    parts: Mapping[str, Floats]
    fates: Codes
    by: Codes
    absorbed: Mapping[int, tuple[int, ...]]
    spread: Mapping[int, Spread]

    @classmethod
    def of(cls, state: State) -> Ranked:
        """Return what the last stage left."""
        scores, factors = state.scored, state.factored
        return cls(state.rows, scores, factors, state.parts, state.fates, state.by, state.absorbed, state.spread)


def rank(profile: Profile, batch: Batch, need: Need) -> Ranked:
    """Return the rows of `batch` in the order that `profile` gives them, cut to `need.wanted`."""
    state = State.start(profile, batch, need)
    for step in range(len(profile.stages)):
        state = advanced(state, step)
    return Ranked.of(state)


def advanced(state: State, step: int) -> State:
    """Return what stage number `step` of the profile makes of `state`."""
    return state.profile.steps[step](state.replace(step=step))


def weak(profile: Profile, ranked: Ranked, rows: Rows, intent: str) -> list[bool]:
    """Return whether each of `rows` scores less than `profile.weak_below` without what the signal `speaker` adds.

    A name in the question says whose words are meant, not that they answer it.
    """
    if profile.weak_below is None:
        return [False] * len(rows)
    content = without_speaker(profile, intent, ranked.scores, ranked.factors, ranked.parts)[rows]
    found: list[bool] = (content < profile.weak_below - EDGE).tolist()
    return found


def detail(profile: Profile, ranked: Ranked, batch: Batch, row: int, intent: str) -> ScoreDetail:
    """Return the score of `row` taken apart; `recompute()` of it gives the score within 1e-9."""
    return details(profile, ranked, batch, np.array([row]), intent)[0]


def details(profile: Profile, ranked: Ranked, batch: Batch, rows: Rows, intent: str) -> list[ScoreDetail]:
    """Return the scores of `rows` taken apart, in their order; the parts of each are made when they are looked at."""
    weights, scores = profile.weights(intent), ranked.scores[rows].tolist()
    columns = [ranked.parts[term.label][rows].tolist() for term in profile.terms]
    return [
        score_detail(partial(_parts, profile.terms, weights, raws), final, via(ranked, batch, row))
        for raws, final, row in zip(zip(*columns, strict=True), scores, rows.tolist(), strict=True)
    ]


def _parts(terms: Sequence[Term], weights: Mapping[str, float], raws: Sequence[float]) -> tuple[Part, ...]:
    """Return the parts of a score that terms make of what their signals measured."""
    return tuple(_part(term, weights[term.label], raw) for term, raw in zip(terms, raws, strict=True))


def _part(term: Term, weight: float, raw: float) -> Part:
    return Part(term.label, raw, weight, weight * raw if term.combine == "sum" else raw**weight, term.combine)


def via(ranked: Ranked, batch: Batch, row: int) -> Via | None:
    """Return where the score of `row` came from, if another row gave it more than its own."""
    spread = ranked.spread.get(row)
    if spread is None:
        return None
    return Via(str(batch.ids[spread.parent]), spread.score, spread.factor, spread.hops, spread.link)
