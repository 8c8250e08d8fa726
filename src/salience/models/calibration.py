"""Calibration: from an embedder's cosines to the relatedness that people judge, and the threshold of a paraphrase.

`salience calibrate` writes calibrations to a TOML file with one table per embedder; every `connect` reads it.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from salience.batch import TOKEN_SCALE, Floats
from salience.errors import InputError, Words, shown, wrong_type
from salience.ports import TOKEN_FLOOR, UNCALIBRATED, Calibration, FullEmbedder, embeddings
from salience.records import checks

KNOTS: Final = 8
"""Inner knots of a fitted line."""
PARAPHRASE: Final = 0.75
"""Relatedness from which a judged pair counts as a paraphrase: 4 on a scale of 1 to 5."""
UNRELATED: Final = 0.5
"""Relatedness below which a judged pair counts as unrelated: 3 on a scale of 1 to 5."""
MIN_PAIRS: Final = 20
"""Least number of paraphrases, and of unrelated pairs."""
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


def fit(cosines: ArrayLike, relatedness: ArrayLike, source: str) -> Calibration:
    """Return the calibration that fits judged pairs of texts.

    The line is an isotonic regression of relatedness on cosine (pool adjacent violators, Ayer et al. 1955), averaged
    over `KNOTS` runs of equally many pairs, from (0, 0) to (1, 1). The paraphrase threshold is where errors are equal:
    the share of paraphrases below it is the share of unrelated pairs at or above it.

    Args:
        cosines: float[n], raw cosine of each pair, [-1, 1].
        relatedness: float[n], people's judgement of each pair, [0, 1].
        source: name of the data.

    Raises:
        InputError: other shapes or ranges, or fewer than `MIN_PAIRS` paraphrases or unrelated pairs.
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
    """Return the calibration from the file, else the embedder's own, else the shipped one, else `UNCALIBRATED`.

    A calibration from the file has the `token_floor` of the embedder's other one.

    Args:
        embedder: an embedder, which may have a `calibration`.
        fitted_here: calibrations of this installation, by embedder name.

    Raises:
        InputError: its `calibration` has another type.
    """
    own, name = getattr(embedder, "calibration", None), str(getattr(embedder, "name", ""))
    if name in fitted_here:
        return replace(fitted_here[name], token_floor=calibration_of(embedder).token_floor)
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
    line = _between(list(zip(cosine.tolist(), RELATEDNESS, strict=True)))
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
        if count < MIN_PAIRS:
            edge = PARAPHRASE if sort == "at least" else UNRELATED
            remedy = f"Give at least {MIN_PAIRS} pairs with a relatedness {sort} {edge}."
            raise InputError("relatedness", Words(f"{count} such pairs"), remedy)
    return cosine, related


def _between(inner: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the knots of `inner` that rise in both coordinates, to three decimals, between (0, 0) and (1, 1)."""
    knots = [(0.0, 0.0)]
    for knot in ((round(cosine, 3), round(related, 3)) for cosine, related in inner):
        if knots[-1][0] < knot[0] < 1 and knots[-1][1] < knot[1] < 1:
            knots.append(knot)
    return [*knots, (1.0, 1.0)]


def load(path: Path) -> dict[str, Calibration]:
    """Return the calibrations of a file by embedder name; none if there is no file.

    Raises:
        InputError: the file cannot be read, or has another format; the message names the file and the key.
    """
    try:
        tables = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        reason = f"{shown(str(path))} cannot be read: {error.strerror}"
        raise InputError("calibrations", str(path), "Give a file that can be read.", reason) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(
            "calibrations", str(path), "Write it in TOML.", f"{shown(str(path))} is not TOML: {error}"
        ) from None
    try:
        return {name: _calibration(name, table) for name, table in tables.items()}
    except InputError as error:
        raise error.at(f"{path}: {error.field}") from None


def save(path: Path, name: str, calibration: Calibration) -> None:
    """Write the calibration of the embedder `name` to a file; keep the other calibrations of the file.

    Raises:
        InputError: the file has another format, or cannot be written.
    """
    tables = {**load(path), name: calibration}
    text = "\n".join((FILE_HEADER, *(to_toml(held, tables[held]) for held in sorted(tables))))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", encoding="utf-8", delete=False) as file:
            file.write(text)
        Path(file.name).replace(path)  # atomic: another process may be reading it
    except OSError as error:
        reason = f"{shown(str(path))} cannot be written: {error.strerror}"
        raise InputError("calibrations", str(path), "Give a file that can be written.", reason) from None


def to_toml(name: str, calibration: Calibration) -> str:
    """Return a calibration as a TOML table."""
    lines = (f"{key} = {_toml_value(getattr(calibration, key))}\n" for key in KEYS)
    return f"[{_toml_value(name)}]\n{''.join(lines)}"


def _toml_value(value: object) -> str:
    """Return a string, number or list as TOML; TOML is JSON here, except that it escapes DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _calibration(name: str, table: object) -> Calibration:
    if not isinstance(table, Mapping):
        raise InputError(name, Words("not a table"), _REMEDY, "is not a table")
    for key in KEYS:
        if key not in table:
            raise InputError(f"{name}.{key}", None, _REMEDY)
    for key in table:
        checks.choice(f"{name}: key", key, KEYS)
    cosine = _knots(f"{name}.cosine", table["cosine"], -1.0)
    relatedness = _knots(f"{name}.relatedness", table["relatedness"], 0.0)
    if len(cosine) != len(relatedness):
        raise InputError(
            f"{name}.relatedness",
            Words(f"{len(relatedness)} numbers"),
            f"Give {len(cosine)}.",
            f"has {len(relatedness)} numbers",
        )
    paraphrase = checks.number(f"{name}.paraphrase", table["paraphrase"], -1.0, 1.0)
    return Calibration(cosine, relatedness, paraphrase, checks.text(f"{name}.source", table["source"]))


def _knots(field: str, values: Any, low: float) -> tuple[float, ...]:
    """Return a list of rising numbers."""
    if not isinstance(values, list) or len(values) < 2:
        raise InputError(
            field,
            Words("not a list"),
            "Give at least two numbers, each above the last.",
            "is no list of numbers",
        )
    numbers = tuple(checks.number(f"{field}[{place}]", value, low, 1.0) for place, value in enumerate(values))
    if any(after <= before for before, after in pairwise(numbers)):
        raise InputError(field, values, "Give numbers each of which is above the one before.")
    return numbers


FILE_HEADER: Final = """\
# What the cosines of embedders mean, by the embedder's name; written by `salience calibrate`, read by every `connect`.
# `cosine` and `relatedness` are the knots of a rising line; two texts say the same from the cosine `paraphrase` on.
"""
KEYS: Final = ("cosine", "relatedness", "paraphrase", "source")
_REMEDY: Final = "Correct it, or remove the table and run `salience calibrate` again."
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
"""Shipped calibrations by embedder name, as `fit` returns them."""
