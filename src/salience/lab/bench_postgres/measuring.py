"""The parts of the measurement, in their order."""

from __future__ import annotations

import os
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import psutil

from salience.lab.bench_postgres import asking, loading
from salience.lab.bench_postgres.asking import LIMIT, Answer, Case, Effort, Latency
from salience.lab.bench_postgres.clients import Client, at_once, several
from salience.lab.bench_postgres.corpus import ONE_PERCENT, PER_MILLE, Corpus, text
from salience.lab.bench_postgres.loading import Loaded, Size, Step
from salience.lab.bench_postgres.place import Store, connected
from salience.records import ANY
from salience.store.postgres.database import PostgresDatabase

PROFILES = ("salience", "zeromemory", "mememory")
PROCESSES, THREADS = 4, 4
"""Of the many clients."""
NEAR = 100
"""How many of the nearest memories are compared."""
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Amounts:
    """How much is measured: for latency alone and in a crowd, questions compared, memories written one by one."""

    alone: Effort = Effort(6, 40, 300)
    crowd: Effort = Effort(6, 5, 200)
    compared: int = 40
    written: int = 200


@dataclass(frozen=True, slots=True)
class Row:
    """How long the answers of a profile take in a case: for one client, and for 16 at the same time."""

    case: Case
    profile: str
    visible: int
    alone: Latency
    crowd: Latency


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far answers from the indexes are those of scoring every memory.

    Attributes:
        case, profile: of the answers; the profile is None for the nearest by cosine.
        share: of the first ten, the share that is there; of the first hundred likewise, where it was counted.
        same: share of the questions whose first ten are the same, in the same order.
        exact: share of the answers that say they are exact.
        wrong: answers that say so and are not.
    """

    case: Case
    profile: str | None
    count: int
    share: float
    hundred: float | None
    same: float
    exact: float
    wrong: int


@dataclass(frozen=True, slots=True)
class Written:
    """Milliseconds to store a memory in a case: quantiles; and of a recall, what noting it took."""

    case: Case
    p50: float
    p95: float
    touch: float


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes: what a client has before and after it holds a scope, and how many memories that has; its load seconds."""

    before: int
    after: int
    count: int


@dataclass(frozen=True, slots=True)
class Measured:
    """All of it."""

    loaded: Loaded
    index: Step
    half: Step
    sizes: tuple[Size, ...]
    rows: tuple[Row, ...]
    filtered: tuple[Row, ...]
    agreements: tuple[Agreement, ...]
    halved: tuple[Agreement, ...]
    half_rows: tuple[Row, ...]
    written: tuple[Written, ...]
    cold: tuple[tuple[Case, int, float, float], ...]
    client: Memory
    backends: int
    loads: tuple[float, ...]


def cases(corpus: Corpus) -> list[Case]:
    """Return who asks, from the most memories in sight to the fewest."""
    sizes = corpus.sizes
    one_project = {"user_id": ANY, "project": "project1"}
    one_user = {"user_id": "user0", "project": ANY}
    return [
        Case(f"{sizes[0]:,}", 0),
        Case(f"{sizes[0]:,}, one project", 0, one_project),
        Case(f"{sizes[0]:,}, one user", 0, one_user),
        *(Case(f"{sizes[place]:,}", place) for place in range(1, 5)),
    ]


def filtered_cases(corpus: Corpus) -> list[Case]:
    """Return who asks for a tag, of 1 % of the memories or of 0.1 %."""
    shares = ((ONE_PERCENT, "1 %"), (PER_MILLE, "0.1 %"))
    return [
        Case(f"{corpus.sizes[place]:,}, tag of {share}", place, tags=(tag,)) for place in (0, 1) for tag, share in shares
    ]


def measured(store: Store, corpus: Corpus, amounts: Amounts, tell: Tell) -> Measured:
    """Return what is to be known of a store, which is empty before."""
    loads = [os.getloadavg()[0]]

    def next_part(words: str) -> None:
        loads.append(os.getloadavg()[0])
        tell(f"{words} (load {loads[-1]:.1f})")

    next_part("loading")
    loaded = loading.load(store, corpus, 2)
    next_part("indexing vectors")
    index = indexed(store, is_half=False)
    sizes = loading.sizes(store)
    counts = visible(store, [*cases(corpus), *filtered_cases(corpus)])
    bench = Bench(store, corpus, amounts, counts, next_part)
    next_part("scoring everything, for comparison")
    truth, client = bench.truth()
    with several(store.application, PROCESSES, pool_size=THREADS) as clients:
        next_part("comparing")
        agreements = bench.agreements(clients[0], truth)
        rows = [bench.row(clients, case, profile) for case in cases(corpus) for profile in PROFILES]
        filtered = [bench.row(clients, case, "salience") for case in filtered_cases(corpus)]
        backends = private(store.pid)
        next_part("writing")
        written = [bench.written(clients[0], case) for case in cases(corpus) if case.place in (0, 3) and not case.tags]
    next_part("cold and warm")
    cold = [(case, counts[case.label], *bench.cold(case)) for case in cases(corpus)[2:]]
    next_part("indexing vectors of half the precision")
    half = indexed(store, is_half=True)
    with several(store.application, PROCESSES, pool_size=THREADS) as clients:
        halved = bench.agreements(clients[0], truth)
        half_rows = [bench.row(clients, cases(corpus)[0], profile) for profile in PROFILES]
    sizes += [size for size in loading.sizes(store) if size.name.endswith("_half")]
    lists = (sizes, rows, filtered, agreements, halved, half_rows, written, cold)
    return Measured(loaded, index, half, *(tuple(each) for each in lists), client, backends, tuple(loads))  # type: ignore[arg-type]


def indexed(store: Store, *, is_half: bool) -> Step:
    """Make the index of vectors, as `salience db index` does."""
    with PostgresDatabase(store.owner, busy_timeout=30, statement_timeout=3600, exact_rows=5_000) as database:
        made = database.index(is_half=is_half)
    return Step(str(made.name), made.seconds, made.bytes)
