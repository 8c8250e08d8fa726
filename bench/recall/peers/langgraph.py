"""LangGraph's SqliteStore: items in namespaces of a user and a project, with the vectors of their texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from langgraph.store.base import PutOp
from langgraph.store.sqlite import SqliteStore

from bench.made_up import DIMENSION
from bench.recall.clocks import Watch
from bench.recall.contender import Mode
from bench.recall.corpus import Block, Entry, Question
from bench.recall.lookup import Lookup
from bench.recall.peers.sqlite import connected
from bench.recall.truth import LIMIT
from salience.batch import Vectors32


class LangGraph:
    """One file."""

    def __init__(self, folder: Path, lookup: Lookup) -> None:
        self._lookup = lookup
        self._connection = connected(folder / "store.db")
        index: Any = {"dims": DIMENSION, "embed": self._embed}
        self._store = SqliteStore(self._connection, index=index)
        self._store.setup()

    def load(self, blocks: Iterable[Block], watch: Watch) -> None:
        """Put each block in one batch."""
        for block in blocks:
            self._lookup.learn(block.texts, block.vectors)
            puts = [_put(entry) for entry in block.entries()]
            with watch:
                self._store.batch(puts)
            self._lookup.forget()

    def recall(self, question: Question, mode: Mode) -> Sequence[int]:
        """Return rows by cosine."""
        self._lookup.learn([question.text], question.vector[None])
        prefix = (question.user,) if question.user else ()
        where = {"tag": question.tag} if question.tag else None
        return [int(item.key) for item in self._store.search(prefix, query=question.text, filter=where, limit=LIMIT)]

    def write(self, entry: Entry, vector: Vectors32, how: str) -> None:
        """Put one item."""
        self._lookup.learn([entry.text], vector[None])
        self._store.batch([_put(entry)])

    def close(self) -> None:
        """Release the file."""
        self._connection.close()

    def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        vectors: list[list[float]] = self._lookup.embed(texts).tolist()
        return vectors


def _put(entry: Entry) -> PutOp:
    value = {"text": entry.text, "tag": entry.tags[0] if entry.tags else ""}
    return PutOp((entry.user, entry.project), str(entry.row), value, index=["text"])


def open_(folder: Path, lookup: Lookup) -> LangGraph:
    """Return it on a file in a folder."""
    return LangGraph(folder, lookup)
