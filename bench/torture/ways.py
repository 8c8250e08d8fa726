"""The ways in which writers are killed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from bench.torture.processes import PATIENCE, STARTED, WROTE, Writer

Moment = Callable[[Random, Path, Sequence[Writer]], None]
"""Given a source of chance, the file and its writers, returns when the moment to kill has come."""


def after(word: bytes, most: float) -> Moment:
    """Return the moment up to `most` seconds after each writer has said `word`."""

    def wait(choose: Random, _: Path, writers: Sequence[Writer]) -> None:
        for writer in writers:
            writer.heard(word)
        time.sleep(choose.uniform(0, most))

    return wait


def checkpoint(choose: Random, file: Path, writers: Sequence[Writer]) -> None:
    """Return once the file itself is written: with a write-ahead log, that is a checkpoint at work."""
    for writer in writers:
        writer.heard(WROTE)
    before, latest = file.stat().st_mtime_ns, time.monotonic() + PATIENCE
    while file.stat().st_mtime_ns == before and time.monotonic() < latest:
        time.sleep(0.0001)
    time.sleep(choose.uniform(0, 0.004))


def itself(_choose: Random, _file: Path, writers: Sequence[Writer]) -> None:
    """Return once each writer has ended by itself."""
    for writer in writers:
        writer.process.join(PATIENCE)


@dataclass(frozen=True, slots=True)
class Way:
    """How writers are killed.

    Attributes:
        moments: when; after each but the last one, others begin at once on the file as the kill left it.
        writers: how many write at once.
        killed: how many of them are killed; the others go on, and are stopped.
        reopens: whether they open and close the file all the time.
        older: whether the file is brought back to the revision before, so that opening it migrates it; a new file only.
        fused: whether a writer kills itself in the middle of a transaction.
    """

    moments: tuple[Moment, ...]
    writers: int = 1
    killed: int = 1
    reopens: bool = False
    older: bool = False
    fused: bool = False


WAYS: Final[dict[str, Way]] = {
    "writing": Way((after(WROTE, 0.15),)),
    "one of three": Way((after(WROTE, 0.15),), writers=3),
    "opening": Way((after(STARTED, 0.03),)),
    "in a transaction": Way((itself,), fused=True),
    "checkpoint": Way((checkpoint,)),
    "three of three": Way((after(WROTE, 0.15),), writers=3, killed=3),
    "recovering": Way((after(WROTE, 0.15), after(STARTED, 0.01), after(STARTED, 0.02))),
    "reopening": Way((after(WROTE, 0.1),), reopens=True),
    "migrating": Way((after(STARTED, 0.05),), older=True),
}
"""How writers are killed, by name; runs take them in turn."""
