"""An SQLite file: opening it, its transactions and log, and errors of the driver as our own."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, NullPool, QueuePool, create_engine, event
from sqlalchemy.exc import DBAPIError
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random

from salience.errors import BusyError, ConflictError, NotAStoreError, ReadOnlyError, StoreError, VersionError
from salience.store.schema import APPLICATION_ID, HEAD, creation, refusal

PAGE_SIZE: Final = 8192
"""Bytes in a page of a new file: a memory takes two to three kilobytes, and would leave half of 4,096 empty."""
SIZE: Final = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
"""Query for the bytes of a database."""
_CREATION: Final = threading.Lock()
_WRITES: Final = "salience_writes"
_BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_ERRORS: Final[dict[int, tuple[type[StoreError], str]]] = {
    sqlite3.SQLITE_BUSY: (BusyError, "another process kept it locked. Try again, or raise SALIENCE_BUSY_TIMEOUT."),
    sqlite3.SQLITE_LOCKED: (BusyError, "another connection kept it locked. Try again."),
    sqlite3.SQLITE_READONLY: (ReadOnlyError, "it cannot be written. Make the file and its folder writable."),
    sqlite3.SQLITE_PERM: (ReadOnlyError, "it cannot be written. Make the file and its folder writable."),
    sqlite3.SQLITE_CANTOPEN: (StoreError, "it cannot be opened. Check the path and the rights to its folder."),
    sqlite3.SQLITE_NOTADB: (NotAStoreError, "it is not an SQLite file. Name another file."),
    sqlite3.SQLITE_CORRUPT: (StoreError, "it is damaged. Put a backup in its place: salience reinstate FILE"),
    sqlite3.SQLITE_FULL: (StoreError, "the disk is full; nothing was written. Free some space and try again."),
    sqlite3.SQLITE_IOERR: (StoreError, "it failed; nothing was written. Check the disk, its space, limits and rights."),
}
_STAMP: Final = (
    "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL CONSTRAINT alembic_version_pkc PRIMARY KEY)",
    f"INSERT INTO alembic_version VALUES ('{HEAD}')",  # noqa: S608 - a constant
)
"""Mark the revision of a new file, as Alembic does."""
_FOLDER: Final = "it is a folder. Name a file in it."
_lenient: Final = partial(str, encoding="utf-8", errors="surrogateescape")
"""Decodes text. Bytes that are not UTF-8 become lone surrogates, which `rows` reports; the driver's own error for them
has no code and quotes the text."""


def error_code(error: BaseException) -> int:
    """Return the primary code of an error of the driver; 0 if it has none, such as a failed decoding."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


@contextmanager
def mapped(path: str) -> Iterator[None]:
    """Raise errors of the driver as `StoreError`s that name the file, without values of the statement."""
    try:
        yield
    except (DBAPIError, sqlite3.Error) as error:
        raise as_store_error(path, error) from None
    except UnicodeDecodeError:  # SQLite's own message quotes a damaged table
        raise StoreError(f"store: {path}: {_ERRORS[sqlite3.SQLITE_CORRUPT][1]}") from None


def as_store_error(path: str, error: DBAPIError | sqlite3.Error) -> StoreError | ConflictError:
    """Return the error of our tree for an error of the driver."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    extended = getattr(cause, "sqlite_errorcode", 0)
    if extended == sqlite3.SQLITE_CONSTRAINT_UNIQUE:  # only (tenant, home, key) is unique besides the keys
        return ConflictError("key: the idempotency key is taken by another memory there. Use a new key.")
    code = extended & 0xFF  # the low byte of an extended code is the primary one
    if code == sqlite3.SQLITE_CANTOPEN and Path(path).is_dir():
        return NotAStoreError(f"store: {path}: {_FOLDER}")
    name = getattr(cause, "sqlite_errorname", type(cause).__name__)
    kind, remedy = _ERRORS.get(code, (StoreError, f"SQLite failed with {name}. Check the file."))
    return kind(f"store: {path}: {remedy}")


def prepare(path: str) -> None:
    """Make the missing folder and file of `path`, the file for its owner alone; refuse a path that cannot be a store.

    Raises:
        NotAStoreError: a folder is there.
        ReadOnlyError: the file or its folder cannot be written.
        StoreError: the folder or file cannot be made, or would be made beside the log of a file that was moved away.
    """
    file, log = Path(path), Path(f"{path}-wal")
    with _making(f"store: {path}: its folder"):
        file.parent.mkdir(parents=True, exist_ok=True)
    with _making(f"store: {path}: it"):
        if file.is_dir():
            raise NotAStoreError(f"store: {path}: {_FOLDER}")
        for place in (file.parent, file):  # SQLite needs the folder too, for its journal
            if place.exists() and not os.access(place, os.W_OK):
                raise ReadOnlyError(f"store: {place} cannot be written. Make it writable, or choose another place.")
        if not file.exists() and log.exists() and log.stat().st_size:  # SQLite would delete the log
            raise StoreError(
                f"store: {path}: it is not there, but its log {log.name} is, and may hold memories. "
                "Put the file back beside it, or move the log away."
            )
        # POSIX drops the locks of every connection of this process to a file when one of its descriptors is closed:
        # so one thread at a time opens the file, and only if it is missing
        with _CREATION:
            if not file.exists():
                os.close(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600))  # SQLite gives its journals the same mode


def identity(path: str) -> tuple[int, int] | None:
    """Return the device and inode of the file at `path`; None if there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - called by every read, and a Path takes longer to make
    except OSError:
        return None
    return found.st_dev, found.st_ino


def check_there(path: str, known: tuple[int, int] | None) -> None:
    """Raise `StoreError` unless the file at `path` still has the `identity` that it had when it was opened."""
    if identity(path) != known:  # SQLite would go on writing to a file without a name
        raise StoreError(
            f"store: {path} was moved, removed or replaced while it was open; nothing was written. "
            "Put it back, or connect again."
        )


@contextmanager
def _making(what: str) -> Iterator[None]:
    """Raise errors of the file system as `StoreError`s that say what cannot be made."""
    try:
        yield
    except PermissionError:
        raise ReadOnlyError(f"{what} cannot be made. Choose a folder that you can write.") from None
    except OSError as error:
        raise StoreError(f"{what} cannot be made ({error.strerror or 'failed'}). Choose another.") from None


def engine(path: str, busy_timeout: float, *, pooled: bool = False) -> Engine:
    """Return an engine for a file; on connections from `writing`, transactions take the write lock at once.

    With `pooled`, connections are pooled until the engine is disposed of.
    """

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(path, timeout=busy_timeout, isolation_level=None, check_same_thread=False)
        connection.text_factory = _lenient
        connection.execute("PRAGMA synchronous=FULL")  # in WAL, NORMAL may lose a commit when the power fails
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA secure_delete=ON")  # overwrites deleted rows with zeros
        return connection

    pool: dict[str, Any] = {"poolclass": QueuePool, "max_overflow": -1} if pooled else {"poolclass": NullPool}
    made = create_engine("sqlite://", creator=connect, hide_parameters=True, **pool)

    @event.listens_for(made, "begin")
    def _begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(_WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return made


def writing(connection: Connection) -> Connection:
    """Return the connection, with transactions that take the write lock at once, so that none fails half-way."""
    return connection.execution_options(**{_WRITES: True})


def ready(writer: Connection, reader: Connection, path: str, busy_timeout: float) -> None:
    """Create the tables of a new file.

    Raises:
        NotAStoreError: an SQLite file of something else.
        VersionError: a file of another version.
    """
    with reader.begin():  # one transaction, since another process may be making the file
        revision = revision_of(reader, path)
    _ensure_wal(writer, busy_timeout)
    if revision is None:
        _create(writer, path)


def revision_of(connection: Connection, path: str) -> str | None:
    """Return the file's revision, None for a new file."""
    application = connection.exec_driver_sql("PRAGMA application_id").scalar_one()
    tables = connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar_one()
    if application == 0 and tables == 0:
        return None
    if application != APPLICATION_ID:
        raise NotAStoreError(f"store: {path}: it is an SQLite file of something else. Name another file.")
    revision = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    if revision is None:
        raise StoreError(f"store: {path}: {_ERRORS[sqlite3.SQLITE_CORRUPT][1]}")
    if revision != HEAD:
        raise VersionError(f"store: {path}: {refusal(str(revision))}")
    return str(revision)


def _ensure_wal(connection: Connection, busy_timeout: float) -> None:
    """Switch the file to a write-ahead log, so that readers and the writer do not wait for each other.

    SQLite does not apply its busy timeout to the switch, so this function retries.
    """
    driver = _driver(connection)
    retries = Retrying(
        retry=retry_if_exception(lambda error: error_code(error) in _BUSY),
        stop=stop_after_delay(busy_timeout),
        wait=wait_random(0, 0.02),
        reraise=True,
    )
    driver.execute(f"PRAGMA page_size={PAGE_SIZE}")  # has no effect on an existing file
    for attempt in retries:
        with attempt:
            driver.execute("PRAGMA journal_mode=WAL")


@contextmanager
def transaction(connection: Connection) -> Iterator[Connection]:
    """Begin a transaction; commit it at the end, or roll it back after an error."""
    try:
        with connection.begin():
            yield connection
    except BaseException:
        if not connection.closed:
            connection.rollback()  # a commit that failed leaves SQLAlchemy and SQLite in the transaction
            _driver(connection).rollback()
        raise


def wait_at_most(connection: Connection, seconds: float) -> None:
    """Wait at most some seconds for a lock of another connection, from the next transaction on."""
    _driver(connection).execute(f"PRAGMA busy_timeout={int(seconds * 1000)}")


def data_version(connection: Connection) -> tuple[int, int]:
    """Return two numbers, one of which changes when another connection, or this one, writes to the database."""
    driver = _driver(connection)
    return driver.execute("PRAGMA data_version").fetchone()[0], driver.total_changes


def size(connection: Connection) -> int:
    """Return the bytes of the database."""
    (found,) = _driver(connection).execute(SIZE).fetchone()
    return int(found)


def vacuum(connection: Connection) -> None:
    """Rewrite the file, outside a transaction, so that no deleted text stays in its unused pages.

    `secure_delete` overwrites deleted rows, but not the copies that SQLite left behind where it moved a row. Other
    writers wait meanwhile.
    """
    _driver(connection).execute("VACUUM")


def empty_log(connection: Connection) -> bool:
    """Move the write-ahead log into the file and empty it, outside a transaction.

    Returns False if another connection still reads from the log.
    """
    (is_busy, *_) = _driver(connection).execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not is_busy


def _driver(connection: Connection) -> sqlite3.Connection:
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)  # noqa: S101 - `engine` connects with nothing else
    return driver


def _create(writer: Connection, path: str) -> None:
    """Create the tables under the write lock, unless another process did so while we waited for it."""
    with writer.begin():
        if revision_of(writer, path) is not None:
            return
        for statement in (*creation("sqlite"), *_STAMP):
            writer.exec_driver_sql(statement)
        writer.exec_driver_sql(f"PRAGMA application_id={APPLICATION_ID}")
