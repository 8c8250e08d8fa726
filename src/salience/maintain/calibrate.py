"""The story of a calibration: embed judged pairs, compare, fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np

from salience.batch import Floats
from salience.errors import InputError, wrong_type
from salience.models.calibration import fit
from salience.ports import Calibration, Services
from salience.records import Judged, checks
from salience.steps import embed

CHUNK: Final = 256
"""Texts embedded at a time."""
Progress = Callable[[int], None]
"""Called with the number of texts embedded so far."""


def calibrate(
    services: Services, pairs: Sequence[Judged], source: str, progress: Progress | None = None
) -> Calibration:
    """Return what the cosines of the configured embedder mean, by pairs that people judged.

    Args:
        services: the ports.
        pairs: at least 20 with a relatedness from 0.75 on, and 20 below 0.5.
        source: the data, as the calibration is to name it.
        progress: told how many texts are embedded.

    Raises:
        InputError: too few pairs.
        EmbedderError: the embedder failed.
    """
    return fitted(pairs, cosines(services, pairs, progress), source)


def fitted(pairs: Sequence[Judged], alike: Floats, source: str) -> Calibration:
    """Return the calibration that the pairs and their cosines ask for; `calibrate` says what is raised."""
    return fit(alike, relatedness(pairs), checks.text("source", source))


def cosines(services: Services, pairs: Sequence[Judged], progress: Progress | None = None) -> Floats:
    """Return float64[len(pairs)], the raw cosine of each pair, [-1, 1]; a text that occurs twice is embedded once."""
    texts = sorted({text for pair in pairs for text in (pair.first, pair.second)})
    place = {text: number for number, text in enumerate(texts)}
    parts = [np.empty((0, services.embedder.dimension), np.float32)]
    for start in range(0, len(texts), CHUNK):
        parts.append(embed(services, texts[start : start + CHUNK]))
        if progress is not None:
            progress(min(start + CHUNK, len(texts)))
    vectors = np.concatenate(parts)
    first, second = np.array([[place[pair.first], place[pair.second]] for pair in pairs], np.intp).reshape(-1, 2).T
    alike: Floats = np.vecdot(vectors[first], vectors[second]).astype(np.float64)
    return alike


def relatedness(pairs: Sequence[Judged]) -> Floats:
    """Return float64[len(pairs)], what people said of each pair, [0, 1]."""
    return np.array([pair.relatedness for pair in pairs], np.float64)


def judged(pairs: Iterable[object]) -> list[Judged]:
    """Return pairs as they are, or from tuples (text, text, relatedness) with or without a label.

    Raises:
        InputError: something else; names its place.
    """
    if isinstance(pairs, (str, bytes)) or not isinstance(pairs, Iterable):
        raise wrong_type("pairs", pairs, "Give a list of pairs.")
    made = []
    for place, pair in enumerate(pairs):
        try:
            made.append(_judged(pair))
        except InputError as error:
            raise error.at(f"pairs[{place}].{error.field}") from None
    return made


def _judged(pair: object) -> Judged:
    if isinstance(pair, Judged):
        return pair
    if not isinstance(pair, (tuple, list)) or len(pair) not in (3, 4):
        raise wrong_type("pair", pair, "Give (text, text, relatedness), or a Judged.")
    return Judged(*pair)
