"""Temporary files that hold memories: hidden beside the file they become, and deleted even if their process was killed.

A copy of a memory must not outlive its erasure, so `clear` deletes what killed processes left behind.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import gettempdir, mkdtemp, mkstemp
from typing import Final

PREFIX: Final = ".salience-tmp-"
"""Start of the name of every temporary file and folder; the number of the process follows."""
QUIET: Final = 60.0
"""Seconds without a write after which the file of a dead process is deleted: it may run on another machine."""
STUCK: Final = 3600.0
"""Likewise, of a process that seems to run: the processes of two containers have the same numbers."""
_SIDES: Final = ("", "-wal", "-journal", "-shm")


@contextmanager
def file(folder: Path) -> Iterator[Path]:
    """Yield a new empty file in a folder, for its owner alone, which is deleted at the end unless it was renamed.

    Temporary files of killed processes in the folder are deleted too.

    Raises:
        OSError: none can be made there.
    """
    clear((folder,))
    handle, name = mkstemp(prefix=f"{PREFIX}{os.getpid()}-", dir=folder)
    os.close(handle)
    try:
        yield Path(name)
    finally:
        for side in _SIDES:
            Path(f"{name}{side}").unlink(missing_ok=True)


@contextmanager
def directory(parent: Path) -> Iterator[Path]:
    """As `file`, with a new folder."""
    clear((parent,))
    made = Path(mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=parent))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def folders_of(store: str) -> tuple[Path, ...]:
    """Return the folders where copies of a store's memories may be under way: its own and the system's."""
    return Path(store).parent, Path(gettempdir())


def leftovers(folders: Iterable[Path]) -> list[Path]:
    """Return the temporary files and folders of killed processes in some folders."""
    found: list[Path] = []
    for path in (path for folder in folders for path in sorted(folder.glob(f"{PREFIX}*"))):
        with suppress(OSError):  # another process may delete it meanwhile
            number, quiet = path.name.removeprefix(PREFIX).partition("-")[0], time.time() - path.stat().st_mtime
            if quiet > (STUCK if number.isdigit() and _is_running(int(number)) else QUIET):
                found.append(path)
    return found


def clear(folders: Iterable[Path]) -> None:
    """Delete the `leftovers` of some folders."""
    for path in leftovers(folders):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink()


def sync(place: Path) -> None:
    """Write a file, or the names in a folder, to disk; no connection of this process may have the file open."""
    with suppress(PermissionError):  # Windows opens no folder
        handle = os.open(place, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
