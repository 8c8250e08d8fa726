"""A PostgreSQL server whose connections break at a statement of our choice, or that is killed there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import psycopg
from sqlalchemy import Engine, event

import databases
from salience.store.postgres import connection as connections
from tests.postgres_server import Server

HOW = ("end", "end", "answer", "kill")
"""Ways to break: every connection is ended; one is cut when its commit is done and not yet answered; `kill -9`."""


@dataclass
class Breaking:
    """A server with two databases, one of which is in use.

    Attributes:
        server: one that nobody else uses.
        places: DSNs of two databases with a store's tables.
        kills: how often the server may still be killed, which takes as long as a hundred steps.
        left: turns with the server until something breaks; None: nothing does.
        how: one of `HOW`.
        broken: how it broke so far, in order.
    """

    server: Server
    places: tuple[str, str]
    kills: int
    left: int | None = None
    how: str = "end"
    broken: list[str] = field(default_factory=list)

    def arm(self, how: str, turns: int) -> None:
        """Let something break after so many turns with the server."""
        self.how, self.left = how if how != "kill" or self.kills else "end", turns

    def crash(self, *, kill: bool) -> None:
        """Break everything now."""
        if kill and self.kills:
            self.kills -= 1
            self.broken.append("kill")
            self.server.kill()
            self.server.start()
        else:
            self.broken.append("end")
            for place in self.places:
                databases.end_others(place)

    def turn(self, *_: Any) -> None:
        """Note that a statement is about to be sent."""
        if self.left is None:
            return
        self.left -= 1
        if self.left < 0 and self.how != "answer":
            self.left = None
            self.crash(kill=self.how == "kill")

    def cuts(self, statement: object) -> bool:
        """Return whether the answer to a statement is to be lost."""
        if self.left is None or self.left >= 0 or self.how != "answer" or statement != "COMMIT":
            return False
        self.left = None
        self.broken.append("answer")
        return True

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Break what was armed, in every store of this process on PostgreSQL."""
        run = connections.run

        def counted(connection: psycopg.Connection[Any], statements: Any) -> psycopg.Cursor[Any]:
            self.turn()
            cut = self.cuts(statements)
            done = run(connection, statements)
            if cut:
                connection.close()
                raise psycopg.OperationalError
            return done

        def before(connection: Any, *_: Any) -> None:
            if connection.dialect.name == "postgresql":
                self.turn()

        event.listen(Engine, "before_cursor_execute", before)
        try:
            with patch.object(connections, "run", counted):
                yield
        finally:
            event.remove(Engine, "before_cursor_execute", before)
