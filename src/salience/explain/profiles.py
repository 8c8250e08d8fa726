"""Profiles as data: their signals and stages, and how memories fade under them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np

from salience.batch import Batch, Floats
from salience.extract.reading import Reading
from salience.rank import profiles
from salience.rank.criteria import Criteria
from salience.rank.profile import Profile
from salience.rank.signals import SIGNALS
from salience.rank.stages import STAGES
from salience.records import TIERS, DecayCurve, Memory, ProfileInfo, Profiles, ProfileSignal, SignalInfo, StageInfo

_SENTENCE: Final = re.compile(r"[a-z]+ [a-zA-Z]")
DAYS: Final = 30
"""Days of the curve of a profile."""
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
NEW: Final = {
    "created_at": np.zeros(1), "updated_at": np.zeros(1), "accessed_at": np.zeros(1), "access_count": np.zeros(1),
    "tier": np.full(1, TIERS.index("episodic")),
}  # fmt: skip
"""Columns of an episodic memory that was stored at `EPOCH` and never recalled."""


def describe(own: Profile) -> Profiles:
    """Return the profile of an engine and the built-in ones, with the signals and stages of which profiles are made."""
    found = {own.name: own} if own.name not in profiles.NAMES else {}
    found |= {name: own if name == own.name else profiles.load(name) for name in profiles.NAMES}
    return Profiles(
        profiles=tuple(_info(one, is_default=one is own) for one in found.values()),
        signals=tuple(
            SignalInfo(name, _meaning(one.formula), one.low, one.high, one.decays) for name, one in SIGNALS.items()
        ),
        stages=tuple(StageInfo(name, _meaning(one.step)) for name, one in STAGES.items()),
    )


def _info(profile: Profile, *, is_default: bool) -> ProfileInfo:
    return ProfileInfo(
        name=profile.name,
        summary=profile.summary,
        limit=profile.limit,
        toml=profile.toml,
        is_default=is_default,
        signals=tuple(
            ProfileSignal(one.label, one.signal, one.combine, one.weight, one.parameters) for one in profile.terms
        ),
        stages=profile.stages,
        stage_parameters=profile.stage_parameters,
        decay=_shares(profile, NEW, EPOCH, DAYS, DAYS + 1)[0] if profile.favours_latest else (),
    )


def _meaning(function: Callable[..., object]) -> str:
    """Return the first paragraph of a docstring, without `Return` and the marks of code."""
    text = " ".join((function.__doc__ or "").partition("\n\n")[0].split())
    text = text.removeprefix("Return ").partition(" Source: ")[0].replace("`", "")
    return text[:1].upper() + text[1:] if _SENTENCE.match(text) else text  # not a formula


def curves(
    memories: Sequence[Memory], profile: Profile, now: datetime, days: float, steps: int
) -> tuple[DecayCurve, ...]:
    """Return how the scores of some memories fade, at equal steps from now on."""
    columns = {
        "created_at": np.array([one.created_at.timestamp() for one in memories]),
        "updated_at": np.array([one.updated_at.timestamp() for one in memories]),
        "accessed_at": np.array([(one.accessed_at or one.created_at).timestamp() for one in memories]),
        "access_count": np.array([one.access_count for one in memories]),
        "tier": np.array([TIERS.index(one.tier) for one in memories]),
    }
    shares = _shares(profile, columns, now, days, steps) if memories else ()
    return tuple(DecayCurve(one.id, values) for one, values in zip(memories, shares, strict=True))


def _shares(
    profile: Profile, columns: Mapping[str, Floats], now: datetime, days: float, steps: int
) -> list[tuple[float, ...]]:
    """Return for each row the product of the signals that decay, [0, 1], at equal steps; weights are left out."""
    batch = Batch(ids=np.arange(len(columns["tier"])).astype(object), columns=columns)
    found = list[Floats]()
    for step in range(steps):
        at = now + timedelta(days=days * step / max(steps - 1, 1))
        criteria, values = Criteria(reading=Reading(now=at)), np.ones(len(batch))
        for term in profile.terms:
            if SIGNALS[term.signal].decays:
                values = values * SIGNALS[term.signal].formula(batch, criteria, **term.parameters)
        found.append(values)
    return [tuple(map(float, row)) for row in np.array(found).T]
