"""Which memories tell of the same thing as an older one, and what holds since then."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from salience.batch import KINDS, Batch, Lexicon, Rows, cosines
from salience.ports import EDGE, Calibration
from salience.rank.fuse import inverse_document_frequency
from salience.rank.state import Mask

VALUES: Final = ("number", "date", "name")
"""Kinds of distinctions that are values: what is told of a thing, and may be another at another time."""


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
    if batch.vectors is None:
        return np.zeros((len(rows), len(rows)), np.bool_)
    moments, speakers = batch["created_at"][rows], batch["speaker"][rows]
    later = (moments[:, None] > moments) & (speakers[:, None] == speakers)
    vectors = batch.vectors.at(rows)
    related = np.clip(cosines(vectors, vectors), 0.0, 1.0)
    if calibration is not None:
        related = np.interp(related, calibration.cosine, calibration.relatedness)
    again = later & (related >= likeness.same - EDGE)
    changed = later & (related >= likeness.alike - EDGE) & answers_alike(batch.lexicon, rows, likeness)
    told = _told(batch, rows)
    others = _other_values(batch, rows, again | changed)
    found: Mask = (again & ~others | changed & others) & told & told[:, None]
    return found


def answers_alike(lexicon: Lexicon | None, rows: Rows, likeness: Likeness) -> Mask:
    """Return bool[n, n], whether the row of the first place answers the query with the words of that of the second.

    Words count by their inverse document frequency where one text is held against the other, so that a rare one, such
    as the code that is asked for, is not lost; and alike where they are held against the query, of which a small store
    may know little.
    """
    if lexicon is None or not lexicon.postings:
        return np.zeros((len(rows), len(rows)), np.bool_)
    held = np.zeros((len(lexicon.length), len(lexicon.postings)))
    for term, posting in enumerate(lexicon.postings):
        held[posting.rows, term] = 1.0
    held, idf = held[rows], inverse_document_frequency(lexicon)
    enough = held @ held.T >= likeness.terms * len(idf) - EDGE
    keeps = held @ (held * idf).T >= likeness.kept * (held @ idf) - EDGE
    some = held.sum(axis=1) > 0
    found: Mask = enough & keeps & some & some[:, None]
    return found


def _told(batch: Batch, rows: Rows) -> Mask:
    """Return bool[n], of which rows it is known what tells them from others."""
    if batch.distinctions is None:
        return np.zeros(len(rows), np.bool_)
    return np.array([len(batch.distinctions.of_row(row)) > 0 for row in rows.tolist()], np.bool_)


def _other_values(batch: Batch, rows: Rows, asked: Mask) -> Mask:
    """Return bool[n, n], where `asked`, whether two rows give another value each."""
    if batch.distinctions is None:
        return np.zeros_like(asked)
    values = [_values(batch.distinctions.of_row(row)) for row in rows.tolist()]
    found = np.zeros_like(asked)
    for one, other in np.argwhere(asked).tolist():
        found[one, other] = _differ(values[one], values[other])
    return found


def _values(codes: Iterable[int]) -> tuple[frozenset[int], ...]:
    """Return the values of each kind of `VALUES` among the codes of distinctions."""
    held = list(codes)
    return tuple(frozenset(code for code in held if code % len(KINDS) == KINDS.index(kind)) for kind in VALUES)


def _differ(one: Sequence[frozenset[int]], other: Sequence[frozenset[int]]) -> bool:
    """Return whether either gives a value, of one kind, that the other does not."""
    return any(mine - yours and yours - mine for mine, yours in zip(one, other, strict=True))
