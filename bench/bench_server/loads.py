"""What is asked: how much of it is new, how much is in sight, and whether it is noted."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from bench.bench_server import texts
from bench.bench_server.place import project

KNOWN: Final = 100
"""Questions that are asked over and over; each process of a server keeps the vectors of 1,024."""
NEW: Final = 4_000
"""Questions of one measurement that were never asked before, at most."""
MEASURED: Final = 32
"""Measurements for which there are new questions."""


@dataclass(frozen=True, slots=True)
class Load:
    """A way to ask.

    Attributes:
        name: in words.
        new: whether every other question was never asked before, so that its vector has to be made.
        who: holds the key; a recall of who may only read is a dry run, which notes nothing.
        everywhere: whether the memories of all projects are in sight, or those of one.
        clients: how many ask at the same time, in turn.
    """

    name: str
    new: bool = False
    who: str = "writer"
    everywhere: bool = False
    clients: tuple[int, ...] = (1, 16, 64)

    def bodies(self, place: int) -> Iterator[dict[str, Any]]:
        """Yield what is asked in one measurement; `place` is its number, and no other asks the same new questions."""
        choose = random.Random(place)
        known = _questions()[:KNOWN]
        start = KNOWN + place % MEASURED * NEW
        for new in _questions()[start : start + NEW]:
            for question in (new if self.new else choose.choice(known), choose.choice(known)):
                where = "*" if self.everywhere else project(choose.randrange(1000))
                yield {"query": question, "project": where}


LOADS: Final = (
    Load("half of the questions new", new=True),
    Load("all known"),
    Load("all known, nothing noted", who="reader"),
    Load("all known, all projects in sight", everywhere=True, clients=(1, 16)),
)


@cache
def _questions() -> list[str]:
    return texts.questions(KNOWN + MEASURED * NEW, seed=2)
