"""How near memories of an arena are to a query or to each other. Pure NumPy."""

from __future__ import annotations

from typing import Final

import numpy as np

from salience.batch import Floats, Rows, Vectors32, cosines
from salience.ports import Near, Need
from salience.store.arena import Arena, Bools

_PRODUCTS: Final = 1 << 21
"""Dot products computed at a time where many vectors meet many rows."""


def to_query(arena: Arena, slots: Rows, need: Need) -> Floats:
    """Return float64[len(slots)], the cosines to the query, or to its voice for a memory that somebody said.

    0 where there is no query or no vector.
    """
    if need.vector is None or not len(slots):
        return np.zeros(len(slots))
    matrix, places = _vectors(arena, slots)
    found = cosines(matrix, need.vector)[places]
    if need.voice is None:
        return found
    return np.where(arena.slots["speaker"][slots] > 0, cosines(matrix, need.voice)[places], found)


def within(arena: Arena, slots: Rows, near: Near) -> Bools:
    """Return, for each of the slots, whether some cosine is above the bound; False without a vector."""
    if not len(slots) or not len(near.vectors):
        return np.zeros(len(slots), np.bool_)
    size = max(1, _PRODUCTS // len(near.vectors))
    blocks = [slots[start : start + size] for start in range(0, len(slots), size)]
    above = np.concatenate([_above(*_vectors(arena, block), near) for block in blocks])
    return above & arena.slots["has_vector"][slots]


def nearest(cosine: Floats, count: int) -> Rows:
    """Return the places of the `count` largest, the first ones where they tie; in no particular order."""
    if count >= len(cosine):
        return np.arange(len(cosine))
    if count == 0:
        return np.empty(0, np.intp)
    least = np.partition(cosine, len(cosine) - count)[len(cosine) - count]
    above = np.flatnonzero(cosine > least)
    return np.concatenate((above, np.flatnonzero(cosine == least)[: count - len(above)]))


def _vectors(arena: Arena, slots: Rows) -> tuple[Vectors32, Rows]:
    """Return a matrix with the vectors of these slots, and the place of each in it."""
    first, last = int(slots.min()), int(slots.max()) + 1
    matrix = arena.slots["vector"]
    if last - first <= 2 * len(slots):  # the matrix as it lies is cheaper than a copy of half of it
        return matrix[first:last], slots - first
    return matrix[slots], np.arange(len(slots))


def _above(matrix: Vectors32, places: Rows, near: Near) -> Bools:
    """Return whether some cosine of each place is above the bound, as `cosines` has it.

    The matrix product is fast, but rounds in its own way: a dot product of two unit vectors float32[d] is off by d/2
    machine epsilons at most, so two ways of rounding differ by d of them. Places nearer to the bound than twice that
    are left to `cosines`.
    """
    closest = (matrix @ near.vectors.T).max(axis=1)[places].astype(np.float64)
    margin = 2 * matrix.shape[1] * float(np.finfo(np.float32).eps)
    above: Bools = closest > near.above
    unsure = np.flatnonzero(np.abs(closest - near.above) <= margin)
    above[unsure] = (cosines(matrix[places[unsure]], near.vectors) > near.above).any(axis=1)
    return above
