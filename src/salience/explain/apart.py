"""What keeps a memory from being ranked at all, in words: its scope, the filter, the list of candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import numpy as np

from salience.batch import Batch
from salience.explain.reasons import compared
from salience.explain.sought import Target
from salience.explain.trial import CANDIDATES, nearness
from salience.rank.profile import Profile
from salience.records import Filter, Memory, Waypoint

SCOPE: Final = "scope"
FILTER: Final = "filter"


def before(profile: Profile, fell: str = "", note: str = "") -> tuple[Waypoint, ...]:
    """Return the steps before ranking, all passed unless the memory fell at one; then also those never reached."""
    names = [SCOPE, FILTER, *([] if profile.candidates is None and fell != CANDIDATES else [CANDIDATES])]
    if not fell:
        return tuple(Waypoint(name, "passed") for name in names)
    place, names = names.index(fell), [*names, *profile.stages]
    passed = [Waypoint(name, "passed") for name in names[:place]]
    return (*passed, Waypoint(fell, "fell", note), *(Waypoint(name, "not reached") for name in names[place + 1 :]))


def hidden(target: Target) -> str:
    """Return, as a sentence, which coordinates hide a memory, and what the question was asked with instead."""
    said = [
        f"its {name} is {getattr(target.memory.scope, name)!r}, and the question "
        + ("names none" if asked is None else f"was asked with {asked!r}")
        for name, asked in target.hidden.items()
    ]
    return sentence("; ".join(said))


def gone(memory: Memory) -> str:
    """Return what took a memory out of every recall, and when."""
    when = memory.forgotten_at.isoformat(timespec="seconds") if memory.forgotten_at else ""
    return f"{_GONE[memory.status]} on {when}; its versions are kept, and no recall returns it"


def later(memory: Memory) -> str:
    """Return why an instant knows nothing of a memory, whose first version that is kept came later."""
    when = memory.changed_at.isoformat(timespec="seconds")
    if memory.version > 1:
        return f"is kept as it stood from {when} on; what it was before was dropped, as keep_versions asks"
    return f"was stored on {when}, after the instant that is asked for"


def unreached(batch: Batch, row: int, reach: int) -> str:
    """Return why the indexes of a store brought a memory of a batch to no ranking, with its cosine."""
    cosine = float(batch["cosine"][row])
    return (
        f"More memories are visible than the store ranks one by one: its indexes brought the {reach} nearest and those "
        f"that hold the rarer words of the query, and it is neither, with a cosine of {cosine:.3f}."
    )


def refusal(filter: Filter, memory: Memory, names: Iterable[str]) -> str:
    """Return, as a sentence, what a filter asks for and what the memory has instead."""
    return sentence("; ".join(_REFUSALS[name](filter, memory) for name in names))


def far(everyone: Batch, row: int, count: int) -> str:
    """Return, as a sentence, how far from the query a row is, where the `count` nearest of `everyone` are ranked."""
    cosine = everyone["cosine"]
    own, last = compared(float(cosine[row]), float(np.sort(cosine)[-count]))
    return (
        f"By cosine it is number {nearness(everyone, row)} with {own}; the nearest {count} are ranked, down to {last}."
    )


def keywords(filter: Filter, names: Iterable[str]) -> str:
    """Return conditions of a filter as the keywords that ask for them: `tags=['x'], kinds=['rule']`."""
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
    created, asked = (at.isoformat(timespec="seconds") for at in (memory.created_at, bound or memory.created_at))
    return f"it was created on {created}, {relation} {asked}"


def _level(filter: Filter, memory: Memory) -> str:
    own = memory.scope.project
    return f"it belongs to {'no project' if own is None else f'project {own!r}'}, and scope is {filter.level!r}"


_GONE: Final[Mapping[str, str]] = {
    "forgotten": "was forgotten",
    "expired": "was put away, since its time had run out,",
    "stale": "was put away, since a source of it was changed,",
}
"""Status of a memory -> what took it out of every recall."""
_REFUSALS: Final[Mapping[str, Callable[[Filter, Memory], str]]] = {
    "tags": _tags,
    "kinds": lambda asked, memory: f"its kind is {memory.kind!r}, not {_either(asked.kinds)}",
    "tiers": lambda asked, memory: f"its tier is {memory.tier!r}, not {_either(asked.tiers)}",
    "sessions": _session,
    "fact_keys": lambda asked, memory: f"its fact_key is {memory.fact_key!r}, not {_either(asked.fact_keys)}",
    "since": lambda asked, memory: _created(memory, "before", asked.since),
    "until": lambda asked, memory: _created(memory, "not before", asked.until),
    "level": _level,
}
"""Condition of a filter -> how a memory does not meet it."""
