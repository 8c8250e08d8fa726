"""Writers as processes of their own: started, spoken to, and killed."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import sqlite3
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection as Line
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine as Database
from sqlalchemy import event

from bench.torture.journal import Journal
from bench.torture.writing import hand, opened, seeded, step

PATIENCE: Final = 60.0
"""Seconds after which a process that says nothing, or does not end, is given up."""
OPENINGS: Final = 5
"""Verbs of a writer between two openings, where it opens its file again and again."""
GRACE: Final = 0.05
"""Seconds that writers write on after another one was killed."""
PRELOADED: Final = ["alembic.command", "bench.torture.crowd", "bench.torture.full_disk"]
"""What the process that the others are forked from has loaded, so that they start at once."""
STARTED, WROTE, STOP = b"started", b"wrote", b"stop"
"""What a writer and its parent say to each other."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a writer is to do.

    Attributes:
        file: to write to.
        journal: the writer's own; its stem is the writer's name.
        seed: of its choices.
        board: id of the memory that all writers update; None where there is none.
        reopens: whether it closes and opens the file every few verbs.
        fuse: how many statements of write transactions it sends to SQLite before it kills itself; None for no end.
    """

    file: Path
    journal: Path
    seed: str
    board: str | None = None
    reopens: bool = False
    fuse: int | None = None


@dataclass(frozen=True, slots=True)
class Writer:
    """A process that writes, and the line to it."""

    process: BaseProcess
    line: Line

    def heard(self, word: bytes) -> bool:
        """Wait until the writer says `word`; return False where it ends before."""
        with suppress(EOFError):
            while self.line.poll(PATIENCE):
                if self.line.recv_bytes() == word:
                    return True
        return False


def write(job: Job, line: Line) -> None:
    """Write until told to stop, or killed; the first verb that is told is said to the parent."""
    if job.fuse is not None:
        light(job.fuse)
    line.send_bytes(STARTED)
    journal, choose = Journal(job.journal), seeded(job.seed)
    try:
        said = False
        while not line.poll():
            with opened(job.file) as engine:
                mine = hand(engine, journal, choose, job.board)
                for _ in range(OPENINGS) if job.reopens else iter(lambda: line.poll(), True):
                    step(mine, journal)
                    if not said:
                        line.send_bytes(WROTE)
                        said = True
    except Exception as error:  # of whatever kind, it is a fault, which the parent has to hear of
        journal.fail(f"{journal.path.stem} ended with {type(error).__name__}: {error}")


def light(statements: int) -> None:
    """Have this process kill itself between two statements of a transaction that writes, after so many of them."""
    left = itertools.count(statements, -1)

    def burn(driver: sqlite3.Connection) -> None:
        if driver.total_changes and driver.in_transaction and next(left) <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    @event.listens_for(Database, "connect")
    def _lit(driver: object, *_: object) -> None:
        if isinstance(driver, sqlite3.Connection):
            driver.set_trace_callback(lambda _: burn(driver))


def context() -> Any:
    """Return where processes come from: one that has all modules loaded, and no thread, lock or connection."""
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload(PRELOADED)
    return made


def start(job: Job) -> Writer:
    """Start a writer."""
    here, there = context().Pipe()
    process = context().Process(target=write, args=(job, there), daemon=True)
    process.start()
    there.close()
    return Writer(process, here)


def end(doomed: Sequence[Writer], spared: Sequence[Writer]) -> int:
    """Kill the doomed at once, let the spared write on before they are stopped; return how many were killed.

    A writer that does not stop is killed too, and counts as one more, so that no process is left behind.
    """
    for writer in doomed:
        writer.process.kill()
    time.sleep(GRACE if spared else 0)
    for writer in spared:
        with suppress(OSError):
            writer.line.send_bytes(STOP)
    for writer in (*doomed, *spared):
        writer.process.join(PATIENCE)
        writer.process.kill()
        writer.process.join()
        writer.line.close()
    return sum(writer.process.exitcode == -signal.SIGKILL for writer in (*doomed, *spared))
