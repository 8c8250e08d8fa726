"""Statements run by SQLite's own driver, which keeps them prepared: a write has a handful, and no time to compile."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import chain, islice
from threading import Event
from typing import Any, Final

from sqlalchemy import Connection, Executable, Table
from sqlalchemy.dialects import sqlite
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ClauseElement

from salience.store import sql

_DIALECT: Final = sqlite.dialect(paramstyle="named")
Values = Mapping[str, Any]
Rows = list[tuple[Any, ...]]
AT_ONCE: Final = 400
"""Rows that one statement inserts while the next ones are made; all their values are parameters of it."""
_LONG: Final = 1000
"""Pages from which on a commit moves the log beside the file into it: SQLite's own figure."""


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
        self._leaves_log = False

    def wait_at_most(self, seconds: float) -> None:
        """Wait so long, from the next transaction on, for the lock that another one holds."""
        if seconds != self._patience:
            self._driver.execute(f"PRAGMA busy_timeout={int(seconds * 1000)}")
            self._patience = seconds

    def leave_log(self, leaves: bool) -> None:
        """Let commits leave a long log beside the file as it is, for somebody to move it, or move it themselves."""
        if leaves != self._leaves_log:
            self._driver.execute(f"PRAGMA wal_autocheckpoint={0 if leaves else _LONG}")
            self._leaves_log = leaves

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
        """Insert rows of these columns into a table, if there are any; of many, each part while the next is made."""
        rest = iter(rows)
        first = list(islice(rest, AT_ONCE))
        last = first if len(first) < AT_ONCE else self._insert_parts(table, names, first, rest)
        if last:
            self._driver.executemany(sql.insertion(table, names), last)

    def _insert_parts(self, table: Table, names: tuple[str, ...], part: Rows, rest: Iterator[tuple[Any, ...]]) -> Rows:
        """Insert `AT_ONCE` rows and again as many, as long as there are; return those that are too few.

        The statement runs in a thread of its own, which holds up no Python code. None is begun before the one before it
        went well: an error may have ended the transaction.
        """
        with ThreadPoolExecutor(1, "salience-insert") as thread:
            while len(part) == AT_ONCE:
                begins = Event()
                inserted = thread.submit(self._insert_part, table, names, part, begins)
                begins.wait()  # or that thread would begin when this one is made to pause: some milliseconds late
                part = list(islice(rest, AT_ONCE))
                inserted.result()
        return part

    def _insert_part(self, table: Table, names: tuple[str, ...], part: Rows, begins: Event) -> None:
        """Insert some rows with one statement; tell first that this thread is at it."""
        begins.set()
        given = _given(table, names, part)
        self._driver.execute(
            sql.insertion(table, tuple(given), len(part)), list(chain.from_iterable(zip(*given.values(), strict=True)))
        )

    def asked(self, text: str) -> list[tuple[Any, ...]]:
        """Return what a statement without values finds."""
        return self._driver.execute(text).fetchall()

    @property
    def is_begun(self) -> bool:
        """Whether a transaction is under way; an error may have ended it."""
        return self._driver.in_transaction

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

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Undo what is done here alone where it raises, as long as the transaction around it stands."""
        self._driver.execute("SAVEPOINT apart")
        try:
            yield
        except BaseException:
            if self.is_begun:
                self._driver.execute("ROLLBACK TO apart")
            raise
        finally:
            if self.is_begun:
                self._driver.execute("RELEASE apart")


def _given(table: Table, names: tuple[str, ...], part: Rows) -> dict[str, tuple[Any, ...]]:
    """Return the columns of some rows by their names, but for those that are null throughout, as many are.

    Such a one need not be named, and it takes the driver longer to hand over a null than a number.
    """
    columns = zip(names, zip(*part, strict=True), strict=True)
    return {name: column for name, column in columns if not (_is_null(column) and table.c[name].nullable)}


def _is_null(column: tuple[Any, ...]) -> bool:
    return column[0] is None and column.count(None) == len(column)


@cache
def _text(statement: ClauseElement) -> str:
    """Return a statement as text, each value named; a list of ids is one value, in JSON, however many they are."""
    compiled = statement.compile(dialect=_DIALECT)
    assert isinstance(compiled, SQLCompiler)  # noqa: S101 - statements are made of nothing else
    return str(compiled).replace("(__[POSTCOMPILE_ids])", "(SELECT value FROM json_each(:ids))")
