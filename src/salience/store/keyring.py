"""API keys of a server, in the table `api_keys`: of a store's file, of a database, or in memory."""

from __future__ import annotations

import json
import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Protocol, Self, TypeVar

from sqlalchemy import Connection, Row, StaticPool, bindparam, create_engine, delete, select, text, update

from salience.errors import ConflictError, InputError, SalienceError, StoreError, shown
from salience.records import ApiKey
from salience.store import sqlite_file
from salience.store.schema import api_keys
from salience.store.values import instant, microseconds

T = TypeVar("T")
_PLAIN = ("prefix", "digest", "tenant", "note")
_INSTANTS = ("created_at", "expires_at", "revoked_at")
_FIND = select(api_keys).where(api_keys.c.prefix == bindparam("prefix"))  # each request runs it
_ANY = select(api_keys.c.prefix).limit(1)


def key_of(row: Row[Any]) -> ApiKey:
    """Return the key in a row.

    Raises:
        StoreError: a value that no key has; it grants nothing.
    """
    values: dict[str, Any] = dict(row._mapping)
    try:
        values |= {name: None if values[name] is None else instant(values[name]) for name in _INSTANTS}
        return ApiKey(**{**values, "rights": json.loads(row.rights), "bound": json.loads(row.bound)})
    except (ArithmeticError, SalienceError, TypeError, ValueError):
        raise StoreError("store: a key in it is damaged. To see which one: salience doctor") from None


def damaged(connection: Connection) -> list[str]:
    """Return the prefixes of the keys that cannot be read, in order."""
    found = []
    for row in connection.execute(select(api_keys).order_by(api_keys.c.prefix)):
        try:
            key_of(row)
        except StoreError:
            found.append(row.prefix)
    return found


def drop_damaged(connection: Connection) -> None:
    """Delete the keys that cannot be read."""
    connection.execute(delete(api_keys).where(api_keys.c.prefix.in_(damaged(connection))))


class TableKeyring(Protocol):
    """The keys in a table; a subclass runs functions on a connection."""

    @abstractmethod
    def _read(self, work: Callable[[Connection], T], tenant: str | None = None, prefix: str | None = None) -> T:
        """Return the result of `work`, which reads keys of a tenant, the key of a prefix, or, for None, all keys."""

    @abstractmethod
    def _write(self, work: Callable[[Connection], T], tenant: str) -> T:
        """Return the result of `work`, which writes keys of a tenant, after the commit."""

    @abstractmethod
    def close(self) -> None:
        """Release the file or connection; further calls raise `StoreError`."""

    def add(self, key: ApiKey) -> None:
        """Store a key.

        Raises:
            ConflictError: another key has its prefix.
        """
        moments = {name: getattr(key, name) for name in _INSTANTS}
        values = {
            **{name: getattr(key, name) for name in _PLAIN},
            "rights": json.dumps(list(key.rights)),
            "bound": json.dumps(dict(key.bound), ensure_ascii=False),
            **{name: None if moment is None else microseconds(moment) for name, moment in moments.items()},
        }
        statement = text(
            "INSERT INTO api_keys "
            "(prefix, digest, tenant, rights, bound, note, created_at, expires_at, revoked_at) VALUES "
            "(:prefix, :digest, :tenant, :rights, :bound, :note, :created_at, :expires_at, :revoked_at) "
            "ON CONFLICT (prefix) DO NOTHING RETURNING prefix"
        )
        if self._write(lambda writer: writer.execute(statement, values).one_or_none(), key.tenant) is None:
            raise ConflictError(f"prefix: {key.prefix!r} is that of another key. Make a new one.")

    def find(self, prefix: str) -> ApiKey | None:
        """Return the key of a prefix, live or not; None if there is none."""
        row = self._read(lambda reader: reader.execute(_FIND, {"prefix": prefix}).one_or_none(), prefix=prefix)
        return None if row is None else key_of(row)

    def list(self, tenant: str | None = None) -> Sequence[ApiKey]:
        """Return the keys of a tenant, or of all, live or not, by `created_at` and prefix."""
        some = () if tenant is None else (api_keys.c.tenant == tenant,)
        query = select(api_keys).where(*some).order_by(api_keys.c.created_at, api_keys.c.prefix)
        return [key_of(row) for row in self._read(lambda reader: reader.execute(query).all(), tenant)]

    def revoke(self, prefix: str, at: datetime) -> ApiKey:
        """Revoke a key and return it; a key that was revoked before keeps the first instant.

        Raises:
            InputError: there is no key of that prefix.
        """
        key = self.find(prefix)
        if key is None:
            remedy = "Name a key that is there: salience keys list shows them."
            raise InputError("prefix", prefix, remedy, f"{shown(prefix)} is of no key")
        live = (api_keys.c.prefix == prefix, api_keys.c.revoked_at.is_(None))
        revoke = update(api_keys).where(*live).values(revoked_at=microseconds(at))
        self._write(lambda writer: writer.execute(revoke), key.tenant)
        return self.find(prefix) or key

    def is_empty(self) -> bool:
        """Return whether no key was ever added."""
        return self._read(lambda reader: reader.execute(_ANY).first()) is None


class MemoryKeyring(TableKeyring):
    """Keys of one process, gone with it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # the threads share one connection
        self._is_closed = False
        self._engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
        api_keys.create(self._engine)

    def _read(self, work: Callable[[Connection], T], tenant: str | None = None, prefix: str | None = None) -> T:
        with self._lock:
            if self._is_closed:
                raise StoreError("keys: they are closed. Connect again.")
            with self._engine.begin() as connection:
                return work(connection)

    _write = _read

    def close(self) -> None:
        """Drop the keys; further calls raise `StoreError`."""
        with self._lock:
            self._is_closed = True
            self._engine.dispose()


class SQLiteKeyring(TableKeyring):
    """Keys in an SQLite file; created by `open`.

    Each call takes a connection of its own from a pool, so that no call waits for another, or for the store.
    """

    def __init__(self, path: str, busy_timeout: float) -> None:
        self._path = path
        self._identity = sqlite_file.identity(path)
        self._engine = sqlite_file.engine(path, busy_timeout, pooled=True)
        self._closed = False

    @classmethod
    def open(cls, path: str, *, busy_timeout: float) -> Self:
        """Return the keys in a file, which is created like a store's. The errors are those of the store."""
        sqlite_file.prepare(path)
        made = cls(path, busy_timeout)
        with sqlite_file.mapped(path), made._engine.connect() as writer, made._engine.connect() as reader:
            sqlite_file.ready(sqlite_file.writing(writer), reader, path, busy_timeout)
        return made

    def _read(self, work: Callable[[Connection], T], tenant: str | None = None, prefix: str | None = None) -> T:
        self._check_open()
        with sqlite_file.mapped(self._path), self._engine.connect() as connection, connection.begin():
            return work(connection)

    def _write(self, work: Callable[[Connection], T], tenant: str) -> T:
        self._check_open()
        with (
            sqlite_file.mapped(self._path),
            self._engine.connect() as connection,
            sqlite_file.writing(connection).begin(),
        ):
            return work(connection)

    def close(self) -> None:
        """Close the file; further calls raise `StoreError`."""
        self._closed = True
        self._engine.dispose()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"keys: {self._path} is closed. Connect again.")
        if sqlite_file.identity(self._path) != self._identity:  # SQLite would make another file in its place
            raise StoreError(f"keys: {self._path} was moved, removed or replaced. Put it back, or connect again.")
