"""Neighbours of a new memory: similar live memories, those that it may conflict with, and the warning about them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

import numpy as np

from salience.batch import Vectors32, rows_above
from salience.extract.conflicts import relation
from salience.extract.reading import Reading
from salience.ports import EDGE, RAW, Calibration, Need, Services, Stored
from salience.ports import Near as NearVectors
from salience.rank.criteria import Criteria
from salience.rank.profile import Profile
from salience.rank.stages import State, expired, superseded
from salience.records import LIKELY, Contradiction, Label, Memory, Scope
from salience.relations import NEAREST, RELATED
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
Near = list[tuple[float, Memory]]
"""Neighbours of a memory with their raw cosine."""


def dismissed(memory: Memory) -> list[str]:
    """Return the entries of a memory's dismissed problems: ids of other memories, and instants (see `DISMISSED`)."""
    found = memory.metadata.get(DISMISSED)
    return [str(one) for one in found] if isinstance(found, (list, tuple)) else []


def are_dismissed(one: Memory, other: Memory) -> bool:
    """Return whether a person settled what two memories are to each other."""
    return other.id in dismissed(one) or one.id in dismissed(other)


def neighbours(services: Services, profile: Profile, prepared: Sequence[Stored], now: datetime) -> list[Near]:
    """Return, for each new memory, the visible live memories near to it, nearest first.

    These are all whose cosine is above the conflict threshold of the profile, and the `NEAREST` nearest that may be
    related to it. Pending memories have no neighbours; words decide about texts that the model does not know (see
    `alike_by_words`).
    """
    found: list[Near] = [[] for _ in prepared]
    if any(item.vector is None for item in prepared):
        return found
    related = _cosine(services.calibration, RELATED)
    for scope in dict.fromkeys(item.memory.scope for item in prepared):
        positions = [position for position, item in enumerate(prepared) if item.memory.scope == scope]
        unknown = [position for position in positions if not _is_known(prepared[position])]
        if unknown:
            alike = alike_by_words(services, profile, scope, [prepared[position].memory for position in unknown], now)
            found = [alike.pop(0) if position in unknown else near for position, near in enumerate(found)]
            positions = [position for position in positions if _is_known(prepared[position])]
        if not positions:
            continue
        nearby, _ = near_ids(services, profile, scope, [prepared[position] for position in positions], now, related)
        memories = fetched(services, scope, nearby)
        for position, near in zip(positions, nearby, strict=True):
            found[position] = [(cosine, memories[found_id]) for cosine, found_id in near if found_id in memories]
    return found


def alike_by_words(
    services: Services, profile: Profile, scope: Scope, memories: Sequence[Memory], now: datetime
) -> list[Near]:
    """Return, for each memory, the visible live memories of much the same words, with their likeness as the cosine.

    The likeness is twice the number of distinct terms that both texts have, divided by the numbers of both (Dice). Of
    those with the most terms of the memory, the ten shortest are compared.
    """
    tokeniser, above = services.tokeniser, min(_threshold(services, profile), SAME_TEXT)
    texts = [frozenset(tokeniser.terms(memory.content)) for memory in memories]
    places = {term: place for place, term in enumerate(sorted(frozenset[str]().union(*texts)))}
    if not places:
        return [[] for _ in memories]
    columns = frozenset({"expires_at", "code", "supersedes"})
    need = Need(scope=scope, now=now, columns=columns, terms=tuple(places), reach=REACH)
    batch = services.store.gather(need)
    if batch.lexicon is None:
        return [[] for _ in memories]
    state = superseded(expired(State.start(profile, batch, Criteria(reading=Reading(now=now)))))
    found: list[Near] = []
    for terms in texts:
        shared = np.zeros(len(batch), np.intp)
        for term in terms:
            shared[batch.lexicon.postings.of_term(places[term])[0]] += 1
        most = shared * state.alive * 2 / (len(terms) + np.maximum(shared, 1))
        rows = np.flatnonzero(most > above)
        rows = rows[np.lexsort((batch.lexicon.length[rows], -most[rows]))[:LABELLED]]
        olds = services.store.fetch(scope, batch.ids[rows].tolist()) if len(rows) else []
        others = [frozenset(tokeniser.terms(old.content)) for old in olds]
        alike = [2 * len(terms & other) / (len(terms) + len(other)) for other in others]
        found.append([pair for pair in zip(alike, olds, strict=True) if pair[0] > above])
    return found


def near_ids(
    services: Services, profile: Profile, scope: Scope, embedded: Sequence[Stored], now: datetime, related: float = 1.0
) -> tuple[list[list[tuple[float, str]]], frozenset[str]]:
    """Return, for each memory, its near memories as raw cosine and id, nearest first; and all ids that were compared.

    All memories must have a vector. Near are those with a cosine above the conflict threshold of the profile, and those
    among the `NEAREST` nearest with one above `related`. Expired and superseded memories are left out, and those that
    the profile does not return since a caller replaced them.
    """
    vectors = _vectors(embedded)
    conflicting = min(_threshold(services, profile), SAME_TEXT)
    hides = "replaced" in profile.stages
    columns = frozenset({"expires_at", "code", "supersedes", *(("replaced",) if hides else ())})
    near = NearVectors(vectors, min(conflicting, related))
    need = Need(scope=scope, now=now, columns=columns, parts=frozenset({"vectors"}), near=near, reach=REACH)
    batch = services.store.gather(need)
    if not len(batch) or batch.vectors is None:
        return [[] for _ in embedded], frozenset()
    state = superseded(expired(State.start(profile, batch, Criteria(reading=Reading(now=now)))))
    if hides:
        state = state.keep_where(batch["replaced"] < 1.0 - EDGE)
    ids: list[str] = batch.ids[state.rows].tolist()
    found: list[list[tuple[float, str]]] = []
    for close, alike in rows_above(vectors, batch.vectors.at(state.rows), near.above):
        count = max(int(np.count_nonzero(alike > conflicting)), NEAREST if related < 1.0 else 0)
        nearest = np.lexsort((-close, -alike))[:count]  # of equals the latest first
        rows = close[nearest].tolist()
        found.append([(cosine, ids[row]) for cosine, row in zip(alike[nearest].tolist(), rows, strict=True)])
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
    pairs = zip(prepared, near, rows_above(vectors, vectors, above), strict=True)
    for position, (item, known, (close, alike)) in enumerate(pairs):
        rivals = [(cosine, old) for cosine, old in known if cosine > above and old.id != item.memory.supersedes]
        for other, cosine in zip(close.tolist(), alike.tolist(), strict=True):
            rival = prepared[other].memory
            if other < position and item.memory.scope.sees(rival.scope) and rival.is_live(now):
                rivals.append((cosine, rival))
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
    return Contradiction(old, similarity, _label(new, old, found.label), found.because)


def _label(new: Memory, old: Memory, rule: Label) -> Label:
    """Return the label of a pair: `update` if the new memory replaces the old one, else that of the rules."""
    replaced = (one for one in new.relations or () if one.id == old.id and one.kind == "replaces")
    return "update" if any(one.probability >= LIKELY for one in replaced) else rule


def _is_known(item: Stored) -> bool:
    """Return whether the model knows a word of the text of a memory, which is not pending."""
    return item.vector is not None and bool(item.vector.any())


def _vectors(prepared: Sequence[Stored]) -> Vectors32:
    return np.stack([item.vector for item in prepared if item.vector is not None])


def _scale(services: Services, profile: Profile) -> Calibration:
    return services.calibration if profile.threshold_scale == "calibrated" else RAW


def _threshold(services: Services, profile: Profile) -> float:
    """Return the raw cosine above which memories may conflict; infinity if the profile looks for no conflicts."""
    if profile.contradiction_above is None:
        return float("inf")
    return _cosine(_scale(services, profile), profile.contradiction_above)


def _cosine(scale: Calibration, relatedness: float) -> float:
    """Return the raw cosine above which texts have a relatedness."""
    return float(np.interp(relatedness, scale.relatedness, scale.cosine)) + EDGE


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
