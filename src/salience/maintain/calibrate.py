"""Calibration of an embedder: fit what its cosines mean to pairs of texts that people judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np

from salience.batch import Floats
from salience.errors import InputError, wrong_type
from salience.models.calibration import fit
from salience.ports import Calibration, Services
from salience.records import Judged, checks
from salience.steps import embed, matrix

CHUNK: Final = 256
"""Texts embedded at a time."""
Progress = Callable[[int], None]
"""Called with the number of texts embedded so far."""


def calibrate(
    services: Services, pairs: Sequence[Judged], source: str, progress: Progress | None = None
) -> Calibration:
    """Return the calibration of the configured embedder, from at least 20 pairs related 0.75 or more and 20 below 0.5.

    Raises:
        InputError: too few pairs.
        EmbedderError: the embedder failed.
    """
    return fitted(pairs, cosines(services, pairs, progress), source)


def fitted(pairs: Sequence[Judged], cosines: Floats, source: str) -> Calibration:
    """Return the calibration for judged pairs and their cosines; raises as `calibrate`."""
    return fit(cosines, relatedness(pairs), checks.text("source", source))


def cosines(services: Services, pairs: Sequence[Judged], progress: Progress | None = None) -> Floats:
    """Return float64[len(pairs)], the raw cosine of each pair, [-1, 1]; equal texts are embedded once."""
    texts = sorted({text for pair in pairs for text in (pair.first, pair.second)})
    row = {text: number for number, text in enumerate(texts)}
    parts = [np.empty((0, services.embedder.dimension), np.float32)]
    for start in range(0, len(texts), CHUNK):
        parts.append(matrix(embed(services, texts[start : start + CHUNK])))
        if progress is not None:
            progress(min(start + CHUNK, len(texts)))
    vectors = np.concatenate(parts)
    first, second = np.array([[row[pair.first], row[pair.second]] for pair in pairs], np.intp).reshape(-1, 2).T
    alike: Floats = np.vecdot(vectors[first], vectors[second]).astype(np.float64)
    return alike


def relatedness(pairs: Sequence[Judged]) -> Floats:
    """Return float64[len(pairs)], the judged relatedness of each pair, [0, 1]."""
    return np.array([pair.relatedness for pair in pairs], np.float64)


def judged(pairs: Iterable[object]) -> list[Judged]:
    """Return `Judged` pairs, from such pairs or tuples (text, text, relatedness[, label]).

    Raises:
        InputError: an invalid pair; the error names its position.
    """
    if isinstance(pairs, (str, bytes)) or not isinstance(pairs, Iterable):
        raise wrong_type("pairs", pairs, "Give a list of pairs.")
    made: list[Judged] = []
    for position, pair in enumerate(pairs):
        try:
            if isinstance(pair, Judged):
                made.append(pair)
            elif isinstance(pair, (tuple, list)) and len(pair) in (3, 4):
                made.append(Judged(*pair))
            else:
                raise wrong_type("pair", pair, "Give (text, text, relatedness), or a Judged.")
        except InputError as error:
            raise error.at(f"pairs[{position}].{error.field}") from None
    return made
