"""Run a profile: apply its stages in order, and take scores apart."""

from __future__ import annotations

from dataclasses import replace

from salience.batch import Batch, Rows
from salience.ports import EDGE, Need
from salience.rank.confidence import confidences
from salience.rank.profile import Profile
from salience.rank.stages import State, without_speaker
from salience.rank.update_model import TokenReader
from salience.records import Part, ScoreDetail, Via


def rank(profile: Profile, batch: Batch, need: Need, tokens: TokenReader | None = None) -> State:
    """Return the state after the last stage; its `rows` are the best of `batch`, at most `need.wanted`."""
    state = State.start(profile, batch, need, tokens)
    for step in range(len(profile.stages)):
        state = advanced(state, step)
    return state


def advanced(state: State, step: int) -> State:
    """Return the state after stage number `step` of the profile."""
    return state.profile.steps[step](replace(state, step=step))


def judged(state: State) -> list[tuple[float | None, bool]]:
    """Return, for each of `state.rows`, its confidence (None if the profile has no model) and whether it is weak.

    A weak hit has a confidence below `confident_from`, or else a score below `weak_below`. The signal `speaker` does
    not count in that score: a name in the question says whose words are meant, not that they answer it.
    """
    profile, found = state.profile, confidences(state)
    if profile.confidence is not None and found is not None:
        return [(value, value < profile.confidence.confident_from) for value in found.tolist()]
    if profile.weak_below is None:
        return [(None, False)] * len(state.rows)
    low = without_speaker(state)[state.rows] < profile.weak_below - EDGE
    return [(None, is_weak) for is_weak in low.tolist()]


def details(state: State, rows: Rows) -> list[ScoreDetail]:
    """Return the score detail of each of `rows`; its `recompute()` gives the score within 1e-9."""
    terms, weights = state.profile.terms, state.profile.weights(state.need.intent.name)
    columns = [state.parts[term.label][rows].tolist() for term in terms]
    found = []
    for place, (row, final) in enumerate(zip(rows.tolist(), state.scores[rows].tolist(), strict=True)):
        parts = []
        for term, column in zip(terms, columns, strict=True):
            raw, weight = column[place], weights[term.label]
            share = weight * raw if term.combine == "sum" else raw**weight
            parts.append(Part(term.label, raw, weight, share, term.combine))
        found.append(ScoreDetail(tuple(parts), final, _via(state, row)))
    return found


def _via(state: State, row: int) -> Via | None:
    """Return where the score of `row` came from if another row passed it on."""
    spread = state.spread.get(row)
    if spread is None:
        return None
    return Via(str(state.batch.ids[spread.parent]), spread.score, spread.factor, spread.hops, spread.link)
