"""Cache of query vectors: agents repeat their questions."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Any, Final

import numpy as np

from salience.batch import Embedding, Tokens, Vectors32
from salience.errors import EmbedderError
from salience.loading import Once
from salience.models.calibration import calibration_of, measured
from salience.ports import TOKEN_FLOOR, UNCALIBRATED, Calibration, Embedder, embeddings

PARALLEL: Final = 8
"""Parallel requests to a remote embedder."""


class Wrapped:
    """An embedder with every member of `FullEmbedder`, which takes from another one what that has."""

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
    def gives_zeros(self) -> bool:
        """Whether zeros are the vector of a text of which the model knows no word."""
        found: bool = getattr(self._embedder, "gives_zeros", False)
        return found

    @property
    def query_prefix(self) -> str:
        """Text that the engine puts before each query."""
        found: str = getattr(self._embedder, "query_prefix", "")
        return found

    @property
    def passage_prefix(self) -> str:
        """Text that the engine puts before each stored text."""
        found: str = getattr(self._embedder, "passage_prefix", "")
        return found

    @property
    def token_size(self) -> int:
        """Length of a token vector; 0 if the embedder gives none."""
        found: int = getattr(self._embedder, "token_size", 0)
        return found

    def embed_tokens(self, texts: Sequence[str], /) -> tuple[Vectors32, Sequence[Tokens]]:
        """Return the vectors and token vectors of the embedder, whose `token_size` is not 0."""
        inner: Any = self._embedder
        found: tuple[Vectors32, Sequence[Tokens]] = inner.embed_tokens(texts)
        return found

    @property
    def calibration(self) -> Calibration:
        """The embedder's calibration."""
        return calibration_of(self._embedder)

    def embed(self, texts: Sequence[str], /) -> Vectors32:
        """Return what the embedder returns."""
        return self._embedder.embed(texts)

    def embed_each(self, texts: Sequence[str], /) -> list[Embedding]:
        """Return the embedding of each text, as if the text was embedded alone."""
        return [embeddings(self, [text])[0] for text in texts]

    def forget(self) -> None:
        """Do nothing: no vector is kept."""


class WithTokens(Wrapped):
    """An embedder with the token vectors of minilm in place of its own, if it has any.

    Its name then ends in `+minilm`, since a store must not mix token vectors of two models.
    """

    def __init__(self, embedder: Embedder, minilm: Embedder) -> None:
        super().__init__(embedder)
        self._minilm = Wrapped(minilm)

    @property
    def name(self) -> str:
        """The embedder's name, with `+minilm` if it has token vectors of its own."""
        return f"{super().name}+minilm" if super().token_size else super().name

    @property
    def independent(self) -> bool:
        """Whether a text has the same vectors, bit for bit, in every batch."""
        return super().independent and self._minilm.independent

    @property
    def token_size(self) -> int:
        """Length of a token vector."""
        return self._minilm.token_size

    @property
    def calibration(self) -> Calibration:
        """The embedder's calibration, with the token floor of minilm."""
        known = super().calibration
        return known if known is UNCALIBRATED else replace(known, token_floor=TOKEN_FLOOR)

    def embed_tokens(self, texts: Sequence[str], /) -> tuple[Vectors32, Sequence[Tokens]]:
        """Return the embedder's vectors, and the token vectors of minilm, of the texts without a prefix."""
        prefixes = [prefix for prefix in (self.query_prefix, self.passage_prefix) if prefix]
        bare = [
            text.removeprefix(next((prefix for prefix in prefixes if text.startswith(prefix)), "")) for text in texts
        ]
        tokens = self._minilm.embed_tokens(bare)[1]  # first: an embedder on NumPy leaves threads that spin for a while
        return self._embedder.embed(texts), tokens


class Cached(Wrapped):
    """An embedder with a cache of the vectors of texts that were embedded alone. Thread-safe.

    Args:
        embedder: computes the vectors.
        size: most vectors in the cache, at least 0; the least recently used vector goes first.
        measures: whether to measure the calibration of an embedder that has none, after its first vectors.
    """

    def __init__(self, embedder: Embedder, size: int, measures: bool = False) -> None:
        super().__init__(embedder)
        self._bare = Wrapped(embedder)
        self._size = size
        self._measured = Once(partial(measured, self._bare)) if measures else None
        self._embeddings: OrderedDict[bytes, Embedding] = OrderedDict()  # by hash: it holds no text
        self._lock = threading.Lock()

    @property
    def calibration(self) -> Calibration:
        """The embedder's calibration; a measured one is known from the first vectors on."""
        known = calibration_of(self._embedder)
        if known is not UNCALIBRATED or self._measured is None:
            return known
        return self._measured.known or UNCALIBRATED

    def _measure(self) -> None:
        """Measure the calibration if it is unknown and `measures`; after a failure, the next call tries again."""
        if self._measured is not None and calibration_of(self._embedder) is UNCALIBRATED:
            with suppress(EmbedderError):
                self._measured()

    def embed_tokens(self, texts: Sequence[str], /) -> tuple[Vectors32, Sequence[Tokens]]:
        """Return the vectors and token vectors of the embedder, whose `token_size` is not 0."""
        found = super().embed_tokens(texts)
        self._measure()
        return found

    def embed(self, texts: Sequence[str], /) -> Vectors32:
        """Return float32[len(texts), dimension]; of a single text, a read-only unit vector.

        Raises:
            EmbedderError: the embedder failed, or did not return a vector.
        """
        if len(texts) == 1:
            return self.embed_each(texts)[0].vector[np.newaxis]
        found = self._embedder.embed(texts)
        self._measure()
        return found

    def embed_each(self, texts: Sequence[str], /) -> list[Embedding]:
        """Return the read-only embedding of each text, as if the text was embedded alone.

        No text is embedded twice. An `independent` embedder gets the missing texts in one batch, a remote one in
        parallel.

        Raises:
            EmbedderError: the embedder failed, or did not return a vector.
        """
        found: dict[str, Embedding] = {}
        with self._lock:
            for text in texts:
                key = _key(text)
                if key in self._embeddings:
                    self._embeddings.move_to_end(key)
                    found[text] = self._embeddings[key]
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        if len(missing) > 1 and self.independent:
            made = embeddings(self._bare, missing)
        elif len(missing) > 1 and self.remote:
            with ThreadPoolExecutor(min(PARALLEL, len(missing))) as pool:
                contexts = [copy_context() for _ in missing]  # request context, such as trace ids
                alone = pool.map(lambda each, text: each.run(embeddings, self._bare, [text]), contexts, missing)
                made = [one for (one,) in alone]
        else:
            made = [embeddings(self._bare, [text])[0] for text in missing]
        self._measure()
        for text, embedding in zip(missing, made, strict=True):
            for array in (embedding.vector, embedding.tokens):
                if array is not None:
                    array.setflags(write=False)
            found[text] = embedding
        with self._lock:
            for text in missing:
                self._embeddings[_key(text)] = found[text]
            while len(self._embeddings) > self._size:
                self._embeddings.popitem(last=False)
        return [found[text] for text in texts]

    def forget(self) -> None:
        """Empty the cache: a vector may belong to a text that was erased."""
        with self._lock:
            self._embeddings.clear()


def _key(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()
