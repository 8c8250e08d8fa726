"""An arena after touches that this process wrote, whose rows need not be read again for it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final

import numpy as np

from salience.ports import Need, Touch
from salience.store.arena import Arena
from salience.store.values import microseconds

_NEVER: Final = np.iinfo(np.int64).min
_MOVED: Final = frozenset({"accessed_at", "access_count"})


def countable(tenant: str, touches: Sequence[Touch] | None) -> list[Touch] | None:
    """Return the touches that move counters of a tenant's memories; None where they are not known, or only rows tell.

    What raises importance is one of these, which a row adds up in its own order; so is a touch without an instant.
    """
    moving = [touch for touch in touches or () if touch.counts and touch.scope.tenant == tenant]
    return None if touches is None or any(touch.importance or touch.accessed_at is None for touch in moving) else moving


def shows_counters(need: Need) -> bool:
    """Return whether what a need asks for, or is chosen by, are counters that `countable` touches move."""
    chosen_by = frozenset() if need.pruning is None else need.pruning.columns
    return not _MOVED.isdisjoint(need.columns | chosen_by)


def recounted(arena: Arena, touches: Sequence[Touch], sequence: int) -> Arena | None:
    """Return an arena with the counters that touches moved; None where only the rows tell what became of them.

    An arena has no mark for a memory that was never accessed, so a touch from before its last access is read.

    Args:
        arena: as it stood right before the touches.
        touches: those that are `countable`, of transactions in which nothing else was written.
        sequence: of the last of these transactions.
    """
    met = [tuple(dict.fromkeys(touch.ids)) for touch in touches]
    found, known = arena.slots_of(list(chain.from_iterable(met)))
    slots, places = np.unique(found, return_inverse=True)
    of = np.repeat(np.arange(len(met)), [len(ids) for ids in met])[known]
    moments = np.array([microseconds(touch.accessed_at) for touch in touches if touch.accessed_at], np.int64)
    accessed_at = arena.counter("accessed_at", slots)
    last, count = np.full(len(slots), _NEVER), arena.counter("access_count", slots)
    np.maximum.at(last, places, moments[of])
    np.add.at(count, places, np.array([touch.access_count for touch in touches], np.int64)[of])
    if (last < accessed_at).any():
        return None
    return arena.recounted(slots, {"accessed_at": last, "access_count": count}, sequence)
