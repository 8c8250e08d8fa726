"""Processes with an engine each, which do what they are told, all at the same time."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from bench.bench_postgres.place import opened
from salience.engine import Engine

P = ParamSpec("P")
T = TypeVar("T")
Work = Callable[Concatenate[Engine, P], T]


class Client:
    """A process with an engine on the store.

    Args:
        dsn: of the store.
        settings: other than the usual ones.
    """

    def __init__(self, dsn: str, **settings: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._line, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, dsn, settings), daemon=True)
        self._process.start()
        other.close()

    def begin(self, work: Work[P, T], *arguments: P.args, **named: P.kwargs) -> None:
        """Let it work; `end` returns what came of it."""
        self._line.send((work, arguments, named))

    def end(self) -> Any:
        """Return what came of the work that was begun, or raise what it raised."""
        done, made = self._line.recv()
        if not done:
            raise made
        return made

    def do(self, work: Work[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Return what a function makes of its engine and some arguments."""
        self.begin(work, *arguments, **named)
        made: T = self.end()
        return made

    def close(self) -> None:
        """Let it end."""
        self._line.close()
        self._process.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _serve(line: Connection, dsn: str, settings: dict[str, Any]) -> None:
    with opened(dsn, **settings) as engine:
        while True:
            try:
                work, arguments, named = line.recv()
            except EOFError:
                return
            try:
                line.send((True, work(engine, *arguments, **named)))
            except Exception as error:
                line.send((False, error))


def at_once(clients: Sequence[Client], work: Work[P, T], *arguments: P.args, **named: P.kwargs) -> list[T]:
    """Return what each client makes of the same work, done by all at the same time."""
    for client in clients:
        client.begin(work, *arguments, **named)
    return [client.end() for client in clients]
