"""View: the memories of an index visible in a scope, with session neighbours, text lengths and successors.

A snapshot keeps one view per scope. The parts of a view are computed at first use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from salience.batch import OWN_COPIES, WINDOW_RADIUS, Codes, Column, Floats, Rows
from salience.records import ANY, NARROWING, Scope
from salience.store.index.columns import NEVER, STEPS, Bools, Index
from salience.store.index.postings import Numbers32, find
from salience.store.values import microseconds

Floats32 = NDArray[np.float32]
Places = NDArray[np.intp]
"""Numbers of memories in a view, from 0, in the order of their slots; -1 for none."""
_VIEWS: Final = 64
"""Maximum views per snapshot."""
_SPARSE: Final = 8
"""From 1/8 of the whole on, an array of the whole is faster than a binary search."""


@dataclass(frozen=True, slots=True, eq=False)
class Occurrences:
    """Where some terms occur in the texts of a view, or in their windows.

    Attributes:
        keys: int64[h], ascending: place of the term among those asked for, times the size of the view, plus `places`.
        terms: intp[h], the place of the term.
        places: intp[h], the memory.
        frequency: float64[h], how often it contains the term, >= 1.
        documents: int64[t], how many contain each term.
    """

    keys: Codes
    terms: Rows
    places: Places
    frequency: Floats
    documents: Codes

    @classmethod
    def of(cls, keys: Codes, counts: Codes, terms: int, size: int) -> Occurrences:
        """Return the occurrences of a number of terms in a view of a size; the counts of equal keys are added."""
        bits = int(counts.max(initial=0)).bit_length()
        packed = np.sort(keys << bits | counts, kind="stable")  # mostly in order, which makes it fast
        keys = packed >> bits
        is_first = np.ones(len(keys), np.bool_)
        is_first[1:] = keys[1:] != keys[:-1]
        first = np.flatnonzero(is_first)
        keys, counts = keys[first], packed & ((1 << bits) - 1)
        frequency = np.add.reduceat(counts, first).astype(np.float64) if len(first) else np.empty(0)
        ends = keys.searchsorted(np.arange(terms + 1) * size)
        documents = ends[1:] - ends[:-1]
        of = np.arange(terms).repeat(documents)
        return cls(keys, of, keys - of * size, frequency, documents)


@dataclass(frozen=True, eq=False)
class View:
    """The live memories visible in a scope, during an interval in which none of them expires.

    Attributes:
        index: a snapshot with these memories. Its counters may be out of date.
        slots: intp[m], ascending.
        valid: bool[m], which have not expired.
        since, until: the half-open interval, in microseconds.
    """

    index: Index
    slots: Rows
    valid: Bools
    since: int
    until: int

    def __len__(self) -> int:
        return len(self.slots)

    @cached_property
    def is_all(self) -> bool:
        """Whether each slot of the index is in the view."""
        return len(self.slots) == self.index.slots.length

    def column(self, name: str) -> Column:
        """Return a column of these memories."""
        values = self.index.slots[name]
        return values if self.is_all else values[self.slots]

    def places(self, slots: Column) -> Places:
        """Return the places of some slots; -1 for a slot outside the view."""
        if self.is_all:
            return slots.astype(np.intp, copy=False)
        if len(self.slots) * _SPARSE < self.index.slots.length:
            found, there = find(self.slots, slots)
            return np.where(there, found, -1)
        return self._place[slots].astype(np.intp)

    @cached_property
    def _place(self) -> Numbers32:
        place = np.full(self.index.slots.length, -1, np.int32)
        place[self.slots] = np.arange(len(self.slots), dtype=np.int32)
        return place

    @cached_property
    def speaker(self) -> Column:
        """int32[m], the number of the speaker of each memory; 0 for none."""
        return self.column("speaker")

    @cached_property
    def embedded(self) -> Bools | None:
        """bool[m], which memories have a vector; None if all have one."""
        has_vector = self.column("has_vector")
        return None if has_vector.all() else has_vector

    @cached_property
    def step(self) -> Floats32:
        """float32[m], the step of each quantised vector."""
        return self.column("step")

    @cached_property
    def neighbours(self) -> Column:
        """intp[2 x WINDOW_RADIUS, m], the places of the neighbours in the session, nearest first; -1 for none.

        Expired memories are left out.
        """
        line = self.places(self.index.by_session)
        line = line[line >= 0]
        line = line[self.valid[line]]
        session = self.column("session")[line]
        neighbours = np.full((2 * WINDOW_RADIUS, len(self.slots)), -1, np.intp)
        for away in range(1, WINDOW_RADIUS + 1):
            same = session[away:] == session[:-away]
            before, after = line[:-away][same], line[away:][same]
            neighbours[2 * away - 2, after] = before
            neighbours[2 * away - 1, before] = after
        return neighbours

    @cached_property
    def context_share(self) -> Floats32:
        """float32[m], 1 / the number of vectors among a memory and its two nearest neighbours; 0 if there is none."""
        embedded = np.append(np.ones(len(self.slots), np.bool_) if self.embedded is None else self.embedded, False)
        count = embedded[:-1].astype(np.float32) + embedded[self.neighbours[0]] + embedded[self.neighbours[1]]
        share: Floats32 = np.divide(np.float32(1), count, out=np.zeros(len(self.slots), np.float32), where=count > 0)
        return share

    @cached_property
    def length(self) -> Floats:
        """float64[m], the terms of each memory's text."""
        return self.column("length").astype(np.float64)

    @cached_property
    def window_length(self) -> Floats:
        """float64[m], the terms of each memory's window: its own counted `OWN_COPIES` times, plus its neighbours'."""
        padded = np.append(self.length, 0.0)
        lengths: Floats = OWN_COPIES * self.length + padded[self.neighbours].sum(axis=0)
        return lengths

    @cached_property
    def average_length(self) -> float:
        """Mean of `length`; 0 for an empty view."""
        return float(self.length.sum()) / len(self.slots) if len(self.slots) else 0.0

    @cached_property
    def average_window(self) -> float:
        """Mean of `window_length`; 0 for an empty view."""
        return float(self.window_length.sum()) / len(self.slots) if len(self.slots) else 0.0

    def lengths(self, is_window: bool) -> tuple[Floats, float]:
        """Return the length of each text, or of each window, and the mean of them."""
        return (self.window_length, self.average_window) if is_window else (self.length, self.average_length)

    def occurrences(self, numbers: Sequence[int]) -> Occurrences:
        """Return the occurrences in texts of terms by their numbers; -1 for an unknown term."""
        terms, slots, counts = self.index.terms.find(numbers)
        places = self.places(slots)
        keys = terms * len(self.slots) + places
        return Occurrences.of(keys[places >= 0], counts[places >= 0], len(numbers), len(self.slots))

    def in_windows(self, texts: Occurrences) -> Occurrences:
        """Return the occurrences in windows, of those in texts: the own text counts `OWN_COPIES` times."""
        counts = texts.frequency.astype(np.int64)
        beside = self.neighbours[:, texts.places]
        there = beside >= 0
        keys = np.concatenate((texts.keys, (texts.keys - texts.places + beside)[there]))
        counts = np.concatenate((OWN_COPIES * counts, np.broadcast_to(counts, there.shape)[there]))
        return Occurrences.of(keys, counts, len(texts.documents), len(self.slots))

    def naming_entity(self, number: int) -> Places:
        """Return the places of the memories that name the entity of a number, ascending."""
        places = self.places(self.index.entity_postings.find([number])[1])
        return np.sort(places[places >= 0])

    def tagged(self, tag: str) -> Bools:
        """Return bool[m], which memories have a tag."""
        tagged = np.zeros(len(self.slots) + 1, np.bool_)
        tagged[self.places(self.index.tags.find([self.index.codes.tags.get(tag, -1)])[1])] = True
        return tagged[:-1]

    @cached_property
    def replaced(self) -> tuple[Codes, Floats] | None:
        """int64[m], the slot of the memory that replaces each, -1 for none, and the probability of that, float64[m].

        Of several it is the most probable one, of equals the latest. None if no memory is replaced.
        """
        if not self.index.relations.length:
            return None
        lengths, codes = self.index.runs("relations", self.slots)
        newer = np.repeat(np.arange(len(self.slots)), lengths)
        older = self.places_of(self.index.replaced[codes // (STEPS + 1)])
        held = (older >= 0) & (older != newer) & self.valid[newer]
        if not held.any():
            return None
        newer, older, chance = newer[held], older[held], codes[held] % (STEPS + 1) / STEPS
        order = np.lexsort((self.column("row")[newer], chance))  # the last assignment counts
        successor, probability = np.full(len(self.slots), -1, np.int64), np.zeros(len(self.slots))
        successor[older[order]], probability[older[order]] = self.slots[newer[order]], chance[order]
        return successor, probability

    def with_heirs(self, places: Places, accepted: Bools | None) -> Places:
        """Return some places with those of the memories that replace them or are replaced by them, ascending.

        Chains are followed to their ends; only places that are `accepted` are added, if it is given.
        """
        held = np.zeros(len(self.slots) + 1, np.bool_)  # the last one for no successor, -1
        held[places] = True
        if self.replaced is not None:
            older = np.flatnonzero(self.replaced[0] >= 0)
            newer = self.places(self.replaced[0][older])
            if accepted is not None:
                usable = accepted[older] & (newer >= 0) & accepted[newer]
                older, newer = older[usable], newer[usable]
            before = -1
            while (count := int(np.count_nonzero(held))) > before:
                before = count
                held[newer[held[older]]] = True
                held[older[held[newer]]] = True
        return np.flatnonzero(held[:-1])

    def places_of(self, slots: Rows) -> Places:
        """Return the places of slots of which some are -1, for none; -1 for these and for a slot outside the view."""
        places = np.full(len(slots), -1, np.intp)
        known = slots >= 0
        places[known] = self.places(slots[known])
        return places

    def current(self, drops: frozenset[str]) -> Bools | None:
        """Return bool[m], which memories are not in a state of `drops` (`expired`); None for all."""
        return None if "expired" not in drops or self.valid.all() else self.valid


def view_of(index: Index, scope: Scope, now: int | None = None, *, outside: bool = False) -> View:
    """Return the view of `scope` at an instant in microseconds; None where expiry does not matter.

    With `outside`, it has the memories that only `scope.widened()` shows.
    """
    key = (scope.environment, scope.project, scope.user_id, scope.agent_id, outside)
    views: dict[Any, View] = index.views
    found = views.get(key)
    if found is not None and (now is None or found.since <= now < found.until):
        return found
    if len(views) >= _VIEWS:
        views.clear()
    seen = visible(index, scope)
    slots = np.flatnonzero(visible(index, scope.widened()) & ~seen if outside else seen)
    expires = index.slots["expires_at"][slots]
    valid = expires > (now or 0)
    since = int(expires[~valid].max(initial=np.iinfo(np.int64).min))
    until = int(expires[valid].min(initial=NEVER))
    views[key] = found = View(index, slots, valid, since, until)
    return found


def live(index: Index, scope: Scope, now: datetime | None) -> Bools:
    """Return, by slot, whether it is visible in `scope` and live at an instant; None: whatever its `expires_at`."""
    seen = visible(index, scope)
    return seen if now is None else seen & (index.slots["expires_at"] > microseconds(now))


def visible(index: Index, scope: Scope) -> Bools:
    """Return, by slot, whether it is not hidden and visible in `scope`."""
    numbers: Mapping[str, Mapping[Any, int]] = index.codes.coded
    seen = index.slots["row"] >= 0
    if scope.environment is not ANY:
        seen &= index.slots["environment"] == numbers["environment"].get(scope.environment, -1)
    for name in NARROWING:
        wanted = getattr(scope, name)
        if wanted is not ANY:
            column = index.slots[name]
            seen &= (column == 0) | (column == numbers[name].get(wanted, -1))
    return seen
