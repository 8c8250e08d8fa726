"""Spreading activation: how a good answer lends its score to what stands next to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from salience.batch import Codes, Floats, Rows, Vectors32, cosines
from salience.rank.state import Mask, Spread, State

Link = Literal["neighbour", "entity"]


@dataclass(frozen=True, slots=True, eq=False)
class _Graph:
    """What activation spreads over.

    Attributes:
        rows: intp[e], ascending, the rows that may be reached.
        vectors: float32[e, d], theirs.
        naming, named: row and entity code of every mention.
    """

    rows: Rows
    vectors: Vectors32
    naming: Rows
    named: Codes

    @classmethod
    def of(cls, state: State) -> _Graph:
        """Return the rows that no rule but the threshold has dropped, with what links them."""
        thresholds = [step for step, name in enumerate(state.profile.stages) if name == "threshold"]
        rows = np.flatnonzero(state.alive | np.isin(state.fates, thresholds))
        vectors, entities = state.batch.vectors, state.batch.entities
        none = np.empty(0, np.intp)
        naming, named = entities.of_row.pairs() if entities is not None else (none, none.astype(np.int64))
        return cls(
            rows, vectors.at(rows) if vectors is not None else np.empty((len(rows), 0), np.float32), naming, named
        )

    def beside(self, row: int, vector: Vectors32, neighbours: int, links: int) -> list[tuple[Link, int]]:
        """Return (link, row) of the nearest rows that name an entity of `row`, and of the nearest of all.

        A shared name comes first, since it tells more of why a row was reached.
        """
        closeness = cosines(self.vectors, vector)
        own = self.named[self.naming == row]
        linked = np.isin(self.rows, self.naming[np.isin(self.named, own)])
        others = self.rows != row
        near: list[tuple[Link, int]] = [("entity", other) for other in self._nearest(closeness, others & linked, links)]
        return near + [("neighbour", other) for other in self._nearest(closeness, others, neighbours)]

    def _nearest(self, closeness: Floats, mask: Mask, count: int) -> list[int]:
        """Return the `count` rows nearest among those in `mask`, the first ones where they tie."""
        places = np.flatnonzero(mask)
        if count < len(places):
            least = np.partition(closeness[places], len(places) - count)[len(places) - count] if count else np.inf
            places = places[closeness[places] >= least]
        order = np.argsort(-closeness[places], kind="stable")[:count]
        return [int(row) for row in self.rows[places[order]]]


def activation(state: State, factor: float, hops: int, neighbours: int, links: int) -> dict[int, Spread]:
    """Return row -> the strongest activation that reaches it from the best rows within `hops`.

    The best rows are the first `need.limit` in the running. Rows are reached if they are alive or fell below the
    threshold.
    """
    vectors = state.batch.vectors
    if vectors is None:
        return {}
    graph = _Graph.of(state)
    reached: dict[int, Spread] = {}
    frontier = {
        int(row): Spread(int(row), float(state.scored[row]), factor, 0, "neighbour")
        for row in state.rows[: state.need.limit]
    }
    for hop in range(1, hops + 1):
        found: dict[int, Spread] = {}
        for row, origin in frontier.items():
            for link, other in graph.beside(row, vectors.at(np.array([row]))[0], neighbours, links):
                passed = Spread(origin.parent, origin.score, factor, hop, link)
                if passed.activation > max(_strength(reached.get(other)), _strength(found.get(other))):
                    found[other] = passed
        reached |= found
        frontier = found
    return reached


def _strength(spread: Spread | None) -> float:
    return -np.inf if spread is None else spread.activation
