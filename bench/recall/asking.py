"""Recalls: how long they take, and how much of what is right they bring."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from statistics import fmean, median

from bench.recall.bench import Bench, Row, questions, right
from bench.recall.clocks import Laps, quantiles, turn_about
from bench.recall.contender import KINDS, MODES, OURS, OWN, PEERS, Contender, Mode
from bench.recall.corpus import VIEWS, Question, View
from bench.recall.ours import Ours, rows
from bench.recall.reference import COMPARED, ranked
from bench.recall.truth import recall as recalled

Answer = tuple[int, Sequence[int]]
"""Number of a question, and the rows that came."""


def recall(bench: Bench) -> Iterator[Row]:
    """Yield a row for each way to search, each view, and each of the engine and the floor, asked turn about."""
    return _all(bench, bench.that(lambda name: name in OWN))


def peers(bench: Bench) -> Iterator[Row]:
    """Yield the same for the engine and the other stores, where there are any that are searched that way."""
    others = bench.that(lambda name: name in PEERS)
    return _all(bench, (OURS, *others)) if others else iter(())


def _all(bench: Bench, names: tuple[str, ...]) -> Iterator[Row]:
    with bench.opened(names) as opened:
        for mode in MODES:
            able = {name: opened[name] for name in names if mode in KINDS[name].modes}
            for view in VIEWS if len(able) > 1 or names[-1] in OWN else ():
                bench.tell(f"{bench.corpus.size:,}: recall by {', '.join(able)}; {mode}, {view}")
                yield from _asked(bench, able, mode, view)


def _asked(bench: Bench, opened: dict[str, Contender], mode: Mode, view: View) -> Iterator[Row]:
    asked = questions(bench.corpus, view)
    works = {name: partial(_answer, contender, asked, mode) for name, contender in opened.items()}
    for name, laps in turn_about(works, bench.effort).items():
        values = quantiles(laps.milliseconds) | _found(laps, asked)
        if mode == "dense":
            values["recall"] = fmean(recalled(got, right(bench.corpus, view)[place]) for place, got in laps.found)
        yield Row(f"recall {mode}", view, name, values | _own(bench, opened[name], mode, view))


def _answer(contender: Contender, asked: Sequence[Question], mode: Mode, number: int) -> Answer:
    place = number % len(asked)
    return place, contender.recall(asked[place], mode)


def _found(laps: Laps[Answer], asked: Sequence[Question]) -> dict[str, float]:
    return {
        "found": fmean(asked[place].row in got for place, got in laps.found),
        "hits": fmean(len(got) for _, got in laps.found),
    }


def _own(bench: Bench, contender: Contender, mode: Mode, view: View) -> dict[str, float]:
    """Return what only the engine tells: how many answers it says are exact, and how long each step took.

    Hybrid answers are held against its own whole ranking as well.
    """
    if not isinstance(contender, Ours):
        return {}
    asked = questions(bench.corpus, view)[:COMPARED]
    answers = [contender.answer(question, mode) for question in asked]
    told = {"exact": fmean(found.exact for found in answers)}
    told |= {f"ms {step}": median(found.timings[step] for found in answers) for step in answers[0].timings}
    if mode != "dense":
        best = ranked(bench.corpus, contender, mode, view)
        told["recall"] = fmean(recalled(rows(found), first) for found, first in zip(answers, best, strict=False))
    return told
