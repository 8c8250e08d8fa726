"""A score as a bar: what each signal brought, and what each factor took away."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

from salience.records import Part, ScoreDetail

SCORE: Final = "score"
"""The segment of a product: what is left of 1 after all factors."""
VIA: Final = "via"
"""The segment of a hit that has its score from another memory."""


@dataclass(frozen=True, slots=True)
class Share:
    """A segment of a bar: `length` is on the scale of the score; `kept` tells a part of the score from a loss."""

    signal: str
    length: float
    kept: bool


def shares(detail: ScoreDetail) -> tuple[Share, ...]:
    """Return the segments of a score; the kept ones add up to it, within rounding.

    Of summed signals, each keeps its contribution times all factors. A product without summed signals starts at 1 (a
    factor above 1 moves the start up), and one segment is what is left. What the factors below 1 took from the start
    is divided among them by their logarithms, the scale on which they add up; a factor of 0 takes all.
    """
    if detail.via is not None:
        return (Share(VIA, detail.via.activation, True),)
    added = [part for part in detail.parts if part.combine == "sum"]
    factors = [part for part in detail.parts if part.combine == "product"]
    product = math.prod(part.contribution for part in factors)
    kept = [Share(part.signal, part.contribution * product, True) for part in added] or [Share(SCORE, product, True)]
    base = sum(part.contribution for part in added) if added else 1.0
    start = base * math.prod(max(part.contribution, 1.0) for part in factors)
    return (*kept, *_losses(factors, max(start - base * product, 0.0)))


def _losses(factors: Sequence[Part], lost: float) -> list[Share]:
    zeros = [part for part in factors if part.contribution == 0]
    takers = zeros or [part for part in factors if part.contribution < 1]
    sizes = [1.0 if zeros else -math.log(part.contribution) for part in takers]
    return [Share(part.signal, lost * size / sum(sizes), False) for part, size in zip(takers, sizes, strict=True)]


def total(detail: ScoreDetail) -> float:
    """Return the length of the whole bar on the scale of the score."""
    return sum(share.length for share in shares(detail))


def cells(parts: Sequence[Share], longest: float, width: int) -> list[int]:
    """Return how many of `width` cells each segment takes, where `longest` takes them all; edges are rounded once."""
    ends = accumulate((part.length for part in parts), initial=0.0)
    edges = [round(end / longest * width) if longest > 0 else 0 for end in ends]
    return [right - left for left, right in pairwise(edges)]
