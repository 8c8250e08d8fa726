"""No room on the disk, and files that cannot be written, in the middle of writing.

A case squeezes the disk until the store refuses a verb, sees that recalls still answer, gives the room back, and has
the same engine write on. It does so over and over, with a little more room each time, so that the refusal falls on
another page of another transaction.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection as Line
from pathlib import Path
from typing import Final

from bench.torture.check import Checked, check, unopened
from bench.torture.journal import Journal, read_all
from bench.torture.mix import chosen
from bench.torture.pressures import CASES, Pressure, UnavailableError
from bench.torture.processes import PATIENCE, context
from bench.torture.verbs import Done, Hand
from bench.torture.writing import hand, noted, opened, seeded, step
from salience.errors import SalienceError, StoreError

MOST: Final = 300
"""Most verbs until the store has refused one: enough for a checkpoint."""
FIRST: Final = 10
"""Verbs before the first squeeze, and after each."""
WRITING: Final = "writing"
READING: Final = "reading"
_CAPABILITY_VERSION: Final = 0x20080522
_PASSING_OVER_MODES: Final = 1 << 1 | 1 << 2
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, as linux/capability.h numbers them."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a store said under pressure: when it was at what, and its error, without the path; None where it went on."""

    room: int
    during: str
    error: str | None


@dataclass(frozen=True, slots=True)
class Squeezed:
    """What a case came to: why it could not be tried (else None), what the store said, and what the check found."""

    name: str
    skipped: str | None
    refusals: tuple[Refusal, ...] = ()
    checked: Checked | None = None

    @property
    def faults(self) -> tuple[str, ...]:
        """All that is wrong."""
        return () if self.checked is None else self.checked.faults


def squeezed(folder: Path, name: str, seed: int, rooms: Sequence[int] | None = None, most: int = MOST) -> Squeezed:
    """Return what a case came to, tried in a process of its own.

    Args:
        folder: empty.
        name: of the case.
        seed: of its choices.
        rooms: in place of the case's.
        most: verbs until the store has refused one.
    """
    case = CASES[name]
    notes, home = folder / "notes", folder / "home"
    notes.mkdir()
    home.mkdir()
    try:
        with case.place(home) as place:
            here, there = context().Pipe()
            arguments = (name, place / "memory.db", notes / "w0.journal", seed, rooms or case.rooms, most, there)
            process = context().Process(target=tried, args=arguments, daemon=True)
            process.start()
            there.close()
            told = heard(here)
            process.join(PATIENCE)
            process.kill()
            process.join()
            if told is None:
                told = f"exit code {process.exitcode}, without a word"
            if isinstance(told, UnavailableError):
                return Squeezed(name, str(told))
            return Squeezed(name, None, *examined(place / "memory.db", notes, told))
    except UnavailableError as error:
        return Squeezed(name, str(error))


def heard(line: Line) -> object:
    """Return what a process says at its end; None if it ends without a word, or not at all."""
    try:
        return line.recv() if line.poll(PATIENCE) else None
    except EOFError:
        return None


def examined(file: Path, notes: Path, told: object) -> tuple[tuple[Refusal, ...], Checked]:
    """Return what the store said and what the check of the file finds after the pressure is gone."""
    try:
        with opened(file) as engine:
            checked = check(engine, file, read_all(notes))
    except SalienceError as error:
        checked = unopened(error)
    if isinstance(told, tuple):
        return told, checked
    return (), replace(checked, faults=(*checked.faults, f"the process ended with {told}"))


def tried(name: str, file: Path, notes: Path, seed: int, rooms: Sequence[int], most: int, line: Line) -> None:
    """Try a case, and say what the store said to the parent."""
    os.chdir(file.parent)  # a user without rights may be kept from the folders above
    file, notes = Path(file.name), Path(os.path.relpath(notes, file.parent))
    case, journal = CASES[name], Journal(notes)
    try:
        pressure = case.pressure(file)
        with opened(file) as engine:
            mine = hand(engine, journal, seeded(seed))
            steps(mine, journal, FIRST)
            if case.without_rights:
                give_up_rights()
            said = [told for room in rooms for told in squeeze(mine, journal, pressure, file, room, most)]
            if case.refuses and all(told.error is None for told in said if told.during == WRITING):
                journal.fail("the store refused nothing")
            if case.reads and any(told.error is not None for told in said if told.during == READING):
                journal.fail("the store refused to be read")
        if case.anew:
            others = [(file.with_name(f"new-{room}.db"), room) for room in rooms]
            said += [told for other, room in others for told in made_anew(journal, case.pressure(other), other, room)]
        line.send(tuple(said))
    except UnavailableError as error:
        line.send(error)
    except Exception as error:  # of whatever kind, the parent has to hear of it
        line.send(f"{type(error).__name__}: {error}")


def give_up_rights() -> None:
    """Take from this process root's right to pass over the modes of files; it stays root in all else.

    As another user it could not import from an installation that only root may read.
    """
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    if libc.capget(header, sets):
        raise OSError(ctypes.get_errno(), "capget failed")
    for place in range(3):  # effective, permitted, inheritable; the second half has none of the two
        sets[place] &= ~_PASSING_OVER_MODES
    if libc.capset(header, sets):
        raise OSError(ctypes.get_errno(), "capset failed")


def steps(mine: Hand, journal: Journal, count: int) -> None:
    """Run so many verbs by chance."""
    for _ in range(count):
        step(mine, journal)


def squeeze(
    mine: Hand, journal: Journal, pressure: Pressure, file: Path, room: int, most: int = MOST
) -> Iterator[Refusal]:
    """Squeeze once: yield what the store said to a writer and to who opens it, and have the same engine write on."""
    pressure.squeeze(room)
    try:
        told = refused(mine, journal, pressure, most)
        yield Refusal(room, WRITING, None if told is None else without(told, file))
        with pressure.during():
            yield Refusal(room, READING, reading(mine, journal, file))
            yield Refusal(room, "opening", opening(file))
    finally:
        pressure.release()
    try:
        steps(mine, journal, FIRST)
    except StoreError as error:
        journal.fail(f"with the room back, the engine still refuses: {without(error, file)}")


def refused(mine: Hand, journal: Journal, pressure: Pressure, most: int) -> StoreError | None:
    """Run verbs until the store refuses one, and return its error; None if it refuses none."""
    for _ in range(most):
        verb, ready = chosen(mine)
        try:
            noted(mine, journal, verb, replace(ready, run=under(pressure, ready.run)))
        except StoreError as error:
            return error
    return None


def under(pressure: Pressure, run: Callable[[], Done]) -> Callable[[], Done]:
    """Return `run` as it runs under pressure."""

    def pressed() -> Done:
        with pressure.during():
            return run()

    return pressed


def without(error: StoreError, file: Path) -> str:
    """Return what an error says, without the path of the file."""
    return f"{type(error).__name__}: {str(error).replace(str(file), 'FILE')}"


def reading(mine: Hand, journal: Journal, file: Path) -> str | None:
    """See that a memory is found by its id and in a recall; return the error that they give, None if they answer."""
    memory = mine.one()
    if memory is None:
        return None
    try:
        found = mine.engine.get(memory.id, user_id=mine.user)
        hits = mine.engine.recall(memory.content, limit=5, min_score=0, dry_run=True, user_id=mine.user)
    except StoreError as error:
        return without(error, file)
    if found.version != memory.version or memory.id not in [hit.memory.id for hit in hits]:
        journal.fail(f"version {memory.version} of {memory.id} is not found under pressure")
    return None


def opening(file: Path) -> str | None:
    """Open the file once more, and return the error that it gives; None if it opens."""
    try:
        opened(file).close()
    except StoreError as error:
        return without(error, file)
    return None


def made_anew(journal: Journal, pressure: Pressure, file: Path, room: int) -> Iterator[Refusal]:
    """Make a file under pressure, and again with the room back; yield what the store said."""
    pressure.squeeze(room)
    try:
        with pressure.during():
            yield Refusal(room, "making a file", opening(file))
    finally:
        pressure.release()
    told = opening(file)
    if told is not None:
        journal.fail(f"with the room back, the file is not made: {told}")
