"""Groups of related memories, and which reflection belongs to which group. Pure."""

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
from salience.records import Memory
from salience.remember.facts import SUPERSEDED_WEIGHT
from salience.text import words

LEAST_SUBJECTS: Final = 2
"""Fewest subjects of a conversation turn that is worth summing up."""
PADDING: Final = 10
"""Words added to the length of a text when its share of subjects is computed, so that short texts do not win."""
LEFT_OUT: Final = ("reflection", "bootstrap")
"""Kinds that no reflection sums up."""
LEAST_OVERLAP: Final = 0.5
"""Least overlap, as a share of the smaller set, of a group and the sources of a reflection that it may renew."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Related memories.

    Attributes:
        members: ordered by id.
        medoid: the member that represents all best.
        vectors: of the members, float32[n, d].
        subject: a word for what they are about.
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
        """The idempotency key of the reflection on exactly these memories."""
        ids = "\n".join(memory.id for memory in self.members)
        return f"reflection:{hashlib.sha256(ids.encode()).hexdigest()[:32]}"


def groups(
    memories: Mapping[str, Memory],
    vectors: Mapping[str, Vectors32],
    *,
    read: Subjects,
    now: datetime,
    clustering: Clustering,
    calibration: Calibration,
) -> list[Group]:
    """Return the groups among the live memories of one home, in the order of their first members.

    A group has one speaker. Names of the speakers, the user and the agent are no subjects, since all memories of the
    home are about them.

    Args:
        memories: id -> memory.
        vectors: id -> unit vector, for memories that have one.
        read: returns the subjects of a text.
        now: memories that expired by then are left out.
        clustering: settings of the clusters.
        calibration: of the embedder.
    """
    tightness = float(np.interp(clustering.tightness, calibration.relatedness, calibration.cosine))
    candidates = [memory for memory in reflectable(memories.values(), now) if memory.id in vectors]
    names = _names(read, candidates)
    subjects = {memory.id: _subjects(read, memory, names) for memory in candidates}
    by_speaker: dict[str | None, list[Memory]] = {}
    for memory in candidates:
        if subjects[memory.id]:
            by_speaker.setdefault(memory.speaker, []).append(memory)
    found: list[Group] = []
    for members in by_speaker.values():
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
            substance = np.array([len(about[row]) / (len(words(members[row].content)) + PADDING) for row in rows])
            middle = rows[medoid(matrix[rows], substance)]
            word = Counter(about[row][vocabulary[cluster.subject]] for row in rows).most_common(1)[0][0]
            found.append(Group(tuple(members[row] for row in rows), members[middle], matrix[rows], word))
    return sorted(found, key=lambda group: group.members[0].id)


def reflectable(memories: Iterable[Memory], now: datetime) -> list[Memory]:
    """Return the memories that a reflection may sum up, ordered by id.

    Reflections, bootstrap memories, and expired or superseded ones are left out, and of each fact all but the latest.
    """
    latest: dict[str, Memory] = {}
    for memory in sorted(memories, key=lambda one: (one.updated_at, one.id)):
        is_left_out = memory.kind in LEFT_OUT or bool(memory.sources) or memory.weight <= SUPERSEDED_WEIGHT
        if is_left_out or not memory.is_live(now):
            continue
        latest[memory.fact_key or memory.id] = memory
    return sorted(latest.values(), key=lambda memory: memory.id)


def _subjects(read: Subjects, memory: Memory, names: frozenset[str]) -> dict[str, str]:
    """Return the subjects of a memory; none for a conversation turn with fewer than `LEAST_SUBJECTS`."""
    is_turn = memory.kind == "turn"
    found = {term: word for term, word in read.of(memory.content, is_turn).items() if term not in names}
    return {} if is_turn and len(found) < LEAST_SUBJECTS else found


def _names(read: Subjects, memories: Sequence[Memory]) -> frozenset[str]:
    """Return the terms in the names of all speakers, and of the user and agent of the home."""
    named: set[object] = {memory.speaker for memory in memories}
    if memories:
        named |= {memories[0].scope.user_id, memories[0].scope.agent_id}
    return frozenset(term for name in named if isinstance(name, str) and name for term in read.of(name))


@dataclass(frozen=True, slots=True)
class Matched:
    """Groups and reflections side by side.

    Attributes:
        pairs: each group that gets a reflection, with its present one or None.
        left: reflections without a group.
        refused: groups whose reflection a person forgot.
    """

    pairs: tuple[tuple[Group, Memory | None], ...]
    left: tuple[Memory, ...]
    refused: tuple[Group, ...]


def match(groups: Sequence[Group], reflections: Sequence[Memory]) -> Matched:
    """Return each group with its reflection: greatest overlap first, ties by ids.

    A group whose reflection a person forgot gets none while its members are the same. A forgotten reflection is never
    used for another group.
    """
    forgotten = {reflection.key for reflection in reflections if is_refused(reflection)}
    refused = tuple(group for group in groups if group.key in forgotten)
    wanted = [group for group in groups if group.key not in forgotten]
    present = {reflection.id: reflection for reflection in reflections if not is_refused(reflection)}
    by_source: dict[str, set[str]] = {}
    for reflection in present.values():
        for source in reflection.sources:
            by_source.setdefault(source, set()).add(reflection.id)
    overlaps = sorted(
        (-overlap, id_, place)
        for place, group in enumerate(wanted)
        for id_ in set().union(*(by_source.get(member.id, set()) for member in group.members))
        if (overlap := _overlap(group, present[id_])) > 0
    )
    reflection_of: dict[int, str] = {}
    used: set[str] = set()
    for _, id_, place in overlaps:
        if place not in reflection_of and id_ not in used:
            reflection_of[place] = id_
            used.add(id_)
    pairs = [(group, present.get(reflection_of.get(place, ""))) for place, group in enumerate(wanted)]
    left = [reflection for reflection in present.values() if reflection.id not in used]
    return Matched(tuple(pairs), tuple(left), refused)


def is_refused(reflection: Memory) -> bool:
    """Return whether a person forgot a reflection and nothing has restored it since."""
    return reflection.status == "forgotten"


def _overlap(group: Group, reflection: Memory) -> float:
    """Return the Jaccard index of members and sources, 2 for the same key, and 0 below `LEAST_OVERLAP`."""
    members, sources = {memory.id for memory in group.members}, set(reflection.sources)
    common = len(members & sources)
    if not common or common < LEAST_OVERLAP * min(len(members), len(sources)):
        return 0.0
    return 2.0 if reflection.key == group.key else common / len(members | sources)
