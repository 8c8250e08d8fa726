"""What is measured: stores of memories behind one thin protocol, chosen by name, each opened on a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal, Protocol, cast, get_args

from bench.recall.clocks import Watch
from bench.recall.corpus import Block, Entry, Question
from bench.recall.lookup import Lookup
from salience.batch import Vectors32

Mode = Literal["hybrid", "dense", "cut off"]
"""How it is searched: by vectors and words, by vectors alone, or by both with no more returned than fits the query."""
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
OURS: Final = "salience"
ALL: Final = "all"
NONE: Final = "none"


class Contender(Protocol):
    """A store that is open."""

    def load(self, blocks: Iterable[Block], watch: Watch) -> None:
        """Store the memories of all blocks and make what indexes there are; what others prepare is out of `watch`."""
        ...

    def recall(self, question: Question, mode: Mode) -> Sequence[int]:
        """Return the rows of the ten best memories in the question's view, best first; others that are there as -1."""
        ...

    def write(self, entry: Entry, vector: Vectors32, how: str) -> None:
        """Store one memory; once this returns, it is as durable as the store makes it."""
        ...

    def close(self) -> None:
        """Release files and threads."""
        ...


@dataclass(frozen=True, slots=True)
class Kind:
    """A contender that can be chosen.

    Attributes:
        module: has `open_(folder, lookup) -> Contender`, and imports what it needs.
        needs: module that has to be installed; None for none.
        package: whose version is told; None for a part of Salience.
        told: how it searches and what a write survives, in a line.
        modes: how it can be searched.
        writes: ways in which it stores a memory.
        threads: whether threads may share it.
        largest: most memories that it is measured with, where more of them take too long to load.
    """

    module: str
    needs: str | None
    package: str | None
    told: str
    modes: tuple[Mode, ...] = ("dense",)
    writes: tuple[str, ...] = ("insert",)
    threads: bool = False
    largest: int = 1_000_000

    def hindrance(self, size: int) -> str | None:
        """Return why it cannot be measured with a number of memories; None where it can."""
        if not there(self.needs):
            return f"pip install {self.package}"
        if size > self.largest:
            return f"{size:,} memories take too long to load"
        try:
            with TemporaryDirectory() as folder:
                self.open(Path(folder), Lookup()).close()
        except Exception as error:  # whatever a library of others raises, the rest is to be measured
            return f"it cannot be opened ({type(error).__name__}: {error})"
        return None

    @property
    def version(self) -> str:
        """The version of its package; that of Salience for its own parts."""
        return metadata.version(self.package or OURS)

    def imported(self) -> Callable[[Path, Lookup], Contender]:
        """Return what opens it; its module is imported for that."""
        return cast(Callable[[Path, Lookup], Contender], import_module(self.module).open_)

    def open(self, folder: Path, lookup: Lookup) -> Contender:
        """Return it opened on a folder, which is made where it is not there."""
        folder.mkdir(parents=True, exist_ok=True)
        return self.imported()(folder, lookup)


HOME: Final = "bench.recall"
OWN: Final[Mapping[str, Kind]] = {
    OURS: Kind(
        f"{HOME}.ours",
        None,
        None,
        "Exact under the profile's whole score. Hybrid is the profile `salience` with the ten best returned whatever "
        "they score, dense one of similarity alone. A write is on the disk before it returns.",
        modes=("hybrid", "dense", "cut off"),
        writes=("remember", "turn"),
        threads=True,
    ),
    "floor int8": Kind(
        f"{HOME}.floor",
        None,
        None,
        "A bare scan of whole numbers of 8 bits, and the ten largest; approximate. Views are copied out beforehand. "
        "Keeps nothing.",
        writes=(),
        threads=True,
    ),
    "floor float32": Kind(
        f"{HOME}.floor_float32",
        None,
        None,
        "A bare scan of float32 by NumPy in one thread, and the ten largest; exact. Views are copied out beforehand. "
        "Keeps nothing.",
        writes=(),
        threads=True,
    ),
}
"""What is always measured."""
PEERS: Final[Mapping[str, Kind]] = {
    "sqlite-vec": Kind(
        f"{HOME}.peers.sqlite_vec",
        "sqlite_vec",
        "sqlite-vec",
        "Exact: a scan, parted by user. Hybrid adds FTS5 over any of the words, fused by reciprocal ranks. "
        "A write is on the disk before it returns (WAL, synchronous FULL).",
        modes=("hybrid", "dense"),
    ),
    "chroma": Kind(
        f"{HOME}.peers.chroma",
        "chromadb",
        "chromadb",
        "Approximate: HNSW as it comes. A write is on the disk before it returns, in SQLite; the index follows.",
        threads=True,
        largest=100_000,
    ),
    "lancedb": Kind(
        f"{HOME}.peers.lance",
        "lancedb",
        "lancedb",
        "Exact: a scan without a vector index, with an index of users and of tags. Hybrid adds its index of words, "
        "fused by reciprocal ranks. A write is a file, which is not forced to the disk.",
        modes=("hybrid", "dense"),
        threads=True,
    ),
    "qdrant": Kind(
        f"{HOME}.peers.qdrant",
        "qdrant_client",
        "qdrant-client",
        "Exact: its local mode, a scan by NumPy. A write is on the disk before it returns, in SQLite; it is loaded "
        "without waiting for that, since it commits memory by memory.",
        largest=100_000,
    ),
    "langgraph": Kind(
        f"{HOME}.peers.langgraph",
        "langgraph.store.sqlite",
        "langgraph-checkpoint-sqlite",
        "Exact: `SqliteStore`, a scan by SQL. A write is on the disk before it returns.",
        largest=100_000,
    ),
    "mem0": Kind(
        f"{HOME}.peers.mem0_memory",
        "mem0",
        "mem0ai",
        "Exact: `infer=False` on Qdrant's local mode. It is loaded past its verb `add`, which stores one at a time. "
        "A write is on the disk before it returns, in SQLite.",
        largest=100_000,
    ),
}
"""Other stores, where they are installed."""
KINDS: Final[Mapping[str, Kind]] = {**OWN, **PEERS}


def there(module: str | None) -> bool:
    """Return whether a module is installed; it is not imported for that, but what is above it is."""
    try:
        return module is None or find_spec(module) is not None
    except ModuleNotFoundError:
        return False
