"""Which memories of one home belong together: said by the same, about the same, and near each other. Pure."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np

from salience.batch import Ragged, Vectors32
from salience.extract.subjects import Subjects
from salience.ports import Calibration, Clustering
from salience.rank.clusters import MIN_TIGHTNESS, clusters, medoid
from salience.records import Memory, Scope
from salience.text import words

LEAST_WEIGHT: Final = 0.1
"""Weight of a memory that was superseded, the least there is."""
TOLD: Final = 2
"""Fewest subjects of a turn of a conversation that tells something."""
SHORT: Final = 10
"""Words that are added to the length of a text where it is asked how much of it says something."""
APART: Final = ("reflection", "bootstrap")
"""Kinds that no reflection sums up."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Memories that belong together.

    Attributes:
        members: the memories, by id.
        medoid: the one of them that speaks for all best.
        vectors: of the members, float32[n, d].
        subject: a word that stands for what they are about.
    """

    members: tuple[Memory, ...]
    medoid: Memory
    vectors: Vectors32
    subject: str

    @property
    def vector(self) -> Vectors32:
        """The vector of the medoid, float32[d]."""
        vector: Vectors32 = self.vectors[self.members.index(self.medoid)]
        return vector

    @property
    def key(self) -> str:
        """The idempotency key of the reflection on just these memories: no home holds two."""
        ids = "\n".join(memory.id for memory in self.members)
        return f"reflection:{hashlib.sha256(ids.encode()).hexdigest()[:32]}"


def groups(
    held: Mapping[str, Memory],
    vectors: Mapping[str, Vectors32],
    *,
    read: Subjects,
    now: datetime,
    clustering: Clustering,
    calibration: Calibration,
) -> list[Group]:
    """Return the groups among the live memories of one home, in the order of their first members.

    Memories of different speakers are in different groups: who said it belongs to what was said. Names of the speakers
    and of whom the home belongs to are no subjects, since everything there is about them.

    Args:
        held: id -> memory.
        vectors: id -> unit vector, of the memories that have one.
        read: tells the subjects of a text.
        now: an expired memory takes no part.
        clustering: when memories belong together.
        calibration: what cosines mean.
    """
    tightness = float(np.interp(clustering.tightness, calibration.relatedness, calibration.cosine))
    parts = [memory for memory in taking_part(held.values(), now) if memory.id in vectors]
    names = _names(read, parts)
    subjects = {memory.id: _subjects(read, memory, names) for memory in parts}
    found: list[Group] = []
    for members in _by_speaker([memory for memory in parts if subjects[memory.id]]).values():
        about = [subjects[memory.id] for memory in members]
        vocabulary = sorted({term for terms in about for term in terms})
        code = {term: number for number, term in enumerate(vocabulary)}
        matrix = np.stack([vectors[memory.id] for memory in members])
        for cluster in clusters(
            matrix,
            Ragged.of([sorted(code[term] for term in terms) for terms in about]),
            tightness=max(tightness, MIN_TIGHTNESS),
            share=clustering.share,
            least=clustering.least,
            greatest=clustering.greatest,
        ):
            rows = list(cluster.rows)
            substance = np.array([len(about[row]) / (len(words(members[row].content)) + SHORT) for row in rows])
            middle = rows[medoid(matrix[rows], substance)]
            word = Counter(about[row][vocabulary[cluster.subject]] for row in rows).most_common(1)[0][0]
            found.append(Group(tuple(members[row] for row in rows), members[middle], matrix[rows], word))
    return sorted(found, key=lambda group: group.members[0].id)


def _subjects(read: Subjects, memory: Memory, names: frozenset[str]) -> dict[str, str]:
    """Return the subjects of a memory; none for a turn of too few, which answers what was said and tells nothing."""
    is_turn = memory.kind == "turn"
    found = {term: word for term, word in read.of(memory.content, is_turn).items() if term not in names}
    return {} if is_turn and len(found) < TOLD else found


def taking_part(memories: Iterable[Memory], now: datetime) -> list[Memory]:
    """Return the memories that a reflection may sum up, by id.

    Those are the ones that hold at `now`: neither expired nor superseded, and of each fact the one that was updated
    last. Reflections sum up no reflections, and what every session starts with is not buried in one.
    """
    holding = [
        memory
        for memory in memories
        if memory.kind not in APART
        and not memory.sources
        and memory.weight > LEAST_WEIGHT
        and (memory.expires_at is None or memory.expires_at > now)
    ]
    newest: dict[str, Memory] = {}
    for memory in sorted(holding, key=lambda one: (one.updated_at, one.id)):
        newest[memory.fact_key or memory.id] = memory
    return sorted(newest.values(), key=lambda memory: memory.id)


def _names(read: Subjects, memories: Sequence[Memory]) -> frozenset[str]:
    """Return the terms of the names of all speakers, and of the user and agent whose home it is."""
    named = {memory.speaker for memory in memories}
    named |= {who for memory in memories[:1] for who in _owners(memory.scope)}
    return frozenset(term for name in named if name for term in read.of(name))


def _owners(scope: Scope) -> tuple[str | None, ...]:
    return tuple(who if isinstance(who, str) else None for who in (scope.user_id, scope.agent_id))


def _by_speaker(memories: Sequence[Memory]) -> dict[str | None, list[Memory]]:
    found: dict[str | None, list[Memory]] = {}
    for memory in memories:
        found.setdefault(memory.speaker, []).append(memory)
    return found
