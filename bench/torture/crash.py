"""Writers killed at random moments, and the file held against what they had been told.

A run is one file with several lives: in each, processes write until some are killed with SIGKILL; then the file is
opened and checked, the verbs that were cut off are tried again, and the next life begins on the same file.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Final

from alembic import command
from alembic.config import Config
from sqlalchemy import NullPool, create_engine

from bench.torture.check import Checked, check, traces, unopened
from bench.torture.journal import Journal, read_all
from bench.torture.processes import Job, end, start
from bench.torture.ways import WAYS, Way
from bench.torture.writing import board, hand, opened, seeded, settle, step
from salience.engine import Engine
from salience.errors import SalienceError
from salience.store import schema

MOST_STATEMENTS: Final = 400
"""Most statements of a writer that kills itself between two of them."""
LIVES: Final = 3
"""Most lives of a file."""
FILLED: Final = 12
"""Verbs that the parent runs before its writers come, where the file is to hold something by then."""
NEWER: Final = ("reflect",)
"""Verbs whose work a file of the revision before does not hold."""
AFTER: Final = 2
"""Verbs that the parent runs after a check, so that the file is known to be written on."""


@dataclass(frozen=True, slots=True)
class Life:
    """What a life came to.

    Attributes:
        way: how it ended.
        killed: how many writers were killed.
        checked: what the check found.
        traces: ids of erased memories whose text is in the file's bytes. No fault: SQLite overwrites what is deleted,
            but not the copies that it left where it had moved a row; only VACUUM does.
    """

    way: str
    killed: int
    checked: Checked
    traces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """What came of a file: its lives, and the verbs that its writers were told the end of."""

    lives: tuple[Life, ...]
    verbs: Counter[str]

    @property
    def faults(self) -> tuple[str, ...]:
        """All that is wrong, with the life in which it came to light."""
        return tuple(
            f"life {number}, {life.way}: {fault}"
            for number, life in enumerate(self.lives, 1)
            for fault in life.checked.faults
        )


def runs(folder: Path, count: int, seed: int, lives: int = LIVES) -> Iterator[Run]:
    """Yield `count` runs of 1 to `lives` lives, each in a folder of its own; that of one without faults is removed."""
    for number in range(count):
        own = folder / f"run-{number}"
        own.mkdir()
        made = run(own, f"{seed} {number}", list(WAYS)[number % len(WAYS)], lives)
        if not made.faults:
            shutil.rmtree(own)
        yield made


def run(folder: Path, seed: str, first: str, lives: int = LIVES) -> Run:
    """Return what came of one file in `folder`, which is empty; its first life ends in the way of that name."""
    choose, lived, name = seeded(seed), list[Life](), first
    for number in range(choose.randint(1, lives)):
        lived.append(life(folder, name, f"{seed} {number}", choose))
        if lived[-1].checked.faults:
            break  # what comes after it would not tell more
        name = choose.choice([name for name, way in WAYS.items() if not way.older])
    return Run(
        tuple(lived),
        Counter(entry.verb for notes in read_all(folder) for entry in notes.entries if entry.told is not None),
    )


def life(folder: Path, name: str, seed: str, choose: Random) -> Life:
    """Return what a life came to that ends in the way of that name."""
    way, file = WAYS[name], folder / "memory.db"
    shared = prepared(folder, file, way, seed) if way.writers > 1 or way.older else None
    killed = 0
    for number, moment in enumerate(way.moments):
        jobs = [
            Job(
                file=file,
                journal=folder / f"w{place}.journal",
                seed=f"{seed} {number} {place}",
                board=shared,
                reopens=way.reopens,
                fuse=choose.randrange(MOST_STATEMENTS) if way.fused else None,
            )
            for place in range(way.writers)
        ]
        writers = [start(job) for job in jobs]
        moment(choose, file, writers)
        killed += end(writers[: way.killed], writers[way.killed :])
    checked = examined(folder, file, seed)
    return Life(name, killed, checked, tuple(traces(file, read_all(folder))))


def prepared(folder: Path, file: Path, way: Way, seed: str) -> str:
    """Have something in the file before the writers come, and return the id of the board."""
    with opened(file) as engine:
        made = board(engine, Journal(folder / "board.journal"))
        go_on(engine, folder, seed, FILLED, NEWER if way.older else ())
    if way.older:
        bring_back(file)
    return made


def go_on(engine: Engine, folder: Path, seed: str, count: int, leave: Container[str] = ()) -> None:
    """Write on in the parent's own name, with all verbs but those to `leave`."""
    journal = Journal(folder / "parent.journal")
    mine = hand(engine, journal, seeded(f"{seed} parent"))
    for _ in range(count):
        step(mine, journal, leave)


def bring_back(file: Path) -> None:
    """Bring a file back to the revision before this code's."""
    engine = create_engine(f"sqlite:///{file}", poolclass=NullPool)
    with engine.begin() as connection:
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", str(Path(schema.__file__).parent / "migrations").replace("%", "%%"))
        command.downgrade(config, schema.REVISIONS[-2])


def examined(folder: Path, file: Path, seed: str) -> Checked:
    """Return what the check of a file finds; verbs that were cut off are tried again, and the file is written on."""
    try:
        with opened(file) as engine:
            checked = check(engine, file, read_all(folder))
            retried = [
                settle(engine, Journal(folder / f"{entry.writer}.journal"), entry, there)
                for entry, there in checked.in_flight
            ]
            go_on(engine, folder, seed, AFTER)
    except SalienceError as error:
        return unopened(error)
    return replace(checked, faults=(*checked.faults, *filter(None, retried)))
