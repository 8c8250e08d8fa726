"""Writers on an engine that is never opened anew: threads of this process, and of others with their own engine."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as Line
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from bench.torture.journal import Journal
from bench.torture.processes import PATIENCE, STARTED, STOP, context
from bench.torture.writing import hand, seeded, step
from bench.torture_postgres.housing import of, opened
from salience.engine import Engine
from salience.errors import StoreError, UnsettledError

APART: Final = 100_000
"""Verbs between two numberings of a writer's texts, so that none is given twice."""


@dataclass(frozen=True, slots=True)
class Post:
    """Where a writer writes.

    Attributes:
        tenant: whose memories.
        journal: the writer's own; its stem is the writer's name.
        board: id of the memory that all writers of the tenant update.
        seed: of its choices.
    """

    tenant: str
    journal: Path
    board: str
    seed: str


@dataclass(slots=True)
class Said:
    """What writers heard beside answers: how often each error, by the name of its type."""

    errors: Counter[str] = field(default_factory=Counter)


def labour(engine: Engine, post: Post, stop: threading.Event, said: Said) -> None:
    """Run one verb after the other until told to stop; what a store may not do is noted as a failure."""
    journal, choose = Journal(post.journal), seeded(post.seed)
    try:
        mine = hand(engine, journal, choose, post.board)
        while not stop.is_set():
            try:
                step(mine, journal)
            except StoreError as error:
                said.errors[type(error).__name__] += 1
                if isinstance(error, UnsettledError):  # what it knows of its memories may be old
                    mine = hand(engine, journal, choose, post.board)
                    mine.count += APART
    except Exception as error:  # of whatever kind, it is a fault, which the parent has to hear of
        journal.fail(f"{post.journal.stem} ended with {type(error).__name__}: {error}")


def together(engine: Engine, posts: Sequence[Post], stop: threading.Event, said: Said) -> list[threading.Thread]:
    """Start a thread for each post, all on the store of one engine."""
    threads = [
        threading.Thread(target=labour, args=(of(engine, post.tenant), post, stop, said), daemon=True) for post in posts
    ]
    for thread in threads:
        thread.start()
    return threads


def apart(dsn: str, posts: Sequence[Post], line: Line) -> None:
    """Do the same in a process of its own, until the parent says stop; then say what was heard."""
    stop, said = threading.Event(), Said()
    engine = opened(dsn, pool_size=len(posts))
    threads = together(engine, posts, stop, said)
    line.send_bytes(STARTED)
    line.recv_bytes()
    stop.set()
    for thread in threads:
        thread.join(PATIENCE)
    engine.close()
    line.send(said)


@dataclass(frozen=True, slots=True)
class Party:
    """A process of writers, and the line to it."""

    process: BaseProcess
    line: Line

    @classmethod
    def start(cls, dsn: str, posts: Sequence[Post]) -> Party:
        """Start one, and return once it writes."""
        here, there = context().Pipe()
        process = context().Process(target=apart, args=(dsn, posts, there), daemon=True)
        process.start()
        there.close()
        here.recv_bytes()
        return cls(process, here)

    def end(self) -> Said | None:
        """Stop it, and return what its writers heard; None where it says nothing."""
        self.line.send_bytes(STOP)
        heard = self.line.recv() if self.line.poll(2 * PATIENCE) else None
        self.process.join(PATIENCE)
        self.process.kill()
        self.line.close()
        return heard if isinstance(heard, Said) else None
