"""Calibration: from an embedder's cosines to the relatedness that people judge, and the threshold of a paraphrase."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from salience.batch import TOKEN_SCALE, Floats
from salience.errors import wrong_type
from salience.ports import TOKEN_FLOOR, UNCALIBRATED, Calibration, FullEmbedder, embeddings

REFERENCE: Final = Path(__file__).parent / "data" / "reference-texts.json"
"""Subjects: two statements that say the same, two related ones, and a question about the first."""
SHARES: Final = (0.02, 0.1, 0.25, 0.5, 0.75, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 0.996)
"""Shares of the pairs of `REFERENCE`, by rising cosine, at which `measured` puts its knots."""
RELATEDNESS: Final = (0.000, 0.000, 0.000, 0.046, 0.119, 0.170, 0.226, 0.277, 0.357, 0.506, 0.601, 0.677, 0.810)
"""Relatedness of these shares by minilm, whose calibration was fitted to judged pairs."""
SAME: Final = 0.66
"""Relatedness of the paraphrase threshold of the fitted embedders: 0.65 to 0.67."""
UNRELATED_TOKENS: Final = -0.13
"""Mean of unrelated pairs of `REFERENCE` on the scale of `late_interaction`, before it is clipped, by minilm."""


def calibration_of(embedder: object) -> Calibration:
    """Return an embedder's own calibration, else the shipped one, else `UNCALIBRATED`.

    Raises:
        InputError: its `calibration` has another type.
    """
    own, name = getattr(embedder, "calibration", None), str(getattr(embedder, "name", ""))
    if own is None:
        return CALIBRATIONS.get(name, UNCALIBRATED)
    if not isinstance(own, Calibration):
        raise wrong_type("embedder.calibration", own, "Give a Calibration, or None.")
    return own


def measured(embedder: FullEmbedder) -> Calibration:
    """Return the calibration of an unknown embedder, from its cosines between the 60 texts of `REFERENCE`.

    Each share of the pairs gets the relatedness that minilm gives it: cosine and relatedness with the same rank belong
    together (equipercentile equating). The paraphrase threshold is where relatedness is `SAME`, as it is for all
    embedders that were fitted to judged pairs. The token floor makes unrelated texts as far apart as they are for
    minilm.

    Returns `UNCALIBRATED` for an embedder whose cosines do not tell related texts from others.

    Raises:
        EmbedderError: the embedder failed.
    """
    subjects: list[list[str]] = json.loads(REFERENCE.read_text("utf-8"))
    statements = [text for *told, _ in subjects for text in told]
    texts = [embedder.query_prefix + question for *_, question in subjects]
    texts += [embedder.passage_prefix + text for text in statements]
    made = embeddings(embedder, texts)
    vectors = np.stack([one.vector for one in made]).astype(np.float64)
    questions, told = vectors[: len(subjects)], vectors[len(subjects) :]
    asked = questions @ told.T
    owner = np.repeat(np.arange(len(subjects)), len(statements) // len(subjects))
    answers = owner == np.arange(len(subjects))[:, None]
    if np.median(asked[answers]) <= np.quantile(asked[~answers], 0.9):
        return UNCALIBRATED
    cosine = np.quantile(np.concatenate([asked.ravel(), (told @ told.T)[np.triu_indices(len(told), 1)]]), SHARES)
    line = between(list(zip(cosine.tolist(), RELATEDNESS, strict=True)))
    knots = tuple(knot[0] for knot in line), tuple(knot[1] for knot in line)
    floor = TOKEN_FLOOR
    if made[0].tokens is not None:
        tokens = [np.asarray(one.tokens, np.float64) / TOKEN_SCALE for one in made]
        floor = _token_floor(tokens[: len(subjects)], tokens[len(subjects) :], ~answers)
    source = f"included texts: {len(texts)}, with the relatedness that minilm gives them"
    return Calibration(
        *knots, paraphrase=round(float(np.interp(SAME, knots[1], knots[0])), 3), source=source, token_floor=floor
    )


def _token_floor(questions: Sequence[Floats], statements: Sequence[Floats], unrelated: NDArray[np.bool_]) -> float:
    """Return the `Calibration.token_floor` by which unrelated pairs have the mean `UNRELATED_TOKENS`."""
    means = [[float((own @ other.T).max(axis=1).mean()) for other in statements] for own in questions]
    mean = float(np.array(means)[unrelated].mean())
    return round(min(max((mean - UNRELATED_TOKENS) / (1 - UNRELATED_TOKENS), 0.0), 0.9), 2)


def between(inner: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the knots of `inner` that rise in both coordinates, to three decimals, between (0, 0) and (1, 1)."""
    knots = [(0.0, 0.0)]
    for knot in ((round(cosine, 3), round(related, 3)) for cosine, related in inner):
        if knots[-1][0] < knot[0] < 1 and knots[-1][1] < knot[1] < 1:
            knots.append(knot)
    return [*knots, (1.0, 1.0)]


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
    "bge-small-en-v1.5-int8": Calibration(
        cosine=(0.0, 0.475, 0.631, 0.707, 0.764, 0.819, 0.876, 0.929, 0.974, 1.0),
        relatedness=(0.0, 0.184, 0.476, 0.588, 0.643, 0.678, 0.733, 0.824, 0.918, 1.0),
        paraphrase=0.769,
        source=_SICK,
        token_floor=0.19,
    ),
    "universal-sentence-encoder-multilingual-3-int6": Calibration(
        cosine=(0.0, 0.233, 0.455, 0.586, 0.696, 0.787, 0.85, 0.904, 0.963, 1.0),
        relatedness=(0.0, 0.184, 0.482, 0.592, 0.667, 0.702, 0.727, 0.799, 0.891, 1.0),
        paraphrase=0.685,
        source=_SICK,
    ),
}
"""Shipped calibrations by embedder name, as `bench.judged.fit` returns them."""
