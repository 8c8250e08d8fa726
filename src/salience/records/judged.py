"""What people said of two texts: the pairs that an embedder is calibrated on."""

from __future__ import annotations

from dataclasses import dataclass

from salience.records import checks


@dataclass(frozen=True, slots=True)
class Judged:
    """Two texts and how related people find them.

    Attributes:
        first, second: the texts.
        relatedness: [0, 1]; 0 for texts that have nothing to do with each other, 1 for texts that say the same.
        label: what else was said of them, such as `entailment`; None for nothing.
    """

    first: str
    second: str
    relatedness: float
    label: str | None = None

    def __post_init__(self) -> None:
        checks.text("first", self.first)
        checks.text("second", self.second)
        object.__setattr__(self, "relatedness", checks.number("relatedness", self.relatedness, 0.0, 1.0))
        if self.label is not None:
            checks.name("label", self.label)
