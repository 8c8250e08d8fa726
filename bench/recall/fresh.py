"""A process that has nothing yet: from opening a store to the first answer, and the memory that it then holds.

Run as `python -m bench.recall.fresh NAME FOLDER FILE`: it opens the store of a contender in a folder, asks what a
file of `saved` holds, and prints what it took as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from bench import machine
from bench.recall import quiet
from bench.recall.bench import Bench, Row, questions
from bench.recall.contender import KINDS, OURS, OWN
from bench.recall.corpus import Question
from bench.recall.lookup import Lookup

ROUNDS: Final = 3
ASKED: Final = 10
"""Questions before the memory is looked at."""
SLOW: Final = 5.0
"""Seconds to the first answer from which on one process is enough."""
PATIENCE: Final = 900
"""Seconds that a process may take."""


def fresh(bench: Bench) -> Iterator[Row]:
    """Yield a row for each contender: medians of processes that were started turn about."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "questions.npz"
        save(path, questions(bench.corpus, "all")[:ASKED])
        imports = {name: _imported(name) for name in bench.names}
        found: dict[str, list[dict[str, float]]] = {name: [] for name in bench.names}
        for number in range(ROUNDS):
            bench.tell(f"{bench.corpus.size:,}: fresh processes, {number + 1} of {ROUNDS}")
            for name in bench.names:
                if number == 0 or found[name][0]["first"] < SLOW:
                    found[name].append(_told(bench, name, path))
    for name, rounds in found.items():
        values = {key: median(one[key] for one in rounds) for key in rounds[0]}
        yield Row("fresh", "all", name, {"import": imports[name], **values})


def _told(bench: Bench, name: str, path: Path) -> dict[str, float]:
    told = json.loads(_run(["-m", __name__, name, str(bench.made(name)), str(path)]))
    return {"open": told["open"], "first": told["first"], "bytes a row": told["grown"] / bench.corpus.size}


def _imported(name: str) -> float:
    """Return the seconds that a process takes to import what a contender needs: the median of some."""
    needed = f"import {KINDS[name].needs or 'numpy'}" if name != OURS else "import salience; salience.connect"
    code = f"import time; start = time.perf_counter(); {needed}; print(time.perf_counter() - start)"
    return median(float(_run(["-c", code])) for _ in range(ROUNDS))


def _run(arguments: Sequence[str]) -> str:
    """Return the last line that a process of Python prints; as of what is installed, compiled modules are kept."""
    command, settings = [sys.executable, *arguments], {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True, env=settings)
    return done.stdout.strip().splitlines()[-1]


def save(path: Path, asked: Sequence[Question]) -> None:
    """Write the texts and vectors of questions to a file."""
    vectors = np.stack([question.vector for question in asked])
    np.savez(path, texts=np.array([question.text for question in asked]), vectors=vectors)


def saved(path: Path) -> list[Question]:
    """Return what `save` wrote, as questions on all memories."""
    with np.load(path) as file:
        return [Question(0, str(text), vector) for text, vector in zip(file["texts"], file["vectors"], strict=True)]


def main(arguments: Sequence[str]) -> dict[str, Any]:
    """Return the seconds to open a store and to the first answer from then on, and the bytes that memory grew by."""
    name, folder, path = arguments
    if name not in OWN:
        quiet.seal()
    asked, kind, lookup = saved(Path(path)), KINDS[name], Lookup()
    kind.imported()
    before, start = machine.resident(), time.perf_counter()
    contender = kind.open(Path(folder), lookup)
    opened = time.perf_counter()
    contender.recall(asked[0], kind.modes[0])
    answered = time.perf_counter()
    for question in asked:
        for mode in kind.modes:
            contender.recall(question, mode)
    grown = machine.resident() - before
    contender.close()
    return {"open": opened - start, "first": answered - start, "grown": grown}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
