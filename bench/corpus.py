"""Made-up memories from a seed, a block at a time, and questions with a known right answer.

Vectors are in clusters (topics) whose spread falls from axis to axis as in real embeddings; words follow Zipf's law
and the topic. Of 40 memories, 20 are the turns of one session and 20 are single facts.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from salience.batch import Vectors32
from salience.text import content_hash

DIMENSION: Final = 384
TOPICS: Final = 500
OWN: Final = 60
"""Words of one topic."""
COMMON: Final = 2_000
RARE: Final = 60_000
FUNCTION: Final = "the of and to in that it with for was on as".split()
SYLLABLES: Final = tuple("".join(pair) for pair in product("bdfgklmnprtvz", "aeiou"))
NAMES: Final = tuple(f"{a.title()}{b}" for a, b in product(SYLLABLES[::3], SYLLABLES[1::8]))
BLOCK: Final = 10_000
USERS: Final = 20
PROJECTS: Final = 50
SESSION: Final = 20
TAG: Final = "rare"
TAGGED: Final = 997
"""One memory in so many has the tag: 0.1 %."""
BEGIN: Final = datetime(2024, 1, 1, tzinfo=UTC)
VIEWS: Final = {"all": "all", "user": "one user, 5 %", "tag": "one tag, 0.1 %"}


@dataclass(frozen=True, eq=False)
class Question:
    """Some words of a memory and a vector near its own; `row` is that memory."""

    row: int
    text: str
    vector: Vectors32
    user: str | None = None
    tag: str | None = None


@dataclass(frozen=True)
class Entry:
    """A memory as stores get it, apart from its vector."""

    row: int
    text: str
    user: str
    project: str
    session: str | None
    speaker: str | None
    tag: str

    @property
    def at(self) -> datetime:
        """When the memory was stored."""
        return BEGIN + self.row * timedelta(seconds=30)


@dataclass(frozen=True)
class Block:
    """Rows `start` to `start + count`; the same for the same seed and number."""

    seed: int
    number: int
    start: int
    count: int

    def _random(self, of: str) -> np.random.Generator:
        return np.random.default_rng([self.seed, self.number, *of.encode()])

    @cached_property
    def homes(self) -> NDArray[np.int64]:
        """int64[count, 3]: user, project and topic; turns of a session share them."""
        place = np.arange(self.count)
        groups = np.where(place % (2 * SESSION) < SESSION, place // (2 * SESSION), place + self.count)
        return np.asarray(self._random("homes").integers(0, [USERS, PROJECTS, TOPICS], (2 * self.count, 3))[groups])

    @property
    def tagged(self) -> NDArray[np.bool_]:
        """Which rows have the tag."""
        return np.asarray(np.arange(self.start, self.start + self.count) % TAGGED == 0)

    @cached_property
    def vectors(self) -> Vectors32:
        """float32[count, 384], of length 1; two memories of one topic have a cosine of about 0.5."""
        near = self._random("vectors").standard_normal((self.count, DIMENSION), np.float32) * axes()
        near += topics(self.seed)[self.homes[:, 2]]
        return np.asarray(near / np.linalg.norm(near, axis=1, keepdims=True), np.float32)

    @cached_property
    def texts(self) -> list[str]:
        """A text of 12 to 27 words for each row."""
        chance, of, shape = self._random("texts"), self.homes[:, 2], (self.count, 27)
        kind = chance.random(shape)
        own = COMMON + RARE + of[:, None] * OWN + _zipf(chance, OWN, 1, shape)
        common, rare = _zipf(chance, COMMON, 10, shape), COMMON + _zipf(chance, RARE, 10, shape)
        grammar = chance.integers(0, len(FUNCTION), shape) - len(FUNCTION)
        numbers = np.select([kind < 0.35, kind < 0.65, kind < 0.75], [grammar, common, rare], own) + len(FUNCTION)
        lengths = chance.integers(12, 28, self.count).tolist()
        drawn = vocabulary()[numbers].tolist()
        return [" ".join(words[:length]) for words, length in zip(drawn, lengths, strict=True)]

    def entries(self) -> Iterator[Entry]:
        """Yield the memories."""
        for place, (text, (user, project, _)) in enumerate(zip(self.texts, self.homes.tolist(), strict=True)):
            group, turn = divmod(place, 2 * SESSION)
            is_turn = turn < SESSION
            yield Entry(
                row=self.start + place,
                text=text,
                user=f"user{user}",
                project=f"project{project}",
                session=f"session{self.number}-{group}" if is_turn else None,
                speaker=NAMES[(group + turn % 2) % len(NAMES)] if is_turn else None,
                tag=TAG if (self.start + place) % TAGGED == 0 else "",
            )

    def question(self, place: int, chance: np.random.Generator, view: str = "all") -> Question:
        """Return a question about the memory at a place: eight of its words, and a cosine of about 0.75 with it."""
        words = self.texts[place].split()
        text = " ".join(words[one] for one in sorted(chance.choice(len(words), 8, replace=False).tolist()))
        vector = self.vectors[place] + chance.standard_normal(DIMENSION, np.float32) * axes() * np.float32(0.9)
        user = f"user{self.homes[place, 0]}" if view == "user" else None
        tag = TAG if view == "tag" else None
        return Question(self.start + place, text, (vector / np.linalg.norm(vector)).astype(np.float32), user, tag)


@dataclass(frozen=True)
class Corpus:
    """`size` memories from a seed."""

    size: int
    seed: int = 1

    def block(self, number: int) -> Block:
        """Return the block of a number."""
        return Block(self.seed, number, number * BLOCK, min(BLOCK, self.size - number * BLOCK))

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks."""
        return (self.block(number) for number in range(-(-self.size // BLOCK)))

    def pairs(self) -> Iterator[tuple[Entry, Vectors32]]:
        """Yield each memory with its vector."""
        for block in self.blocks():
            yield from zip(block.entries(), block.vectors, strict=True)

    def unstored(self, count: int, number: int = 0) -> Block:
        """Return memories that are not part of the corpus, for writes."""
        return Block(self.seed, 1_000_000 + number, (1_000_000 + number) * BLOCK, count)

    def questions(self, view: str, count: int) -> list[Question]:
        """Return up to `count` questions about memories of up to eight blocks, in a view of `VIEWS`.

        Their texts are distinct, since the engine caches the vector of a text.
        """
        last = -(-self.size // BLOCK) - 1
        places = sorted({round(last * part / 7) for part in range(8)})
        chance, found = np.random.default_rng([self.seed, *view.encode()]), list[Question]()
        for block in map(self.block, places):
            each = -(-count // len(places))
            rows = np.flatnonzero(block.tagged) if view == "tag" else np.arange(block.count)
            chosen = chance.choice(rows, each, replace=each > len(rows))
            found += [block.question(row, chance, view) for row in chosen.tolist()]
        distinct = list({question.text: question for question in found}.values())
        return [distinct[number] for number in chance.permutation(len(distinct))[:count]]

    def nearest(self, questions: Sequence[Question], count: int = 10) -> list[list[int]]:
        """Return the rows of the largest cosines above 0 in view of each question, by all cosines."""
        vectors = np.stack([question.vector for question in questions])
        best = np.full((len(questions), count), 0.0, np.float32)
        rows = np.full((len(questions), count), -1)
        for block in self.blocks():
            users = np.array([question.user or "" for question in questions])[:, None]
            tags = np.array([question.tag is not None for question in questions])[:, None]
            own = np.array([f"user{user}" for user in block.homes[:, 0]])
            visible = ((users == "") | (users == own)) & (~tags | block.tagged)
            cosines = np.where(visible, vectors @ block.vectors.T, np.float32(-1))
            near = np.argpartition(-cosines, min(count, block.count) - 1, axis=1)[:, :count]
            scores = np.concatenate([best, np.take_along_axis(cosines, near, 1)], axis=1)
            numbers = np.concatenate([rows, near + block.start], axis=1)
            order = np.argsort(-scores, axis=1, kind="stable")[:, :count]
            best, rows = np.take_along_axis(scores, order, 1), np.take_along_axis(numbers, order, 1)
        return [found[found >= 0].tolist() for found in rows]


def write_export(path: Path, entries: Iterable[tuple[Entry, Vectors32]]) -> None:
    """Write memories and their vectors as an export file of Salience."""
    with path.open("w", encoding="utf-8") as file:
        header = {"format": "salience", "version": 1, "embedder": Lookup.name, "dimension": DIMENSION}
        file.write(json.dumps(header) + "\n")
        for entry, vector in entries:
            coded = b64encode(vector.astype("<f4").tobytes()).decode()
            file.write(json.dumps({"memory": record(entry), "activations": {}, "vector": coded}) + "\n")


def record(entry: Entry) -> dict[str, Any]:
    """Return a memory as an export has it; its id is its row."""
    at = entry.at.isoformat()
    scope = {"environment": "default", "project": entry.project, "user_id": entry.user, "session_id": entry.session}
    return {
        "id": f"{entry.row:032x}",
        "scope": {key: value for key, value in scope.items() if value},
        "content": entry.text,
        "content_hash": content_hash(entry.text),
        "kind": "turn" if entry.session else "fact",
        "importance": 0.5,
        "weight": 1.0,
        "tier": "episodic",
        "tags": [entry.tag] if entry.tag else [],
        "entities": [entry.speaker] if entry.speaker else [],
        "metadata": {},
        "speaker": entry.speaker,
        "turn": entry.row % (2 * SESSION) + 1 if entry.session else None,
        "access_count": 0,
        "version": 1,
        "change": "create",
        **dict.fromkeys(("created_at", "updated_at", "tier_since", "changed_at"), at),
    }


class Lookup:
    """An embedder whose vectors are given in advance; an unknown text gets a random one that follows from it."""

    name = "lookup"
    dimension = DIMENSION

    def __init__(self) -> None:
        self.known: dict[str, Vectors32] = {}

    def embed(self, texts: Sequence[str], /) -> Vectors32:
        """Return float32[len(texts), 384], of length 1."""
        made = [self.known[text] if text in self.known else self._random(text) for text in texts]
        return np.stack(made) if made else np.empty((0, DIMENSION), np.float32)

    def _random(self, text: str) -> Vectors32:
        seed = int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
        drawn = np.random.default_rng(seed).standard_normal(DIMENSION, np.float32)
        return np.asarray(drawn / np.linalg.norm(drawn), np.float32)


def _zipf(chance: np.random.Generator, count: int, offset: float, shape: tuple[int, int]) -> NDArray[np.int64]:
    sums = np.cumsum(1 / (np.arange(1, count + 1) + offset))
    return np.asarray(np.minimum(np.searchsorted(sums, chance.random(shape) * sums[-1]), count - 1))


def word(number: int) -> str:
    """Return the word of a number; no stemmer shortens it."""
    parts = []
    for _ in range(3):
        number, place = divmod(number, len(SYLLABLES))
        parts.append(SYLLABLES[place])
    return "".join((*parts, "k"))


@cache
def vocabulary() -> NDArray[np.object_]:
    """Return all words: words of grammar, common, rare, then those of each topic."""
    return np.array([*FUNCTION, *map(word, range(COMMON + RARE + TOPICS * OWN))], dtype=object)


@cache
def topics(seed: int) -> Vectors32:
    """Return float32[500, 384]: the centre of each topic."""
    drawn = np.random.default_rng([seed, TOPICS]).standard_normal((TOPICS, DIMENSION), np.float32)
    return np.asarray(drawn * axes())


@cache
def axes() -> Vectors32:
    """Return float32[384], of length 1: the spread along each axis."""
    falling = 1 / np.sqrt(np.arange(1, DIMENSION + 1))
    return np.asarray(falling / np.linalg.norm(falling), np.float32)
