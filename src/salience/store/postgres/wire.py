"""How vectors and results travel between psycopg and the server: in binary, which is shorter and loses nothing."""

from __future__ import annotations

import selectors
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import psycopg
from psycopg.adapt import Buffer, Dumper
from psycopg.pq import Format

_Selector = getattr(selectors, "PollSelector", selectors.SelectSelector)


@dataclass(frozen=True, slots=True)
class Sent:
    """A vector on its way to the server: float32, little endian."""

    data: bytes


class SentDumper(Dumper):
    """Puts a vector in the form that pgvector receives; the statement says by a cast that it is one."""

    format = Format.BINARY

    def dump(self, obj: Sent) -> Buffer:
        """Return the dimension, a reserved number, and the numbers, big endian."""
        numbers = np.frombuffer(obj.data, "<f4")
        return struct.pack(">HH", len(numbers), 0) + numbers.astype(">f4").tobytes()


class BinaryCursor(psycopg.Cursor[Sequence[Any]]):
    """A cursor whose results come in binary."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.format = Format.BINARY


def connect(conninfo: str, **settings: Any) -> psycopg.Connection[Any]:
    """Return a connection outside any transaction, whose cursors are binary and which takes `Sent`."""
    connection: psycopg.Connection[Any] = psycopg.connect(
        conninfo, autocommit=True, cursor_factory=BinaryCursor, **settings
    )
    connection.adapters.register_dumper(Sent, SentDumper)
    return connection


Turn = str | tuple[str, ...]
"""Statements without parameters: one text of several, separated by semicolons, or each as a query of its own."""


def run(connection: psycopg.Connection[Any], statements: Turn) -> str | None:
    """Run statements without parameters, waiting for the server once; return what the last one did."""
    with psycopg.Cursor(connection) as cursor:  # in the simple protocol, which alone takes several as one
        if isinstance(statements, str):
            cursor.execute(statements, prepare=False)
        else:
            with connection.pipeline():
                for statement in statements:
                    cursor.execute(statement, prepare=False)
        while cursor.nextset():
            pass
        return cursor.statusmessage


def has_ended(connection: psycopg.Connection[Any]) -> bool:
    """Return whether the server ended a connection that nobody uses: it says so, or is gone, and nothing else comes."""
    if connection.closed:
        return True
    with _Selector() as selector:
        selector.register(connection.fileno(), selectors.EVENT_READ)
        return bool(selector.select(0))
