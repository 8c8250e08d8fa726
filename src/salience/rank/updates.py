"""Which memories tell of the same thing as an older one, and what holds since then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from salience.batch import KINDS, Batch, Floats, Lexicon, Ragged, Rows, Vectors, Vectors32, cosines
from salience.ports import EDGE, Calibration
from salience.rank.fuse import inverse_document_frequency
from salience.rank.state import Mask

VALUES: Final = ("number", "date", "name")
"""Kinds of distinctions that are values: what is told of a thing, and may be another at another time."""
_PLACES: Final = tuple(KINDS.index(kind) for kind in VALUES)


@dataclass(frozen=True, slots=True)
class Likeness:
    """When two memories are of the same thing; all in [0, 1].

    Attributes:
        alike: relatedness from which texts with another value are of the same thing.
        same: relatedness from which texts say the same.
        terms: share of the query's terms that both must hold.
        kept: how much of what the older one holds of the query, by what its terms tell, the newer one must hold too.
    """

    alike: float
    same: float
    terms: float
    kept: float


def updates(batch: Batch, rows: Rows, calibration: Calibration | None, likeness: Likeness) -> Mask:
    """Return bool[n, n]: whether the row of the first place tells later of what the row of the second place tells.

    Both are by one speaker (or by none). Either their texts say the same, and neither gives a value that the other does
    not; or they are alike, give another value each, and answer the query with the same of its words.

    Args:
        batch: brings vectors, the lexicon and distinctions.
        rows: those to compare.
        calibration: from cosine to relatedness; None leaves cosines as they are.
        likeness: when two memories are of the same thing.
    """
    found = np.zeros((len(rows), len(rows)), np.bool_)
    if batch.vectors is None or batch.distinctions is None:
        return found
    one, other = _later(batch, batch.distinctions, rows).nonzero()
    if not len(one):
        return found
    related = cosines_of(batch.vectors, rows, one, other).clip(0.0, 1.0)
    if calibration is not None:
        related = calibration.related(related)
    again, changed = related >= likeness.same - EDGE, related >= likeness.alike - EDGE
    if changed.any():
        changed[changed] = answers_alike(batch.lexicon, rows[one[changed]], rows[other[changed]], likeness)
    for pair in (again | changed).nonzero()[0].tolist():
        values = (_values(batch.distinctions.of_row(int(rows[place]))) for place in (one[pair], other[pair]))
        found[one[pair], other[pair]] = (changed if _differ(*values) else again)[pair]
    return found


def cosines_of(vectors: Vectors, rows: Rows, one: Rows, other: Rows) -> Floats:
    """Return the cosines of pairs of rows, each by its places in `rows`: of these alone, unless they are most pairs."""
    if len(one) <= len(rows):
        dots: Vectors32 = np.vecdot(vectors.at(rows[one]), vectors.at(rows[other]))
        return dots.astype(np.float64).clip(-1.0, 1.0)
    matrix = vectors.at(rows)
    return cosines(matrix, matrix)[one, other]


def _later(batch: Batch, told: Ragged, rows: Rows) -> Mask:
    """Return bool[n, n]: whether one speaker told the first later than the second, and both are told from others."""
    moments, speakers = batch["created_at"][rows], batch["speaker"][rows]
    known = told.offsets[rows + 1] > told.offsets[rows]
    later: Mask = (moments[:, None] > moments) & (speakers[:, None] == speakers) & known & known[:, None]
    return later


def answers_alike(lexicon: Lexicon | None, rows: Rows, others: Rows, likeness: Likeness) -> Mask:
    """Return bool[n], whether each row answers the query with the words of the one in its place among `others`.

    Words count by their inverse document frequency where one text is held against the other, so that a rare one, such
    as the code that is asked for, is not lost; and alike where they are held against the query, of which a small store
    may know little.
    """
    if lexicon is None or not lexicon.postings:
        return np.zeros(len(rows), np.bool_)
    held = np.zeros((len(lexicon.length), len(lexicon.postings)))
    for term, posting in enumerate(lexicon.postings):
        held[posting.rows, term] = 1.0
    idf, newer, older = inverse_document_frequency(lexicon), held[rows], held[others]
    both = newer * older
    enough = both.sum(axis=1) >= likeness.terms * len(idf) - EDGE
    keeps = both @ idf >= likeness.kept * (older @ idf) - EDGE
    found: Mask = enough & keeps & older.any(axis=1) & newer.any(axis=1)
    return found


def _values(codes: Sequence[int]) -> tuple[frozenset[int], ...]:
    """Return the values of each kind of `VALUES` among the codes of distinctions."""
    return tuple(frozenset(code for code in codes if code % len(KINDS) == place) for place in _PLACES)


def _differ(one: Sequence[frozenset[int]], other: Sequence[frozenset[int]]) -> bool:
    """Return whether either gives a value, of one kind, that the other does not."""
    return any(mine - yours and yours - mine for mine, yours in zip(one, other, strict=True))
