"""sqlite-vec: a virtual table of vectors, and FTS5 for words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import sqlite_vec

from bench.recall.clocks import Watch
from bench.recall.contender import Mode
from bench.recall.corpus import Block, Entry, Question
from bench.recall.lookup import Lookup
from bench.recall.peers.fusing import fused
from bench.recall.peers.sqlite import connected
from bench.recall.truth import LIMIT
from salience.batch import Vectors32

DEEP: Final = 100
"""Of each of two rankings that are fused."""
TABLES: Final = """
    CREATE VIRTUAL TABLE vectors USING vec0(
        row INTEGER PRIMARY KEY, user TEXT PARTITION KEY, tag TEXT, vector FLOAT[384] DISTANCE_METRIC=cosine
    );
    CREATE TABLE memories (row INTEGER PRIMARY KEY, text TEXT, user TEXT, tag TEXT, project TEXT, session TEXT);
    CREATE INDEX memories_user ON memories (user);
    CREATE INDEX memories_tag ON memories (tag);
    CREATE VIRTUAL TABLE words USING fts5(text, content=memories, content_rowid=row);
"""
INSERTS: Final = (
    "INSERT INTO memories VALUES (:row, :text, :user, :tag, :project, :session)",
    "INSERT INTO words (rowid, text) VALUES (:row, :text)",
    "INSERT INTO vectors VALUES (:row, :user, :tag, :vector)",
)


class SqliteVec:
    """One file."""

    def __init__(self, folder: Path) -> None:
        path = folder / "vec.db"
        new = not path.exists()
        self._connection = connected(path)
        self._connection.enable_load_extension(True)
        sqlite_vec.load(self._connection)
        self._connection.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
        if new:
            self._connection.executescript(TABLES)

    def load(self, blocks: Iterable[Block], watch: Watch) -> None:
        """Store each block in a transaction."""
        for block in blocks:
            rows = [_row(entry, vector) for entry, vector in zip(block.entries(), block.vectors, strict=True)]
            with watch:
                self._insert(rows)

    def recall(self, question: Question, mode: Mode) -> Sequence[int]:
        """Return rows by cosine; with words, those of two rankings fused."""
        if mode == "dense":
            return self._near(question, LIMIT)
        return fused([self._near(question, DEEP), self._worded(question)])

    def write(self, entry: Entry, vector: Vectors32, how: str) -> None:
        """Store one memory in a transaction."""
        self._insert([_row(entry, vector)])

    def close(self) -> None:
        """Release the file."""
        self._connection.close()

    def _insert(self, rows: list[dict[str, Any]]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        for statement in INSERTS:
            self._connection.executemany(statement, rows)
        self._connection.execute("COMMIT")

    def _near(self, question: Question, count: int) -> list[int]:
        told = "SELECT row FROM vectors WHERE vector MATCH :vector AND k = :count" + _where(question, "")
        values = {"vector": question.vector.tobytes(), "count": count, "user": question.user, "tag": question.tag}
        return [row for (row,) in self._connection.execute(told, values)]

    def _worded(self, question: Question) -> list[int]:
        joined = "words CROSS JOIN memories ON memories.row = words.rowid"  # so that words are looked up first
        where = f"words MATCH :words{_where(question, 'memories.')}"
        told = f"SELECT memories.row FROM {joined} WHERE {where} ORDER BY words.rank LIMIT {DEEP}"
        words = " OR ".join(f'"{word}"' for word in question.text.split())
        values = {"words": words, "user": question.user, "tag": question.tag}
        return [row for (row,) in self._connection.execute(told, values)]


def _where(question: Question, table: str) -> str:
    user = f" AND {table}user = :user" if question.user else ""
    return user + (f" AND {table}tag = :tag" if question.tag else "")


def _row(entry: Entry, vector: Vectors32) -> dict[str, Any]:
    return {
        "row": entry.row,
        "text": entry.text,
        "user": entry.user,
        "tag": entry.tags[0] if entry.tags else "",
        "project": entry.project,
        "session": entry.session,
        "vector": vector.tobytes(),
    }


def open_(folder: Path, lookup: Lookup) -> SqliteVec:
    """Return it on a file in a folder."""
    return SqliteVec(folder)
