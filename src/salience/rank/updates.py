"""Which memories tell of the same thing as an older one, and what holds since then."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from salience.batch import KINDS, Batch, Floats, Lexicon, Rows, cosines
from salience.ports import EDGE, Calibration
from salience.rank.fuse import inverse_document_frequency
from salience.rank.state import Mask

VALUES: Final = ("number", "date", "name")
"""Kinds of distinctions that are values: what is told of a thing, and may be another at another time."""


def updates(batch: Batch, rows: Rows, calibration: Calibration | None, alike: float, same: float, terms: float) -> Mask:
    """Return bool[n, n]: whether the row of the first place tells later of what the row of the second place tells.

    Both are by one speaker (or by none). Either their texts say the same, whatever the query; or they are alike, give
    another value each, and answer the query with the same of its words.

    Args:
        batch: brings vectors, the lexicon and distinctions.
        rows: those to compare.
        calibration: from cosine to relatedness; None leaves cosines as they are.
        alike: relatedness from which texts with another value are of the same thing, [0, 1].
        same: relatedness from which texts say the same, [0, 1].
        terms: how much of the words of the query that either holds both must hold, by what the words tell; [0, 1].
    """
    if batch.vectors is None:
        return np.zeros((len(rows), len(rows)), np.bool_)
    moments, speakers = batch["created_at"][rows], batch["speaker"][rows]
    later = (moments[:, None] > moments) & (speakers[:, None] == speakers)
    vectors = batch.vectors.at(rows)
    related = np.clip(cosines(vectors, vectors), 0.0, 1.0)
    if calibration is not None:
        related = np.interp(related, calibration.cosine, calibration.relatedness)
    of_query = shared_terms(batch.lexicon, rows) >= terms
    likely = later & (related >= alike - EDGE) & of_query
    found: Mask = later & (related >= same - EDGE) | likely & _other_values(batch, rows, likely)
    return found


def shared_terms(lexicon: Lexicon | None, rows: Rows) -> Floats:
    """Return float64[n, n], the share of the query's terms in either of two rows that is in both; 0 without terms.

    Terms count by their inverse document frequency (weighted Jaccard index).
    """
    if lexicon is None:
        return np.zeros((len(rows), len(rows)))
    held = np.zeros((len(lexicon.length), len(lexicon.postings)))
    for term, posting in enumerate(lexicon.postings):
        held[posting.rows, term] = 1.0
    telling = held[rows] * inverse_document_frequency(lexicon)
    both, own = telling @ held[rows].T, telling.sum(axis=1)
    either = own[:, None] + own - both
    share: Floats = np.divide(both, either, out=np.zeros_like(both), where=either > 0)
    return share


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
