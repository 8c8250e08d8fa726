"""What a query says of time, as a column: a soft window, or an order."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from salience.batch import Batch, Floats
from salience.ports import Need
from salience.rank import fuse
from salience.records import TimeCue

DAY: Final = 86_400.0
"""Seconds in a day."""


def time(batch: Batch, need: Need, *, slack_days: float, floor: float) -> Floats:
    """Return how well the memory's `created_at` fits the time that the query names, [floor, 1]; 1 if it names none.

    Within the window it is 1. Outside it falls towards `floor` by the distance as exp(-distance / (length of the window
    + slack)), so that what was said a little later is a little weaker, and nothing is gone. An open window has no
    length. A window that an event bounds ("before the move") ends at the memory that names the event best. For an order
    it falls from the wanted end of time, among the living memories, to the other.
    """
    if need.intent.time is None:
        return np.full(len(batch), floor + (1.0 - floor))
    return floor + (1.0 - floor) * _fit(batch, need.intent.time, need, slack_days * DAY)


def period(batch: Batch, need: Need) -> Floats:
    """Return 1 where `created_at` lies in the window that the query names, else 0; all 0 if it names no window."""
    cue = need.intent.time
    if cue is None or (cue.start is None and cue.end is None):
        return np.zeros(len(batch))
    moments = batch["created_at"]
    inside = (moments >= _seconds(cue.start, -np.inf)) & (moments < _seconds(cue.end, np.inf))
    return inside.astype(np.float64)


def _fit(batch: Batch, cue: TimeCue, need: Need, slack: float) -> Floats:
    """Return 1 where the time fits, down to 0."""
    if not len(batch):
        return np.ones(len(batch))
    moments = batch["created_at"]
    start, end = _seconds(cue.start, -np.inf), _seconds(cue.end, np.inf)
    if cue.relation is not None:
        event = _event(batch, need)
        if event is None:
            return np.ones(len(batch))
        start, end = (start, min(end, event)) if cue.relation == "before" else (max(start, event), end)
    fits = _window(moments, start, end, slack)
    return fits * _order(batch, cue) if cue.order else fits


def _seconds(moment: Any, otherwise: float) -> float:
    return otherwise if moment is None else float(moment.timestamp())


def _window(moments: Floats, start: float, end: float, slack: float) -> Floats:
    """Return 1 within [start, end], less outside; 1 everywhere for a window that is open on both sides."""
    length = end - start if np.isfinite(start) and np.isfinite(end) else 0.0
    distance = np.maximum(np.maximum(start - moments, moments - end), 0.0)
    fits: Floats = np.exp(-distance / max(length + slack, 1.0))
    return fits


def _event(batch: Batch, need: Need) -> float | None:
    """Return when the event that the query names is told of: the latest of the memories that name it best."""
    if batch.lexicon is None or not need.anchor:
        return None
    lexicon = batch.lexicon.of_terms([need.terms.index(term) for term in need.anchor])
    named = fuse.share(lexicon, len(batch), k1=0.9, b=0.4) * batch["alive"]
    best = np.flatnonzero(named == named.max())
    return float(batch["created_at"][best].max()) if named.max() > 0 else None


def _order(batch: Batch, cue: TimeCue) -> Floats:
    """Return the place of each moment between the earliest and the latest living one, [0, 1]; the wanted end is 1."""
    moments = batch["created_at"]
    distinct = np.unique(moments[batch["alive"]]) if batch.moments is None else batch.moments
    if len(distinct) < 2:
        return np.ones(len(moments))
    place = np.clip(np.searchsorted(distinct, moments) / (len(distinct) - 1), 0.0, 1.0)
    return place if cue.order == "latest" else 1.0 - place
