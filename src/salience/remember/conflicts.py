"""What a new memory may conflict with, and what the two are to each other."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import numpy as np

from salience.batch import cosines
from salience.ports import EDGE, Calibration, Near, Need, Stored, World
from salience.rank.profile import Profile
from salience.rank.stages import expired, superseded
from salience.rank.state import State
from salience.records import Contradiction, Memory
from salience.text import one_line

WARNED: Final = 10
"""Most memories that a warning names; the receipt's `contradictions` hold all."""
RIVALS: Final = 100
"""Most memories near a new one that a store is asked for where it has an index of vectors."""
LABELLED: Final = WARNED
"""Most conflicts of a memory that get a label, the most similar ones: to read two texts takes longer than a search."""
RAW: Final = Calibration((0.0, 1.0), (0.0, 1.0), 1.0, "raw cosine")
"""The scale on which a cosine means itself."""


def contradictions(
    world: World, profile: Profile, stored: Sequence[Stored], now: datetime
) -> list[tuple[Contradiction, ...]]:
    """Return, for each new memory, the live ones that it may conflict with, most similar first.

    Those are the memories visible from where it lives, or before it among the new ones, whose similarity is above the
    profile's threshold. Source: mememory, Contradiction Detection.
    """
    if profile.contradiction_above is None or not stored or any(item.vector is None for item in stored):
        return [()] * len(stored)
    to_scale = world.calibration if profile.threshold_scale == "calibrated" else RAW
    above = float(np.interp(profile.contradiction_above, to_scale.relatedness, to_scale.cosine)) + EDGE
    found: list[list[tuple[float, Memory]]] = [[] for _ in stored]
    for scope in dict.fromkeys(item.memory.scope for item in stored):
        places = [place for place, item in enumerate(stored) if item.memory.scope == scope]
        rivals = _stored_rivals(world, profile, [stored[place] for place in places], above, now)
        for place, pairs in zip(places, rivals, strict=True):
            found[place] += pairs
    for place, pairs in enumerate(_new_rivals(stored, above, now)):
        found[place] += pairs
    return [
        tuple(
            _told(item.memory, memory, cosine, to_scale, world.calibration.paraphrase if place < LABELLED else None)
            for place, (cosine, memory) in enumerate(sorted(pairs, key=lambda pair: -pair[0]))
        )
        for item, pairs in zip(stored, found, strict=True)
    ]


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


def _stored_rivals(
    world: World, profile: Profile, stored: Sequence[Stored], above: float, now: datetime
) -> list[list[tuple[float, Memory]]]:
    """Return, for each of some memories of one scope, (cosine, memory) of those in the store that are too alike."""
    vectors = np.stack([item.vector for item in stored if item.vector is not None])
    columns = frozenset({"expires_at", "code", "supersedes"})
    scope = stored[0].memory.scope
    need = Need(scope=scope, now=now, columns=columns, vectors=True, near=Near(vectors, above), reach=RIVALS)
    batch = world.store.gather(need)
    if not len(batch):
        return [[] for _ in stored]
    rows = superseded(expired(State.start(profile, batch, need))).rows
    if batch.vectors is None or not len(rows):
        return [[] for _ in stored]
    ids = [str(batch.ids[row]) for row in rows]
    memories = {memory.id: memory for memory in world.store.fetch(scope, ids)}
    alike = cosines(batch.vectors.at(rows), vectors)
    rivals: list[list[tuple[float, Memory]]] = []
    for number, item in enumerate(stored):
        near = [(float(alike[place, number]), ids[place]) for place in np.flatnonzero(alike[:, number] > above)]
        rivals.append(
            [
                (cosine, memories[rival])
                for cosine, rival in near
                if rival in memories and rival != item.memory.supersedes
            ]
        )
    return rivals


def _new_rivals(stored: Sequence[Stored], above: float, now: datetime) -> list[list[tuple[float, Memory]]]:
    """Return, for each new memory, (cosine, memory) of the new ones before it that it sees and that are too alike."""
    if len(stored) == 1:
        return [[]]
    vectors = np.stack([item.vector for item in stored if item.vector is not None])
    rivals: list[list[tuple[float, Memory]]] = []
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

    Source: mememory, Contradiction Detection.
    """
    rivals = [
        f"[{rival.memory.short_id}] (similarity: {rival.similarity:.0%}) {one_line(rival.memory.content)}"
        for rival in found[:WARNED]
    ]
    more = [f"... and {len(found) - WARNED} more"] if len(found) > WARNED else []
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
