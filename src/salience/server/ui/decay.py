"""How memories fade under a profile, from the formulas that rank recalls."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import numpy as np

from salience.batch import Batch, Floats
from salience.extract.reading import Reading
from salience.rank import profiles
from salience.rank.criteria import Criteria
from salience.rank.profile import Profile, Term
from salience.rank.signals import SIGNALS
from salience.records import TIERS, Memory

STEPS: Final = 24
"""Points of a curve."""


def fading(profile: Profile) -> list[Term]:
    """Return the signals of a profile that fade with time; none if its ranking does not depend on age."""
    return [term for term in profile.terms if SIGNALS[term.signal].decays]


def profiles_that_fade() -> tuple[str, ...]:
    """Return the names of the built-in profiles under which memories fade."""
    return tuple(name for name in profiles.NAMES if fading(profiles.load(name)))


def curves(
    memories: Sequence[Memory], profile: Profile, now: datetime, days: float = 30.0, steps: int = STEPS
) -> list[list[float]]:
    """Return for each memory the product of its fading signals, [0, 1], at equal steps from now on.

    It is computed as if no recall returned the memory meanwhile; the weights of the profile are left out.
    """
    if not memories:
        return []
    batch, found = _batch(memories), list[Floats]()
    for step in range(steps):
        at = now + timedelta(days=days * step / (steps - 1))
        criteria, values = Criteria(reading=Reading(now=at)), np.ones(len(memories))
        for term in fading(profile):
            values = values * SIGNALS[term.signal].formula(batch, criteria, **term.parameters)
        found.append(values)
    return [list(map(float, column)) for column in np.array(found).T]


def _batch(memories: Sequence[Memory]) -> Batch:
    """Return memories, in any order, as the columns that fading signals read."""

    def instants(values: Sequence[datetime]) -> Floats:
        return np.array([value.timestamp() for value in values])

    return Batch(
        ids=np.array([memory.id for memory in memories], dtype=object),
        columns={
            "created_at": instants([memory.created_at for memory in memories]),
            "updated_at": instants([memory.updated_at for memory in memories]),
            "accessed_at": instants([memory.accessed_at or memory.created_at for memory in memories]),
            "access_count": np.array([memory.access_count for memory in memories]),
            "tier": np.array([TIERS.index(memory.tier) for memory in memories]),
        },
    )
