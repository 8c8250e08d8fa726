"""Tiers: a memory that is used, or whose session is over, moves on to the next one."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from salience.ports import Revise, Services
from salience.records import ANY, ConsolidateReport, Filter, Memory, Scope, SessionReport, checks
from salience.steps import retry_stale, scan

WORKING_WAIT: Final = timedelta(hours=4)
"""Time without access after which a working memory becomes episodic."""
EPISODIC_WAIT: Final = timedelta(hours=24)
"""Time in its tier after which an episodic memory that is recalled often becomes semantic."""
OFTEN: Final = 3
"""Recalls that make a memory one that is recalled often."""
IMPORTANT: Final = 0.7
"""Importance above which a memory waits half as long."""
MOVING: Final = ("working", "episodic")
"""Tiers that a memory can leave."""
REACHED: Final = ("episodic", "semantic")
"""Tiers that a memory can reach."""
UPKEEP: Final = "upkeep"
"""Who made a version that nobody asked for by name."""


@dataclass(frozen=True, slots=True)
class Promotion:
    """A memory that has earned the next tier, and why, in words."""

    memory: Memory
    tier: str
    reason: str

    def change(self, now: datetime, by: str | None) -> Revise:
        """Return the change that makes it, made by somebody."""
        return Revise(self.memory.changed("promote", now, by=by, reason=self.reason, tier=self.tier, tier_since=now))


def earned_tier(memory: Memory, now: datetime, ended: bool) -> str:
    """Return the tier in which a memory belongs: its own, or the next one.

    A working memory moves on when its session has `ended`, or after 4 hours without access; importance above 0.7 or 3
    recalls halve that. An episodic one moves on once it was recalled 3 times and has been in its tier for 24 hours;
    importance above 0.7 halves that (to be recalled often is its condition already).

    Source: zeromemory, Memory Tiers & Consolidation.
    """
    earned = promotion(memory, now, ended)
    return memory.tier if earned is None else earned.tier


def promotion(memory: Memory, now: datetime, ended: bool) -> Promotion | None:
    """Return the step that a memory has earned, as `earned_tier` says; None where it stays in its tier."""
    often, important = memory.access_count >= OFTEN, memory.importance > IMPORTANT
    if memory.tier == "working":
        if ended:
            return Promotion(memory, "episodic", "its session ended")
        idle = now - (memory.accessed_at or memory.created_at)
        if idle >= WORKING_WAIT / (2 if often or important else 1):
            also = [] if idle >= WORKING_WAIT else [_recalled(memory)] if often else [_weighs(memory)]
            return Promotion(memory, "episodic", " and ".join([f"idle for {_hours(idle)}", *also]))
    if memory.tier == "episodic" and often:
        spent = now - memory.tier_since
        if spent >= EPISODIC_WAIT / (2 if important else 1):
            also = [] if spent >= EPISODIC_WAIT else [_weighs(memory)]
            said = [_recalled(memory), f"{_hours(spent)} in its tier", *also]
            return Promotion(memory, "semantic", " and ".join(said))
    return None


def _hours(elapsed: timedelta) -> str:
    return f"{elapsed // timedelta(hours=1)} hours"


def _recalled(memory: Memory) -> str:
    return f"recalled {memory.access_count} times"


def _weighs(memory: Memory) -> str:
    return f"of importance {memory.importance:.2f}"


def end_session(services: Services, scope: Scope, session_id: str) -> SessionReport:
    """Move the visible memories of a session to the tiers that they have earned, all or none, and return which moved.

    A session is one user's: one of the same name whose memories are nobody's own goes on.

    Source: zeromemory, Memory Tiers & Consolidation.
    """
    held = Filter(sessions=(checks.name("session_id", session_id),), tiers=MOVING)

    def attempt() -> SessionReport:
        now = services.clock()
        live = _live(services, scope, held, now)
        own = (memory for memory in live if scope.user_id is ANY or memory.scope.user_id == scope.user_id)
        _, earned = _earned(own, now, ended=True)
        _move(services, earned, now, scope.who)
        return SessionReport(session_id, tuple(step.memory.id for step in earned))

    return retry_stale(attempt)


def consolidate(
    services: Services, scope: Scope, *, dry_run: bool = False, without: Collection[str] = ()
) -> ConsolidateReport:
    """Move the visible memories to the tiers that they have earned, all or none, and return which moved.

    Semantic memories have nowhere to go, and are not looked at; nor are those whose time ran out.

    Args:
        services: the ports.
        scope: who asks.
        dry_run: write nothing.
        without: ids of memories that are to be left alone.

    Source: zeromemory, Memory Tiers & Consolidation.
    """

    def attempt() -> ConsolidateReport:
        now = services.clock()
        held = (memory for memory in _live(services, scope, Filter(tiers=MOVING), now) if memory.id not in without)
        examined, earned = _earned(held, now, ended=False)
        if not dry_run:
            _move(services, earned, now, UPKEEP)
        promoted = {tier: tuple(step.memory.id for step in earned if step.tier == tier) for tier in REACHED}
        return ConsolidateReport(examined, promoted, dry_run)

    return retry_stale(attempt)


def _live(services: Services, scope: Scope, held: Filter, now: datetime) -> Iterable[Memory]:
    memories = (stored.memory for stored in scan(services, scope, held))
    return (memory for memory in memories if memory.expires_at is None or memory.expires_at > now)


def _earned(memories: Iterable[Memory], now: datetime, ended: bool) -> tuple[int, list[Promotion]]:
    """Return how many memories there are, and the steps that they have earned."""
    examined, earned = 0, []
    for memory in memories:
        examined += 1
        step = promotion(memory, now, ended)
        earned += [] if step is None else [step]
    return examined, earned


def _move(services: Services, earned: Iterable[Promotion], now: datetime, by: str | None) -> None:
    services.store.apply([step.change(now, by) for step in earned], counted=True)
