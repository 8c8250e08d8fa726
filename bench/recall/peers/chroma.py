"""Chroma, embedded: a collection with its index of vectors as it comes, but for cosines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import chromadb
from chromadb.config import Settings

from bench.recall.clocks import Watch
from bench.recall.contender import Mode
from bench.recall.corpus import Block, Entry, Question
from bench.recall.lookup import Lookup
from bench.recall.truth import LIMIT
from salience.batch import Vectors32

PAGE: Final = 5_000
"""Memories that it takes at a time."""


class Chroma:
    """One folder."""

    def __init__(self, folder: Path) -> None:
        self._client = chromadb.PersistentClient(str(folder), Settings(anonymized_telemetry=False))
        configuration: Any = {"hnsw": {"space": "cosine"}}
        self._memories = self._client.get_or_create_collection(
            "memories", configuration=configuration, embedding_function=None
        )

    def load(self, blocks: Iterable[Block], watch: Watch) -> None:
        """Add pages of each block."""
        for block in blocks:
            entries = list(block.entries())
            for start in range(0, len(entries), PAGE):
                page = entries[start : start + PAGE]
                with watch:
                    self._add(page, block.vectors[start : start + PAGE])

    def recall(self, question: Question, mode: Mode) -> Sequence[int]:
        """Return rows by cosine."""
        where: Any = {"tag": question.tag} if question.tag else {"user": question.user} if question.user else None
        found = self._memories.query(query_embeddings=question.vector[None], n_results=LIMIT, where=where)
        return [int(row) for row in found["ids"][0]]

    def write(self, entry: Entry, vector: Vectors32, how: str) -> None:
        """Add one memory."""
        self._add([entry], vector[None])

    def close(self) -> None:
        """Let go of the folder."""
        self._client.close()

    def _add(self, entries: Sequence[Entry], vectors: Vectors32) -> None:
        self._memories.add(
            ids=[str(entry.row) for entry in entries],
            embeddings=vectors,
            documents=[entry.text for entry in entries],
            metadatas=[
                {"user": entry.user, "project": entry.project, "tag": entry.tags[0] if entry.tags else ""}
                for entry in entries
            ],
        )


def open_(folder: Path, lookup: Lookup) -> Chroma:
    """Return it on a folder."""
    return Chroma(folder)
