"""Memories in the context of their session, read off an arena. Pure NumPy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from salience.batch import NEAREST, OWN, REACH, Codes, Column, Floats, Lexicon, Postings, Rows
from salience.ports import Need
from salience.store.arena import Arena, Bools
from salience.store.distances import to_query


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """The slots that stand in a session, one session after the other, each in its order.

    Attributes:
        slots: intp[m].
        session: int64[m], which session each stands in.
        place: intp[all slots], where each stands in `slots`; -1 for one that stands alone.
    """

    slots: Rows
    session: Codes
    place: Rows

    def beside(self, slots: Rows, step: int) -> Rows:
        """Return the slot `step` places on from each of `slots` in its session, -1 where there is none."""
        if not len(self.slots):
            return np.full(len(slots), -1, np.intp)
        here = self.place[slots]
        there = np.clip(here + step, 0, len(self.slots) - 1)
        inside = (here >= 0) & (there == here + step) & (self.session[there] == self.session[here])
        return np.where(inside, self.slots[there], -1)


def line_up(arena: Arena, valid: Bools) -> Line:
    """Return the slots that have a session, those where `valid` (by slot) holds, lined up."""
    kept = arena.by_session[valid[arena.by_session]]
    place = np.full(arena.slots.length, -1, np.intp)
    place[kept] = np.arange(len(kept))
    return Line(kept, arena.slots["session"][kept], place)


def context_cosine(arena: Arena, line: Line, slots: Rows, need: Need) -> Floats:
    """Return the mean of the cosines of each slot and of its `NEAREST` neighbours, those with a vector; 0 for none.

    Args:
        arena: the tenant's memories.
        line: those in context.
        slots: whose means are wanted.
        need: has the query.
    """
    steps = [step for distance in range(1, NEAREST + 1) for step in (-distance, distance)]
    read = np.zeros(arena.slots.length, np.bool_)
    columns = [slots, *(line.beside(slots, step) for step in steps)]
    for column in columns:
        read[column[column >= 0]] = True
    needed = np.flatnonzero(read)
    values = np.zeros(arena.slots.length)
    values[needed] = to_query(arena, needed, need)
    held = read & arena.slots["has_vector"]
    total, count = np.zeros(len(slots)), np.zeros(len(slots))
    for column in columns:
        there = (column >= 0) & held[column]
        total += np.where(there, values[column], 0.0)
        count += there
    return np.divide(total, count, out=np.zeros(len(slots)), where=count > 0)


def windows(arena: Arena, line: Line, seen: Bools, slots: Rows, found: list[tuple[Rows, Codes]]) -> Lexicon:
    """Return the statistics of the windows of the `seen` slots, and the postings of those of `slots`.

    Args:
        arena: the tenant's memories.
        line: those in context.
        seen: by slot, whether it is live and visible.
        slots: those of the rows of the answer.
        found: for each term, the slots that hold it and how often.
    """
    steps = [step for step in range(-REACH, REACH + 1) if step]
    own = arena.slots["length"]
    visible = np.flatnonzero(seen)
    length = np.zeros(arena.slots.length)
    length[visible] = OWN * own[visible]
    for step in steps:
        beside = line.beside(line.slots, step)
        length[line.slots] += np.where(beside >= 0, own[beside], 0)
    row = np.full(arena.slots.length, -1, np.intp)
    row[slots] = np.arange(len(slots))
    frequencies = [_window_frequency(line, seen, steps, *term) for term in found]
    return Lexicon(
        documents=len(visible),
        average_length=float(length[visible].sum()) / len(visible) if len(visible) else 0.0,
        document_frequency=np.array([np.count_nonzero(frequency) for frequency in frequencies], np.float64),
        postings=tuple(_postings(frequency[slots]) for frequency in frequencies),
        length=length[slots],
    )


def _window_frequency(line: Line, seen: Bools, steps: list[int], holders: Rows, counts: Codes) -> Floats:
    """Return, by slot, how often a term stands in the window of each."""
    shown = seen[holders]
    holders, counts = holders[shown], counts[shown].astype(np.float64)
    places, weights = [holders], [OWN * counts]
    lined = line.place[holders] >= 0
    for step in steps:
        beside = line.beside(holders[lined], step)
        places.append(beside[beside >= 0])
        weights.append(counts[lined][beside >= 0])
    frequency: Floats = np.bincount(np.concatenate(places), np.concatenate(weights), len(seen)).astype(np.float64)
    return frequency


def _postings(frequency: Column) -> Postings:
    rows = np.flatnonzero(frequency)
    return Postings(rows, frequency[rows])
