"""Statements run by SQLite's own driver, which keeps them prepared: a write has a handful, and no time to compile."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

from sqlalchemy import Connection, Executable, Table
from sqlalchemy.dialects import sqlite
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ClauseElement

from salience.store import sql

_DIALECT: Final = sqlite.dialect(paramstyle="named")
Values = Mapping[str, Any]


class Direct:
    """Runs statements on the driver of a connection; what they write and read is of the driver's own types.

    A transaction that is begun here is the connection's as well: statements of either kind may follow each other.
    """

    def __init__(self, connection: Connection) -> None:
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)  # noqa: S101 - `opening.engine` connects with nothing else
        self._connection = connection
        self._driver = driver
        self._patience: float | None = None

    def wait_at_most(self, seconds: float) -> None:
        """Wait so long, from the next transaction on, for the lock that another one holds."""
        if seconds != self._patience:
            self._driver.execute(f"PRAGMA busy_timeout={int(seconds * 1000)}")
            self._patience = seconds

    def rows(self, statement: Executable, values: Values) -> list[tuple[Any, ...]]:
        """Return what a statement finds; it is one that is made once, and takes no lists."""
        return self._driver.execute(_text(statement), values).fetchall()

    def found(self, statement: Executable, values: Values) -> list[tuple[Any, ...]]:
        """Return what a statement finds of what the list `ids` of its values names."""
        return self.rows(statement, {**values, "ids": json.dumps(values["ids"])})

    def parts(self, statement: Executable, values: Values, size: int) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the same, `size` rows at a time."""
        found = self._driver.execute(_text(statement), values)
        while rows := found.fetchmany(size):
            yield rows

    def run(self, statement: Executable, values: Sequence[Values]) -> None:
        """Run a statement, one that is made once, with each of some values, if there are any."""
        if values:
            self._driver.executemany(_text(statement), values)

    def among(self, statement: Executable, values: Values) -> None:
        """Run a statement on what the list `ids` of its values names."""
        self._driver.execute(_text(statement), {**values, "ids": json.dumps(values["ids"])})

    def insert(self, table: Table, names: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> None:
        """Insert rows of these columns into a table, if there are any."""
        given = list(rows)
        if given:
            self._driver.executemany(sql.insertion(table, names), given)

    @property
    def changes(self) -> int:
        """How many rows this connection has written."""
        return self._driver.total_changes

    def asked(self, text: str) -> list[tuple[Any, ...]]:
        """Return what a statement without values finds."""
        return self._driver.execute(text).fetchall()

    @contextmanager
    def begun(self, *, writes: bool = True) -> Iterator[None]:
        """Begin, to write at once or to read; commit at the end, or roll back what an error leaves."""
        self._driver.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
        try:
            yield
            self._commit()
        except BaseException:
            self._connection.rollback()  # also what it holds of a commit that failed
            self._driver.rollback()
            raise

    def _commit(self) -> None:
        """Commit; the connection takes part in the transaction only from its first statement on."""
        if self._connection.in_transaction():
            self._connection.commit()
        else:
            self._driver.commit()


@cache
def _text(statement: ClauseElement) -> str:
    """Return a statement as text, each value named; a list of ids is one value, in JSON, however many they are."""
    compiled = statement.compile(dialect=_DIALECT)
    assert isinstance(compiled, SQLCompiler)  # noqa: S101 - statements are made of nothing else
    return str(compiled).replace("(__[POSTCOMPILE_ids])", "(SELECT value FROM json_each(:ids))")
