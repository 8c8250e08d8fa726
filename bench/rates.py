"""Proportions with confidence intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Z: Final = 1.959963984540054
"""Standard score of the 95 % interval."""
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Rate:
    """A proportion: `count` of `of`."""

    count: int
    of: int

    @classmethod
    def where(cls, hits: Mask, among: Mask) -> Rate:
        """Count the rows of `among` that are in `hits`."""
        return cls(int((hits & among).sum()), int(among.sum()))

    @property
    def share(self) -> float:
        """The share, [0, 1]; 0 if `of` is 0."""
        return self.count / self.of if self.of else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the share, within [0, 1]; all of it if `of` is 0.

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
        """The share with its interval and count, for a Markdown table."""
        low, high = self.interval
        return f"**{self.share:.1%}** ({low:.1%} to {high:.1%}; {self.count:,})"

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.count:,} of {self.of:,}, {self.share:.1%} ({low:.1%} to {high:.1%})"
