"""The parts of the measurement in their order, for each size; what each found out is kept in a file of JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from bench import machine
from bench.recall import quiet
from bench.recall.asking import peers, recall
from bench.recall.bench import Bench, Row
from bench.recall.clocks import Effort
from bench.recall.contender import KINDS, OWN, PEERS
from bench.recall.corpus import Corpus
from bench.recall.crowd import crowd
from bench.recall.fresh import fresh
from bench.recall.writing import mixed, size_of, write

Kept = dict[str, Any]
"""What was found out about one size, as JSON has it."""
SETTINGS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def load(bench: Bench) -> Iterator[Row]:
    """Yield a row for each contender: how long it takes to store the corpus, and the room that it takes on the disk."""
    for name in bench.names:
        seconds = bench.load(name)
        rate, room = bench.corpus.size / seconds, size_of(bench.place(name)) / bench.corpus.size
        yield Row("load", "all", name, {"seconds": seconds, "a second": rate, "bytes a row": room})


PARTS: Final[Mapping[str, Callable[[Bench], Iterator[Row]]]] = {
    "load": load,
    "fresh": fresh,
    "recall": recall,
    "peers": peers,
    "crowd": crowd,
    "write": write,
    "mixed": mixed,
}
"""Name -> what is measured, in order."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be measured.

    Attributes:
        sizes: of the corpora.
        peers: names of the other stores.
        parts: names of the parts.
        seed: of everything that is made up.
        effort: how much is measured.
        work: folder of the stores, which stay there for the next run; None for one that goes away.
    """

    sizes: tuple[int, ...]
    peers: tuple[str, ...] = tuple(PEERS)
    parts: tuple[str, ...] = tuple(PARTS)
    seed: int = 1
    effort: Effort = Effort()
    work: Path | None = None


def run(plan: Plan, folder: Path, tell: Callable[[str], None]) -> list[Kept]:
    """Measure what is planned, and return what is known of each size of the plan.

    What each part finds is kept in a file of `folder` as soon as it is known; what was known before of parts that are
    not measured now stays there, if it is of the same seed.
    """
    if plan.peers:
        quiet.seal()
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        work = plan.work or Path(stack.enter_context(TemporaryDirectory(prefix="salience-bench-")))
        return [_measured(plan, size, work, folder, tell) for size in plan.sizes]


def _measured(plan: Plan, size: int, work: Path, folder: Path, tell: Callable[[str], None]) -> Kept:
    path, corpus = folder / f"{size}.json", Corpus(size, plan.seed)
    place = work / f"{size}-{plan.seed}"
    place.mkdir(parents=True, exist_ok=True)
    names, skipped = chosen(plan.peers, size)
    kept = known(path, plan.seed) | surroundings(size, plan.seed, names) | {"skipped": skipped}
    for part in plan.parts:
        loads = [machine.load()]
        bench = Bench(corpus, place, names, plan.effort, tell)
        rows = [asdict(row) for row in PARTS[part](bench)]
        at = datetime.now(UTC).isoformat(timespec="seconds")
        kept["parts"][part] = {"at": at, "loads": [*loads, machine.load()], "rows": rows}
        path.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    return kept


def kept_in(folder: Path) -> list[Kept]:
    """Return what is known of every size that a folder has a file of."""
    return [json.loads(path.read_text("utf-8")) for path in folder.glob("*.json") if path.stem.isdigit()]


def chosen(peers: Sequence[str], size: int) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the names of those who can be measured with a size, and of those who cannot, with the reason."""
    reasons = {name: KINDS[name].hindrance(size) for name in peers}
    skipped = {name: reason for name, reason in reasons.items() if reason}
    return (*OWN, *(name for name in peers if name not in skipped)), skipped


def known(path: Path, seed: int) -> Kept:
    """Return what a file of a former run knows, if it is of the same seed."""
    if path.exists():
        kept: Kept = json.loads(path.read_text("utf-8"))
        if kept.get("seed") == seed:
            return kept
    return {"parts": {}}


def surroundings(size: int, seed: int, names: Sequence[str]) -> Kept:
    """Return what is measured, on what machine, and in which versions."""
    library = "numkong" if find_spec("numkong") else "none"
    return {
        "size": size,
        "seed": seed,
        "machine": {
            "processor": machine.processor(),
            "cores": os.cpu_count(),
            "memory": machine.memory(),
            "system": platform.platform(),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "kernels": library,
            "settings": {name: os.environ[name] for name in SETTINGS if name in os.environ},
        },
        "versions": {name: KINDS[name].version for name in names},
        "told": {name: KINDS[name].told for name in names},
    }
