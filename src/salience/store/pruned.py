"""The best of a view by score, without scoring what cannot be among them. Pure NumPy; exact, and tested to be so.

A first pass knows about every memory how near it is to the query, within an error, and what the rarer terms give it. A
few that promise most are scored. As many of these as are needed score more than some floor: what cannot reach it is
left out, and only what can is scored too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from salience.batch import Batch, Floats
from salience.ports import Pruning
from salience.store.bounds import Near, Words
from salience.store.candidates import Asked, Candidates
from salience.store.distances import Floats32, in_context
from salience.store.roster import Bools
from salience.store.values import MICROSECONDS
from salience.store.view import Places, View, distinct, position

_WHOLE: Final = 256
"""So few memories are all brought."""
_PROMISING: Final = 3
"""How many times as many as are needed are scored first."""
_SLACK: Final = 1e-4
"""More than rounding takes from a sum of about 1."""
_COMMON: Final = 20_000
"""Places from which a term is common."""
_FEW: Final = 16
"""Likewise, if that is more: what part of all memories."""
_SPARSE: Final = 4
"""A part of the memories so small is measured without the others."""
_WITNESSES: Final = 4
"""How many of the best are brought where one that reaches a bound is to be shown, and rounding may blur which."""
_MANY: Final = 4_000
"""So many that may reach the floor are too many to score before the common terms are counted too."""


def is_prunable(asked: Asked) -> bool:
    """Return whether the best alone may be brought: they are asked for, and the query has a direction."""
    need = asked.need
    return need.pruning is not None and need.vector is not None and len(asked.view) > 0


def best(asked: Asked, passing: Bools | None) -> Batch:
    """Return those memories of the view, of the ones that pass a filter, whose score may be among the best.

    Memories without a vector are always among them: their cosine is not known yet.

    Args:
        asked: a need with `pruning`.
        passing: bool[m], which pass; None for all.
    """
    pruning, view = asked.need.pruning, asked.view
    assert pruning is not None  # noqa: S101 - `is_prunable` was asked
    standing = _both(passing, view.standing(pruning.drops))
    count = len(view) if standing is None else int(np.count_nonzero(standing))
    moments = _moments(view, standing) if pruning.moments else None
    if count <= max(_WHOLE, _PROMISING * pruning.keep):
        everything = np.arange(len(view)) if standing is None else np.flatnonzero(standing)
        return _brought(asked, everything, -np.inf, count, moments)
    near = Near.of(asked, pruning, _measured(asked, standing, count))
    words = Words.of(asked, pruning, max(_COMMON, len(view) // _FEW))
    return _Search(asked, pruning, standing, count, near, words, _named(asked, pruning), moments).batch()


def _moments(view: View, standing: Bools | None) -> Floats:
    """Return the distinct instants at which memories were made, in seconds, ascending."""
    made = view.column("created_at")
    return np.unique(made if standing is None else made[standing]) / MICROSECONDS


def _both(one: Bools | None, other: Bools | None) -> Bools | None:
    """Return where both hold; None for everywhere."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _measured(asked: Asked, standing: Bools | None, count: int) -> Places | None:
    """Return the places whose cosines matter: the few that stand, and those beside them; None for all."""
    if standing is None or count * _SPARSE > len(asked.view):
        return None
    places = np.flatnonzero(standing)
    return distinct(places, *(towards[places] for towards in asked.view.beside))


def _named(asked: Asked, pruning: Pruning) -> Bools | None:
    """Return bool[m], which memories a speaker whom the query names said, or tell of one; None where none does."""
    if not pruning.speaker or not (asked.speakers or len(asked.spoken_of)):
        return None
    named = np.zeros(len(asked.view), np.bool_)
    for number in asked.speakers:
        named |= asked.view.speaker == number
    named[asked.spoken_of] = True
    return named


def _brought(
    asked: Asked,
    places: Places,
    floor: float,
    count: int,
    moments: Floats | None,
    cosines: tuple[Floats, Floats] | None = None,
) -> Batch:
    """Return the batch of some memories out of `count`; of the others none scores `floor`."""
    found = Candidates.at(asked, places, cosines)
    return found.batch(complete=False, floor=floor, standing=count, moments=moments)


@dataclass(frozen=True, slots=True, eq=False)
class _Scored:
    """Some memories, by place, and float64 for each: its cosine, the mean of it in context, and its score."""

    places: Places
    cosines: Floats
    contexts: Floats
    scores: Floats

    def take(self, kept: Bools | Places) -> _Scored:
        """Return some of them."""
        return _Scored(self.places[kept], self.cosines[kept], self.contexts[kept], self.scores[kept])

    def joined(self, more: _Scored) -> _Scored:
        """Return these and others, which are none of these."""
        pairs = ((getattr(self, name), getattr(more, name)) for name in ("places", "cosines", "contexts", "scores"))
        return _Scored(*map(np.concatenate, pairs))


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    """One search for the best.

    Attributes:
        asked, pruning: what is asked for.
        standing: bool[m], the memories to choose from, `count` of them; None for all.
        near: about how near each is.
        words: what words give each.
        named: bool[m], which ones have to do with a speaker whom the query names; None for none.
        moments: as in a batch.
    """

    asked: Asked
    pruning: Pruning
    standing: Bools | None
    count: int
    near: Near
    words: Words
    named: Bools | None
    moments: Floats | None

    def batch(self) -> Batch:
        """Return the batch of those that may be among the best."""
        tried = self.scored(self.promising())
        floor = _largest(tried.scores, self.pruning.keep) - self.slack * self.pruning.most
        others = self.reaching(floor)
        if len(others) > _MANY and self.words.of_common:
            counted = Words.of(self.asked, self.pruning, len(self.asked.view) + 1)
            return replace(self, words=counted).batch()
        least = floor - self.words.of_common * self.pruning.most
        found = tried.take((tried.scores >= least) | ~self.embedded(tried.places))
        others = others[position(tried.places, others) < 0]
        if len(others):
            more = self.scored(others)
            found = found.joined(more.take(more.scores >= least))
        if self.named is not None and self.pruning.content is not None:
            found = self.with_content(found, self.pruning.content(self.count))
        return _brought(self.asked, found.places, floor, self.count, self.moments, (found.cosines, found.contexts))

    def with_content(self, found: _Scored, least: float) -> _Scored:
        """Return what was found, and those that score most without their speaker, if any scores `least` so."""
        silent = replace(self, pruning=replace(self.pruning, speaker=0.0, keep=_WITNESSES), named=None)
        if (
            silent.scored(found.places, (found.cosines, found.contexts)).scores > least + self.slack * self.pruning.most
        ).any():
            return found
        tried = silent.scored(silent.promising())
        if not (tried.scores > least + self.slack * self.pruning.most).any():
            counted = Words.of(self.asked, self.pruning, len(self.asked.view) + 1)
            silent = replace(silent, words=counted) if self.words.of_common else silent
            tried = silent.scored(silent.reaching(least))
        others = tried.take(_most(tried.scores, _WITNESSES))
        return found.joined(others.take(np.isin(others.places, found.places, invert=True)))

    def scored(self, places: Places, known: tuple[Floats, Floats] | None = None) -> _Scored:
        """Return some memories with their scores, but for what the common terms give; their cosines may be known."""
        asked, pruning = self.asked, self.pruning
        cosines, contexts = in_context(asked.view, places, asked.need) if known is None else known
        made = self.words.given[places] + pruning.similarity * asked.need.related(cosines)
        if pruning.context_similarity:  # words stand in for what has no vector, so that its neighbours' do not count
            made += pruning.context_similarity * asked.need.related(contexts) * self.embedded(places)
        if self.named is not None:
            made += pruning.speaker * self.named[places]
        rest, factors = pruning.others(Candidates.lying(asked, places).with_columns(pruning.columns, self.moments))
        return _Scored(places, cosines, contexts, (made + rest) * factors)

    @property
    def slack(self) -> float:
        """More than rounding takes from a sum of the channels, whatever their weights are."""
        pruning = self.pruning
        matching = sum(channel.weight for channel in (pruning.lexical, pruning.context_lexical) if channel is not None)
        weights = pruning.similarity + pruning.context_similarity + pruning.speaker + pruning.entity + matching
        return _SLACK * max(1.0, weights + pruning.rest)

    def embedded(self, places: Places) -> Bools:
        """Return which of some memories have a vector."""
        embedded = self.asked.view.embedded
        return np.ones(len(places), np.bool_) if embedded is None else embedded[places]

    def promising(self) -> Places:
        """Return the memories that promise most by what is known of them, and those without a vector; ascending."""
        estimate = self.near.weight * self.near.about + self.boosted
        if self.standing is not None:
            estimate[~self.standing] = -np.inf
        found = [_most(estimate, _PROMISING * self.pruning.keep)]
        if self.asked.view.embedded is not None:
            found.append(np.flatnonzero(~self.asked.view.embedded))
        return self._standing(distinct(*found))

    def reaching(self, floor: float) -> Places:
        """Return the memories whose score may be `floor` or more, ascending.

        Those that no word gives anything are found by how near they are, class by class: whether they have to do with a
        speaker who is named. The others are looked at one by one.
        """
        least = floor / self.pruning.most - self.pruning.rest - self.words.of_common - self.slack
        found = [self._near_enough(least, None)]
        if self.named is not None:
            found.append(self._near_enough(least - self.pruning.speaker, self.named))
        matching = np.flatnonzero(self.boosted >= max(least - self.near.most, _TINY))
        matching = self._standing(matching[self.words.given[matching] > 0])
        bound = self.boosted[matching] + self.near.bound(matching)
        return distinct(*found, matching[bound >= least])

    @property
    def boosted(self) -> Floats32:
        """float32[m], what words and a speaker who is named give each."""
        if self.named is None:
            return self.words.given
        return self.words.given + np.where(self.named, np.float32(self.pruning.speaker), np.float32(0))

    def _near_enough(self, least: float, among: Bools | None) -> Places:
        """Return the memories (`among` some) whose dense channels may make `least`."""
        places = self.near.reaching(least)
        places = self._standing(places if among is None else places[among[places]])
        return places[self.near.bound(places) >= least]

    def _standing(self, places: Places) -> Places:
        return places if self.standing is None else places[self.standing[places]]


_TINY: Final = float(np.finfo(np.float32).tiny)


def _most(values: Floats32 | Floats, count: int) -> Places:
    """Return the places of the `count` largest values, in no particular order."""
    if len(values) <= count:
        return np.arange(len(values))
    return np.argpartition(values, len(values) - count)[len(values) - count :]


def _largest(values: Floats, place: int) -> float:
    """Return the value that `place` of the values reach; -inf where they are fewer."""
    return float(np.partition(values, len(values) - place)[len(values) - place]) if len(values) >= place else -np.inf
