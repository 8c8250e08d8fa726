"""What comes first on the everyday worlds, beside other stores with the same vectors: prints tables in Markdown.

    python -m bench.everyday --half report --peers all

Each store gets the memories of a world one by one, and returns five for each question. All use the vectors of the
default embedder, through their own hook for an embedding model.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol

import numpy as np

from bench.page import say, table
from bench.peers import PEERS, seal
from salience.batch import Vectors32
from salience.evaluate import everyday
from salience.evaluate.datasets import Conversation
from salience.evaluate.datasets.everyday import HALVES, worlds
from salience.evaluate.everyday import LIMIT, Asked, Row
from salience.evaluate.run import contender
from salience.models.minilm import MiniLM

OURS: Final = "salience"
USER: Final = "user"


class Store(Protocol):
    """The memories of one world."""

    def add(self, ref: str, text: str) -> None:
        """Store a memory."""

    def search(self, text: str) -> list[str]:
        """Return the refs of the best memories for a question, best first."""


@cache
def model() -> MiniLM:
    """Return the default embedder."""
    return MiniLM()


@cache
def vector(text: str) -> Vectors32:
    """Return the vector of a text by the default embedder."""
    made: Vectors32 = model().embed([text])[0]
    return made


class Cosine:
    """The nearest vectors."""

    def __init__(self, folder: Path) -> None:
        self.refs: list[str] = []
        self.vectors: list[Vectors32] = []

    def add(self, ref: str, text: str) -> None:
        self.refs.append(ref)
        self.vectors.append(vector(text))

    def search(self, text: str) -> list[str]:
        cosines = np.stack(self.vectors) @ vector(text)
        return [self.refs[row] for row in np.argsort(-cosines, kind="stable")[:LIMIT]]


class Chroma:
    """A collection with an embedding function."""

    def __init__(self, folder: Path) -> None:
        import chromadb
        from chromadb.config import Settings

        class Hook(chromadb.EmbeddingFunction):  # type: ignore[misc]
            def __init__(self) -> None: ...
            def __call__(self, input: Sequence[str]) -> Any:
                return [vector(text) for text in input]

        client = chromadb.PersistentClient(str(folder), Settings(anonymized_telemetry=False))
        space = {"hnsw": {"space": "cosine"}}
        self.memories = client.create_collection("memories", configuration=space, embedding_function=Hook())

    def add(self, ref: str, text: str) -> None:
        self.memories.add(ids=[ref], documents=[text])

    def search(self, text: str) -> list[str]:
        found: list[str] = self.memories.query(query_texts=[text], n_results=LIMIT)["ids"][0]
        return found


class LangGraph:
    """`InMemoryStore`, LangGraph's long-term memory, with an index of the text."""

    def __init__(self, folder: Path) -> None:
        from langgraph.store.memory import InMemoryStore

        def embed(texts: Sequence[str]) -> list[list[float]]:
            return [vector(text).tolist() for text in texts]

        self.store = InMemoryStore(index={"dims": model().dimension, "embed": embed, "fields": ["text"]})

    def add(self, ref: str, text: str) -> None:
        self.store.put(("memories", USER), ref, {"text": text})

    def search(self, text: str) -> list[str]:
        return [item.key for item in self.store.search(("memories", USER), query=text, limit=LIMIT)]


class Mem0:
    """mem0 with `infer=False`: no language model, and without the extras for BM25 and entities."""

    def __init__(self, folder: Path) -> None:
        self.memory = PEERS["mem0"].make(folder).memory
        self.memory.embedding_model = self

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        """Return the vector of a text, as mem0 asks an embedding model for it."""
        made: list[float] = vector(text).tolist()
        return made

    def embed_batch(self, texts: Sequence[str], memory_action: str | None = None) -> list[list[float]]:
        """Return the vectors of texts."""
        return [self.embed(text) for text in texts]

    def add(self, ref: str, text: str) -> None:
        self.memory.add(text, user_id=USER, metadata={"ref": ref}, infer=False)

    def search(self, text: str) -> list[str]:
        found = self.memory.search(text, top_k=LIMIT, filters={"user_id": USER})
        return [hit["metadata"]["ref"] for hit in found["results"]]


STORES: Final[dict[str, Callable[[Path], Store]]] = {
    "cosine": Cosine,
    "chroma": Chroma,
    "langgraph": LangGraph,
    "mem0": Mem0,
}


def asked(name: str, held: Sequence[Conversation]) -> Iterator[Asked]:
    """Yield every question with what another store returned."""
    for world in held:
        with TemporaryDirectory(prefix="bench-everyday-", ignore_cleanup_errors=True) as folder:
            store = STORES[name](Path(folder))
            for memory in world.beliefs:
                store.add(memory.ref, memory.draft.content)
            for question in world.questions:
                refs = tuple(store.search(question.question))
                yield Asked(name, "minilm", world.name, question, refs, confident=True)


TOTALS: Final = ("first", "any_of_five", "all_of_five", "outdated_first")
"""Figures of all questions together."""


def share(value: float | None) -> str:
    """Return a share with three digits; nothing for None."""
    return "" if value is None else f"{value:.3f}"


def page(rows: Sequence[Row]) -> str:
    """Return the totals, and the share of right first hits by kind of question; stores with equal figures in a row."""
    names = list(dict.fromkeys(row.profile for row in rows))
    of = {(row.profile, row.polyglot, row.by, row.name): row.figures for row in rows}
    kinds = [
        row.name for row in rows if row.profile == OURS and not row.polyglot and row.by == "kind" and row.figures.n
    ]
    totals = {
        name: [share(getattr(of[name, polyglot, "total", ""], one)) for polyglot in (False, True) for one in TOTALS]
        for name in names
    }
    by_kind = {name: [share(of[name, False, "kind", kind].first) for kind in kinds] for name in names}
    english, polyglot = of[OURS, False, "total", ""].n, of[OURS, True, "total", ""].n
    heads = [one.replace("_", " ") for one in TOTALS]
    return "\n\n".join(
        [
            f"{english} answerable questions in English, and {polyglot} in several languages (the last four columns):",
            table(["store", *heads, *heads], merged(totals)),
            "Share of right first hits, by kind of question in English:",
            table(["store", *kinds], merged(by_kind)),
        ]
    )


def merged(rows: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return a row for each different list of cells, which starts with the names that have it."""
    names: dict[tuple[str, ...], list[str]] = {}
    for name, cells in rows.items():
        names.setdefault(tuple(cells), []).append(name)
    return [[", ".join(held), *cells] for cells, held in names.items()]


def main() -> None:
    """Print the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--half", choices=HALVES, default="report")
    parser.add_argument("--peers", default="all", help=f"all, or some of: {', '.join(STORES)}")
    options = parser.parse_args()
    peers = list(STORES) if options.peers == "all" else options.peers.split(",")
    seal()
    held = worlds(options.half)
    found = everyday.ask(held, {OURS: contender(OURS)}, "minilm", None)
    for name in peers:
        say(name)
        found += asked(name, held)
    print(page(everyday.rows(found)))


if __name__ == "__main__":
    main()
