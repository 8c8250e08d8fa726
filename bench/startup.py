"""The processor time of a start, in fresh processes, beside importing NumPy and SQLAlchemy: prints a table.

    python -m bench.startup --runs 20

Cases run in turn, so that a busy machine slows all of them alike. Bytecode is there, as after `pip install`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import salience
from bench.corpus import Lookup

BASE: Final = "import numpy, sqlalchemy"
COMMAND: Final = "import sys; sys.argv[1:] = [{!r}]; from salience.cli import main; main()"
HOOK: Final = """
import io, os, sys
event = b'{"session_id": "s", "cwd": "/", "prompt": "What does Alice drink?"}'
sys.stdin = io.TextIOWrapper(io.BytesIO(event))
sys.argv[1:] = ["--store", os.environ["HOOK_FILE"], "hook", "UserPromptSubmit", "--project", "p"]
from salience.cli import main
main()
"""
MEMORIES: Final = 1000
"""Memories in the store of the hook."""
FIRST: Final = "from bench.startup import recall_once; recall_once()"
CASES: Final = {
    "python": "pass",
    BASE: BASE,
    "import salience": "import salience",
    "from salience import connect": "from salience import connect",
    "open a file, recall once": FIRST,
    "salience --version": COMMAND.format("--version"),
    "salience --help": COMMAND.format("--help"),
    "salience hook UserPromptSubmit": HOOK,
}


def recall_once() -> None:
    """Open the file of this run and recall; no model is loaded."""
    with salience.connect(os.environ["STARTUP_FILE"], embedder=Lookup()) as memory:
        if not memory.recall("What does Alice drink?", user_id="alice", min_score=0):
            raise SystemExit("the recall found nothing")


def spent() -> float:
    """Return the seconds of processor time of all processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.startup", description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="processes of each case")
    runs = parser.parse_args().runs
    took: dict[str, list[float]] = {name: [] for name in CASES}
    with TemporaryDirectory() as folder:
        file = str(Path(folder) / "first.db")
        with salience.connect(file, embedder=Lookup()) as memory:
            memory.remember("Alice drinks tea in the morning", user_id="alice")
        hooked = str(Path(folder) / "hooked.db")
        with salience.connect(hooked) as memory:
            notes = [{"content": f"Alice drinks tea number {number}"} for number in range(MEMORIES)]
            memory.remember_many(notes, project="p")
        environment = os.environ | {"PYTHONPYCACHEPREFIX": folder, "STARTUP_FILE": file, "HOOK_FILE": hooked}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for _ in range(runs + 1):  # the first one compiles
            for name, code in CASES.items():
                start = spent()
                command = [sys.executable, "-c", code]
                subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
                took[name].append(spent() - start)
    base = median(took[BASE][1:])
    print(f"| fresh process | ms | x `{BASE}` |\n|---|---:|---:|")
    for name, times in took.items():
        middle = median(times[1:])
        print(f"| `{name}` | {middle * 1e3:.0f} | {middle / base:.2f} |")


if __name__ == "__main__":
    main()
