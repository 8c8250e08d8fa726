"""Tenants made in a row on one store: what the first cost, and what the last."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
import psutil
import psycopg

from bench.torture_postgres.housing import of, opened
from salience.engine import Engine

TEXTS: Final = ("Alice prefers Python for backend work", "The lease of the office ends in June")
ASKED: Final = "What does Alice prefer?"
EDGE: Final = 10
"""The part of all tenants, one in so many, that counts as the first, and as the last."""
_CATALOG: Final = "SELECT (SELECT count(*) FROM pg_class) + (SELECT count(*) FROM pg_attribute)"
_BACKENDS: Final = "SELECT pid FROM pg_stat_activity WHERE application_name = 'salience' AND datname = %s"


@dataclass(frozen=True, slots=True)
class Standing:
    """What a moment costs.

    Attributes:
        process: memory of this process, bytes.
        backends: memory of the server's processes that serve it, bytes, the largest and how many there are.
        entries: rows of the catalog.
    """

    process: int
    backend: int
    backends: int
    entries: int


@dataclass(frozen=True, slots=True)
class Growth:
    """What came of it.

    Attributes:
        tenants: how many were made, by how many threads.
        threads: likewise.
        seconds: that it took.
        remember, recall: seconds of each, in the order of the tenants: while they were made.
        again: seconds of a recall by one thread afterwards: of the first tenants, and of the last, in turn.
        standings: after one in ten, and in the end.
        faults: all that is wrong.
    """

    tenants: int
    threads: int
    seconds: float
    remember: Sequence[float]
    recall: Sequence[float]
    again: tuple[Sequence[float], Sequence[float]]
    standings: tuple[Standing, Standing]
    faults: tuple[str, ...]

    @property
    def ratio(self) -> float:
        """Median recall of the last tenants over that of the first, while they were made."""
        edge = len(self.recall) // EDGE
        return float(np.median(self.recall[-edge:]) / np.median(self.recall[:edge]))

    @property
    def ratio_again(self) -> float:
        """The same afterwards, by one thread."""
        first, last = self.again
        return float(np.median(last) / np.median(first))


def growth(dsn: str, tenants: int, threads: int = 16, pool_size: int = 10) -> Growth:
    """Return what so many tenants came to, each of which stores two memories and recalls one.

    Args:
        dsn: of a superuser, on a database for this alone.
        tenants: how many; one in ten counts as the first, and as the last.
        threads: that make them.
        pool_size: connections that they share.
    """
    edge, faults = max(1, tenants // EDGE), list[str]()
    with opened(dsn, pool_size=pool_size) as engine, ThreadPoolExecutor(threads) as pool:
        start = time.perf_counter()
        first = list(pool.map(lambda number: _made(engine, number), range(edge)))
        early = standing(dsn)
        rest = list(pool.map(lambda number: _made(engine, number), range(edge, tenants)))
        seconds, late = time.perf_counter() - start, standing(dsn)
        each = first + rest
        faults += [
            f"tenant {n} was answered with {found} memories" for n, (_, _, found) in enumerate(each) if found != 2
        ]
        again = _again(engine, range(edge), range(tenants - edge, tenants))
    if late.entries != early.entries:
        faults.append(f"the catalog had {early.entries} rows, and has {late.entries}")
    if late.backends > pool_size:
        faults.append(f"{late.backends} connections are open, of a pool of {pool_size}")
    remember, recall = [one for one, _, _ in each], [one for _, one, _ in each]
    return Growth(tenants, threads, seconds, remember, recall, again, (early, late), tuple(faults))


def _made(engine: Engine, number: int) -> tuple[float, float, int]:
    """Return what a new tenant's memories took to store and to recall, and how many were found."""
    own = of(engine, f"tenant-{number}")
    with _watched() as remembering:
        own.remember_many([{"content": text} for text in TEXTS])
    with _watched() as recalling:
        found = own.recall(ASKED, min_score=0)
    return remembering[0], recalling[0], len(found)


def _again(engine: Engine, first: Sequence[int], last: Sequence[int]) -> tuple[list[float], list[float]]:
    """Return what a recall of each tenant takes, of the first and of the last in turn."""
    for number in (*first[:5], *last[:5]):
        of(engine, f"tenant-{number}").recall(ASKED, min_score=0)
    times: tuple[list[float], list[float]] = ([], [])
    for pair in zip(first, last, strict=True):
        for place, number in enumerate(pair):
            with _watched() as watch:
                of(engine, f"tenant-{number}").recall(ASKED, min_score=0)
            times[place].append(watch[0])
    return times


@contextmanager
def _watched() -> Iterator[list[float]]:
    """Yield a list that holds, in the end, the seconds that it took."""
    taken: list[float] = []
    start = time.perf_counter()
    yield taken
    taken.append(time.perf_counter() - start)


def standing(dsn: str) -> Standing:
    """Return what the moment costs."""
    with psycopg.connect(dsn, autocommit=True) as superuser:
        ((entries,),) = superuser.execute(_CATALOG).fetchall()
        pids = [pid for (pid,) in superuser.execute(_BACKENDS, (superuser.info.dbname,))]
    own = [psutil.Process(pid).memory_full_info().uss for pid in pids if psutil.pid_exists(pid)]
    return Standing(psutil.Process().memory_full_info().uss, max(own, default=0), len(pids), int(entries))
