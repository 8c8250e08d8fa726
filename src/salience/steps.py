"""Steps that several stories share: embed texts, get one memory, read page by page, retry a stale write."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Final, TypeVar

import numpy as np

from salience.batch import Embedding, Floats, Vectors32
from salience.deadline import slots, within
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
from salience.ports import Embedder, FullEmbedder, Reranker, Selection, Services, Stored, embeddings
from salience.records import Filter, Memory, OutOfScope, Scope, checks

RETRIES: Final = 20
"""Attempts at a change that other writers overtake."""
PAUSE: Final = 0.002
"""Seconds by which the longest pause between two attempts grows."""
TEXTS_PER_TIMEOUT: Final = 128
"""Texts per `Services.embed_patience`; a larger batch gets more time."""
PAGE: Final = 2_000
"""Memories per page."""
_late_writes: Final = slots()
Result = TypeVar("Result")


def embed(services: Services, texts: Sequence[str]) -> list[Embedding]:
    """Return the embedding of each stored text.

    Raises:
        EmbedderError: the embedder failed, or returned something other than one vector per text. The message leaves out
            the embedder's own error text, which may quote a memory.
    """
    passages = [services.embedder.passage_prefix + text for text in texts]
    return _embed_each(services, passages) if len(passages) == 1 else embed_with(services.embedder, passages)


def embed_queries(services: Services, texts: Sequence[str]) -> list[Embedding]:
    """Return the embedding of each query, the same as if it were embedded alone.

    Some models give a text slightly different bits beside other texts.

    Raises:
        EmbedderError: as `embed`.
    """
    return _embed_each(services, [services.embedder.query_prefix + text for text in texts])


def _embed_each(services: Services, texts: Sequence[str]) -> list[Embedding]:
    try:
        return services.embedder.embed_each(texts)
    except Exception as error:
        raise _embedder_error(services.embedder, error) from None


def embed_with(embedder: FullEmbedder, texts: Sequence[str]) -> list[Embedding]:
    """Return the embedding of each text; raises as `embed`."""
    if not texts:
        return []
    try:
        return embeddings(embedder, list(texts))
    except Exception as error:
        raise _embedder_error(embedder, error) from None


def matrix(embedded: Sequence[Embedding]) -> Vectors32:
    """Return float32[n, d], the vectors of n > 0 embeddings."""
    return np.stack([each.vector for each in embedded])


def _embedder_error(embedder: Embedder, error: Exception) -> EmbedderError:
    if isinstance(error, EmbedderError):
        return error
    return EmbedderError(f"embedder {embedder.name!r} failed with {type(error).__name__}. Check it and try again.")


def try_embed(services: Services, texts: Sequence[str]) -> tuple[list[Embedding] | None, str | None]:
    """Return (the embedding of each text, None), or (None, reason) if the embedder fails or times out.

    Raises:
        MissingExtraError: the embedder's library is not installed.
    """
    seconds = embed_timeout(services, len(texts))
    try:
        if seconds is None:
            return embed(services, texts), None
        return within(seconds, lambda: embed(services, texts), _late_writes), None
    except MissingExtraError:
        raise
    except EmbedderError as error:
        return None, str(error)
    except TimeoutError:
        host = services.embedder.remote
        where = f": {host}" if isinstance(host, str) else ""
        remedy = "Check the network and the provider's status, or raise SALIENCE_EMBED_PATIENCE."
        return None, f"embedder {services.embedder.name!r}{where} did not answer within {seconds:g} s. {remedy}"


def embed_timeout(services: Services, texts: int = 1) -> float | None:
    """Return the seconds to wait for a remote embedder to embed `texts` texts; None: no limit, as for a local one."""
    if services.embed_patience is None or not services.embedder.remote:
        return None
    return services.embed_patience * (1 + texts // TEXTS_PER_TIMEOUT)


def rerank_scores(reranker: Reranker, query: str, texts: Sequence[str]) -> Floats:
    """Return float64[len(texts)], the reranker's finite scores.

    Raises:
        RerankerError: the reranker failed, or returned something other than one finite number per text. The message
            leaves out the reranker's own error text, which may quote a memory.
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


def memory_size(memory: Memory) -> int:
    """Return the bytes of a memory's content, metadata, tags and entities."""
    texts = (memory.content, *memory.tags, *memory.entities)
    return sum(len(text.encode()) for text in texts) + checks.json_size(memory.metadata)


class AnswerLimit:
    """Checks the size of an answer against `Services.answer_limit` while its memories are read.

    Args:
        services: has the limit; None allows any size.
        remedy: advice for the error message.
        each: bytes to count per memory besides its `memory_size`.
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
        if self._limit is not None:
            for memory in memories:
                self.add_size(self._each + memory_size(memory))

    def add_size(self, size: int) -> None:
        """Count bytes; raises as `add`."""
        self._size += size
        if self._limit is not None and self._size > self._limit:
            raise LimitError(f"answer: larger than the {self._limit:,} bytes of one answer. {self._remedy}")


def get_memory(services: Services, scope: Scope, id: str, now: datetime) -> Memory:
    """Return the memory of an id (whole or short) that is visible in `scope` and live at `now`.

    Raises:
        NotFoundError: there is no such memory.
    """
    found = services.store.fetch(scope, [checks.name("id", id)])
    if not found or not found[0].is_live(now):
        raise NotFoundError(id)
    return found[0]


def out_of_scope(services: Services, selection: Selection) -> tuple[OutOfScope, ...]:
    """Return the places with selected memories that the caller would see by naming their project, user or agent too.

    Coordinates that the caller names stay as they are: a call for one user learns nothing of another user. Empty if the
    store fails.
    """
    if selection.scope.widened() == selection.scope:
        return ()
    try:
        return tuple(services.store.out_of_scope(selection))
    except StoreError:
        return ()


def emptied_by(services: Services, selection: Selection, otherwise: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the arguments whose conditions leave out every memory that the scope shows, as in `Recall.emptied_by`.

    Return `otherwise` if a memory passes all conditions; nothing if the scope shows none, or if the store fails.
    """

    def passes(names: Sequence[str]) -> bool:
        return bool(services.store.browse(selection.without(names), "id", 1))

    given = selection.given
    try:
        if passes(()):
            return otherwise
        if not given or not passes(given):
            return ()
        return tuple(name for name in given if passes([name])) or given
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
    """Yield every visible memory that passes `filter`, in the order of ids, reading page by page.

    Rows that cannot be read raise `DamagedError`; with `passed` they are skipped and appended to it.
    """
    for page in scan_pages(services, scope, filter, forgotten=forgotten, versions=versions, passed=passed):
        yield from page


def scan_pages(
    services: Services,
    scope: Scope,
    filter: Filter = Filter(),
    *,
    forgotten: bool = False,
    versions: bool = False,
    passed: list[DamagedError] | None = None,
    size: int = PAGE,
) -> Iterator[list[Stored]]:
    """Yield the memories of `scan` in pages of at most `size`; each page is one consistent read."""
    after = ""
    while page := read_page(
        services, scope, after, size, filter, forgotten=forgotten, versions=versions, passed=passed
    ):
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
    newest_first: bool = False,
    passed: list[DamagedError] | None = None,
) -> list[Stored]:
    """Return one page of `Store.scan`; with `passed`, rows that cannot be read are skipped and appended to it."""
    read = partial(services.store.scan, forgotten=forgotten, versions=versions, newest_first=newest_first)
    try:
        return read(scope, after, limit, filter)
    except DamagedError:
        if passed is None:
            raise
        return read(scope, after, limit, filter, passed=passed)


def retry_stale(attempt: Callable[[], Result]) -> Result:
    """Return the result of `attempt`, repeating it after each `StaleError`, at most `RETRIES` times in all."""
    for number in range(1, RETRIES):
        try:
            return attempt()
        except StaleError:
            time.sleep(random.uniform(0, number * PAUSE))  # noqa: S311 - a random pause separates two writers
    return attempt()
