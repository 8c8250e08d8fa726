"""Clusters of memories about one subject, from unit vectors. Pure and deterministic.

The algorithm is that of Daura et al. (Peptide folding, 1999): the row with the most neighbours and these neighbours
form a cluster and are removed; the rest is counted again. It needs no number of clusters, leaves isolated rows alone,
and its clusters are easy to explain: one subject, and a least cosine to the centre. Neighbours must also share a
subject, since vectors alone group texts by tone: all thanks, all praise, all greetings.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

import numpy as np

from salience.batch import Floats, Ragged, Rows, Vectors32, cosines
from salience.records import checks

MIN_TIGHTNESS: Final = 0.25
"""Least tightness. Above it, float64 sums of float32 cosines are exact, so their order does not matter."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Rows about one subject.

    Attributes:
        subject: the code that all rows share.
        centre: of the rows within the tightness of all others, the one nearest to them.
        rows: all rows including the centre, ascending.
    """

    subject: int
    centre: int
    rows: tuple[int, ...]


def clusters(
    vectors: Vectors32, subjects: Ragged, *, tightness: float, share: float, least: int, greatest: int
) -> list[Cluster]:
    """Return disjoint clusters of unit vectors float32[n, d], by their centres.

    The largest cluster comes first; ties go to the one with the nearer rows, then to the lowest row, then to the lowest
    code. Rows in the order of ids and codes in the order of their words therefore always give the same clusters. Time
    and memory are linear in the rows, since only subjects with at most `greatest / share` rows count.

    Args:
        vectors: the rows; a row of zeros is in no cluster.
        subjects: distinct codes of the subjects of each row.
        tightness: least cosine of a row to the centre, `MIN_TIGHTNESS` to 1.
        share: least share of a cluster in all rows of its subject, 0.05 to 1. Rows about a subject lie together; rows
            that only mention a word such as "hard" are scattered.
        least: fewest rows of a cluster, from 2.
        greatest: most rows of a cluster.

    Raises:
        InputError: a number outside its range.
    """
    checks.number("tightness", tightness, MIN_TIGHTNESS, 1.0)
    checks.number("share", share, 0.05, 1.0)
    checks.whole("least", least, 2, greatest)
    row, code = subjects.pairs()
    order = np.lexsort((row, code))
    codes, starts = np.unique(code[order], return_index=True)
    members = {
        subject: rows
        for subject, rows in zip(codes.tolist(), np.split(row[order], starts)[1:], strict=True)
        if least <= len(rows) and len(rows) * share <= greatest
    }
    subjects_of: dict[int, list[int]] = {}
    for subject, rows in members.items():
        for one in rows.tolist():
            subjects_of.setdefault(one, []).append(subject)
    free, version = np.ones(len(vectors), np.bool_), dict.fromkeys(members, 0)
    queue: list[tuple[int, float, int, int, int]] = []  # (-neighbours, -nearness, row, subject, version), densest first

    def enqueue(subject: int) -> None:
        """Queue the densest free row of a subject, if it has enough neighbours for a cluster."""
        rows = members[subject][free[members[subject]]]
        if len(rows) < least:
            return
        cosine = cosines(vectors[rows], vectors[rows])
        near = cosine >= tightness
        counts, nearness = near.sum(axis=1), np.where(near, cosine, 0.0).sum(axis=1)
        size = np.minimum(counts, greatest)
        enough = np.flatnonzero((size >= least) & (size >= share * len(members[subject])))
        if len(enough):
            best = enough[np.lexsort((rows[enough], -nearness[enough], -counts[enough]))[0]]
            heappush(queue, (-int(counts[best]), -float(nearness[best]), int(rows[best]), subject, version[subject]))

    for subject in members:
        enqueue(subject)
    found: list[Cluster] = []
    while queue:
        _, _, densest, subject, queued = heappop(queue)
        if queued != version[subject]:
            continue
        rows = members[subject][free[members[subject]]]
        cosine = cosines(vectors[rows], vectors[densest])
        cosine[rows == densest] = np.inf  # a copy of the row has the same cosine as the row itself
        near = np.flatnonzero(cosine >= tightness)
        rows = rows[np.sort(near[np.argsort(-cosine[near], kind="stable")[:greatest]])]
        found.append(Cluster(subject, _centre(vectors[rows], rows, tightness), tuple(rows.tolist())))
        free[rows] = False
        for changed in dict.fromkeys(other for one in rows.tolist() for other in subjects_of[one]):
            version[changed] += 1
            enqueue(changed)
    return sorted(found, key=lambda cluster: cluster.centre)


def _centre(members: Vectors32, rows: Rows, tightness: float) -> int:
    cosine = cosines(members, members)
    inside = (cosine >= tightness).all(axis=1)
    return int(rows[np.where(inside, cosine.sum(axis=1), -np.inf).argmax()])


def medoid(vectors: Vectors32, substance: Floats) -> int:
    """Return the row of float32[n, d] that represents all rows best, the first of several.

    It has the largest mean cosine to the rows times the square root of its `substance`, float64[n] in [0, 1]: the share
    of its text that carries content. Without that factor, the medoid of a talk about painting is a compliment.
    """
    return int((cosines(vectors, vectors).mean(axis=1) * np.sqrt(substance)).argmax())
