"""Tenants of uneven size, what is said in their sessions, and questions on it: made of words that mean nothing.

A text has words that everybody uses, words of its topic, and rare ones, each kind drawn by a law of Zipf
and Mandelbrot. Everything follows from the seed.
"""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from heapq import heappop, heappush
from typing import Final

from bench.made_up import COMMON, FUNCTION, NAMES, OFFSET, OWN, RARE, TOPICS, sums, word
from salience.records import Memory, Scope
from salience.text import content_hash

SHARES: Final = (0.2, 0.02, 0.006)
"""Of all memories, those of the largest tenants."""
SMALL: Final = (200, 20)
"""Memories of the next two tenants."""
LEAST: Final = 10
"""Fewest memories of any other."""
USER: Final = 400
"""Memories of a user."""
SHARED: Final = 0.02
"""Share of the sessions that belong to no user, so that all of the tenant see them."""
PROJECTS: Final = 10
"""Projects of a tenant; as many memories as one of them has belong to none."""
SESSION: Final = 20
"""Turns of a session."""
PACE: Final = timedelta(minutes=3)
"""Between two turns."""
YEAR: Final = timedelta(days=365)
END: Final = datetime(2026, 5, 1, tzinfo=UTC)
"""When the last thing was said, at the latest."""
ONE_PERCENT: Final = "percent"
"""A tag that 1 % of the memories carry."""
PER_MILLE: Final = "permille"
"""One that 0.1 % carry."""


def sizes(memories: int, tenants: int) -> list[int]:
    """Return how many memories each tenant has, `memories` in all: the large ones, the small ones, and by Zipf.

    The rest is such that the largest of the others is no larger than half of the largest.
    """
    fixed = [round(memories * share) for share in SHARES] + list(SMALL)
    others, left = tenants - len(fixed), memories - sum(fixed)
    low, high = 0.0, 2.0
    for _ in range(50):
        power = (low + high) / 2
        weights = [1 / rank**power for rank in range(1, others + 1)]
        largest = left * weights[0] / sum(weights)
        low, high = (low, power) if largest > fixed[0] / 2 else (power, high)
    rest = [max(LEAST, int(left * weight / sum(weights))) for weight in weights]
    rest[0] += left - sum(rest)
    return fixed + rest


def tenant(place: int) -> str:
    """Return the name of a tenant."""
    return f"tenant{place:04d}"


@dataclass(frozen=True)
class Corpus:
    """Everything that is stored.

    Attributes:
        memories: how many.
        tenants: how many.
        seed: another one makes other texts.
    """

    memories: int
    tenants: int
    seed: int = 1

    @cached_property
    def sizes(self) -> list[int]:
        """Memories of each tenant."""
        return sizes(self.memories, self.tenants)

    def part(self, number: int = 0, of: int = 1) -> Iterator[Memory]:
        """Yield the memories of every session of the tenants, or of each `of`-th from the `number`-th on.

        They come in the order in which they came to be: tenants and sessions run through each other.
        """
        choose = random.Random(self.seed)
        starts = sorted(
            (choose.random(), place, first, min(SESSION, size - first))
            for place, size in enumerate(self.sizes)
            for first in range(0, size, SESSION)
        )
        under_way: list[tuple[str, Memory]] = []
        for share, place, first, turns in starts[number::of]:
            begin = END - YEAR + (YEAR - SESSION * PACE) * share
            said = [(memory.id, memory) for memory in self.session(place, first, begin, turns)]
            while under_way and under_way[0][0] < said[0][0]:
                yield heappop(under_way)[1]
            for each in said:
                heappush(under_way, each)
        yield from (memory for _, memory in sorted(under_way))

    def session(self, place: int, number: int, begin: datetime, turns: int) -> list[Memory]:
        """Return a session's turns; the same for the same arguments."""
        choose, scope = self.home(place, number)
        topic = self.topic(place, choose)
        speakers = choose.sample(NAMES, 2)
        return [self.turn(choose, scope, topic, speakers[turn % 2], begin, turn) for turn in range(turns)]

    def home(self, place: int, number: int) -> tuple[random.Random, Scope]:
        """Return where a session lives, and what its turns are drawn with."""
        choose = random.Random((self.seed * 10_000 + place) * 1_000_000 + number)
        users = max(1, self.sizes[place] // USER)
        user = None if choose.random() < SHARED else f"user{choose.randrange(users)}"
        project = choose.randrange(PROJECTS + 1)
        return choose, Scope(
            tenant(place),
            project=None if project == PROJECTS else f"project{project}",
            user_id=user,
            session_id=f"session{number}",
        )

    def topic(self, place: int, choose: random.Random) -> int:
        """Return one of a tenant's topics, of which a large one has more."""
        known = min(TOPICS, max(3, self.sizes[place] // 100))
        return (place * 37 + choose.randrange(known)) % TOPICS

    def turn(self, choose: random.Random, scope: Scope, topic: int, speaker: str, begin: datetime, turn: int) -> Memory:
        """Return what is said in a turn of a session."""
        said_at = begin + turn * PACE + timedelta(milliseconds=choose.randrange(60_000))
        content = text(choose, topic)
        return Memory(
            id=f"{int(said_at.timestamp() * 1000) << 16:016x}{choose.getrandbits(64):016x}",
            scope=scope,
            content=content,
            content_hash=content_hash(content),
            kind="turn",
            importance=round(choose.uniform(0.2, 0.9), 2),
            weight=1.0,
            tier="episodic",
            tags=tags(choose),
            entities=(speaker,),
            fact_key=None,
            supersedes=None,
            metadata={},
            key=None,
            speaker=speaker,
            created_at=said_at,
            updated_at=said_at,
            tier_since=said_at,
            changed_at=said_at,
            turn=turn + 1,
        )


class Law:
    """Draws numbers up to a count, a lower one more often: by 1 / (rank + offset)."""

    def __init__(self, count: int, offset: float) -> None:
        self._sums = sums(count, offset)
        self._last = count - 1

    def draw(self, choose: random.Random) -> int:
        """Return one."""
        return bisect(self._sums, choose.random() * self._sums[-1], 0, self._last)


_COMMON: Final = Law(COMMON, OFFSET)
_RARE: Final = Law(RARE, OFFSET)
_OWN: Final = Law(OWN, 1)


def text(choose: random.Random, topic: int) -> str:
    """Return a text of about 20 words, 12 of which say something."""
    said = [
        *(_COMMON.draw(choose) for _ in range(choose.randint(3, 7))),
        *(COMMON + _RARE.draw(choose) for _ in range(choose.randint(0, 4))),
        *(COMMON + RARE + topic * OWN + _OWN.draw(choose) for _ in range(choose.randint(3, 7))),
    ]
    choose.shuffle(said)
    first = choose.randrange(len(FUNCTION))
    told = [part for place, number in enumerate(said) for part in _with_function_word(first + place, word(number))]
    return " ".join(told).capitalize() + "."


def _with_function_word(place: int, word: str) -> tuple[str, ...]:
    return (word,) if place % 3 == 0 else (FUNCTION[place % len(FUNCTION)], word)


def tags(choose: random.Random) -> tuple[str, ...]:
    """Return the tags of a memory."""
    rare = ((ONE_PERCENT, 0.01), (PER_MILLE, 0.001))
    found = [name for name, share in rare if choose.random() < share]
    return (*found, f"tag{choose.randrange(20)}") if choose.random() < 0.5 else tuple(found)


def question(choose: random.Random, memory: Memory) -> str:
    """Return a question on a memory: some of its words and one that is not in it.

    Half of the questions name who said it, and every tenth a month, which a great many memories share.
    """
    own = [part for part in memory.content.rstrip(".").lower().split() if part not in FUNCTION]
    asked = [*choose.sample(own, min(len(own), choose.randint(2, 5))), word(_COMMON.draw(choose))]
    choose.shuffle(asked)
    when = f" in {memory.created_at:%B %Y}" if choose.random() < 0.1 else ""
    if choose.random() < 0.5:
        return f"What did {memory.speaker} say about {' '.join(asked)}{when}?"
    return f"What was said of {' '.join(asked)}{when}?"
