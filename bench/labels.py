"""The part of `docs/thresholds.md` on the labels of conflicts: what rules say of a pair, and what people said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, get_args

import numpy as np
from numpy.typing import NDArray

from bench.measured import Measured
from salience.evaluate.metrics import Mask, Rate
from salience.extract.conflicts import relation
from salience.ports import EDGE
from salience.rank import profiles
from salience.rank.profile import Profile
from salience.records import Judged, Label

LABELS: Final[tuple[Label, ...]] = get_args(Label)
JUDGEMENTS: Final = ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")
CONFLICTS: Final = ("contradiction", "update")
"""Labels that say that the older memory does not hold any more, or does not hold beside the new one."""
REPORTING: Final = ("mememory", "salience")
"""Profiles that report possible conflicts."""
INTRODUCTION: Final = """\
## Labels: what a conflict is

A cosine above the threshold says that two memories speak of the same thing; rules over their words say whether the new
one repeats the old one (`duplicate`), tells a later state of it (`update`), is at odds with it (`contradiction`) or
none of these (`related`). Counted on SICK test, the second sentence of a pair being the new one; the rules were made on
SICK train and on pairs written by hand. A row holds the pairs that people gave one of SICK's three labels, a cell the
share of them that the rules gave theirs.

SICK's entailment also holds where one sentence says less in other words, which is no duplicate, so that many
entailments are only `related`. Where a contradiction is missed, a verb or a noun stands in the place of another ("is
riding", "is falling off"), or the negation is about a word with the same sense as the other text's ("no cat", "a
kitten"). Where a neutral pair is called a contradiction, the text that denies says less than the other one, and
people took the two for two scenes. Where one is called a duplicate, one word is another and the cosine high all the
same. SICK describes scenes: it has no names, few numbers and nothing that changes, so that `update` is not measured
here, nor are numbers, dates, names and opposites of named things. For these, `tests/extract/pairs.py` has {pairs}
pairs as agents write them, with the cosines of minilm; {missed} of them have another label than people gave. Of those
that the rules had not been made on, {first} had the right label at first sight.
"""
PAIRS, MISSED = 185, 9
"""How many pairs `tests/extract/pairs.py` has, and how many of these have another label; a test there holds both."""
FIRST_SIGHT: Final = Rate(110, 130)
"""Pairs of these that had the right label when the rules met them for the first time."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """What people said of some pairs, and what the rules say of them with one embedder's cosines."""

    measured: Measured
    said: NDArray[np.str_]
    given: NDArray[np.str_]


def labels(pairs: Sequence[Judged], found: Sequence[Measured]) -> str:
    """Return the part as Markdown, from judged pairs and what each embedder makes of them."""
    each = [labelled(pairs, one) for one in found]
    parts = [
        INTRODUCTION.format(pairs=PAIRS, missed=MISSED, first=FIRST_SIGHT),
        "### All pairs",
        "",
        *_counted(each, [everything(one) for one in found]),
    ]
    for profile in map(profiles.load, REPORTING):
        above, scale = threshold(profile)
        title = f"### Pairs that `{profile.name}` reports, above {above:g} ({scale})"
        parts += [title, "", *_counted(each, [reported(profile, one) for one in found])]
    return "\n".join(parts)


def labelled(pairs: Sequence[Judged], one: Measured) -> Labelled:
    """Return the labels of pairs: what the second text of each is to its first."""
    paraphrase = one.calibration.paraphrase
    given = [
        relation(pair.second, pair.first, similarity=float(cosine), paraphrase=paraphrase).label
        for pair, cosine in zip(pairs, one.cosines, strict=True)
    ]
    return Labelled(one, np.array([str(pair.label) for pair in pairs]), np.array(given, np.str_))


def everything(one: Measured) -> Mask:
    """Return that all pairs are counted."""
    return np.ones(len(one.cosines), np.bool_)


def reported(profile: Profile, one: Measured) -> Mask:
    """Return which pairs a profile reports as possible conflicts."""
    above, scale = threshold(profile)
    known = one.calibration
    on_scale = np.interp(one.cosines, known.cosine, known.relatedness) if scale == "calibrated" else one.cosines
    found: Mask = on_scale > above + EDGE
    return found


def threshold(profile: Profile) -> tuple[float, str]:
    """Return the similarity above which a profile reports a possible conflict, and its scale: raw or calibrated."""
    if profile.contradiction_above is None:
        raise AssertionError(f"the profile {profile.name} reports no contradictions")
    return profile.contradiction_above, profile.threshold_scale


def _counted(each: Sequence[Labelled], among: Sequence[Mask]) -> Iterator[str]:
    """Yield a table of what the rules say of the pairs that people gave each judgement, and how often that is right."""
    yield f"| people say | n | {' | '.join(LABELS)} |"
    yield f"|---|---|{'---|' * len(LABELS)}"
    for one, mask in zip(each, among, strict=True):
        for judgement in JUDGEMENTS:
            row = mask & (one.said == judgement)
            cells = (Rate.where(one.given == label, row).cell for label in LABELS)
            yield f"| {one.measured.embedder}: {judgement.lower()} | {row.sum():,} | {' | '.join(cells)} |"
    yield ""
    for one, mask in zip(each, among, strict=True):
        conflicts = Rate.where(one.said == "CONTRADICTION", mask & np.isin(one.given, CONFLICTS))
        same = Rate.where(one.said == "ENTAILMENT", mask & (one.given == "duplicate"))
        rates = f"contradictions among conflicts {conflicts}; entailments among duplicates {same}"
        yield f"- {one.measured.embedder}: {rates}."
    yield ""
