"""Measures a server, and prints the page."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from bench.bench_server import wrk
from bench.bench_server.measuring import Amounts, measured, saved
from bench.bench_server.report import Machine, page
from bench.machine import processor


def main(arguments: list[str]) -> None:
    """Print the page; how far it is goes to standard error."""
    parser = argparse.ArgumentParser(prog="python -m bench.bench_server", description=__doc__)
    parser.add_argument("--kept", type=Path, help="file of what was measured; a part that it has is not measured again")
    chosen = parser.parse_args(arguments)
    wrk.require()
    kept = json.loads(chosen.kept.read_text("utf-8")) if chosen.kept and chosen.kept.exists() else {}

    def save() -> None:
        if chosen.kept:
            saved(chosen.kept, kept)

    amounts = Amounts()
    with TemporaryDirectory() as folder:
        measured(kept, save, amounts, Path(folder), lambda words: print(words, file=sys.stderr, flush=True))
    machine = Machine(processor(), os.cpu_count() or 1, psutil.virtual_memory().total)
    print(page(kept, amounts, machine))


if __name__ == "__main__":
    main(sys.argv[1:])
