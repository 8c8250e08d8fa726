"""mem0 without a language model: `infer=False`, on Qdrant's local mode, with vectors from the table."""

from __future__ import annotations

import logging
import os
import uuid
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.made_up import DIMENSION
from bench.recall.clocks import Watch
from bench.recall.contender import Mode
from bench.recall.corpus import Block, Entry, Question
from bench.recall.lookup import Lookup
from bench.recall.peers.local_qdrant import unhurried
from bench.recall.truth import LIMIT
from salience.batch import Vectors32

os.environ.update(MEM0_TELEMETRY="False", OPENAI_API_KEY="unused")  # it is read when mem0 is imported

from mem0 import Memory
from mem0.memory import notices

logging.getLogger("mem0").setLevel(logging.ERROR)  # it warns of models that it goes without
notices._fetch_remote_config = lambda: None  # it would ask a server what to advertise


class Mem0:
    """One folder."""

    def __init__(self, folder: Path, lookup: Lookup) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            store = {"path": str(folder / "qdrant"), "embedding_model_dims": DIMENSION, "on_disk": True}
            config = {
                "vector_store": {"provider": "qdrant", "config": store},
                "history_db_path": str(folder / "history.db"),
            }
            self._memory = Memory.from_config(config)
        self._memory.embedding_model = Table(lookup)
        self._lookup = lookup

    def load(self, blocks: Iterable[Block], watch: Watch) -> None:
        """Put each block into its store of vectors, with the payloads that `add` would give them."""
        store = self._memory.vector_store
        with unhurried(store.client, store.collection_name):
            for block in blocks:
                entries, vectors = list(block.entries()), block.vectors.tolist()
                ids, payloads = [str(uuid.UUID(int=entry.row)) for entry in entries], list(map(_payload, entries))
                with watch:
                    store.insert(vectors, payloads, ids)

    def recall(self, question: Question, mode: Mode) -> Sequence[int]:
        """Return rows as its `search` ranks them."""
        self._lookup.learn([question.text], question.vector[None])
        where = {"user_id": question.user or "*", **({"tag": question.tag} if question.tag else {})}
        found = self._memory.search(question.text, top_k=LIMIT, filters=where, threshold=0.0)
        return [uuid.UUID(hit["id"]).int for hit in found["results"]]

    def write(self, entry: Entry, vector: Vectors32, how: str) -> None:
        """Add one memory."""
        self._lookup.learn([entry.text], vector[None])
        self._memory.add(entry.text, user_id=entry.user, metadata={"project": entry.project}, infer=False)

    def close(self) -> None:
        """Let go of the folder."""
        self._memory.vector_store.client.close()
        self._memory.db.close()


class Table:
    """What mem0 calls an embedding model."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        """Return the vector of a text."""
        vector: list[float] = self._lookup.vector(text).tolist()
        return vector


def _payload(entry: Entry) -> dict[str, Any]:
    tag = entry.tags[0] if entry.tags else ""
    return {"data": entry.text, "user_id": entry.user, "project": entry.project, "tag": tag, "role": "user"}


def open_(folder: Path, lookup: Lookup) -> Mem0:
    """Return it on a folder."""
    os.environ["MEM0_DIR"] = str(folder)
    return Mem0(folder, lookup)
