"""Measure whether the memory of a long-lived process grows: prints a table of resident megabytes.

    python -m bench.resident                     20,000 recalls and 20,000 writes on a file
    python -m bench.resident --operations 2000

One process recalls and updates a fixed number of memories in turn, so whatever grows is a leak. Exit code 1: the
second half ends more than `--allowed` megabytes above its start.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import salience
from bench.page import resident_bytes
from salience.text import english_words

STEPS: Final = 10
"""Rows of the table."""


def main() -> None:
    """Run the operations, and print a row for each tenth of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operations", type=int, default=20_000, help="recalls, and writes")
    parser.add_argument("--memories", type=int, default=1_000)
    parser.add_argument("--embedder", default="static")
    parser.add_argument("--allowed", type=float, default=20.0, help="megabytes")
    options = parser.parse_args()
    pick, found, known = random.Random(1), list[float](), sorted(english_words())

    def text(words: int) -> str:
        return " ".join(pick.choices(known, k=words))

    with TemporaryDirectory() as folder, salience.connect(Path(folder) / "a.db", embedder=options.embedder) as memory:
        stored = memory.remember_many([{"content": text(12), "duplicate": True} for _ in range(options.memories)])
        print("| recalls and writes | resident, MB |\n|---:|---:|", flush=True)
        for number in range(options.operations + 1):
            if number % (options.operations // STEPS) == 0:
                gc.collect()
                found.append(resident_bytes() / 1e6)
                print(f"| {number:,} | {found[-1]:.1f} |", flush=True)
            memory.recall(text(5), limit=5)
            memory.update(pick.choice(stored).memory.id, content=text(12))
    grown = found[-1] - found[STEPS // 2]
    print(f"\nThe second half grew by {grown:.1f} MB.")
    sys.exit(grown > options.allowed)


if __name__ == "__main__":
    main()
