"""Memories that were stored while the embedder failed, and get their vectors later."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np

from salience.batch import Vectors32
from salience.errors import EmbedderError, PinnedError, SalienceError
from salience.ports import FINGERPRINTED, Derive, Embedder, Model, Near, Need, Services, Store, Stored
from salience.records import Memory, Scope
from salience.steps import embed, try_embed

PAGE: Final = 128
"""Versions that get their vectors in one transaction."""
FEW: Final = 16
"""Most versions that a write gives their vectors besides its own."""
REST: Final = 60.0
"""Seconds for which writes leave the pending ones alone after they could not embed them."""
NAMED: Final = 5
"""Most memories that a warning names."""
Key = tuple[str, str, int]
FIRST: Final[Key] = ("", "", 0)
_resting: Final[WeakKeyDictionary[Embedder, float]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Embedded:
    """What became of the pending ones.

    Attributes:
        embedded: versions that got their vector.
        pending: those that still have none.
        warning: why they have none; else None.
        answers: whether the embedder answers at all; False: it may be asked again soon.
    """

    embedded: int
    pending: int
    warning: str | None = None
    answers: bool = True


def embed_pending(services: Services, *, dry_run: bool = False, before: Callable[[], None] = lambda: None) -> Embedded:
    """Give the versions without a vector theirs, in the order of their keys, and return what became of them.

    Each page is one transaction. It ends where the embedder fails, and what was done stands. A text that the embedder
    refuses while it answers to others is passed over, so that it keeps back none behind it.

    Args:
        services: the ports.
        dry_run: write nothing and ask no embedder; it is taken to answer.
        before: called before each call of the embedder; what it raises ends all.

    Raises:
        StoreError: the store failed; what was done before stands.
    """
    waiting = pending_of(services)
    if dry_run:
        return Embedded(_count(waiting), 0)
    done, refused, after = 0, list[Memory](), FIRST
    try:
        for page in _pages(waiting):
            if after == FIRST:
                admitted(services)
            vectors, why = _vectors(services, page, before)
            done += _put(services, waiting, page, after, vectors)
            if why is not None:
                raise why
            refused += [item.memory for item in page if item.memory.content not in vectors]
            after = _key(page[-1])
    except PinnedError as error:  # vectors of this model are of no use to the store
        return Embedded(done, _count(waiting), str(error))
    except EmbedderError as error:
        return Embedded(done, _count(waiting), str(error), answers=False)
    return Embedded(done, len(refused), _refusal(refused) if refused else None)


def catch_up(services: Services) -> None:
    """Give a few pending memories their vectors, now that the embedder answers; a failure is left for upkeep.

    Never raises, and waits no longer than a write does. After a failure, the next ones are left to upkeep for a while.
    """
    if time.monotonic() < _resting.get(services.embedder, 0.0):
        return
    try:
        page = services.store.unembedded(
            FIRST, FEW, tenant=services.tenant
        )  # by its own handle, whose vectors the store has just taken
        if not page:
            return
        waiting = pending_of(services)
        admitted(services)
        texts = _texts(page)
        vectors, _ = try_embed(services, texts)
        if vectors is not None:
            _put(services, waiting, page, FIRST, dict(zip(texts, vectors, strict=True)), services.tenant)
            return
    except SalienceError:
        pass
    _resting[services.embedder] = time.monotonic() + REST


def pending_of(services: Services) -> Store:
    """Return the store with a handle by which `unembedded` brings the versions that have no vector at all.

    It has no fingerprint: to make one, the embedder would be asked, which may be the very thing that is down.
    """
    return services.store.under(services.store.pinned() or Model(services.embedder.name, services.embedder.dimension))


def admitted(services: Services) -> None:
    """Return if vectors of the configured model belong to the store.

    Raises:
        PinnedError: they do not; `MovedError` if the store was given another model since it was opened.
        EmbedderError: the model's fingerprint is not to be had.
    """
    near = Near(
        np.empty((0, services.embedder.dimension), np.float32), 1.0
    )  # near nothing: only the model is looked at
    services.store.gather(Need(scope=Scope(tenant=services.tenant), now=services.clock(), near=near))


def _pages(waiting: Store) -> Iterator[list[Stored]]:
    after = FIRST
    while page := waiting.unembedded(after, PAGE):
        yield page
        after = _key(page[-1])


def _count(waiting: Store) -> int:
    return sum(len(page) for page in _pages(waiting))


def _key(stored: Stored) -> Key:
    memory = stored.memory
    return memory.scope.tenant, memory.id, memory.version


def _texts(page: Sequence[Stored]) -> list[str]:
    return list(dict.fromkeys(stored.memory.content for stored in page))


def _put(
    services: Services,
    waiting: Store,
    page: Sequence[Stored],
    after: Key,
    vectors: Mapping[str, Vectors32],
    tenant: str | None = None,
) -> int:
    """Store the vectors of the versions of a page that still have none, in one transaction, and return how many.

    Those that another process was quicker with are left out: a vector put anew costs every process its arena.
    """
    if not vectors:
        return 0
    still = {_key(stored) for stored in waiting.unembedded(after, len(page), tenant=tenant)}
    changes = [
        Derive(*_key(stored), stored.memory.content_hash, vectors[stored.memory.content])
        for stored in page
        if stored.memory.content in vectors and _key(stored) in still
    ]
    services.store.apply(changes)
    return len(changes)


def _vectors(
    services: Services, page: Sequence[Stored], before: Callable[[], None]
) -> tuple[dict[str, Vectors32], EmbedderError | None]:
    """Return text -> unit vector for a page, and why it is cut short, if the embedder stopped answering.

    Distinct texts are embedded once. Where it refuses some but answers, they are halved until those that it refuses
    stand alone; these have no vector.
    """
    vectors: dict[str, Vectors32] = {}
    parts = [_texts(page)]
    while parts:
        part = parts.pop()
        try:
            before()
            vectors.update(zip(part, embed(services, part), strict=True))
        except EmbedderError as error:
            if not _answers(services):
                return vectors, error
            half = len(part) // 2
            parts += [part[half:], part[:half]] if half else []
    return vectors, None


def _answers(services: Services) -> bool:
    """Return whether the embedder answers to a single short text, which no model refuses."""
    try:
        embed(services, [f"{FINGERPRINTED} {secrets.token_hex(4)}"])  # new each time: of no text is a vector kept then
    except EmbedderError:
        return False
    return True


def _refusal(refused: Sequence[Memory]) -> str:
    """Return which memories the embedder refuses, without their content."""
    named = ", ".join(memory.short_id for memory in refused[:NAMED])
    more = f" and {len(refused) - NAMED} more" if len(refused) > NAMED else ""
    return (
        f"the embedder answers, but not to the texts of: {named}{more}. Words find them. Shorten them, or see what "
        "the provider says of them."
    )
