"""The part of `docs/thresholds.md` on the cut-off: how often it lets nothing through, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from salience.evaluate.metrics import Rate, precision
from salience.evaluate.run import FOREIGN, Naming, Plan, Result, Terms, evaluate, sources
from salience.rank import profiles
from salience.rank.profile import Profile

LOCOMO: Final = Path("locomo")
BENCH: Final = Path("precisionmembench")
CATEGORIES: Final = frozenset({"1", "2", "3", "4"})
FOREIGNERS: Final = 600
"""Foreign questions asked for each way to treat names."""
CUT, WHOLE = "precise", "without the cut-off"
WORDS: Final[Mapping[Naming, str]] = {
    "strip": "names taken out",
    "keep": "names as they are",
    "swap": "names of the other conversation's speakers put in",
}
INTRODUCTION: Final = """\
## Cut-off: when a memory bears on a question at all

`precise` returns nothing that fits a question no better than chance has it (`[stage.cut_off]` of its profile). Counted
on LoCoMo, one memory per turn: {n:,} questions of one conversation asked in the store of another for each way to treat
the names in them, and {own:,} questions of categories 1 to 4 in their own store. The last row is the hardest: it asks
about somebody who is in the store for something that this one never spoke of. On precisionMemBench, short beliefs, it
is the share of the cases with nothing to find that have an empty answer, and the mean precision of the others.
"""


@dataclass(frozen=True, slots=True)
class Counted:
    """What was asked with one embedder: naming -> foreign questions; questions of their own store; the bench's."""

    embedder: str
    foreign: Mapping[Naming, Sequence[Result]]
    own: Sequence[Result]
    bench: Sequence[Result]


def cut_offs(folder: Path, embedders: Sequence[str]) -> str:
    """Return the part as Markdown, from `locomo/` and `precisionmembench/` in `folder`."""
    counted = [_counted(folder, embedder) for embedder in embedders]
    head = INTRODUCTION.format(n=FOREIGNERS, own=len(counted[0].own))
    return "\n".join([head, *_table(counted), ""])


def without_cut_off(profile: Profile) -> Profile:
    """Return the profile that returns what fits best, however little that is."""
    return replace(profile, stages=tuple(name for name in profile.stages if name != "cut_off"), toml=None)


def _counted(folder: Path, embedder: str) -> Counted:
    profile = profiles.load("precise")
    terms = Terms({CUT: profile, WHOLE: without_cut_off(profile)}, limit=10)
    conversations, bench = sources([folder / LOCOMO]), sources([folder / BENCH])
    with TemporaryDirectory(prefix="salience-vectors-") as cache:
        plan = Plan(terms, categories=frozenset(), cache=Path(cache))  # the questions of their own store are asked once
        own = evaluate(conversations, replace(plan, categories=CATEGORIES), embedder).results
        asked = {
            naming: evaluate(conversations, replace(plan, foreign=FOREIGNERS, naming=naming), embedder).results
            for naming in WORDS
        }
        beliefs = evaluate(bench, Plan(terms, cache=Path(cache)), embedder).results
    return Counted(
        embedder,
        {naming: [one for one in found if one.category == FOREIGN] for naming, found in asked.items()},
        [one for one in own if one.category in CATEGORIES],
        beliefs,
    )


def _table(counted: Sequence[Counted]) -> Iterator[str]:
    yield f"| | {' | '.join(one.embedder for one in counted)} |"
    yield f"|---|{'---|' * len(counted)}"
    for naming, words in WORDS.items():
        cells = [_empty(one.foreign[naming]) for one in counted]
        yield f"| foreign question, {words}: empty answer | {' | '.join(cells)} |"
    for label in (CUT, WHOLE):
        cells = [f"**{_recall(one.own, label):.3f}** ({_hits(one.own, label):.1f} hits)" for one in counted]
        yield f"| own question: recall@10, {'with' if label == CUT else 'without'} the cut-off | {' | '.join(cells)} |"
    cells = [_empty(_nothing(one)) for one in counted]
    yield f"| precisionMemBench, nothing to find: empty answer | {' | '.join(cells)} |"
    cells = [f"**{_precision(one, CUT):.3f}** ({_precision(one, WHOLE):.3f} without)" for one in counted]
    yield f"| precisionMemBench, something to find: precision | {' | '.join(cells)} |"


def _empty(asked: Sequence[Result]) -> str:
    """Return the share of empty answers with its interval and count."""
    rate = Rate(sum(not one.found[CUT].returned for one in asked), len(asked))
    low, high = rate.interval
    return f"**{rate.share:.1%}** ({low:.1%} to {high:.1%}; {rate.count:,} of {rate.of:,})"


def _recall(asked: Sequence[Result], label: str) -> float:
    return float(np.mean([len(one.found[label].places) / one.total for one in asked]))


def _hits(asked: Sequence[Result], label: str) -> float:
    return float(np.mean([one.found[label].returned for one in asked]))


def _nothing(one: Counted) -> list[Result]:
    return [asked for asked in one.bench if not asked.answerable]


def _precision(one: Counted, label: str) -> float:
    found = [asked.found[label] for asked in one.bench if asked.total]
    return float(np.mean([precision(len(each.places), each.returned) for each in found]))
