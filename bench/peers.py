"""Other stores, each behind the same four methods. Each class imports its library when it is opened."""

from __future__ import annotations

import logging
import os
import sqlite3
import sys
import uuid
import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, Protocol

from bench.corpus import DIMENSION, Entry, Lookup, Question
from salience.batch import Vectors32

LIMIT: Final = 10


class Store(Protocol):
    """A store of memories that is open."""

    def load(self, entries: Sequence[Entry], vectors: Vectors32) -> None:
        """Store many memories."""

    def finish(self) -> None:
        """Make the indexes that wait until all memories are there."""

    def recall(self, question: Question, mode: str) -> Sequence[int]:
        """Return the rows of the ten best memories."""

    def write(self, entry: Entry, vector: Vectors32) -> None:
        """Store one memory."""

    def close(self) -> None:
        """Release files."""


class Base:
    """Defaults: a write is a load of one memory; nothing to finish or close."""

    def load(self, entries: Sequence[Entry], vectors: Vectors32) -> None:
        raise NotImplementedError

    def write(self, entry: Entry, vector: Vectors32) -> None:
        self.load([entry], vector[None])

    def finish(self) -> None: ...
    def close(self) -> None: ...


def fused(rankings: Sequence[Sequence[int]]) -> list[int]:
    """Return the ten best of several rankings by reciprocal rank fusion (Cormack and others, 2009)."""
    scores: dict[int, float] = defaultdict(float)
    for ranking in rankings:
        for rank, row in enumerate(ranking, start=1):
            scores[row] += 1 / (60 + rank)
    return sorted(scores, key=lambda row: (-scores[row], row))[:LIMIT]


def connected(path: Path) -> Any:
    """Return a connection to a SQLite file that can load extensions, unlike many builds of Python's own."""
    driver: Any = sqlite3
    if not hasattr(sqlite3.Connection, "enable_load_extension") and find_spec("pysqlite3"):
        driver = import_module("pysqlite3")
    return driver.connect(path, isolation_level=None, check_same_thread=False)


class SqliteVec(Base):
    """A virtual table of vectors, and FTS5 for words."""

    def __init__(self, folder: Path) -> None:
        import sqlite_vec

        new = not (folder / "vec.db").exists()
        self.db = connected(folder / "vec.db")
        self.db.enable_load_extension(True)
        sqlite_vec.load(self.db)
        self.db.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
        if new:
            self.db.executescript("""
                CREATE VIRTUAL TABLE vectors USING vec0(row INTEGER PRIMARY KEY, user TEXT PARTITION KEY, tag TEXT,
                    vector FLOAT[384] DISTANCE_METRIC=cosine);
                CREATE TABLE memories (row INTEGER PRIMARY KEY, text TEXT, user TEXT, tag TEXT, project TEXT);
                CREATE INDEX memories_user ON memories (user); CREATE INDEX memories_tag ON memories (tag);
                CREATE VIRTUAL TABLE words USING fts5(text, content=memories, content_rowid=row);""")

    def load(self, entries: Sequence[Entry], vectors: Vectors32) -> None:
        rows = [
            {"row": e.row, "text": e.text, "user": e.user, "tag": e.tag, "project": e.project, "vector": v.tobytes()}
            for e, v in zip(entries, vectors, strict=True)
        ]
        self.db.execute("BEGIN IMMEDIATE")
        self.db.executemany("INSERT INTO memories VALUES (:row, :text, :user, :tag, :project)", rows)
        self.db.executemany("INSERT INTO words (rowid, text) VALUES (:row, :text)", rows)
        self.db.executemany("INSERT INTO vectors VALUES (:row, :user, :tag, :vector)", rows)
        self.db.execute("COMMIT")

    def recall(self, question: Question, mode: str) -> Sequence[int]:
        if mode == "dense":
            return self._near(question, LIMIT)
        words = " OR ".join(f'"{word}"' for word in question.text.split())
        statement = (  # CROSS JOIN: look words up first
            "SELECT memories.row FROM words CROSS JOIN memories ON memories.row = words.rowid WHERE words MATCH :words"
            + self._where(question, "memories.")
            + " ORDER BY words.rank LIMIT 100"
        )
        found = self.db.execute(statement, {"words": words, "user": question.user, "tag": question.tag})
        return fused([self._near(question, 100), [row for (row,) in found]])

    def _near(self, question: Question, count: int) -> list[int]:
        statement = "SELECT row FROM vectors WHERE vector MATCH :vector AND k = :count" + self._where(question, "")
        given = {"vector": question.vector.tobytes(), "count": count, "user": question.user, "tag": question.tag}
        return [row for (row,) in self.db.execute(statement, given)]

    def _where(self, question: Question, table: str) -> str:
        user = f" AND {table}user = :user" if question.user else ""
        return user + (f" AND {table}tag = :tag" if question.tag else "")

    def close(self) -> None:
        self.db.close()


class Chroma(Base):
    """A collection with its index of vectors (HNSW) as it comes."""

    def __init__(self, folder: Path) -> None:
        import chromadb
        from chromadb.config import Settings

        self.client = chromadb.PersistentClient(str(folder), Settings(anonymized_telemetry=False))
        self.memories = self.client.get_or_create_collection(
            "memories", configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
        )

    def load(self, entries: Sequence[Entry], vectors: Vectors32) -> None:
        for start in range(0, len(entries), 5_000):
            page = entries[start : start + 5_000]
            self.memories.add(
                ids=[str(entry.row) for entry in page],
                embeddings=vectors[start : start + 5_000],
                documents=[entry.text for entry in page],
                metadatas=[{"user": entry.user, "project": entry.project, "tag": entry.tag} for entry in page],
            )

    def recall(self, question: Question, mode: str) -> Sequence[int]:
        where = {"tag": question.tag} if question.tag else {"user": question.user} if question.user else None
        found = self.memories.query(query_embeddings=question.vector[None], n_results=LIMIT, where=where)
        return [int(row) for row in found["ids"][0]]

    def close(self) -> None:
        self.client.close()


class Lance(Base):
    """A table without an index of vectors, which makes it exact, with indexes of users, tags and words."""

    def __init__(self, folder: Path) -> None:
        os.environ.setdefault("LANCEDB_LOG", "error")
        import lancedb
        import pyarrow as pa

        self.pa, fields = pa, [(name, pa.string()) for name in ("text", "user", "project", "tag")]
        self.schema = pa.schema([("row", pa.int64()), *fields, ("vector", pa.list_(pa.float32(), DIMENSION))])
        self.table = lancedb.connect(str(folder)).create_table("memories", schema=self.schema, exist_ok=True)

    def load(self, entries: Sequence[Entry], vectors: Vectors32) -> None:
        columns: dict[str, Any] = {
            name: [getattr(entry, name) for entry in entries] for name in ("row", "text", "user", "project", "tag")
        }
        flat = self.pa.array(vectors.reshape(-1))
        columns["vector"] = self.pa.FixedSizeListArray.from_arrays(flat, DIMENSION)
        self.table.add(self.pa.table(columns, schema=self.schema))

    def finish(self) -> None:
        self.table.create_scalar_index("user", index_type="BITMAP")
        self.table.create_scalar_index("tag", index_type="BITMAP")
        self.table.create_fts_index("text")
        self.table.optimize()

    def recall(self, question: Question, mode: str) -> Sequence[int]:
        search = self.table.search(question.vector)
        if mode == "hybrid":
            search = self.table.search(query_type="hybrid").vector(question.vector).text(question.text)
        search = search.distance_type("cosine").limit(LIMIT).select(["row"])
        if question.tag or question.user:
            where = f"tag = '{question.tag}'" if question.tag else f"user = '{question.user}'"
            search = search.where(where, prefilter=True)
        rows: list[int] = search.to_arrow()["row"].to_pylist()
        return rows


class Qdrant(Base):
    """The local mode: a scan by NumPy, kept in SQLite, which commits point by point; loads do not wait for the disk."""

    def __init__(self, folder: Path) -> None:
        from qdrant_client import QdrantClient, models

        warnings.filterwarnings("ignore", message="Local mode is not recommended")
        self.models, self.client = models, QdrantClient(path=str(folder))
        if not self.client.collection_exists("memories"):
            shape = models.VectorParams(size=DIMENSION, distance=models.Distance.COSINE)
            self.client.create_collection("memories", shape)

    def load(self, entries: Sequence[Entry], vectors: Vectors32) -> None:
        without_fsync(self.client, "memories", True)
        self._upsert(entries, vectors)
        without_fsync(self.client, "memories", False)

    def _upsert(self, entries: Sequence[Entry], vectors: Vectors32) -> None:
        points = [
            self.models.PointStruct(
                id=entry.row, vector=vector.tolist(), payload={"text": entry.text, "user": entry.user, "tag": entry.tag}
            )
            for entry, vector in zip(entries, vectors, strict=True)
        ]
        self.client.upsert("memories", points)

    def recall(self, question: Question, mode: str) -> Sequence[int]:
        key, value = ("tag", question.tag) if question.tag else ("user", question.user)
        match = self.models.FieldCondition(key=key, match=self.models.MatchValue(value=value)) if value else None
        where = self.models.Filter(must=[match]) if match else None
        found = self.client.query_points("memories", query=question.vector.tolist(), query_filter=where, limit=LIMIT)
        return [int(point.id) for point in found.points]

    def write(self, entry: Entry, vector: Vectors32) -> None:
        self._upsert([entry], vector[None])

    def close(self) -> None:
        self.client.close()


def without_fsync(client: Any, collection: str, off: bool) -> None:
    """Let Qdrant's local file wait for the disk or not."""
    file = client._client.collections[collection].storage.storage
    file.execute(f"PRAGMA synchronous = {'OFF' if off else 'FULL'}")


class LangGraph(Base):
    """`SqliteStore`: a scan by SQL."""

    def __init__(self, folder: Path) -> None:
        from langgraph.store.base import PutOp
        from langgraph.store.sqlite import SqliteStore

        self.put, self.lookup, self.db = PutOp, Lookup(), connected(folder / "store.db")
        index: Any = {"dims": DIMENSION, "embed": lambda texts: self.lookup.embed(texts).tolist()}
        self.store = SqliteStore(self.db, index=index)
        self.store.setup()

    def load(self, entries: Sequence[Entry], vectors: Vectors32) -> None:
        self.lookup.known = {entry.text: vector for entry, vector in zip(entries, vectors, strict=True)}
        self.store.batch(
            [self.put((e.user, e.project), str(e.row), {"text": e.text, "tag": e.tag}, index=["text"]) for e in entries]
        )

    def recall(self, question: Question, mode: str) -> Sequence[int]:
        self.lookup.known = {question.text: question.vector}
        prefix, where = (question.user,) if question.user else (), {"tag": question.tag} if question.tag else None
        found = self.store.search(prefix, query=question.text, filter=where, limit=LIMIT)
        return [int(item.key) for item in found]

    def close(self) -> None:
        self.db.close()


class Mem0(Base):
    """mem0 without a language model (`infer=False`) on Qdrant's local mode; loaded past `add`, which stores one."""

    def __init__(self, folder: Path) -> None:
        os.environ.update(MEM0_TELEMETRY="False", OPENAI_API_KEY="unused", MEM0_DIR=str(folder))
        from mem0 import Memory
        from mem0.memory import notices

        logging.getLogger("mem0").setLevel(logging.ERROR)
        notices._fetch_remote_config = lambda: None  # it would ask a server what to advertise
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            store = {"path": str(folder / "qdrant"), "embedding_model_dims": DIMENSION, "on_disk": True}
            vectors = {"provider": "qdrant", "config": store}
            self.memory = Memory.from_config({"vector_store": vectors, "history_db_path": str(folder / "history.db")})
        self.lookup = Lookup()
        self.memory.embedding_model = self

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        """Return the vector of a text, as mem0 asks an embedding model for it."""
        vector: list[float] = self.lookup.embed([text])[0].tolist()
        return vector

    def load(self, entries: Sequence[Entry], vectors: Vectors32) -> None:
        store = self.memory.vector_store
        ids = [str(uuid.UUID(int=entry.row)) for entry in entries]
        payloads = [{"data": e.text, "user_id": e.user, "tag": e.tag, "role": "user"} for e in entries]
        without_fsync(store.client, store.collection_name, True)
        store.insert(vectors.tolist(), payloads, ids)
        without_fsync(store.client, store.collection_name, False)

    def recall(self, question: Question, mode: str) -> Sequence[int]:
        self.lookup.known = {question.text: question.vector}
        where = {"user_id": question.user or "*", **({"tag": question.tag} if question.tag else {})}
        found = self.memory.search(question.text, top_k=LIMIT, filters=where, threshold=0.0)
        return [uuid.UUID(hit["id"]).int for hit in found["results"]]

    def write(self, entry: Entry, vector: Vectors32) -> None:
        self.lookup.known = {entry.text: vector}
        self.memory.add(entry.text, user_id=entry.user, metadata={"tag": entry.tag}, infer=False)

    def close(self) -> None:
        self.memory.vector_store.client.close()
        self.memory.db.close()


@dataclass(frozen=True)
class Peer:
    """A store that can be chosen: its class, module, package, search modes, largest size and a note."""

    make: type[Any]
    module: str
    package: str
    note: str
    modes: tuple[str, ...] = ("dense",)
    largest: int = 100_000

    @property
    def missing(self) -> bool:
        """Whether the library is not installed."""
        try:
            return find_spec(self.module) is None
        except ModuleNotFoundError:
            return True

    @property
    def version(self) -> str:
        return metadata.version(self.package)


BOTH: Final = ("hybrid", "dense")
PEERS: Final[dict[str, Peer]] = {
    "sqlite-vec": Peer(
        SqliteVec,
        "sqlite_vec",
        "sqlite-vec",
        "Exact scan, partitioned by user; hybrid adds FTS5 with reciprocal rank fusion. Writes are on disk.",
        BOTH,
        1_000_000,
    ),
    "lancedb": Peer(
        Lance,
        "lancedb",
        "lancedb",
        "Exact scan, indexes on user and tag; hybrid as its own search fuses it. Writes are not forced to disk.",
        BOTH,
        1_000_000,
    ),
    "chroma": Peer(Chroma, "chromadb", "chromadb", "Approximate (HNSW). Writes are on disk."),
    "qdrant": Peer(Qdrant, "qdrant_client", "qdrant-client", "Local mode: exact scan by NumPy. Writes are on disk."),
    "langgraph": Peer(
        LangGraph,
        "langgraph.store.sqlite",
        "langgraph-checkpoint-sqlite",
        "`SqliteStore`: exact scan by SQL. Writes are on disk.",
    ),
    "mem0": Peer(Mem0, "mem0", "mem0ai", "`infer=False` on Qdrant's local mode: exact scan. Writes are on disk."),
}


def seal() -> None:
    """Let every connection of this process to another machine fail, so that no library reports its use."""

    def here(host: Any) -> bool:
        name = host.decode() if isinstance(host, bytes) else host
        try:
            return name in (None, "", "localhost") or ip_address(str(name)).is_loopback
        except ValueError:
            return False

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "socket.getaddrinfo" and not here(arguments[0]):
            raise PermissionError("no network during a benchmark")
        if (
            event in ("socket.connect", "socket.sendto")
            and isinstance(arguments[1], tuple)
            and not here(arguments[1][0])
        ):
            raise PermissionError("no network during a benchmark")

    sys.addaudithook(refuse)
