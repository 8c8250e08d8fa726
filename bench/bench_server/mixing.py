"""Clients that recall and write at the same time. What was acknowledged is looked for afterwards."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import count, cycle
from typing import Any, Final

import httpx

from bench.bench_server import texts
from bench.bench_server.loads import Load
from bench.bench_server.place import Place, opened, project
from salience.engine import Engine
from salience.errors import NotFoundError
from salience.records import ANY

CLIENTS: Final = 16
PATIENCE: Final = 60.0
"""Seconds after which a request hangs."""
SENTENCES: Final = 500
"""From which what a client writes is made; a number makes each text another one."""


@dataclass(slots=True)
class Tally:
    """What the clients have seen.

    Attributes:
        took: verb -> seconds of each answer.
        stored: id -> content of each memory that was acknowledged.
        errors: what went wrong -> how often.
        unanswered: requests whose connection ended while the server did, which acknowledges nothing.
    """

    took: dict[str, list[float]] = field(default_factory=lambda: {"recall": [], "remember": []})
    stored: dict[str, str] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    unanswered: int = 0


class Mix:
    """Clients that go on until they are told to stop, or their server is gone.

    Args:
        url: of the server.
        place: what it serves.
        writes: share of the requests that store a memory; the others recall.
        round: its number; no other stores the same.
        least: memories that are acknowledged once it is `enough`.

    Attributes:
        tally: what they have seen.
        enough: is set once so many memories are acknowledged, or something went wrong.
        over: is set when they are to stop.
        ending: whether the server was told to end, so that it may close connections.
    """

    def __init__(self, url: str, place: Place, writes: float, round: int, least: int = 0) -> None:
        self.tally = Tally()
        self.enough = threading.Event()
        self.over = threading.Event()
        self.ending = False
        self._url = url
        self._headers = {"Authorization": f"Bearer {place.tokens['writer']}"}
        self._writes = writes
        self._round = round
        self._least = least
        self._lock = threading.Lock()

    @contextmanager
    def going(self) -> Iterator[None]:
        """Let them work meanwhile; all have stopped on return."""
        with ThreadPoolExecutor(CLIENTS) as pool:
            clients = [pool.submit(self._client, number) for number in range(CLIENTS)]
            try:
                yield
            finally:
                self.over.set()
        for client in clients:
            client.result()

    def _client(self, number: int) -> None:
        place = self._round * CLIENTS + number
        choose = random.Random(place)
        asked = cycle(Load("", new=True).bodies(place))
        told = texts.sentences(SENTENCES, seed=100 + place)
        with httpx.Client(base_url=self._url, headers=self._headers, timeout=PATIENCE) as client:
            for turn in count():
                if self.over.is_set():
                    return
                if choose.random() < self._writes:
                    content = f"{choose.choice(told)} Noted as {place}-{turn}."
                    self._ask(client, "remember", "/v1/memories", {"content": content, "project": project(place)})
                else:
                    self._ask(client, "recall", "/v1/recall", next(asked))

    def _ask(self, client: httpx.Client, verb: str, path: str, body: Mapping[str, Any]) -> None:
        began = time.perf_counter()
        try:
            answer = client.post(path, json=body)
        except httpx.TransportError as error:
            self._failed(error)
            return
        with self._lock:
            self.tally.took[verb].append(time.perf_counter() - began)
            if not answer.is_success:
                self.tally.errors[f"status {answer.status_code}"] += 1
            elif verb == "remember":
                self.tally.stored[answer.json()["memory"]["id"]] = body["content"]
            if self.tally.errors or len(self.tally.stored) >= self._least:
                self.enough.set()

    def _failed(self, error: httpx.TransportError) -> None:
        with self._lock:
            if self.ending and not isinstance(error, httpx.TimeoutException):
                self.tally.unanswered += 1
                self.over.set()
            else:
                self.tally.errors[type(error).__name__] += 1
                self.enough.set()


def lost(place: Place, stored: Mapping[str, str]) -> int:
    """Return how many of the memories that were acknowledged are not there, or are not what was sent."""
    with closing(opened(place.target)) as engine:
        return sum(not _is_there(engine, *told) for told in stored.items())


def _is_there(engine: Engine, id: str, content: str) -> bool:
    try:
        return engine.get(id, project=ANY).content == content
    except NotFoundError:
        return False
