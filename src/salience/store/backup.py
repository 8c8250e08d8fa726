"""Backups of an SQLite file in use, and reinstating one."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from salience import temporary
from salience.errors import BusyError, InputError, NotAStoreError, StoreError, shown
from salience.store import sqlite_file
from salience.store.pins import invalidate
from salience.store.schema import APPLICATION_ID

Progress = Callable[[int, int], None]
"""Called with the pages that are left, and the pages in all."""
STEP: Final = 256
"""Pages copied at a time: 1 MB."""
KEPT: Final = ".before-reinstate"
"""Suffix of the copy of a store that `reinstate` replaced."""
_JOURNALS: Final = ("-wal", "-journal")


def backup(source: str, target: str, progress: Progress | None = None, *, overwrite: bool = False) -> None:
    """Write a consistent copy of the file `source` to the file `target`, readable by its owner alone.

    The copy has a temporary name until it is complete and on disk. It needs no file beside it.

    Raises:
        InputError: a file is there and may not be replaced, or is no store; or none can be made there.
    """
    place = Path(target)
    refuse(place, overwrite)
    with _beside(place) as copy:
        with closing(_connected(source)) as live:
            live.execute("BEGIN")  # one snapshot for all steps: a write does not restart the copy
            live.execute("SELECT count(*) FROM sqlite_master").fetchone()
            pour(live, copy, progress)
        with _writable(place):
            try:
                if overwrite:
                    copy.replace(place)
                else:
                    place.hardlink_to(copy)  # unlike a rename, a link never replaces a file made meanwhile
            except FileExistsError:
                refuse(place, overwrite)
            except OSError:  # a file system without links
                copy.replace(place)
            temporary.sync(place.parent)


def reinstate(
    file: str, target: str, busy_timeout: float, *, keeping: bool = True, progress: Progress | None = None
) -> str | None:
    """Replace the contents of the file `target` by a backup; return the path of the copy of the former contents.

    It is one transaction of the target, which other processes may have open: they see all of the backup or nothing,
    and build their indexes again.

    Args:
        file: the backup; it is only read.
        target: the file of the store; made if it is missing.
        busy_timeout: seconds to wait for another process's write.
        keeping: whether to copy the present contents first, to the path of the target with the suffix `KEPT`; a file
            of that name is replaced.
        progress: called while the backup is read.

    Raises:
        InputError: the two are one file.
        NotAStoreError: the backup is something else.
        VersionError: it is newer than this code.
        BusyError: another process kept the target locked for longer than the timeout.
        StoreError: a file is damaged, or cannot be read or written.
    """
    backup_file, place = Path(file), Path(target)
    _check_backup(backup_file, place)
    sqlite_file.prepare(target)
    kept = f"{target}{KEPT}" if keeping and place.stat().st_size else None
    if kept is not None:
        try:
            backup(target, kept, overwrite=True)
        except sqlite3.Error:
            raise StoreError(
                f"store: {target}: its present state cannot be kept: it is damaged. "
                "Do without (keeping=False, --discard)."
            ) from None
    with _beside(place) as copy:
        with sqlite_file.mapped(file), closing(_connected(file)) as source:
            pour(source, copy, progress)
            engine = sqlite_file.engine(str(copy), busy_timeout)
            with sqlite_file.writing(engine.connect()) as writer, engine.connect() as reader:
                sqlite_file.ready(writer, reader, file, busy_timeout)
                with writer.begin():
                    invalidate(writer)  # indexes of other processes, whatever the change sequence of the backup
                sqlite_file.empty_log(writer)
        with sqlite_file.mapped(target), closing(_connected(str(copy))) as whole:
            _overwrite(whole, target, busy_timeout)
    return kept


def is_store(path: Path) -> bool:
    """Return whether a file is an SQLite file with the mark of a store."""
    try:
        with closing(_connected(str(path))) as connection:
            return bool(connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID)
    except sqlite3.Error:
        return False


def refuse(place: Path, overwrite: bool) -> None:
    """Raise `InputError` if a file is at a place and may not be replaced, is no store, or is in use."""
    if not place.exists():
        return
    if not overwrite:
        remedy = "Name a new file, or allow it to be replaced (overwrite=True, --force)."
        raise InputError("file", str(place), remedy, f"{shown(str(place))} exists")
    if place.is_dir() or (place.stat().st_size and not is_store(place)):
        raise InputError("file", str(place), "Name a new file.", f"{shown(str(place))} is not a store")
    if any(Path(f"{place}{side}").exists() for side in _JOURNALS):  # SQLite would read the journal into the new file
        raise InputError("file", str(place), "Name a new file, or delete this one.", f"{shown(str(place))} is in use")


def pour(source: sqlite3.Connection, target: Path, progress: Progress | None) -> None:
    """Copy a database into an empty file, which is on disk at the end, without a journal beside it."""
    with closing(sqlite3.connect(target, isolation_level=None)) as copy:
        report = (lambda _, left, pages: progress(left, pages)) if progress else None
        try:
            source.backup(copy, pages=STEP, progress=report, sleep=0.01)
        except sqlite3.Error as error:
            if sqlite_file.error_code(error) == sqlite3.SQLITE_FULL:  # the disk of the copy is full, not of the source
                raise sqlite_file.as_store_error(str(target.parent), error) from None
            raise
        copy.execute("PRAGMA journal_mode=DELETE").fetchone()
    temporary.sync(target)


@contextmanager
def _beside(place: Path) -> Iterator[Path]:
    """Yield a temporary file beside a place; raise `InputError` if none can be made there."""
    with ExitStack() as stack:
        with _writable(place):
            copy = stack.enter_context(temporary.file(place.parent))
        yield copy


@contextmanager
def _writable(place: Path) -> Iterator[None]:
    """Raise errors of the file system as `InputError`."""
    try:
        yield
    except OSError as error:
        remedy = f"Name a place where a file can be made ({error.strerror or 'it failed'})."
        raise InputError("file", str(place), remedy, f"{shown(str(place))} cannot be written") from None


def _connected(path: str) -> sqlite3.Connection:
    """Return a connection to an existing file, for reading; `mode=ro` would leave files of the log behind."""
    return sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=rw", uri=True, isolation_level=None)


def _check_backup(file: Path, place: Path) -> None:
    """Raise unless a file is a sound store, and another one than the store at a place."""
    if not file.is_file():
        raise InputError("file", str(file), "Name the file of a backup.", f"{shown(str(file))} does not exist")
    if place.exists() and place.samefile(file):
        raise InputError("file", str(file), "Name a backup.", f"{shown(str(file))} is the store itself")
    if place.is_file() and place.stat().st_size and not is_store(place):
        raise _cannot_reinstate(str(place))
    with sqlite_file.mapped(str(file)), closing(_connected(str(file))) as connection:
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise NotAStoreError(f"store: {file}: it is not a backup of a store. Name another file.")
        damage = [text for (text,) in connection.execute("PRAGMA quick_check(1)") if text != "ok"]
        if damage:
            raise StoreError(f"store: {file}: it is damaged ({damage[0]}). Name another backup.")


def _cannot_reinstate(target: str) -> NotAStoreError:
    return NotAStoreError(
        f"store: {target}: it is no store, or too damaged. Move it and what SQLite keeps beside it (-wal, -shm) away, "
        "and run this again."
    )


def _overwrite(whole: sqlite3.Connection, target: str, busy_timeout: float) -> None:
    """Replace the contents of a file by a database, in one transaction.

    Raises:
        BusyError: another process kept it locked for longer than the timeout.
        NotAStoreError: it is too damaged to be written to.
    """
    latest = time.monotonic() + busy_timeout

    def wait(status: int, _left: int, _pages: int) -> None:
        if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) and time.monotonic() > latest:
            raise BusyError(f"store: {target}: another process kept it locked. Try again.")

    with closing(sqlite3.connect(target, isolation_level=None)) as live:
        with suppress(sqlite3.DatabaseError):  # a damaged file refuses even that; it is the default anyway
            live.execute("PRAGMA synchronous=FULL")
        try:
            whole.backup(live, pages=-1, progress=wait, sleep=0.02)
        except sqlite3.DatabaseError as error:
            if sqlite_file.error_code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise _cannot_reinstate(target) from None
            raise
