"""What stands around memories in their sessions, and how long their windows are. Pure NumPy.

Where memories were added after all others, what was known before stays as it is, but for the few beside them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from salience.batch import OWN, REACH, Column, Floats
from salience.store.occurrences import ADDED

if TYPE_CHECKING:  # which asks here
    from salience.store.view import View

NEAR: Final = 32
"""Slots on either side, in the order of sessions, among which those around one that was added are looked for."""
Near = tuple[list[int], int]
"""The places of memories in a row of one session, and which of them is meant."""


def around(view: View) -> Column:
    """Return int32[m, 2 x REACH], as `View.around`."""
    line, follows = view.line
    nearest, number = np.full((len(line), 2 * REACH), -1, np.int32), line.astype(np.int32) + 1
    for away, same in enumerate(follows, start=1):
        nearest[away:, 2 * away - 2] = number[:-away] * same - 1
        nearest[:-away, 2 * away - 1] = number[away:] * same - 1
    found = _alone(len(view))
    _whole(found)[line] = _whole(nearest)
    return found


def around_since(view: View, known: Column) -> Column:
    """Return the same where it is known of the first memories without the others."""
    if len(known) == len(view):
        return known
    added = _added(view, len(known))
    if added is None:
        return around(view)
    found = np.concatenate((known, _alone(len(view) - len(known))))
    for near, own in added:
        for at in range(max(own - REACH, 0), min(own + REACH + 1, len(near))):
            for away in range(1, REACH + 1):
                found[near[at], 2 * away - 2] = near[at - away] if at >= away else -1
                found[near[at], 2 * away - 1] = near[at + away] if at + away < len(near) else -1
    return found


def window_length(view: View) -> Floats:
    """Return float64[m], as `View.window_length`."""
    line, follows = view.line
    own, lengths = view.length[line], OWN * view.length
    windows = OWN * own
    for away, same in enumerate(follows, start=1):
        windows[away:] += own[:-away] * same
        windows[:-away] += own[away:] * same
    lengths[line] = windows
    return lengths


def window_length_since(view: View, known: Floats) -> Floats:
    """Return the same where it is known of the first memories without the others."""
    if len(known) == len(view):
        return known
    lengths = np.concatenate((known, view.length[len(known) :]))
    changed = view.changed(len(known))
    beside = view.around[changed]
    lengths[changed] = OWN * view.length[changed] + np.where(beside >= 0, view.length[beside], 0.0).sum(axis=1)
    return lengths


def _alone(count: int) -> Column:
    return np.full((count, 2 * REACH), -1, np.int32)


def _added(view: View, count: int) -> list[Near] | None:
    """Return, for each memory from a place on that has a session, those around it there when it was added.

    None where they are too many to be looked at one by one, or stand too far apart.
    """
    if len(view) - count > ADDED:
        return None
    sessions, added = view.arena.slots["session"], list[Near]()
    for place in range(count, len(view)):
        if view.valid[place] and sessions[view.slots[place]]:
            near = _near(view, place)
            if near is None:
                return None
            added.append(near)
    return added


def _near(view: View, place: int) -> Near | None:
    """Return those around one memory, as if none had been added after it; None where they stand too far apart."""
    line, sessions = view.arena.by_session, view.arena.slots["session"]
    own = int((line == view.slots[place]).argmax())
    first = max(own - NEAR, 0)
    slots = line[first : own + NEAR + 1]
    places = view.places(slots)
    is_here = sessions[slots] == sessions[view.slots[place]]
    near: list[int] = places[is_here & (places >= 0) & (places <= place) & view.valid[places]].tolist()
    at = near.index(place)
    is_first = at >= 2 * REACH or first == 0 or not is_here[0]
    is_last = len(near) - at > 2 * REACH or first + len(slots) == len(line) or not is_here[-1]
    return (near, at) if is_first and is_last else None


def _whole(matrix: Column) -> Column:
    """Return the rows of a matrix as one value each, which NumPy moves in a fourth of the time."""
    return matrix.view(f"V{matrix.strides[0]}")[:, 0]
