"""What the cosines of an embedder mean: how related people find two texts, and from where on they say the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from salience.batch import Floats
from salience.errors import InputError, Words, wrong_type
from salience.ports import Calibration

KNOTS: Final = 8
"""Knots between the two ends of a fitted line."""
PARAPHRASE: Final = 0.75
"""Relatedness from which a judged pair counts as a paraphrase: 4 on a scale of 1 to 5."""
UNRELATED: Final = 0.5
"""Relatedness below which a judged pair counts as two different things: 3 on a scale of 1 to 5."""
FEWEST: Final = 20
"""Fewest judged pairs of each of the two sorts."""


def fit(cosines: ArrayLike, relatedness: ArrayLike, source: str) -> Calibration:
    """Return the calibration that judged pairs of texts ask for.

    The line is an isotonic regression of relatedness on cosine (pool adjacent violators, Ayer et al. 1955), averaged
    over `KNOTS` runs of equally many pairs, from (0, 0) to (1, 1). The paraphrase threshold is where errors are equal:
    the share of paraphrases (`PARAPHRASE`) below it and the share of different things (`UNRELATED`) at or above it.

    Args:
        cosines: float[n], raw cosine of each pair, [-1, 1].
        relatedness: float[n], people's judgement of each pair, [0, 1].
        source: the data, as it is to be named.

    Raises:
        InputError: other shapes or ranges, or fewer than `FEWEST` paraphrases or different things.
    """
    cosine, related = _pairs(cosines, relatedness)
    order = np.argsort(cosine, kind="stable")
    runs = np.array_split(np.arange(len(order)), KNOTS)
    rising = isotonic(related[order])
    knots = _between([(float(cosine[order][run].mean()), float(rising[run].mean())) for run in runs])
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


def calibration_of(embedder: object, fitted_here: Mapping[str, Calibration] = {}) -> Calibration:
    """Return the calibration fitted here for the embedder's name, else its own, else the one that ships, else none.

    Args:
        embedder: an embedder, which may have a `calibration`.
        fitted_here: by the name of the embedder, those of this installation.

    Raises:
        InputError: its `calibration` is something else.
    """
    own, name = getattr(embedder, "calibration", None), str(getattr(embedder, "name", ""))
    if name in fitted_here:
        return fitted_here[name]
    if own is None:
        return CALIBRATIONS.get(name, UNCALIBRATED)
    if not isinstance(own, Calibration):
        raise wrong_type("embedder.calibration", own, "Give a Calibration, or None.")
    return own


def _pairs(cosines: ArrayLike, relatedness: ArrayLike) -> tuple[Floats, Floats]:
    cosine, related = np.asarray(cosines, dtype=np.float64), np.asarray(relatedness, dtype=np.float64)
    if cosine.ndim != 1 or cosine.shape != related.shape:
        raise InputError("relatedness", Words(f"shape {related.shape}"), f"Give one for each of {cosine.size} cosines.")
    for field, column, low in (("cosines", cosine, -1.0), ("relatedness", related, 0.0)):
        if not ((column >= low - 1e-6) & (column <= 1 + 1e-6)).all():  # also refuses NaN
            raise InputError(
                field, Words("a number out of range"), f"Give numbers from {low:g} to 1.", "has a number out of range"
            )
    for sort, count in (("at least", (related >= PARAPHRASE).sum()), ("below", (related < UNRELATED).sum())):
        if count < FEWEST:
            edge = PARAPHRASE if sort == "at least" else UNRELATED
            remedy = f"Give at least {FEWEST} pairs with a relatedness {sort} {edge}."
            raise InputError("relatedness", Words(f"{count} such pairs"), remedy)
    return cosine, related


def _between(inner: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return knots from (0, 0) to (1, 1) by those of `inner` that rise in both, to three decimals."""
    knots = [(0.0, 0.0)]
    for knot in ((round(cosine, 3), round(related, 3)) for cosine, related in inner):
        if knots[-1][0] < knot[0] < 1 and knots[-1][1] < knot[1] < 1:
            knots.append(knot)
    return [*knots, (1.0, 1.0)]


UNCALIBRATED: Final = Calibration(
    cosine=(0.0, 1.0),
    relatedness=(0.0, 1.0),
    paraphrase=0.90,
    source="none: this embedder is not calibrated; cosines stand for themselves",
)
"""For an embedder of which nothing is known: few texts count as the same, since a wrong merge is worse than none."""

_SICK: Final = "SICK train, 4,500 judged pairs (Marelli et al., LREC 2014; CC BY-NC-SA, of which only figures are here)"

CALIBRATIONS: Final[Mapping[str, Calibration]] = {
    "all-MiniLM-L6-v2-int8": Calibration(
        cosine=(0.0, 0.158, 0.424, 0.555, 0.668, 0.758, 0.828, 0.894, 0.965, 1.0),
        relatedness=(0.0, 0.159, 0.481, 0.6, 0.662, 0.692, 0.734, 0.814, 0.901, 1.0),
        paraphrase=0.664,
        source=_SICK,
    ),
    "wordllama-l2-supercat-256": Calibration(
        cosine=(0.0, 0.184, 0.43, 0.563, 0.684, 0.791, 0.875, 0.934, 0.976, 1.0),
        relatedness=(0.0, 0.179, 0.488, 0.599, 0.676, 0.727, 0.772, 0.791, 0.81, 1.0),
        paraphrase=0.67,
        source=_SICK,
    ),
}
"""By the embedder's name; each is what `fit` returns."""
