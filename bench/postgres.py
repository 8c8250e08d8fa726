"""Measure the capacity and speed of one PostgreSQL server: prints docs/figures/postgres.md.

    python -m bench.postgres > docs/figures/postgres.md
    python -m bench.postgres --memories 25000 --only agreement
    python -m bench.postgres --only capacity --largest 1000000

The server is started for this, and gone afterwards; `--dsn` names another one. Exit code 1: an answer that states to
be exact is not. `--plant` compares with the answers of another profile, so that this must happen.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import islice, product
from multiprocessing import get_context
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import psutil
import psycopg
from sqlalchemy import make_url

from bench.corpus import BEGIN, BLOCK, DIMENSION, Block, Corpus, Entry, Lookup, Question, write_export
from bench.page import machine, number, percentiles, quantiles, resident_bytes, say, table
from bench.recall import share
from bench.torture_postgres import application
from salience import access_log, compose
from salience import settings as configuration
from salience.batch import Vectors32
from salience.engine import Engine
from salience.records import ANY
from salience.store.postgres.cache import THREAD
from tests.postgres_server import Elsewhere, fresh, server

SETTINGS: Final[dict[str, str | int]] = {
    "shared_buffers": "4GB",
    "effective_cache_size": "12GB",
    "maintenance_work_mem": "3GB",
    "max_wal_size": "8GB",
    "max_connections": 60,
}
PROFILES: Final = ("salience", "zeromemory", "mememory")
EVERY: Final = ("salience", "precise", "mememory", "memlayer", "zeromemory", "memorysync", "cmm")
SHARES: Final = (0.8, 0.08, 0.024)
"""Of the memories: the three largest tenants; the others have the same number each."""
LOOKUP: Final = Lookup()
SIZES: Final = """
    SELECT coalesce(t.relname || ': ', '') || c.relname, pg_relation_size(c.oid) FROM pg_class c
    LEFT JOIN pg_index i ON i.indexrelid = c.oid LEFT JOIN pg_class t ON t.oid = i.indrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'i', 't') AND (n.nspname = 'salience' OR c.oid IN (
        SELECT m.reltoastrelid FROM pg_class m JOIN pg_namespace k ON k.oid = m.relnamespace
        WHERE k.nspname = 'salience' AND m.relname = 'memories'))
    ORDER BY 2 DESC LIMIT 20"""
AMOUNTS: Final = (10_000, 100_000, 1_000_000)
COUNTS: Final = (1, 100, 2_000)
"""Memories and tenants of the table of capacity."""
DISK: Final = """
    SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind = 'r' AND n.nspname = 'salience'"""


@dataclass(frozen=True)
class Case:
    """Who asks: a tenant, coordinates and tags."""

    label: str
    tenant: int
    where: dict[str, Any] = field(default_factory=lambda: {"user_id": ANY, "project": ANY})
    tags: tuple[str, ...] = ()


def opened(dsn: str, **settings: Any) -> Engine:
    """Return an engine on the database, with a fixed clock after the last memory."""
    chosen = configuration.load().model_copy(update=settings)
    return compose.engine(chosen, dsn, embedder=LOOKUP, clock=lambda: BEGIN + timedelta(days=400))


def ask(engine: Engine, case: Case, profile: str, question: Question, **more: Any) -> Any:
    """Return the answer to a question."""
    LOOKUP.known[question.text] = question.vector
    own = engine.of(f"tenant{case.tenant}")
    return own.recall(question.text, limit=10, profile=profile, tags=case.tags, **case.where, **more)


def timed(times: list[float], engine: Engine, case: Case, profile: str, question: Question) -> Any:
    """Return the answer to a question, which counts as no recall, and add its milliseconds to the times."""
    start = time.perf_counter()
    found = ask(engine, case, profile, question, dry_run=True, min_score=0.0)
    times.append((time.perf_counter() - start) * 1e3)
    return found


def until_exact(engine: Engine, case: Case, question: Question) -> float:
    """Return the milliseconds until a recall scores every memory, a minute at most: a thread reads large scopes."""
    start = time.perf_counter()
    if not ask(engine, case, "salience", question, dry_run=True, min_score=0.0).exact:
        for thread in threading.enumerate():
            if thread.name == THREAD:
                thread.join(60)
        ask(engine, case, "salience", question, dry_run=True, min_score=0.0)
    return (time.perf_counter() - start) * 1e3


# --- Clients in processes of their own --------------------------------------------------------------------------------

_engine: Engine


def _connect(dsn: str, threads: int) -> None:
    global _engine
    _engine = opened(dsn, pool_size=threads)


def _times(case: Case, profile: str, questions: Sequence[Question], threads: int, seconds: float) -> list[float]:
    """Return milliseconds of recalls by some threads, for some seconds each but at least four."""

    def work(thread: int) -> list[float]:
        took: list[float] = []
        end = time.perf_counter() + seconds
        while len(took) < 4 or time.perf_counter() < end:
            start = time.perf_counter()
            ask(_engine, case, profile, questions[(len(took) + 17 * thread) % len(questions)])
            took.append((time.perf_counter() - start) * 1e3)
        return took

    until_exact(_engine, case, questions[0])
    with ThreadPoolExecutor(threads) as pool:
        times = [one for found in pool.map(work, range(threads)) for one in found]
    access_log.flush_all()  # else the next clients wait for these writes
    return times


def _writes(
    case: Case, questions: Sequence[Question], block: Block
) -> tuple[float, float, int, list[float], list[float]]:
    """Return the milliseconds of the first recall and until one is exact, the bytes that this takes, and more.

    The rest is the milliseconds of writes and of recalls after them. The bytes do not include those of a process that
    has recalled.
    """
    timed([], _engine, replace(case, tenant=-1), "salience", questions[0])
    size, first, wrote, took = resident_bytes(), list[float](), list[float](), list[float]()
    timed(first, _engine, case, "salience", questions[0])
    exact = first[0] + until_exact(_engine, case, questions[0])
    size = resident_bytes() - size
    for entry, vector, question in zip(block.entries(), block.vectors, questions, strict=True):
        LOOKUP.known[entry.text] = vector
        start = time.perf_counter()
        _engine.of(f"tenant{case.tenant}").remember(entry.text, user_id="user1", project="project1")
        wrote.append((time.perf_counter() - start) * 1e3)
        timed(took, _engine, case, "salience", question)
    return first[0], exact, size, wrote, took


def _read_all(tenants: int, question: Question) -> int:
    """Ask every tenant until a recall is exact; return the bytes that this takes."""
    timed([], _engine, Case("", -1), "salience", question)
    size = resident_bytes()
    for tenant in range(tenants):
        until_exact(_engine, Case("", tenant), question)
    return resident_bytes() - size


def _recalls(tenants: int, questions: Sequence[Question], threads: int, seconds: float) -> tuple[int, float]:
    """Ask any of the tenants for some seconds; return the recalls and their processor time, counters written."""

    def work(thread: int) -> int:
        chance, count, end = Random(thread), 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            ask(_engine, Case("", chance.randrange(tenants)), "salience", chance.choice(questions))
            count += 1
        return count

    start = time.process_time()
    with ThreadPoolExecutor(threads) as pool:
        count = sum(pool.map(work, range(threads)))
    access_log.flush_all()
    return count, time.process_time() - start


# --- The measurement --------------------------------------------------------------------------------------------------


class Bench:
    """A database, the memories in it, and what is measured."""

    def __init__(self, owner: str, dsn: str, folder: Path, args: argparse.Namespace) -> None:
        self.owner, self.dsn, self.folder, self.args = owner, dsn, folder, args
        self.file = folder / "agent.db"
        self.corpus = Corpus(args.memories, args.seed)
        large = [int(share * args.memories) for share in SHARES]
        rest = args.tenants - len(large)
        self.sizes = [*large, *[(args.memories - sum(large)) // rest] * rest]
        self.starts = np.cumsum([0, *self.sizes]).tolist()
        self.lines: list[str] = []
        self.wrong = 0

    def add(self, title: str, text: str, head: Sequence[str], rows: Sequence[Sequence[str]], names: int = 1) -> None:
        self.lines += [f"## {title}" if title else "", text, table(head, rows, names)]

    def cases(self) -> list[Case]:
        """Return who asks, from the most memories in view to the fewest."""
        sizes = self.sizes
        return [
            Case(f"{sizes[0]:,}", 0),
            Case(f"{sizes[0]:,}, one project", 0, {"user_id": ANY, "project": "project1"}),
            Case(f"{sizes[0]:,}, one user", 0, {"user_id": "user1", "project": ANY}),
            *(Case(f"{sizes[place]:,}", place) for place in (1, 2, 3)),
        ]

    def large(self) -> list[Case]:
        """Return the cases of all memories of the three largest tenants."""
        return [Case(f"{self.sizes[place]:,}", place) for place in range(len(SHARES))]

    def questions(self, case: Case, count: int) -> list[Question]:
        """Return questions about memories of a case's tenant."""
        start, size = self.starts[case.tenant], self.sizes[case.tenant]
        chance, block = np.random.default_rng([self.args.seed, case.tenant]), self.corpus.block(start // BLOCK)
        within = range(start - block.start, min(block.count, start + size - block.start))
        return [block.question(int(chance.choice(within)), chance) for _ in range(count)]

    def run(self) -> int:
        """Measure all of it, or one part; return how many answers stated to be exact and were not."""
        self.load()
        self.index()
        self.agreement()  # first: later recalls change importances, which the file does not see
        if self.args.only == "agreement":
            return self.wrong
        self.disk()
        given = (self.dsn, self.args.threads)
        with ProcessPoolExecutor(
            self.args.processes, mp_context=get_context("spawn"), initializer=_connect, initargs=given
        ) as clients:
            self.latency(clients, "Latency", self.cases(), PROFILES)
            tagged = [Case(f"{self.sizes[n]:,}, tag of 0.1 %", n, tags=("rare",)) for n in (0, 1)]
            self.latency(clients, "Filtered by tag", tagged, PROFILES[:1])
        self.writes()
        return self.wrong

    def load(self) -> None:
        """Import each tenant's memories from an export file, vectors included; the large ones' into a file, too."""
        entries = self.corpus.pairs()
        say("loading")
        took = 0.0
        with opened(self.owner) as engine, opened(str(self.file)) as file:
            for tenant, size in enumerate(self.sizes):
                path = self.folder / "export.jsonl"
                took += imported(engine, tenant, path, islice(entries, size))
                if tenant < len(SHARES):
                    file.of(f"tenant{tenant}").import_(path)
        with psycopg.connect(self.owner, autocommit=True) as superuser:
            superuser.execute("VACUUM ANALYZE")
        total = sum(self.sizes)
        rows = [("import, all tenants", f"{took:,.0f} s", f"{total / took:,.0f} memories a second")]
        self.add("Loading", "By a superuser on one connection.", ("step", "takes", "rate, or size"), rows, 3)

    def index(self) -> None:
        """Make the index of vectors, as `salience db index` does."""
        say("indexing vectors")
        with compose.database(self.owner) as database:
            made = database.index(is_half=False)
        self.lines.append(f"`{made.name}`: {made.seconds:,.0f} s, {(made.bytes or 0) / 2**20:,.0f} MB.")

    def disk(self) -> None:
        with psycopg.connect(self.owner, autocommit=True) as superuser:
            rows = [(f"`{name}`", f"{size / 2**20:,.0f} MB", f"{size / sum(self.sizes):,.0f}")
                    for name, size in superuser.execute(SIZES)]  # fmt: skip
        self.add("On disk", "The largest tables and indexes.", ("what", "size", "bytes a memory"), rows)

    def latency(self, clients: ProcessPoolExecutor, title: str, cases: Sequence[Case], profiles: Sequence[str]) -> None:
        """Measure recalls of one client, and of many at once."""
        rows, processes, threads = [], self.args.processes, self.args.threads
        for case in cases:
            questions = self.questions(case, 100)
            for profile in profiles:
                say(f"{case.label}, {profile}")
                alone = quantiles(clients.submit(_times, case, profile, questions, 1, self.args.seconds).result())
                parts = [
                    clients.submit(_times, case, profile, questions, threads, self.args.seconds)
                    for _ in range(processes)
                ]
                crowd = [one for part in parts for one in part.result()]
                rate = processes * threads * 1e3 / float(np.mean(crowd))
                times = (*percentiles(alone), *percentiles(quantiles(crowd)))
                rows.append((case.label, profile, *times, f"{rate:,.0f}"))
        many = processes * threads
        text = f"Milliseconds of `recall(limit=10)` for one client, then for {many} at once "
        text += f"({processes} processes of {threads} threads)."
        head = ("memories of the tenant", "profile", "p50", "p95", "p99", f"p50 of {many}", "p95", "p99", "a second")
        self.add(title, text, head, rows, 2)

    def agreement(self) -> None:
        """Compare answers with those of a file that holds the same memories."""
        rows, ways = [], {"default": {}, "from indexes": {"exact_rows": 0}}
        for way, settings in ways.items():
            with opened(self.dsn, **settings) as engine, opened(str(self.file)) as truth:
                for case in self.large():
                    questions = self.questions(case, self.args.compared)
                    if not settings:
                        until_exact(engine, case, questions[0])
                    for profile in EVERY:
                        say(f"comparing {case.label}, {profile}, {way}")
                        other = profile if not self.args.plant else EVERY[EVERY.index(profile) - 1]
                        ask(engine, case, profile, questions[0], dry_run=True)
                        ask(truth, case, other, questions[0], dry_run=True)
                        shares, exact, wrong, took, of_file = [], 0, 0, list[float](), list[float]()
                        for question in questions:
                            found = timed(took, engine, case, profile, question)
                            right = timed(of_file, truth, case, other, question)
                            ids, best = ([int(hit.memory.id, 16) for hit in one] for one in (found, right))
                            shares.append(share(ids, best))
                            exact += found.exact
                            wrong += found.exact and ids != best
                        self.wrong += wrong
                        figures = (f"{np.mean(shares):.3f}", f"{exact / len(questions):.0%}", str(wrong))
                        times = [*percentiles(quantiles(took), ("p50", "p95")), number(quantiles(of_file)["p50"])]
                        rows.append((case.label, way, profile, *figures, *times))
        text = f"Ten hits without a minimum score, of {self.args.compared} questions, in milliseconds. *default*: with "
        text += "the default settings; *from indexes*: with `SALIENCE_EXACT_ROWS=0`. *exact*: answers that state that "
        text += "no better memory was left out; *wrongly*: how many of these are wrong."
        head = ("memories", "answers", "profile", "recall@10", "exact", "wrongly", "p50", "p95", "p50 of the file")
        self.add("Against a file", text, head, rows, 3)

    def writes(self) -> None:
        """Measure the first recall of a process, one `remember` with all indexes in place, and the recall after it."""
        rows = []
        for case in self.large():
            say(f"writing, {case.label}")
            with ProcessPoolExecutor(1, get_context("spawn"), _connect, (self.dsn, 4)) as client:
                given = case, self.questions(case, 20), self.corpus.unstored(20, case.tenant)
                first, exact, size, wrote, took = client.submit(_writes, *given).result()
            figures = [*percentiles(quantiles(wrote), ("p50", "p95")), *percentiles(quantiles(took), ("p50", "p95"))]
            rows.append((case.label, number(first), number(exact), f"{size / 1e6:,.0f} MB", *figures))
        text = "In a new process, under `salience`: milliseconds of the first recall, and until one is exact, with the "
        text += "memory that this takes; of one `remember` with every index in place; and of the recall after it."
        head = ("memories", "first recall", "exact after", "takes", "remember p50", "p95", "recall after it p50", "p95")
        self.add("Writing", text, head, rows)


def imported(engine: Engine, tenant: int, path: Path, entries: Iterator[tuple[Entry, Vectors32]]) -> float:
    """Import memories from an export file, vectors included; return the seconds of the import."""
    write_export(path, entries)
    start = time.perf_counter()
    engine.of(f"tenant{tenant}").import_(path)
    return time.perf_counter() - start


def capacity(args: argparse.Namespace) -> str:
    """Return a table of recalls a second, processor time and bytes, by memories and tenants."""
    rows = []
    for memories, tenants in product([amount for amount in AMOUNTS if amount <= args.largest], COUNTS):
        start = time.perf_counter()
        with database(args.dsn) as (owner, dsn):
            rows.append((f"{memories:,}", f"{tenants:,}", *figures(args, owner, dsn, memories, tenants)))
        say(f"{' | '.join(rows[-1])}: {time.perf_counter() - start:,.0f} s")
    many = f"{args.processes} processes of {args.threads} threads"
    text = f"Tenants of equal size. {many} ask any of the tenants under `salience`, after each tenant was asked once. "
    text += "*server* and *clients*: processor time of a recall. *of a process*: memory that the columns take in each, "
    text += "at most those of `SALIENCE_CACHED_ROWS` memories. In a tenant of more than `SALIENCE_EXACT_ROWS`, the "
    text += "server's indexes find the memories to rank."
    head = ("memories", "tenants", "recalls a second", "clients, ms", "server, ms", "bytes a memory on disk")
    return "\n\n".join(("## Capacity", text, table((*head, "of a process"), rows, 0)))


def figures(args: argparse.Namespace, owner: str, dsn: str, memories: int, tenants: int) -> tuple[str, ...]:
    """Return the figures of the table of capacity for one number of memories and of tenants."""
    corpus, pools = Corpus(memories, args.seed), list[ProcessPoolExecutor]()
    entries, questions, size = corpus.pairs(), corpus.questions("all", 200), memories // tenants
    with TemporaryDirectory() as folder, opened(owner) as engine:
        for tenant in range(tenants):
            imported(engine, tenant, Path(folder) / "export.jsonl", islice(entries, size))
    if size > configuration.load().exact_rows:
        with compose.database(owner) as place:
            place.index(is_half=False)
    try:
        with psycopg.connect(owner, autocommit=True) as superuser:
            superuser.execute("VACUUM ANALYZE")
            (disk,) = superuser.execute(DISK).fetchone() or (0,)
            (status,) = superuser.execute("SELECT pg_read_file('postmaster.pid')").fetchone() or ("",)
        pools = [
            ProcessPoolExecutor(1, get_context("spawn"), _connect, (dsn, args.threads)) for _ in range(args.processes)
        ]
        sizes = [one.result() for one in [pool.submit(_read_all, tenants, questions[0]) for pool in pools]]
        before = 0.0 if args.dsn else server_seconds(int(status.split()[0]))
        given = (tenants, questions, args.threads, args.seconds)
        found = [one.result() for one in [pool.submit(_recalls, *given) for pool in pools]]
        served = 0.0 if args.dsn else server_seconds(int(status.split()[0])) - before
    finally:
        for pool in pools:
            pool.shutdown()
    count = sum(recalls for recalls, _ in found)
    spent = number(sum(seconds for _, seconds in found) / count * 1e3)
    served_ms = "" if args.dsn else number(served / count * 1e3)
    return f"{count / args.seconds:,.0f}", spent, served_ms, f"{disk / memories:,.0f}", f"{max(sizes) / 1e6:,.0f} MB"


def server_seconds(pid: int) -> float:
    """Return the processor time of the processes that a server on this machine has started."""
    running = psutil.Process(pid)
    times, ended = [child.cpu_times() for child in running.children()], running.cpu_times()
    return float(sum(one.user + one.system for one in times) + ended.children_user + ended.children_system)


@contextmanager
def database(dsn: str | None) -> Iterator[tuple[str, str]]:
    """Yield the DSN of an empty database for its owner, and for an application under row-level security."""
    if dsn is not None:
        with fresh(Elsewhere(dsn)) as owner:
            opened(owner).close()
            with application(owner) as user:
                yield owner, user
        return
    with server(settings=SETTINGS) as running, fresh(running) as owner:
        opened(owner).close()
        with application(owner) as user:
            yield owner, make_url(user).render_as_string(hide_password=False)


def main() -> int:
    """Print the page; progress goes to standard error."""
    parser = argparse.ArgumentParser(prog="python -m bench.postgres", description=__doc__)
    parser.add_argument("--memories", type=int, default=250_000)
    parser.add_argument("--tenants", type=int, default=100)
    parser.add_argument("--only", choices=["agreement", "capacity"], help="measure one part")
    parser.add_argument("--largest", type=int, default=100_000, help="maximum memories of the table of capacity")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each figure")
    parser.add_argument("--compared", type=int, default=40, help="questions whose answers are compared")
    parser.add_argument("--processes", type=int, default=2, help="of clients")
    parser.add_argument("--threads", type=int, default=4, help="of each process")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dsn", help="superuser of a server; without it one is started")
    parser.add_argument("--plant", action="store_true", help="compare with another profile's answers")
    args = parser.parse_args()
    if args.only == "capacity":
        print(capacity(args))
        return 0
    with TemporaryDirectory() as folder, database(args.dsn) as (owner, dsn):
        bench = Bench(owner, dsn, Path(folder), args)
        wrong = bench.run()
        with psycopg.connect(owner) as superuser:
            version = (superuser.execute("SHOW server_version").fetchone() or ["?"])[0]
    if args.only is None:
        bench.lines.append(capacity(args))
    settings = ", ".join(f"`{key} = {value}`" for key, value in SETTINGS.items()) if args.dsn is None else "its own"
    amounts = f"--memories {args.memories} --tenants {args.tenants}"
    sizes = bench.sizes
    print(f"""# Capacity and speed of PostgreSQL

Made by `make bench-postgres` (`python -m bench.postgres {amounts}`). Do not edit it by hand.

One server holds {args.memories:,} made-up memories of {args.tenants:,} tenants: {sizes[0]:,}, {sizes[1]:,} and
{sizes[2]:,} in the largest, {sizes[3]:,} in each of the others. Vectors of {DIMENSION} numbers are given, so no figure
contains an embedding. Clients work under row-level security.

Machine: {machine()}; PostgreSQL {version}.
Settings: {settings}. **The server and all its clients share these cores** (load average
{os.getloadavg()[1]:.1f}): read the figures as ratios.
""")
    print("\n\n".join(line for line in bench.lines if line))
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
