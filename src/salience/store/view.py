"""What a scope sees of an arena, worked out once for a snapshot and used by every recall until it changes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from salience.batch import REACH, Codes, Column, Floats, Rows
from salience.lazy import lazy
from salience.records import ANY, NARROWING, Scope
from salience.store import around
from salience.store.arena import Arena
from salience.store.ascending import distinct, position
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
_LARGE: Final = 20_000
"""Memories from which on a view goes on from the one before; of fewer, all is made anew as quickly."""
_SHOWN: Final = ("slots", "valid", "since", "until")
"""What the next view knows of one of any size: which memories the scope sees."""
_FOLLOWED: Final = ("_terms", "length", "around", "beside", "window_length", "successor")
"""What it goes on from besides, where there are many."""
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
        before: what a view had of the first ones, before the others were added, by its name; taken out as it is used.
    """

    arena: Arena
    slots: Rows
    valid: Bools
    since: int
    until: int
    _terms: Kept = field(default_factory=Kept, repr=False)
    _standing: dict[frozenset[str], Bools | None] = field(default_factory=dict, repr=False)
    before: dict[str, Any] = field(default_factory=dict, repr=False)

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

    def kept(self) -> dict[str, Any]:
        """Return what a view to which memories were added may go on from, as `before` has it."""
        made, earlier = vars(self).copy(), self.before.copy()  # each in one step: another thread may be at work on them
        if len(self) < _LARGE:
            return {name: made[name] for name in _SHOWN}
        earlier.pop("successor", None)  # which does not tell of how many memories it is
        return {**earlier, **{name: made[name] for name in (*_SHOWN, *_FOLLOWED) if name in made}}

    @lazy
    def length(self) -> Floats:
        """float64[m], how many terms each has."""
        known: Floats | None = self.before.pop("length", None)
        if known is None:
            return self.column("length").astype(np.float64)
        return grown(known, self.arena.slots["length"][self.slots[len(known) :]])

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
        known: tuple[Column, Column] | None = self.before.pop("beside", None)
        if known is None:
            return self.around[:, 0].copy(), self.around[:, 1].copy()  # each lies in a row, as the loops want it
        before, after = (grown(column, self.around[len(column) :, at]) for at, column in enumerate(known))
        if before is not known[0]:
            changed = self.changed(len(known[0]))
            before[changed], after[changed] = self.around[changed, 0], self.around[changed, 1]
        return before, after

    @lazy
    def around(self) -> Column:
        """int32[m, 2 x REACH], the places of the memories around each in its session, nearest first; -1 for none."""
        known: Column | None = self.before.pop("around", None)
        return around.around(self) if known is None else around.around_since(self, known)

    def changed(self, count: int) -> Places:
        """Return the memories from a place on, and those before it that have others around them since; ascending."""
        return distinct(np.arange(count, len(self)), self.around[count:].ravel())

    @lazy
    def window_length(self) -> Floats:
        """float64[m], how many terms the window of each has."""
        known: Floats | None = self.before.pop("window_length", None)
        return around.window_length(self) if known is None else around.window_length_since(self, known)

    @lazy
    def line(self) -> tuple[Places, list[Bools]]:
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
        return self._terms.of(numbers, len(self), self._found, self._followed, _OCCURRENCES * len(self))

    def _followed(self, late: Mapping[int, Occurrences]) -> dict[int, Occurrences]:
        """Return where terms stand that are known of the first memories alone."""
        changed = self.changed(min(held.count for held in late.values()))
        beside = self.around[changed]
        return {number: self._follow(number, held, changed, beside) for number, held in late.items()}

    def _follow(self, number: int, held: Occurrences, changed: Places, beside: Column) -> Occurrences:
        """Return where one of them stands; `changed` memories have others `beside` them, or were added."""
        added = self.slots[held.count :]
        slots, counts = self.arena.terms.find(number, (int(added[0]), int(added[-1])))
        places = position(added, slots)
        seen = places >= 0
        return held.followed(changed, beside, places[seen] + held.count, counts[seen], len(self))

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
        if self.before.get("successor", self) is None and not self._states(len(self.before["valid"])):
            return None
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

    def _states(self, count: int) -> bool:
        """Return whether a memory from a place on states a fact, or supersedes another."""
        added = self.slots[count:]
        return any(self.arena.slots[name][added].any() for name in ("fact", "supersedes"))

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


def grown(known: Column, more: Column) -> Column:
    """Return a column with more at its end; where that is nothing, the same."""
    return np.concatenate((known, more)) if len(more) else known


def view_of(arena: Arena, scope: Scope, now: int | None = None) -> View:
    """Return what `scope` sees of an arena at an instant in microseconds; at any, where what expires is no matter."""
    key = (scope.environment, *(getattr(scope, name) for name in NARROWING))
    kept = arena.views
    found: View | None = kept.get(key)
    if found is not None and _holds(found.since, found.until, now):
        return found
    if len(kept) >= _KEPT:
        kept.clear()
    before, count = arena.seen.get(key, ({}, 0))
    slots = _slots(arena, scope, before, count)
    goes_on = count > 0 and len(slots) >= _LARGE and _holds(before["since"], before["until"], now)
    kept[key] = found = _gone_on(arena, slots, before, now) if goes_on else _made(arena, slots, now or 0)
    return found


def _holds(since: int, until: int, now: int | None) -> bool:
    return now is None or since <= now < until


def _slots(arena: Arena, scope: Scope, before: Mapping[str, Any], count: int) -> Rows:
    """Return the slots that a scope sees, ascending; of the first `count` those that it saw `before`."""
    more = np.flatnonzero(visible(arena, scope, count))
    if not count:
        return more
    return grown(before["slots"], more + count)


def _made(arena: Arena, slots: Rows, now: int) -> View:
    expires = arena.slots["expires_at"]
    expires = expires if len(slots) == len(expires) else expires[slots]
    return View(arena, slots, *_validity(expires, now))


def _gone_on(arena: Arena, slots: Rows, before: Mapping[str, Any], now: int | None) -> View:
    """Return the view of some slots, the first of which a view saw `before`."""
    known: Bools = before["valid"]
    added, since, until = _validity(
        arena.slots["expires_at"][slots[len(known) :]], before["since"] if now is None else now
    )
    interval = max(since, before["since"]), min(until, before["until"])
    is_alike = interval == (before["since"], before["until"])  # at another instant, what was added stands elsewhere
    terms = before.get("_terms") if is_alike else None
    return View(arena, slots, grown(known, added), *interval, Kept() if terms is None else terms, before=dict(before))


def _validity(expires: Column, now: int) -> tuple[Bools, int, int]:
    """Return which of some memories have not expired, and the interval for which that holds."""
    valid = expires > now
    since, until = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    if valid.all():
        return valid, since, int(expires.min(initial=until))
    return valid, int(expires[~valid].max(initial=since)), int(expires[valid].min(initial=until))


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
