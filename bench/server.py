"""Measure one server on loopback: prints docs/figures/server.md.

    python -m bench.server > docs/figures/server.md

`salience serve` with the default embedder, asked over connections that stay open by an HTTP client in a process of its
own. Exit code 1: an acknowledged memory is lost, or an answer was an error. `--plant` erases one acknowledged memory.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import httpx

from bench.corpus import Corpus
from bench.page import machine, number, percentiles, quantiles, say, table
from bench.served import STORES, empty_store, running
from salience import compose
from salience import settings as configuration
from salience.errors import NotFoundError
from salience.records import ANY
from salience.server import auth as access

EMBEDDER: Final = "minilm"
PROJECTS: Final = 20
KNOWN: Final = 100
"""Questions that are asked over and over, so that the server has their vectors."""
HEAD: Final = ("store", "asked", "workers", "clients", "a second", "ratio", "p50", "p95", "p99", "errors")


@dataclass(frozen=True)
class Load:
    """A way to ask: share of new questions and of writes, the key's rights, and whether all projects are in view."""

    name: str
    new: float = 0.0
    writes: float = 0.0
    who: str = "writer"
    everywhere: bool = False


LOADS: Final = (
    Load("half of the questions new", new=0.5),
    Load("all known"),
    Load("all known, dry run (a key that may only read)", who="reader"),
    Load("all known, all projects in view", everywhere=True),
    Load("all known, one request in ten a write", writes=0.1),
)


@contextmanager
def filled(kind: str, memories: int, folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the target of a store with memories, and a key for each right."""
    with empty_store(kind, folder) as target:
        texts = [text for block in Corpus(memories).blocks() for text in block.texts]
        with closing(compose.engine(configuration.load(), target, embedder=EMBEDDER)) as engine:
            for start in range(0, memories, 500):
                drafts = [
                    {"content": text, "project": f"project{(start + place) % PROJECTS}", "duplicate": True}
                    for place, text in enumerate(texts[start : start + 500])
                ]
                engine.remember_many(drafts)
        tokens = {}
        with closing(compose.keyring(target)) as keyring:
            for who, rights in {"writer": ("read", "write"), "reader": ("read",)}.items():
                tokens[who], key = access.create_key("default", rights, {}, None, None, datetime.now(UTC))
                keyring.add(key)
        yield target, tokens


def bodies(load: Load, memories: int, seed: int, count: int) -> list[tuple[str, dict[str, Any]]]:
    """Return paths and bodies of requests to a store that is `filled` with so many memories."""
    chance, texts = random.Random(seed), Corpus(memories).block(0).texts
    fresh, made = Corpus(count, seed + 7).block(0).texts, list[tuple[str, dict[str, Any]]]()
    for place in range(count):
        asked = chance.randrange(KNOWN)  # in its own project, which has its words: others would correct their spelling
        project = "*" if load.everywhere else f"project{asked % PROJECTS}"
        if chance.random() < load.writes:
            text = f"{fresh[place % len(fresh)]} noted {seed} {place}"
            made.append(("/v1/memories", {"content": text, "project": project}))
        else:
            query = " ".join(texts[asked].split()[:8])
            is_new = chance.random() < load.new
            made.append(("/v1/recall", {"query": f"{query} {seed} {place}" if is_new else query, "project": project}))
    return made


def client(url: str, token: str, clients: int, seconds: float, requests: Path) -> None:
    """Print what came of asking for some seconds: milliseconds, errors, and ids and texts of stored memories."""
    asked = json.loads(requests.read_text("utf-8"))
    took: list[float] = []
    stored: dict[str, str] = {}
    errors: Counter[str] = Counter()

    async def work(http: httpx.AsyncClient, place: int, end: float) -> None:
        number = place
        while time.perf_counter() < end:
            path, body = asked[number % len(asked)]
            number += clients
            start = time.perf_counter()
            try:
                answer = await http.post(path, json=body)
            except httpx.TransportError as error:
                errors[type(error).__name__] += 1
                return
            took.append((time.perf_counter() - start) * 1e3)
            if not answer.is_success:
                errors[f"status {answer.status_code}"] += 1
            elif path == "/v1/memories":
                stored[answer.json()["memory"]["id"]] = body["content"]

    async def all_of_them() -> None:
        limits = httpx.Limits(max_connections=clients, max_keepalive_connections=clients)
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60, limits=limits) as http:
            end = time.perf_counter() + seconds
            await asyncio.gather(*(work(http, place, end) for place in range(clients)))

    asyncio.run(all_of_them())
    print(json.dumps({"took": took, "errors": errors, "stored": stored}))


def start_client(
    url: str, token: str, load: Load, memories: int, clients: int, seconds: float, seed: int, folder: Path
) -> Any:
    """Start a client in a process of its own."""
    requests = folder / f"requests-{seed}.json"
    requests.write_text(json.dumps(bodies(load, memories, seed, 4_000)), "utf-8")
    command = [sys.executable, "-m", "bench.server", "--client", url, token, str(clients), str(seconds), str(requests)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def finished(process: Any) -> dict[str, Any]:
    """Return what a client printed."""
    found: dict[str, Any] = json.loads(process.communicate()[0].splitlines()[-1])
    return found


def alone(target: str, load: Load, memories: int, count: int) -> list[float]:
    """Return milliseconds of recalls by the engine without a server, one after the other."""
    took = []
    with closing(compose.engine(configuration.load(), target, embedder=EMBEDDER)) as engine:
        for path, body in bodies(load, memories, 1, count):
            if path == "/v1/recall":
                start = time.perf_counter()
                where = ANY if load.everywhere else body["project"]
                engine.recall(body["query"], project=where, dry_run=load.who == "reader")
                took.append((time.perf_counter() - start) * 1e3)
    return took[len(took) // 4 :]  # the first ones warm up


def lost(target: str, stored: dict[str, str], plant: bool) -> int:
    """Return how many acknowledged memories are not there as they were sent."""
    gone = 0
    with closing(compose.engine(configuration.load(), target, embedder=EMBEDDER)) as engine:
        if plant and stored:
            engine.erase([next(iter(stored))], project=ANY)
        for id, text in stored.items():
            try:
                gone += engine.get(id, project=ANY).content != text
            except NotFoundError:
                gone += 1
    return gone


def measure(kind: str, args: argparse.Namespace) -> tuple[list[Sequence[str]], list[Sequence[str]], int]:
    """Return rows of load, rows of servers that were stopped under load, and the number of faults."""
    rows: list[Sequence[str]] = []
    ends: list[Sequence[str]] = []
    faults, seed = 0, 10
    with TemporaryDirectory() as name, filled(kind, args.memories, Path(name)) as (target, tokens):
        folder, base, stored = Path(name), dict[str, float](), dict[str, str]()
        for load in LOADS:
            took = alone(target, load, args.memories, args.alone)
            base[load.name] = 1e3 * len(took) / sum(took)
            times = percentiles(quantiles(took))
            rows.append((kind, load.name, "none", "1", number(base[load.name], 0), "1", *times, "0"))
        for workers in args.workers:
            with running(target, folder / "log", embedder=EMBEDDER, workers=workers) as served:
                for load in LOADS:
                    for clients in args.clients:
                        say(f"{kind}, {load.name}, {workers} workers, {clients} clients")
                        seed += 1
                        token = tokens[load.who]
                        done = finished(
                            start_client(served.url, token, load, args.memories, clients, args.seconds, seed, folder)
                        )
                        times, rate = percentiles(quantiles(done["took"])), len(done["took"]) / args.seconds
                        ratio = f"{rate / base[load.name]:.2f}"
                        errors = sum(done["errors"].values())
                        asked = (kind, load.name, str(workers), str(clients))
                        rows.append((*asked, number(rate, 0), ratio, *times, str(errors)))
                        faults += errors
                        stored |= done["stored"]
        for number_ in range(args.ends):
            say(f"{kind}, stopped under load, {number_ + 1}")
            with running(target, folder / "log", embedder=EMBEDDER, workers=max(args.workers)) as served:
                load = Load("mixed", writes=0.5)
                asking = start_client(
                    served.url, tokens["writer"], load, args.memories, 16, 60, 1_000 + number_, folder
                )
                time.sleep(args.seconds + 2)
                start = time.perf_counter()
                served.process.terminate()
                code = served.process.wait(120)
                took_ = time.perf_counter() - start
            done = finished(asking)
            gone = lost(target, done["stored"], False)
            refused = sum(count for what, count in done["errors"].items() if what.startswith("status 5"))
            shown = (kind, str(code), f"{took_:.1f}", str(len(done["stored"])), str(gone), str(refused))
            ends.append(shown)
            faults += gone + (code != 0)
        gone = lost(target, stored, args.plant)
        say(f"{kind}: {len(stored)} acknowledged, {gone} lost")
        ends.append((kind, "after all loads", "", str(len(stored)), str(gone), ""))
    return rows, ends, faults + gone


def main() -> int:
    """Print the page; progress goes to standard error."""
    if sys.argv[1:2] == ["--client"]:
        url, token, clients, seconds, requests = sys.argv[2:]
        client(url, token, int(clients), float(seconds), Path(requests))
        return 0
    parser = argparse.ArgumentParser(prog="python -m bench.server", description=__doc__)
    parser.add_argument("--stores", nargs="+", default=list(STORES), choices=STORES)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--seconds", type=float, default=8.0, help="of each row")
    parser.add_argument("--alone", type=int, default=400, help="recalls of the engine alone")
    parser.add_argument("--ends", type=int, default=5, help="servers that are stopped under load")
    parser.add_argument("--plant", action="store_true", help="erase an acknowledged memory, which the check must find")
    args = parser.parse_args()

    rows, ends, faults = list[Sequence[str]](), list[Sequence[str]](), 0
    for kind in args.stores:
        found = measure(kind, args)
        rows, ends, faults = rows + found[0], ends + found[1], faults + found[2]
    print(f"""# Speed of a server

Made by `make bench-server` (`{" ".join(["python -m bench.server", *sys.argv[1:]])}`). Do not edit it by hand.

`salience serve` with the embedder `{EMBEDDER}` and default settings holds {args.memories:,} memories in {PROJECTS}
projects. Clients ask over loopback with a key; a recall sees one project unless the row says otherwise. The server has
the vectors of known questions and embeds new ones. A row without workers is the engine alone, one recall after the
other; *ratio* is the rate beside that. Times are milliseconds. *errors*: statuses from 400 and broken connections.

Machine: {machine()}. **The server, the database and all
clients share these cores** (load average {os.getloadavg()[1]:.1f}): read the figures as ratios.

## Load

{table(HEAD, rows, 2)}

## Stopped under load

A server gets SIGTERM while 16 clients recall and write. Afterwards, every acknowledged memory must be there.

{table(("store", "exit code", "seconds to end", "acknowledged", "lost", "answers with 5xx"), ends, 2)}""")
    return int(faults > 0)


if __name__ == "__main__":
    raise SystemExit(main())
