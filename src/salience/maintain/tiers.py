"""Tiers: a memory that is used often, or whose session ended, is promoted to the next one."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from salience.ports import Revise, Services
from salience.records import ANY, ConsolidateReport, Filter, Memory, Scope, SessionReport, checks
from salience.remember.write import UPKEEP
from salience.steps import retry_stale, scan

WORKING_WAIT: Final = timedelta(hours=4)
"""Time without access after which a working memory becomes episodic."""
EPISODIC_WAIT: Final = timedelta(hours=24)
"""Time in its tier after which an episodic memory that is recalled often becomes semantic."""
OFTEN: Final = 3
"""Fewest recalls of a memory that is recalled often."""
IMPORTANT: Final = 0.7
"""Importance above which a memory waits half as long."""
LOWER: Final = ("working", "episodic")
"""Tiers that a memory can leave."""
UPPER: Final = ("episodic", "semantic")
"""Tiers that a memory can be promoted to."""


@dataclass(frozen=True, slots=True)
class Promotion:
    """A memory that has earned the next tier, and why."""

    memory: Memory
    tier: str
    reason: str


def promotion(memory: Memory, now: datetime, ended: bool) -> Promotion | None:
    """Return the promotion that a memory has earned; None: it stays in its tier.

    A working memory becomes episodic when its session has `ended`, or after 4 hours without access; importance above
    0.7 or 3 recalls halve that time. An episodic memory becomes semantic after 24 hours in its tier and 3 recalls;
    importance above 0.7 halves that time.

    Source: zeromemory, Memory Tiers & Consolidation.
    """
    often, important = memory.access_count >= OFTEN, memory.importance > IMPORTANT
    recalled, weighty = f"recalled {memory.access_count} times", f"of importance {memory.importance:.2f}"
    if memory.tier == "working":
        if ended:
            return Promotion(memory, "episodic", "its session ended")
        idle = now - (memory.accessed_at or memory.created_at)
        if idle >= WORKING_WAIT / (2 if often or important else 1):
            also = [] if idle >= WORKING_WAIT else [recalled if often else weighty]
            return Promotion(memory, "episodic", " and ".join([f"idle for {_hours(idle)}", *also]))
    if memory.tier == "episodic" and often:
        spent = now - memory.tier_since
        if spent >= EPISODIC_WAIT / (2 if important else 1):
            also = [] if spent >= EPISODIC_WAIT else [weighty]
            return Promotion(memory, "semantic", " and ".join([recalled, f"{_hours(spent)} in its tier", *also]))
    return None


def _hours(elapsed: timedelta) -> str:
    return f"{elapsed // timedelta(hours=1)} hours"


def end_session(services: Services, scope: Scope, session_id: str) -> SessionReport:
    """Promote the visible memories of a session that have earned it, all or none, and return their ids.

    A session belongs to one user: memories without a user in a session of the same name are left out.

    Source: zeromemory, Memory Tiers & Consolidation.
    """
    of_session = Filter(sessions=(checks.name("session_id", session_id),), tiers=LOWER)

    def attempt() -> SessionReport:
        now = services.clock()
        memories = _live(services, scope, of_session, now)
        own = (memory for memory in memories if scope.user_id in (ANY, memory.scope.user_id))
        earned = [step for memory in own if (step := promotion(memory, now, ended=True))]
        _promote(services, earned, now, scope.who)
        return SessionReport(session_id, tuple(step.memory.id for step in earned))

    return retry_stale(attempt)


def consolidate(
    services: Services, scope: Scope, *, dry_run: bool = False, without: Collection[str] = ()
) -> ConsolidateReport:
    """Promote the visible memories that have earned it, all or none, and return their ids.

    Expired memories, and those with the ids of `without`, are not promoted.

    Source: zeromemory, Memory Tiers & Consolidation.
    """

    def attempt() -> ConsolidateReport:
        now = services.clock()
        examined, earned = 0, list[Promotion]()
        for memory in _live(services, scope, Filter(tiers=LOWER), now):
            if memory.id not in without:
                examined += 1
                step = promotion(memory, now, ended=False)
                earned += [] if step is None else [step]
        if not dry_run:
            _promote(services, earned, now, UPKEEP)
        promoted = {tier: tuple(step.memory.id for step in earned if step.tier == tier) for tier in UPPER}
        return ConsolidateReport(examined, promoted, dry_run, {step.memory.id: step.reason for step in earned})

    return retry_stale(attempt)


def _live(services: Services, scope: Scope, filter: Filter, now: datetime) -> Iterable[Memory]:
    memories = (stored.memory for stored in scan(services, scope, filter))
    return (memory for memory in memories if memory.is_live(now))


def _promote(services: Services, earned: Iterable[Promotion], now: datetime, by: str | None) -> None:
    changes = [
        Revise(step.memory.changed("promote", now, by=by, reason=step.reason, tier=step.tier, tier_since=now))
        for step in earned
    ]
    services.store.apply(changes, counted=True)
