"""What a scope sees of an arena, worked out once for a snapshot and used by every recall until it changes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from salience.batch import OWN, REACH, Codes, Column, Floats, Rows
from salience.lazy import lazy
from salience.records import ANY, NARROWING, Scope
from salience.store.arena import Arena
from salience.store.loops import Floats32
from salience.store.occurrences import Kept, Occurrences, occurrences
from salience.store.roster import Bools

Places = NDArray[np.intp]
"""Numbers of memories in a view, from 0, in the order of their slots; -1 for none."""
_KEPT: Final = 64
"""Most views of a snapshot that are kept."""
_FEW: Final = 8
"""A part of the whole so small is looked up in it, and not the whole in an array."""
_RUNS: Final = 64
"""Parts of a view that are measured one by one at most."""
_RARE: Final = 4096
"""Terms that stand in no more memories are rare."""
_UNSEEN: Final = (np.empty(0, np.intp), 0)
"""What is known of what a scope saw before, where nothing is."""
_OCCURRENCES: Final = 16
"""How many occurrences of terms a view keeps for each of its memories."""


@dataclass(frozen=True, eq=False)
class View:
    """The live memories that a scope sees, as of an interval of time in which none of them expires.

    Attributes:
        arena: the snapshot; what changes without a new version may be older in it.
        slots: intp[m], ascending.
        valid: bool[m], which have not expired.
        since, until: the interval, in microseconds; `until` is not in it.
    """

    arena: Arena
    slots: Rows
    valid: Bools
    since: int
    until: int
    _terms: Kept = field(default_factory=Kept, repr=False)
    _standing: dict[frozenset[str], Bools | None] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.slots)

    def column(self, name: str) -> Column:
        """Return a column by slot, of these memories; the arena's own where they are all of it."""
        values = self.arena.slots[name]
        return values if self.is_all else values[self.slots]

    @lazy
    def is_all(self) -> bool:
        """Whether each slot of the arena is one of these memories."""
        return len(self.slots) == self.arena.slots.length

    @lazy
    def _range(self) -> tuple[int, int] | None:
        """The first and the last slot; None where there is nothing between which others stand."""
        return None if self.is_all or not len(self.slots) else (int(self.slots[0]), int(self.slots[-1]))

    @lazy
    def length(self) -> Floats:
        """float64[m], how many terms each has."""
        return self.column("length").astype(np.float64)

    @lazy
    def speaker(self) -> Column:
        """int[m], the number of who said each; 0 for none."""
        return self.column("speaker")

    @lazy
    def spoken(self) -> list[tuple[int, int, bool]] | None:
        """Runs of places that somebody said, or nobody: first, last + 1, and which; None where they are many."""
        said = self.speaker > 0
        turns = np.flatnonzero(said[1:] != said[:-1]) + 1
        if len(turns) > _RUNS:
            return None
        ends = [0, *turns.tolist(), len(said)]
        return [(start, stop, bool(said[start])) for start, stop in itertools.pairwise(ends)]

    @lazy
    def step_size(self) -> Floats32:
        """float32[m], the size of a step of each quantised vector."""
        return self.column("step")

    @lazy
    def heard(self) -> frozenset[int]:
        """The numbers of all who said one."""
        return frozenset(np.unique(self.speaker).tolist())

    @lazy
    def embedded(self) -> Bools | None:
        """bool[m], which have a vector; None where all have."""
        has = self.column("has_vector")
        return None if has.all() else has

    def places(self, slots: Column) -> Places:
        """Return the places of some slots, -1 for those of other memories."""
        if self.is_all:
            return slots.astype(np.intp, copy=False)
        if len(self.slots) * _FEW >= self.arena.slots.length:
            found: Places = self._place[slots].astype(np.intp)
            return found
        return position(self.slots, slots)

    @lazy
    def _place(self) -> NDArray[np.int32]:
        place = np.full(self.arena.slots.length, -1, np.int32)
        place[self.slots] = np.arange(len(self.slots), dtype=np.int32)
        return place

    @lazy
    def beside(self) -> tuple[Column, Column]:
        """int32[m] each, the places of the memories before and after each in its session, that have not expired."""
        return self.around[:, 0].copy(), self.around[:, 1].copy()  # each lies in a row, as the loops want it

    @lazy
    def around(self) -> Column:
        """int32[m, 2 x REACH], the places of the memories around each in its session, nearest first; -1 for none."""
        line, followed = self._line
        nearest, number = np.full((len(line), 2 * REACH), -1, np.int32), line.astype(np.int32) + 1
        for away, same in enumerate(followed, start=1):
            nearest[away:, 2 * away - 2] = number[:-away] * same - 1
            nearest[:-away, 2 * away - 1] = number[away:] * same - 1
        around = np.full((len(self), 2 * REACH), -1, np.int32)
        _whole(around)[line] = _whole(nearest)
        return around

    @lazy
    def window_length(self) -> Floats:
        """float64[m], how many terms the window of each has."""
        line, followed = self._line
        own, lengths = self.length[line], OWN * self.length
        windows = OWN * own
        for away, same in enumerate(followed, start=1):
            windows[away:] += own[:-away] * same
            windows[:-away] += own[away:] * same
        lengths[line] = windows
        return lengths

    @lazy
    def _line(self) -> tuple[Places, list[Bools]]:
        """Those in a session that have not expired, session by session in the order of time, turn and id.

        And, for 1 to `REACH`, which of them the one that many places further on follows in the same session.
        """
        line = self._in_session()
        line = line[self.valid[line]]
        session = self.column("session")[line]
        return line, [session[away:] == session[:-away] for away in range(1, REACH + 1)]

    def _in_session(self) -> Places:
        if len(self.slots) * _FEW < self.arena.slots.length:
            return self.places(self.arena.in_session(self.slots))
        line = self.places(self.arena.by_session)
        return line if self.is_all else line[line >= 0]

    @lazy
    def average_length(self) -> float:
        """The mean of `length`; 0 of none."""
        return float(self.length.sum()) / len(self) if len(self) else 0.0

    @lazy
    def average_window(self) -> float:
        """The mean of `window_length`; 0 of none."""
        return float(self.window_length.sum()) / len(self) if len(self) else 0.0

    def terms(self, numbers: Sequence[int]) -> tuple[Occurrences, ...]:
        """Return where the terms of some numbers stand."""
        return self._terms.of(numbers, self._found, _OCCURRENCES * len(self))

    def _found(self, numbers: Sequence[int]) -> list[Occurrences]:
        """Return them made: those of the rarer ones together, each other one alone."""
        held = [self.arena.terms.find(number, self._range) for number in numbers]
        is_rare = [len(slots) <= _RARE for slots, _ in held]
        groups = [[place for place, rare in enumerate(is_rare) if rare]]
        groups += [[place] for place, rare in enumerate(is_rare) if not rare]
        made = {
            place: one for group in groups if group for place, one in zip(group, self._made(held, group), strict=True)
        }
        return [made[place] for place in range(len(numbers))]

    def _made(self, held: Sequence[tuple[Column, Column]], group: Sequence[int]) -> list[Occurrences]:
        slots, counts = (np.concatenate([held[place][one] for place in group]) for one in (0, 1))
        return occurrences([len(held[place][0]) for place in group], self.places(slots), counts, self.around)

    def impact(self, held: Occurrences, is_window: bool, k1: float, b: float) -> Floats32:
        """Return float32[h], what BM25 makes of each occurrence but for the term's weight, [0, 1]."""
        length, average = (self.window_length, self.average_window) if is_window else (self.length, self.average_length)
        return held.impact(is_window, k1, b, length, average)

    def naming(self, number: int) -> Places:
        """Return the places of the memories that name the entity of a number."""
        places = self.places(self.arena.entities.find(number, self._range)[0])
        return places[places >= 0]

    @lazy
    def successor(self) -> Codes | None:
        """int64[m], the number of the memory that holds in the place of each, -1 for none; None where none has one."""
        facts, supersedes = self.column("fact"), self.column("supersedes")
        told = np.flatnonzero(self.valid & ((facts > 0) | (supersedes > 0)))
        if not len(told):
            return None
        told = told[np.argsort(self.arena.rows[self.slots[told]], kind="stable")]  # by id
        own = self.column("id")
        found = np.zeros(len(self), np.int64)
        of_fact = self._newest(told, facts, own)
        stated = np.flatnonzero(facts > 0)
        found[stated] = np.where(of_fact[facts[stated]] == own[stated], 0, of_fact[facts[stated]])
        heirs = told[(supersedes[told] > 0) & (supersedes[told] != own[told])]
        if len(heirs):
            heir = np.zeros(len(self.arena.numbers.ids), np.int64)
            heir[supersedes[heirs]] = own[heirs]  # of several, the one with the greatest id
            found = np.where(heir[own] > 0, heir[own], found)
        return np.where(found > 0, found, -1)

    def _newest(self, told: Places, facts: Codes, own: Codes) -> Codes:
        """Return by the number of a fact the number of the memory that was updated last; `told` are in order of id."""
        stating = told[facts[told] > 0]
        last = stating[np.argsort(self.column("updated_at")[stating], kind="stable")]
        newest = np.zeros(len(self.arena.numbers.facts), np.int64)
        newest[facts[last]] = own[last]
        return newest

    def standing(self, drops: frozenset[str]) -> Bools | None:
        """Return bool[m], which are left without those that are `expired` or `outdated`; None where all are."""
        if drops not in self._standing:
            self._standing[drops] = self._left(drops)
        return self._standing[drops]

    def _left(self, drops: frozenset[str]) -> Bools | None:
        kept = self.valid if "expired" in drops else None
        if "outdated" in drops and self.successor is not None:
            current = self.successor < 0
            kept = current if kept is None else kept & current
        return None if kept is None or kept.all() else kept


def _whole(matrix: Column) -> Column:
    """Return the rows of a matrix as one value each, which NumPy moves in a fourth of the time."""
    return matrix.view(f"V{matrix.strides[0]}")[:, 0]


def distinct(*columns: Column) -> Places:
    """Return the distinct numbers in some columns, ascending, without -1."""
    found = np.concatenate(columns)
    found.sort()
    first = np.empty(len(found), np.bool_)
    first[:1] = True
    np.not_equal(found[1:], found[:-1], out=first[1:])
    found = found[first]
    return found[1:] if len(found) and found[0] < 0 else found


def position(ascending: Column, wanted: Column) -> Places:
    """Return where each of some numbers stands in an array of ascending ones; -1 for those that it has not."""
    if not len(ascending):
        return np.full(len(wanted), -1, np.intp)
    found = np.searchsorted(ascending, wanted.astype(ascending.dtype, copy=False))
    found[found == len(ascending)] = 0
    found[ascending[found] != wanted] = -1
    return found


def view_of(arena: Arena, scope: Scope, now: int | None = None) -> View:
    """Return what `scope` sees of an arena at an instant in microseconds; at any, where what expires is no matter."""
    key = (scope.environment, *(getattr(scope, name) for name in NARROWING))
    kept = arena.views
    found: View | None = kept.get(key)
    if found is not None and (now is None or found.since <= now < found.until):
        return found
    if len(kept) >= _KEPT:
        kept.clear()
    kept[key] = found = _made(arena, _slots(arena, scope, *arena.seen.get(key, _UNSEEN)), now or 0)
    return found


def _slots(arena: Arena, scope: Scope, before: Rows, count: int) -> Rows:
    """Return the slots that a scope sees, ascending; of the first `count` those that it saw `before`."""
    more = np.flatnonzero(visible(arena, scope, count))
    return np.concatenate((before, more + count)) if count else more


def _made(arena: Arena, slots: Rows, now: int) -> View:
    expires = arena.slots["expires_at"]
    expires = expires if len(slots) == len(expires) else expires[slots]
    valid = expires > now
    since, until = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    if valid.all():
        return View(arena, slots, valid, since, int(expires.min(initial=until)))
    return View(arena, slots, valid, int(expires[~valid].max(initial=since)), int(expires[valid].min(initial=until)))


def visible(arena: Arena, scope: Scope, first: int = 0) -> Bools:
    """Return, by slot from the `first` on, whether it is live and visible in `scope`."""
    seen = arena.rows[first:] >= 0
    if scope.environment is not ANY:
        seen &= arena.slots["environment"][first:] == arena.number("environment", scope.environment)
    for coordinate in NARROWING:
        asked = getattr(scope, coordinate)
        if asked is not ANY:
            column = arena.slots[coordinate][first:]
            seen &= (column == 0) | (column == arena.number(coordinate, asked))
    return seen
