"""Doubles of the services for tests: a clock that a test moves, and embedders with planned vectors."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np

from salience.batch import Vectors32


class StoppedClock:
    """A callable that returns the same aware UTC instant until it is moved."""

    def __init__(self, now: datetime = datetime(2026, 5, 1, 12, tzinfo=UTC)) -> None:
        self.now = now

    def __call__(self) -> datetime:
        """Return the current instant of the clock."""
        return self.now

    def advance(self, **elapsed: float) -> None:
        """Move on by `timedelta(**elapsed)`."""
        self.now += timedelta(**elapsed)


class PlantedEmbedder:
    """An embedder that gives each text the cosine to the query that a test plants.

    A text in `cosines` gets the vector (c, 0, ..., sqrt(1 - c^2), ..., 0): its cosine to any text that is not in
    `cosines` and starts with `query` is c. All planted texts have their own second axis, so two of them meet at the
    product of their cosines, unless they are given the same axis through `axes`. Any other text gets a random unit
    vector seeded by itself, orthogonal to the query.

    Args:
        cosines: text -> cosine to the query.
        query: what the query's text starts with.
        axes: text -> number of its second axis, 1 to `dimension - 1`; texts of the same axis and cosine coincide.
        dimension: length of the vectors.
    """

    name = "planted"

    def __init__(
        self,
        cosines: Mapping[str, float] | None = None,
        query: str = "query",
        axes: Mapping[str, int] | None = None,
        dimension: int = 64,
    ) -> None:
        self.cosines = dict(cosines or {})
        self.query = query
        self.axes = dict(axes or {})
        self.dimension = dimension
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str], /) -> Vectors32:
        """Return float32[len(texts), dimension] and remember the texts in `self.texts`."""
        self.texts += texts
        return np.stack([self._vector(text) for text in texts]) if texts else np.empty((0, self.dimension), np.float32)

    def _vector(self, text: str) -> Vectors32:
        vector = np.zeros(self.dimension)
        if text in self.cosines:
            cosine = self.cosines[text]
            axis = self.axes.get(text, 1 + list(self.cosines).index(text) % (self.dimension - 1))
            vector[0], vector[axis] = cosine, np.sqrt(1 - cosine**2)
        elif text.startswith(self.query):
            vector[0] = 1.0
        else:
            seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
            vector[1:] = np.random.default_rng(seed).normal(size=self.dimension - 1)
            vector /= np.linalg.norm(vector)
        return vector.astype(np.float32)


class HashedEmbedder:
    """An embedder whose vectors are random and seeded by its name, its secret and the text.

    Args:
        name: as a store is pinned to it.
        dimension: length of a vector.
        secret: makes it differ from another embedder of the same name.
    """

    def __init__(self, name: str, dimension: int, secret: str = "") -> None:
        self.name = name
        self.dimension = dimension
        self._secret = secret

    def embed(self, texts: Sequence[str], /) -> Vectors32:
        """Return float32[len(texts), dimension], rows of length 1."""
        made = [self._vector(text) for text in texts]
        return np.stack(made) if made else np.empty((0, self.dimension), np.float32)

    def _vector(self, text: str) -> Vectors32:
        digest = hashlib.sha256(f"{self.name}\0{self._secret}\0{text}".encode()).digest()
        vector = np.random.default_rng(int.from_bytes(digest[:8], "big")).normal(size=self.dimension)
        return (vector / np.linalg.norm(vector)).astype(np.float32)
