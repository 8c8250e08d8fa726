"""Filters, queries and their intents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any, Final, Literal

from salience.errors import InputError
from salience.records import checks, where
from salience.records.memory import SCOPE_LEVELS, STATUSES, TIERS, Memory, Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Conditions on memories beyond the scope; all must hold.

    Attributes:
        tags: tags that the memory must all have.
        kinds, tiers, sessions, fact_keys: accepted values; empty: any.
        since, until: `since <= created_at < until`.
        where: conditions on the metadata, such as `{"plan": "pro", "seats": {"$gte": 5}}`; see `records.where`.
        level: mememory's scope level: `global` (no project), `project` (the caller's project); None: both.
    """

    tags: Sequence[str] = ()
    kinds: Sequence[str] = ()
    tiers: Sequence[str] = ()
    sessions: Sequence[str] = ()
    fact_keys: Sequence[str] = ()
    since: datetime | None = None
    until: datetime | None = None
    where: Mapping[str, Any] = field(default_factory=checks.Frozen)
    level: str | None = None

    def __post_init__(self) -> None:
        keep = object.__setattr__
        if self.where != {}:
            keep(self, "where", where.checked(self.where))
        for plural in ("tags", "kinds", "tiers", "sessions", "fact_keys"):
            given = getattr(self, plural)
            if given != ():
                keep(self, plural, checks.names(plural, given))
        for tier in self.tiers:
            checks.choice("tiers", tier, TIERS)
        for bound in ("since", "until"):
            if getattr(self, bound) is not None:
                keep(self, bound, checks.instant(bound, getattr(self, bound)))
        if self.since and self.until and self.since >= self.until:
            at = self.since.isoformat()
            raise InputError("since", at, "Give an instant before `until`.", f"{at} is not before `until`")
        if self.level is not None:
            checks.choice("scope", self.level, SCOPE_LEVELS)

    def within(self, start: datetime | None, end: datetime | None) -> Filter | None:
        """Return this filter with the condition `start <= created_at < end` added; None if no memory can pass."""
        since = max(filter(None, (self.since, start)), default=None)
        until = min(filter(None, (self.until, end)), default=None)
        return None if since and until and since >= until else replace(self, since=since, until=until)

    def accepts(self, memory: Memory) -> bool:
        """Return whether a memory meets all conditions.

        `store.statements.accepted` and `store.index.search.accepted` say the same in SQL and on columns.
        """
        return (
            set(self.tags) <= set(memory.tags)
            and (not self.kinds or memory.kind in self.kinds)
            and (not self.tiers or memory.tier in self.tiers)
            and (not self.sessions or memory.scope.session_id in self.sessions)
            and (not self.fact_keys or memory.fact_key in self.fact_keys)
            and (self.since is None or memory.created_at >= self.since)
            and (self.until is None or memory.created_at < self.until)
            and all(one.accepts(memory.metadata) for one in where.conditions(self.where))
            and (self.level is None or (memory.scope.project is None) == (self.level == "global"))
        )


CONDITIONS: Final = tuple(item.name for item in fields(Filter) if item.name != "level")
"""Arguments of verbs that are fields of a filter."""
CHOICES: Final = {
    "projects": "project", "users": "user_id", "agents": "agent_id", "sessions": "session_id", "kinds": "kind",
    "tiers": "tier", "statuses": "status",
}  # fmt: skip
"""Arguments of `list` with accepted values -> the field. The values of a coordinate may be empty: it is not set."""
INSTANTS: Final = ("since", "until", "now", "as_of")
"""Arguments of verbs that are instants: of a filter, and of a query."""


def choices(given: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return field -> accepted values, from those of `CHOICES` that are given and not empty.

    Raises:
        InputError: a value that no memory can have.
    """
    found = {
        field: (checks.names if field in _NEVER_EMPTY else checks.own)(name, given[name])
        for name, field in CHOICES.items()
        if given.get(name, ()) != ()
    }
    for name, known in (("tiers", TIERS), ("statuses", STATUSES)):
        for value in found.get(CHOICES[name], ()):
            checks.choice(name, value, known)
    return {field: values for field, values in found.items() if values}


_NEVER_EMPTY: Final = ("kind", "tier", "status")


@dataclass(frozen=True, kw_only=True)
class Query:
    """A question and the scope of the caller.

    Attributes:
        text: the question; not blank.
        scope: of the caller.
        filter: conditions on the memories.
        limit: most hits; None: the profile's default.
        min_score: least score; None: the profile's default.
        dry_run: whether to leave all counters unchanged.
        now: instant of the question; None: `as_of`, else the engine's clock.
        as_of: instant whose state of the store is searched; None: the present.
        deadline_ms: time limit in milliseconds; after it, the recall goes on without embedding and reranking.
    """

    text: str
    scope: Scope
    filter: Filter = Filter()
    limit: int | None = None
    min_score: float | None = None
    dry_run: bool = False
    now: datetime | None = None
    as_of: datetime | None = None
    deadline_ms: float | None = None

    def __post_init__(self) -> None:
        checks.text("query", self.text)
        if self.min_score is not None:
            checks.number("min_score", self.min_score, 0.0, 100.0)
        for instant in ("now", "as_of"):
            if getattr(self, instant) is not None:
                object.__setattr__(self, instant, checks.instant(instant, getattr(self, instant)))
        if self.deadline_ms is not None:
            checks.number("deadline_ms", self.deadline_ms, 0.0, 3_600_000.0)


@dataclass(frozen=True, slots=True)
class TimeCue:
    """The time that a query is about; it changes scores and hides no memory.

    Attributes:
        words: the words of the query that name the time, in order.
        start, end: the window, `start <= instant < end`, in UTC; None: open.
        order: whether the earliest or the latest memory is wanted.
        relation: whether the time is before or after an event, if the query names an event.
        anchor: the words of that event; empty without a relation.
        fades: whether the window is vague, so that later memories fit better: "recently".
        sessions: the first and the last of the sessions that the query counts, in order of their time, from 1; negative
            from the last one, -1. `recall` sets the window to the time of these sessions.
        told_from, told_until: for a holiday, the days in which people tell of it, which reach beyond the window.
    """

    words: tuple[str, ...]
    start: datetime | None = None
    end: datetime | None = None
    order: Literal["earliest", "latest"] | None = None
    relation: Literal["before", "after"] | None = None
    anchor: str = ""
    fades: bool = False
    sessions: tuple[int, int] | None = None
    told_from: datetime | None = None
    told_until: datetime | None = None


PERIOD: Final = "period"
"""Intent of a query that asks for everything in a window of time."""
EMPTY_PERIOD: Final = "empty_period"
"""Intent of such a query if no memory lies in the window."""


@dataclass(frozen=True, slots=True)
class Intent:
    """The intent of a query: its name in the profile, the words that indicate it, and the time that the query names."""

    name: str = "default"
    words: tuple[str, ...] = ()
    time: TimeCue | None = None
