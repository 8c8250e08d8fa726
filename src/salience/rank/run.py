"""Run a profile: apply its stages in order, and take scores apart."""

from __future__ import annotations

from dataclasses import replace

from salience.batch import Batch, Rows
from salience.ports import EDGE, Need
from salience.rank.profile import Profile
from salience.rank.stages import State, TokenReader, without_speaker
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


def weak(state: State) -> list[bool]:
    """Return, for each of `state.rows`, whether its score without the signal `speaker` is below `profile.weak_below`.

    A name in the question says whose words are meant, not that they answer it.
    """
    profile = state.profile
    if profile.weak_below is None:
        return [False] * len(state.rows)
    found: list[bool] = (without_speaker(state)[state.rows] < profile.weak_below - EDGE).tolist()
    return found


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
