"""What a new memory may conflict with, and what the two are to each other."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import numpy as np

from salience.batch import cosines
from salience.ports import EDGE, Calibration, Need, Services, Stored
from salience.ports import Near as Around
from salience.rank.profile import Profile
from salience.rank.stages import expired, superseded
from salience.rank.state import State
from salience.records import Contradiction, Memory
from salience.text import one_line

WARNED: Final = 10
"""Most memories that a warning names; the receipt's `contradictions` hold all."""
SIMILAR: Final = "Stored as [{}], but memories that say the same exist:"
SIMILAR_OPTIONS: Final = (
    "To keep one of them, call forget(id=<id>) on the others, or call update(id=<old_id>, content=...) to change the "
    "old one and forget the new one."
)
"""What is said around a list of duplicates."""
RIVALS: Final = 100
"""Most memories near a new one that a store is asked for where it has an index of vectors."""
SAME: Final = 0.99
"""Raw cosine above which a text may be that of a new memory, word for word; the texts themselves decide."""
LABELLED: Final = WARNED
"""Most conflicts of a memory that get a label, the most similar ones: to read two texts takes longer than a search."""
Near = list[tuple[float, Memory]]
"""Memories like a new one, each with its raw cosine."""
RAW: Final = Calibration((0.0, 1.0), (0.0, 1.0), 1.0, "raw cosine")
"""The scale on which a cosine means itself."""


def neighbours(services: Services, profile: Profile, stored: Sequence[Stored], now: datetime) -> list[Near]:
    """Return, for each new memory, the live ones in the store that it may conflict with, or whose text it may repeat.

    Those are the memories visible from where it lives whose cosine is above the profile's threshold, or above `SAME`
    where the profile looks for no conflicts; none where the new memories have no vectors.
    """
    found: list[Near] = [[] for _ in stored]
    if any(item.vector is None for item in stored):
        return found
    above = min(_above(services, profile), SAME)
    for scope in dict.fromkeys(item.memory.scope for item in stored):
        places = [place for place, item in enumerate(stored) if item.memory.scope == scope]
        near = _stored_neighbours(services, profile, [stored[place] for place in places], above, now)
        for place, pairs in zip(places, near, strict=True):
            found[place] = pairs
    return found


def contradictions(
    services: Services, profile: Profile, stored: Sequence[Stored], near: Sequence[Near], now: datetime
) -> list[tuple[Contradiction, ...]]:
    """Return, for each new memory, the live ones that it may conflict with, most similar first.

    Those are its `near` ones in the store, and those before it among the new ones that it sees, whose similarity is
    above the profile's threshold. Source: mememory, Contradiction Detection.
    """
    if profile.contradiction_above is None or not stored or any(item.vector is None for item in stored):
        return [()] * len(stored)
    above, scale = _above(services, profile), _scale(services, profile)
    found: list[Near] = [
        [(cosine, memory) for cosine, memory in pairs if cosine > above and memory.id != item.memory.supersedes]
        for item, pairs in zip(stored, near, strict=True)
    ]
    for place, pairs in enumerate(_new_rivals(stored, above, now)):
        found[place] += pairs
    return [
        tuple(
            _told(item.memory, memory, cosine, scale, services.calibration.paraphrase if place < LABELLED else None)
            for place, (cosine, memory) in enumerate(sorted(pairs, key=lambda pair: -pair[0]))
        )
        for item, pairs in zip(stored, found, strict=True)
    ]


def _scale(services: Services, profile: Profile) -> Calibration:
    return services.calibration if profile.threshold_scale == "calibrated" else RAW


def _above(services: Services, profile: Profile) -> float:
    """Return the raw cosine above which memories may conflict; infinity where the profile looks for no conflicts."""
    if profile.contradiction_above is None:
        return float("inf")
    scale = _scale(services, profile)
    return float(np.interp(profile.contradiction_above, scale.relatedness, scale.cosine)) + EDGE


def _told(new: Memory, old: Memory, cosine: float, scale: Calibration, paraphrase: float | None) -> Contradiction:
    """Return what is told of two memories that may conflict; without a paraphrase threshold, no label."""
    from salience.extract.relations import relation  # brings dates and their library, which only a conflict waits for

    on_scale = float(np.interp(cosine, scale.cosine, scale.relatedness))
    if paraphrase is None:
        return Contradiction(old, on_scale)
    found = relation(
        new.content,
        old.content,
        similarity=cosine,
        paraphrase=paraphrase,
        new_speaker=new.speaker,
        old_speaker=old.speaker,
    )
    return Contradiction(old, on_scale, found.label, found.because)


def _stored_neighbours(
    services: Services, profile: Profile, stored: Sequence[Stored], above: float, now: datetime
) -> list[Near]:
    """Return, for each of some memories of one scope, those in the store whose cosine is `above` a bound."""
    vectors = np.stack([item.vector for item in stored if item.vector is not None])
    columns = frozenset({"expires_at", "code", "supersedes"})
    scope = stored[0].memory.scope
    need = Need(scope=scope, now=now, columns=columns, vectors=True, near=Around(vectors, above), reach=RIVALS)
    batch = services.store.gather(need)
    if not len(batch):
        return [[] for _ in stored]
    rows = superseded(expired(State.start(profile, batch, need))).rows
    if batch.vectors is None or not len(rows):
        return [[] for _ in stored]
    ids = [str(batch.ids[row]) for row in rows]
    memories = {memory.id: memory for memory in services.store.fetch(scope, ids)}
    alike = cosines(batch.vectors.at(rows), vectors)
    found: list[Near] = []
    for number in range(len(stored)):
        near = [(float(alike[place, number]), ids[place]) for place in np.flatnonzero(alike[:, number] > above)]
        found.append([(cosine, memories[other]) for cosine, other in near if other in memories])
    return found


def _new_rivals(stored: Sequence[Stored], above: float, now: datetime) -> list[Near]:
    """Return, for each new memory, the new ones before it that it sees and that are too alike."""
    if len(stored) == 1:
        return [[]]
    vectors = np.stack([item.vector for item in stored if item.vector is not None])
    rivals: list[Near] = []
    for place, item in enumerate(stored):
        alike = cosines(vectors[:place], vectors[place])
        near = [(float(alike[other]), stored[other].memory) for other in np.flatnonzero(alike > above).tolist()]
        rivals.append(
            [
                (cosine, rival)
                for cosine, rival in near
                if item.memory.scope.sees(rival.scope) and (rival.expires_at is None or rival.expires_at > now)
            ]
        )
    return rivals


def warning(memory: Memory, found: Sequence[Contradiction]) -> str:
    """Return the contradictions as text for an agent to read, each memory on one line, the most similar `WARNED`.

    Where each of them is a duplicate, the text speaks of no contradiction. Source of the other one: mememory,
    Contradiction Detection.
    """
    rivals = [
        f"[{rival.memory.short_id}] (similarity: {rival.similarity:.0%}) {one_line(rival.memory.content)}"
        for rival in found[:WARNED]
    ]
    more = [f"... and {len(found) - WARNED} more"] if len(found) > WARNED else []
    if all(rival.label == "duplicate" for rival in found[:LABELLED]):
        return "\n".join((SIMILAR.format(memory.short_id), *rivals, *more, SIMILAR_OPTIONS))
    return "\n".join(
        (
            "CONTRADICTION DETECTED",
            "New memory:",
            f"[{memory.short_id}] {one_line(memory.content)}",
            "Potentially conflicting memories:",
            *rivals,
            *more,
            "Options:",
            "1. Keep both — if they are complementary",
            "2. Update old — call update(id=<old_id>, content=...)",
            "3. Supersede — call remember(content=..., supersedes=<old_id>)",
            "4. Delete old — call forget(id=<old_id>)",
        )
    )
