"""Copies of an SQLite file while others read and write it: a backup, and a backup put back in the place of the file."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import mkstemp
from typing import Final

from sqlalchemy import Connection

from salience.errors import BusyError, InputError, NotAStoreError, StoreError, shown
from salience.ports import Distinguish
from salience.store import sqlite_file
from salience.store.pins import keep, new_epoch
from salience.store.schema import APPLICATION_ID

Progress = Callable[[int, int], None]
"""Called with the pages that are left, and the pages in all."""
STEP: Final = 256
"""Pages copied at a time: 1 MB."""
KEPT: Final = ".before-reinstate"
"""What the file's name is followed by where its state before a backup took its place is kept."""
QUIET: Final = 60.0
"""Seconds without a write after which a passing file of a process that is gone counts as left behind."""
_JOURNALS: Final = ("-wal", "-journal")
_SIDES: Final = (*_JOURNALS, "-shm")


def backup(source: str, target: str, progress: Progress | None = None, *, overwrite: bool = False) -> None:
    """Write a copy of the file `source`, as it stands at one instant, to the file `target`, for its owner alone.

    The copy is written under a passing name beside the target, and gets its own name once it is whole and on disk. It
    needs no file beside it.

    Raises:
        InputError: a file is there and may not be replaced, or is no store; or none can be made there.
    """
    place = Path(target)
    refuse(place, overwrite)
    with passing(place) as copy:
        with closing(_reading(source)) as live:
            live.execute("BEGIN")  # one snapshot for all steps, which no writer makes begin again
            live.execute("SELECT count(*) FROM sqlite_master").fetchone()
            pour(live, copy, progress)
        _name(copy, place, overwrite)


def reinstate(
    file: str,
    target: str,
    busy_timeout: float,
    *,
    distinguish: Distinguish | None = None,
    keeping: bool = True,
    progress: Progress | None = None,
) -> str | None:
    """Put a backup in the place of what the file `target` holds, and return where its former state is kept, if it is.

    It is one transaction of the target, which other processes may have open: they see all of the backup or nothing.
    Their caches are void afterwards, whatever the change sequence says.

    Args:
        file: the backup; it is only read.
        target: the file of the store; made if it is not there.
        busy_timeout: seconds to wait for another process's write.
        distinguish: as in `SQLiteStore.open`, for a backup of an older revision.
        keeping: whether to write the present state beside the target first, with `KEPT` behind its name; what is
            there under that name is replaced.
        progress: called while the backup is read.

    Raises:
        InputError: the two are one file.
        NotAStoreError: the backup is something else.
        VersionError: it is newer than this code.
        BusyError: another process kept the target locked for longer than the timeout.
        StoreError: a file is damaged, or cannot be read or written.
    """
    backup_file, place = Path(file), Path(target)
    _require(backup_file, place)
    sqlite_file.prepare(target)
    kept = f"{target}{KEPT}" if keeping and place.stat().st_size else None
    if kept is not None:
        _keep(target, kept)
    with passing(place) as copy:
        with sqlite_file.mapped(file), closing(_reading(file)) as source:
            pour(source, copy, progress)
            _bring_up(copy, file, busy_timeout, distinguish)
        with sqlite_file.mapped(target), closing(_reading(str(copy))) as whole:
            _overwrite(whole, target, busy_timeout)
    return kept


def is_store(path: Path) -> bool:
    """Return whether a file is an SQLite file with the mark of a store."""
    try:
        with closing(_reading(str(path))) as connection:
            return bool(connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID)
    except sqlite3.Error:
        return False


def refuse(place: Path, overwrite: bool) -> None:
    """Raise unless a backup may be written to a place.

    Raises:
        InputError: a file is there and may not be replaced, is no store, or is in use.
    """
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
    """Copy what a connection reads into an empty file, on disk when it returns, with no journal beside it."""
    with closing(sqlite3.connect(target, isolation_level=None)) as copy:
        told = (lambda _, left, pages: progress(left, pages)) if progress else None
        try:
            source.backup(copy, pages=STEP, progress=told, sleep=0.01)
        except sqlite3.Error as error:
            if sqlite_file.error_code(error) == sqlite3.SQLITE_FULL:  # it is the disk of the copy that is full
                raise sqlite_file.as_store_error(str(target.parent), error) from None
            raise
        copy.execute("PRAGMA journal_mode=DELETE").fetchone()
    _settle(target)


@contextmanager
def passing(place: Path) -> Iterator[Path]:
    """Yield a new empty file beside a place, for its owner alone; it is gone in the end unless it was renamed.

    What a process that was killed left there goes too: no copy of a memory is to outlive its erasure unseen.

    Raises:
        InputError: none can be made there.
    """
    try:
        _clear(place)
        handle, name = mkstemp(prefix=f"{_prefix(place)}{os.getpid()}.", dir=place.parent)
    except OSError as error:
        remedy = f"Name a place where a file can be made ({error.strerror or 'it failed'})."
        raise InputError("file", str(place), remedy, f"{shown(str(place))} cannot be written") from None
    os.close(handle)
    try:
        yield Path(name)
    finally:
        for side in ("", *_SIDES):
            Path(f"{name}{side}").unlink(missing_ok=True)


def _prefix(place: Path) -> str:
    """Return how the names of passing files beside a place begin; the number of their process follows."""
    return f".{place.name}.passing."


def _clear(place: Path) -> None:
    """Delete passing files of processes that are gone, unless they were written to just now."""
    for left in place.parent.iterdir():
        number = left.name.removeprefix(_prefix(place)).partition(".")[0]
        if left.name.startswith(_prefix(place)) and number.isdigit() and not _is_running(int(number)):
            with suppress(FileNotFoundError):
                if time.time() - left.stat().st_mtime > QUIET:  # its process may run on another machine
                    left.unlink()


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _reading(path: str) -> sqlite3.Connection:
    """Return a connection to a file that is there, for reading.

    One that could only read would leave files of the write-ahead log behind.
    """
    return sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=rw", uri=True, isolation_level=None)


def _require(file: Path, place: Path) -> None:
    """Raise unless a file is a store, and another one than the store at a place."""
    if not file.is_file():
        raise InputError("file", str(file), "Name the file of a backup.", f"{shown(str(file))} does not exist")
    if place.exists() and place.samefile(file):
        raise InputError("file", str(file), "Name a backup.", f"{shown(str(file))} is the store itself")
    if place.is_file() and place.stat().st_size and not is_store(place):
        raise _beyond(str(place))
    with sqlite_file.mapped(str(file)), closing(_reading(str(file))) as connection:
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise NotAStoreError(f"store: {file}: it is not a backup of a store. Name another file.")
        damage = [text for (text,) in connection.execute("PRAGMA quick_check(1)") if text != "ok"]
        if damage:
            raise StoreError(f"store: {file}: it is damaged ({damage[0]}). Name another backup.")


def _beyond(target: str) -> NotAStoreError:
    """Return the error for a file that no backup can be put into."""
    return NotAStoreError(
        f"store: {target}: it is no store, or too damaged. Move it and what SQLite keeps beside it (-wal, -shm) away, "
        "and run this again."
    )


def _keep(target: str, kept: str) -> None:
    """Write what a file holds to another one.

    Raises:
        StoreError: it is too damaged to be read, or the other cannot be written.
    """
    try:
        backup(target, kept, overwrite=True)
    except sqlite3.Error:
        raise StoreError(
            f"store: {target}: its present state cannot be kept: it is damaged. Do without (keeping=False, --discard)."
        ) from None


def _bring_up(copy: Path, file: str, busy_timeout: float, distinguish: Distinguish | None) -> None:
    """Bring the copy of a backup to the revision of this code, in an epoch of its own."""
    made = sqlite_file.engine(str(copy), busy_timeout)
    writer: Connection
    with sqlite_file.writing(made.connect()) as writer, made.connect() as reader:
        sqlite_file.ready(writer, reader, file, busy_timeout, distinguish)
        with writer.begin():
            keep(writer, {"epoch": new_epoch()})
        sqlite_file.empty_log(writer)


def _overwrite(whole: sqlite3.Connection, target: str, busy_timeout: float) -> None:
    """Put all that a connection reads into a file in one transaction.

    Raises:
        BusyError: another process kept it locked for longer than the timeout.
        NotAStoreError: it is too damaged to be written to.
    """
    latest = time.monotonic() + busy_timeout

    def wait(status: int, _left: int, _pages: int) -> None:
        if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) and time.monotonic() > latest:
            raise BusyError(f"store: {target}: another process kept it locked. Try again.")

    with closing(sqlite3.connect(target, isolation_level=None)) as live:
        with suppress(sqlite3.DatabaseError):  # of a damaged file not even that is taken; it is the usual one anyway
            live.execute("PRAGMA synchronous=FULL")
        try:
            whole.backup(live, pages=-1, progress=wait, sleep=0.02)
        except sqlite3.DatabaseError as error:
            if sqlite_file.error_code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise _beyond(target) from None
            raise


def _name(copy: Path, place: Path, overwrite: bool) -> None:
    """Give a whole file its name; one that came there meanwhile is not replaced unless it may be."""
    try:
        if overwrite:
            copy.replace(place)
        else:
            try:
                place.hardlink_to(copy)  # unlike a rename, it never replaces
            except FileExistsError:
                refuse(place, overwrite)
            except OSError:  # a file system without links
                copy.replace(place)
    except OSError as error:
        remedy = f"Name a place where a file can be made ({error.strerror or 'it failed'})."
        raise InputError("file", str(place), remedy, f"{shown(str(place))} cannot be written") from None
    _settle(place.parent)


def _settle(place: Path) -> None:
    """Have a file, or the names in a folder, written to disk; no connection of this process may have the file open."""
    handle = os.open(place, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
