"""The page `docs/thresholds.md`: how often each threshold errs, counted on data that people judged.

Run as `python -m bench.thresholds FOLDER > docs/thresholds.md`, where FOLDER has `sick/`, `locomo/` and
`precisionmembench/`. A part of the page is a function from that folder to Markdown, and `PARTS` lists them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from bench.cutoffs import cut_offs
from bench.labels import labels
from bench.measured import EMBEDDERS, Measured, measured
from salience.batch import Floats, coded
from salience.evaluate import calibrate as judged
from salience.evaluate.calibrate import errors, taken
from salience.evaluate.metrics import Mask, Rate
from salience.extract.distinctions import distinctions
from salience.maintain.calibrate import relatedness
from salience.ports import EDGE
from salience.rank import profiles
from salience.rank.stages import covers
from salience.records import Judged

TEST: Final = Path("sick") / "SICK_test_annotated.txt"
RAW_PROFILE: Final = "mememory"
"""The profile whose contradiction threshold is a raw cosine, 0.75 as its page says."""
HEAD: Final = """\
# How often a threshold errs

Made by `make thresholds`, which runs `python -m bench.thresholds`; do not edit it by hand. A cell holds a share,
its 95 % interval (Wilson) and the count. For another embedder or pairs of your own, `salience calibrate` counts the
errors of the paraphrase threshold.

SICK's pairs are made to stand near each other: of two memories picked at random, far fewer would be taken for one.
"""
PARAPHRASES: Final = """\
## Paraphrase: when two memories count as saying the same

The cosine from which two texts count as saying the same (the number beside the embedder) was fitted on SICK train: as
many paraphrases (relatedness of 4 and more, of 5) are missed as different things (below 3) are taken for one. Counted
on SICK test. A cosine hardly sees a negation or another number, so a memory collapses into one that ranks higher only
if that one also covers it: says its numbers, dates and names, and makes the same claims (`rank/stages.py`). The first
column of an embedder counts the cosine alone, the second what would collapse, the first sentence of a pair being kept.
SICK calls many pairs neutral that people find closely related; both readings are shown.
"""
CONTRADICTIONS: Final = """\
## Contradiction: when a new memory is reported to conflict with an old one

A raw cosine above {above:g}, as mememory's page has it, counted on SICK test. A cosine tells that two texts speak of
the same, not that they disagree: it also reports texts that say the same, and some that only stand near. A report
blocks no write.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table: what it counts, among which pairs, and whether those that are taken or those that are left."""

    title: str
    among: Mask
    left: bool = False


def page(folder: Path) -> str:
    """Return the page, from the data in `folder`."""
    return "\n".join([HEAD, *(part(folder) for part in PARTS)])


def sick(folder: Path) -> str:
    """Return the parts on paraphrases, contradictions and labels, counted on the test pairs of SICK."""
    pairs = judged.read(folder / TEST)
    found = [measured(name, pairs) for name in EMBEDDERS]
    return "\n".join([paraphrases(pairs, found), contradictions(pairs, found), labels(pairs, found)])


def paraphrases(pairs: Sequence[Judged], found: Sequence[Measured]) -> str:
    """Return the part on the threshold from which near-duplicates collapse."""
    related = relatedness(pairs)
    rows = [
        labelled(pairs, "ENTAILMENT", "missed", left=True),
        labelled(pairs, "NEUTRAL", "taken for one"),
        labelled(pairs, "CONTRADICTION", "taken for one"),
        related_from(related, 1, 2, "taken for one"),
        related_from(related, 2, 3, "taken for one"),
        related_from(related, 3, 4, "taken for one (people do not say)"),
        related_from(related, 4, 5, "missed", left=True),
    ]
    covering, columns = covered(pairs), {}
    for one in found:
        columns[f"{one.embedder}, {one.calibration.paraphrase:g}"] = same(one)
        columns[f"{one.embedder}, and covered"] = same(one) & covering
    return "\n".join([PARAPHRASES, *table(rows, columns), "", *summary(pairs, found), ""])


def same(one: Measured) -> Mask:
    """Return which pairs reach the embedder's paraphrase threshold."""
    return taken(one.cosines, one.calibration.paraphrase)


def covered(pairs: Sequence[Judged]) -> Mask:
    """Return of which pairs the first text covers the second, as far as their distinctions tell."""
    numbers: dict[str, int] = {}

    def codes(text: str) -> list[int]:
        return [coded(item, numbers.setdefault(item, len(numbers))) for item in distinctions(text)]

    return np.array([covers(codes(pair.first), codes(pair.second)) for pair in pairs])


def summary(pairs: Sequence[Judged], found: Sequence[Measured]) -> Iterator[str]:
    """Yield the two errors that fitting makes equal, those of the cosine alone, for each embedder."""
    for one in found:
        counted = errors(pairs, one.cosines, one.calibration.paraphrase)
        shares = f"paraphrases missed {counted.missed}; different things taken for one {counted.mistaken}"
        yield f"- {one.embedder}, the cosine alone: {shares}."


def contradictions(pairs: Sequence[Judged], found: Sequence[Measured]) -> str:
    """Return the part on the threshold above which a new memory is reported to conflict with an old one."""
    above, related = raw_threshold(), relatedness(pairs)
    rows = [
        labelled(pairs, "CONTRADICTION", "missed", left=True),
        labelled(pairs, "NEUTRAL", "reported"),
        labelled(pairs, "ENTAILMENT", "reported"),
        *(related_from(related, low, low + 1, "reported") for low in (1, 2, 3, 4)),
    ]
    columns = {one.embedder: one.cosines > above + EDGE for one in found}
    return "\n".join([CONTRADICTIONS.format(above=above), *table(rows, columns), ""])


def raw_threshold() -> float:
    """Return the raw cosine above which `RAW_PROFILE` reports a contradiction."""
    above = profiles.load(RAW_PROFILE).contradiction_above
    if above is None:
        raise AssertionError(f"the profile {RAW_PROFILE} reports no contradictions")
    return above


def labelled(pairs: Sequence[Judged], label: str, what: str, left: bool = False) -> Row:
    """Return the row of the pairs that people gave `label`."""
    return Row(f"{label.lower()}: {what}", np.array([pair.label == label for pair in pairs]), left)


def related_from(related: Floats, low: int, high: int, what: str, left: bool = False) -> Row:
    """Return the row of the pairs whose relatedness, on SICK's scale of 1 to 5, is from `low` to below `high` or 5."""
    on_scale = 1 + 4 * related + EDGE
    among = (on_scale >= low) & ((on_scale < high) | (high == 5))
    return Row(f"relatedness {low} to {high}: {what}", among, left)


def table(rows: Sequence[Row], columns: Mapping[str, Mask]) -> Iterator[str]:
    """Yield the lines of a Markdown table: for each row and column, the share of pairs that it takes (or leaves)."""
    yield f"| pairs | n | {' | '.join(columns)} |"
    yield f"|---|---|{'---|' * len(columns)}"
    for row in rows:
        cells = (Rate.where(~hits if row.left else hits, row.among).cell for hits in columns.values())
        yield f"| {row.title} | {row.among.sum():,} | {' | '.join(cells)} |"


PARTS: Final[tuple[Callable[[Path], str], ...]] = (sick, partial(cut_offs, embedders=EMBEDDERS))
"""The parts of the page, in order; each reads its own data in the folder."""


def main(arguments: Sequence[str]) -> None:
    """Print the page."""
    if len(arguments) != 1:
        sys.exit("Name the folder of the data: python -m bench.thresholds FOLDER")
    sys.stdout.write(page(Path(arguments[0])))


if __name__ == "__main__":
    main(sys.argv[1:])
