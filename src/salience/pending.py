"""Pending memories: embed the memories that were stored without a vector."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np

from salience.batch import Embedding
from salience.errors import EmbedderError, PinnedError, SalienceError
from salience.ports import FINGERPRINTED, Derive, Embedder, Model, Near, Need, Services, Store, Stored
from salience.records import Memory, Scope
from salience.steps import embed, try_embed

PAGE: Final = 128
"""Versions that get their vectors in one transaction."""
FEW: Final = 16
"""Maximum pending versions that a write embeds after its own."""
REST: Final = 60.0
"""Seconds after a failure during which writes do not embed pending versions."""
NAMED: Final = 5
"""Most memories that a warning lists."""
Key = tuple[str, str, int]
FIRST: Final[Key] = ("", "", 0)
_resting: Final[WeakKeyDictionary[Embedder, float]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Embedded:
    """Result of embedding pending versions.

    Attributes:
        embedded: number of versions that got a vector.
        pending: number of versions that still have none.
        warning: the reason, if any are pending.
        answers: whether the embedder answers; if not, try again soon.
    """

    embedded: int
    pending: int
    warning: str | None = None
    answers: bool = True


def embed_pending(services: Services, *, dry_run: bool = False, before: Callable[[], None] = lambda: None) -> Embedded:
    """Embed the versions without a vector, in the order of their keys, and return how many.

    They are those of all tenants, or of the engine's tenant if the store does not show it the others.

    Each page is one transaction. If the embedder fails, earlier pages stay embedded. A text that the embedder refuses
    while it answers others is skipped.

    Args:
        services: the ports.
        dry_run: only count, assuming that the embedder answers.
        before: called before each call of the embedder; an error that it raises ends the work.

    Raises:
        StoreError: the store failed; earlier pages stay embedded.
    """
    handle = pending_of(services)
    tenant = None if handle.sees_all else services.tenant
    if dry_run:
        return Embedded(count_unembedded(handle, tenant), 0)
    done, refused, after = 0, list[Memory](), FIRST
    try:
        for page in unembedded_pages(handle, PAGE, tenant):
            if after == FIRST:
                check_model(services)
            embedded, failure = embeddings(services, _texts(page), before)
            done += _put(services, handle, page, after, embedded, tenant)
            if failure is not None:
                raise failure
            refused += [item.memory for item in page if item.memory.content not in embedded]
            after = _key(page[-1])
    except PinnedError as error:  # vectors of this model are of no use to the store
        return Embedded(done, count_unembedded(handle, tenant), str(error))
    except EmbedderError as error:
        return Embedded(done, count_unembedded(handle, tenant), str(error), answers=False)
    return Embedded(done, len(refused), _refusal(refused) if refused else None)


def catch_up(services: Services) -> None:
    """Embed a few pending versions after a successful write; never raises, and waits no longer than a write.

    After a failure, writes leave pending versions to upkeep for `REST` seconds.
    """
    if time.monotonic() < _resting.get(services.embedder, 0.0):
        return
    try:
        # through the engine's own handle: the store has just accepted its vectors
        page = services.store.unembedded(FIRST, FEW, tenant=services.tenant)
        if not page:
            return
        handle = pending_of(services)
        check_model(services)
        texts = _texts(page)
        embedded, _ = try_embed(services, texts)
        if embedded is not None:
            _put(services, handle, page, FIRST, dict(zip(texts, embedded, strict=True)), services.tenant)
            return
    except SalienceError:
        pass
    _resting[services.embedder] = time.monotonic() + REST


def pending_of(services: Services) -> Store:
    """Return a handle on the store whose `unembedded` returns the versions without any vector.

    It has no fingerprint, since computing one needs the embedder, which may be down.
    """
    return services.store.with_model(
        services.store.pinned() or Model(services.embedder.name, services.embedder.dimension)
    )


def check_model(services: Services) -> None:
    """Check that the store accepts vectors of the configured model.

    Raises:
        PinnedError: the store is pinned to another model; `MovedError` if it changed since the store was opened.
        EmbedderError: the model's fingerprint cannot be computed.
    """
    near = Near(np.empty((0, services.embedder.dimension), np.float32), 1.0)  # no vectors: the store checks the model
    services.store.gather(Need(scope=Scope(tenant=services.tenant), now=services.clock(), near=near))


def unembedded_pages(handle: Store, size: int, tenant: str | None = None) -> Iterator[list[Stored]]:
    """Yield pages of the versions without a vector of the handle's model, of a tenant or, for None, of all."""
    after = FIRST
    while page := handle.unembedded(after, size, tenant=tenant):
        yield page
        after = _key(page[-1])


def count_unembedded(handle: Store, tenant: str | None = None) -> int:
    """Return the number of versions without a vector of the handle's model, of a tenant or, for None, of all."""
    return sum(len(page) for page in unembedded_pages(handle, 500, tenant))


def _key(stored: Stored) -> Key:
    memory = stored.memory
    return memory.scope.tenant, memory.id, memory.version


def _texts(page: Sequence[Stored]) -> list[str]:
    return list(dict.fromkeys(stored.memory.content for stored in page))


def _put(
    services: Services,
    handle: Store,
    page: Sequence[Stored],
    after: Key,
    embedded: Mapping[str, Embedding],
    tenant: str | None = None,
) -> int:
    """Store the vectors of the versions of a page that still have none, in one transaction, and return how many.

    A vector that another process stored meanwhile is not replaced, since each change makes all processes reload it.
    """
    if not embedded:
        return 0
    pending = {_key(stored) for stored in handle.unembedded(after, len(page), tenant=tenant)}
    changes = [
        Derive.of(stored.memory, embedded[stored.memory.content])
        for stored in page
        if stored.memory.content in embedded and _key(stored) in pending
    ]
    services.store.apply(changes)
    return len(changes)


def embeddings(
    services: Services, texts: Sequence[str], before: Callable[[], None] = lambda: None
) -> tuple[dict[str, Embedding], EmbedderError | None]:
    """Return text -> embedding, and the error if the embedder stopped answering.

    If the embedder refuses a batch but answers, the batch is halved until the refused texts are alone; these get
    none.
    """
    embedded: dict[str, Embedding] = {}
    parts = [texts] if texts else []
    while parts:
        part = parts.pop()
        try:
            before()
            embedded.update(zip(part, embed(services, part), strict=True))
        except EmbedderError as error:
            if not _answers(services):
                return embedded, error
            half = len(part) // 2
            parts += [part[half:], part[:half]] if half else []
    return embedded, None


def _answers(services: Services) -> bool:
    """Return whether the embedder answers a single short text, which no model refuses."""
    try:
        embed(services, [f"{FINGERPRINTED} {secrets.token_hex(4)}"])  # a new text each time, so no cache answers
    except EmbedderError:
        return False
    return True


def _refusal(refused: Sequence[Memory]) -> str:
    """Return the warning that lists the memories whose texts the embedder refuses, without their content."""
    named = ", ".join(memory.short_id for memory in refused[:NAMED])
    more = f" and {len(refused) - NAMED} more" if len(refused) > NAMED else ""
    return (
        f"the embedder answers, but refuses the texts of: {named}{more}. Searches find only their words. Shorten them, "
        "or check the provider's limits."
    )
