"""The embedder of the benchmark: a table, so that what a model costs is no part of what is measured."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from bench.made_up import DIMENSION
from salience.batch import Vectors32


class Lookup:
    """An embedder whose vectors are given; a text that it does not know has one that follows from its letters."""

    name = "lookup"
    dimension = DIMENSION

    def __init__(self) -> None:
        self._known: dict[str, Vectors32] = {}

    def learn(self, texts: Sequence[str], vectors: Vectors32) -> None:
        """Know the vectors, float32[len(texts), 384], of some texts."""
        self._known.update(zip(texts, vectors, strict=True))

    def forget(self) -> None:
        """Know no text any more."""
        self._known.clear()

    def vector(self, text: str) -> Vectors32:
        """Return float32[384] of a text."""
        known = self._known.get(text)
        return _of_letters(text) if known is None else known

    def embed(self, texts: Sequence[str], /) -> Vectors32:
        """Return float32[len(texts), 384], of length 1."""
        return np.stack([self.vector(text) for text in texts]) if texts else np.empty((0, DIMENSION), np.float32)


def _of_letters(text: str) -> Vectors32:
    seed = int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
    drawn = np.random.default_rng(seed).standard_normal(DIMENSION, np.float32)
    return np.asarray(drawn / np.linalg.norm(drawn), np.float32)
