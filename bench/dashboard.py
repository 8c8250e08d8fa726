"""Time and size of each view of the dashboard with 100,000 memories, beside one query embedding: prints a table.

python -m bench.dashboard [--size 100000] [--rounds 5] [--store FILE | --store postgres]

A store whose file is missing is filled first; `postgres` starts a server for this. The views and the embedding run in
turn, so that a busy machine slows all of them alike. The vector of a question is looked up: its embedding is not part
of the time of a view. Exit code 1: a view is not answered, or is larger than `LARGEST`.
"""

from __future__ import annotations

import argparse
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import psycopg
from starlette.testclient import TestClient

from bench.browser import dashboard
from bench.corpus import Corpus, Lookup, write_export
from bench.page import machine, say, table
from salience import compose
from salience.models.minilm import MiniLM
from salience.server.ui.views import VIEWS
from tests.postgres_server import fresh, server

LARGEST: Final = 300_000
"""Bytes that a page has at most."""


def paths(corpus: Corpus) -> dict[str, str]:
    """Return the name of each measured page -> its path."""
    question = corpus.questions("all", 8)[0].text.replace(" ", "+")
    found = {view.title: f"/ui/{view.path}" for view in VIEWS}
    return found | {
        "Explorer, filters": "/ui/facets",
        "Explorer, by weight": "/ui/?sort=weight",
        "Explorer, without JavaScript": "/ui/?counts=1&sort=weight",
        "Explorer, one word": "/ui/?q=the",
        "Explorer, a question": f"/ui/?mode=recall&q={question}",
        "Playground, a question": f"/ui/playground?q={question}",
        "Why, a question": f"/ui/why?q={question}&memory={1:032x}",
        "Compare, a question": f"/ui/compare?q={question}",
        "Memory, one": f"/ui/memory/{1:032x}",
        "Graph, one": f"/ui/graph?id={1:032x}",
    }


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.dashboard", description=__doc__)
    parser.add_argument("--size", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--store", help="file of the store, kept for the next run; or 'postgres'")
    given = parser.parse_args()
    corpus, on_server = Corpus(given.size), given.store == "postgres"
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        target = given.store or str(folder / "agent.db")
        if on_server:
            target = stack.enter_context(fresh(stack.enter_context(server())))
        is_new = on_server or not Path(target).exists()
        engine = stack.enter_context(compose.local(target, embedder=Lookup()))
        if is_new:
            say("filling the store")
            write_export(folder / "export.jsonl", corpus.pairs())
            engine.import_(folder / "export.jsonl")
            if on_server:  # as autovacuum does within a minute
                with psycopg.connect(target) as connection:
                    connection.execute("ANALYZE")
        client, model = TestClient(dashboard(engine), base_url="http://127.0.0.1"), MiniLM()
        took: dict[str, list[float]] = {"one query embedding": []}
        sizes, statuses = dict[str, int](), dict[str, int]()
        for turn in range(given.rounds + 1):  # the first one fills caches
            for name, path in paths(corpus).items():
                start = time.perf_counter()
                response = client.get(path)
                took.setdefault(name, []).append(time.perf_counter() - start)
                sizes[name], statuses[name] = len(response.content), response.status_code
                start = time.perf_counter()
                model.embed([f"a question {name} {turn}"])
                took["one query embedding"].append(time.perf_counter() - start)
    rows = [
        [name, f"{median(times[1:]) * 1e3:.0f}", f"{sizes[name] / 1e3:.0f}" if name in sizes else ""]
        for name, times in took.items()
    ]
    failed = [f"{name} is not answered: {status}" for name, status in statuses.items() if status != 200]
    failed += [f"{name} has {size:,} bytes" for name, size in sizes.items() if size > LARGEST]
    print(f"{given.size:,} memories {'on PostgreSQL' if on_server else 'in a file'}; {machine()}.\n")
    print(table(("page", "ms", "KB"), rows))
    if failed:
        raise SystemExit("\n".join(failed))


if __name__ == "__main__":
    main()
