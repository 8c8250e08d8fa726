"""Memories from a seed, a block at a time, and questions that have a right answer.

Vectors lie in clusters, texts follow the law of Zipf, and both follow a memory's topic. Of every 40 memories, 20 are
the turns of a session, and 20 are facts by themselves. A block is made only when it is asked for, so that a million
memories need the room of one block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from bench import made_up
from bench.made_up import COMMON, DIMENSION, FUNCTION, OFFSET, OWN, RARE, TOPICS
from salience.batch import Vectors32

View = Literal["all", "user", "tag"]
"""Who asks: for all memories, for those of one user of 20 (5 %), for those with a tag that 0.1 % have."""
VIEWS: Final[tuple[View, ...]] = get_args(View)
BLOCK: Final = 10_000
USERS: Final = 20
PROJECTS: Final = 50
SESSION: Final = 20
"""Turns of a session."""
GROUP: Final = 2 * SESSION
"""A session, and as many facts."""
TAG: Final = "rare"
TAGGED: Final = 997
"""Each memory of so many has the tag: 0.1 %, and a prime, so that facts and turns have it alike."""
SPREAD: Final = 1.0
"""Of a memory about its topic: two of one topic then have a cosine of about 0.5."""
NOISE: Final = 0.9
"""Of a question about its memory: they then have a cosine of about 0.75."""
WORDS: Final = (12, 28)
"""Of a text: at least, and fewer than."""
ASKED: Final = 8
"""Most words of a question."""
KINDS: Final = (0.35, 0.65, 0.75)
"""Of the words, up to where: words of grammar, words that everybody uses, rare ones; the rest belong to the topic."""
BLOCKS_ASKED: Final = 8
"""Blocks that questions are about, at most."""
BESIDE: Final = 1_000_000
"""Number of the first block that is not part of a corpus: what is stored while it is measured."""
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """What is asked: some words of a memory, and a vector near its own.

    Attributes:
        row: of that memory, the right answer.
        text: the words.
        vector: float32[384], of length 1.
        user: whose memories are asked for; None for all.
        tag: that they are to have; None for any.
    """

    row: int
    text: str
    vector: Vectors32
    user: str | None = None
    tag: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A memory as it is given to a store, but for its vector."""

    row: int
    text: str
    user: str
    project: str
    session: str | None
    speaker: str | None
    turn: int
    tags: tuple[str, ...]


@dataclass(frozen=True)
class Block:
    """Rows `start` to `start + count`, the same for the same seed and number."""

    seed: int
    number: int
    start: int
    count: int

    @cached_property
    def groups(self) -> Ints:
        """Which of the block's homes each row lives in: a session's turns share one, a fact has its own."""
        place = np.arange(self.count)
        return np.where(place % GROUP < SESSION, place // GROUP, place + self.count)

    @cached_property
    def homes(self) -> Ints:
        """int64[count, 3]: number of the user, of the project, and of the topic."""
        drawn = self._random("homes").integers(0, [USERS, PROJECTS, TOPICS], (2 * self.count, 3))
        return np.asarray(drawn[self.groups])

    @cached_property
    def users(self) -> Ints:
        """Number of each row's user."""
        return np.asarray(self.homes[:, 0])

    @property
    def rows(self) -> Ints:
        """Numbers of the rows."""
        return np.arange(self.start, self.start + self.count)

    @property
    def tagged(self) -> NDArray[np.bool_]:
        """Which rows have the tag."""
        return np.asarray(self.rows % TAGGED == 0)

    @cached_property
    def vectors(self) -> Vectors32:
        """float32[count, 384], of length 1."""
        near = self._random("vectors").standard_normal((self.count, DIMENSION), np.float32)
        near *= made_up.axes() * np.float32(SPREAD)
        near += topics(self.seed)[self.homes[:, 2]]
        near /= np.linalg.norm(near, axis=1, keepdims=True)
        return near

    @cached_property
    def texts(self) -> list[str]:
        """A text for each row, of 12 to 27 words."""
        choose = self._random("texts")
        drawn = vocabulary()[numbers(choose, self.homes[:, 2])].tolist()
        lengths = choose.integers(*WORDS, self.count).tolist()
        return [" ".join(words[:length]) for words, length in zip(drawn, lengths, strict=True)]

    def entries(self) -> Iterator[Entry]:
        """Yield the memories."""
        homes, tagged = self.homes.tolist(), self.tagged.tolist()
        for place, text in enumerate(self.texts):
            user, project, _ = homes[place]
            turn, within = place % GROUP, place % GROUP < SESSION
            yield Entry(
                row=self.start + place,
                text=text,
                user=f"user{user}",
                project=f"project{project}",
                session=f"session{self.number}-{place // GROUP}" if within else None,
                speaker=made_up.NAMES[(place // GROUP + turn % 2) % len(made_up.NAMES)] if within else None,
                turn=turn + 1,
                tags=(TAG,) if tagged[place] else (),
            )

    def _random(self, of: str) -> np.random.Generator:
        return np.random.default_rng([self.seed, self.number, *of.encode()])


@dataclass(frozen=True)
class Corpus:
    """Everything that is stored: `size` memories, made from a seed."""

    size: int
    seed: int = 1

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks; each is let go before the next is made."""
        for number in range(-(-self.size // BLOCK)):
            yield self.block(number)

    def block(self, number: int) -> Block:
        """Return the block of a number."""
        return Block(self.seed, number, number * BLOCK, min(BLOCK, self.size - number * BLOCK))

    def beside(self, count: int, number: int = 0) -> Block:
        """Return memories that are no part of it, for writes that are measured."""
        return Block(self.seed, BESIDE + number, BESIDE * BLOCK + number * BLOCK, count)

    def questions(self, view: View, count: int) -> tuple[Question, ...]:
        """Return questions on memories that are drawn from what is in view."""
        last = -(-self.size // BLOCK) - 1
        places = sorted({round(last * part / (BLOCKS_ASKED - 1)) for part in range(BLOCKS_ASKED)})
        choose = np.random.default_rng([self.seed, VIEWS.index(view)])
        parts = [asked(self.block(place), view, -(-count // len(places)), choose) for place in places]
        flat = [question for part in zip(*parts, strict=True) for question in part]
        return tuple(flat[:count])


def asked(block: Block, view: View, count: int, choose: np.random.Generator) -> list[Question]:
    """Return questions on memories of a block; on one more than once where it has too few."""
    sought = np.flatnonzero(block.tagged) if view == "tag" else np.arange(block.count)
    places = choose.choice(sought, count, replace=count > len(sought))
    noise = choose.standard_normal((count, DIMENSION), np.float32) * made_up.axes() * np.float32(NOISE)
    vectors = block.vectors[places] + noise
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    users = block.users[places].tolist()
    return [
        Question(
            row=block.start + place,
            text=some_of(block.texts[place].split(), choose),
            vector=vectors[number],
            user=f"user{users[number]}" if view == "user" else None,
            tag=TAG if view == "tag" else None,
        )
        for number, place in enumerate(places.tolist())
    ]


def some_of(words: Sequence[str], choose: np.random.Generator) -> str:
    """Return some of the words, in their order."""
    kept = sorted(choose.choice(len(words), min(ASKED, len(words)), replace=False).tolist())
    return " ".join(words[place] for place in kept)


def numbers(choose: np.random.Generator, of: Ints) -> Ints:
    """Return int64[len(of), 27], numbers in the vocabulary: words for texts on topics."""
    shape = (len(of), WORDS[1] - 1)
    kind = choose.random(shape)
    own = COMMON + RARE + of[:, None] * OWN + _drawn(choose, OWN, 1, shape)
    common, rare = _drawn(choose, COMMON, OFFSET, shape), COMMON + _drawn(choose, RARE, OFFSET, shape)
    grammar = choose.integers(0, len(FUNCTION), shape) - len(FUNCTION)  # they stand before all others
    return np.asarray(np.select([kind < part for part in KINDS], [grammar, common, rare], own) + len(FUNCTION))


def _drawn(choose: np.random.Generator, count: int, offset: float, shape: tuple[int, int]) -> Ints:
    sums = np.array(made_up.sums(count, offset))
    return np.asarray(np.minimum(np.searchsorted(sums, choose.random(shape) * sums[-1]), count - 1))


@cache
def vocabulary() -> NDArray[np.object_]:
    """Return all words by their numbers: those of grammar first."""
    return np.array([*FUNCTION, *map(made_up.word, range(made_up.WORDS))], dtype=object)


@cache
def topics(seed: int) -> Vectors32:
    """Return float32[500, 384]: where each topic lies."""
    choose = np.random.default_rng([seed, TOPICS])
    return np.asarray(choose.standard_normal((TOPICS, DIMENSION), np.float32) * made_up.axes())
