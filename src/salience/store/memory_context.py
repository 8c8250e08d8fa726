"""Memories in the context of their session, for the store in dictionaries: obvious rather than fast."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

import numpy as np

from salience.batch import NEAREST, OWN, REACH, Floats, Lexicon, Postings, Rows, cosines
from salience.ports import Need, Stored

Neighbours = list[dict[int, Stored]]
"""For each memory: how many places further on in its session (negative: before it) -> the memory there."""


def neighbours(memories: Sequence[Stored], visible: Sequence[Stored], now: datetime) -> Neighbours:
    """Return the neighbours, up to `REACH` places away, of each of some `visible` memories."""
    sessions: dict[str, list[Stored]] = {}
    for stored in visible:
        key = stored.memory.scope.session_key
        if key is not None and (stored.memory.expires_at is None or stored.memory.expires_at > now):
            sessions.setdefault(key, []).append(stored)
    for held in sessions.values():
        held.sort(key=lambda stored: (stored.memory.created_at, stored.memory.turn or 0, stored.memory.id))
    places = {stored.memory.id: (key, place) for key, held in sessions.items() for place, stored in enumerate(held)}
    found: Neighbours = []
    for stored in memories:
        key, place = places.get(stored.memory.id, ("", 0))
        held = sessions.get(key, [])
        steps = (step for step in range(-REACH, REACH + 1) if step and 0 <= place + step < len(held))
        found.append({step: held[place + step] for step in steps})
    return found


def cosine_to(need: Need, stored: Stored) -> float:
    """Return the cosine of the query, in its own words or a speaker's, and a memory; 0 where either has no vector."""
    query = need.vector if stored.memory.speaker is None or need.voice is None else need.voice
    if need.vector is None or query is None or stored.vector is None:
        return 0.0
    return float(cosines(stored.vector[None], query)[0])


def context_cosine(memories: Sequence[Stored], around: Neighbours, need: Need) -> Floats:
    """Return the mean cosine of each memory and its `NEAREST` neighbours, those with a vector; 0 where none has."""
    means = []
    for stored, near in zip(memories, around, strict=True):
        steps = [step for distance in range(1, NEAREST + 1) for step in (-distance, distance) if step in near]
        held = [one for one in (stored, *(near[step] for step in steps)) if one.vector is not None]
        total = 0.0
        for one in held:
            total += cosine_to(need, one)
        means.append(total / len(held) if held else 0.0)
    return np.array(means, np.float64)


def windows(batch: Sequence[Stored], visible: Sequence[Stored], now: datetime, terms: tuple[str, ...]) -> Lexicon:
    """Return the statistics of the windows of the `visible` memories, and the postings of those of `batch`."""
    window = {
        stored.memory.id: Counter((*stored.terms * OWN, *(term for one in near.values() for term in one.terms)))
        for stored, near in zip(visible, neighbours(visible, visible, now), strict=True)
    }
    return lexicon([window[stored.memory.id] for stored in batch], list(window.values()), terms)


def lexicon(own: Sequence[Counter[str]], visible: Sequence[Counter[str]], terms: tuple[str, ...]) -> Lexicon:
    """Return the statistics of the terms of the `visible` texts, and the postings of those texts that are `own`."""
    lengths = [counts.total() for counts in visible]
    return Lexicon(
        documents=len(visible),
        average_length=sum(lengths) / len(lengths) if lengths else 0.0,
        document_frequency=np.array([sum(term in counts for counts in visible) for term in terms], np.float64),
        postings=Postings.of([_posting(own, term) for term in terms]),
        length=np.array([counts.total() for counts in own], np.float64),
    )


def _posting(texts: Sequence[Counter[str]], term: str) -> tuple[Rows, Floats]:
    """Return the rows of the texts that hold a term, and how often each does."""
    frequency = np.array([counts[term] for counts in texts], np.float64)
    rows = np.flatnonzero(frequency)
    return rows, frequency[rows]
