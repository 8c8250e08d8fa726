"""The words of an explanation: a note for each stage on the path, and a sentence for the stage that decided."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from salience.batch import Batch, cosines
from salience.explain.trace import CANDIDATES, RETURNED, Trace, cosine_rank
from salience.ports import EDGE
from salience.rank.profile import Profile
from salience.rank.signals import SIGNALS
from salience.rank.stages import NOBODY, least_fit
from salience.records import CALLER, FACT, Filter, Memory, Part, Replacement, ScoreDetail, Waypoint
from salience.records.ids import short_id

SCOPE: Final = "scope"
FILTER: Final = "filter"
LINKS: Final[Mapping[str, str]] = {
    "neighbour": "its near neighbour",
    "entity": "which names the same entity",
    "update": "which it replaces",
}
"""Link of a passed-on score -> relation of the other memory."""
DECIDERS: Final[Mapping[str, str]] = {
    FACT: "their fact key",
    "rule": "their words",
    "model": "the model",
}
"""`Relation.by` -> its name; another value is the name of a judge."""


def path(trace: Trace, row: int) -> tuple[Waypoint, ...]:
    """Return the effect of each stage of the profile on a row, in order."""
    outcomes = [(name, trace.outcome(row, step)) for step, name in enumerate(trace.profile.stages)]
    return tuple(
        Waypoint(name, outcome, "" if outcome == "not reached" else _note(trace, row, step, name))
        for step, (name, outcome) in enumerate(outcomes)
    )


def _note(trace: Trace, row: int, step: int, name: str) -> str:
    """Return the note of a stage on a row that reached it; empty for other stages than these."""
    criteria, scores = trace.criteria, trace.states[step].scores
    score = float(scores[row]) if len(scores) else 0.0  # no scores yet
    dropped = trace.ranked.dropped_at[row] == step
    match name:
        case "expired":
            ends = float(trace.batch["expires_at"][row])
            return "no time to live" if np.isinf(ends) else f"lives until {_moment(ends)}"
        case "superseded" | "replaced" if dropped:
            return f"by {_by(trace, row)}"
        case "replaced" if trace.batch.successors is not None and (newer := trace.batch.successors[row]):
            return f"by {short_id(newer)}, probability {float(trace.batch['replaced'][row]):.2f}"
        case "superseded":
            return "by none"
        case "same_fact" if dropped:
            return f"newer: {_by(trace, row)}"
        case "same_fact":
            return "the newest of its fact" if int(trace.batch["fact"][row]) >= 0 else "no fact key"
        case "importance_floor":
            return _comparison("importance", float(trace.batch["importance"][row]), _floor(trace))
        case "similarity_floor":
            return _comparison("similarity", _similarity(trace, row), criteria.min_score)
        case "score":
            return f"{float(trace.states[step + 1].scores[row]):.4f}, rank {trace.place(row, step + 1)}"
        case "shortlist":
            if np.isinf(trace.ranked.shortlisted):
                return f"first pass {trace.ranked.first_pass[row]:.3f}; every memory is on the shortlist"
            return _comparison("first pass", float(trace.ranked.first_pass[row]), trace.ranked.shortlisted)
        case "nonzero":
            return f"score {score:.4g}"
        case "threshold":
            return _comparison("score", score, criteria.min_score)
        case "near_duplicate" | "same_statement" if dropped:
            return f"collapsed into {_by(trace, row)}"
        case "near_duplicate" | "same_statement":
            others = ", ".join(_name(trace, other) for other in trace.ranked.absorbed.get(row, ()))
            return f"collapsed {others} into it" if others else "kept"
        case "spread" | "replaced":
            before, link = (state.spread.get(row) for state in trace.states[step : step + 2])
            if link is None or link == before:
                return "by none" if name == "replaced" else "nothing above its own score"
            return f"{link.activation:.4f} from {_name(trace, link.parent)} ({link.link})"
        case "cut_off":
            fit = _required_score(trace, step)
            if fit is None:
                return "a least score is given"
            return "nothing fits" if np.isinf(fit) else _comparison("score", score, fit)
        case "trim":
            return f"rank {trace.place(row, step)} of {len(trace.states[step].rows)}, limit {criteria.wanted}"
    return ""


def reason(trace: Trace, row: int) -> str:
    """Return, as a sentence, the outcome for a row."""
    batch, criteria, score = trace.batch, trace.criteria, float(trace.ranked.scores[row])
    step = int(trace.ranked.dropped_at[row])
    match RETURNED if trace.returned(row) else trace.profile.stages[step]:
        case "returned":
            place, link = trace.place(row, len(trace.profile.stages)), trace.ranked.spread.get(row)
            text = f"Returned at rank {place} of {len(trace.ranked.rows)} with {score:.4f}"
            return f"{text}, passed on by {_name(trace, link.parent)}, {LINKS[link.link]}." if link else f"{text}."
        case "expired":
            ends = _moment(float(batch["expires_at"][row]))
            now = _moment(criteria.reading.now.timestamp())
            return f"Its time to live ended on {ends}; the query's instant is {now}."
        case "superseded":
            return f"{_by(trace, row)} supersedes it."
        case "replaced":
            return f"{_by(trace, row)} replaces it."
        case "same_fact":
            newer, older = (_moment(float(batch["updated_at"][one])) for one in (trace.ranked.by[row], row))
            difference = f"updated on {newer}, this one on {older}" if newer != older else "stored later"
            return f"Of the same fact {_by(trace, row)} is newer: {difference}."
        case "importance_floor":
            return _below("importance", float(batch["importance"][row]), "floor", _floor(trace))
        case "similarity_floor":
            return _below("similarity", _similarity(trace, row), "least score", criteria.min_score or 0.0)
        case "shortlist":
            own, last = _compared(float(trace.ranked.first_pass[row]), trace.ranked.shortlisted)
            return f"It is not on the shortlist: its score without token vectors is {own}, that of the last one {last}."
        case "nonzero":
            factors = [term.label for term in trace.profile.terms if term.combine == "product"]
            zero = [label for label in factors if trace.ranked.parts[label][row] == 0]
            return (
                f"Its score is 0, since a factor of it is: {', '.join(zero)}." if zero else "Its score is not above 0."
            )
        case "threshold":
            return _below("score", score, "least score", criteria.min_score or 0.0)
        case "same_statement":
            return f"It makes the same statement as {_by(trace, row)}, which ranks higher and represents both."
        case "near_duplicate":
            likeness, other = "unknown", int(trace.ranked.by[row])
            if batch.vectors is not None:
                one, two = batch.vectors.at(np.array([other])), batch.vectors.at(np.array([row]))[0]
                likeness = f"{float(cosines(one, two)[0]):.3f}"
            return f"It says the same as {_by(trace, row)}, which ranks higher and represents both (cosine {likeness})."
        case "cut_off":
            state, fit = trace.states[step], _required_score(trace, step) or 0.0
            if np.isinf(fit):
                return (
                    f"None of {len(state.rows)} memories fits the query except by its speaker, so nothing is returned."
                )
            best = float(state.scores[state.rows].max())
            return f"{_below('score', score, 'cut-off', fit)[:-1]}; the best of {len(state.rows)} has {best:.3f}."
        case "trim":
            place, last = trace.place(row, step), trace.ranked.rows[-1:].tolist()
            if not last:
                return f"It ranks {place}, and the limit is {criteria.wanted}."
            own, bar = _compared(score, float(trace.ranked.scores[last[0]]))
            return f"It ranks {place} with {own}; the last one in the answer, {_name(trace, last[0])}, has {bar}."
        case name:
            return f"The stage {name} dropped it."


def said_by(relation: Replacement | None) -> str:
    """Return, in brackets, how sure a relation is, who decided it and why; empty if it is not known."""
    if relation is None:
        return ""
    said = "a caller said so"
    if relation.by != CALLER:
        said = f"probability {relation.probability:.2f}, by {DECIDERS.get(relation.by, relation.by)}"
    return f" ({said}: {relation.reason})" if relation.reason else f" ({said})"


def first_reason(trace: Trace, row: int, first: int, above: Iterable[Part], relation: Replacement | None) -> str:
    """Return, as a sentence, what put the first hit above a row: a relation, else the largest part of the difference.

    `relation` is that of the first hit and the memory whose score it took over, if any.
    """
    link, score = trace.ranked.spread.get(first), float(trace.ranked.scores[first])
    head = f"{_name(trace, first)} is first with {score:.4f}"
    if link is not None:
        whose = "this memory" if link.parent == row else _name(trace, link.parent)
        if link.link != "update":
            return f"{head}, passed on by {whose}, {LINKS[link.link]}."
        successors = trace.batch.successors
        is_newer = successors is not None and successors[link.parent] == trace.batch.ids[first]
        how = "which it replaces" if is_newer else "which replaces it"
        return f"{head}: it takes over the score of {whose}, {how}{said_by(relation)}."
    most = max(above, key=lambda part: part.contribution, default=None)
    if most is None or most.contribution <= EDGE:
        return f"{head}, and of equal scores the older memory comes first."
    return f"{head}, mainly by {most.signal.replace('_', ' ')} ({most.contribution:+.4f})."


def differences(one: ScoreDetail, other: ScoreDetail) -> tuple[Part, ...]:
    """Return the difference of two scores of a profile, part by part; the contributions add up to it within 1e-9.

    A summed part counts times the mean of the products of the factors, a factor times the mean of the sums; of several
    factors, each counts with those before it as in `one` and those after it as in `other`. The part `via` is what other
    memories passed on beyond the own scores.
    """
    pairs = list(zip(one.parts, other.parts, strict=True))
    sums = [[part.contribution for part in detail.parts if part.combine == "sum"] for detail in (one, other)]
    mean_sum = (sum(sums[0]) + sum(sums[1])) / 2 if sums[0] else 1.0
    factors = [(mine.contribution, theirs.contribution) for mine, theirs in pairs if mine.combine == "product"]
    mean_factor = (math.prod(mine for mine, _ in factors) + math.prod(theirs for _, theirs in factors)) / 2
    found, place = list[Part](), 0
    for mine, theirs in pairs:
        gap = mine.contribution - theirs.contribution
        if mine.combine == "sum":
            gap *= mean_factor
        else:
            before, after = math.prod(a for a, _ in factors[:place]), math.prod(b for _, b in factors[place + 1 :])
            gap, place = gap * before * after * mean_sum, place + 1
        found.append(Part(mine.signal, mine.raw - theirs.raw, mine.weight, gap, mine.combine))
    own = [replace(detail, via=None).recompute() for detail in (one, other)]
    if one.via is not None or other.via is not None:
        passed_on = (one.final - own[0]) - (other.final - own[1])
        found.append(Part("via", passed_on, 1.0, passed_on, "sum"))
    return tuple(found)


def _compared(value: float, bound: float) -> tuple[str, str]:
    """Return two numbers with 3 to 9 digits, enough to differ."""
    for digits in range(3, 9):
        left, right = f"{value:.{digits}f}", f"{bound:.{digits}f}"
        if left != right or value == bound:
            return left, right
    return f"{value:.9f}", f"{bound:.9f}"


def _below(what: str, value: float, name: str, bound: float) -> str:
    """Return the sentence that a value is below a bound, and by how much."""
    left, right = _compared(value, bound)
    return f"Its {what} {left} is {bound - value:.2g} below the {name}, {right}."


def _comparison(what: str, value: float, bound: float | None) -> str:
    """Return the note of a value and its bound: `score 0.612 < 0.700`."""
    if bound is None:
        return "no least score"
    left, right = _compared(value, bound)
    return f"{what} {left} {'<' if value < bound - EDGE else '>='} {right}"


def _moment(seconds: float) -> str:
    """Return an instant, given in seconds since 1970, in ISO 8601."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _name(trace: Trace, row: int) -> str:
    return short_id(str(trace.batch.ids[row]))


def _by(trace: Trace, row: int) -> str:
    """Return the short id of the memory because of which a row was dropped."""
    by = int(trace.ranked.by[row])
    return "another" if by == NOBODY else _name(trace, by)


def _floor(trace: Trace) -> float:
    return float(trace.profile.stage_parameters["importance_floor"]["minimum"])


def _similarity(trace: Trace, row: int) -> float:
    return float(SIGNALS["similarity"].formula(trace.batch, trace.criteria)[row])


def _required_score(trace: Trace, step: int) -> float | None:
    """Return the score that the cut-off requires; None if a least score replaces it."""
    if trace.criteria.min_score is not None or not len(trace.states[step].rows):
        return None
    return least_fit(trace.states[step], **trace.profile.stage_parameters["cut_off"])


def steps_before(profile: Profile, dropped_at: str = "", note: str = "") -> tuple[Waypoint, ...]:
    """Return the steps before ranking: all passed, or all up to the one that dropped the memory."""
    names = [SCOPE, FILTER, *([] if profile.candidates is None and dropped_at != CANDIDATES else [CANDIDATES])]
    if not dropped_at:
        return tuple(Waypoint(name, "passed") for name in names)
    place, names = names.index(dropped_at), [*names, *profile.stages]
    passed = [Waypoint(name, "passed") for name in names[:place]]
    return (
        *passed,
        Waypoint(dropped_at, "fell", note),
        *(Waypoint(name, "not reached") for name in names[place + 1 :]),
    )


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
    phrases = {"forgotten": "was forgotten", "expired": "expired", "stale": "was hidden after a change of its sources"}
    return f"{phrases[memory.status]} on {when}; its versions are kept, and no recall returns it"


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


def candidates_reason(all_candidates: Batch, row: int, count: int) -> str:
    """Return, as a sentence, the cosine rank of a row of `all_candidates`, if only the `count` nearest are ranked."""
    cosine = all_candidates["cosine"]
    own, last = _compared(float(cosine[row]), float(np.sort(cosine)[-count]))
    number = cosine_rank(all_candidates, row)
    return f"By cosine it is number {number} with {own}; the nearest {count} are ranked, down to {last}."


def filter_reason(filter: Filter, memory: Memory, names: Iterable[str]) -> str:
    """Return, as a sentence, the filter's conditions that a memory does not meet, and its own values."""
    return sentence("; ".join(_unmet(name, filter, memory) for name in names))


def _unmet(name: str, filter: Filter, memory: Memory) -> str:
    """Return how a memory does not meet a condition of a filter."""
    wanted, session, project = getattr(filter, name), memory.scope.session_id, memory.scope.project
    match name:
        case "tags":
            return f"it has no tag {' and no tag '.join(repr(tag) for tag in wanted if tag not in memory.tags)}"
        case "sessions":
            own = "no session" if session is None else f"session {session!r}"
            return f"it comes from {own}, not from {' or '.join(map(repr, wanted))}"
        case "level":
            return (
                f"it belongs to {'no project' if project is None else f'project {project!r}'}, and scope is {wanted!r}"
            )
        case "since" | "until":
            created, bound = (at.isoformat(timespec="seconds") for at in (memory.created_at, wanted))
            return f"it was created on {created}, {'before' if name == 'since' else 'not before'} {bound}"
        case "where":
            return f"its metadata does not meet {dict(wanted)!r}"
        case "kinds" | "tiers" | "fact_keys":
            field = name.removesuffix("s")
            return f"its {field} is {getattr(memory, field)!r}, not {' or '.join(map(repr, wanted))}"
    raise AssertionError(f"no words for the condition {name}")


def spelled_filter(filter: Filter, names: Iterable[str]) -> str:
    """Return conditions of a filter as keyword arguments: `tags=['x'], kinds=['rule']`."""
    spelled = []
    for name in names:
        value = getattr(filter, name)
        if isinstance(value, datetime):
            value = value.isoformat(timespec="seconds")
        value = list(value) if isinstance(value, tuple) else value
        spelled.append(f"{'scope' if name == 'level' else name}={value!r}")
    return ", ".join(spelled)


def sentence(words: str) -> str:
    """Return words as a sentence."""
    return f"{words[:1].upper()}{words[1:]}."
