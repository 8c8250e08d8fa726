"""What is there: pages of memories, and counts."""

from __future__ import annotations

from collections import Counter

from salience import checks
from salience.derived import out_of_scope, scan
from salience.ports import World
from salience.records import Filter, Page, Scope, Stats


def page(world: World, scope: Scope, filter: Filter, limit: int, cursor: str | None) -> Page:
    """Return up to `limit` visible live memories after `cursor`, and the cursor of the next page or None."""
    after = "" if cursor is None else checks.name("cursor", cursor)
    memories = tuple(stored.memory for stored in world.store.scan(scope, after, limit + 1, filter))
    if not memories and cursor is None and filter.level is None:
        return Page((), out_of_scope=out_of_scope(world, scope))
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
        out_of_scope=() if total else out_of_scope(world, scope),
    )
