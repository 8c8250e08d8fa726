"""Qdrant in its local mode: no server, the vectors in this process, kept in SQLite."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from qdrant_client import QdrantClient, models

from bench.made_up import DIMENSION
from bench.recall.clocks import Watch
from bench.recall.contender import Mode
from bench.recall.corpus import Block, Entry, Question
from bench.recall.lookup import Lookup
from bench.recall.peers.local_qdrant import unhurried
from bench.recall.truth import LIMIT
from salience.batch import Vectors32

NAME: Final = "memories"


class Qdrant:
    """One folder."""

    def __init__(self, folder: Path) -> None:
        warnings.filterwarnings("ignore", message="Local mode is not recommended")  # the figures say as much
        self._client = QdrantClient(path=str(folder))
        if not self._client.collection_exists(NAME):
            distance = models.VectorParams(size=DIMENSION, distance=models.Distance.COSINE)
            self._client.create_collection(NAME, distance)

    def load(self, blocks: Iterable[Block], watch: Watch) -> None:
        """Upsert each block, without waiting for the disk."""
        with unhurried(self._client, NAME):
            for block in blocks:
                points = [_point(entry, vector) for entry, vector in zip(block.entries(), block.vectors, strict=True)]
                with watch:
                    self._client.upsert(NAME, points)

    def recall(self, question: Question, mode: Mode) -> Sequence[int]:
        """Return rows by cosine."""
        key, value = ("tag", question.tag) if question.tag else ("user", question.user)
        condition = models.FieldCondition(key=key, match=models.MatchValue(value=value)) if value else None
        where = models.Filter(must=[condition]) if condition else None
        found = self._client.query_points(NAME, query=question.vector.tolist(), query_filter=where, limit=LIMIT)
        return [int(point.id) for point in found.points]

    def write(self, entry: Entry, vector: Vectors32, how: str) -> None:
        """Upsert one memory."""
        self._client.upsert(NAME, [_point(entry, vector)])

    def close(self) -> None:
        """Let go of the folder."""
        self._client.close()


def _point(entry: Entry, vector: Vectors32) -> models.PointStruct:
    tag = entry.tags[0] if entry.tags else ""
    payload = {"text": entry.text, "user": entry.user, "project": entry.project, "tag": tag}
    return models.PointStruct(id=entry.row, vector=vector.tolist(), payload=payload)


def open_(folder: Path, lookup: Lookup) -> Qdrant:
    """Return it on a folder."""
    return Qdrant(folder)
