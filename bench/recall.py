"""Measure recalls and writes beside other stores and beside one embedding: writes docs/figures/bench.md.

    python -m bench.recall --sizes 10000,100000 --peers all --out docs/figures

All stores hold the same made-up memories in one process and get the same question in turn, so figures are ratios of
one run. Vectors are given: no figure but the first contains an embedding. `--plant` gives our store wrong vectors; the
check of dense answers must then fail.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import Any, Final

import numkong
import numpy as np
from numpy.typing import NDArray

from bench.corpus import DIMENSION, PROJECTS, SESSION, USERS, VIEWS, Corpus, Entry, Lookup, Question, write_export
from bench.page import Figures, machine, number, percentiles, quantiles, resident_bytes, say, table
from bench.peers import LIMIT, PEERS, Store, seal
from salience import compose
from salience.batch import Vectors32
from salience.evaluate.run import contender
from salience.models.minilm import MiniLM
from salience.records import ANY, Draft, Recall

OURS: Final = "salience"
INT8: Final = "int8 scan"
EMBEDDING: Final = "one embedding"
FSYNC: Final = "one fsync"
PROFILES: Final = {
    "hybrid": (contender("salience"), 0.0),
    "cut off": (contender("salience"), None),
    "dense": (contender("cosine"), None),
}
"""Mode -> profile and minimum score; `cut off` is hybrid with the minimum score of the profile."""
TARGETS: Final = (
    ("recall hybrid, 10,000 in view, beside one embedding", 10_000, "all", EMBEDDING, 0.6),
    ("recall hybrid, 100,000 in view, beside the int8 scan", 100_000, "all", INT8, 2.0),
    ("recall hybrid, 1,000,000 in view, beside the int8 scan", 1_000_000, "all", INT8, 2.0),
    ("recall hybrid, one user of 20 at 100,000, beside one embedding", 100_000, "user", EMBEDDING, 0.5),
)
"""What is measured, at which size and view, beside what, and the largest ratio that is wanted."""


class Ours:
    """Salience on a file."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.lookup = folder, Lookup()
        self.engine = compose.local(folder / "agent.db", embedder=self.lookup)

    def import_(self, corpus: Corpus) -> float:
        """Import a corpus from an export file; return the seconds without those of writing that file."""
        path = self.folder / "export.jsonl"
        write_export(path, corpus.pairs())
        start = time.perf_counter()
        self.engine.import_(path)
        took = time.perf_counter() - start
        path.unlink()
        return took

    def answer(self, question: Question, mode: str) -> Recall:
        self.lookup.known = {question.text: question.vector}
        profile, least = PROFILES[mode]
        tags, user = (question.tag,) if question.tag else (), question.user or ANY
        return self.engine.recall(
            question.text, limit=LIMIT, profile=profile, min_score=least, tags=tags, user_id=user, project=ANY
        )

    def recall(self, question: Question, mode: str) -> list[int]:
        return [int(hit.memory.id, 16) for hit in self.answer(question, mode)]

    def write(self, entry: Entry, vector: Vectors32) -> None:
        self.lookup.known = {entry.text: vector}
        self.engine.remember(entry.text, user_id=entry.user, project=entry.project, duplicate=True)

    def close(self) -> None:
        self.engine.close()


class Scan:
    """The least that a search can be: products with int8 vectors by the engine's kernels, and the ten largest."""

    def __init__(self, corpus: Corpus) -> None:
        blocks = list(corpus.blocks())
        vectors = np.concatenate([block.vectors for block in blocks])
        users = np.concatenate([block.homes[:, 0] for block in blocks])
        tagged = np.concatenate([block.tagged for block in blocks])
        self.steps = np.abs(vectors).max(axis=1) / np.float32(127)
        self.rows = np.rint(vectors / self.steps[:, None]).astype(np.int8)
        views = {f"user{user}": np.flatnonzero(users == user) for user in range(USERS)}
        views["rare"] = np.flatnonzero(tagged)
        self.views = {name: (rows, self.rows[rows], self.steps[rows]) for name, rows in views.items()}
        self.views[""] = (np.arange(len(vectors)), self.rows, self.steps)

    def recall(self, question: Question, mode: str) -> list[int]:
        rows, vectors, steps = self.views[question.tag or question.user or ""]
        step = np.abs(question.vector).max() / np.float32(127)
        query = np.rint(question.vector / step).astype(np.int8)
        products: NDArray[Any] = np.asarray(numkong.dots_packed(vectors, numkong.dots_pack(query[None])))[:, 0] * steps
        best = np.argpartition(products, -LIMIT)[-LIMIT:] if len(products) > LIMIT else np.arange(len(products))
        return [int(row) for row in rows[best[np.argsort(-products[best])]]]


def in_turn(
    works: Mapping[str, Callable[[int], Any]], seconds: float, most: int
) -> dict[str, tuple[list[float], list[Any]]]:
    """Run the functions in turn (A B C A B C), each for some seconds; return milliseconds and results."""
    laps: dict[str, tuple[list[float], list[Any]]] = {name: ([], []) for name in works}
    left = dict(works)
    gc.collect()
    for lap in range(-3, most):  # the first three warm up
        for name, work in list(left.items()):
            start = time.perf_counter()
            result = work(lap % 1_000)
            took = (time.perf_counter() - start) * 1e3
            if lap >= 0:
                laps[name][0].append(took)
                laps[name][1].append(result)
            if len(laps[name][0]) >= 10 and sum(laps[name][0]) > seconds * 1e3:
                del left[name]
    return laps


def share(found: Sequence[int], right: Sequence[int]) -> float:
    """Return which share of the right rows was found; 1 where nothing is right."""
    return len({*found} & {*right}) / len(right) if right else 1.0


class Bench:
    """One size: the corpus, the stores that hold it, and the figures."""

    def __init__(self, size: int, peers: Sequence[str], folder: Path, args: argparse.Namespace) -> None:
        self.corpus, self.folder, self.args = Corpus(size, args.seed), folder / f"{size}-{args.seed}", args
        self.peers = [name for name in peers if not PEERS[name].missing and size <= PEERS[name].largest]
        self.skipped = {
            name: f"pip install {PEERS[name].package}" if PEERS[name].missing else f"more than {PEERS[name].largest:,}"
            for name in peers
            if name not in self.peers
        }
        self.figures: Figures = {"size": size, "skipped": self.skipped}
        self.stores: dict[str, Store] = {}

    def say(self, words: str) -> None:
        say(f"{self.corpus.size:,}: {words}")

    def path(self, name: str) -> Path:
        path = self.folder / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def run(self) -> Figures:
        """Return all figures of this size."""
        self.load()
        self.figures["fresh"] = {name: self.fresh(name) for name in (OURS, *self.peers)}
        self.ours = Ours(self.path(OURS))
        self.scan = Scan(self.corpus)
        self.stores = {name: PEERS[name].make(self.path(name)) for name in self.peers}
        laps = in_turn({EMBEDDING: embedder(self.corpus)}, 2.0, self.args.most)
        self.figures["embedding"] = quantiles(laps[EMBEDDING][0])
        self.figures["recalls"] = [row for mode in PROFILES for view in VIEWS for row in self.recalls(mode, view)]
        self.figures["writes"] = self.writes()
        self.ours.close()
        for store in self.stores.values():
            store.close()
        return self.figures

    def load(self) -> None:
        """Fill every store with the corpus; what `--work` still holds from another run is used again."""
        self.figures["load"] = {}
        for name in (OURS, *self.peers):
            done = self.folder / f"{name}.json"
            if not done.exists():
                self.say(f"{name} loads")
                shutil.rmtree(self.path(name))
                took = self.load_ours() if name == OURS else self.load_peer(name)
                size = sum(path.stat().st_size for path in self.path(name).rglob("*") if path.is_file())
                figures = {"seconds": took, "rows/s": self.corpus.size / took, "bytes": size / self.corpus.size}
                done.write_text(json.dumps(figures))
            self.figures["load"][name] = json.loads(done.read_text())

    def load_ours(self) -> float:
        """Import the corpus; a planted fault is that of another seed, whose vectors are others."""
        ours = Ours(self.path(OURS))
        took = ours.import_(replace(self.corpus, seed=self.corpus.seed + 1) if self.args.plant else self.corpus)
        ours.close()
        return took

    def load_peer(self, name: str) -> float:
        store, took = PEERS[name].make(self.path(name)), 0.0
        for block in self.corpus.blocks():
            entries, vectors = list(block.entries()), block.vectors
            start = time.perf_counter()
            store.load(entries, vectors)
            took += time.perf_counter() - start
        start = time.perf_counter()
        store.finish()
        took += time.perf_counter() - start
        store.close()
        return took

    def recalls(self, mode: str, view: str) -> Iterator[Figures]:
        """Yield a row for each store: beside the bare scan and one embedding, then beside the other stores."""
        questions = self.corpus.questions(view, 200)
        right = self.corpus.nearest(questions) if mode == "dense" else None
        others = {name: store for name, store in self.stores.items() if mode in PEERS[name].modes}
        embed = embedder(self.corpus)
        alone: dict[str, Callable[[int], Any]] = {
            OURS: lambda number: self.ours.recall(questions[number % len(questions)], mode),
            INT8: lambda number: self.scan.recall(questions[number % len(questions)], mode),
            EMBEDDING: embed,
        }
        beside: dict[str, Callable[[int], Any]] = {OURS: alone[OURS]}
        for name, store in others.items():
            beside[name] = lambda number, store=store: store.recall(questions[number % len(questions)], mode)  # type: ignore[misc]
        for part, works in (("alone", alone), ("peers", beside)):
            if len(works) == 1:
                continue
            self.say(f"recall {mode}, {view}, {part}")
            laps = in_turn(works, self.args.seconds, self.args.most)
            own = median(laps[OURS][0])
            for name, (times, answers) in laps.items():
                row = {"mode": mode, "view": view, "part": part, "store": name, **quantiles(times)}
                row["ratio"] = row["p50"] / own
                if name != EMBEDDING:
                    asked = [questions[number % len(questions)] for number in range(len(answers))]
                    row["found"] = fmean(q.row in got for q, got in zip(asked, answers, strict=True))
                    if right is not None:
                        row["recall@10"] = fmean(
                            share(got, right[number % len(right)]) for number, got in enumerate(answers)
                        )
                if name == OURS:
                    samples = [self.ours.answer(question, mode) for question in questions[:30]]
                    row["exact"] = fmean(one.exact for one in samples)
                    row["steps"] = {step: median(one.timings[step] for one in samples) for step in samples[0].timings}
                yield row

    def writes(self) -> Figures:
        """Return milliseconds of one write in each store, of one fsync, and of many writes in one call."""
        self.say("writes")
        with (self.folder / "fsync").open("ab", buffering=0) as file:

            def fsync(_: int) -> None:
                file.write(bytes(4096))
                os.fsync(file.fileno())

            works: dict[str, Callable[[int], Any]] = {FSYNC: fsync}
            for place, (name, store) in enumerate({OURS: self.ours, **self.stores}.items()):
                block = self.corpus.unstored(self.args.most + 3, place)
                fresh = iter(list(zip(block.entries(), block.vectors, strict=True)))
                works[name] = lambda _, store=store, fresh=fresh: store.write(*next(fresh))  # type: ignore[misc]
            laps = in_turn(works, self.args.seconds, self.args.most)
        figures: Figures = {name: quantiles(times) for name, (times, _) in laps.items()}
        block = self.corpus.unstored(500, 100)
        self.ours.lookup.known = dict(zip(block.texts, block.vectors, strict=True))
        drafts = [Draft(content=text, duplicate=True) for text in block.texts]
        start = time.perf_counter()
        self.ours.engine.remember_many(drafts, user_id="user1", project="project1")
        figures["500 in a call"] = {"rows/s": 500 / (time.perf_counter() - start)}
        return figures

    def fresh(self, name: str) -> Figures:
        """Return seconds from opening to the first answer in new processes, and the memory that they then hold."""
        self.say(f"{name} opens")
        command = [sys.executable, "-m", "bench.recall", "--fresh", name, str(self.path(name)), str(self.corpus.size)]
        done = [
            json.loads(
                subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip().splitlines()[-1]
            )
            for _ in range(self.args.opens)
        ]
        return {key: median(one[key] for one in done) for key in done[0]}


def fresh(name: str, folder: str, size: str) -> None:
    """Print the seconds to open a store and to its first answer, and the bytes that memory grew by."""
    question = Corpus(int(size)).questions("all", 1)[0]
    make: Callable[[Path], Any] = Ours if name == OURS else PEERS[name].make
    mode = "hybrid" if name == OURS else PEERS[name].modes[0]
    with suppress(Exception), TemporaryDirectory() as empty:
        make(Path(empty)).close()  # imports what is needed
    before, start = resident_bytes(), time.perf_counter()
    store = make(Path(folder))
    opened = time.perf_counter()
    store.recall(question, mode)
    answered = time.perf_counter()
    print(json.dumps({"open": opened - start, "first": answered - start, "bytes": resident_bytes() - before}))
    store.close()


def embedder(corpus: Corpus) -> Callable[[int], Any]:
    """Return a function that embeds a new question with the default model."""
    model = MiniLM()
    texts = [question.text for question in corpus.questions("all", 200)]
    return lambda number: model.embed([f"{texts[number % len(texts)]} {number}"])


# --- The page ---------------------------------------------------------------------------------------------------------


def ratios(sizes: Sequence[Figures]) -> list[tuple[str, str, str, bool]]:
    """Return each ratio that is wanted: what, figure, wanted, and whether it is met."""
    found = []
    for size in sizes:
        rows = [row for row in size["recalls"] if row["mode"] == "hybrid"]
        for what, count, view, beside, most in TARGETS:
            if size["size"] == count:
                here = {row["store"]: row for row in rows if row["view"] == view and row["part"] == "alone"}
                ratio = here[OURS]["p50"] / here[beside]["p50"]
                found.append((what, f"{ratio:.2f} x", f"<= {most} x", ratio <= most))
        for row in rows:
            if row["part"] == "peers" and row["view"] == "all" and row["store"] != OURS:
                what = f"hybrid recall of {row['store']}, {size['size']:,} in view, beside ours"
                found.append((what, f"{row['ratio']:.1f} x", ">= 5 x", row["ratio"] >= 5))
        rate = size["load"][OURS]["rows/s"]
        found.append((f"bulk import, {size['size']:,} memories", f"{rate:,.0f} rows/s", ">= 5,000", rate >= 5_000))
        if size["size"] == 100_000:
            first = size["fresh"][OURS]["first"]
            found.append(("open to the first answer, 100,000 memories", f"{first:.2f} s", "<= 1.5 s", first <= 1.5))
        own = size["writes"][OURS]["p50"] - size["writes"][FSYNC]["p50"]
        found.append((f"one remember at {size['size']:,}, over one fsync", f"{own:.2f} ms", "<= 3 ms", own <= 3))
        dense = min(r["recall@10"] for r in size["recalls"] if r["store"] == OURS and "recall@10" in r)
        found.append(
            (f"dense recall@10 at {size['size']:,}, against all cosines", f"{dense:.3f}", "1.000", dense > 0.9995)
        )
    return found


HEAD: Final = f"""# Recall and write times

Made by `make bench` (`python -m bench.recall`). Do not edit it by hand.

**Data.** Memories made from a seed: vectors of {DIMENSION} numbers in clusters, texts of 12 to 27 words by Zipf's law,
{USERS} users, {PROJECTS} projects. Half of them are turns of sessions of {SESSION}. A question has words of one memory
and a vector near its own. Vectors are given: **only "one embedding" contains an embedding**.

**Method.** All stores hold the same data in one process and answer the same question in turn. Read the figures as
ratios.

| term | meaning |
|---|---|
| hybrid | vectors and words, the ten best, minimum score 0 |
| cut off | hybrid with the profile's minimum score |
| dense | vectors alone |
| recall@10 | share of the ten nearest memories by all cosines |
| found | how often the answer has the memory that the question was made from |
| exact | how often the engine states that it left out no better memory |
| int8 scan | products of all int8 vectors and the ten largest; no filters, texts, ids or durability |
| one embedding | the default model on one question |

Our recalls include the write that counts them.
"""


def page(run: Figures) -> str:
    """Return the page."""
    parts = [HEAD.rstrip(), run["machine"], "## Ratios"]
    found = [(what, value, wanted, "yes" if met else "**no**") for what, value, wanted, met in ratios(run["sizes"])]
    parts.append(table(("what", "figure", "wanted", "met"), found))
    for size in run["sizes"]:
        parts.append(f"## {size['size']:,} memories")
        for mode in PROFILES:
            for part, words in (("alone", "beside the bare scan and one embedding"), ("peers", "beside other stores")):
                rows = [
                    (
                        VIEWS[row["view"]],
                        row["store"],
                        str(row["n"]),
                        *percentiles(row),
                        *(number(row.get(key), 3) for key in ("recall@10", "found")),
                        number(row.get("exact"), 2),
                        f"{number(row['ratio'])} x",
                    )
                    for row in size["recalls"]
                    if row["mode"] == mode and row["part"] == part
                ]
                head = ("in view", "store", "n", "p50", "p95", "p99", "recall@10", "found", "exact", "beside ours")
                parts += [f"### Recall, {mode}, {words}: milliseconds", table(head, rows, 2)] if rows else []
        steps = [row for row in size["recalls"] if "steps" in row and row["part"] == "alone"]
        named = list(steps[0]["steps"])
        cells = [
            (row["mode"], VIEWS[row["view"]], *(number(row["steps"].get(s, 0.0), 3) for s in named)) for row in steps
        ]
        parts += ["### Our recall by step: milliseconds, medians", table(("mode", "in view", *named), cells, 2)]
        fsync = size["writes"][FSYNC]["p50"]
        writes = [
            (name, *percentiles(row), f"{number(row['p50'] / fsync)} x")
            for name, row in size["writes"].items()
            if "p50" in row
        ]
        parts += ["### One write: milliseconds", table(("store", "p50", "p95", "p99", "beside one fsync"), writes)]
        many = size["writes"]["500 in a call"]["rows/s"]
        parts.append(f"`remember_many` with 500 drafts: {many:,.0f} memories a second.")
        loads = [
            (n, number(r["seconds"], 1), number(r["rows/s"], 0), number(r["bytes"], 0)) for n, r in size["load"].items()
        ]
        parts += ["### Bulk load", table(("store", "seconds", "memories a second", "bytes a memory on disk"), loads)]
        opens = [
            (n, number(r["open"] * 1e3, 0), number(r["first"] * 1e3, 0), number(r["bytes"] / size["size"], 0))
            for n, r in size["fresh"].items()
        ]
        columns = ("store", "open, ms", "to the first answer, ms", "bytes a memory in RAM")
        parts += ["### A fresh process", table(columns, opens)]
        parts += ["\n".join(f"- **{name}** is not measured: {why}." for name, why in size["skipped"].items())]
    parts.append("\n".join(f"- **{name}** {note}" for name, note in run["notes"].items()))
    return "\n\n".join(part for part in parts if part) + "\n"


def main() -> int:
    """Measure, write `bench.md` and `bench.json` into OUT, print the ratios; 1 where an answer is wrong."""
    if sys.argv[1:2] == ["--fresh"]:
        fresh(*sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(prog="python -m bench.recall", description=__doc__)
    parser.add_argument("--sizes", default="10000", help="how many memories: 10000,100000")
    parser.add_argument("--peers", default="all", help=f"all, none, or some of {', '.join(PEERS)}")
    parser.add_argument("--out", type=Path, default=Path("salience-bench"), help="folder of bench.md and bench.json")
    parser.add_argument("--work", type=Path, help="keep the stores here for the next run")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each store and figure")
    parser.add_argument("--most", type=int, default=400, help="repetitions, at most")
    parser.add_argument("--opens", type=int, default=3, help="fresh processes of each store")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plant", action="store_true", help="store wrong vectors, which the check must find")
    args = parser.parse_args()
    names = list(PEERS) if args.peers == "all" else [] if args.peers == "none" else args.peers.split(",")
    if unknown := set(names) - set(PEERS):
        parser.error(f"unknown peers: {', '.join(sorted(unknown))}")
    if names:
        seal()
    with TemporaryDirectory(prefix="salience-bench-") as temporary:
        work = args.work or Path(temporary)
        sizes = [Bench(int(size), names, work, args).run() for size in args.sizes.split(",")]
    when = datetime.now(UTC).isoformat(timespec="minutes")
    place = (
        f"{machine()}, {platform.platform()}; "
        f"Python {platform.python_version()}, NumPy {np.__version__}, numkong {version('numkong')}. "
        f"Seed {args.seed}; {when}; load average {os.getloadavg()[1]:.1f}."
    )
    notes = {name: f"{PEERS[name].version}: {PEERS[name].note}" for name in names if not PEERS[name].missing}
    run: Figures = {"machine": place, "sizes": sizes, "notes": notes}
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "bench.json").write_text(json.dumps(run, indent=1) + "\n", "utf-8")
    (args.out / "bench.md").write_text(page(run), "utf-8")
    for what, value, wanted, met in ratios(sizes):
        print(f"{'ok    ' if met else 'MISSED'} {what}: {value} (wanted {wanted})")
    return int(any(not met for what, _, _, met in ratios(sizes) if what.startswith("dense recall@10")))


if __name__ == "__main__":
    raise SystemExit(main())
