"""Several processes on one socket: a supervisor starts them, replaces those that die, and ends them all."""

from __future__ import annotations

import multiprocessing
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Final

import structlog

from salience.errors import SalienceError
from salience.server import logs, scraping
from salience.server.plan import Plan

SPAWN: Final = multiprocessing.get_context("spawn")
"""Processes are started afresh: to fork one that has threads is not safe."""
TURN: Final = 0.1
"""Seconds between two looks at signals."""
SHORT: Final = 1.0
"""Seconds of life below which a worker is not replaced at once, but when they are over."""
GRACE: Final = 10.0
"""Seconds that a worker has to close its store, beside those for its requests."""
FAILED: Final = 1
KILLED: Final = 128
"""Added to the number of a signal that ended a process at once, as shells do."""


@dataclass(slots=True)
class Worker:
    """A process that serves, since when, and whether it stands in the place of none that served before."""

    process: SpawnProcess
    began: float
    is_first: bool


class Supervisor:
    """Keeps so many processes serving.

    Args:
        plan: what is to be served.
        listening: the socket; it is closed here as soon as all is to end, so that nobody waits on it in vain.
    """

    def __init__(self, plan: Plan, listening: socket.socket) -> None:
        self._plan = plan
        self._listening = listening
        self._signals: list[int] = []
        self._reader, self._writer = SPAWN.Pipe(duplex=False)
        self._workers: list[Worker] = []

    def run(self) -> None:
        """Serve until a signal comes, then let the workers end; a second one ends them at once.

        Raises:
            SalienceError: a worker cannot serve, of those that were started first; one of later may, some time.
        """
        with self._told():
            self._workers = [self._started(is_first=True) for _ in range(self._plan.settings.server_workers)]
            while not self._signals:
                wait([worker.process.sentinel for worker in self._workers], TURN)
                self._workers = [self._alive(worker) for worker in self._workers]
            self._listening.close()
            self._end()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Keep the signals that ask for an end."""

        def told(number: int, _: object) -> None:
            self._signals.append(number)

        before = {number: signal.signal(number, told) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _started(self, *, is_first: bool = False) -> Worker:
        process = SPAWN.Process(target=work, args=(self._plan, self._listening, self._reader), name="salience-worker")
        process.start()
        return Worker(process, time.monotonic(), is_first)

    def _alive(self, worker: Worker) -> Worker:
        """Return the worker, or, where it died, the one in its place."""
        if worker.process.is_alive():
            return worker
        if worker.is_first and worker.process.exitcode == FAILED:
            self._end()
            raise SalienceError("server: a worker cannot serve. The line above says why.")
        if time.monotonic() - worker.began < SHORT:
            time.sleep(TURN)  # its sentinel would end each wait at once
            return worker
        _log().error("a worker died and is replaced", pid=worker.process.pid, code=worker.process.exitcode)
        scraping.gone(worker.process.pid or 0)
        return self._started()

    def _end(self) -> None:
        """End the workers."""
        deadline = time.monotonic() + self._plan.settings.server_shutdown + GRACE
        for worker in self._workers:
            worker.process.terminate()
        while any(worker.process.is_alive() for worker in self._workers):
            if len(self._signals) > 1 or time.monotonic() > deadline:
                for worker in self._workers:
                    worker.process.kill()
            time.sleep(TURN)
        if len(self._signals) > 1:
            sys.exit(KILLED + self._signals[1])


def work(plan: Plan, listening: socket.socket, supervisor: Connection) -> None:
    """Serve, in a process of its own, until the supervisor says so or is gone."""
    logs.configure(plan.settings.log_level)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from salience.server.server import leave, serve  # takes longer to load than the supervisor has use for
    from salience.server.site import standing

    try:
        with standing(plan) as site:
            serve(site, listening, plan.settings.server_shutdown, end_of(supervisor))
    except SalienceError as error:
        _log().error("a worker cannot serve", detail=str(error))
        sys.exit(FAILED)
    leave()


def end_of(supervisor: Connection) -> Callable[[], None]:
    """Return what returns when the other end of a pipe, on which nothing ever comes, is closed."""

    def end() -> None:
        try:
            supervisor.recv_bytes()
        except (EOFError, OSError):
            return

    return end


def _log() -> Any:
    return structlog.get_logger()
