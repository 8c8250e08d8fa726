"""The parts of the measurement, each kept once it is there, so that what was cut off goes on where it was."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np

from bench.bench_server import wrk
from bench.bench_server.loads import LOADS, Load
from bench.bench_server.mixing import Mix, lost
from bench.bench_server.place import EMBEDDER, MEMORIES, Place, opened, place
from bench.served import STORES, Served, running
from salience.engine import Engine
from salience.records import ANY

WORKERS: Final = (1, 2)
METRICS: Final = "bench"
"""Token of the page of metrics."""
_COUNTED: Final = {
    "recalls": re.compile(r'^salience_requests_total\{.*verb="recall".*\} (\S+)', re.MULTILINE),
    "embedded": re.compile(r'^salience_embedded_texts_total\{outcome="embedded"\} (\S+)', re.MULTILINE),
    "in progress": re.compile(r"^salience_requests_in_progress(?:\{.*\})? (\S+)", re.MULTILINE),
}
"""What is read off the page of metrics."""
Json = dict[str, Any]
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Amounts:
    """How much is measured.

    Attributes:
        memories: in the store.
        seconds: of each run of wrk.
        warm: seconds for which the same is asked before.
        alone: recalls of the engine itself.
        mixed: seconds of clients that also write.
        writes: share of what these ask that stores something.
        ends: how often a server is ended under load.
        before: memories that are acknowledged until then.
    """

    memories: int = MEMORIES
    seconds: float = 8
    warm: float = 4
    alone: int = 300
    mixed: float = 120
    writes: float = 0.1
    ends: int = 5
    before: int = 50


class Bench:
    """The measurement of one store.

    Args:
        kind: of the store.
        amounts: how much.
        folder: for what is there meanwhile.
        tell: is told how far it is.
    """

    def __init__(self, kind: str, amounts: Amounts, folder: Path, tell: Tell) -> None:
        self._kind = kind
        self._amounts = amounts
        self._folder = folder
        self._tell = tell
        self._runs = 0

    def parts(self) -> dict[str, Callable[[Place], Json]]:
        """Return name -> part, in the order in which they are measured: those that store something come last."""
        found: dict[str, Callable[[Place], Json]] = {f"{self._kind} alone": self.alone}
        for what, part in (("asked", self.asked), ("mixed", self.mixed), ("ended", self.ended)):
            for workers in WORKERS:
                found[f"{self._kind} {what} {workers}"] = lambda at, part=part, workers=workers: part(at, workers)  # type: ignore[misc]
        return found

    def alone(self, place: Place) -> Json:
        """Return how fast the engine is in this process, without a server, load by load: one recall after the other."""
        with opened(place.target) as engine:
            rows = {}
            for load in LOADS:
                bodies = load.bodies(self._run())
                for _ in ("to warm up", "to be measured"):
                    took = [_took(engine, load, body) for body in islice(bodies, self._amounts.alone)]
                rows[load.name] = _summed(took)
        return rows

    def asked(self, place: Place, workers: int) -> Json:
        """Return what wrk tells of each load with each number of clients."""
        rows = []
        with self._server(place, workers) as served:
            for load in LOADS:
                self._drive(served, place, load, max(load.clients), self._amounts.warm)
                for clients in load.clients:
                    before = settled(served.url)
                    told = self._drive(served, place, load, clients, self._amounts.seconds)
                    after = settled(served.url)
                    new = (after["embedded"] - before["embedded"]) / max(1, after["recalls"] - before["recalls"])
                    rows.append({"load": load.name, "clients": clients, "new": new, **asdict(told)})
                    self._tell(f"  {rows[-1]}")
        return {"rows": rows}

    def mixed(self, place: Place, workers: int) -> Json:
        """Return what came of clients that recall and write at the same time."""
        with self._server(place, workers) as served:
            mix = Mix(served.url, place, self._amounts.writes, self._run())
            with mix.going():
                time.sleep(self._amounts.mixed)
        tally = mix.tally
        return {
            "seconds": self._amounts.mixed,
            **{verb: _summed([one * 1e3 for one in took]) for verb, took in tally.took.items()},
            "acknowledged": len(tally.stored),
            "lost": lost(place, tally.stored),
            "errors": dict(tally.errors),
        }

    def ended(self, place: Place, workers: int) -> Json:
        """Return what came of servers that were ended while clients asked and wrote."""
        rounds = []
        for _ in range(self._amounts.ends):
            with self._server(place, workers) as served:
                mix = Mix(served.url, place, 0.5, self._run(), self._amounts.before)
                with mix.going():
                    mix.enough.wait()
                    mix.ending = True
                    began = time.perf_counter()
                    served.process.terminate()
                    code = served.process.wait(120)
                    took = time.perf_counter() - began
            tally = mix.tally
            found = {"code": code, "seconds": took, "acknowledged": len(tally.stored), "unanswered": tally.unanswered}
            rounds.append({**found, "errors": dict(tally.errors), "lost": lost(place, tally.stored)})
            self._tell(f"  {rounds[-1]}")
        return {"rounds": rounds}

    def _server(self, place: Place, workers: int) -> AbstractContextManager[Served]:
        log = self._folder / "log"
        return running(place.target, log, embedder=EMBEDDER, workers=workers, SALIENCE_METRICS_TOKEN=METRICS)

    def _drive(self, served: Served, place: Place, load: Load, clients: int, seconds: float) -> wrk.Told:
        token = place.tokens[load.who]
        return wrk.driven(served.url, token, load.bodies(self._run()), clients, seconds, self._folder)

    def _run(self) -> int:
        """Return the number of a run that begins."""
        self._runs += 1
        return self._runs


def measured(kept: dict[str, Json], save: Callable[[], None], amounts: Amounts, folder: Path, tell: Tell) -> None:
    """Add to what is kept each part that it does not have, and save it after each.

    A store that lacks a part is filled anew.
    """
    for kind in STORES:
        bench = Bench(kind, amounts, folder, tell)
        missing = {name: part for name, part in bench.parts().items() if name not in kept}
        if not missing:
            continue
        tell(f"filling {kind}")
        with place(kind, folder, amounts.memories) as filled:
            for name, part in missing.items():
                before = os.getloadavg()[0]
                tell(f"{name} (load {before:.1f})")
                kept[name] = {**part(filled), "loads": [before, os.getloadavg()[0]]}
                save()


def _took(engine: Engine, load: Load, body: Mapping[str, Any]) -> float:
    """Return the milliseconds that a recall takes."""
    project = ANY if load.everywhere else body["project"]
    began = time.perf_counter()
    engine.recall(body["query"], project=project, dry_run=load.who == "reader")
    return (time.perf_counter() - began) * 1e3


def saved(path: Path, kept: Mapping[str, Json]) -> None:
    """Write what is kept to a file."""
    path.write_text(json.dumps(kept, indent=1), "utf-8")


def settled(url: str) -> dict[str, float]:
    """Return what the processes of a server have counted, once none works any more on what nobody waits for."""
    while True:
        page = httpx.get(f"{url}/metrics", headers={"Authorization": f"Bearer {METRICS}"}, timeout=60)
        text = page.raise_for_status().text
        found = {name: sum(map(float, form.findall(text))) for name, form in _COUNTED.items()}
        if not found["in progress"]:
            return found
        time.sleep(0.1)


def _summed(took: list[float]) -> Json:
    """Return the quantiles of milliseconds, and how many there were."""
    p50, p95, p99 = (float(one) for one in np.quantile(took, (0.5, 0.95, 0.99)))
    return {"count": len(took), "p50": p50, "p95": p95, "p99": p99, "a_second": 1e3 * len(took) / sum(took)}
