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
from salience.lazy import lazy
from salience.ports import Pruning
from salience.store.ascending import distinct
from salience.store.bounds import Near, Words
from salience.store.candidates import Asked, Candidates
from salience.store.distances import in_context, to_query
from salience.store.loops import Floats32
from salience.store.roster import Bools
from salience.store.values import MICROSECONDS
from salience.store.view import Places, View

_WHOLE: Final = 256
"""So few memories are all brought."""
_DIRECT: Final = 1_000
"""So few are all scored: to look for those that need not be costs more."""
_PROMISING: Final = 3
"""How many times as many as are needed are scored first."""
_FEW_MORE: Final = 6
"""So many times as many as are needed are all scored: to look for those that need not be costs as much."""
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
_BLOCKS: Final = 16
"""Values of which the largest is looked at first, where there are many."""
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
    words = Words.of(asked, pruning, max(_COMMON, len(view) // _FEW))
    return _Search(asked, pruning, standing, count, words, pruning.speaker > 0, moments).batch()


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
    """Some memories, by place, and what was measured of each.

    Attributes:
        places: intp[k].
        values: float64[4, k], the cosine of each, the mean of it in context, its score without what a speaker adds, and
            its score.
    """

    places: Places
    values: Floats

    @property
    def cosines(self) -> tuple[Floats, Floats]:
        """As of `distances.in_context`."""
        return self.values[0], self.values[1]

    @property
    def silent(self) -> Floats:
        """float64[k], the scores without what a speaker adds."""
        silent: Floats = self.values[2]
        return silent

    @property
    def scores(self) -> Floats:
        """float64[k]."""
        scores: Floats = self.values[3]
        return scores

    def take(self, kept: Bools | Places) -> _Scored:
        """Return some of them."""
        return _Scored(self.places[kept], self.values[:, kept])

    def joined(self, more: _Scored) -> _Scored:
        """Return these and others, which are none of these."""
        return _Scored(np.concatenate((self.places, more.places)), np.concatenate((self.values, more.values), axis=1))


@dataclass(frozen=True, eq=False)
class _Search:
    """One search for the best.

    Attributes:
        asked, pruning: what is asked for.
        standing: bool[m], the memories to choose from, `count` of them; None for all.
        words: what words give each.
        hears: whether a speaker who is named counts.
        moments: as in a batch.
        known: `near`, if it is known already.
    """

    asked: Asked
    pruning: Pruning
    standing: Bools | None
    count: int
    words: Words
    hears: bool
    moments: Floats | None
    known: Near | None = None

    def batch(self) -> Batch:
        """Return the batch of those that may be among the best."""
        is_direct = self.count <= _DIRECT
        places = self.all if is_direct else self.reaching(self.likely_floor())
        if len(places) > _MANY and self.words.of_common:
            return self.with_common_terms().batch()
        is_few = len(places) <= _FEW_MORE * self.pruning.keep
        is_quick = is_few or (is_direct and not self.has_context)  # each is scored before it is known which need not be
        scored = self.whole(places) if is_quick else self.scored(*self.hopeful(places))
        floor = _largest(scored.scores, self.pruning.keep) - self.slack * self.pruning.most
        least = floor - self.words.of_common * self.pruning.most
        found = scored.take(self.or_pending(scored.places, scored.scores >= least))
        if self.named is not None and self.pruning.content is not None:
            found = self.with_content(found, scored, self.pruning.content(self.count))
        return _brought(self.asked, found.places, floor, self.count, self.moments, found.cosines)

    @property
    def has_context(self) -> bool:
        """Whether the cosines of those beside a memory are wanted too: they take most of what it takes to score one."""
        return bool(self.pruning.context_similarity) or "context_cosine" in self.asked.need.columns

    @property
    def all(self) -> Places:
        """Every memory to choose from, ascending."""
        return np.arange(len(self.asked.view)) if self.standing is None else np.flatnonzero(self.standing)

    @lazy
    def near(self) -> Near:
        """About how near each is."""
        if self.known is not None:
            return self.known
        return Near.of(self.asked, self.pruning, _measured(self.asked, self.standing, self.count))

    @lazy
    def named(self) -> Bools | None:
        """bool[m], which memories have to do with a speaker whom the query names; None where that counts for none."""
        return self.asked.named if self.hears else None

    def with_common_terms(self) -> _Search:
        """Return the same search with every term counted."""
        return replace(self, words=Words.of(self.asked, self.pruning, len(self.asked.view) + 1), known=self.near)

    def likely_floor(self) -> float:
        """Return a score that as many as are needed have at least, by what is known of those that promise most."""
        places = self.promising()
        rest, factors = self.others(places)
        least = self.boosted[places] + self.embedded(places, self.near.least_of(places))
        return _largest((least + rest) * factors, self.pruning.keep) - self.slack * self.pruning.most

    def others(self, places: Places) -> tuple[Floats, Floats]:
        """Return what other signals add to the sum of each memory, and what they multiply it by."""
        pruning = self.pruning
        return pruning.others(Candidates.lying(self.asked, places).with_columns(pruning.columns, self.moments))

    def with_content(self, found: _Scored, scored: _Scored, least: float) -> _Scored:
        """Return what was found, and those that score most without their speaker, if any scores `least` so.

        Args:
            found: the best of those that were `scored`.
            scored: likewise.
            least: a score.
        """
        if (found.silent > least + self.slack * self.pruning.most).any():
            return found
        is_all = len(scored.places) == self.count and not self.words.of_common
        tried = scored if is_all else self.silent(least)
        others = tried.take(_most(tried.silent, _WITNESSES))
        return found.joined(others.take(np.isin(others.places, found.places, invert=True)))

    def silent(self, least: float) -> _Scored:
        """Return memories among which are those that score most without their speaker, if any scores `least` so."""
        pruning = replace(self.pruning, speaker=0.0, keep=_WITNESSES)
        silent = replace(self, pruning=pruning, hears=False, known=self.near)
        places = silent.reaching(least)
        is_all = len(places) <= _MANY and not self.words.of_common
        tried = silent.whole(places if is_all else silent.promising())
        if is_all or (tried.scores > least + self.slack * self.pruning.most).any():
            return tried
        counted = silent.with_common_terms()
        return counted.whole(counted.reaching(least))

    def hopeful(self, places: Places) -> tuple[Places, Floats, Floats]:
        """Return those of some memories that may be among the best by all but their vectors, and their `others`."""
        rest, factors = self.others(places)
        known = self.boosted[places] + rest
        least = (known + self.embedded(places, self.near.least_of(places))) * factors
        floor = _largest(least, self.pruning.keep) - self.slack * self.pruning.most
        most = (known + self.near.most_of(places) + self.words.of_common) * factors
        kept = self.or_pending(places, most >= floor).nonzero()[0]
        return places[kept], rest[kept], factors[kept]

    def scored(self, places: Places, rest: Floats, factors: Floats) -> _Scored:
        """Return some memories with their scores, of which `others` are known, but for what the common terms give."""
        asked, pruning = self.asked, self.pruning
        cosines, contexts = self.measured(places)
        own, context = asked.need.related(np.stack((cosines, contexts)))
        made = self.words.given[places] + pruning.similarity * own
        if pruning.context_similarity:  # words stand in for what has no vector, so that its neighbours' do not count
            made += self.embedded(places, pruning.context_similarity * context)
        silent = (made + rest) * factors
        scores = silent if self.named is None else silent + pruning.speaker * self.named[places] * factors
        return _Scored(places, np.stack((cosines, contexts, silent, scores)))

    def measured(self, places: Places) -> tuple[Floats, Floats]:
        """Return the cosines of some memories, and the means in context where these are wanted."""
        view, need = self.asked.view, self.asked.need
        if self.has_context:
            return in_context(view, places, need)
        return to_query(view, places, need), np.zeros(len(places))

    def whole(self, places: Places) -> _Scored:
        """Return all of some memories with their scores."""
        return self.scored(places, *self.others(places))

    @lazy
    def slack(self) -> float:
        """More than rounding takes from a sum of the channels, whatever their weights are."""
        pruning = self.pruning
        matching = sum(channel.weight for channel in (pruning.lexical, pruning.context_lexical) if channel is not None)
        weights = pruning.similarity + pruning.context_similarity + pruning.speaker + pruning.entity + matching
        return _SLACK * max(1.0, weights + pruning.rest)

    def embedded(self, places: Places, values: Floats) -> Floats:
        """Return the values of some memories, 0 for one without a vector."""
        embedded = self.asked.view.embedded
        return values if embedded is None else values * embedded[places]

    def or_pending(self, places: Places, which: Bools) -> Bools:
        """Return which of some memories are meant, and those without a vector besides: nobody can tell yet."""
        embedded = self.asked.view.embedded
        return which if embedded is None else which | ~embedded[places]

    def promising(self) -> Places:
        """Return the memories that promise most by what is known of them, in no particular order."""
        estimate = self.near.weight * self.near.about + self.boosted
        if self.standing is not None:
            estimate[~self.standing] = -np.inf
        return self._standing(_most(estimate, _PROMISING * self.pruning.keep))

    def reaching(self, floor: float) -> Places:
        """Return the memories whose score may be `floor` or more, and those without a vector, ascending.

        Those that no word gives anything are found by how near they are, class by class: whether they have to do with a
        speaker who is named. The others are looked at one by one.
        """
        least = floor / self.pruning.most - self.pruning.rest - self.words.of_common - self.slack
        boosted, named = self.boosted, self.named
        matching = np.flatnonzero(boosted >= max(least - self.near.most, _TINY))
        found = [self.near.reaching(least), matching[self.words.given[matching] > 0]]
        if named is not None:
            near = self.near.reaching(least - self.pruning.speaker)
            found.append(near[named[near]])
        places = self._standing(distinct(*found))
        places = places[boosted[places] + self.near.most_of(places) >= least]
        if self.asked.view.embedded is None:
            return places
        return distinct(places, self._standing(np.flatnonzero(~self.asked.view.embedded)))

    @lazy
    def boosted(self) -> Floats32:
        """float32[m], what words and a speaker who is named give each."""
        if self.named is None:
            return self.words.given
        return self.words.given + np.where(self.named, np.float32(self.pruning.speaker), np.float32(0))

    def _standing(self, places: Places) -> Places:
        return places if self.standing is None else places[self.standing[places]]


_TINY: Final = float(np.finfo(np.float32).tiny)


def _most(values: Floats32 | Floats, count: int) -> Places:
    """Return the places of the `count` largest values, in no particular order."""
    if len(values) <= count:
        return np.arange(len(values))
    if len(values) < _BLOCKS * _BLOCKS * count:
        return np.argpartition(values, len(values) - count)[len(values) - count :]
    found = np.flatnonzero(values >= _reached(values, count))
    return found[_most(values[found], count)]


def _reached(values: Floats32 | Floats, count: int) -> float:
    """Return what `count` of many values reach at least: the best of as many blocks do."""
    length = len(values) // _BLOCKS
    best = values[: length * _BLOCKS].reshape(_BLOCKS, length).max(axis=0)
    return float(best[_most(best, count)].min())


def _largest(values: Floats, place: int) -> float:
    """Return the value that `place` of the values reach; -inf where they are fewer."""
    return float(np.partition(values, len(values) - place)[len(values) - place]) if len(values) >= place else -np.inf
