"""Who asks what, how long the answers take, and what is in them."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
import psutil

from bench.bench_postgres.corpus import END, SESSION, YEAR, Corpus, question, tenant
from bench.bench_postgres.place import asked_at, of, opened
from salience.engine import Engine
from salience.ports import Need
from salience.recall import MIN_REACH
from salience.records import ANY, Filter, Scope

LIMIT: Final = 10
"""Hits that are asked for."""


@dataclass(frozen=True, slots=True)
class Case:
    """Somebody's view of a tenant's memories.

    Attributes:
        label: in words.
        place: of the tenant.
        where: scope keywords.
        tags: which a hit must carry.
    """

    label: str
    place: int
    where: Mapping[str, Any] = field(default_factory=lambda: {"user_id": ANY, "project": ANY})
    tags: tuple[str, ...] = ()

    @property
    def scope(self) -> Scope:
        """Who asks."""
        return Scope(tenant(self.place), **self.where)

    def questions(self, corpus: Corpus, count: int, seed: int) -> tuple[str, ...]:
        """Return questions, each on a memory in sight, whatever its tags."""
        choose, made = random.Random(seed), list[str]()
        size = corpus.sizes[self.place]
        while len(made) < count:
            first = choose.randrange(0, size, SESSION)
            if self.scope.sees(corpus.home(self.place, first)[1]):
                begin = END - YEAR * choose.random()  # some time of the year, for the questions that name a month
                said = corpus.session(self.place, first, begin, min(SESSION, size - first))
                made.append(question(choose, choose.choice(said)))
        return tuple(made)


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is asked: for so many seconds, but at least and at most so many times a thread."""

    seconds: float
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a question: milliseconds in all and by step, ids best first, and whether it says to be exact."""

    milliseconds: float
    laps: Mapping[str, float]
    ids: tuple[str, ...]
    exact: bool


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds that answers took: the quantiles, how many there were, and how many came in a second."""

    p50: float
    p95: float
    p99: float
    count: int
    rate: float
    laps: Mapping[str, float]
    hits: float
    exact: float

    @classmethod
    def over(cls, answers: Sequence[Answer], clients: int) -> Latency:
        """Return that of some answers, which so many clients asked for one after the other."""
        each = np.array([answer.milliseconds for answer in answers])
        p50, p95, p99 = (float(value) for value in np.quantile(each, (0.5, 0.95, 0.99)))
        steps = {step: 0.0 for answer in answers for step in answer.laps}
        return cls(
            p50,
            p95,
            p99,
            len(each),
            clients * 1e3 / float(each.mean()),
            {step: float(np.median([answer.laps.get(step, 0.0) for answer in answers])) for step in steps},
            float(np.mean([len(answer.ids) for answer in answers])),
            float(np.mean([answer.exact for answer in answers])),
        )


def answer(engine: Engine, case: Case, profile: str, text: str, **how: Any) -> Answer:
    """Return the answer to a question."""
    start = time.perf_counter()
    found = engine.recall(text, limit=LIMIT, profile=profile, tags=case.tags, **how, **case.where)
    took = (time.perf_counter() - start) * 1e3
    return Answer(took, found.timings, tuple(hit.memory.id for hit in found), found.exact)


def asked(
    engine: Engine, case: Case, profile: str, questions: Sequence[str], threads: int, effort: Effort
) -> list[Answer]:
    """Return the answers to questions that threads ask over and over, each at another place, once all is warm."""
    own = of(engine, case.scope.tenant)
    with ThreadPoolExecutor(threads) as pool:
        for number in range(threads):
            answer(own, case, profile, questions[number % len(questions)])
        work = partial(_asked, own, case, profile, questions, effort)
        return [each for found in pool.map(work, range(threads)) for each in found]


def _asked(
    engine: Engine, case: Case, profile: str, questions: Sequence[str], effort: Effort, number: int
) -> list[Answer]:
    start, found = time.perf_counter(), list[Answer]()
    while len(found) < effort.most:
        if len(found) >= effort.least and time.perf_counter() - start > effort.seconds:
            break
        found.append(answer(engine, case, profile, questions[(len(found) + 17 * number) % len(questions)]))
    return found


def listed(engine: Engine, case: Case, profile: str, questions: Sequence[str]) -> list[Answer]:
    """Return the best memories for each question, however little they fit it, leaving everything as it is."""
    own = of(engine, case.scope.tenant)
    return [answer(own, case, profile, text, dry_run=True, min_score=0.0) for text in questions]


def nearest(engine: Engine, case: Case, questions: Sequence[str], count: int) -> list[tuple[str, ...]]:
    """Return, for each question, the ids of the nearest memories by falling cosine, as the store brings them."""
    found = []
    for vector in engine.services.embedder.embed(questions):
        need = Need(
            scope=case.scope,
            now=asked_at(),
            filter=Filter(tags=case.tags),
            columns=frozenset({"cosine"}),
            vector=vector,
            candidates=count,
            reach=MIN_REACH,
        )
        batch = engine.services.store.gather(need)
        best = np.argsort(-batch["cosine"], kind="stable")[:count]
        found.append(tuple(str(batch.ids[row]) for row in best))
    return found


def remembered(engine: Engine, case: Case, contents: Sequence[str]) -> list[float]:
    """Return the milliseconds that storing each text took, each in a call of its own."""
    own, took = of(engine, case.scope.tenant), []
    for content in contents:
        start = time.perf_counter()
        own.remember(content, kind="turn", importance=0.5, entities=(), user_id="user0", project="project1")
        took.append((time.perf_counter() - start) * 1e3)
    return took


def cold_and_warm(dsn: str, case: Case, profile: str, questions: Sequence[str]) -> tuple[float, float]:
    """Return the milliseconds of the first recall of an engine in this view, and the median of those after it.

    The engine has asked another tenant before, so that it is connected.
    """
    with opened(dsn) as engine:
        other = Case("", 4)
        for _ in range(2):
            answer(of(engine, other.scope.tenant), other, profile, questions[0])
        first, *rest = (answer(of(engine, case.scope.tenant), case, profile, text) for text in questions)
        return first.milliseconds, float(np.median([each.milliseconds for each in rest]))


def memory(_: Engine) -> int:
    """Return the bytes that this process has for itself."""
    gc.collect()
    return int(psutil.Process().memory_full_info().uss)
