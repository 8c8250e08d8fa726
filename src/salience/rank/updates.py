"""Updates: pairs of memories in which the newer one states the current value of the same thing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from salience.batch import KINDS, Batch, Lexicon, Ragged, Rows
from salience.ports import EDGE, Calibration, Need
from salience.rank.signals import inverse_document_frequency

Mask = NDArray[np.bool_]
VALUES: Final = ("number", "date", "name")
"""Kinds of distinctions that are values of a thing, which can change over time."""
NAMES: Final = VALUES.index("name")
_PLACES: Final = tuple(KINDS.index(kind) for kind in VALUES)


@dataclass(frozen=True, slots=True)
class Likeness:
    """Thresholds for two memories about the same thing, all in [0, 1].

    Attributes:
        alike: least relatedness of texts about the same thing with different values.
        same: least relatedness of texts that say the same.
        terms: share of the query's terms that both must contain.
        kept: share of the older text's query terms, weighted by IDF, that the newer one must contain too.
    """

    alike: float
    same: float
    terms: float
    kept: float


def updates(batch: Batch, rows: Rows, calibration: Calibration | None, likeness: Likeness) -> Mask:
    """Return bool[n, n]: whether the first row updates the second.

    Both rows have the same speaker, or none, and the first is newer. Either their texts say the same with the same
    values, or they are alike, have different values, and contain the same terms of the query.

    Args:
        batch: the candidates with vectors, lexicon and distinctions.
        rows: the rows to compare.
        calibration: maps cosines to relatedness; None uses cosines.
        likeness: the thresholds.
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


def _later(batch: Batch, distinctions: Ragged, rows: Rows) -> Mask:
    """Return bool[n, n]: whether the first row is newer, by the same speaker, and both rows have distinctions."""
    moments, speakers = batch["created_at"][rows], batch["speaker"][rows]
    known = distinctions.offsets[rows + 1] > distinctions.offsets[rows]
    later: Mask = (moments[:, None] > moments) & (speakers[:, None] == speakers) & known & known[:, None]
    return later


def answers_alike(lexicon: Lexicon | None, rows: Rows, likeness: Likeness) -> Mask:
    """Return bool[n, n]: whether the first row contains the query terms of the second.

    Between the two texts, terms are weighted by IDF, so that a rare term such as a code is not lost. Against the query
    all terms weigh the same, since a small store may know few of them.
    """
    if lexicon is None or not len(lexicon.postings):
        return np.zeros((len(rows), len(rows)), np.bool_)
    count, postings = len(lexicon.postings), lexicon.postings
    whole = np.zeros((len(lexicon.length), count))
    whole[postings.rows, np.arange(count).repeat(postings.lengths)] = 1.0
    held = whole[rows]
    weighted = held * inverse_document_frequency(lexicon)
    enough = held @ held.T >= likeness.terms * count - EDGE
    total = weighted.sum(axis=1)
    keeps = held @ weighted.T >= likeness.kept * total - EDGE
    found: Mask = enough & keeps & (total > 0) & (total[:, None] > 0)
    return found


def about_another(need: Need, batch: Batch, rows: Rows) -> Mask:
    """Return bool[n, n]: whether the query names something in the first row, and the second row is about another thing.

    That is so if the second row lacks a figure of the query that the first one has: what is said of server 8 is no
    update for a question about server 7. It is also so if the second row has as many names as the first one, but none
    of the query's names that the first one has: "Sven collects stamps" does not update "Fay collects stamps".
    """
    figures = [term for term in need.specifics if any(map(str.isdigit, term))]
    names = [term for term in need.specifics if term not in figures]
    found = np.zeros((len(rows), len(rows)), np.bool_)
    if figures:
        held = _contains(need, batch, rows, figures)
        found |= (held[:, None] & ~held).any(axis=2)
    if names and batch.distinctions is not None:
        held = _contains(need, batch, rows, names)
        counts = np.array([len(_values(batch.distinctions.of_row(int(row)))[NAMES]) for row in rows])
        found |= (held.sum(axis=1) > 0)[:, None] & (held @ held.T == 0) & (counts[:, None] == counts)
    return found


def _contains(need: Need, batch: Batch, rows: Rows, terms: Sequence[str]) -> Mask:
    """Return bool[n, t]: whether each row contains each of these terms of the query."""
    held = np.zeros((len(rows), len(terms)), np.bool_)
    if batch.lexicon is not None:
        for place, term in enumerate(terms):
            held[:, place] = np.isin(rows, batch.lexicon.postings.of_term(need.terms.index(term))[0])
    return held


def _values(codes: Sequence[int]) -> tuple[frozenset[int], ...]:
    """Return the values among codes of distinctions, one set per kind of `VALUES`."""
    return tuple(frozenset(code for code in codes if code % len(KINDS) == place) for place in _PLACES)


def _differ(one: Sequence[frozenset[int]], other: Sequence[frozenset[int]]) -> bool:
    """Return whether each side has a value of the same kind that the other lacks."""
    return any(mine - yours and yours - mine for mine, yours in zip(one, other, strict=True))
