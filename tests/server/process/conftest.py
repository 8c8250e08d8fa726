"""Servers as they are run: one in this process, with planted vectors, and the command in a process of its own."""

from __future__ import annotations

import io
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog

from salience import settings
from salience.models import registry
from salience.server import logs
from salience.server.app import build_app
from salience.server.process import ServerConfig
from servers import served
from tests.contract.doubles import PlantedEmbedder
from waiting import PATIENCE

COMMAND = str(Path(sys.executable).with_name("salience"))

Started = Callable[..., httpx.Client]


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., ServerConfig]:
    """Return a function from settings to a plan, with planted vectors and without upkeep."""
    monkeypatch.setitem(registry.EMBEDDERS, "planted", lambda _: PlantedEmbedder())

    def plan(embedder: str = "planted", **given: Any) -> ServerConfig:
        own = {"url": str(tmp_path / "agent.db"), "server_port": 0, "server_upkeep": "forever", **given}
        return ServerConfig(settings=settings.load(**own), embedder=embedder)

    return plan


@pytest.fixture
def started(planned: Callable[..., ServerConfig]) -> Iterator[Started]:
    """Return a function from settings to a client of a server in this process."""
    with ExitStack() as stack:

        def start(plan: ServerConfig | None = None, **given: Any) -> httpx.Client:
            site = stack.enter_context(build_app(plan or planned(**given)))
            for thread in threading.enumerate():
                if thread.name == "salience-warm":
                    thread.join(PATIENCE)  # so that counts stand still
            url = stack.enter_context(served(site.asgi, lifespan="on"))
            return stack.enter_context(httpx.Client(base_url=url, timeout=PATIENCE))

        yield start


class Log(io.StringIO):
    """What a process has logged."""

    def __init__(self) -> None:
        super().__init__()
        self._more = threading.Condition()

    def write(self, text: str) -> int:
        with self._more:
            self._more.notify_all()
            return super().write(text)

    def requests(self, least: int = 1) -> list[dict[str, Any]]:
        """Return the lines of requests, once there are so many: one is written when its client has the answer."""
        with self._more:
            assert self._more.wait_for(lambda: len(self._requests()) >= least, PATIENCE), f"no {least} requests"
            return self._requests()

    def _requests(self) -> list[dict[str, Any]]:
        return [line for line in self.lines() if line["event"] == "request"]

    def lines(self) -> list[dict[str, Any]]:
        """Return the lines, each of which is a JSON object."""
        return [json.loads(line) for line in self.getvalue().splitlines()]


@pytest.fixture(autouse=True)
def _logs_as_they_were() -> Iterator[None]:
    """Undo in the end what a server does to the logs of its process."""
    root = logging.getLogger()
    before = (root.handlers[:], root.level, logging.getLogger("salience").level)
    hooks = (sys.excepthook, threading.excepthook, sys.unraisablehook)
    yield
    logging.captureWarnings(False)
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    logging.getLogger("salience").setLevel(before[2])
    sys.excepthook, threading.excepthook, sys.unraisablehook = hooks
    structlog.reset_defaults()


@pytest.fixture
def logged() -> Log:
    """Let all lines of this process go to a text, as a server has them at the level `debug`."""
    out = Log()
    logs.configure("debug", out)
    return out


class Running:
    """The command `salience serve` in a process of its own.

    Attributes:
        lines: what it has logged so far.
    """

    def __init__(self, store: str, *options: str, **env: str) -> None:
        self.lines: list[dict[str, Any]] = []
        self.raw: list[str] = []
        self._more = threading.Condition()
        self.process = subprocess.Popen(
            [COMMAND, "--store", store, "--embedder", "static", "serve", "--port", "0", *options],
            env={**os.environ, **env}, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def url(self) -> str:
        """Where it serves, once it does."""
        return str(self.until("serving")["url"])

    def close(self) -> None:
        """End it, if it has not ended."""
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stderr is not None
        self.process.stderr.close()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._more:
                self.raw.append(line)
                self.lines += [json.loads(line)] if line.startswith("{") else []
                self._more.notify_all()
        with self._more:
            self.raw.append("")
            self._more.notify_all()

    def until(self, event: str) -> dict[str, Any]:
        """Return the first line of an event, once it is there."""
        with self._more:
            found = self._more.wait_for(lambda: self._first(event) or "" in self.raw, PATIENCE)
            assert isinstance(found, dict), f"no line {event!r} in {self.raw}"
            return found

    def _first(self, event: str) -> dict[str, Any] | None:
        return next((line for line in self.lines if line["event"] == event), None)

    def workers(self) -> list[int]:
        """Return the ids of the processes that this one has started to serve."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal; return the code that it ends with."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


@pytest.fixture
def running() -> Iterator[Callable[..., Running]]:
    """Return a function from a store and options to the command that serves it; none is left in the end."""
    with ExitStack() as stack:

        def run(store: str, *options: str, **env: str) -> Running:
            made = Running(store, *options, **env)
            stack.callback(made.close)
            return made

        yield run


@contextmanager
def client_of(url: str) -> Iterator[httpx.Client]:
    """Yield a client."""
    with httpx.Client(base_url=url, timeout=PATIENCE) as client:
        yield client
