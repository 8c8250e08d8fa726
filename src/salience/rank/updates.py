"""Which memories tell of the same thing as an older one, and what holds since then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from salience.batch import KINDS, Batch, Lexicon, Ragged, Rows, upto
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
    related = np.minimum(np.maximum(batch.vectors.cosines(rows, rows), 0.0), 1.0)
    if calibration is not None:
        related = calibration.related(related)
    alike = (related >= min(likeness.same, likeness.alike) - EDGE) & _later(batch, batch.distinctions, rows)
    if not alike.any():
        return found
    again, changed = alike & (related >= likeness.same - EDGE), alike & (related >= likeness.alike - EDGE)
    changed &= answers_alike(batch.lexicon, rows, likeness)
    for one, other in np.argwhere(again | changed).tolist():
        values = (_values(batch.distinctions.of_row(int(rows[place]))) for place in (one, other))
        found[one, other] = (changed if _differ(*values) else again)[one, other]
    return found


def _later(batch: Batch, told: Ragged, rows: Rows) -> Mask:
    """Return bool[n, n]: whether one speaker told the first later than the second, and both are told from others."""
    moments, speakers = batch["created_at"][rows], batch["speaker"][rows]
    known = told.offsets[rows + 1] > told.offsets[rows]
    later: Mask = (moments[:, None] > moments) & (speakers[:, None] == speakers) & known & known[:, None]
    return later


def answers_alike(lexicon: Lexicon | None, rows: Rows, likeness: Likeness) -> Mask:
    """Return bool[n, n], whether the row of the first place answers the query with the words of that of the second.

    Words count by their inverse document frequency where one text is held against the other, so that a rare one, such
    as the code that is asked for, is not lost; and alike where they are held against the query, of which a small store
    may know little.
    """
    if lexicon is None or not len(lexicon.postings):
        return np.zeros((len(rows), len(rows)), np.bool_)
    count, postings = len(lexicon.postings), lexicon.postings
    whole = np.zeros((len(lexicon.length), count))
    whole[postings.rows, upto(count).repeat(postings.lengths)] = 1.0
    held = whole[rows]
    told = held * inverse_document_frequency(lexicon)
    enough = held @ held.T >= likeness.terms * count - EDGE
    tells = told.sum(axis=1)
    keeps = held @ told.T >= likeness.kept * tells - EDGE
    found: Mask = enough & keeps & (tells > 0) & (tells[:, None] > 0)
    return found


def _values(codes: Sequence[int]) -> tuple[frozenset[int], ...]:
    """Return the values of each kind of `VALUES` among the codes of distinctions."""
    return tuple(frozenset(code for code in codes if code % len(KINDS) == place) for place in _PLACES)


def _differ(one: Sequence[frozenset[int]], other: Sequence[frozenset[int]]) -> bool:
    """Return whether either gives a value, of one kind, that the other does not."""
    return any(mine - yours and yours - mine for mine, yours in zip(one, other, strict=True))
