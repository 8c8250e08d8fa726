"""Shares that were counted, with what chance alone may have done to them; and the errors of a paraphrase threshold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from salience.batch import Floats
from salience.maintain.calibrate import relatedness
from salience.models.calibration import PARAPHRASE, UNRELATED
from salience.ports import EDGE
from salience.records import Judged

Z: Final = 1.959963984540054
"""Standard deviations that hold 95 % of a normal distribution."""
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Rate:
    """How many of how many: `count` of `of`."""

    count: int
    of: int

    @classmethod
    def where(cls, hits: Mask, among: Mask) -> Rate:
        """Return how many rows of `among` are in `hits`."""
        return cls(int((hits & among).sum()), int(among.sum()))

    @property
    def share(self) -> float:
        """The share, [0, 1]; 0 of none is 0."""
        return self.count / self.of if self.of else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval around the share, within [0, 1]; of none, all of it.

        Source: Wilson, Probable Inference, the Law of Succession, and Statistical Inference (1927).
        """
        if not self.of:
            return 0.0, 1.0
        share, spread = self.share, Z**2 / self.of
        middle = (share + spread / 2) / (1 + spread)
        half = Z * math.sqrt(share * (1 - share) / self.of + spread / self.of / 4) / (1 + spread)
        return max(min(middle - half, share), 0.0), min(max(middle + half, share), 1.0)  # exact at 0 and 1

    @property
    def cell(self) -> str:
        """The share with its interval and count, as a cell of a Markdown table."""
        low, high = self.interval
        return f"**{self.share:.1%}** ({low:.1%} to {high:.1%}; {self.count:,})"

    def as_dict(self) -> dict[str, float]:
        """Return the counts, the share and its interval as JSON values."""
        low, high = self.interval
        return {"count": self.count, "of": self.of, "share": self.share, "low": low, "high": high}

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.count:,} of {self.of:,}, {self.share:.1%} ({low:.1%} to {high:.1%})"


@dataclass(frozen=True, slots=True)
class Errors:
    """What a paraphrase threshold does wrong on judged pairs.

    Attributes:
        missed: paraphrases (relatedness from `PARAPHRASE`) that stay below it.
        mistaken: different things (relatedness below `UNRELATED`) that reach it.
    """

    missed: Rate
    mistaken: Rate


def errors(pairs: Sequence[Judged], cosines: Floats, threshold: float) -> Errors:
    """Return how often a raw cosine of `threshold` or more says something else than people did."""
    same, related = taken(cosines, threshold), relatedness(pairs)
    return Errors(Rate.where(~same, related >= PARAPHRASE), Rate.where(same, related < UNRELATED))


def taken(cosines: Floats, threshold: float) -> Mask:
    """Return bool[n], which pairs count as saying the same, with the slack that ranking has."""
    reached: Mask = cosines >= threshold - EDGE
    return reached
