"""Run a profile: apply its stages in order, and take scores apart."""

from __future__ import annotations

from dataclasses import replace

from salience.batch import Batch, Rows
from salience.ports import EDGE
from salience.rank.confidence import confidences
from salience.rank.criteria import Criteria
from salience.rank.profile import Profile
from salience.rank.signals import holds_period
from salience.rank.stages import SCORE, SHORTLIST, State, TokenReader, without_speaker
from salience.records import EMPTY_PERIOD, PERIOD, Part, ScoreDetail, Verdict, Via


def rank(profile: Profile, batch: Batch, criteria: Criteria, tokens: TokenReader | None = None) -> State:
    """Return the state after the last stage; its `rows` are the best of `batch`, at most `Criteria.wanted`."""
    state = State.start(profile, batch, criteria, tokens)
    for step in range(len(profile.stages)):
        state = advanced(state, step)
    return state


def advanced(state: State, step: int) -> State:
    """Return the state after stage number `step` of the profile.

    Before the first stage that scores, a question for everything in a window in which no row lies becomes an ordinary
    question: its intent is `EMPTY_PERIOD`.
    """
    stages, reading = state.profile.stages, state.criteria.reading
    is_first = step == min(stages.index(name) for name in (SHORTLIST, SCORE) if name in stages)
    asks_period = reading.intent.name == PERIOD and state.profile.reads_time  # which brings the columns of times
    if is_first and asks_period and not holds_period(state.batch, state.criteria, state.rows):
        reading = replace(reading, intent=replace(reading.intent, name=EMPTY_PERIOD))
        state = state.changed(criteria=replace(state.criteria, reading=reading))
    return state.profile.steps[step](state.changed(step=step))


def judged(state: State) -> list[tuple[float | None, Verdict]]:
    """Return, for each of `state.rows`, its confidence (None if the profile has no model) and its verdict.

    Without a model, a hit whose score is below `weak_below` does not answer. The signal `speaker` does not count in
    that score: a name in the question says whose words are meant, not that they answer it.
    """
    profile, found = state.profile, confidences(state)
    if profile.confidence is not None and found is not None:
        sure, possible = profile.confidence.confident_from, profile.confidence.possible_from
        return [
            (one, "answers" if one >= sure else "may answer" if one >= possible else "does not answer")
            for one in found.tolist()
        ]
    if profile.weak_below is None:
        return [(None, "answers")] * len(state.rows)
    low = without_speaker(state)[state.rows] < profile.weak_below - EDGE
    return [(None, "does not answer" if is_low else "answers") for is_low in low.tolist()]


def details(state: State, rows: Rows) -> list[ScoreDetail]:
    """Return the score detail of each of `rows`; its `recompute()` gives the score within 1e-9."""
    terms, weights = state.profile.terms, state.profile.weights(state.criteria.reading.intent.name)
    labels, combine = [term.label for term in terms], [term.combine for term in terms]
    own = [weights[label] for label in labels]
    raw = [state.parts[label][rows].tolist() for label in labels]
    shares = [
        [weight * value if how == "sum" else value**weight for value in column]
        for column, weight, how in zip(raw, own, combine, strict=True)
    ]
    parts = [
        tuple(map(Part, labels, values, own, contributions, combine))
        for values, contributions in zip(zip(*raw, strict=True), zip(*shares, strict=True), strict=True)
    ]
    finals = zip(parts, state.scores[rows].tolist(), rows.tolist(), strict=True)
    return [ScoreDetail(own_parts, final, _via(state, row)) for own_parts, final, row in finals]


def _via(state: State, row: int) -> Via | None:
    """Return where the score of `row` came from if another row passed it on."""
    spread = state.spread.get(row)
    if spread is None:
        return None
    return Via(str(state.batch.ids[spread.parent]), spread.score, spread.factor, spread.hops, spread.link)
