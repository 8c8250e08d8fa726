"""What happens to memories between recalls: the end of a session moves its memories to the tiers they have earned."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Final

from salience import checks
from salience.derived import scan, until_fresh
from salience.ports import Revise, World
from salience.records import ConsolidateReport, Filter, Memory, Page, Scope, SessionReport, Stats, UpkeepReport

WORKING_WAIT: Final = timedelta(hours=4)
"""Time without access after which a working memory becomes episodic."""
EPISODIC_WAIT: Final = timedelta(hours=24)
"""Time in its tier after which an episodic memory that is recalled often becomes semantic."""
OFTEN: Final = 3
"""Recalls that make a memory one that is recalled often."""
IMPORTANT: Final = 0.7
"""Importance above which a memory waits half as long."""


def end_session(world: World, scope: Scope, session_id: str) -> SessionReport:
    """Move the visible memories of a session to the tiers that they have earned, all or none, and return which moved.

    Source: zeromemory, Memory Tiers & Consolidation.
    """
    checks.name("session_id", session_id)

    def attempt() -> SessionReport:
        now = world.clock()
        held = [item.memory for item in scan(world, scope, Filter(sessions=(session_id,)))]
        earned = [(memory, tier) for memory in held if (tier := earned_tier(memory, now, ended=True)) != memory.tier]
        world.store.apply(
            [Revise(memory.changed("promote", now, tier=tier, tier_since=now)) for memory, tier in earned]
        )
        return SessionReport(session_id, tuple(memory.id for memory, _ in earned))

    return until_fresh(attempt)


def earned_tier(memory: Memory, now: datetime, ended: bool) -> str:
    """Return the tier in which a memory belongs: its own, or the next one.

    A working memory moves on when its session has `ended`, or after 4 hours without access; importance above 0.7 or 3
    recalls halve that. An episodic one moves on once it was recalled 3 times and has been in its tier for 24 hours;
    importance above 0.7 halves that (to be recalled often is its condition already).

    Source: zeromemory, Memory Tiers & Consolidation.
    """
    often, important = memory.access_count >= OFTEN, memory.importance > IMPORTANT
    if memory.tier == "working":
        idle = now - (memory.accessed_at or memory.created_at)
        return "episodic" if ended or idle >= WORKING_WAIT / (2 if often or important else 1) else "working"
    if memory.tier == "episodic" and often and now - memory.tier_since >= EPISODIC_WAIT / (2 if important else 1):
        return "semantic"
    return memory.tier


def page(world: World, scope: Scope, filter: Filter, limit: int, cursor: str | None) -> Page:
    """Return up to `limit` visible live memories after `cursor`, and the cursor of the next page or None."""
    after = "" if cursor is None else checks.name("cursor", cursor)
    memories = tuple(stored.memory for stored in world.store.scan(scope, after, limit + 1, filter))
    return Page(memories[:limit], memories[limit - 1].id if len(memories) > limit else None)


def stats(world: World, scope: Scope) -> Stats:
    """Return counts of the visible live memories, whole and by kind, tier, project, user, agent and session."""
    counts = {name: Counter[str]() for name in ("kind", "tier", "project", "user_id", "agent_id", "session_id")}
    total = pending = 0
    for stored in scan(world, scope):
        total += 1
        pending += stored.vector is None
        for name, counter in counts.items():
            source = stored.memory if name in ("kind", "tier") else stored.memory.scope
            counter[getattr(source, name) or ""] += 1
    by = {name: dict(sorted(counter.items())) for name, counter in counts.items()}
    return Stats(
        memories=total,
        by_kind=by["kind"],
        by_tier=by["tier"],
        by_project=by["project"],
        by_user=by["user_id"],
        by_agent=by["agent_id"],
        sessions=len(by["session_id"].keys() - {""}),
        embedder=world.embedder.name,
        dimension=world.embedder.dimension,
        pending=pending,
    )


def consolidate(world: World, scope: Scope, *, dry_run: bool = False) -> ConsolidateReport:
    """Move the visible memories to the tiers that they have earned, all or none, and return which moved."""
    raise NotImplementedError


def upkeep(world: World, *, dry_run: bool = False) -> UpkeepReport:
    """Do all that is due, for every scope of the tenant, and return what was done."""
    raise NotImplementedError
