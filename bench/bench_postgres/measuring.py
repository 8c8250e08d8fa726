"""The parts of the measurement, in their order."""

from __future__ import annotations

import os
import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
import psutil

from bench.bench_postgres import asking, loading
from bench.bench_postgres.asking import Case, Effort, Latency
from bench.bench_postgres.clients import Client, at_once
from bench.bench_postgres.corpus import ONE_PERCENT, PER_MILLE, Corpus, text
from bench.bench_postgres.figures import Agreement, Cold, Measured, Memory, Prepared, Row, Written
from bench.bench_postgres.loading import Step
from bench.bench_postgres.place import Store, connected
from salience.records import ANY
from salience.store.postgres.admin import PostgresDatabase

PROFILES: Final = ("salience", "zeromemory", "mememory")
NEAR: Final = 100
"""How many of the nearest memories are compared."""
QUESTIONS: Final = 100
"""That are asked over and over."""
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Amounts:
    """How much is measured.

    Attributes:
        connections: that memories are loaded on.
        alone, crowd: what one client asks for the latency, and each of many.
        processes, threads: of the many clients, the latter in each process.
        compared: questions whose answers are compared.
        written: memories written one by one.
        engines: new ones whose first recall is measured.
    """

    alone: Effort = Effort(4, 30, 300)
    crowd: Effort = Effort(5, 4, 200)
    compared: int = 25
    written: int = 200
    processes: int = 4
    threads: int = 4
    engines: int = 5
    connections: int = 2


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
        Case(f"{corpus.sizes[place]:,}, tag of {share}", place, tags=(tag,))
        for place in (0, 1)
        for tag, share in shares
    ]


def measured(store: Store, corpus: Corpus, amounts: Amounts, tell: Tell) -> Measured:
    """Return what is to be known of a store, which is empty before."""
    return answered(store, corpus, amounts, prepared(store, corpus, amounts, tell), tell)


def prepared(store: Store, corpus: Corpus, amounts: Amounts, tell: Tell) -> Prepared:
    """Load a store and index it; return how that went."""
    loads = [os.getloadavg()[0]]
    tell(f"loading (load {loads[0]:.1f})")
    loaded = loading.load(store, corpus, amounts.connections)
    loads.append(os.getloadavg()[0])
    tell(f"indexing vectors (load {loads[1]:.1f})")
    return Prepared(loaded, indexed(store, is_half=False), tuple(loads))


def answered(store: Store, corpus: Corpus, amounts: Amounts, ready: Prepared, tell: Tell) -> Measured:
    """Return what is to be known of a store that is loaded and indexed."""
    loads = list(ready.loads)

    def part(words: str) -> None:
        loads.append(os.getloadavg()[0])
        tell(f"{words} (load {loads[-1]:.1f})")

    bench = Bench(store, corpus, amounts, visible(store, [*cases(corpus), *filtered_cases(corpus)]), part)
    part("holding everything, to compare with")
    with bench.all_knowing() as truth:
        client = bench.memory(truth)
        with bench.clients() as clients:
            agreements = bench.agreements(clients[0], truth, PROFILES)
            rows = bench.rows(clients, cases(corpus), PROFILES)
            filtered = bench.rows(clients, filtered_cases(corpus), PROFILES[:1])
            backends = private(store.pid)
            part("writing")
            written = [bench.written(clients[0], cases(corpus)[place]) for place in (0, 3, 5)]
        part("cold and warm")
        cold = [bench.cold(case) for case in cases(corpus)[2:]]
        part("indexing vectors of half the precision")
        half = indexed(store, is_half=True)
        with bench.clients() as clients:
            halved = bench.agreements(clients[0], truth, ())
            half_rows = bench.rows(clients, cases(corpus)[:1], PROFILES)
    return Measured(
        loaded=ready.loaded,
        index=ready.index,
        half=half,
        sizes=tuple(loading.sizes(store)),
        rows=tuple(rows),
        filtered=tuple(filtered),
        agreements=tuple(agreements),
        halved=tuple(halved),
        half_rows=tuple(half_rows),
        written=tuple(written),
        cold=tuple(cold),
        client=client,
        backends=backends,
        loads=tuple(loads),
    )


def indexed(store: Store, *, is_half: bool) -> Step:
    """Make the index of vectors, as `salience db index` does."""
    with PostgresDatabase(store.owner, busy_timeout=30, statement_timeout=3600, exact_rows=5_000) as database:
        made = database.index(is_half=is_half)
    return Step(str(made.name), made.seconds, made.bytes)


def visible(store: Store, cases: Sequence[Case]) -> dict[str, int]:
    """Return label of a case -> how many memories are in sight and carry its tags."""
    count = (
        "SELECT count(*) FROM memories WHERE tenant = %s AND (%s::text IS NULL OR user_id IS NULL OR user_id = %s) "
        "AND (%s::text IS NULL OR project IS NULL OR project = %s) AND tags LIKE %s"
    )
    found = {}
    with connected(store.owner) as connection:
        for case in cases:
            user, project = (None if (name := case.where[key]) is ANY else name for key in ("user_id", "project"))
            tag = f'%"{case.tags[0]}"%' if case.tags else "%"
            row = connection.execute(count, (case.scope.tenant, user, user, project, project, tag)).fetchone()
            found[case.label] = 0 if row is None else int(row[0])
    return found


def private(pid: int | None) -> int:
    """Return the bytes that the server's processes have each for itself, all together; 0 where it is not ours."""
    if pid is None:
        return 0
    first = psutil.Process(pid)
    return sum(process.memory_full_info().uss for process in (first, *first.children(recursive=True)))


@dataclass(frozen=True, slots=True)
class Bench:
    """A store that is loaded, and what is measured of it."""

    store: Store
    corpus: Corpus
    amounts: Amounts
    counts: Mapping[str, int]
    tell: Tell

    def compared(self) -> list[Case]:
        """Return whose answers are compared with those of scoring everything: those with an index before them."""
        first = cases(self.corpus)
        return [first[0], first[1], first[3], *filtered_cases(self.corpus)[:2]]

    def questions(self, case: Case, seed: int = 1) -> tuple[str, ...]:
        """Return what is asked in a case."""
        return case.questions(self.corpus, self.amounts.compared, seed)

    def all_knowing(self) -> Client:
        """Return a client that scores every memory in sight."""
        most = 2 * self.corpus.memories
        return Client(self.store.application, exact_rows=most, cached_rows=4 * most)

    def memory(self, truth: Client) -> Memory:
        """Return what holding all that is in sight takes."""
        first, *_ = cases(self.corpus)
        before = truth.do(asking.memory)
        truth.do(asking.listed, first, "mememory", self.questions(first)[:1])
        return Memory(before, truth.do(asking.memory), self.counts[first.label])

    def agreements(self, client: Client, truth: Client, profiles: Sequence[str]) -> list[Agreement]:
        """Return how far a client's answers are those of one that scores everything."""
        made = []
        for case in self.compared():
            self.tell(f"comparing {case.label}")
            asked = self.questions(case)
            near, true_near = (one.do(asking.nearest, case, asked, NEAR) for one in (client, truth))
            made.append(Agreement.of_nearest(case, near, true_near))
            for profile in profiles:
                found, true = (one.do(asking.listed, case, profile, asked) for one in (client, truth))
                made.append(Agreement.of(case, profile, found, true))
        return made

    @contextmanager
    def clients(self) -> Iterator[list[Client]]:
        """Yield as many processes as ask at the same time."""
        with ExitStack() as stack:
            made = (
                Client(self.store.application, pool_size=self.amounts.threads) for _ in range(self.amounts.processes)
            )
            yield [stack.enter_context(client) for client in made]

    def rows(self, clients: Sequence[Client], cases: Sequence[Case], profiles: Sequence[str]) -> list[Row]:
        """Return how long answers take in each case."""
        return [row for case in cases for row in self.rows_of(clients, case, profiles)]

    def rows_of(self, clients: Sequence[Client], case: Case, profiles: Sequence[str]) -> Iterator[Row]:
        """Yield how long answers take, profile by profile, for one client and for all."""
        questions = case.questions(self.corpus, QUESTIONS, seed=2)
        for profile in profiles:
            self.tell(f"{case.label}, {profile}")
            alone = clients[0].do(asking.asked, case, profile, questions, 1, self.amounts.alone)
            parts = at_once(clients, asking.asked, case, profile, questions, self.amounts.threads, self.amounts.crowd)
            crowd = [each for part in parts for each in part]
            latencies = (Latency.over(alone, 1), Latency.over(crowd, self.amounts.threads * len(clients)))
            yield Row(case, profile, self.counts[case.label], *latencies)

    def written(self, client: Client, case: Case) -> Written:
        """Return how long it takes to store a memory, and to note a recall."""
        choose = random.Random(3)
        contents = [text(choose, self.corpus.topic(case.place, choose)) for _ in range(self.amounts.written)]
        took = client.do(asking.remembered, case, contents)
        recalls = client.do(asking.asked, case, "salience", self.questions(case), 1, Effort(0, 20, 20))
        p50, p95 = (float(value) for value in np.quantile(took, (0.5, 0.95)))
        return Written(case, p50, p95, statistics.median(each.laps.get("touch", 0.0) for each in recalls))

    def cold(self, case: Case) -> Cold:
        """Return how long the first recall of a new engine takes, and later ones: medians of some engines."""
        questions = self.questions(case, seed=4)[:10]
        again = range(self.amounts.engines)
        took = [asking.cold_and_warm(self.store.application, case, "salience", questions) for _ in again]
        first, later = (statistics.median(each) for each in zip(*took, strict=True))
        return Cold(case, self.counts[case.label], first, later)
