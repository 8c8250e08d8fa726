"""Cache of query vectors: agents repeat their questions."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from hashlib import sha256
from typing import Final

import numpy as np

from salience.batch import Vectors32, unit_vectors
from salience.models.calibration import calibration_of
from salience.ports import Calibration, Embedder

PARALLEL: Final = 8
"""Parallel requests to a remote embedder."""


class Wrapped:
    """Base of an embedder that delegates to another one and has its name, dimension and calibration."""

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
        """The host of a remote embedder, or whether it is remote; writes limit how long they wait for one."""
        found: str | bool = getattr(self._embedder, "remote", False)
        return found

    @property
    def independent(self) -> bool:
        """Whether a text has the same vector, bit for bit, in every batch."""
        found: bool = getattr(self._embedder, "independent", False)
        return found

    @property
    def calibration(self) -> Calibration:
        """The embedder's calibration."""
        return calibration_of(self._embedder)


class Cached(Wrapped):
    """An embedder with a cache of the vectors of texts that were embedded alone. Thread-safe.

    Args:
        embedder: computes the vectors.
        size: most vectors in the cache, at least 0; the least recently used vector goes first.
    """

    def __init__(self, embedder: Embedder, size: int) -> None:
        super().__init__(embedder)
        self._size = size
        self._vectors: OrderedDict[bytes, tuple[Vectors32, Vectors32]] = OrderedDict()  # by hash: it holds no text
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str], /) -> Vectors32:
        """Return float32[len(texts), dimension]; of a single text, a read-only array.

        Raises:
            EmbedderError: the embedder failed, or did not return a vector.
        """
        return self._embedder.embed(texts) if len(texts) != 1 else self._alone(texts)[texts[0]][0]

    def embed_each(self, texts: Sequence[str], /) -> Vectors32:
        """Return unit vectors float32[len(texts), dimension], len(texts) > 0, each as if the text was embedded alone.

        No text is embedded twice. An `independent` embedder gets the missing texts in one batch, a remote one in
        parallel.

        Raises:
            EmbedderError: the embedder failed, or did not return a vector.
        """
        vectors = self._alone(texts)
        units = [vectors[text][1] for text in texts]
        return units[0] if len(units) == 1 else np.concatenate(units)

    def forget(self) -> None:
        """Empty the cache: a vector may belong to a text that was erased."""
        with self._lock:
            self._vectors.clear()

    def _alone(self, texts: Sequence[str]) -> dict[str, tuple[Vectors32, Vectors32]]:
        """Return, for each distinct text, the embedder's vector and its unit vector, both float32[1, dimension]."""
        found: dict[str, tuple[Vectors32, Vectors32]] = {}
        with self._lock:
            for text in texts:
                key = _key(text)
                if key in self._vectors:
                    self._vectors.move_to_end(key)
                    found[text] = self._vectors[key]
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        if len(missing) > 1 and self.independent:
            made = [row[np.newaxis] for row in self._embedder.embed(missing)]
        elif len(missing) > 1 and self.remote:
            with ThreadPoolExecutor(min(PARALLEL, len(missing))) as pool:
                contexts = [copy_context() for _ in missing]  # request context, such as trace ids
                made = list(pool.map(lambda each, text: each.run(self._embedder.embed, [text]), contexts, missing))
        else:
            made = [self._embedder.embed([text]) for text in missing]
        for text, vector in zip(missing, made, strict=True):
            unit = unit_vectors(vector, self.name, 1, self.dimension)  # an unusable vector must not enter the cache
            own = np.array(vector, dtype=np.float32)
            own.setflags(write=False)
            unit.setflags(write=False)
            found[text] = own, unit
        with self._lock:
            for text in missing:
                self._vectors[_key(text)] = found[text]
            while len(self._vectors) > self._size:
                self._vectors.popitem(last=False)
        return found


def _key(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()
