"""Postings: for each number of a term, tag or entity, the slots that hold it and how often. Pure NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from salience.batch import Codes, Column, Rows

Numbers32 = NDArray[np.int32]
_SLOT_BITS: Final = 32
_SLOT: Final = (1 << _SLOT_BITS) - 1
_NONE: Final = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class _Segment:
    """Sorted occurrences.

    Attributes:
        keys: int64[k], ascending: number << 32 | slot.
        counts: how often each slot holds the number, in the smallest unsigned type that fits.
    """

    keys: Codes
    counts: Column


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """Number -> slots and counts, in sorted segments that are merged as in a log-structured merge tree."""

    segments: tuple[_Segment, ...] = ()

    def find(self, numbers: Sequence[int]) -> tuple[Rows, Rows, Column]:
        """Return every occurrence of some numbers: the place of the number among them, the slot, and how often."""
        first = np.array(numbers, np.int64)
        first <<= _SLOT_BITS
        found = [(_NONE, _NONE, _NONE)]
        for segment in self.segments:
            starts, ends = segment.keys.searchsorted((first, first + (1 << _SLOT_BITS)))
            at = runs(starts, ends - starts)
            found.append((np.arange(len(first)).repeat(ends - starts), segment.keys[at] & _SLOT, segment.counts[at]))
        which, slots, counts = map(np.concatenate, zip(*found, strict=True))
        return which, slots, counts

    def counts(self, chosen: NDArray[np.bool_]) -> Codes:
        """Return int64[n], by number how many of the slots of `chosen` hold it."""
        held = [segment.keys[chosen[segment.keys & _SLOT]] >> _SLOT_BITS for segment in self.segments]
        return np.bincount(np.concatenate((_NONE, *held)))

    def appended(self, numbers: Column, slots: Column) -> Postings:
        """Return the postings with occurrences in new slots; a repeated pair counts twice.

        Both are int[k], with a number and a slot for each occurrence.
        """
        if not len(numbers):
            return self
        keys = numbers.astype(np.int64)
        keys <<= _SLOT_BITS
        keys |= slots
        keys.sort()
        is_first = np.ones(len(keys), np.bool_)
        is_first[1:] = keys[1:] != keys[:-1]
        first = np.flatnonzero(is_first)
        counts = np.diff(first, append=len(keys))
        return self._with(_Segment(keys[first], counts.astype(np.min_scalar_type(int(counts.max())))))

    def moved(self, place: Rows) -> Postings:
        """Return the postings with slot s at `place[s]`; occurrences in slots with place -1 are dropped."""
        moved = Postings()
        for segment in self.segments:
            slots = place[segment.keys & _SLOT]
            keys, counts = (segment.keys & ~_SLOT | slots)[slots >= 0], segment.counts[slots >= 0]
            order = np.argsort(keys)
            moved = moved._with(_Segment(keys[order], counts[order]))
        return moved

    def _with(self, segment: _Segment) -> Postings:
        if not len(segment.keys):
            return self
        segments = [*self.segments, segment]
        while len(segments) > 1 and 2 * len(segments[-1].keys) > len(segments[-2].keys):
            segments[-2:] = [_merged(segments[-2], segments[-1])]
        return Postings(tuple(segments))


def _merged(older: _Segment, newer: _Segment) -> _Segment:
    """Return both segments in one; their slots are distinct, so no key is in both."""
    keys = np.concatenate((older.keys, newer.keys))
    order = np.argsort(keys, kind="stable")
    return _Segment(keys[order], np.concatenate((older.counts, newer.counts))[order])


def find(ascending: NDArray[Any], wanted: NDArray[Any]) -> tuple[Rows, NDArray[np.bool_]]:
    """Return the place of each wanted value in a sorted array, or where to insert it, and whether it is there."""
    places = np.searchsorted(ascending, wanted)
    there = places < len(ascending)
    there[there] = ascending[places[there]] == wanted[there]
    return places, there


def runs(starts: Column, lengths: Column) -> Rows:
    """Return the places of runs of `lengths` that begin at `starts`, one run after the other."""
    ends = lengths.cumsum(dtype=np.int64)
    places: Rows = (starts - ends + lengths).repeat(lengths) + np.arange(int(ends[-1]) if len(ends) else 0)
    return places
