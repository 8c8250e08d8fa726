"""What follows from the few verbs of the ports: checked vectors, one memory by id, every memory, another try."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, TypeVar

import numpy as np

from salience.batch import Floats, Vectors32, unit_vectors
from salience.deadline import OutOfTime, places, within
from salience.errors import (
    DamagedError,
    EmbedderError,
    LimitError,
    MissingExtraError,
    NotFoundError,
    RerankerError,
    StaleError,
    StoreError,
)
from salience.ports import Embedder, Reranker, Services, Stored
from salience.records import Filter, Memory, OutOfScope, Scope, checks

TRIES: Final = 20
"""How often a change is made anew because another writer was quicker."""
PAUSE: Final = 0.002
"""Seconds that the pause before another try may be longer each time."""
PATIENT_TEXTS: Final = 128
"""Texts for which a write waits once as long as it is willing to."""
_waiting: Final = places()
PAGE: Final = 500
"""Memories read at a time."""
Made = TypeVar("Made")


def embed(services: Services, texts: Sequence[str]) -> Vectors32:
    """Return unit vectors float32[len(texts), d].

    Raises:
        EmbedderError: the embedder failed in whatever way, or returned something else than a vector a text. What its
            own error says is left out, since it may quote a text.
    """
    return embed_each(services, texts) if len(texts) == 1 else vectors_of(services.embedder, texts)


def embed_each(services: Services, texts: Sequence[str]) -> Vectors32:
    """Return unit vectors float32[len(texts), d], n > 0: of each text the one that it has alone, as a query has.

    Raises:
        EmbedderError: as `embed` does, of any of them.
    """
    each: Callable[[Sequence[str]], Vectors32] | None = getattr(services.embedder, "embed_each", None)
    if each is None:
        return np.concatenate([vectors_of(services.embedder, [text]) for text in texts])
    with _failing(services.embedder):
        return each(texts)


def embedded_or_not(services: Services, texts: Sequence[str]) -> tuple[Vectors32 | None, str | None]:
    """Return unit vectors float32[len(texts), d], or None and why there are none.

    A remote embedder is waited for as long as `Services.embed_patience` says, for each `PATIENT_TEXTS` of the texts.

    Raises:
        MissingExtraError: the embedder's library is not installed, which no waiting mends.
    """
    seconds = patience(services, len(texts))
    try:
        if seconds is None:
            return embed(services, texts), None
        return within(seconds, lambda: embed(services, texts), _waiting), None
    except MissingExtraError:
        raise
    except EmbedderError as error:
        return None, str(error)
    except OutOfTime:
        host = getattr(services.embedder, "remote", False)
        where = f": {host}" if isinstance(host, str) else ""
        remedy = "Check the network and the provider's status, or raise SALIENCE_EMBED_PATIENCE."
        return None, f"embedder {services.embedder.name!r}{where} did not answer within {seconds:g} s. {remedy}"


def patience(services: Services, texts: int = 1) -> float | None:
    """Return the seconds that a number of texts is waited for; None: as long as it takes, as with a local embedder."""
    if services.embed_patience is None or not getattr(services.embedder, "remote", False):
        return None
    return services.embed_patience * (1 + texts // PATIENT_TEXTS)


def vectors_of(embedder: Embedder, texts: Sequence[str]) -> Vectors32:
    """Return unit vectors float32[len(texts), d], or raise as `embed` does."""
    if not texts:
        return np.empty((0, embedder.dimension), np.float32)
    with _failing(embedder):
        return unit_vectors(embedder.embed(list(texts)), embedder.name, len(texts), embedder.dimension)


@contextmanager
def _failing(embedder: Embedder) -> Iterator[None]:
    """Turn whatever an embedder fails with into an `EmbedderError`."""
    try:
        yield
    except EmbedderError:
        raise
    except Exception as error:
        what = type(error).__name__
        raise EmbedderError(f"embedder {embedder.name!r} failed with {what}. Check it and try again.") from None


def rerank_scores(reranker: Reranker, query: str, texts: Sequence[str]) -> Floats:
    """Return float64[len(texts)], finite, as the reranker gives them.

    Raises:
        RerankerError: it failed in whatever way, or returned something else than a number a text. What its own error
            says is left out, since it may quote a text.
    """
    try:
        scores = np.asarray(reranker.scores(query, list(texts)), np.float64)
        if scores.shape != (len(texts),) or not np.isfinite(scores).all():
            raise ValueError
    except RerankerError:
        raise
    except Exception as error:
        what = type(error).__name__
        raise RerankerError(
            f"the reranker gave no finite number for each text ({what}). Check it and its model."
        ) from None
    return scores


def size(memory: Memory) -> int:
    """Return the bytes of what callers store in a memory: content, metadata, tags and entities."""
    held = (memory.content, *memory.tags, *memory.entities)
    return sum(len(text.encode()) for text in held) + checks.json_size(memory.metadata)


class AnswerSize:
    """The size of an answer, checked against `Services.answer_limit` while its memories are read.

    It counts what callers store: contents, metadata, tags and entities, and a fixed size for the rest of a memory.

    Args:
        services: has the limit; None: any size is right.
        remedy: what to do about an answer that is too large.
        each: bytes that a memory takes besides.
    """

    def __init__(self, services: Services, remedy: str, each: int = 800) -> None:
        self._limit = services.answer_limit
        self._remedy = remedy
        self._each = each
        self._size = 0

    def add(self, memories: Iterable[Memory]) -> None:
        """Count memories.

        Raises:
            LimitError: the answer is larger than the limit.
        """
        if self._limit is None:
            return
        for memory in memories:
            self._size += self._each + size(memory)
            if self._size > self._limit:
                raise LimitError(f"answer: larger than the {self._limit:,} bytes of one answer. {self._remedy}")


def one(services: Services, scope: Scope, id: str, field: str = "id") -> Memory:
    """Return the live memory of an id (whole or short) that is visible in `scope`.

    Raises:
        NotFoundError: there is none, or it is not visible; it names the `field` in which the id was given.
    """
    found = services.store.fetch(scope, [checks.name(field, id)])
    if not found:
        raise NotFoundError(id, field)
    return found[0]


def out_of_scope(services: Services, scope: Scope) -> tuple[OutOfScope, ...]:
    """Return where memories are that a read in `scope`, which found none, leaves out for a coordinate not named.

    What a call names stays as it is, so that one for a user tells of no other user. A store that fails here tells of
    nothing: the answer itself stands.
    """
    count = getattr(services.store, "out_of_scope", None)  # which stores of others may not have yet
    if count is None or scope.widened() == scope:
        return ()
    try:
        return tuple(count(scope))
    except StoreError:
        return ()


def scan(
    services: Services,
    scope: Scope,
    filter: Filter = Filter(),
    *,
    forgotten: bool = False,
    versions: bool = False,
    passed: list[DamagedError] | None = None,
) -> Iterator[Stored]:
    """Yield every visible memory that passes `filter`, in the order of ids, a page at a time.

    Rows that cannot be read are left out and noted in `passed`, where it is given.
    """
    for page in pages(services, scope, filter, forgotten=forgotten, versions=versions, passed=passed):
        yield from page


def pages(
    services: Services,
    scope: Scope,
    filter: Filter = Filter(),
    *,
    forgotten: bool = False,
    versions: bool = False,
    passed: list[DamagedError] | None = None,
) -> Iterator[list[Stored]]:
    """Yield what `scan` does, page by page; each is as it stands at one instant."""
    read = partial(read_page, services, scope, filter=filter, forgotten=forgotten, versions=versions, passed=passed)
    after = ""
    while page := read(after, PAGE):
        yield page
        after = page[-1].memory.id


def read_page(
    services: Services,
    scope: Scope,
    after: str,
    limit: int,
    filter: Filter = Filter(),
    *,
    forgotten: bool = False,
    versions: bool = False,
    passed: list[DamagedError] | None = None,
) -> list[Stored]:
    """Return a page as `Store.scan` does, without rows that cannot be read where `passed` is to have them."""
    asked = partial(services.store.scan, scope, after, limit, filter, forgotten=forgotten, versions=versions)
    try:
        return asked()
    except DamagedError:
        if passed is None:
            raise
        return asked(passed=passed)


def until_fresh(attempt: Callable[[], Made]) -> Made:
    """Return what `attempt` returns, trying again when another writer changed what it had read."""
    for tried in range(1, TRIES):
        try:
            return attempt()
        except StaleError:
            time.sleep(random.uniform(0, tried * PAUSE))  # noqa: S311 - so that two writers do not meet again
    return attempt()
