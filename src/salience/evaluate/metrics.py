"""Metrics of a ranking, one formula per function, and confidence intervals of means.

`places` are the ranks of the returned evidence, from 1, ascending. `total` is the number of pieces of evidence, at
least 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from salience.batch import Floats
from salience.errors import InputError

Places = Sequence[int]
ROUNDS: Final = 2000
"""Bootstrap samples."""
LEVEL: Final = 0.95
"""Confidence level."""
_BLOCK: Final = 1 << 22
"""Values to draw at a time."""


def recall_at(places: Places, total: int, k: int) -> float:
    """Return the share of the evidence in the first k, [0, 1]."""
    return sum(place <= k for place in places) / total


def all_at(places: Places, total: int, k: int) -> float:
    """Return 1 if all of the evidence is in the first k, else 0."""
    return float(sum(place <= k for place in places) == total)


def hit_at(places: Places, total: int, k: int) -> float:
    """Return 1 if some of the evidence is in the first k, else 0."""
    return float(any(place <= k for place in places))


def reciprocal_rank(places: Places, total: int, k: int) -> float:
    """Return 1 / rank of the first evidence in the first k, [0, 1]; 0 without any. Its mean is the MRR.

    Source: Voorhees, The TREC-8 Question Answering Track Report (1999).
    """
    return max((1 / place for place in places if place <= k), default=0.0)


def ndcg_at(places: Places, total: int, k: int) -> float:
    """Return the gain of the evidence in the first k, 1 / log2(1 + rank) each, as a share of the best order's, [0, 1].

    Source: Järvelin and Kekäläinen, Cumulated Gain-Based Evaluation of IR Techniques (2002), for gains of 0 and 1.
    """
    gained = math.fsum(1 / math.log2(1 + place) for place in places if place <= k)
    return gained / math.fsum(1 / math.log2(1 + place) for place in range(1, min(total, k) + 1))


METRICS: Final[Mapping[str, Callable[[Places, int, int], float]]] = {
    "recall": recall_at,
    "all": all_at,
    "hit": hit_at,
    "mrr": reciprocal_rank,
    "ndcg": ndcg_at,
}
"""Name before the `@` -> formula (places, total, k)."""
_NAME: Final = re.compile(r"([a-z]+)@([1-9]\d{0,3})")


@dataclass(frozen=True, slots=True)
class Metric:
    """A formula and its cut-off."""

    name: str
    k: int

    @classmethod
    def named(cls, written: str) -> Metric:
        """Parse a name such as `recall@10`.

        Raises:
            InputError: an unknown name, or no number.
        """
        match = _NAME.fullmatch(written.strip().lower())
        if match is None or match[1] not in METRICS:
            raise InputError("metric", written, f"Give one of {', '.join(METRICS)} and a number, such as recall@10.")
        return cls(match[1], int(match[2]))

    def __str__(self) -> str:
        return f"{self.name}@{self.k}"

    def of(self, places: Places, total: int) -> float:
        """Return the value for one question."""
        return METRICS[self.name](places, total, self.k)


def precision(found: int, returned: int) -> float:
    """Return the share of returned memories that are evidence, [0, 1]; 0 if none was returned."""
    return found / returned if returned else 0.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % percentile interval, and the number of questions."""

    mean: float
    low: float
    high: float
    n: int


def estimate(values: Sequence[float] | Floats, seed: int, groups: Sequence[str] | None = None) -> Estimate:
    """Return the mean of `values` with its bootstrap interval.

    Args:
        values: one per question, at least one.
        seed: random seed; the same seed draws the same questions, so that two rankings can be compared.
        groups: the conversation of each question, to draw whole conversations: a wider interval, and the right one if
            questions on one conversation resemble each other. None draws questions.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 13, percentile interval; Sakai,
    Evaluating Evaluation Metrics Based on the Bootstrap (2006), for metrics of retrieval.
    """
    column = np.asarray(values, np.float64)
    sums, counts = column, np.ones(len(column))
    if groups is not None:
        _, codes = np.unique(np.asarray(groups), return_inverse=True)
        sums = np.bincount(codes, weights=column).astype(np.float64)
        counts = np.bincount(codes).astype(np.float64)
    random, size = np.random.default_rng(seed), max(1, _BLOCK // len(sums))
    means = []
    for start in range(0, ROUNDS, size):
        drawn = random.integers(len(sums), size=(min(size, ROUNDS - start), len(sums)))
        means.append(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1))
    low, high = np.quantile(np.concatenate(means), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(float(column.mean()), float(low), float(high), len(column))


def paired(
    first: Sequence[float] | Floats, second: Sequence[float] | Floats, seed: int, groups: Sequence[str] | None = None
) -> Estimate:
    """Return the mean of first - second on the same questions; they differ if its interval excludes 0."""
    return estimate(np.asarray(first, np.float64) - np.asarray(second, np.float64), seed, groups)
