"""Whether time tells "not yours" from "not there": the same request, on ids of both kinds in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import median, quantiles
from typing import Final

from bench.torture_server.asking import Asked, Line, Surface
from bench.torture_server.cast import Holder
from bench.torture_server.deeds import ON_AN_ID, Turn

KINDS: Final = ("not there", "another's", "another tenant's")
TIMED: Final[tuple[tuple[str, Surface], ...]] = (
    ("get", "rest"),
    ("get", "mcp"),
    ("history", "rest"),
    ("explain", "rest"),
    ("forget", "rest"),
    ("forget", "mcp"),
    ("supersede", "rest"),
)
WARMING: Final = 5
"""One round in so many comes before time is taken."""


@dataclass(slots=True)
class Timed:
    """How long one request took, by what it was about.

    Attributes:
        what: the request, and the surface.
        seconds: kind of id -> each time.
    """

    what: str
    seconds: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in KINDS})

    def median(self, kind: str) -> float:
        """Return the median time, in milliseconds."""
        return 1e3 * median(self.seconds[kind])

    def fast(self, kind: str) -> float:
        """Return what a tenth of the requests keep within, in milliseconds; a busy machine adds little to it."""
        return 1e3 * quantiles(self.seconds[kind], n=10)[0]

    def ratios(self, kind: str) -> tuple[float, float]:
        """Return the median, and the time of the fastest tenth, over those of what is not there."""
        return self.median(kind) / self.median(KINDS[0]), self.fast(kind) / self.fast(KINDS[0])


def timed(
    url: str, holder: Holder, near: Sequence[str], far: Sequence[str], rounds: int, choose: Random
) -> list[Timed]:
    """Return how long requests took that find nothing, of one who is bound.

    Args:
        url: of a server that does nothing else.
        holder: whose requests they are.
        near: ids of memories of the same tenant, beyond the bound.
        far: ids of another tenant's.
        rounds: how often each is asked.
        choose: the order within a round, and the ids.
    """
    turn = Turn(holder, choose, [], {})
    found = [Timed(f"{verb} over {surface}") for verb, surface in TIMED]
    with Line(url) as line:
        for number in range(-(rounds // WARMING), rounds):
            for one, (verb, surface) in zip(found, TIMED, strict=True):
                ids = dict(zip(KINDS, (turn.nobodys(), choose.choice(near), choose.choice(far)), strict=True))
                for kind in choose.sample(KINDS, len(KINDS)):
                    asked = ON_AN_ID[verb][0](turn, ids[kind], {})
                    answer = line.ask(holder.token, Asked(asked.verb, asked.given, surface))
                    if number >= 0:
                        one.seconds[kind].append(answer.seconds)
    return found
