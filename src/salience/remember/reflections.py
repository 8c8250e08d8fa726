"""Reflections of memories that change: they become stale in the same transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from salience.ports import Revise, Services
from salience.records import Memory, Scope


def stale(
    services: Services,
    memories: Sequence[Memory],
    now: datetime,
    *,
    by: str | None = None,
    reason: str | None = "a source was changed",
) -> list[Revise]:
    """Return the changes that hide the live reflections of some memories, to be applied with the change itself.

    The text of a forgotten or updated memory must not live on in a reflection. The next run of `reflect` renews them.
    Reflections that are themselves among `memories` are left out.

    Args:
        services: the ports.
        memories: the memories before their change.
        now: the instant of the change.
        by: author of the change.
        reason: why the reflections are stale.
    """
    given = {memory.id for memory in memories}
    by_home: dict[Scope, set[str]] = {}
    for memory in memories:
        if memory.reflection is not None and memory.reflection not in given:
            by_home.setdefault(memory.scope.without_session, set()).add(memory.reflection)
    return [
        Revise(reflection.changed("stale", now, by=by, reason=reason, forgotten_at=now))
        for home, ids in by_home.items()
        for reflection in services.store.fetch(home, sorted(ids))
    ]
