"""The file of the calibrations that were fitted here: TOML, a table for each embedder."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final

from salience.errors import InputError, Words, shown
from salience.ports import Calibration
from salience.records import checks

HEAD: Final = """\
# What the cosines of embedders mean, by the embedder's name; written by `salience calibrate`, read by every `connect`.
# `cosine` and `relatedness` are the knots of a rising line; two texts say the same from the cosine `paraphrase` on.
"""
KEYS: Final = ("cosine", "relatedness", "paraphrase", "source")
_REMEDY: Final = "Correct it, or remove the table and run `salience calibrate` again."


def load(path: Path) -> dict[str, Calibration]:
    """Return the calibrations of a file by the embedder's name; none where there is no file.

    Raises:
        InputError: the file cannot be read, or holds something else; names the file and the key.
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
    """Put the calibration of the embedder `name` into a file, which is made if it is not there; others in it stay.

    Raises:
        InputError: the file holds something else, or cannot be written.
    """
    tables = {**load(path), name: calibration}
    text = "\n".join((HEAD, *(written(held, tables[held]) for held in sorted(tables))))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", encoding="utf-8", delete=False) as file:
            file.write(text)
        Path(file.name).replace(path)  # whole or not at all: another process may be reading it
    except OSError as error:
        reason = f"{shown(str(path))} cannot be written: {error.strerror}"
        raise InputError("calibrations", str(path), "Give a file that can be written.", reason) from None


def written(name: str, calibration: Calibration) -> str:
    """Return a calibration as a table of TOML."""
    lines = (f"{key} = {_value(getattr(calibration, key))}\n" for key in KEYS)
    return f"[{_value(name)}]\n{''.join(lines)}"


def _value(value: object) -> str:
    """Return a text, a number or a list as TOML writes it: as JSON does, but for one sign."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _calibration(name: str, table: object) -> Calibration:
    if not isinstance(table, Mapping):
        raise InputError(name, Words("something else than a table"), _REMEDY, "is not a table")
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
    """Return the numbers of a line that rises."""
    if not isinstance(values, list) or len(values) < 2:
        raise InputError(
            field,
            Words("something else than a list"),
            "Give at least two numbers, each above the last.",
            "is no list of numbers",
        )
    numbers = tuple(checks.number(f"{field}[{place}]", value, low, 1.0) for place, value in enumerate(values))
    if any(after <= before for before, after in pairwise(numbers)):
        raise InputError(field, values, "Give numbers each of which is above the one before.")
    return numbers
