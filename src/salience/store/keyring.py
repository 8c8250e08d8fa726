"""API keys of a server, in the table `api_keys` or in memory."""

from __future__ import annotations

import json
import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Protocol, Self, TypeVar

from sqlalchemy import Connection, Row, Select, TextClause, Update, delete, select, text, update

from salience.errors import ConflictError, InputError, SalienceError, StoreError, shown
from salience.ports import Distinguish
from salience.records import ApiKey
from salience.store import sqlite_file
from salience.store.schema import api_keys
from salience.store.values import instant, microseconds

T = TypeVar("T")


def add() -> TextClause:
    """Return the statement that keeps the key of `row_of`, and returns its prefix, unless another one has that."""
    return text(
        "INSERT INTO api_keys "
        "(prefix, digest, tenant, rights, bound, note, created_at, expires_at, revoked_at) VALUES "
        "(:prefix, :digest, :tenant, :rights, :bound, :note, :created_at, :expires_at, :revoked_at) "
        "ON CONFLICT (prefix) DO NOTHING RETURNING prefix"
    )


def found(prefix: str) -> Select[Any]:
    """Return the key of a prefix."""
    return select(api_keys).where(api_keys.c.prefix == prefix)


def listed(tenant: str | None) -> Select[Any]:
    """Return the keys of a tenant, or of all, in order."""
    some = () if tenant is None else (api_keys.c.tenant == tenant,)
    return select(api_keys).where(*some).order_by(api_keys.c.created_at, api_keys.c.prefix)


def revoke(prefix: str, at: datetime) -> Update:
    """Return the statement that takes a key back, unless that was done before."""
    live = (api_keys.c.prefix == prefix, api_keys.c.revoked_at.is_(None))
    return update(api_keys).where(*live).values(revoked_at=microseconds(at))


def row_of(key: ApiKey) -> dict[str, Any]:
    """Return a key as values of a row."""
    moments = {name: getattr(key, name) for name in ("created_at", "expires_at", "revoked_at")}
    return {
        **{name: getattr(key, name) for name in ("prefix", "digest", "tenant", "note")},
        "rights": json.dumps(list(key.rights)),
        "bound": json.dumps(dict(key.bound), ensure_ascii=False),
        **{name: None if moment is None else microseconds(moment) for name, moment in moments.items()},
    }


def key_of(row: Row[Any]) -> ApiKey:
    """Return the key in a row.

    Raises:
        StoreError: a value that no key has; it grants nothing.
    """
    try:
        return ApiKey(
            prefix=row.prefix,
            digest=row.digest,
            tenant=row.tenant,
            rights=json.loads(row.rights),
            bound=json.loads(row.bound),
            note=row.note,
            created_at=instant(row.created_at),
            expires_at=None if row.expires_at is None else instant(row.expires_at),
            revoked_at=None if row.revoked_at is None else instant(row.revoked_at),
        )
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


def missing(prefix: str) -> InputError:
    """Return the error for a key that is not there."""
    return InputError(
        "prefix", prefix, "Name a key that is there: salience keys list shows them.", f"{shown(prefix)} is of no key"
    )


def taken(prefix: str) -> ConflictError:
    """Return the error for a key whose prefix another one has."""
    return ConflictError(f"prefix: {prefix!r} is that of another key. Make a new one.")


class TableKeyring(Protocol):
    """The keys in a table; a database says how work is done on a connection to it."""

    @abstractmethod
    def _read(self, work: Callable[[Connection], T]) -> T:
        """Return what `work` does with a connection that sees every tenant's keys."""

    @abstractmethod
    def _write(self, work: Callable[[Connection], T]) -> T:
        """Return what `work` does with such a connection, once it is committed."""

    @abstractmethod
    def close(self) -> None:
        """Release the file or connection; further calls raise `StoreError`."""

    def add(self, key: ApiKey) -> None:
        """Keep a key.

        Raises:
            ConflictError: another one has its prefix.
        """
        if self._write(lambda writer: writer.execute(add(), row_of(key)).one_or_none()) is None:
            raise taken(key.prefix)

    def find(self, prefix: str) -> ApiKey | None:
        """Return the key of a prefix, live or not; None where there is none."""
        row = self._read(lambda reader: reader.execute(found(prefix)).one_or_none())
        return None if row is None else key_of(row)

    def list(self, tenant: str | None = None) -> Sequence[ApiKey]:
        """Return the keys of a tenant, or of all, live or not, by `created_at` and prefix."""
        return [key_of(row) for row in self._read(lambda reader: reader.execute(listed(tenant)).all())]

    def revoke(self, prefix: str, at: datetime) -> ApiKey:
        """Take a key back, and return it; one that was revoked before keeps the first instant.

        Raises:
            InputError: there is no key of that prefix.
        """

        def work(writer: Connection) -> Row[Any] | None:
            writer.execute(revoke(prefix, at))
            return writer.execute(found(prefix)).one_or_none()

        row = self._write(work)
        if row is None:
            raise missing(prefix)
        return key_of(row)

    def is_empty(self) -> bool:
        """Return whether no key was ever added."""
        return self._read(lambda reader: reader.execute(select(api_keys.c.prefix).limit(1)).first()) is None


class MemoryKeyring:
    """Keys of one process, gone with it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: dict[str, ApiKey] | None = {}

    def add(self, key: ApiKey) -> None:
        """Keep a key.

        Raises:
            ConflictError: another one has its prefix.
        """
        with self._lock:
            if self._opened().setdefault(key.prefix, key) is not key:
                raise taken(key.prefix)

    def find(self, prefix: str) -> ApiKey | None:
        """Return the key of a prefix, live or not; None where there is none."""
        with self._lock:
            return self._opened().get(prefix)

    def list(self, tenant: str | None = None) -> Sequence[ApiKey]:
        """Return the keys of a tenant, or of all, live or not, by `created_at` and prefix."""
        with self._lock:
            keys = [key for key in self._opened().values() if tenant in (None, key.tenant)]
        return sorted(keys, key=lambda key: (key.created_at, key.prefix))

    def revoke(self, prefix: str, at: datetime) -> ApiKey:
        """Take a key back, and return it; one that was revoked before keeps the first instant.

        Raises:
            InputError: there is no key of that prefix.
        """
        with self._lock:
            keys = self._opened()
            if prefix not in keys:
                raise missing(prefix)
            if keys[prefix].revoked_at is None:
                keys[prefix] = replace(keys[prefix], revoked_at=at)
            return keys[prefix]

    def is_empty(self) -> bool:
        """Return whether no key was ever added."""
        with self._lock:
            return not self._opened()

    def close(self) -> None:
        """Let go of everything; further calls raise `StoreError`."""
        with self._lock:
            self._keys = None

    def _opened(self) -> dict[str, ApiKey]:
        if self._keys is None:
            raise StoreError("keys: they are closed. Connect again.")
        return self._keys


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
