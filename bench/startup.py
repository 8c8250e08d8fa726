"""How long it takes to start, beside what starting NumPy and SQLAlchemy takes: `python -m bench.startup`.

Every case is run in fresh processes, turn about, so that a busy machine slows all of them alike. Bytecode is there, as
it is of what pip installed. One case opens a file that is there, with vectors that are looked up, and recalls once: all
of a start but the model.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

import salience
from salience.batch import Vectors32

BASE: Final = "import numpy, sqlalchemy"
"""The case that the others are held against."""
FILE: Final = "first.db"
_FIRST: Final = f"""
import salience
from bench.startup import answered
answered({FILE!r})
"""
_PYTHON: Final = {
    "python": "pass",
    BASE: BASE,
    "import salience": "import salience",
    "from salience import connect": "from salience import connect",
    "open a file, recall once": _FIRST,
}
_COMMANDS: Final = {"salience --version": ("--version",), "salience --help": ("--help",)}


@dataclass(frozen=True, slots=True)
class Took:
    """A case, and how long it took, as the median of its processes.

    Attributes:
        case: what was run.
        seconds: of wall clock, the interpreter's own start among them.
        ratio: the seconds over those of `BASE`.
    """

    case: str
    seconds: float
    ratio: float


class Lookup:
    """An embedder that costs nothing: every text has the same vector."""

    name = "lookup"
    dimension = 384

    def embed(self, texts: Sequence[str], /) -> Vectors32:
        """Return float32[len(texts), dimension]."""
        return np.full((len(texts), self.dimension), self.dimension**-0.5, np.float32)


def answered(file: str) -> int:
    """Open a store, recall once, and return the number of hits."""
    with salience.connect(file, embedder=Lookup()) as memory:
        return len(memory.recall("What does Alice drink?", user_id="alice"))


def cases() -> Mapping[str, Sequence[str]]:
    """Return what is measured: a name, and the command line of the process."""
    command = "from salience.cli import main; main()"
    python = {name: (sys.executable, "-c", code) for name, code in _PYTHON.items()}
    return python | {name: (sys.executable, "-c", command, *given) for name, given in _COMMANDS.items()}


def measure(runs: int) -> list[Took]:
    """Run every case so many times, turn about; return what each took."""
    laps: dict[str, list[float]] = {name: [] for name in cases()}
    with TemporaryDirectory(prefix="salience-startup-") as folder:
        _fill(Path(folder) / FILE)
        for _ in range(runs + 1):
            for name, command in cases().items():
                laps[name].append(_lap(command, folder))
    middle = {name: median(times[1:]) for name, times in laps.items()}  # the first has to compile
    return [Took(name, seconds, seconds / middle[BASE]) for name, seconds in middle.items()]


def _fill(file: Path) -> None:
    with salience.connect(file, embedder=Lookup()) as memory:
        memory.remember("Alice drinks tea in the morning", user_id="alice")


def _lap(command: Sequence[str], folder: str) -> float:
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, env=_environment(folder), check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def _environment(folder: str) -> dict[str, str]:
    """Return the environment of a process that keeps bytecode, in a folder of its own."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPYCACHEPREFIX": str(Path(folder) / "bytecode")}


def table(took: Sequence[Took]) -> str:
    """Return the cases as a table in Markdown."""
    head = f"| fresh process | ms | x `{BASE}` |\n|---|---:|---:|\n"
    return head + "".join(f"| `{one.case}` | {one.seconds * 1000:.0f} | {one.ratio:.2f} |\n" for one in took)


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description="How long it takes to start.")
    parser.add_argument("--runs", type=int, default=20, help="processes of each case")
    sys.stdout.write(table(measure(parser.parse_args().runs)))


if __name__ == "__main__":
    main()
