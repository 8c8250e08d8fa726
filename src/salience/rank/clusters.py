"""Neighbourhoods of unit vectors around a subject: rows that speak of the same and lie close. Pure and deterministic.

The way is that of Daura et al. (Peptide folding, 1999): the row with the most neighbours takes them as its cluster,
they are out, the rest is counted anew. No number of clusters has to be guessed, a row near to nothing stays alone, and
what holds a cluster together can be told: one subject, and the least cosine to the middle. Neighbours have to share
a subject besides, since vectors alone put texts together by their manner: all thanks, all praise, all greetings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from salience.batch import Codes, Floats, Ragged, Rows, Vectors32, cosines
from salience.records import checks

LOOSEST: Final = 0.25
"""Least tightness. From here on, float64 adds up float32 cosines without rounding, so in whatever order."""
_BLOCK: Final = 512
"""Rows that are held against others at a time."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Some rows and what they have in common.

    Attributes:
        subject: the code that every row has.
        centre: the row that has every other within the tightness and is, of such rows, nearest to the others.
        rows: all of them, the centre too, ascending.
    """

    subject: int
    centre: int
    rows: tuple[int, ...]


def clusters(
    vectors: Vectors32, subjects: Ragged, *, tightness: float, share: float, least: int, greatest: int
) -> list[Cluster]:
    """Return the clusters among unit vectors float32[n, d], by their centres; no row is in two of them.

    The largest is found first. Ties go to the one with the nearer rows, then to the row that stands first, then to the
    smaller code: rows ordered by id, with codes in the order of their words, always give the same. Two rows have the
    same cosine wherever they stand (see `batch.cosines`), so a row of none of their subjects changes nothing. Time and
    memory grow with the rows, since no subject has more than `greatest / share` of them.

    Args:
        vectors: the rows; one of zeros is in no cluster.
        subjects: codes of what each row is about, each once.
        tightness: least cosine of a row to its centre, `LOOSEST` to 1.
        share: least share that a cluster has of all rows of its subject, 0.05 to 1. Where a word is what texts are
            about, they lie together; where they are strewn, as with "hard" and "wait", it only occurs in them.
        least: fewest rows of a cluster, from 2.
        greatest: most rows of a cluster.

    Raises:
        InputError: a number outside its range.
    """
    checks.number("tightness", tightness, LOOSEST, 1.0)
    checks.number("share", share, 0.05, 1.0)
    checks.whole("least", least, 2, greatest)
    counts = _Counts.of(vectors, _told_of(subjects, share, least, greatest), tightness)
    found: list[Cluster] = []
    while (densest := counts.densest(share, least, greatest)) is not None:
        rows = counts.around(densest, greatest)
        found.append(Cluster(int(counts.code[densest]), _centre(vectors[rows], rows, tightness), tuple(rows.tolist())))
        counts.take_out(rows)
    return sorted(found, key=lambda cluster: cluster.centre)


def _told_of(subjects: Ragged, share: float, least: int, greatest: int) -> tuple[Rows, Codes]:
    """Return (row, code) of the subjects of which some cluster can hold the share, by code, then row."""
    row, code = subjects.pairs()
    _, place, sizes = np.unique(code, return_inverse=True, return_counts=True)
    fits = ((sizes >= least) & (sizes * share <= greatest))[place]
    row, code = row[fits], code[fits]
    order = np.lexsort((row, code))
    return row[order], code[order]


@dataclass(frozen=True, slots=True, eq=False)
class _Counts:
    """How many neighbours each row has under each of its subjects; counted down in place as rows are taken out.

    Attributes:
        row, code: of each pair of a row and one of its subjects; those of a code stand together, rows ascending.
        size: how many rows have that subject, those that are taken out too.
        count: how many rows of that subject lie within the tightness, the row itself too; 0 once it is taken out.
        nearness: the sum of their cosines.
        of_code: code -> the places of its pairs.
        of_row: row -> its codes that have pairs.
    """

    vectors: Vectors32
    tightness: float
    row: Rows
    code: Codes
    size: Codes
    count: Codes
    nearness: Floats
    of_code: dict[int, slice]
    of_row: dict[int, list[int]]

    @classmethod
    def of(cls, vectors: Vectors32, pairs: tuple[Rows, Codes], tightness: float) -> Self:
        """Return the counts among all rows of each subject."""
        row, code = pairs
        codes, starts, sizes = np.unique(code, return_index=True, return_counts=True)
        of_code = {
            one: slice(start, start + size)
            for one, start, size in zip(codes.tolist(), starts.tolist(), sizes.tolist(), strict=True)
        }
        of_row: dict[int, list[int]] = {}
        for one, its in zip(row.tolist(), code.tolist(), strict=True):
            of_row.setdefault(one, []).append(its)
        blank = np.zeros(len(row), np.int64), np.zeros(len(row))
        made = cls(vectors, tightness, row, code, np.repeat(sizes, sizes), *blank, of_code, of_row)
        for places in of_code.values():
            made._count(places, row[places], 1)
        return made

    def densest(self, share: float, least: int, greatest: int) -> int | None:
        """Return the pair with the most neighbours; of several, with the nearest ones; None where none has enough."""
        held = np.minimum(self.count, greatest)
        enough = np.flatnonzero((held >= least) & (held >= share * self.size))
        if not len(enough):
            return None
        order = np.lexsort((self.code[enough], self.row[enough], -self.nearness[enough], -self.count[enough]))
        return int(enough[order[0]])

    def around(self, pair: int, greatest: int) -> Rows:
        """Return the rows of the pair's subject within the tightness of its row, the nearest `greatest`, ascending."""
        places = self.of_code[int(self.code[pair])]
        rows = self.row[places][self.count[places] > 0]
        cosine = cosines(self.vectors[rows], self.vectors[self.row[pair]])
        cosine[rows == self.row[pair]] = np.inf  # its twins have the cosine that it has to itself
        near = np.flatnonzero(cosine >= self.tightness)
        return rows[np.sort(near[np.argsort(-cosine[near], kind="stable")[:greatest]])]

    def take_out(self, rows: Rows) -> None:
        """Take rows out of the counts of their neighbours, and out of all later clusters."""
        leaving: dict[int, list[int]] = {}
        for row in rows.tolist():
            for code in self.of_row[row]:
                leaving.setdefault(code, []).append(row)
        for code, gone in leaving.items():
            places = self.of_code[code]
            self._count(places, np.array(gone, np.intp), -1)
            self.count[places][np.isin(self.row[places], gone)] = 0

    def _count(self, places: slice, others: Rows, sign: int) -> None:
        """Add what rows have of neighbours among `others` to their counts, or take it away."""
        for start in range(0, len(others), _BLOCK):
            cosine = cosines(self.vectors[self.row[places]], self.vectors[others[start : start + _BLOCK]])
            near: NDArray[np.bool_] = cosine >= self.tightness
            self.count[places] += sign * near.sum(axis=1)
            self.nearness[places] += sign * np.where(near, cosine, 0.0).sum(axis=1)


def _centre(members: Vectors32, rows: Rows, tightness: float) -> int:
    cosine = cosines(members, members)
    inside = (cosine >= tightness).all(axis=1)
    return int(rows[np.where(inside, cosine.sum(axis=1), -np.inf).argmax()])


def medoid(vectors: Vectors32, substance: Floats) -> int:
    """Return the row of float32[n, d] that speaks for all of them best, the first of several.

    It is the one with the greatest mean cosine to the rows, times the square root of its `substance`, float64[n] of
    0 to 1: how much of its text says something. Without that, what lies in the middle of a talk on painting is the
    praise of a painting.
    """
    return int((cosines(vectors, vectors).mean(axis=1) * np.sqrt(substance)).argmax())
