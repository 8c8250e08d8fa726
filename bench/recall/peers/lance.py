"""LanceDB: a table without an index of vectors, which makes it exact, with indexes of users, of tags and of words."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

os.environ.setdefault("LANCEDB_LOG", "error")  # it is read when the library is imported; each search warns otherwise

import lancedb
import pyarrow as pa

from bench.made_up import DIMENSION
from bench.recall.clocks import Watch
from bench.recall.contender import Mode
from bench.recall.corpus import Block, Entry, Question
from bench.recall.lookup import Lookup
from bench.recall.truth import LIMIT
from salience.batch import Vectors32

NAME: Final = "memories"
SCHEMA: Final = pa.schema(
    [
        ("row", pa.int64()),
        *((name, pa.string()) for name in ("text", "user", "project", "tag")),
        ("vector", pa.list_(pa.float32(), DIMENSION)),
    ]
)


class Lance:
    """One folder."""

    def __init__(self, folder: Path) -> None:
        self._base = lancedb.connect(str(folder))
        self._table = self._base.create_table(NAME, schema=SCHEMA, exist_ok=True)

    def load(self, blocks: Iterable[Block], watch: Watch) -> None:
        """Add each block, then make the indexes."""
        for block in blocks:
            data = _table(list(block.entries()), block.vectors)
            with watch:
                self._table.add(data)
        with watch:
            self._table.create_scalar_index("user", index_type="BITMAP")
            self._table.create_scalar_index("tag", index_type="BITMAP")
            self._table.create_fts_index("text")
            self._table.optimize()

    def recall(self, question: Question, mode: Mode) -> Sequence[int]:
        """Return rows by cosine; with words, as its hybrid search fuses them."""
        if mode == "hybrid":
            search = self._table.search(query_type="hybrid").vector(question.vector).text(question.text)
        else:
            search = self._table.search(question.vector)
        search = search.distance_type("cosine").limit(LIMIT).select(["row"])
        if question.user or question.tag:
            told = f"tag = '{question.tag}'" if question.tag else f"user = '{question.user}'"
            search = search.where(told, prefilter=True)
        rows: list[int] = search.to_arrow()["row"].to_pylist()
        return rows

    def write(self, entry: Entry, vector: Vectors32, how: str) -> None:
        """Add one memory; the indexes take it in later."""
        self._table.add(_table([entry], vector[None]))

    def close(self) -> None:
        """Let go of the folder, which it does by itself."""


def _table(entries: Sequence[Entry], vectors: Vectors32) -> Any:
    flat = pa.array(vectors.reshape(-1))
    columns: dict[str, Any] = {
        "row": [entry.row for entry in entries],
        "text": [entry.text for entry in entries],
        "user": [entry.user for entry in entries],
        "project": [entry.project for entry in entries],
        "tag": [entry.tags[0] if entry.tags else "" for entry in entries],
        "vector": pa.FixedSizeListArray.from_arrays(flat, DIMENSION),
    }
    return pa.table(columns, schema=SCHEMA)


def open_(folder: Path, lookup: Lookup) -> Lance:
    """Return it on a folder."""
    return Lance(folder)
