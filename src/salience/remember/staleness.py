"""What becomes of a reflection when one of its sources changes: it is out of every recall in the same transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
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
    """Return the changes that take the live reflections of some memories out of every recall; their versions are kept.

    To be applied together with what changes the memories themselves: a text that is forgotten or updated must not live
    on in a reflection. The next pass of reflecting renews them. A reflection that is among `memories` is left out.

    Args:
        services: the ports.
        memories: as they stand before the change.
        now: of the change.
        by: who makes it.
        reason: why the reflections are stale.
    """
    given = {memory.id for memory in memories}
    return [
        Revise(reflection.changed("stale", now, by=by, reason=reason, forgotten_at=now))
        for home, ids in _by_home(memories).items()
        for reflection in services.store.fetch(home, sorted(ids - given))
    ]


def _by_home(memories: Iterable[Memory]) -> dict[Scope, set[str]]:
    """Return home -> the reflections that the memories of that home name."""
    named: dict[Scope, set[str]] = {}
    for memory in memories:
        if memory.reflection is not None:
            named.setdefault(replace(memory.scope, session_id=None), set()).add(memory.reflection)
    return named


def reflections_of(versions: Iterable[Memory]) -> frozenset[str]:
    """Return the ids of all reflections that some versions of memories went into.

    What is erased has to be erased there too: also the older versions of a reflection may hold its text.
    """
    return frozenset(memory.reflection for memory in versions if memory.reflection is not None)
