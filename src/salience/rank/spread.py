"""Spreading activation: how a good answer lends its score to what stands next to it."""

from __future__ import annotations

from typing import Literal

import numpy as np

from salience.batch import Batch, Rows, cosines
from salience.rank.state import Spread, State

Link = Literal["neighbour", "entity"]


def activation(state: State, factor: float, hops: int, neighbours: int, links: int) -> dict[int, Spread]:
    """Return row -> the strongest activation that reaches it from the best rows within `hops`.

    The best rows are the first `need.limit` in the running. Rows are reached if they are alive or fell below the
    threshold.
    """
    eligible = _eligible(state)
    reached: dict[int, Spread] = {}
    frontier = {
        int(row): Spread(int(row), float(state.scored[row]), factor, 0, "neighbour")
        for row in state.rows[: state.need.limit]
    }
    for hop in range(1, hops + 1):
        found: dict[int, Spread] = {}
        for row, origin in frontier.items():
            for link, next_row in _adjacent(state.batch, eligible, row, neighbours, links):
                passed = Spread(origin.parent, origin.score, factor, hop, link)
                best = max(reached.get(next_row, passed), found.get(next_row, passed), passed, key=_strength)
                if best is passed:
                    found[next_row] = passed
        reached |= found
        frontier = found
    return reached


def _strength(spread: Spread) -> float:
    return spread.activation


def _eligible(state: State) -> Rows:
    """Return the rows, ascending, that may be reached: dropped by no rule but the threshold."""
    thresholds = [step for step, name in enumerate(state.profile.stages) if name == "threshold"]
    return np.flatnonzero(state.alive | np.isin(state.fates, thresholds))


def _adjacent(batch: Batch, eligible: Rows, row: int, neighbours: int, links: int) -> list[tuple[Link, int]]:
    """Return (link, row) of the nearest eligible rows, and of the nearest that name an entity of `row`."""
    others = eligible[eligible != row]
    if batch.vectors is None or not len(others):
        return []
    closeness = cosines(batch.vectors.at(others), batch.vectors.at(np.array([row]))[0])
    order = others[np.argsort(-closeness, kind="stable")]
    linked = order[np.isin(order, _naming_the_same(batch, row))]
    pairs: list[tuple[Link, int]] = [("neighbour", int(other)) for other in order[:neighbours]]
    return pairs + [("entity", int(other)) for other in linked[:links]]


def _naming_the_same(batch: Batch, row: int) -> Rows:
    if batch.entities is None:
        return np.empty(0, np.intp)
    rows, codes = batch.entities.of_row.pairs()
    return np.unique(rows[np.isin(codes, codes[rows == row])])
