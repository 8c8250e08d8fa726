"""Unit vectors in an eighth of their size: what a first pass over all of them reads, and how far it can be off."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from salience.batch import Vectors32
from salience.store.loops import Int8

LARGEST: Final = 127
"""Largest number of an int8 that has its opposite."""
ROUNDING: Final = 1e-5
"""More than float32 arithmetic, and unit vectors that are so but for their rounding, add to an error."""


@dataclass(frozen=True, slots=True, eq=False)
class Quantised:
    """Vectors as whole numbers of steps: row i is about `numbers[i] * steps[i]`.

    Attributes:
        numbers: int8[n, d].
        steps: float32[n], > 0; 0 for a vector of zeros.
        error: the largest Euclidean distance between a vector and what stands for it here.
    """

    numbers: Int8
    steps: NDArray[np.float32]
    error: float

    @classmethod
    def of(cls, vectors: Vectors32) -> Quantised:
        """Return float32[n, d] quantised, each row by its own largest number, so that none overflows."""
        steps = np.abs(vectors).max(axis=1, initial=0.0) / np.float32(LARGEST)
        scaled = vectors / np.where(steps > 0, steps, np.float32(1))[:, None]
        np.rint(scaled, out=scaled)
        numbers = scaled.astype(np.int8)
        scaled *= steps[:, None]
        scaled -= vectors
        errors = np.sqrt(np.vecdot(scaled, scaled))
        return cls(numbers, steps, float(errors.max(initial=0.0)))


def alone(vector: Vectors32) -> tuple[Int8, NDArray[np.float32], float]:
    """Return the row and the step of one vector, float32[d], as `Quantised.of` has them, and how far it is from it."""
    step = np.abs(vector).max() / np.float32(LARGEST)
    numbers = np.rint(vector / (step if step > 0 else np.float32(1)))
    rest = numbers * step - vector
    return numbers.astype(np.int8), step, math.sqrt(float(rest @ rest))


def quantised(vector: Vectors32, largest: int = LARGEST) -> tuple[NDArray[Any], float, float]:
    """Return a float32[d] as whole numbers of steps, the size of a step, and how far they are from the vector.

    They are int8[d], as `Quantised.of` has rows, or int16[d] where the `largest` of them needs that.
    """
    step = float(np.abs(vector).max()) / largest or 1.0
    numbers = np.rint(vector / np.float32(step))
    rest = numbers * np.float32(step) - vector
    return numbers.astype(np.int8 if largest <= LARGEST else np.int16), step, math.sqrt(float(rest @ rest))


def off_by(rows: float, query: float) -> float:
    """Return how far the inner product of a quantised row and a quantised query can be from that of the whole ones.

    With x = x' + e and q = q' + f, x.q - x'.q' = e.q + x'.f, which by Cauchy and Schwarz is at most |e| |q| + |x'| |f|
    <= |e| + (1 + |e|) |f| for unit vectors.

    Args:
        rows: the largest |e| of the rows.
        query: |f|.
    """
    return rows + (1 + rows) * query + ROUNDING
