"""Exports of other systems, written by the tests: one function for each source, with a thousand records or so.

Record `i` tells of the person and the hobby of that number, so that a question has one answer.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from salience.batch import Vectors32

START: Final = datetime(2024, 3, 1, 9, 30, tzinfo=UTC)


@dataclass(frozen=True)
class Sample:
    """An export, and what an import must make of it.

    Attributes:
        path: the file or folder.
        count: memories.
        kinds: of these memories.
        created_at: text of a memory -> its instant.
        broken: numbers of records that cannot be imported.
        where: coordinates under which all is found.
    """

    path: Path
    count: int
    kinds: Mapping[str, int]
    created_at: Mapping[str, datetime]
    broken: tuple[int, ...] = ()
    where: Mapping[str, str] | None = None


class WordEmbedder:
    """An embedder that adds up a random vector for each word, so that texts with the same words are near."""

    name, dimension = "words", 128

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str], /) -> Vectors32:
        self.texts += texts
        rows = [np.sum([_of_word(word) for word in re.findall(r"\w+", text.lower()) or [""]], axis=0) for text in texts]
        rows = [row / np.linalg.norm(row) for row in rows]
        return np.array(rows, np.float32).reshape(len(texts), self.dimension)


@cache
def _of_word(word: str) -> Vectors32:
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
    return np.random.default_rng(seed).normal(size=WordEmbedder.dimension).astype(np.float32)


def fact(number: int) -> str:
    return f"Person{number} collects stamps of series {number * 7 + 100000}"


def question(number: int) -> str:
    return f"Who collects stamps of series {number * 7 + 100000}?"


def at(number: int) -> datetime:
    return START + timedelta(hours=number)


def saved(folder: Path, name: str, value: Any) -> Path:
    path = folder / name
    path.write_text(value if isinstance(value, str) else json.dumps(value, indent=1), "utf-8")
    return path


def mem0(folder: Path, count: int) -> Sample:
    items: list[Any] = []
    for number in range(count):
        item = {"id": f"id-{number}", "memory": fact(number), "hash": "h", "metadata": {"n": number}, "user_id": "ann"}
        shapes = at(number).isoformat(), int(at(number).timestamp() * 1000), at(number).astimezone().isoformat()
        items.append({**item, "created_at": shapes[number % 3], "updated_at": None, "categories": ["hobby"]})
    items += [{"id": "broken", "memory": None}, "no object", {"id": "late", "memory": "x", "created_at": "tomorrow"}]
    broken = count + 1, count + 2, count + 3
    path = saved(folder, "mem0.json", {"results": items, "relations": []})
    return Sample(path, count, {"fact": count}, {fact(n): at(n) for n in range(count)}, broken, {"user_id": "ann"})


SAMPLES: Final[Mapping[str, Callable[[Path, int], Sample]]] = {
    "mem0": mem0,
}
