"""Files of judged pairs: two texts, how related people find them, and what else they said of them.

```
own       first, second, relatedness (0 to 1), label?
SICK      sentence_A, sentence_B, relatedness_score (1 to 5), entailment_judgment
```
Either as a table with tabs between its columns and their names in the first line, in any order and among others; or
as a JSON object a line. The content decides, not the name of the file. All are UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from salience.errors import ImportLineError, InputError, Words
from salience.lines import parsed_object
from salience.records import Judged, checks


@dataclass(frozen=True, slots=True)
class Layout:
    """What a format calls the parts of a pair, and the scale of its judgements."""

    first: str
    second: str
    relatedness: str
    label: str
    low: float
    high: float


LAYOUTS: Final = (
    Layout("first", "second", "relatedness", "label", 0.0, 1.0),
    Layout("sentence_A", "sentence_B", "relatedness_score", "entailment_judgment", 1.0, 5.0),
)
"""The formats that are known; a file's first line says which one it has."""


def read(path: str | Path) -> list[Judged]:
    """Return the pairs of a file, in order.

    Raises:
        InputError: the file cannot be read, is none of `LAYOUTS`, or a pair cannot be accepted; names file and line.
    """
    path = Path(path)
    return [_judged(path, number, item) for number, item in _items(path, _lines(path))]


def _items(path: Path, lines: list[tuple[int, str]]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield (number of the line, names of the columns to their values)."""
    if not lines:
        raise _unknown(path)
    if lines[0][1].lstrip().startswith("{"):
        for number, line in lines:
            try:
                yield number, parsed_object(number, line)
            except ImportLineError as error:
                raise InputError(f"{error.field} of {path}", error.value, error.remedy) from None
        return
    names = lines[0][1].split("\t")
    for number, line in lines[1:]:
        values = line.split("\t")
        if len(values) != len(names):
            remedy = f"Give {len(names)} values with tabs between them, as the first line names them."
            raise InputError(
                f"line {number} of {path}", Words(f"{len(values)} values"), remedy, f"has {len(values)} values"
            )
        yield number, dict(zip(names, values, strict=True))


def _judged(path: Path, number: int, item: Mapping[str, Any]) -> Judged:
    layout = next((one for one in LAYOUTS if {one.first, one.second, one.relatedness} <= item.keys()), None)
    if layout is None:
        raise _unknown(path) if number == 1 else _unknown(path, number)
    try:
        score = checks.number(layout.relatedness, _number(item[layout.relatedness]), layout.low, layout.high)
        relatedness = (score - layout.low) / (layout.high - layout.low)
        return Judged(item[layout.first], item[layout.second], relatedness, item.get(layout.label) or None)
    except InputError as error:
        raise error.at(f"{error.field} in line {number} of {path}") from None


def _number(value: object) -> object:
    """Return the number that a text writes; what is none is for the check to refuse."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return Words("text that is no number")


def _lines(path: Path) -> list[tuple[int, str]]:
    """Return (number, line) of the lines that are not blank."""
    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        reason = Words(error.strerror or type(error).__name__)
        raise InputError(f"file {path}", reason, "Give a file that can be read.", f"cannot be read: {reason}") from None
    except UnicodeDecodeError:
        raise InputError(
            f"file {path}", Words("text that is not UTF-8"), "Save the file as UTF-8.", "is not UTF-8"
        ) from None
    return [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def _unknown(path: Path, line: int | None = None) -> InputError:
    own = LAYOUTS[0]
    remedy = (
        f"Give a table with tabs and the columns {own.first}, {own.second}, {own.relatedness} (0 to 1), or a JSON "
        "object a line with these keys; or a file of SICK."
    )
    place = f"file {path}" if line is None else f"line {line} of {path}"
    return InputError(place, Words("its content"), remedy, "has an unknown format")
