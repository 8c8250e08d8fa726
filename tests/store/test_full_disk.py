"""No space and no rights in the middle of writing: a clear error, nothing half-written, and the engine goes on."""

import ctypes
import os
import re
import resource
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from bench.driver import received, started, stop
from bench.writers import VERBS, Checked, Journal, Writer, check, examine, opened
from salience.errors import ReadOnlyError, StoreError
from salience.records.checks import QUERY_LIMIT
from salience.store.sqlite_file import PAGE_SIZE

pytestmark = pytest.mark.slow

SAYS = {
    "limit on the size of a file": r"Check the disk, its space, limits and rights\.$",
    "full disk": r"Free some space and try again\.$",
    "file and log locked": r"Check the disk, its space, limits and rights\.$",
    "file moved away": r"Put it back, or connect again\.$",
}
"""What the error of a refused write ends with: what to do."""


ROOMS: Final = (0, 1, 100, 4_096, 4_097, 8_192, 12_288, 20_480, 24_720, 41_200, 61_440, 82_400, 123_600, 200_000)
"""Bytes that the store may still write, one after the other."""
PLENTY: Final = 1 << 26


class UnavailableError(Exception):
    """This machine, or this user, cannot make the pressure."""


def called(*arguments: str) -> None:
    """Run a program of the system.

    Raises:
        UnavailableError: it is missing or fails.
    """
    try:
        subprocess.run(arguments, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise UnavailableError(f"{' '.join(arguments)}: {error}") from error


Guard = Callable[[], AbstractContextManager[Any]]
"""Context manager around each call of the engine."""


@contextmanager
def limited(file: Path, room: int) -> Iterator[Guard]:
    """Limit the size of files that the process writes, but only while the engine runs."""
    log = file.with_name(f"{file.name}-wal")
    size = (log.stat().st_size if log.exists() else 0) + room

    @contextmanager
    def guard() -> Iterator[None]:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    yield guard


@contextmanager
def full(file: Path, room: int) -> Iterator[Guard]:
    """Shrink the mounted file system in memory until only `room` bytes are free."""
    held = os.statvfs(file.parent)
    size = (held.f_blocks - held.f_bfree) * held.f_frsize + max(room, 1)
    called("mount", "-o", f"remount,size={size}", str(file.parent))
    try:
        yield nullcontext
    finally:
        called("mount", "-o", f"remount,size={PLENTY}", str(file.parent))


@contextmanager
def locked(file: Path, _: int) -> Iterator[Guard]:
    """Make the file and its log immutable (`chattr +i`), even for a process that has them open."""
    paths = (str(file), f"{file}-wal")
    called("chattr", "+i", *paths)
    try:
        yield nullcontext
    finally:
        called("chattr", "-i", *paths)


@contextmanager
def read_only(file: Path, _: int) -> Iterator[Guard]:
    """Make the files and the folder read-only; root gives up its right to ignore modes."""
    give_up_rights()
    paths = [*file.parent.glob(f"{file.name}*"), file.parent]
    for path in paths:
        path.chmod(0o500 if path.is_dir() else 0o400)
    try:
        yield nullcontext
    finally:
        for path in reversed(paths):  # the folder first
            path.chmod(0o700 if path == file.parent else 0o600)


@contextmanager
def moved(file: Path, _: int) -> Iterator[Guard]:
    """Move the file away while it is open."""
    gone = file.rename(file.with_name("gone.db"))
    try:
        yield nullcontext
    finally:
        gone.rename(file)


@dataclass
class Pressure:
    """A way to keep a store from writing, the free bytes to try, and whether writes or reads must then fail."""

    apply: Callable[[Path, int], AbstractContextManager[Guard]]
    rooms: Sequence[int] = (0,)
    refuses: bool = True
    reads: bool = True


CASES: Final = {
    "limit on the size of a file": Pressure(limited, ROOMS),
    "full disk": Pressure(full, ROOMS),
    "file and log locked": Pressure(locked),
    "rights taken away": Pressure(read_only, refuses=False),  # a process with open files may continue
    "file moved away": Pressure(moved, reads=False),
}


def give_up_rights() -> None:
    """Take from this process root's right to ignore the modes of files (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH)."""
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    if libc.capget(header, sets):
        raise OSError(ctypes.get_errno(), "capget failed")
    for place in range(3):
        sets[place] &= ~(1 << 1 | 1 << 2)
    if libc.capset(header, sets):
        raise OSError(ctypes.get_errno(), "capset failed")


def squeezed(name: str, file: Path, notes: Path, line: Any) -> None:
    """Run a case in this process, with a little more room each time; send the store's errors."""
    journal, errors = Journal(notes), Counter[str]()
    pressure = CASES[name]
    try:
        with opened(file) as engine:
            writer = Writer(engine, journal, 1)
            for make, _weight in VERBS.values():  # imports that verbs need happen while they can be read
                if (ready := make(writer)) is not None:
                    writer.run("first", ready)
            import numpy.ma  # noqa: F401 - NumPy loads it late

            for room in pressure.rooms:
                with pressure.apply(file, room) as guard:
                    errors[f"writing: {write_error(writer, guard)}"] += 1
                    errors[f"reading: {read_error(writer, guard)}"] += 1
                for _ in range(10):  # with the room back, the same engine writes on
                    writer.step()
        if pressure.refuses and "writing: None" in errors:
            journal.note(failure="the store refused nothing")
        if pressure.reads and errors["reading: None"] != errors.total() // 2:
            journal.note(failure="the store refused to be read")
    except Exception as error:
        journal.note(failure=f"ended with {type(error).__name__}: {error}")
    line.send(errors)


def write_error(writer: Writer, guard: Guard) -> str | None:
    """Run verbs until the store refuses one; return its error, None after 200 verbs."""

    def guarded(run: Callable[[], Any]) -> Any:
        with guard():
            return run()

    for _ in range(200):
        name = writer.chance.choice(list(VERBS))
        try:
            if (ready := VERBS[name][0](writer)) is not None:
                writer.run(name, replace(ready, run=partial(guarded, ready.run)))
        except StoreError as error:
            return re.sub(r"/\S+memory\.db", "FILE", f"{type(error).__name__}: {error}")
    return None


def read_error(writer: Writer, guard: Guard) -> str | None:
    """Read a memory by its id and by its text; return the error, None if both find it."""
    row = writer.any_own()
    if row is None or len(row.content) > QUERY_LIMIT:
        return None
    try:
        with guard():
            found = writer.engine.get(row.id, user_id=writer.user)
            hits = writer.engine.recall(row.content, limit=5, min_score=0, dry_run=True, user_id=writer.user)
    except StoreError as error:
        return type(error).__name__
    is_other = found.version < row.version or found.content != row.content  # later ones of the text only end relations
    if is_other or row.id not in [hit.memory.id for hit in hits]:
        writer.journal.note(failure=f"version {row.version} of {row.id} is not found under pressure")
    return None


def run_case(folder: Path, name: str) -> tuple[Counter[str], Checked]:
    """Run a case in a process of its own; return the store's errors and the check.

    Raises:
        UnavailableError: this machine or user cannot create the pressure.
    """
    file = folder / "home" / "memory.db"
    file.parent.mkdir()
    press = CASES[name].apply
    if press is locked:
        (probe := folder / "probe").touch()
        called("chattr", "+i", str(probe))
        called("chattr", "-i", str(probe))
    if press is full:
        called("mount", "-t", "tmpfs", "-o", f"size={PLENTY}", "tmpfs", str(file.parent))
    try:
        process, line = started(squeezed, name, file, folder / "w0.journal")
        errors = received(line, 600)
        stop(process)
        assert errors is not None, f"the process ended with exit code {process.exitcode}, without a result"
        return errors, examine(file, folder, "1")
    finally:
        if press is full:
            called("umount", str(file.parent))


@pytest.fixture
def folder():
    """A folder that a process without root's rights can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.mark.parametrize("name", CASES)
def test_a_store_under_pressure_loses_nothing_and_goes_on(folder, name):
    try:
        answers, checked = run_case(folder, name)
    except UnavailableError as error:
        pytest.skip(str(error))
    assert checked.faults == []
    assert checked.acknowledged > 20
    assert sum(count for what, count in answers.items() if what.startswith("writing: ")) == len(CASES[name].rooms)
    errors = [what for what in answers if what.startswith("writing: ") and what != "writing: None"]
    assert bool(errors) is (name in SAYS)
    for error in errors:
        assert re.search(SAYS[name], error)


def test_a_file_that_cannot_be_written_does_not_open(folder):
    file = folder / "home" / "memory.db"
    file.parent.mkdir()
    opened(file).close()
    process, line = started(_open_without_rights, file)
    said = received(line)
    process.join()
    assert re.fullmatch(r"ReadOnlyError: store: \S+ cannot be written\. Make it writable, or .*", said)


def _open_without_rights(file, line):
    opened(file).close()
    try:
        with read_only(file, 0):
            opened(file).close()
        line.send("opened")
    except ReadOnlyError as error:
        line.send(f"ReadOnlyError: {error}")


def test_a_file_without_pages_refuses_and_goes_on(tmp_path):
    file, journal = tmp_path / "memory.db", Journal(tmp_path / "w0.journal")
    with opened(file) as engine:
        writer, driver = Writer(engine, journal, 3), engine.services.store._writer.connection.driver_connection
        for room in ROOMS[::3]:
            for _ in range(5):
                writer.step()
            pages = driver.execute("PRAGMA page_count").fetchone()[0]
            driver.execute(f"PRAGMA max_page_count={pages + room // PAGE_SIZE}")
            refused, unread = write_error(writer, nullcontext), read_error(writer, nullcontext)
            driver.execute("PRAGMA max_page_count=1000000")
            assert refused.endswith("the disk is full; nothing was written. Free some space and try again.")
            assert unread is None
        assert check(engine, file, [journal.path]).faults == []
