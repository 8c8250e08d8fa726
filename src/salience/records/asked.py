"""What is asked for: a filter, a query, its intent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal

from salience.errors import InputError
from salience.records import checks
from salience.records.replaceable import Replaceable
from salience.records.stored import SCOPE_LEVELS, TIERS, Memory, Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What a recall or list asks for beyond the scope; every condition must hold.

    Attributes:
        tags: the memory carries all of them.
        kinds, tiers, sessions, fact_keys: the memory's is one of them; empty for any.
        since, until: `since <= created_at < until`.
        level: mememory's scope level: `global` (no project), `project` (the caller's project), None for both.
    """

    tags: Sequence[str] = ()
    kinds: Sequence[str] = ()
    tiers: Sequence[str] = ()
    sessions: Sequence[str] = ()
    fact_keys: Sequence[str] = ()
    since: datetime | None = None
    until: datetime | None = None
    level: str | None = None

    def __post_init__(self) -> None:
        keep = object.__setattr__
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
        """Return the filter that also asks for `start <= created_at < end`; None where nothing can pass both."""
        since = max(filter(None, (self.since, start)), default=None)
        until = min(filter(None, (self.until, end)), default=None)
        return None if since and until and since >= until else replace(self, since=since, until=until)

    def accepts(self, memory: Memory) -> bool:
        """Return whether `memory` meets every condition."""
        return (
            set(self.tags) <= set(memory.tags)
            and (not self.kinds or memory.kind in self.kinds)
            and (not self.tiers or memory.tier in self.tiers)
            and (not self.sessions or memory.scope.session_id in self.sessions)
            and (not self.fact_keys or memory.fact_key in self.fact_keys)
            and (self.since is None or memory.created_at >= self.since)
            and (self.until is None or memory.created_at < self.until)
            and (self.level is None or (memory.scope.project is None) == (self.level == "global"))
        )


@dataclass(frozen=True, kw_only=True)
class Query(Replaceable):
    """A question and who asks it.

    Attributes:
        text: the question; not blank.
        scope: who asks.
        filter: what the memories have to be.
        limit: most hits; None for the profile's default.
        min_score: least score; None for the profile's default.
        dry_run: whether to leave every counter and clock as it is.
        now: the instant at which the question is asked; None for `as_of`, else for the engine's clock.
        as_of: the instant whose state of the store is asked; None for the present one.
        deadline_ms: milliseconds within which an answer is wanted; past them, neither the embedding nor the reranking
            is waited for.
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
    """When a query is about; a cue weighs memories and never hides one.

    Attributes:
        words: the runs of the query that say so, as they stand there and in their order.
        start, end: the window, `start <= instant < end`, in UTC; None for an open side.
        order: which is wanted of several: the earliest or the latest.
        relation: on which side of an event, where the query names that instead of a date.
        anchor: the event's words; empty without a relation.
    """

    words: tuple[str, ...]
    start: datetime | None = None
    end: datetime | None = None
    order: Literal["earliest", "latest"] | None = None
    relation: Literal["before", "after"] | None = None
    anchor: str = ""


PERIOD: Final = "period"
"""The intent of a query that asks for whatever lies in a window of time, and for nothing else."""


@dataclass(frozen=True, slots=True)
class Intent:
    """What a query is after: the name of a profile's intent, the words that gave it away, and the time it names."""

    name: str = "default"
    words: tuple[str, ...] = ()
    time: TimeCue | None = None
