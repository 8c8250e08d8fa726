"""What is known of every memory of a view before it is scored: about how near it is, and what words give it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from salience.batch import Floats, Vectors32
from salience.lazy import lazy
from salience.ports import Matching, Pruning
from salience.store.ascending import distinct
from salience.store.candidates import Asked
from salience.store.distances import approximate
from salience.store.loops import Floats32, Numbers32
from salience.store.view import Places, View

_FEW: Final = 16
"""A part of all memories so small is handled one by one, and not in an array of all."""


@dataclass(frozen=True, eq=False)
class Near:
    """About how near each memory is to the query, and what that makes of the dense channels at most.

    Attributes:
        asked: of the need.
        pruning: has the weights.
        about: float32[m], the cosine, off by `off` at most; -1 for those that do not matter.
        off: likewise.
    """

    asked: Asked
    pruning: Pruning
    about: Floats32
    off: float

    @classmethod
    def of(cls, asked: Asked, pruning: Pruning, places: Places | None) -> Near:
        """Return it for the memories at some places; None for all."""
        return cls(asked, pruning, *measured(asked, places))

    @property
    def weight(self) -> float:
        """Of the dense channels together."""
        return self.pruning.similarity + self.pruning.context_similarity

    @lazy
    def most(self) -> float:
        """What they make of any memory at most."""
        return self.weight * float(self.asked.need.related(self.about.max(initial=-1.0) + np.float64(self.off)))

    def most_of(self, places: Places) -> Floats:
        """Return float64[len(places)], what the dense channels make of each at most."""
        return self._made(places, self.off)

    def least_of(self, places: Places) -> Floats:
        """Return float64[len(places)], what they make of each at least."""
        return self._made(places, -self.off)

    def _made(self, places: Places, off: float) -> Floats:
        own = self.about[places].astype(np.float64)
        made = self.pruning.similarity * self.asked.need.related(own + off)
        if self.pruning.context_similarity:
            made += self.pruning.context_similarity * self.asked.need.related(self._context(places, own) + off)
        return made

    def reaching(self, least: float) -> Places:
        """Return all memories near enough for the dense channels to make `least`, or beside one that is; ascending."""
        if least <= 0:
            return np.arange(len(self.about))
        if least > self.most:
            return np.empty(0, np.intp)
        near = np.flatnonzero(self.about >= self.least_about(least))
        return self._with_others(near) if self.pruning.context_similarity and len(near) else near

    def least_about(self, least: float) -> float:
        """Return a cosine, about, below which a memory and those beside it are too far from the query for `least`."""
        if least <= 0:
            return -np.inf
        return np.inf if least > self.most else self.asked.need.least_cosine(least / self.weight) - self.off

    def _with_others(self, places: Places) -> Places:
        """Return some memories and those beside them, ascending."""
        columns = [places, *(towards[places] for towards in self.asked.view.beside)]
        if len(places) * _FEW > len(self.about):
            mark = np.zeros(len(self.about) + 1, np.bool_)  # the last one for no neighbour
            for column in columns:
                mark[column] = True
            return np.flatnonzero(mark[:-1])
        return distinct(*columns)

    def _context(self, places: Places, own: Floats) -> Floats:
        """Return the means over each and those beside it, as far as they have vectors."""
        embedded = self.asked.view.embedded
        total, count = own.copy(), np.ones(len(places))
        for towards in self.asked.view.beside:
            there = towards[places]
            counts = there >= 0 if embedded is None else (there >= 0) & embedded[there]
            total += np.where(counts, self.about[there], 0.0)
            count += counts
        return total / count


def measured(asked: Asked, places: Places | None) -> tuple[Floats32, float]:
    """Return float32[m], about how near each memory is to the query, and how far that is off at most.

    Args:
        asked: a need with a vector.
        places: which memories matter, the others have -1; None for all.
    """
    need, view = asked.need, asked.view
    assert need.vector is not None  # noqa: S101 - what has no direction is near to nothing
    if need.voice is None and places is None:
        return approximate(view, need.vector, slice(None))
    about, off = np.full(len(view), -1.0, np.float32), 0.0
    for part, query in _parts(view, need.vector, need.voice, places):
        about[part], its = approximate(view, query, part)
        off = max(off, its)
    return about, off


def _parts(
    view: View, query: Vectors32, voice: Vectors32 | None, places: Places | None
) -> Iterator[tuple[slice | Places, Vectors32]]:
    """Yield parts of a view, or of some places of it, and the query by which each is measured."""
    if voice is None:
        yield slice(None) if places is None else places, query
    elif places is None and view.spoken is not None:
        yield from ((slice(start, stop), voice if said else query) for start, stop, said in view.spoken)
    else:
        places = np.arange(len(view)) if places is None else places
        said = view.speaker[places] > 0
        yield from ((places[said], voice), (places[~said], query))


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """What words, and names, give each memory.

    Attributes:
        given: float32[m], what the counted terms and the entities give it.
        of_common: what all terms that are not counted give any memory at most.
    """

    given: Floats32
    of_common: float = field(default=0.0)

    @classmethod
    def of(cls, asked: Asked, pruning: Pruning, common: int) -> Words:
        """Return it with the terms counted that stand in fewer than `common` places."""
        given = np.zeros(len(asked.view), np.float32)
        left = _add_terms(given, asked, pruning, common)
        if pruning.entity and asked.entities:
            given += _entities(asked, pruning.entity)
        return cls(given, left)


def _add_terms(given: Floats32, asked: Asked, pruning: Pruning, common: int) -> float:
    """Add to `given` what the terms give in the lexical channels, and return what those not counted give at most.

    A rare term tells much and stands in few places; a common one tells little, and is in so many that to count it costs
    more than all the others do.
    """
    channels = [
        (weights(asked, matching, is_window), matching, is_window)
        for matching, is_window in ((pruning.lexical, False), (pruning.context_lexical, True))
        if matching is not None
    ]
    counted = [(place, term) for place, term in enumerate(asked.terms) if len(term) < common]
    left = [place for place, term in enumerate(asked.terms) if len(term) >= common]
    _add(
        given,
        [
            (term.places, asked.view.impact(term, is_window, matching.k1, matching.b), of_terms[place])
            for of_terms, matching, is_window in channels
            for place, term in counted
        ],
    )
    return sum((of_terms[place] for of_terms, *_ in channels for place in left), 0.0)


def _add(sums: Floats32, terms: Sequence[tuple[Numbers32, Floats32, float]]) -> None:
    """Add, for each term, a weight times each value to the sum at its place; no place of a term comes twice."""
    for places, values, weight in terms:
        sums[places] += np.float32(weight) * values


def weights(asked: Asked, matching: Matching, is_window: bool) -> list[float]:
    """Return what each term gives at most in a lexical channel; together that is the weight of the channel."""
    telling = [term.telling(len(asked.view), is_window) for term in asked.terms]
    whole = sum(telling)
    return [matching.weight * one / whole for one in telling] if whole else telling


def _entities(asked: Asked, weight: float) -> Floats32:
    """Return float32[m], what the most telling entity that each memory and the query name gives it."""
    given = np.zeros(len(asked.view), np.float32)
    for places in asked.entities.values():
        telling = np.float32(weight * (1 - (len(places) - 1) / len(asked.view)))
        given[places] = np.maximum(given[places], telling)
    return given
