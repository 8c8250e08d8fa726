"""How long things take: quantiles, several done turn about, and a watch that stops while something is prepared."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Self, TypeVar

import numpy as np

QUANTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
WARMING: Final = 3
"""Times that each is done before it counts."""
Done = TypeVar("Done")


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured: for so many seconds each, but at least and at most so many times."""

    seconds: float = 2.0
    least: int = 10
    most: int = 400


class Watch:
    """Adds up the seconds spent within it: `with watch: ...`, as often as one likes."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._start = 0.0

    def __enter__(self) -> Self:
        self._start = time.perf_counter()
        return self

    def __exit__(self, *raised: object) -> None:
        self.seconds += time.perf_counter() - self._start


@dataclass(frozen=True, slots=True)
class Laps(Generic[Done]):
    """What came of one of several that were done turn about: milliseconds of each time, and what it returned."""

    milliseconds: Sequence[float]
    found: Sequence[Done]


def turn_about(works: Mapping[str, Callable[[int], Done]], effort: Effort) -> dict[str, Laps[Done]]:
    """Return the laps of each work by its name, done A B C A B C, so that all meet the same machine.

    A work is called with the number of the turn, from 0; its first turns are to warm it. One whose time is up takes no
    further turn, so that what is slow does not make the others wait.
    """
    laps: dict[str, Laps[Done]] = {}
    spent: dict[str, tuple[list[float], list[Done]]] = {name: ([], []) for name in works}
    left = dict(works)
    gc.collect()
    for number in range(WARMING + effort.most):
        for name, work in list(left.items()):
            start = time.perf_counter()
            done = work(number)
            took = (time.perf_counter() - start) * 1e3
            milliseconds, found = spent[name]
            if number >= WARMING:
                milliseconds.append(took)
                found.append(done)
            if len(found) >= effort.least and sum(milliseconds) > effort.seconds * 1e3:
                del left[name]
    for name, (milliseconds, found) in spent.items():
        laps[name] = Laps(milliseconds, found)
    return laps


def quantiles(milliseconds: Sequence[float]) -> dict[str, float]:
    """Return the quantiles of some times, by linear interpolation, and how many times there were."""
    found = np.quantile(milliseconds, list(QUANTILES.values())).tolist()
    return {**dict(zip(QUANTILES, found, strict=True)), "n": len(milliseconds)}
