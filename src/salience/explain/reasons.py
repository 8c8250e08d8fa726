"""What each stage has to say of a row: a note with the number that decided, and a sentence if the row fell there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

import numpy as np

from salience.batch import cosines
from salience.explain.trial import RETURNED, Trial
from salience.ports import EDGE
from salience.rank.signals import SIGNALS
from salience.rank.stages import NOBODY, least_fit
from salience.records import Waypoint
from salience.records.ids import short_id

Says = Callable[[Trial, int, int], str]
"""(trial, row, number of the stage) -> text."""


def path(trial: Trial, row: int) -> tuple[Waypoint, ...]:
    """Return what each stage of the profile did to a row, in order."""
    return tuple(_waypoint(trial, row, step, name) for step, name in enumerate(trial.profile.stages))


def _waypoint(trial: Trial, row: int, step: int, name: str) -> Waypoint:
    outcome = trial.outcome(row, step)
    return Waypoint(name, outcome, "" if outcome == "not reached" else NOTES.get(name, _nothing)(trial, row, step))


def reason(trial: Trial, row: int) -> str:
    """Return, as a sentence, what became of a row."""
    fate = int(trial.ranked.fates[row])
    name = RETURNED if trial.returned(row) else trial.profile.stages[fate]
    return REASONS.get(name, _dropped)(trial, row, fate)


def compared(value: float, bound: float) -> tuple[str, str]:
    """Return two numbers with as many digits, 3 to 9, as tell them apart."""
    for digits in range(3, 9):
        left, right = f"{value:.{digits}f}", f"{bound:.{digits}f}"
        if left != right or value == bound:
            return left, right
    return f"{value:.9f}", f"{bound:.9f}"


def below(what: str, value: float, name: str, bound: float) -> str:
    """Return the sentence that a value is below a bound, and by how much."""
    left, right = compared(value, bound)
    return f"Its {what} {left} is {bound - value:.2g} below the {name}, {right}."


def beside(what: str, value: float, bound: float | None) -> str:
    """Return the note of a value and the bound that it is held to: `score 0.612 < 0.700`."""
    if bound is None:
        return "no least score"
    left, right = compared(value, bound)
    return f"{what} {left} {'<' if value < bound - EDGE else '>='} {right}"


def moment(seconds: float) -> str:
    """Return an instant, given in seconds since 1970, in ISO 8601."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def name_of(trial: Trial, row: int) -> str:
    """Return the short id of a row's memory."""
    return short_id(str(trial.batch.ids[row]))


def _nothing(_trial: Trial, _row: int, _step: int) -> str:
    return ""


def _dropped(trial: Trial, _row: int, step: int) -> str:
    return f"The stage {trial.profile.stages[step]} dropped it."


def _score(trial: Trial, row: int) -> float:
    return float(trial.ranked.scores[row])


def _by(trial: Trial, row: int) -> str:
    by = int(trial.ranked.by[row])
    return "another" if by == NOBODY else name_of(trial, by)


def _other(trial: Trial, row: int, step: int, told: str, alone: str) -> str:
    """Return `told` and the memory because of which the row fell at this stage, or `alone` if it passed."""
    return f"{told} {_by(trial, row)}" if trial.ranked.fates[row] == step else alone


def _expired(trial: Trial, row: int, _step: int) -> str:
    ends = float(trial.batch["expires_at"][row])
    return "no time to live" if np.isinf(ends) else f"lives until {moment(ends)}"


def _expired_reason(trial: Trial, row: int, _step: int) -> str:
    ends = moment(float(trial.batch["expires_at"][row]))
    return f"Its time to live ended on {ends}; the question was asked on {moment(trial.need.now.timestamp())}."


def _same_fact(trial: Trial, row: int, step: int) -> str:
    labelled = int(trial.batch["fact"][row]) >= 0
    return _other(trial, row, step, "newer:", "the newest of its fact" if labelled else "no fact key")


def _same_fact_reason(trial: Trial, row: int, _step: int) -> str:
    updated = trial.batch["updated_at"]
    newer, older = (moment(float(updated[one])) for one in (trial.ranked.by[row], row))
    told = f"updated on {newer}, this one on {older}" if newer != older else "stored later"
    return f"Of the same fact {_by(trial, row)} is newer: {told}."


def _floor(trial: Trial) -> float:
    return float(trial.profile.stage_parameters["importance_floor"]["minimum"])


def _similarity(trial: Trial, row: int) -> float:
    return float(SIGNALS["similarity"].formula(trial.batch, trial.need)[row])


def _least(trial: Trial) -> float:
    return trial.need.min_score or 0.0


def _nonzero_reason(trial: Trial, row: int, _step: int) -> str:
    factors = [term.label for term in trial.profile.terms if term.combine == "product"]
    zero = [label for label in factors if trial.ranked.parts[label][row] == 0]
    return f"Its score is 0, since a factor of it is: {', '.join(zero)}." if zero else "Its score is not above 0."


def _likeness(trial: Trial, row: int, other: int) -> str:
    vectors = trial.batch.vectors
    if vectors is None:
        return "unknown"
    return f"{float(cosines(vectors.at(np.array([other])), vectors.at(np.array([row]))[0])[0]):.3f}"


def _near_duplicate(trial: Trial, row: int, step: int) -> str:
    absorbed = trial.ranked.absorbed.get(row, ())
    alone = f"absorbed {', '.join(name_of(trial, other) for other in absorbed)}" if absorbed else "kept"
    return _other(trial, row, step, "collapsed into", alone)


def _near_duplicate_reason(trial: Trial, row: int, _step: int) -> str:
    likeness = _likeness(trial, row, int(trial.ranked.by[row]))
    return f"It says the same as {_by(trial, row)}, which ranks higher and stands for both (cosine {likeness})."


def _spread(trial: Trial, row: int, step: int) -> str:
    before, link = (state.spread.get(row) for state in trial.states[step : step + 2])
    if link is None or link == before:
        return "nothing above its own score"
    return f"{link.activation:.4f} from {name_of(trial, link.parent)} ({link.link})"


def _ranked(trial: Trial, row: int, step: int) -> str:
    place = trial.place(row, step)
    return f"rank {place} of {len(trial.states[step].rows)}, {trial.need.wanted} asked for"


def _outranked_reason(trial: Trial, row: int, step: int) -> str:
    place, last = trial.place(row, step), trial.ranked.rows[-1:].tolist()
    if not last:
        return f"It ranks {place}, and the limit is {trial.need.wanted}."
    own, bar = compared(_score(trial, row), _score(trial, last[0]))
    return f"It ranks {place} with {own}; the last one in the answer, {name_of(trial, last[0])}, has {bar}."


def _returned_reason(trial: Trial, row: int, _step: int) -> str:
    place, link = trial.place(row, len(trial.profile.stages)), trial.ranked.spread.get(row)
    said = f"Returned at rank {place} of {len(trial.ranked.rows)} with {_score(trial, row):.4f}"
    return f"{said}." if link is None else f"{said}, passed on by {name_of(trial, link.parent)}, {LINKS[link.link]}."


def _fit(trial: Trial, step: int) -> float | None:
    """Return the score that the cut-off asks for; None where a least score takes its place."""
    if trial.need.min_score is not None or not len(trial.states[step].rows):
        return None
    return least_fit(trial.states[step], **trial.profile.stage_parameters["cut_off"])


def _cut_off(trial: Trial, row: int, step: int) -> str:
    fit = _fit(trial, step)
    if fit is None:
        return "a least score is given"
    return "nothing fits" if np.isinf(fit) else beside("score", float(trial.states[step].scores[row]), fit)


def _cut_off_reason(trial: Trial, row: int, step: int) -> str:
    state, fit = trial.states[step], _fit(trial, step) or 0.0
    if np.isinf(fit):
        return f"Of {len(state.rows)} memories none fits the query but for who said it, so that nothing is returned."
    best = float(state.scores[state.rows].max())
    told = below("score", _score(trial, row), "score that it takes to fit the query", fit)
    return f"{told[:-1]}, where the best of {len(state.rows)} has {best:.3f}."


LINKS: Final[Mapping[str, str]] = {
    "neighbour": "its near neighbour",
    "entity": "which names the same entity",
    "update": "of which it is the later word",
}
"""How a score came from another memory -> what that one is."""

NOTES: Final[Mapping[str, Says]] = {
    "expired": _expired,
    "superseded": lambda trial, row, step: _other(trial, row, step, "by", "by none"),
    "outdated": lambda trial, row, step: _other(trial, row, step, "by", "by none"),
    "importance_floor": lambda trial, row, _: beside(
        "importance", float(trial.batch["importance"][row]), _floor(trial)
    ),
    "same_fact": _same_fact,
    "similarity_floor": lambda trial, row, _: beside("similarity", _similarity(trial, row), trial.need.min_score),
    "score": lambda trial, row, step: (
        f"{float(trial.states[step + 1].scores[row]):.4f}, rank {trial.place(row, step + 1)}"
    ),
    "nonzero": lambda trial, row, step: f"score {float(trial.states[step].scores[row]):.4g}",
    "threshold": lambda trial, row, step: beside("score", float(trial.states[step].scores[row]), trial.need.min_score),
    "near_duplicate": _near_duplicate,
    "spread": _spread,
    "update": _spread,
    "cut_off": _cut_off,
    "trim": _ranked,
}
"""Stage -> what it found of a row that reached it; a stage that is not here has an empty note."""

REASONS: Final[Mapping[str, Says]] = {
    "expired": _expired_reason,
    "superseded": lambda trial, row, _: f"{_by(trial, row)} supersedes it.",
    "outdated": lambda trial, row, _: f"{_by(trial, row)} holds in its place.",
    "importance_floor": lambda trial, row, _: below(
        "importance", float(trial.batch["importance"][row]), "floor", _floor(trial)
    ),
    "same_fact": _same_fact_reason,
    "similarity_floor": lambda trial, row, _: below(
        "similarity", _similarity(trial, row), "least score", _least(trial)
    ),
    "nonzero": _nonzero_reason,
    "threshold": lambda trial, row, _: below("score", _score(trial, row), "least score", _least(trial)),
    "near_duplicate": _near_duplicate_reason,
    "cut_off": _cut_off_reason,
    "trim": _outranked_reason,
    RETURNED: _returned_reason,
}
"""Stage at which a row fell, or `returned` -> why, as a sentence; any other stage is named."""
