"""How near memories of a view are to a query, or to other memories. Pure NumPy."""

from __future__ import annotations

from typing import Final

import numpy as np

from salience.batch import NEAREST, Column, Floats, Rows, Vectors32, cosines
from salience.ports import Near, Need
from salience.store.kernels import dots, is_quick
from salience.store.loops import Floats32, Int8
from salience.store.quantised import ROUNDING, off_by, quantised
from salience.store.roster import Bools
from salience.store.view import Places, View

_PRODUCTS: Final = 1 << 21
"""Dot products computed at a time where many vectors meet many memories."""
_FEW: Final = 8
"""So many vectors are few, and a part so many times smaller than the whole is small."""


def to_query(view: View, places: Places, need: Need) -> Floats:
    """Return float64[len(places)], the cosines to the query, or to its voice for a memory that somebody said.

    0 where there is no query or no vector.
    """
    if need.vector is None or not len(places):
        return np.zeros(len(places))
    matrix, lines = _lying(view.arena.slots["vector"], view.slots[places])
    found = cosines(matrix, need.vector)[lines]
    if need.voice is None:
        return found
    return np.where(view.speaker[places] > 0, cosines(matrix, need.voice)[lines], found)


def in_context(view: View, places: Places, need: Need) -> tuple[Floats, Floats]:
    """Return float64[len(places)] twice: the cosine of each, and the mean of it and of its `NEAREST` neighbours.

    The mean is over those with a vector, 0 where none has.
    """
    around = view.around[places, : 2 * NEAREST]
    there = around >= 0
    own, beside = _measured(view, places, around[there], need)
    values, held = np.zeros(around.shape), there.copy()
    values[there] = beside
    if view.embedded is None:
        count = 1 + held.sum(axis=1)
    else:
        held[there] = view.embedded[around[there]]
        count = view.embedded[places] + held.sum(axis=1)
    total = own + values[:, 0]  # from the nearest on: so it is the same sum
    for column in values.T[1:]:
        total += column
    return own, total / np.maximum(count, 1)


def _measured(view: View, places: Places, beside: Places, need: Need) -> tuple[Floats, Floats]:
    """Return the cosines of memories at some places, and of those at others; of many, each is worked out once."""
    if len(places) * _FEW <= len(view):
        found = to_query(view, np.concatenate((places, beside)), need)
        return found[: len(places)], found[len(places) :]
    mark = np.zeros(len(view), np.bool_)
    mark[places] = mark[beside] = True
    needed, values = np.flatnonzero(mark), np.zeros(len(view))
    values[needed] = to_query(view, needed, need)
    return values[places], values[beside]


def approximate(view: View, query: Vectors32, places: Places | slice) -> tuple[Floats32, float]:
    """Return about the cosine of the memories at some places to a query, float32 each, and how far it is off at most.

    Without a library that is quick with quantised vectors they are exact, but for the rounding.
    """
    stored, slots = view.arena.slots, view.slots[places]
    if not (len(slots) and view.arena.is_quantised and is_quick()):
        matrix, lines = _lying(stored["vector"], slots)
        return cosines(matrix, query)[lines].astype(np.float32), ROUNDING
    numbers, step, error = quantised(query)
    return _by_kernel(view, places, slots, numbers, step), off_by(view.arena.error, error)


def _by_kernel(view: View, places: Places | slice, slots: Rows, query: Int8, step: float) -> Floats32:
    """Return the inner products of quantised vectors with a query, in their own steps, by a library."""
    kernel = dots()
    assert kernel is not None  # noqa: S101 - `is_quick` was asked
    matrix, lines = _lying(view.arena.slots["quantised"], slots, ascends=isinstance(places, slice))
    about: Floats32 = kernel(matrix, query)[lines] * view.step_size[places]
    about *= np.float32(step)
    return about


def within(view: View, places: Places, near: Near) -> Bools:
    """Return, for each place, whether some cosine is above the bound; False without a vector."""
    if not len(places) or not len(near.vectors):
        return np.zeros(len(places), np.bool_)
    if len(near.vectors) <= _FEW and view.arena.is_quantised:
        return _within_reach(view, places, near)
    size = max(1, _PRODUCTS // len(near.vectors))
    blocks = [places[start : start + size] for start in range(0, len(places), size)]
    above = np.concatenate([_above(view, block, near) for block in blocks])
    return above if view.embedded is None else above & view.embedded[places]


def _within_reach(view: View, places: Places, near: Near) -> Bools:
    """Return the same for few vectors: those that the quantised ones do not rule out are looked at whole."""
    found = np.zeros(len(places), np.bool_)
    for vector in near.vectors:
        about, off = approximate(view, vector, places)
        maybe = np.flatnonzero((about > near.above - off) & ~found)
        if view.embedded is not None:
            maybe = maybe[view.embedded[places[maybe]]]
        if len(maybe):
            matrix, lines = _lying(view.arena.slots["vector"], view.slots[places[maybe]])
            found[maybe] = cosines(matrix, vector)[lines] > near.above
    return found


def nearest(cosine: Floats, count: int) -> Rows:
    """Return the places of the `count` largest, the first ones where they tie; in no particular order."""
    if count >= len(cosine):
        return np.arange(len(cosine))
    if count == 0:
        return np.empty(0, np.intp)
    least = np.partition(cosine, len(cosine) - count)[len(cosine) - count]
    above = np.flatnonzero(cosine > least)
    return np.concatenate((above, np.flatnonzero(cosine == least)[: count - len(above)]))


def _lying(matrix: Column, slots: Rows, *, ascends: bool = False) -> tuple[Column, Rows | slice]:
    """Return rows of a matrix that hold those of some slots (known to ascend, or not), and where each is among them."""
    if not len(slots):
        return matrix[:0], slice(None)
    first, last = int(slots.min()), int(slots.max()) + 1
    if last - first > 2 * len(slots):  # the matrix as it lies is cheaper than a copy of half of it
        return matrix[slots], slice(None)
    in_a_row = last - first == len(slots) and (ascends or bool((slots[1:] > slots[:-1]).all()))
    return matrix[first:last], slice(None) if in_a_row else slots - first


def _above(view: View, places: Places, near: Near) -> Bools:
    """Return whether some cosine of each place is above the bound, as `cosines` has it.

    The matrix product is fast, but rounds in its own way: a dot product of two unit vectors float32[d] is off by d/2
    machine epsilons at most, so two ways of rounding differ by d of them. Places nearer to the bound than twice that
    are left to `cosines`.
    """
    matrix, lines = _lying(view.arena.slots["vector"], view.slots[places])
    closest = (matrix @ near.vectors.T).max(axis=1)[lines].astype(np.float64)
    margin = 2 * matrix.shape[1] * float(np.finfo(np.float32).eps)
    above: Bools = closest > near.above
    unsure = np.flatnonzero(np.abs(closest - near.above) <= margin)
    above[unsure] = (cosines(matrix[lines][unsure], near.vectors) > near.above).any(axis=1)
    return above
