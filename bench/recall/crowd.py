"""Threads that ask, or write, at the same time: how much they get done in a second."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Final

from bench.recall.bench import Bench, Row, questions
from bench.recall.clocks import quantiles
from bench.recall.contender import KINDS, Contender, Mode
from bench.recall.writing import news

THREADS: Final = (1, 8)
ROUNDS: Final = 2
"""Of one thread, then eight, then one, then eight."""
MOST: Final = 2_000
"""Memories that a thread has to write for each second; one that has written them all is done."""
FEWEST: Final = 20
Work = Callable[[int, int], bool]
"""From the number of a thread, and how often it has done it, to whether there was something to do."""


def crowd(bench: Bench) -> Iterator[Row]:
    """Yield a row for each number of threads, of every contender that they may share: recalls of all, and writes."""
    for name in bench.that(lambda name: KINDS[name].threads):
        with bench.copied((name,)) as opened:
            contender = opened[name]
            for mode in KINDS[name].modes:
                bench.tell(f"{bench.corpus.size:,}: {name}, threads, {mode}")
                yield from _rows(bench, f"crowd {mode}", name, partial(_asks, bench, contender, mode))
            if KINDS[name].writes:
                yield from _rows(bench, "crowd write", name, _writes(bench, contender, KINDS[name].writes[0]))


def _rows(bench: Bench, verb: str, name: str, work: Work) -> Iterator[Row]:
    done: dict[int, list[list[float]]] = {threads: [] for threads in THREADS}
    for _ in range(ROUNDS):
        for threads in THREADS:
            done[threads].append(_together(work, threads, bench.effort.seconds / ROUNDS))
    for threads, rounds in done.items():
        every = [took for one in rounds for took in one]
        rate = {"a second": threads * len(every) / (sum(every) / 1e3)}
        yield Row(verb, f"{threads} threads", name, quantiles(every) | rate)


def _together(work: Work, threads: int, seconds: float) -> list[float]:
    """Return the milliseconds of all that threads do until the time is up."""
    with ThreadPoolExecutor(threads) as pool:
        work(0, 0)
        end = time.perf_counter() + seconds
        return [took for found in pool.map(partial(_repeat, work, end), range(threads)) for took in found]


def _repeat(work: Work, end: float, thread: int) -> list[float]:
    took: list[float] = []
    start = time.perf_counter()
    while (start < end or not took) and work(thread, len(took)):
        now = time.perf_counter()
        took.append((now - start) * 1e3)
        start = now
    return took


def _asks(bench: Bench, contender: Contender, mode: Mode, thread: int, number: int) -> bool:
    asked = questions(bench.corpus, "all")
    contender.recall(asked[(number + 23 * thread) % len(asked)], mode)
    return True


def _writes(bench: Bench, contender: Contender, how: str) -> Work:
    count = FEWEST + round(bench.effort.seconds * MOST)
    fresh = [news(bench, 200 + thread, count) for thread in range(max(THREADS))]

    def work(thread: int, number: int) -> bool:
        for entry, vector in islice(fresh[thread], 1):
            contender.write(entry, vector, how)
            return True
        return False

    return work
