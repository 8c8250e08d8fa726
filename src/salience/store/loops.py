"""The loops of a recall in C, where they were built; NumPy has the same in more steps, beside each call of them.

A processor is kept waiting by many small steps more than by one long loop. Which way is taken changes no answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from salience.batch import Codes, Column, Floats, Rows
from salience.store.roster import Bools

Floats32 = NDArray[np.float32]
Numbers32 = NDArray[np.int32]
Int8 = NDArray[np.int8]
MODULE: Final = "salience.store._loops"


@dataclass(frozen=True, slots=True, eq=False)
class Dense:
    """What is known of the dense channels of each memory, and what they are worth.

    Attributes:
        about: float32[m], the cosine to the query, within `off`.
        before, after: int32[m], the places of the neighbours of each; -1 for none.
        embedded: bool[m], which have a vector; None for all.
        similarity, context: the weights.
        knots: float64[k] twice, cosines and what they mean, a line between each two; None where they are as they are.
    """

    about: Floats32
    before: Column
    after: Column
    off: float
    embedded: Bools | None
    similarity: float
    context: float
    knots: tuple[Floats, Floats] | None

    def given(self, off: float) -> tuple[Any, ...]:
        """Return it as the loops take it, within `off` or, below 0, at least."""
        cosine, related = self.knots or (None, None)
        return (
            self.about,
            self.before,
            self.after,
            off,
            self.embedded,
            self.similarity,
            self.context,
            cosine,
            related,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Loops:
    """The loops.

    Attributes:
        module: has them, for columns of the right types whose results fit what they are given to fill.
    """

    module: Any

    def scan(
        self, rows: Int8, slots: Rows | None, steps: Floats32, query: Floats32, largest: int
    ) -> tuple[Floats32, float]:
        """Return the inner products of quantised rows, or of all, and a query, and how far that is from what is taken.

        It is quantised as `quantised.quantised` does it, by a `largest` number for which int32 holds the products.
        """
        found = np.empty(len(rows) if slots is None else len(slots), np.float32)
        return found, self.module.scan(rows, slots, steps, query, largest, found)

    def occurrences(
        self, lengths: Sequence[int], places: Column, counts: Floats32, around: Column
    ) -> tuple[Numbers32, Floats32, Floats32, list[int], list[int]]:
        """Return where terms stand, how often in text and window, where those of each end, and in how many texts."""
        width = around.shape[1]
        most = len(places) * (1 + width)
        found, own, windows = np.empty(most, np.int32), np.empty(most, np.float32), np.empty(most, np.float32)
        ends, held = np.empty(len(lengths), np.int64), np.empty(len(lengths), np.int64)
        of_each = np.array(lengths, np.int64)
        self.module.occurrences(of_each, places, counts, around, width, found, own, windows, ends, held)
        return found, own, windows, ends.tolist(), held.tolist()

    def impacts(
        self, frequency: Floats32, places: Numbers32, length: Floats, k1: float, b: float, average: float
    ) -> Floats32:
        """Return float32[h], the impact of each occurrence."""
        found = np.empty(len(places), np.float32)
        self.module.impacts(frequency, places, length, k1, b, average, found)
        return found

    def add(self, sums: Floats32, terms: Iterable[tuple[Numbers32, Floats32, float]]) -> None:
        """Add, for each term, its weight times each of its values to the sum at its place."""
        self.module.add(sums, *chain.from_iterable(terms))

    def largest(
        self,
        about: Floats32,
        given: Floats32,
        named: Bools | None,
        standing: Bools | None,
        weight: float,
        speaker: float,
        count: int,
    ) -> Rows:
        """Return the standing places of the `count` largest `weight * about + given + speaker * named`."""
        found = np.empty(count, np.int64)
        return found[: self.module.largest(about, given, named, standing, weight, speaker, found)]

    def bounds(self, dense: Dense, off: float, places: Rows) -> Floats:
        """Return float64[len(places)], what the dense channels make of each where a cosine is off by `off`."""
        found = np.empty(len(places))
        self.module.bounds(*dense.given(off), places, found)
        return found

    def reaching(
        self,
        dense: Dense,
        given: Floats32,
        named: Bools | None,
        standing: Bools | None,
        speaker: float,
        least: float,
        near: tuple[float, float],
        enough: float,
    ) -> Rows:
        """Return the standing places of which the bound is `least` or more, and of those without a vector, ascending.

        Args:
            dense: of each place.
            given: float32[m], what words give it.
            named: bool[m], to whom a speaker gives `speaker` more.
            standing: bool[m], which are asked for; None for all.
            speaker: likewise.
            least: of the sum.
            near: a cosine, about, that the place or one beside it has if words give it nothing; and one for the named.
            enough: what words and its speaker give it if neither has, and words any of it.
        """
        found = np.empty(len(given), np.int64)
        return found[
            : self.module.reaching(
                *dense.given(dense.off), given, named, standing, speaker, least, *near, enough, found
            )
        ]

    def met(
        self, places: Rows, terms: Sequence[tuple[Numbers32, Floats32, Floats32]]
    ) -> tuple[Rows, Floats, Floats, Codes]:
        """Return which of some places hold each term, how often in text and window, and where those of each begin."""
        most = len(places) * len(terms)
        rows, own, windows = np.empty(most, np.int64), np.empty(most), np.empty(most)
        offsets = np.empty(len(terms) + 1, np.int64)
        count = self.module.met(places, rows, own, windows, offsets, *chain.from_iterable(terms))
        return rows[:count], own[:count], windows[:count], offsets


@cache
def built() -> Loops | None:
    """Return the loops; None where they were not built."""
    try:
        return Loops(import_module(MODULE))
    except ImportError:
        return None
