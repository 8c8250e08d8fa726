"""Browsing: memories by their fields, sorted, with the numbers per value; no ranking."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from salience.records import FACETS, TAG, Facets, Filter, Scope
from salience.records.checks import frozen
from salience.records.query import CHOICES, CONDITIONS

SESSION: Final = "session_id"
LIVE: Final[Mapping[str, tuple[str, ...]]] = frozen({"status": ("live",)})
"""`Selection.values` of the memories that are live at `Selection.now`."""

_NO_FILTER: Final = Filter()
_OWN: Final = ("ids", "words", "entities", "linked_to")
_ARGUMENTS: Final = tuple(dict.fromkeys((*_OWN, *CONDITIONS, *CHOICES, "scope")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Conditions on memories of `browse` and `facets`; all must hold.

    Attributes:
        scope: of the caller; only visible memories are selected.
        filter: conditions that a recall takes too. Facets count under `values` instead of `kinds`, `tiers`, `sessions`.
        ids: whole or short ids; empty: any.
        words: texts that the content must all contain, whatever the case of ASCII letters.
        supersedes: ids, one of which the memory must supersede; empty: any.
        values: name from `FACETS` -> accepted values, "" for memories without one. `status` is `Memory.status`. A name
            that is missing accepts every value.
        entities: entities of which the memory must name one, as they are written; empty for any memory.
        linked_to: ids of memories; the memory must have a relation to one of them, supersede one, or be a reflection of
            one. Empty for any memory.
        now: from its `expires_at` on, the status of a memory is `expired`, as `Memory.seen_at` says. None: it is as
            recorded, whatever the time.
    """

    scope: Scope
    filter: Filter = Filter()
    ids: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    supersedes: tuple[str, ...] = ()
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    entities: tuple[str, ...] = ()
    linked_to: tuple[str, ...] = ()
    now: datetime | None = None

    @property
    def given(self) -> tuple[str, ...]:
        """The arguments of `list` and `recall` whose conditions are here, except that memories are live."""
        return tuple(name for name in _ARGUMENTS if self.without([name]) != self)

    def without(self, names: Collection[str]) -> Selection:
        """Return this selection without the conditions of some arguments; live memories stay live ones."""
        accepts: dict[str, Any] = {name: getattr(_NO_FILTER, name) for name in CONDITIONS if name in names}
        accepts |= {"level": None} if "scope" in names else {}
        fields = {CHOICES[name] for name in names if name in CHOICES}
        values = {name: one for name, one in self.values.items() if name not in fields or one == LIVE.get(name)}
        own: dict[str, Any] = {name: () for name in _OWN if name in names}
        return replace(self, filter=replace(self.filter, **accepts), values=values, **own)


class After(NamedTuple):
    """The last memory of the page before: its value of the order (0 for no `accessed_at`, instants in microseconds)."""

    value: float
    id: str


def counted(groups: Iterable[tuple[tuple[str, ...], int]], selection: Selection) -> tuple[int, dict[str, Counter[str]]]:
    """Return the number of selected memories, and for each of `FACETS` but the session, value -> number.

    Args:
        groups: (values of these facets, number of memories), under all other conditions of the selection.
        selection: its `values` are applied here.
    """
    names = [name for name in FACETS if name != SESSION]
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    total, accepted = 0, [selection.values.get(name) for name in names]
    for values, number in groups:
        refused = [
            name
            for name, value, one_of in zip(names, values, accepted, strict=True)
            if one_of is not None and value not in one_of
        ]
        if not refused:
            total += number
        for name, value in zip(names, values, strict=True):
            if not refused or refused == [name]:
                counts[name][value] += number
    return total, counts


def facets(total: int, counts: Mapping[str, Mapping[str, int]], top: int) -> Facets:
    """Return the facets with the `top` most frequent values of each; `counts` has the numbers of all values."""
    ordered = {name: sorted(counts[name].items(), key=lambda item: (-item[1], item[0])) for name in (*FACETS, TAG)}
    return Facets(
        total,
        {name: dict(found[:top]) for name, found in ordered.items()},
        {name: len(found) for name, found in ordered.items()},
    )
