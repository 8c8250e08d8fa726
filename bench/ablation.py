"""Measure each signal and stage of the default profile by leaving it out: prints docs/figures/ablation.md.

    python -m bench.ablation FOLDER > docs/figures/ablation.md

FOLDER has `locomo/` and `beam/`; the everyday worlds are part of the package.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench.page import say, table
from salience.evaluate import everyday
from salience.evaluate.datasets.everyday import worlds
from salience.evaluate.metrics import recall_at, reciprocal_rank
from salience.evaluate.run import Plan, Terms, evaluate, sources
from salience.evaluate.stores import cache_folder
from salience.rank import profiles
from salience.rank.profile import Profile

K: Final = 10
STAGES: Final = ("shortlist", "replaced", "same_statement")
UNCLEAR: Final = frozenset({"summarization", "event_ordering", "instruction_following"})
"""Categories of BEAM that ask for no particular message."""
HEAD: Final = """\
# What each signal adds

Made by `make ablation` (`python -m bench.ablation`). Do not edit it by hand.

The first row is the profile `salience`. Each other row leaves one signal or stage out, and shows the difference:
negative means that the part helps. In `outdated first` (share of questions with an outdated memory above every right
one) positive means that it helps.

LoCoMo: five conversations, one memory per turn. BEAM: ten chats, questions that ask for particular messages. Everyday:
the report half, in English. Differences below 0.01 are noise.
"""


def variants(profile: Profile) -> dict[str, Profile]:
    """Return label -> the profile, and the profile without each of its parts."""
    found = {"all": profile}
    for term in profile.terms:
        if term.label != "period":  # counts in its intent alone
            found[term.label] = profile.with_weights({term.label: 0.0})
    period = {**profile.intents, "period": replace(profile.intents["period"], weights={})}
    found["period"] = replace(profile, intents=period)
    for stage in STAGES:
        stages = tuple(name for name in profile.stages if name != stage)
        found[f"stage {stage}"] = replace(profile, stages=stages)
    return found


def retrieval(path: Path, profiles: Mapping[str, Profile], unclear: frozenset[str]) -> dict[str, tuple[float, float]]:
    """Return label -> recall@10 and reciprocal rank on a data set."""
    outcome = evaluate(sources([path]), Plan(Terms(profiles, K), cache=cache_folder()), "minilm")
    asked = [one for one in outcome.results if one.total and one.answerable and one.category not in unclear]
    found = {}
    for label in profiles:
        places = [(one.found[label].places, one.total) for one in asked]
        means = [sum(metric(*place, K) for place in places) / len(places) for metric in (recall_at, reciprocal_rank)]
        found[label] = (means[0], means[1])
    return found


def main() -> None:
    """Print the page."""
    folder = Path(sys.argv[1])
    compared = variants(profiles.load("salience"))
    say("LoCoMo")
    locomo = retrieval(folder / "locomo", compared, frozenset())
    say("BEAM")
    beam = retrieval(folder / "beam", compared, UNCLEAR)
    say("everyday")
    english = [world for world in worlds("report") if not any(question.language for question in world.questions)]
    asked = everyday.ask(english, compared, "minilm", cache_folder())
    totals = {row.profile: row.figures for row in everyday.rows(asked) if row.by == "total"}
    columns = {
        label: (
            *locomo[label],
            *beam[label],
            figures.first or 0.0,
            figures.any_of_five or 0.0,
            figures.outdated_first or 0.0,
        )
        for label, figures in totals.items()
    }
    rows = [["all", *(f"{value:.3f}" for value in columns["all"])]]
    for label, values in columns.items():
        if label != "all":
            rows.append(
                [
                    f"without {label}",
                    *(f"{value - whole:+.3f}" for value, whole in zip(values, columns["all"], strict=True)),
                ]
            )
    head = ["", "LoCoMo R@10", "MRR", "BEAM R@10", "MRR", "everyday first", "in five", "outdated first"]
    print(f"{HEAD}\n{table(head, rows)}")


if __name__ == "__main__":
    main()
