"""What keeps a store from writing: no room, limits, locks, rights, and a file that is no longer where it was."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

ROOMS: Final = (
    0, 1, 100, 4_096, 4_097, 8_192, 9_000, 12_288, 16_500, 20_480, 24_720, 33_000, 41_200, 50_000, 61_440, 70_000,
    82_400, 100_000, 123_600, 150_000, 200_000,
)  # fmt: skip
"""Bytes that the store is left with, one after the other."""
AT_ONCE: Final = (0,)
"""The rooms of a case that locks files."""
PLENTY: Final = 1 << 26
"""Bytes of a small disk when it is not squeezed."""
GONE: Final = "gone.db"
"""What a file is called that was moved away."""


class Pressure(Protocol):
    """What keeps a store from writing."""

    def squeeze(self, room: int) -> None:
        """Leave the store about `room` more bytes."""
        ...

    def during(self) -> AbstractContextManager[object]:
        """Return what holds while a verb runs, where the pressure is on the process that writes."""
        ...

    def release(self) -> None:
        """Give the room back."""
        ...


class UnavailableError(Exception):
    """This machine, or this user, cannot make the pressure; the text says why."""


@dataclass(slots=True)
class Limit:
    """A limit on the size of the files that this process writes."""

    file: Path
    size: int = resource.RLIM_INFINITY

    def squeeze(self, room: int) -> None:
        """Let the write-ahead log, or a new file, grow by `room` bytes."""
        log = self.file.with_name(f"{self.file.name}-wal")
        self.size = (log.stat().st_size if log.exists() else 0) + room

    @contextmanager
    def during(self) -> Iterator[None]:
        """Hold the limit for a while; the process's other files are not to meet it."""
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.size, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    def release(self) -> None:
        """Lift the limit."""
        self.size = resource.RLIM_INFINITY


@dataclass(slots=True)
class Disk:
    """A disk in memory that holds no more than it does, and a little."""

    file: Path

    def squeeze(self, room: int) -> None:
        """Leave `room` bytes of the disk free."""
        held = os.statvfs(self.file.parent)
        self._resize((held.f_blocks - held.f_bfree) * held.f_frsize + max(room, 1))

    def during(self) -> AbstractContextManager[object]:
        """Nothing more: the disk is small for everybody."""
        return nullcontext()

    def release(self) -> None:
        """Make the disk large again."""
        self._resize(PLENTY)

    def _resize(self, size: int) -> None:
        called("mount", "-o", f"remount,size={size}", str(self.file.parent))


@dataclass(slots=True)
class Locked:
    """Files that nobody may change, not even who has them open."""

    file: Path
    suffixes: tuple[str, ...]

    def squeeze(self, room: int) -> None:
        """Lock the files."""
        self._each("+i")

    def during(self) -> AbstractContextManager[object]:
        """Nothing more: the files are locked for everybody."""
        return nullcontext()

    def release(self) -> None:
        """Unlock the files."""
        self._each("-i")

    def _each(self, flag: str) -> None:
        for suffix in self.suffixes:
            called("chattr", flag, str(self.file.with_name(self.file.name + suffix)))


@dataclass(slots=True)
class Rights:
    """Files and a folder that their owner may no longer write."""

    file: Path

    def squeeze(self, room: int) -> None:
        """Take the rights away."""
        self._each(0o400, 0o500)

    def during(self) -> AbstractContextManager[object]:
        """Nothing more: rights bind whoever opens the files."""
        return nullcontext()

    def release(self) -> None:
        """Give the rights back."""
        self._each(0o600, 0o700)

    def _each(self, files: int, folder: int) -> None:
        for path in self.file.parent.glob(f"{self.file.name}*"):
            path.chmod(files)
        self.file.parent.chmod(folder)


@dataclass(slots=True)
class Moved:
    """A file that was moved away while it was open."""

    file: Path

    def squeeze(self, room: int) -> None:
        """Move the file away."""
        self.file.rename(self.file.with_name(GONE))

    def during(self) -> AbstractContextManager[object]:
        """Nothing more."""
        return nullcontext()

    def release(self) -> None:
        """Move it back."""
        self.file.with_name(GONE).rename(self.file)


def called(*words: str) -> None:
    """Run a command of the system.

    Raises:
        UnavailableError: there is no such command, or it may not do this here.
    """
    try:
        subprocess.run(words, check=True, capture_output=True)  # noqa: S603 - the words are those of this module
    except (OSError, subprocess.CalledProcessError):
        raise UnavailableError(f"`{' '.join(words[:2])}` is not possible here") from None


@contextmanager
def anywhere(folder: Path) -> Iterator[Path]:
    """Yield the folder."""
    yield folder


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Yield a folder that is a disk of its own, gone afterwards."""
    called("mount", "-t", "tmpfs", "-o", f"size={PLENTY}", "tmpfs", str(folder))
    try:
        yield folder
    finally:
        called("umount", str(folder))


@contextmanager
def unlocked(folder: Path) -> Iterator[Path]:
    """Yield the folder if its files can be locked, and leave none of them locked."""
    (probe := folder / "probe").touch()
    called("chattr", "+i", str(probe))
    try:
        yield folder
    finally:
        for path in folder.iterdir():
            with suppress(UnavailableError):
                called("chattr", "-i", str(path))


@dataclass(frozen=True, slots=True)
class Case:
    """A way to keep a store from writing.

    Attributes:
        pressure: from the file to what is done to it.
        place: from an empty folder to the one for the file.
        rooms: one squeeze each.
        refuses: whether a verb has to be refused; a file that is open may be written on where none has to be.
        reads: whether the engine has to answer all the while.
        anew: whether a new file is to be made under pressure too.
        without_rights: whether the process gives up the rights that no lock binds.
    """

    pressure: Callable[[Path], Pressure]
    place: Callable[[Path], AbstractContextManager[Path]] = anywhere
    rooms: Sequence[int] = AT_ONCE
    refuses: bool = True
    reads: bool = True
    anew: bool = False
    without_rights: bool = False


CASES: Final[dict[str, Case]] = {
    "limit on the size of a file": Case(Limit, rooms=ROOMS, anew=True),
    "full disk": Case(Disk, small_disk, rooms=ROOMS, anew=True),
    "log locked": Case(lambda file: Locked(file, ("-wal",)), unlocked),
    "file locked": Case(lambda file: Locked(file, ("",)), unlocked, refuses=False),
    "file and log locked": Case(lambda file: Locked(file, ("", "-wal")), unlocked),
    "rights taken away": Case(Rights, refuses=False, without_rights=True),
    "file moved away": Case(Moved, reads=False),
}
"""The cases, by name."""
