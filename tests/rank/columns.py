"""Random values of every column that signals and stages can read."""

from __future__ import annotations

from typing import Any

import numpy as np

from salience.batch import COLUMNS, Column, ColumnSpec

DAY = 86_400.0


def random_columns(random: np.random.Generator, count: int, now: float) -> dict[str, Column]:
    """Return a value in its range for each of `count` memories and each column of `COLUMNS`; `now` as a timestamp."""
    return {name: _values(name, spec, random, count, now).astype(spec.dtype) for name, spec in COLUMNS.items()}


def _values(name: str, spec: ColumnSpec, random: np.random.Generator, count: int, now: float) -> Any:
    match name:
        case "code":
            return np.arange(count)
        case "supersedes":  # few, and some of memories outside the batch
            return np.where(random.random(count) < 0.2, random.integers(0, max(2 * count, 1), count), -1)
        case "expires_at":
            return np.where(random.random(count) < 0.2, now + random.normal(size=count) * DAY, np.inf)
        case "turns_since_activation":
            return random.choice([0.0, 1.0, 7.0, np.inf], count)
    if spec.low == -np.inf:
        return now - random.exponential(40 * DAY, count)
    if spec.dtype is not np.float64:  # few different values, so that memories share facts and speakers
        return random.integers(int(spec.low), int(min(spec.high, 5)) + 1, count)
    ends = random.choice([spec.low, spec.high], count)  # a range is tested at its ends too
    return np.where(random.random(count) < 0.3, ends, random.uniform(spec.low, spec.high, count))
