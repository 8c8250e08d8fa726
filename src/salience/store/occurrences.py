"""Where the terms of a query stand in the memories of a view, and in their windows. Pure NumPy."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np

from salience.batch import OWN, Codes, Column, Floats
from salience.store.ascending import position
from salience.store.loops import Floats32, Numbers32

ADDED: Final = 64
"""So many memories that were added after others are looked at for what they changed."""
_FEW: Final = 8
"""A part of the whole so small is sorted, and not counted in an array of all."""


@dataclass(frozen=True, slots=True, eq=False)
class Occurrences:
    """Where a term stands.

    Attributes:
        places: int32[h], ascending: the memories whose windows hold it.
        own: float32[h], how often the text of each does; 0 for one that it only stands beside.
        windows: float32[h], how often the window of each does, >= 1; its own text counts `OWN` times.
        texts: how many texts hold it.
        count: among how many memories: the first ones of a view.
    """

    places: Numbers32
    own: Floats32
    windows: Floats32
    texts: int
    count: int
    _impacts: dict[tuple[bool, float, float], Floats32] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.places)

    def frequency(self, is_window: bool) -> Floats32:
        """Return how often it stands in each window, or text."""
        return self.windows if is_window else self.own

    def telling(self, documents: int, is_window: bool) -> float:
        """Return how telling the term is among so many memories: its inverse document frequency, as `rank` has it."""
        held = len(self.places) if is_window else self.texts
        return math.log1p((documents - held + 0.5) / (held + 0.5))

    def impact(self, is_window: bool, k1: float, b: float, length: Floats, average: float) -> Floats32:
        """Return float32[h], what BM25 makes of each occurrence but for the term's weight, [0, 1].

        Args:
            is_window: whether it is that in the windows, or in the texts.
            k1: as of `rank.signals.bm25`.
            b: likewise.
            length: float64[m], of all windows or texts of the view; the same at each call.
            average: their mean.
        """
        found = self._impacts.get((is_window, k1, b))
        if found is None:
            found = _impact(self.frequency(is_window), self.places, length, k1, b, max(average, 1.0))
            self._impacts[is_window, k1, b] = found
        return found

    def followed(self, changed: Column, around: Column, places: Column, counts: Column, count: int) -> Occurrences:
        """Return where it stands once memories were added after all others, `count` with them.

        Args:
            changed: int[a], ascending: the added ones, and those whose windows are others now.
            around: int[a, w], the places of the memories in the windows of these; -1 for none.
            places: of the added memories whose texts hold the term.
            counts: how often each does.
            count: as above.
        """
        own = self._own(changed, places, counts)
        windows = OWN * own + self._own(around.ravel(), places, counts).reshape(around.shape).sum(axis=1)
        held = windows > 0
        stay = np.isin(self.places, changed, invert=True) if self._meets(changed) else slice(None)
        at = self.places[stay].searchsorted(changed[held])
        return Occurrences(
            np.insert(self.places[stay], at, changed[held]),
            np.insert(self.own[stay], at, own[held]),
            np.insert(self.windows[stay], at, windows[held]),
            self.texts + len(places),
            count,
        )

    def _meets(self, places: Column) -> bool:
        """Return whether it stands in a window of one of some places."""
        return bool((position(self.places, places) >= 0).any())

    def _own(self, wanted: Column, places: Column, counts: Column) -> Floats32:
        """Return how often the text of each of some memories holds it, some `places` being new; -1 is none."""
        at = position(self.places, wanted)
        own = np.where(at >= 0, self.own[at], np.float32(0)) if len(self.own) else np.zeros(len(wanted), np.float32)
        for place, found in zip(places.tolist(), counts.tolist(), strict=True):
            own[wanted == place] = found
        return own


def _impact(frequency: Floats32, places: Numbers32, length: Floats, k1: float, b: float, average: float) -> Floats32:
    pace = (k1 * (1 - b + b * length[places] / average)).astype(np.float32)
    impact: Floats32 = np.divide(frequency, frequency + pace, out=np.zeros_like(frequency), where=frequency > 0)
    return impact


Make = Callable[[Sequence[int]], Sequence[Occurrences]]
"""Returns where terms stand, by their numbers."""
Follow = Callable[[Mapping[int, Occurrences]], Mapping[int, Occurrences]]
"""Returns the same of terms of which it is known where they stood among the first memories."""


class Kept(dict[int, Occurrences]):
    """Terms by their number, those that were asked for last, with no more occurrences in all than may be kept.

    A view that goes on from another one has the same; what was kept by the one is brought up to date by the other.
    """

    def __init__(self) -> None:
        super().__init__()
        self._size = 0
        self._counting = threading.Lock()

    def of(self, numbers: Sequence[int], count: int, make: Make, follow: Follow, most: int) -> tuple[Occurrences, ...]:
        """Return the terms of some numbers; those that were asked for the longest time ago give way.

        Args:
            numbers: of the terms.
            count: how many memories the view has.
            make: for those that are not kept.
            follow: for those that are kept of a view to which memories were added since.
            most: occurrences that may be kept.
        """
        held = {number: self.get(number) for number in numbers}
        asked = {number: one for number, one in held.items() if one is not None and 0 <= count - one.count <= ADDED}
        late = {number: one for number, one in asked.items() if one.count < count}
        asked.update(follow(late) if late else {})
        missing = [number for number in held if number not in asked]
        asked.update(zip(missing, make(missing), strict=True) if missing else ())
        with self._counting:
            self._keep(asked, most)
        return tuple(asked[number] for number in numbers)

    def _keep(self, asked: Mapping[int, Occurrences], most: int) -> None:
        for number, one in asked.items():
            self._size += len(one) - len(self.pop(number, ()))
            self[number] = one  # at the end: it was asked for last
        while self._size > most and len(self) > len(asked):
            self._size -= len(self.pop(next(iter(self))))


def occurrences(lengths: Sequence[int], places: Column, counts: Column, around: Column) -> list[Occurrences]:
    """Return where each of some terms stands.

    Args:
        lengths: in how many texts each of them is looked for.
        places: int[h], the places of the memories with these texts, term by term; -1 for one that is not seen.
        counts: int[h], how often the term stands in the text.
        around: int[m, w], the places of the memories in the window of each memory; -1 for none.
    """
    return _occurrences(lengths, places, counts, around)


def _parts(
    places: Numbers32, own: Floats32, windows: Floats32, ends: Sequence[int], texts: Sequence[int], count: int
) -> list[Occurrences]:
    """Return the occurrences of terms that stand one after the other; copied, so that none keeps the others."""
    return [
        Occurrences(places[first:last].copy(), own[first:last].copy(), windows[first:last].copy(), held, count)
        for (first, last), held in zip(pairwise([0, *ends]), texts, strict=True)
    ]


def _occurrences(lengths: Sequence[int], places: Column, counts: Column, around: Column) -> list[Occurrences]:
    """Return the same, all in one go, since a few large steps are quicker than many small ones."""
    seen = places >= 0
    term = np.repeat(np.arange(len(lengths)), lengths)[seen]
    firsts = np.arange(len(lengths) + 1) * len(around)  # a term and a place in one number, its key
    places, base, own = places[seen], firsts[term], counts[seen].astype(np.float32)
    beside = around[places].ravel()
    there = np.flatnonzero(beside >= 0)
    of_each = there // around.shape[1]
    keys = np.concatenate((places + base, beside[there] + base[of_each]))
    found, windows = _summed(keys, np.concatenate((OWN * own, own[of_each])), int(firsts[-1]))
    texts = _at(found, keys[: len(places)], own, int(firsts[-1]))
    ends = np.searchsorted(found, firsts)
    found -= np.repeat(firsts[:-1], np.diff(ends))
    held = np.bincount(term, minlength=len(lengths)).tolist()
    return _parts(found.astype(np.int32), texts, windows, ends[1:].tolist(), held, len(around))


def _summed(keys: Codes, weights: Floats32, count: int) -> tuple[Codes, Floats32]:
    """Return the distinct keys out of `count`, ascending, and the sums of the weights of equal ones."""
    if len(keys) * _FEW > count:
        sums = np.bincount(keys, weights, count)
        found = np.flatnonzero(sums > 0)
        return found, sums[found].astype(np.float32)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = np.flatnonzero(np.concatenate((np.ones(min(len(keys), 1), np.bool_), keys[1:] != keys[:-1])))
    return keys[first], np.add.reduceat(weights[order], first) if len(first) else weights[:0]


def _at(found: Codes, keys: Codes, values: Floats32, count: int) -> Floats32:
    """Return float32[len(found)], the value of each key that has one, and 0 for the others, out of `count` keys."""
    if len(found) * _FEW > count:
        every = np.zeros(count, np.float32)
        every[keys] = values
        return every[found]
    texts = np.zeros(len(found), np.float32)
    texts[np.searchsorted(found, keys)] = values
    return texts
