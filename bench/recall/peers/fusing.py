"""Rankings made one by reciprocal ranks (Cormack, Clarke and Buettcher 2009), as those peers do that fuse by rank."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from bench.recall.truth import LIMIT

DAMPING: Final = 60


def fused(rankings: Iterable[Sequence[int]]) -> list[int]:
    """Return the ten with the largest sums of 1 / (60 + rank)."""
    scores: dict[int, float] = defaultdict(float)
    for ranking in rankings:
        for rank, row in enumerate(ranking, start=1):
            scores[row] += 1 / (DAMPING + rank)
    return sorted(scores, key=lambda row: (-scores[row], row))[:LIMIT]
