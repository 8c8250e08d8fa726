"""The words of an explanation: a note for each stage on the path, and a sentence for the stage that decided."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from salience.batch import Batch, cosines
from salience.explain.trace import CANDIDATES, RETURNED, Trace, cosine_rank
from salience.ports import EDGE
from salience.rank.profile import Profile
from salience.rank.signals import SIGNALS
from salience.rank.stages import NOBODY, least_fit
from salience.records import Filter, Memory, Waypoint
from salience.records.ids import short_id

SCOPE: Final = "scope"
FILTER: Final = "filter"
Says = Callable[[Trace, int, int], str]
"""(trace, row, number of the stage) -> text."""


def path(trace: Trace, row: int) -> tuple[Waypoint, ...]:
    """Return the effect of each stage of the profile on a row, in order."""
    return tuple(_waypoint(trace, row, step, name) for step, name in enumerate(trace.profile.stages))


def _waypoint(trace: Trace, row: int, step: int, name: str) -> Waypoint:
    outcome = trace.outcome(row, step)
    return Waypoint(name, outcome, "" if outcome == "not reached" else NOTES.get(name, _nothing)(trace, row, step))


def reason(trace: Trace, row: int) -> str:
    """Return, as a sentence, the outcome for a row."""
    fate = int(trace.ranked.fates[row])
    name = RETURNED if trace.returned(row) else trace.profile.stages[fate]
    return REASONS.get(name, _dropped)(trace, row, fate)


def compared(value: float, bound: float) -> tuple[str, str]:
    """Return two numbers with 3 to 9 digits, enough to differ."""
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
    """Return the note of a value and its bound: `score 0.612 < 0.700`."""
    if bound is None:
        return "no least score"
    left, right = compared(value, bound)
    return f"{what} {left} {'<' if value < bound - EDGE else '>='} {right}"


def moment(seconds: float) -> str:
    """Return an instant, given in seconds since 1970, in ISO 8601."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def name_of(trace: Trace, row: int) -> str:
    """Return the short id of a row's memory."""
    return short_id(str(trace.batch.ids[row]))


def _nothing(_trace: Trace, _row: int, _step: int) -> str:
    return ""


def _dropped(trace: Trace, _row: int, step: int) -> str:
    return f"The stage {trace.profile.stages[step]} dropped it."


def _score(trace: Trace, row: int) -> float:
    return float(trace.ranked.scores[row])


def _by(trace: Trace, row: int) -> str:
    by = int(trace.ranked.by[row])
    return "another" if by == NOBODY else name_of(trace, by)


def _other(trace: Trace, row: int, step: int, relation: str, alone: str) -> str:
    """Return `relation` and the memory that made the row fall at this stage, or `alone` if the row passed."""
    return f"{relation} {_by(trace, row)}" if trace.ranked.fates[row] == step else alone


def _expired(trace: Trace, row: int, _step: int) -> str:
    ends = float(trace.batch["expires_at"][row])
    return "no time to live" if np.isinf(ends) else f"lives until {moment(ends)}"


def _expired_reason(trace: Trace, row: int, _step: int) -> str:
    ends = moment(float(trace.batch["expires_at"][row]))
    return f"Its time to live ended on {ends}; the query's instant is {moment(trace.need.now.timestamp())}."


def _same_fact(trace: Trace, row: int, step: int) -> str:
    labelled = int(trace.batch["fact"][row]) >= 0
    return _other(trace, row, step, "newer:", "the newest of its fact" if labelled else "no fact key")


def _same_fact_reason(trace: Trace, row: int, _step: int) -> str:
    updated = trace.batch["updated_at"]
    newer, older = (moment(float(updated[one])) for one in (trace.ranked.by[row], row))
    difference = f"updated on {newer}, this one on {older}" if newer != older else "stored later"
    return f"Of the same fact {_by(trace, row)} is newer: {difference}."


def _floor(trace: Trace) -> float:
    return float(trace.profile.stage_parameters["importance_floor"]["minimum"])


def _similarity(trace: Trace, row: int) -> float:
    return float(SIGNALS["similarity"].formula(trace.batch, trace.need)[row])


def _least(trace: Trace) -> float:
    return trace.need.min_score or 0.0


def _nonzero_reason(trace: Trace, row: int, _step: int) -> str:
    factors = [term.label for term in trace.profile.terms if term.combine == "product"]
    zero = [label for label in factors if trace.ranked.parts[label][row] == 0]
    return f"Its score is 0, since a factor of it is: {', '.join(zero)}." if zero else "Its score is not above 0."


def _likeness(trace: Trace, row: int, other: int) -> str:
    vectors = trace.batch.vectors
    if vectors is None:
        return "unknown"
    return f"{float(cosines(vectors.at(np.array([other])), vectors.at(np.array([row]))[0])[0]):.3f}"


def _near_duplicate(trace: Trace, row: int, step: int) -> str:
    absorbed = trace.ranked.absorbed.get(row, ())
    alone = f"absorbed {', '.join(name_of(trace, other) for other in absorbed)}" if absorbed else "kept"
    return _other(trace, row, step, "collapsed into", alone)


def _near_duplicate_reason(trace: Trace, row: int, _step: int) -> str:
    likeness = _likeness(trace, row, int(trace.ranked.by[row]))
    return f"It says the same as {_by(trace, row)}, which ranks higher and represents both (cosine {likeness})."


def _spread(trace: Trace, row: int, step: int) -> str:
    before, link = (state.spread.get(row) for state in trace.states[step : step + 2])
    if link is None or link == before:
        return "nothing above its own score"
    return f"{link.activation:.4f} from {name_of(trace, link.parent)} ({link.link})"


def _ranked(trace: Trace, row: int, step: int) -> str:
    place = trace.place(row, step)
    return f"rank {place} of {len(trace.states[step].rows)}, limit {trace.need.wanted}"


def _outranked_reason(trace: Trace, row: int, step: int) -> str:
    place, last = trace.place(row, step), trace.ranked.rows[-1:].tolist()
    if not last:
        return f"It ranks {place}, and the limit is {trace.need.wanted}."
    own, bar = compared(_score(trace, row), _score(trace, last[0]))
    return f"It ranks {place} with {own}; the last one in the answer, {name_of(trace, last[0])}, has {bar}."


def _returned_reason(trace: Trace, row: int, _step: int) -> str:
    place, link = trace.place(row, len(trace.profile.stages)), trace.ranked.spread.get(row)
    text = f"Returned at rank {place} of {len(trace.ranked.rows)} with {_score(trace, row):.4f}"
    return f"{text}." if link is None else f"{text}, passed on by {name_of(trace, link.parent)}, {LINKS[link.link]}."


def _fit(trace: Trace, step: int) -> float | None:
    """Return the score that the cut-off requires; None if a least score replaces it."""
    if trace.need.min_score is not None or not len(trace.states[step].rows):
        return None
    return least_fit(trace.states[step], **trace.profile.stage_parameters["cut_off"])


def _cut_off(trace: Trace, row: int, step: int) -> str:
    fit = _fit(trace, step)
    if fit is None:
        return "a least score is given"
    return "nothing fits" if np.isinf(fit) else beside("score", float(trace.states[step].scores[row]), fit)


def _cut_off_reason(trace: Trace, row: int, step: int) -> str:
    state, fit = trace.states[step], _fit(trace, step) or 0.0
    if np.isinf(fit):
        return f"None of {len(state.rows)} memories fits the query except by its speaker, so nothing is returned."
    best = float(state.scores[state.rows].max())
    text = below("score", _score(trace, row), "cut-off", fit)
    return f"{text[:-1]}; the best of {len(state.rows)} has {best:.3f}."


LINKS: Final[Mapping[str, str]] = {
    "neighbour": "its near neighbour",
    "entity": "which names the same entity",
    "update": "which it updates",
}
"""Link of a passed-on score -> relation of the other memory."""

NOTES: Final[Mapping[str, Says]] = {
    "expired": _expired,
    "superseded": lambda trace, row, step: _other(trace, row, step, "by", "by none"),
    "outdated": lambda trace, row, step: _other(trace, row, step, "by", "by none"),
    "importance_floor": lambda trace, row, _: beside(
        "importance", float(trace.batch["importance"][row]), _floor(trace)
    ),
    "same_fact": _same_fact,
    "similarity_floor": lambda trace, row, _: beside("similarity", _similarity(trace, row), trace.need.min_score),
    "score": lambda trace, row, step: (
        f"{float(trace.states[step + 1].scores[row]):.4f}, rank {trace.place(row, step + 1)}"
    ),
    "nonzero": lambda trace, row, step: f"score {float(trace.states[step].scores[row]):.4g}",
    "threshold": lambda trace, row, step: beside("score", float(trace.states[step].scores[row]), trace.need.min_score),
    "near_duplicate": _near_duplicate,
    "spread": _spread,
    "update": _spread,
    "cut_off": _cut_off,
    "trim": _ranked,
}
"""Stage -> note on a row that reached it; other stages have an empty note."""

REASONS: Final[Mapping[str, Says]] = {
    "expired": _expired_reason,
    "superseded": lambda trace, row, _: f"{_by(trace, row)} supersedes it.",
    "outdated": lambda trace, row, _: f"{_by(trace, row)} replaces it.",
    "importance_floor": lambda trace, row, _: below(
        "importance", float(trace.batch["importance"][row]), "floor", _floor(trace)
    ),
    "same_fact": _same_fact_reason,
    "similarity_floor": lambda trace, row, _: below(
        "similarity", _similarity(trace, row), "least score", _least(trace)
    ),
    "nonzero": _nonzero_reason,
    "threshold": lambda trace, row, _: below("score", _score(trace, row), "least score", _least(trace)),
    "near_duplicate": _near_duplicate_reason,
    "cut_off": _cut_off_reason,
    "trim": _outranked_reason,
    RETURNED: _returned_reason,
}
"""Stage at which a row fell, or `returned` -> reason, as a sentence; other stages are only named."""


def steps_before(profile: Profile, fell: str = "", note: str = "") -> tuple[Waypoint, ...]:
    """Return the steps before ranking: all passed, or all up to the one at which the memory fell."""
    names = [SCOPE, FILTER, *([] if profile.candidates is None and fell != CANDIDATES else [CANDIDATES])]
    if not fell:
        return tuple(Waypoint(name, "passed") for name in names)
    place, names = names.index(fell), [*names, *profile.stages]
    passed = [Waypoint(name, "passed") for name in names[:place]]
    return (*passed, Waypoint(fell, "fell", note), *(Waypoint(name, "not reached") for name in names[place + 1 :]))


def scope_reason(memory: Memory, query_values: Mapping[str, Any]) -> str:
    """Return, as a sentence, the coordinates that hide a memory, and the caller's values."""
    parts = [
        f"its {name} is {getattr(memory.scope, name)!r}, and the query "
        + ("names none" if value is None else f"names {value!r}")
        for name, value in query_values.items()
    ]
    return sentence("; ".join(parts))


def forgotten_reason(memory: Memory) -> str:
    """Return how and when a memory was removed from every recall."""
    when = memory.forgotten_at.isoformat(timespec="seconds") if memory.forgotten_at else ""
    return f"{_GONE[memory.status]} on {when}; its versions are kept, and no recall returns it"


def later_reason(memory: Memory) -> str:
    """Return why a memory did not exist at an instant: its oldest version is later."""
    when = memory.changed_at.isoformat(timespec="seconds")
    if memory.version > 1:
        return f"has no version from before {when}; keep_versions dropped them"
    return f"was stored on {when}, after the requested instant"


def unreached_reason(batch: Batch, row: int, reach: int) -> str:
    """Return, as a sentence, why the store's indexes left a memory out of the candidates."""
    cosine = float(batch["cosine"][row])
    return (
        f"The store searches this many memories by index: it returned the {reach} nearest memories and those "
        f"with the rarer words of the query. This memory is neither; its cosine is {cosine:.3f}."
    )


def filter_reason(filter: Filter, memory: Memory, names: Iterable[str]) -> str:
    """Return, as a sentence, the filter's conditions that a memory does not meet, and its own values."""
    return sentence("; ".join(_REFUSALS[name](filter, memory) for name in names))


def candidates_reason(everyone: Batch, row: int, count: int) -> str:
    """Return, as a sentence, the cosine rank of a row of `everyone`, if only the `count` nearest are ranked."""
    cosine = everyone["cosine"]
    own, last = compared(float(cosine[row]), float(np.sort(cosine)[-count]))
    number = cosine_rank(everyone, row)
    return f"By cosine it is number {number} with {own}; the nearest {count} are ranked, down to {last}."


def spelled_filter(filter: Filter, names: Iterable[str]) -> str:
    """Return conditions of a filter as keyword arguments: `tags=['x'], kinds=['rule']`."""
    return ", ".join(f"{'scope' if name == 'level' else name}={_spelled(getattr(filter, name))}" for name in names)


def sentence(words: str) -> str:
    """Return words as a sentence."""
    return f"{words[:1].upper()}{words[1:]}."


def _spelled(value: Any) -> str:
    if isinstance(value, datetime):
        return repr(value.isoformat(timespec="seconds"))
    return repr(list(value)) if isinstance(value, tuple) else repr(value)


def _either(names: Iterable[str]) -> str:
    return " or ".join(map(repr, names))


def _tags(filter: Filter, memory: Memory) -> str:
    return f"it has no tag {' and no tag '.join(repr(tag) for tag in filter.tags if tag not in memory.tags)}"


def _session(filter: Filter, memory: Memory) -> str:
    own = memory.scope.session_id
    return f"it comes from {'no session' if own is None else f'session {own!r}'}, not from {_either(filter.sessions)}"


def _created(memory: Memory, relation: str, bound: datetime | None) -> str:
    created, limit = (at.isoformat(timespec="seconds") for at in (memory.created_at, bound or memory.created_at))
    return f"it was created on {created}, {relation} {limit}"


def _level(filter: Filter, memory: Memory) -> str:
    own = memory.scope.project
    return f"it belongs to {'no project' if own is None else f'project {own!r}'}, and scope is {filter.level!r}"


_GONE: Final[Mapping[str, str]] = {
    "forgotten": "was forgotten",
    "expired": "expired",
    "stale": "was hidden after a change of its sources",
}
"""Status of a memory -> how it was removed from every recall."""
_REFUSALS: Final[Mapping[str, Callable[[Filter, Memory], str]]] = {
    "tags": _tags,
    "kinds": lambda wanted, memory: f"its kind is {memory.kind!r}, not {_either(wanted.kinds)}",
    "tiers": lambda wanted, memory: f"its tier is {memory.tier!r}, not {_either(wanted.tiers)}",
    "sessions": _session,
    "fact_keys": lambda wanted, memory: f"its fact_key is {memory.fact_key!r}, not {_either(wanted.fact_keys)}",
    "since": lambda wanted, memory: _created(memory, "before", wanted.since),
    "until": lambda wanted, memory: _created(memory, "not before", wanted.until),
    "level": _level,
}
"""Condition of a filter -> how a memory does not meet it."""
