"""A memory of query vectors: an agent asks the same thing again and again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

import numpy as np

from salience.batch import Vectors32, unit_vectors
from salience.models.embed.calibration import calibration_of
from salience.ports import Calibration, Embedder

AT_ONCE: Final = 8
"""Texts for which a remote embedder is asked at the same time."""


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
    def independent(self) -> bool:
        """Whether a text has the same vector, bit for bit, whatever texts stand beside it."""
        found: bool = getattr(self._embedder, "independent", False)
        return found

    @property
    def calibration(self) -> Calibration:
        """What the embedder's cosines mean."""
        return calibration_of(self._embedder)


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    """What an embedder gave for a text, float32[1, dimension], and the same of length 1; neither can be written to."""

    given: Vectors32
    unit: Vectors32


class Cached(Wrapped):
    """An embedder that keeps the vectors of the texts that were last embedded alone. Threads may share it.

    Args:
        embedder: whose vectors they are.
        size: vectors kept, at least 0; the one that was not asked for longest goes first.
    """

    def __init__(self, embedder: Embedder, size: int) -> None:
        super().__init__(embedder)
        self._size = size
        self._kept: OrderedDict[bytes, _Kept] = OrderedDict()  # by a hash, so that no text is held
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str], /) -> Vectors32:
        """Return float32[len(texts), dimension]; of a single text, an array that cannot be written to.

        Raises:
            EmbedderError: the embedder failed, or returned for a single text what is not a vector.
        """
        if len(texts) != 1:
            return self._embedder.embed(texts)
        return self._of(texts[0]).given

    def embed_each(self, texts: Sequence[str], /) -> Vectors32:
        """Return unit vectors float32[len(texts), dimension], n > 0: of each text the one that it has alone.

        All are kept, and none is embedded twice. Where neighbours change nothing, they are embedded together; a remote
        embedder is asked for several at the same time.

        Raises:
            EmbedderError: as `embed`, of any of them.
        """
        if len(texts) == 1:
            return self._of(texts[0]).unit
        known = {text: kept for text in texts if (kept := self._recall(_key(text))) is not None}
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        for text, vector in zip(missing, self._alone(missing), strict=True):
            known[text] = self._keep(_key(text), vector)
        return np.concatenate([known[text].unit for text in texts])

    def forget(self) -> None:
        """Let go of every vector: one may be that of a text which is to be nowhere any more."""
        with self._lock:
            self._kept.clear()

    def _of(self, text: str) -> _Kept:
        key = _key(text)
        return self._recall(key) or self._keep(key, self._one(text))

    def _alone(self, texts: Sequence[str]) -> Iterator[Vectors32]:
        """Yield float32[1, dimension] for each text, which is the vector that it has alone."""
        if len(texts) > 1 and self.independent:
            yield from (row[np.newaxis] for row in self._embedder.embed(texts))
        elif len(texts) > 1 and self.remote:
            with ThreadPoolExecutor(min(AT_ONCE, len(texts))) as pool:
                contexts = [copy_context() for _ in texts]  # what is noted of the caller's request holds for each
                yield from pool.map(lambda context, text: context.run(self._one, text), contexts, texts)
        else:
            yield from map(self._one, texts)

    def _one(self, text: str) -> Vectors32:
        return self._embedder.embed([text])

    def _recall(self, key: bytes) -> _Kept | None:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def _keep(self, key: bytes, embedded: Vectors32) -> _Kept:
        unit = unit_vectors(embedded, self.name, 1, self.dimension)  # nonsense must not outlive the call that made it
        made = _Kept(np.array(embedded, dtype=np.float32), unit)
        made.given.setflags(write=False)
        made.unit.setflags(write=False)
        with self._lock:
            self._kept[key] = made
            self._kept.move_to_end(key)
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)
        return made


def _key(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()
