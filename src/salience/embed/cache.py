"""A memory of query vectors: an agent asks the same thing again and again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import sha256

import numpy as np

from salience.batch import Vectors32, unit_vectors
from salience.embed.calibration import calibration_of
from salience.ports import Calibration, Embedder


class Wrapped:
    """What stands before an embedder and goes by its name, dimension and calibration."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    @property
    def name(self) -> str:
        """The embedder's name."""
        return self._embedder.name

    @property
    def dimension(self) -> int:
        """The embedder's dimension."""
        return self._embedder.dimension

    @property
    def remote(self) -> str | bool:
        """The host that the embedder asks, or whether it asks one at all; a write does not wait for it without end."""
        found: str | bool = getattr(self._embedder, "remote", False)
        return found

    @property
    def calibration(self) -> Calibration:
        """What the embedder's cosines mean."""
        return calibration_of(self._embedder)


class Cached(Wrapped):
    """An embedder that keeps the vectors of the texts that were last embedded alone. Threads may share it.

    Args:
        embedder: whose vectors they are.
        size: vectors kept, at least 0; the one that was not asked for longest goes first.
    """

    def __init__(self, embedder: Embedder, size: int) -> None:
        super().__init__(embedder)
        self._size = size
        self._kept: OrderedDict[bytes, Vectors32] = OrderedDict()  # by a hash, so that no text is held
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str], /) -> Vectors32:
        """Return float32[len(texts), dimension]; of a single text, an array that cannot be written to.

        Raises:
            EmbedderError: the embedder failed, or returned for a single text what is not a vector.
        """
        if len(texts) != 1:
            return self._embedder.embed(texts)
        key = sha256(texts[0].encode("utf-8", "surrogatepass")).digest()
        kept = self._recall(key)
        return self._keep(key, self._embedder.embed(texts)) if kept is None else kept

    def forget(self) -> None:
        """Let go of every vector: one may be that of a text which is to be nowhere any more."""
        with self._lock:
            self._kept.clear()

    def _recall(self, key: bytes) -> Vectors32 | None:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def _keep(self, key: bytes, embedded: Vectors32) -> Vectors32:
        unit_vectors(embedded, self.name, 1, self.dimension)  # nonsense must not outlive the call that made it
        vector = np.array(embedded, dtype=np.float32)
        vector.setflags(write=False)
        with self._lock:
            self._kept[key] = vector
            self._kept.move_to_end(key)
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)
        return vector
