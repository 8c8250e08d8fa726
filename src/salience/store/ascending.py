"""Arrays of ascending numbers. Pure NumPy."""

from __future__ import annotations

import numpy as np

from salience.batch import Column, Rows


def distinct(*columns: Column) -> Rows:
    """Return the distinct numbers in some columns, ascending, without -1."""
    found = np.concatenate(columns)
    found.sort()
    first = np.empty(len(found), np.bool_)
    first[:1] = True
    np.not_equal(found[1:], found[:-1], out=first[1:])
    found = found[first]
    return found[1:] if len(found) and found[0] < 0 else found


def position(ascending: Column, wanted: Column) -> Rows:
    """Return where each of some numbers stands in an array of ascending ones; -1 for those that it has not."""
    if not len(ascending):
        return np.full(len(wanted), -1, np.intp)
    found = np.searchsorted(ascending, wanted.astype(ascending.dtype, copy=False))
    found[found == len(ascending)] = 0
    found[ascending[found] != wanted] = -1
    return found
