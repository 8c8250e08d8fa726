"""How often each threshold errs, counted on data that people judged: prints docs/figures/thresholds.md.

    python -m bench.thresholds FOLDER > docs/figures/thresholds.md

FOLDER has `sick/`, `locomo/` and `precisionmembench/`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, get_args

import numpy as np

from bench import judged
from bench.judged import Judged, cosines, errors, relatedness, taken
from bench.rates import Mask, Rate
from salience import compose
from salience.batch import Floats, coded
from salience.evaluate.metrics import precision
from salience.evaluate.run import FOREIGN, Naming, Plan, Result, Terms, evaluate, sources
from salience.extract.conflicts import relation
from salience.extract.distinctions import distinctions
from salience.models.calibration import calibration_of
from salience.ports import EDGE, Calibration
from salience.rank import profiles
from salience.rank.profile import Profile
from salience.rank.stages import covers
from salience.records import Label

EMBEDDERS: Final = ("minilm", "static")
TEST: Final = Path("sick") / "SICK_test_annotated.txt"
RAW_PROFILE: Final = "mememory"
LABELS: Final[tuple[Label, ...]] = get_args(Label)
JUDGEMENTS: Final = ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")
REPORTING: Final = ("mememory", "salience")
PAIRS, MISSED = 185, 9
"""How many pairs `tests/extract/pairs.py` has, and how many of these get another label; a test there holds both."""
FIRST_SIGHT: Final = Rate(110, 130)
"""Pairs of these that had the right label when the rules saw them for the first time."""
CATEGORIES: Final = frozenset({"1", "2", "3", "4"})
FOREIGNERS: Final = 600
CUT, WHOLE = "precise", "without the cut-off"
WORDS: Final[Mapping[Naming, str]] = {
    "strip": "names taken out",
    "keep": "names as they are",
    "swap": "names of the other conversation's speakers put in",
}
HEAD: Final = """\
# Error rates of the thresholds

Made by `make thresholds` (`python -m bench.thresholds`). Do not edit it by hand.

A cell has a share, its 95 % interval (Wilson) and the count. SICK's pairs are chosen to be similar: of two random
memories, far fewer would be taken for one.
"""
PARAPHRASES: Final = """\
## Paraphrase: when two memories say the same

The cosine beside the embedder was fitted on SICK train, so that as many paraphrases (relatedness of at least 4 of 5)
are missed as different things (below 3) are taken for one. Counted on SICK test. A cosine hardly sees a negation or
another number, so memorysync collapses a memory into a higher-ranked one only if that one also covers it
(`rank/stages.py`): its numbers, dates, names and claims. The first column of an embedder counts the cosine alone, the
second what collapses.
SICK calls many closely related pairs neutral, so both readings are shown.
"""
CONTRADICTIONS: Final = """\
## Contradiction: when a new memory conflicts with an old one

A raw cosine above {above:g}, as in `mememory`, counted on SICK test. A cosine shows that two texts have the same
subject, not that they disagree. A report blocks no write.
"""
CONFLICTS: Final = """\
## Labels of conflicts

Above the threshold, rules over the words decide: the new memory repeats the old one (`duplicate`), gives a later state
(`update`), contradicts it (`contradiction`), or none of these (`related`). Counted on SICK test; the second sentence of
a pair is the new one. The rules were made on SICK train and on pairs written by hand. A cell has the share of pairs
with a label of SICK that got ours.

SICK's entailment includes sentences that say less, which are no duplicates. Missed contradictions mostly replace a verb
or a noun ("is riding", "is falling off"), or negate a synonym ("no cat", "a kitten"). SICK has no names, few numbers
and nothing that changes, so it does not test `update`. `tests/extract/pairs.py` does, with {pairs} pairs as agents
write them: {missed} get another label than people gave. Of the pairs that the rules had not seen, {first} got the right
label.
"""
CUT_OFF: Final = """\
## Cut-off: when a memory fits a question at all

`precise` returns nothing that fits a question no better than chance (`[stage.cut_off]`). On LoCoMo, one memory per
turn: {n:,} questions asked in the store of another conversation, for each way to treat their names, and {own:,}
questions of categories 1 to 4 in their own store. The hardest row asks about somebody who is in the store for something
that this person never mentioned. On precisionMemBench: the share of empty answers if there is nothing to find, and the
mean precision of the others.
"""


@dataclass(frozen=True)
class Measured:
    """An embedder, the calibration that ships with it, and its cosine of each pair."""

    embedder: str
    calibration: Calibration
    cosines: Floats


def measured(embedder: str, pairs: Sequence[Judged]) -> Measured:
    """Return the cosines of pairs under an embedder."""
    with compose.local(":memory:", embedder=embedder) as engine:
        return Measured(embedder, calibration_of(engine.services.embedder), cosines(engine.services, pairs))


def page(folder: Path) -> str:
    """Return the page."""
    pairs = judged.read(folder / TEST)
    found = [measured(name, pairs) for name in EMBEDDERS]
    parts = [paraphrases(pairs, found), contradictions(pairs, found), conflicts(pairs, found), cut_offs(folder)]
    return "\n".join([HEAD, *parts])


# --- Paraphrases and contradictions -----------------------------------------------------------------------------------

Row = tuple[str, Mask, bool]
"""A title, the pairs that it counts among, and whether it counts the ones that are not taken."""


def labelled(pairs: Sequence[Judged], label: str, what: str, left: bool = False) -> Row:
    """Return the row of the pairs that people gave a label."""
    return f"{label.lower()}: {what}", np.array([pair.label == label for pair in pairs]), left


def related(pairs: Sequence[Judged], low: int, high: int, what: str, left: bool = False) -> Row:
    """Return the row of the pairs whose relatedness, from 1 to 5, is from `low` to below `high` (or 5)."""
    on_scale = 1 + 4 * relatedness(pairs) + EDGE
    among = (on_scale >= low) & ((on_scale < high) | (high == 5))
    return f"relatedness {low} to {high}: {what}", among, left


def table(rows: Sequence[Row], columns: Mapping[str, Mask]) -> Iterator[str]:
    """Yield the lines of a table: for each row and column, the share of pairs that are taken (or left)."""
    yield f"| pairs | n | {' | '.join(columns)} |"
    yield f"|---|---|{'---|' * len(columns)}"
    for title, among, left in rows:
        cells = (Rate.where(~hits if left else hits, among).cell for hits in columns.values())
        yield f"| {title} | {among.sum():,} | {' | '.join(cells)} |"


def paraphrases(pairs: Sequence[Judged], found: Sequence[Measured]) -> str:
    """Return the part on the threshold from which near-duplicates collapse."""
    rows = [
        labelled(pairs, "ENTAILMENT", "missed", left=True),
        labelled(pairs, "NEUTRAL", "taken for one"),
        labelled(pairs, "CONTRADICTION", "taken for one"),
        related(pairs, 1, 2, "taken for one"),
        related(pairs, 2, 3, "taken for one"),
        related(pairs, 3, 4, "taken for one (people do not say)"),
        related(pairs, 4, 5, "missed", left=True),
    ]
    numbers: dict[str, int] = {}

    def codes(text: str) -> list[int]:
        return [coded(item, numbers.setdefault(item, len(numbers))) for item in distinctions(text)]

    covered = np.array([covers(codes(pair.first), codes(pair.second)) for pair in pairs])
    columns, lines = {}, []
    for one in found:
        threshold = one.calibration.paraphrase
        columns[f"{one.embedder}, {threshold:g}"] = taken(one.cosines, threshold)
        columns[f"{one.embedder}, and covered"] = taken(one.cosines, threshold) & covered
        missed, mistaken = errors(pairs, one.cosines, threshold)
        shares = f"paraphrases missed {missed}; different things taken for one {mistaken}"
        lines.append(f"- {one.embedder}, the cosine alone: {shares}.")
    return "\n".join([PARAPHRASES, *table(rows, columns), "", *lines, ""])


def reports_above(profile: Profile) -> float:
    """Return the similarity above which a profile reports a conflict."""
    assert profile.contradiction_above is not None
    return profile.contradiction_above


def contradictions(pairs: Sequence[Judged], found: Sequence[Measured]) -> str:
    """Return the part on the threshold above which a new memory is reported to conflict with an old one."""
    above = reports_above(profiles.load(RAW_PROFILE))
    rows = [
        labelled(pairs, "CONTRADICTION", "missed", left=True),
        labelled(pairs, "NEUTRAL", "reported"),
        labelled(pairs, "ENTAILMENT", "reported"),
        *(related(pairs, low, low + 1, "reported") for low in (1, 2, 3, 4)),
    ]
    columns = {one.embedder: one.cosines > above + EDGE for one in found}
    return "\n".join([CONTRADICTIONS.format(above=above), *table(rows, columns), ""])


# --- Labels of conflicts ----------------------------------------------------------------------------------------------


def conflicts(pairs: Sequence[Judged], found: Sequence[Measured]) -> str:
    """Return the part on the labels of conflicts."""
    said = np.array([str(pair.label) for pair in pairs])
    given = [
        np.array([
            relation(pair.second, pair.first, similarity=float(cosine), paraphrase=one.calibration.paraphrase).label
            for pair, cosine in zip(pairs, one.cosines, strict=True)
        ])
        for one in found
    ]  # fmt: skip
    everything = [np.ones(len(pairs), np.bool_)] * len(found)
    parts = [CONFLICTS.format(pairs=PAIRS, missed=MISSED, first=FIRST_SIGHT), "### All pairs", ""]
    parts += _counted(found, said, given, everything)
    for profile in map(profiles.load, REPORTING):
        above, scale = reports_above(profile), profile.threshold_scale
        masks = []
        for one in found:
            known = one.calibration
            calibrated = np.interp(one.cosines, known.cosine, known.relatedness)
            masks.append((calibrated if scale == "calibrated" else one.cosines) > above + EDGE)
        parts += [f"### Pairs that `{profile.name}` reports, above {above:g} ({scale})", ""]
        parts += _counted(found, said, given, masks)
    return "\n".join(parts)


def _counted(found: Sequence[Measured], said: Mask, given: Sequence[Mask], among: Sequence[Mask]) -> Iterator[str]:
    yield f"| people say | n | {' | '.join(LABELS)} |"
    yield f"|---|---|{'---|' * len(LABELS)}"
    for one, labels, mask in zip(found, given, among, strict=True):
        for judgement in JUDGEMENTS:
            row = mask & (said == judgement)
            cells = (Rate.where(labels == label, row).cell for label in LABELS)
            yield f"| {one.embedder}: {judgement.lower()} | {row.sum():,} | {' | '.join(cells)} |"
    yield ""
    for one, labels, mask in zip(found, given, among, strict=True):
        conflict = Rate.where(said == "CONTRADICTION", mask & np.isin(labels, ("contradiction", "update")))
        same = Rate.where(said == "ENTAILMENT", mask & (labels == "duplicate"))
        yield f"- {one.embedder}: contradictions among conflicts {conflict}; entailments among duplicates {same}."
    yield ""


# --- The cut-off ------------------------------------------------------------------------------------------------------


def cut_offs(folder: Path) -> str:
    """Return the part on the cut-off: how often it lets nothing through, and what it costs."""
    profile = profiles.load("precise")
    whole = replace(profile, stages=tuple(name for name in profile.stages if name != "cut_off"), toml=None)
    terms = Terms({CUT: profile, WHOLE: whole}, limit=10)
    conversations, beliefs = sources([folder / "locomo"]), sources([folder / "precisionmembench"])
    foreign: list[dict[Naming, list[Result]]] = []
    own: list[list[Result]] = []
    bench: list[Sequence[Result]] = []
    for embedder in EMBEDDERS:
        with TemporaryDirectory(prefix="salience-vectors-") as cache:
            plan = Plan(terms, categories=frozenset(), cache=Path(cache))
            asked = evaluate(conversations, replace(plan, categories=CATEGORIES), embedder).results
            own.append([one for one in asked if one.category in CATEGORIES])
            foreign.append({})
            for naming in WORDS:
                asked = evaluate(conversations, replace(plan, foreign=FOREIGNERS, naming=naming), embedder).results
                foreign[-1][naming] = [one for one in asked if one.category == FOREIGN]
            bench.append(evaluate(beliefs, Plan(terms, cache=Path(cache)), embedder).results)
    rows = [[f"foreign question, {words}: empty answer", *(_empty(one[naming]) for one in foreign)]
            for naming, words in WORDS.items()]  # fmt: skip
    for label, how in ((CUT, "with"), (WHOLE, "without")):
        cells = [
            f"**{np.mean([len(one.found[label].places) / one.total for one in each]):.3f}** "
            f"({np.mean([one.found[label].returned for one in each]):.1f} hits)"
            for each in own
        ]
        rows.append([f"own question: recall@10, {how} the cut-off", *cells])
    empty = [_empty([one for one in each if not one.answerable]) for each in bench]
    rows.append(["precisionMemBench, nothing to find: empty answer", *empty])
    exact = [f"**{_precision(each, CUT):.3f}** ({_precision(each, WHOLE):.3f} without)" for each in bench]
    rows.append(["precisionMemBench, something to find: precision", *exact])
    lines = [f"| | {' | '.join(EMBEDDERS)} |", f"|---|{'---|' * len(EMBEDDERS)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([CUT_OFF.format(n=FOREIGNERS, own=len(own[0])), *lines, ""])


def _empty(asked: Sequence[Result]) -> str:
    rate = Rate(sum(not one.found[CUT].returned for one in asked), len(asked))
    low, high = rate.interval
    return f"**{rate.share:.1%}** ({low:.1%} to {high:.1%}; {rate.count:,} of {rate.of:,})"


def _precision(asked: Sequence[Result], label: str) -> float:
    found = [one.found[label] for one in asked if one.total]
    return float(np.mean([precision(len(each.places), each.returned) for each in found]))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("Name the folder of the data: python -m bench.thresholds FOLDER")
    sys.stdout.write(page(Path(sys.argv[1])))
