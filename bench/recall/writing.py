"""Writes: one at a time beside what the disk takes for one, many in a transaction, and recalls with writes between."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Final

from bench.recall.bench import Bench, Row, questions
from bench.recall.clocks import WARMING, quantiles, turn_about
from bench.recall.contender import KINDS, Contender, Mode
from bench.recall.corpus import Entry
from bench.recall.ours import Ours
from salience.batch import Vectors32

PAGE: Final = 4096
"""Bytes that are appended before the disk is waited for, as the least that a commit may be."""
FSYNC: Final = "floor fsync"
MANY: Final = 500
"""Memories in a transaction."""
CALLS: Final = 4
TEN: Final = 10
"""Of so many things that are done in turn, one is a write and the others are recalls."""
New = tuple[Entry, Vectors32]


def write(bench: Bench) -> Iterator[Row]:
    """Yield a row for each way to store one memory; and what it takes to store many in a transaction."""
    names = bench.that(lambda name: bool(KINDS[name].writes))
    with bench.copied(names) as opened, (bench.folder / "appended").open("ab", buffering=0) as file:
        bench.tell(f"{bench.corpus.size:,}: one write at a time")
        works: dict[str, Callable[[int], None]] = {FSYNC: partial(_appended, file.fileno())}
        for number, (name, contender) in enumerate(opened.items()):
            for how in KINDS[name].writes:
                fresh = news(bench, number + 10 * KINDS[name].writes.index(how), WARMING + bench.effort.most)
                works[f"{name}\t{how}"] = partial(_written, contender, how, fresh)
        for label, laps in turn_about(works, bench.effort).items():
            name, _, how = label.partition("\t")
            yield Row("write", how or "append", name, quantiles(laps.milliseconds))
        for name, contender in opened.items():
            if isinstance(contender, Ours):
                yield Row("write", f"{MANY} in a call", name, _many(bench, contender))
    (bench.folder / "appended").unlink()


def news(bench: Bench, number: int, count: int) -> Iterator[New]:
    """Return memories that are in no store yet, with their vectors; other ones for each number."""
    block = bench.corpus.beside(count, number)
    return iter(list(zip(block.entries(), block.vectors, strict=True)))


def _appended(file: int, number: int) -> None:
    os.write(file, bytes(PAGE))
    os.fsync(file)


def _written(contender: Contender, how: str, fresh: Iterator[New], number: int) -> None:
    entry, vector = next(fresh)
    contender.write(entry, vector, how)


def _many(bench: Bench, contender: Ours) -> dict[str, float]:
    fresh = bench.corpus.beside(CALLS * MANY, 100)
    contender.learn(fresh.texts, fresh.vectors)
    entries, took = fresh.entries(), []
    for _ in range(CALLS):
        page = list(islice(entries, MANY))
        start = time.perf_counter()
        contender.write_many(page)
        took.append(time.perf_counter() - start)
    return {"a second": CALLS * MANY / sum(took), "seconds": fmean(took)}


def mixed(bench: Bench) -> Iterator[Row]:
    """Yield a row for each contender that stores something: nine recalls of all memories, then one write."""
    names = bench.that(lambda name: bool(KINDS[name].writes))
    effort = replace(bench.effort, least=2, most=max(2, bench.effort.most // TEN))
    with bench.copied(names) as opened:
        bench.tell(f"{bench.corpus.size:,}: recalls and writes")
        works = {
            name: partial(
                _ten,
                bench,
                contender,
                KINDS[name].modes[0],
                KINDS[name].writes[0],
                news(bench, 50 + number, WARMING + effort.most),
            )
            for number, (name, contender) in enumerate(opened.items())
        }
        for name, laps in turn_about(works, effort).items():
            recalls = quantiles([took for found in laps.found for took in found[:-1]])
            writes = quantiles([found[-1] for found in laps.found])
            rate = {"a second": TEN * 1e3 / fmean(laps.milliseconds)}
            mode = KINDS[name].modes[0]
            yield Row("mixed", mode, name, recalls | {f"write {key}": value for key, value in writes.items()} | rate)


def _ten(bench: Bench, contender: Contender, mode: Mode, how: str, fresh: Iterator[New], number: int) -> list[float]:
    """Return the milliseconds of nine recalls and of a write."""
    asked = questions(bench.corpus, "all")
    took = []
    for place in range(TEN - 1):
        question = asked[(number * (TEN - 1) + place) % len(asked)]
        took.append(_milliseconds(partial(contender.recall, question, mode)))
    entry, vector = next(fresh)
    return [*took, _milliseconds(partial(contender.write, entry, vector, how))]


def _milliseconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def size_of(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
