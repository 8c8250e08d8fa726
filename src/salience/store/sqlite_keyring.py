"""The keys in an SQLite file, which a store, and other processes, may have open too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self, TypeVar

from sqlalchemy import Connection

from salience.errors import StoreError
from salience.ports import Distinguish
from salience.store import sqlite_file
from salience.store.keyring import TableKeyring

T = TypeVar("T")


class SQLiteKeyring(TableKeyring):
    """Made by `open`. Each call has a connection of its own, so that none waits for another's, nor for the store's.

    They are kept: a key is sought for every request, and to open a file takes longer than to read a row of it.
    """

    def __init__(self, path: str, busy_timeout: float) -> None:
        self._path = path
        self._identity = sqlite_file.identity(path)
        self._engine = sqlite_file.engine(path, busy_timeout, pooled=True)
        self._closed = False

    @classmethod
    def open(cls, path: str, *, busy_timeout: float, distinguish: Distinguish | None = None) -> Self:
        """Return the keys in the file `path`, which is made, or brought up, as a store's is.

        Raises:
            NotAStoreError: the file is something else.
            ReadOnlyError: the file or its folder cannot be written.
            VersionError: the file is newer than this code.
            StoreError: it cannot be opened.
        """
        sqlite_file.prepare(path)
        made = cls(path, busy_timeout)
        with sqlite_file.mapped(path), made._engine.connect() as writer, made._engine.connect() as reader:
            sqlite_file.ready(sqlite_file.writing(writer), reader, path, busy_timeout, distinguish)
        return made

    def _read(self, work: Callable[[Connection], T]) -> T:
        self._check_open()
        with sqlite_file.mapped(self._path), self._engine.connect() as connection, connection.begin():
            return work(connection)

    def _write(self, work: Callable[[Connection], T]) -> T:
        self._check_open()
        with (
            sqlite_file.mapped(self._path),
            self._engine.connect() as connection,
            sqlite_file.writing(connection).begin(),
        ):
            return work(connection)

    def close(self) -> None:
        """Let go of the file; further calls raise `StoreError`."""
        self._closed = True
        self._engine.dispose()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"keys: {self._path} is closed. Connect again.")
        if sqlite_file.identity(self._path) != self._identity:  # SQLite would make another file in its place
            raise StoreError(f"keys: {self._path} was moved, removed or replaced. Put it back, or connect again.")
