"""Numbers for texts, and where each number occurs: small append-only structures that snapshots share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from salience.batch import Codes, Column, Rows, coded
from salience.store.slots import Slots
from salience.text import normalise

Numbers32 = NDArray[np.int32]
_SLOT_BITS: Final = 32
_SLOT: Final = (1 << _SLOT_BITS) - 1
_LATE: Final = 4096
"""So many occurrences wait for the others that come later, to be put in order together."""


class Numbering(dict[Any, int]):
    """Numbers things in the order in which they come up, from 1; None is 0. Numbers never change."""

    def __init__(self) -> None:
        super().__init__({None: 0})

    def __missing__(self, thing: object) -> int:
        self[thing] = number = len(self)
        return number

    def of(self, things: Iterable[Any], count: int = -1) -> Numbers32:
        """Return the number of each of `count` things, new ones numbered on the way."""
        return np.fromiter(map(self.__getitem__, things), np.int32, count)


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
    """Occurrences in the order of numbers, and of slots within a number.

    Attributes:
        numbers: int32[u], those that occur, ascending.
        starts: int64[u + 1], where the occurrences of each begin, and the last ones end.
        slots: int32[k].
        counts: how often each number occurs there, of the smallest type that holds them all.
    """

    numbers: Numbers32
    starts: Codes
    slots: Numbers32
    counts: Column

    @classmethod
    def of(cls, keys: Codes, counts: Column) -> _Segment:
        """Return occurrences, each (number, slot) in one int64, ascending."""
        numbers = (keys >> _SLOT_BITS).astype(np.int32)
        starts = _firsts(numbers)
        ends = np.append(starts, len(keys))
        return cls(numbers[starts], ends, (keys & _SLOT).astype(np.int32), counts)

    @property
    def keys(self) -> Codes:
        """The occurrences in that form."""
        return np.repeat(self.numbers.astype(np.int64), np.diff(self.starts)) << _SLOT_BITS | self.slots

    def find(self, number: int, within: tuple[int, int] | None) -> slice:
        """Return where the occurrences of a number stand, those from a slot to another, both included."""
        place = int(self.numbers.searchsorted(np.int32(number)))  # a plain int would have all of them made int64
        if place == len(self.numbers) or self.numbers[place] != number:
            return slice(0)
        start, stop = int(self.starts[place]), int(self.starts[place + 1])
        if within is None:
            return slice(start, stop)
        first, last = self.slots[start:stop].searchsorted(np.array((within[0], within[1] + 1), np.int32)).tolist()
        return slice(start + first, start + last)


def _none_late() -> Slots:
    return Slots.of({name: np.empty(0, np.int32) for name in ("number", "slot", "count")}, 0)


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """Number -> the slots that hold it and how often; grows by segments, merged as in a log-structured tree.

    Attributes:
        segments: most occurrences.
        late: those of the last slots, in no order.
    """

    segments: tuple[_Segment, ...] = ()
    late: Slots = field(default_factory=_none_late)

    def find(self, number: int, within: tuple[int, int] | None = None) -> tuple[Column, Column]:
        """Return the slots that hold `number`, in no particular order, and how often each does.

        Args:
            number: what is looked for.
            within: the first and the last slot that matter, though late ones are found all the same; None for all.
        """
        found = [(segment, segment.find(number, within)) for segment in self.segments]
        parts = [(segment.slots[at], segment.counts[at]) for segment, at in found if at.stop > (at.start or 0)]
        if self.late.length:
            at = np.flatnonzero(self.late["number"] == number)
            parts += [(self.late["slot"][at], self.late["count"][at])] if len(at) else []
        if len(parts) == 1:
            return parts[0]
        slots, counts = zip((_NONE, _NONE), *parts, strict=True)
        return np.concatenate(slots), np.concatenate(counts)

    def append(self, numbers: Column, slots: Column) -> Index:
        """Return this index with occurrences in new slots; a pair that comes twice counts twice."""
        if not len(numbers):
            return self
        keys = numbers.astype(np.int64)
        keys <<= _SLOT_BITS  # in its place, as all that follows: there may be many, and new memory is slow to come by
        keys |= slots
        keys.sort()
        first = _firsts(keys)
        return self._with(_Segment.of(keys[first], _small(np.diff(first, append=len(keys)))))

    def noting(self, held: Mapping[int, int], slot: int) -> Index:
        """Return this index with what occurs in one new slot: how often each number does."""
        if not held:
            return self
        late = self.late.append({"number": list(held), "slot": slot, "count": list(held.values())}, len(held))
        noted = Index(self.segments, late)
        return noted if late.length < _LATE else noted.in_order()

    def in_order(self) -> Index:
        """Return this index with none that are late."""
        late = self.late
        if not late.length:
            return self
        keys = late["number"].astype(np.int64) << _SLOT_BITS | late["slot"]
        order = np.argsort(keys)
        return Index(self.segments)._with(_Segment.of(keys[order], _small(late["count"][order])))

    def moved(self, place: Rows) -> Index:
        """Return this index with slot s at `place[s]`; occurrences in slots at -1 are dropped."""
        index = Index()
        for segment in self.in_order().segments:
            slots = place[segment.slots]
            keys, counts = (segment.keys & ~_SLOT | slots)[slots >= 0], segment.counts[slots >= 0]
            order = np.argsort(keys)
            index = index._with(_Segment.of(keys[order], counts[order]))
        return index

    def _with(self, segment: _Segment) -> Index:
        if not len(segment.slots):
            return self
        segments = [*self.segments, segment]
        while len(segments) > 1 and 2 * len(segments[-1].slots) > len(segments[-2].slots):
            segments[-2:] = [_merged(segments[-2], segments[-1])]
        return replace(self, segments=tuple(segments))


_NONE: Final = np.empty(0, np.int32)


def _firsts(ascending: Column) -> Rows:
    """Return where each distinct number of an array first stands."""
    is_first = np.ones(len(ascending), np.bool_)
    is_first[1:] = ascending[1:] != ascending[:-1]
    return np.flatnonzero(is_first)


def _small(counts: Rows) -> Column:
    """Return numbers of at least 0 in the smallest type that holds them all."""
    return counts.astype(np.min_scalar_type(int(counts.max())))


def _merged(older: _Segment, newer: _Segment) -> _Segment:
    """Return both in one; their slots are distinct, so no key is in both."""
    keys = np.concatenate((older.keys, newer.keys))
    order = np.argsort(keys, kind="stable")
    return _Segment.of(keys[order], np.concatenate((older.counts, newer.counts))[order])
