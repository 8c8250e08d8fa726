"""Conflicts of a new memory: similar live memories, how they relate to it, and the warning about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Final

import numpy as np

from salience.batch import Vectors32, cosines
from salience.extract.conflicts import relation
from salience.ports import EDGE, Calibration, Need, Services, Stored
from salience.ports import Near as NearVectors
from salience.rank.profile import Profile
from salience.rank.stages import State, expired, outdated, superseded
from salience.records import Contradiction, Memory, Scope
from salience.text import one_line

LISTED: Final = 10
"""Most memories that a warning lists; `Receipt.contradictions` holds all."""
LABELLED: Final = LISTED
"""Most conflicts of one memory that get a label, the most similar ones: comparing texts is slower than the search."""
SIMILAR: Final = "Stored as [{}], but memories that say the same exist:"
SIMILAR_OPTIONS: Final = (
    "To keep one of them, call forget(id=<id>) on the others, or call update(id=<old_id>, content=...) to change the "
    "old one and forget the new one."
)
REACH: Final = 100
"""Most neighbours that a store with an approximate vector index searches for."""
SAME_TEXT: Final = 0.99
"""Raw cosine above which a memory may have the same text; the caller compares the texts themselves."""
DISMISSED: Final = "salience_dismissed"
"""Name in a memory's metadata of the problems that a person settled: see `maintain.review`."""
RAW: Final = Calibration((0.0, 1.0), (0.0, 1.0), 1.0, "raw cosine")
"""Calibration that leaves a cosine as it is."""
Near = list[tuple[float, Memory]]
"""Neighbours of a memory with their raw cosine."""


def neighbours(services: Services, profile: Profile, prepared: Sequence[Stored], now: datetime) -> list[Near]:
    """Return, for each new memory, the visible live memories that it may conflict with or repeat.

    Their cosine is above the conflict threshold of the profile, or above `SAME_TEXT` if the profile has none. Memories
    without a vector have no neighbours.
    """
    found: list[Near] = [[] for _ in prepared]
    if any(item.vector is None for item in prepared):
        return found
    for scope in dict.fromkeys(item.memory.scope for item in prepared):
        positions = [position for position, item in enumerate(prepared) if item.memory.scope == scope]
        nearby, _ = near_ids(services, profile, scope, [prepared[position] for position in positions], now)
        memories = fetched(services, scope, nearby)
        for position, near in zip(positions, nearby, strict=True):
            found[position] = [(cosine, memories[found_id]) for cosine, found_id in near if found_id in memories]
    return found


def near_ids(
    services: Services,
    profile: Profile,
    scope: Scope,
    embedded: Sequence[Stored],
    now: datetime,
    stages: Sequence[Callable[[State], State]] = (expired, superseded),
) -> tuple[list[list[tuple[float, str]]], frozenset[str]]:
    """Return, for each memory, the ids of the memories near to it with their raw cosines; and all these ids.

    All memories must have a vector. `stages` drop the memories that are out of date.
    """
    vectors, above = _vectors(embedded), min(_threshold(services, profile), SAME_TEXT)
    columns = frozenset({"expires_at", "code", "supersedes", *(["successor"] if outdated in stages else [])})
    near = NearVectors(vectors, above)
    need = Need(scope=scope, now=now, columns=columns, vectors=True, near=near, reach=REACH)
    batch = services.store.gather(need)
    if not len(batch) or batch.vectors is None:
        return [[] for _ in embedded], frozenset()
    state = State.start(profile, batch, need)
    for stage in stages:
        state = stage(state)
    ids = [str(batch.ids[row]) for row in state.rows]
    alike = cosines(batch.vectors.at(state.rows), vectors)
    found = [[(float(each[hit]), ids[hit]) for hit in np.flatnonzero(each > above).tolist()] for each in alike.T]
    return found, frozenset(ids)


def fetched(services: Services, scope: Scope, nearby: Iterable[Iterable[tuple[float, str]]]) -> dict[str, Memory]:
    """Return the live memories of the ids that `near_ids` found, by id."""
    ids = dict.fromkeys(found_id for near in nearby for _, found_id in near)
    return {memory.id: memory for memory in services.store.fetch(scope, list(ids))} if ids else {}


def contradictions(
    services: Services, profile: Profile, prepared: Sequence[Stored], near: Sequence[Near], now: datetime
) -> list[tuple[Contradiction, ...]]:
    """Return, for each new memory, the live memories that it may conflict with, most similar first.

    These are its neighbours above the conflict threshold of the profile, both in the store (`near`) and earlier in the
    same call. Source: mememory, Contradiction Detection.
    """
    if profile.contradiction_above is None or not prepared or any(item.vector is None for item in prepared):
        return [()] * len(prepared)
    above, scale = _threshold(services, profile), _scale(services, profile)
    vectors = _vectors(prepared)
    found: list[tuple[Contradiction, ...]] = []
    for position, item in enumerate(prepared):
        rivals = [
            (cosine, old) for cosine, old in near[position] if cosine > above and old.id != item.memory.supersedes
        ]
        alike = cosines(vectors[:position], vectors[position])
        for other in np.flatnonzero(alike > above).tolist():
            rival = prepared[other].memory
            if item.memory.scope.sees(rival.scope) and (rival.expires_at is None or rival.expires_at > now):
                rivals.append((float(alike[other]), rival))
        rivals.sort(key=lambda pair: -pair[0])
        found.append(
            tuple(
                _labelled(services, item.memory, rival, cosine, scale, has_label=rank < LABELLED)
                for rank, (cosine, rival) in enumerate(rivals)
            )
        )
    return found


def _labelled(
    services: Services, new: Memory, old: Memory, cosine: float, scale: Calibration, *, has_label: bool
) -> Contradiction:
    similarity = float(np.interp(cosine, scale.cosine, scale.relatedness))
    if not has_label:
        return Contradiction(old, similarity)
    found = relation(
        new.content,
        old.content,
        similarity=cosine,
        paraphrase=services.calibration.paraphrase,
        new_speaker=new.speaker,
        old_speaker=old.speaker,
    )
    return Contradiction(old, similarity, found.label, found.because)


def _vectors(prepared: Sequence[Stored]) -> Vectors32:
    return np.stack([item.vector for item in prepared if item.vector is not None])


def _scale(services: Services, profile: Profile) -> Calibration:
    return services.calibration if profile.threshold_scale == "calibrated" else RAW


def _threshold(services: Services, profile: Profile) -> float:
    """Return the raw cosine above which memories may conflict; infinity if the profile looks for no conflicts."""
    if profile.contradiction_above is None:
        return float("inf")
    scale = _scale(services, profile)
    return float(np.interp(profile.contradiction_above, scale.relatedness, scale.cosine)) + EDGE


def conflict_warning(memory: Memory, found: Sequence[Contradiction]) -> str:
    """Return the text about the conflicts of a new memory, for an agent to read: one line for each of the first ten.

    If all are duplicates, the text does not mention contradictions. Source of the other text: mememory, Contradiction
    Detection.
    """
    rivals = [
        f"[{rival.memory.short_id}] (similarity: {rival.similarity:.0%}) {one_line(rival.memory.content)}"
        for rival in found[:LISTED]
    ]
    more = [f"... and {len(found) - LISTED} more"] if len(found) > LISTED else []
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
