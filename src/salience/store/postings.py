"""Numbers for texts, and where each number occurs: small append-only structures that snapshots share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from salience.batch import Codes, Column, Rows, coded
from salience.text import normalise

_SLOT_BITS: Final = 32
_SLOT: Final = (1 << _SLOT_BITS) - 1


class Numbering(dict[Any, int]):
    """Numbers things in the order in which they come up, from 1; None is 0. Numbers never change."""

    def __init__(self) -> None:
        super().__init__({None: 0})

    def __missing__(self, thing: object) -> int:
        self[thing] = number = len(self)
        return number

    def of(self, things: Iterable[Any]) -> Codes:
        """Return the number of each thing, new ones numbered on the way."""
        return np.array(list(map(self.__getitem__, things)), np.int64)


class Spellings(dict[str, int]):
    """Numbers names; spellings that `text.normalise` makes equal have one number."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = Numbering()

    def __missing__(self, name: str) -> int:
        self[name] = number = self._numbers[normalise(name)]
        return number

    def known(self, names: Iterable[str]) -> list[int]:
        """Return the numbers of the names, in normal form, that have one, distinct, in order."""
        numbers = dict.fromkeys(map(self._numbers.get, names))
        return [number for number in numbers if number is not None]


class Speakers(Numbering):
    """Numbers speakers, and knows whom a name means: the whole name of a speaker, or the first word of it."""

    def __init__(self) -> None:
        super().__init__()
        self._meant: dict[str, dict[str, int]] = {}

    def __missing__(self, thing: object) -> int:
        number = super().__missing__(thing)
        whole = normalise(str(thing))
        for name in {whole, whole.partition(" ")[0]}:
            self._meant[name] = {**self._meant.get(name, {}), str(thing): number}  # anew: another thread may read it
        return number

    def meant(self, names: Iterable[str]) -> dict[str, int]:
        """Return the speakers whom one of some names, in normal form, means, with their numbers."""
        found: dict[str, int] = {}
        for name in names:
            found.update(self._meant.get(name, {}))
        return found


class Distinctions(dict[str, int]):
    """Numbers distinctions in the order in which they come up, in codes as of `batch.coded`."""

    def __missing__(self, distinction: str) -> int:
        self[distinction] = code = coded(distinction, len(self))
        return code


@dataclass(frozen=True, slots=True, eq=False)
class _Segment:
    """Occurrences, sorted: `keys` holds (number, slot) in one int64; `counts` how often."""

    keys: Codes
    counts: Codes


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """Number -> the slots that hold it and how often; grows by segments, merged as in a log-structured tree."""

    segments: tuple[_Segment, ...] = ()

    def find(self, number: int) -> tuple[Rows, Codes]:
        """Return the slots that hold `number`, in no particular order, and how often each does."""
        slots, counts = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for segment in self.segments:
            low, high = np.searchsorted(segment.keys, (number << _SLOT_BITS, (number + 1) << _SLOT_BITS))
            slots.append(segment.keys[low:high] & _SLOT)
            counts.append(segment.counts[low:high])
        return np.concatenate(slots), np.concatenate(counts)

    def append(self, numbers: Codes, slots: Column) -> Index:
        """Return this index with occurrences in new slots; a pair that comes twice counts twice."""
        keys, counts = np.unique(numbers << _SLOT_BITS | slots, return_counts=True)
        return self._with(_Segment(keys, counts))

    def moved(self, place: Rows) -> Index:
        """Return this index with slot s at `place[s]`; occurrences in slots at -1 are dropped."""
        index = Index()
        for segment in self.segments:
            slots = place[segment.keys & _SLOT]
            keys, counts = (segment.keys & ~_SLOT | slots)[slots >= 0], segment.counts[slots >= 0]
            order = np.argsort(keys)
            index = index._with(_Segment(keys[order], counts[order]))
        return index

    def _with(self, segment: _Segment) -> Index:
        if not len(segment.keys):
            return self
        segments = [*self.segments, segment]
        while len(segments) > 1 and 2 * len(segments[-1].keys) > len(segments[-2].keys):
            segments[-2:] = [_merged(segments[-2], segments[-1])]
        return Index(tuple(segments))


def _merged(older: _Segment, newer: _Segment) -> _Segment:
    """Return both in one; their slots are distinct, so no key is in both."""
    keys = np.concatenate((older.keys, newer.keys))
    order = np.argsort(keys, kind="stable")
    return _Segment(keys[order], np.concatenate((older.counts, newer.counts))[order])
