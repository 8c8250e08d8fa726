"""Pairs of texts that people judged (SICK), and the calibration that fits them: the shipped ones are made by `fit`."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from bench.rates import Mask, Rate
from salience.batch import Floats
from salience.models.calibration import between
from salience.ports import EDGE, Calibration, Services
from salience.steps import embed, matrix

KNOTS: Final = 8
"""Inner knots of a fitted line."""
PARAPHRASE: Final = 0.75
"""Relatedness from which a judged pair counts as a paraphrase: 4 on a scale of 1 to 5."""
UNRELATED: Final = 0.5
"""Relatedness below which a judged pair counts as unrelated: 3 on a scale of 1 to 5."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A pair of texts; `relatedness` is in [0, 1], `label` is CONTRADICTION, NEUTRAL or ENTAILMENT."""

    first: str
    second: str
    relatedness: float
    label: str


def read(path: Path) -> list[Judged]:
    """Return the pairs of a file of SICK."""
    with path.open(encoding="utf-8") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [
            Judged(
                row["sentence_A"],
                row["sentence_B"],
                (float(row["relatedness_score"]) - 1) / 4,
                row["entailment_judgment"],
            )
            for row in rows
        ]


def cosines(services: Services, pairs: Sequence[Judged]) -> Floats:
    """Return float64[len(pairs)], the raw cosine of each pair, [-1, 1]."""
    texts = sorted({text for pair in pairs for text in (pair.first, pair.second)})
    row = {text: number for number, text in enumerate(texts)}
    vectors = np.concatenate(
        [matrix(embed(services, texts[start : start + 256])) for start in range(0, len(texts), 256)]
    )
    first, second = np.array([[row[pair.first], row[pair.second]] for pair in pairs], np.intp).T
    alike: Floats = np.vecdot(vectors[first], vectors[second]).astype(np.float64)
    return alike


def relatedness(pairs: Sequence[Judged]) -> Floats:
    """Return float64[len(pairs)], the judged relatedness of each pair, [0, 1]."""
    return np.array([pair.relatedness for pair in pairs], np.float64)


def taken(cosines: Floats, threshold: float) -> Mask:
    """Return bool[n], which pairs count as saying the same, with the tolerance of ranking."""
    reached: Mask = cosines >= threshold - EDGE
    return reached


def errors(pairs: Sequence[Judged], cosines: Floats, threshold: float) -> tuple[Rate, Rate]:
    """Return the share of paraphrases below a threshold, and that of different things which reach it."""
    same, related = taken(cosines, threshold), relatedness(pairs)
    return Rate.where(~same, related >= PARAPHRASE), Rate.where(same, related < UNRELATED)


def fit(cosines: ArrayLike, relatedness: ArrayLike, source: str) -> Calibration:
    """Return the calibration that fits judged pairs of texts.

    The line is an isotonic regression of relatedness on cosine (pool adjacent violators, Ayer et al. 1955), averaged
    over `KNOTS` runs of equally many pairs, from (0, 0) to (1, 1). The paraphrase threshold is where errors are equal:
    the share of paraphrases below it is the share of unrelated pairs at or above it.
    """
    cosine, related = np.asarray(cosines, dtype=np.float64), np.asarray(relatedness, dtype=np.float64)
    order = np.argsort(cosine, kind="stable")
    runs = np.array_split(np.arange(len(order)), KNOTS)
    rising = isotonic(related[order])
    knots = between([(float(cosine[order][run].mean()), float(rising[run].mean())) for run in runs])
    line = tuple(knot[0] for knot in knots), tuple(knot[1] for knot in knots)
    paraphrase = equal_error(cosine[related >= PARAPHRASE], cosine[related < UNRELATED])
    return Calibration(*line, paraphrase=round(paraphrase, 3), source=source)


def isotonic(values: ArrayLike) -> Floats:
    """Return float64[n], the rising sequence nearest to `values` in squared distance (pool adjacent violators)."""
    means: list[float] = []
    sizes: list[int] = []
    for value in np.asarray(values, dtype=np.float64):
        mean, size = float(value), 1
        while means and means[-1] >= mean:
            mean, size = (mean * size + means[-1] * sizes[-1]) / (size + sizes[-1]), size + sizes[-1]
            means.pop(), sizes.pop()
        means.append(mean)
        sizes.append(size)
    return np.repeat(np.array(means, dtype=np.float64), sizes)


def equal_error(same: Floats, different: Floats) -> float:
    """Return the cosine at which the share of `same` below it comes nearest to the share of `different` from it on."""
    thresholds = np.unique(np.concatenate([same, different]))
    missed = np.searchsorted(np.sort(same), thresholds, side="left") / len(same)
    mistaken = 1 - np.searchsorted(np.sort(different), thresholds, side="left") / len(different)
    return float(thresholds[np.argmin(np.abs(missed - mistaken))])
