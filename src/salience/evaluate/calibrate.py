"""Files of judged pairs for calibration, and the errors of a paraphrase threshold on them.

```
own       first, second, relatedness (0 to 1), label?
SICK      sentence_A, sentence_B, relatedness_score (1 to 5), entailment_judgment
```
Either a table with tabs, whose first line names the columns in any order, or one JSON object per line. The content
decides the format. All files are UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from salience.batch import Floats
from salience.errors import ImportLineError, InputError, Words
from salience.evaluate.datasets.loader import unreadable
from salience.evaluate.metrics import Mask, Rate
from salience.lines import parsed_object
from salience.maintain.calibrate import relatedness
from salience.models.calibration import PARAPHRASE, UNRELATED
from salience.ports import EDGE
from salience.records import Judged, checks


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a format, and the scale of its judgements."""

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


def read(path: str | Path) -> list[Judged]:
    """Return the pairs of a file.

    Raises:
        InputError: an unreadable file, an unknown format, or an invalid pair; names file and line.
    """
    path = Path(path)
    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise unreadable(path, error) from None
    except UnicodeDecodeError:
        value = Words("text that is not UTF-8")
        raise InputError(f"file {path}", value, "Save the file as UTF-8.", "is not UTF-8") from None
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    return [_judged(path, number, item) for number, item in _items(path, lines)]


def _items(path: Path, lines: list[tuple[int, str]]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield (number of the line, column -> value)."""
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
            found = f"{len(values)} values"
            raise InputError(f"line {number} of {path}", Words(found), remedy, f"has {found}")
        yield number, dict(zip(names, values, strict=True))


def _judged(path: Path, number: int, item: Mapping[str, Any]) -> Judged:
    layout = next((one for one in LAYOUTS if {one.first, one.second, one.relatedness} <= item.keys()), None)
    if layout is None:
        raise _unknown(path, None if number == 1 else number)
    written = item[layout.relatedness]
    try:
        if isinstance(written, str):
            try:
                written = float(written)
            except ValueError:
                written = Words("text that is no number")
        score = checks.number(layout.relatedness, written, layout.low, layout.high)
        share = (score - layout.low) / (layout.high - layout.low)
        return Judged(item[layout.first], item[layout.second], share, item.get(layout.label) or None)
    except InputError as error:
        raise error.at(f"{error.field} in line {number} of {path}") from None


def _unknown(path: Path, line: int | None = None) -> InputError:
    own = LAYOUTS[0]
    remedy = (
        f"Give a table with tabs and the columns {own.first}, {own.second}, {own.relatedness} (0 to 1), or a JSON "
        "object a line with these keys; or a file of SICK."
    )
    place = f"file {path}" if line is None else f"line {line} of {path}"
    return InputError(place, Words("its content"), remedy, "has an unknown format")


@dataclass(frozen=True, slots=True)
class Errors:
    """The errors of a paraphrase threshold on judged pairs.

    Attributes:
        missed: paraphrases (relatedness from `PARAPHRASE`) below the threshold.
        mistaken: different things (relatedness below `UNRELATED`) that reach it.
    """

    missed: Rate
    mistaken: Rate


def errors(pairs: Sequence[Judged], cosines: Floats, threshold: float) -> Errors:
    """Count the pairs for which a raw cosine of at least `threshold` disagrees with people."""
    same, related = taken(cosines, threshold), relatedness(pairs)
    return Errors(Rate.where(~same, related >= PARAPHRASE), Rate.where(same, related < UNRELATED))


def taken(cosines: Floats, threshold: float) -> Mask:
    """Return bool[n], which pairs count as saying the same, with the tolerance of ranking."""
    reached: Mask = cosines >= threshold - EDGE
    return reached
