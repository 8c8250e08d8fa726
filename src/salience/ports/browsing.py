"""Browsing: memories by their fields, sorted, with the numbers per value; no ranking."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from salience.records import Scope

FACETS: Final = ("project", "user_id", "agent_id", "session_id", "kind", "tier", "status")
"""Fields with one value per memory whose values are counted; tags are counted too."""
SORTABLE: Final = ("id", "created_at", "updated_at", "accessed_at", "importance", "weight", "access_count")
"""Fields to sort by. Ids follow the order of storing. The oldest `accessed_at` is that of memories never recalled."""
SESSION: Final = "session_id"
TAG: Final = "tag"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Conditions on memories of `browse` and `facets`; all must hold. Verbs take a `records.Filter`.

    Attributes:
        scope: of the caller; only visible memories are selected.
        words: texts that the content must all contain, whatever the case of ASCII letters.
        tags: tags that the memory must all have.
        fact_keys: accepted facts; empty: any.
        supersedes: ids, one of which the memory must supersede; empty: any.
        values: name from `FACETS` -> accepted values, "" for memories without one. `status` is `Memory.status`. A name
            that is missing accepts every value.
        entities: entities of which the memory must name one, as they are written; empty for any memory.
        linked_to: ids of memories; the memory must have a relation to one of them, supersede one, or be a reflection of
            one. Empty for any memory.
    """

    scope: Scope
    words: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    fact_keys: tuple[str, ...] = ()
    supersedes: tuple[str, ...] = ()
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    entities: tuple[str, ...] = ()
    linked_to: tuple[str, ...] = ()


class SessionSummary(NamedTuple):
    """A session of one user of one environment: the number of its memories, and their first and last `created_at`."""

    environment: str
    user_id: str | None
    id: str
    size: int
    start: datetime
    end: datetime

    @property
    def key(self) -> str:
        """The identity of the session, as in `Scope.session_key`."""
        return "\x1f".join((self.environment, self.user_id or "", self.id))


class After(NamedTuple):
    """The last memory of the page before: its value of the order (0 for no `accessed_at`, instants in microseconds)."""

    value: float
    id: str


@dataclass(frozen=True, slots=True)
class Facets:
    """The number of selected memories, and the most frequent values of each facet.

    The numbers of a facet hold under the conditions on the other facets, so they say what another choice would give.

    Attributes:
        total: number of selected memories.
        values: name from `FACETS`, or `tag`, -> value -> number of memories; the most frequent first, "" for none.
        distinct: the same names -> number of all distinct values.
    """

    total: int
    values: Mapping[str, Mapping[str, int]]
    distinct: Mapping[str, int]


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
