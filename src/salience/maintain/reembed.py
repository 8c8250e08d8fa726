"""Reembed: move a store in use to another embedding model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from typing import Final

from salience import keywords
from salience.batch import Embedding
from salience.errors import EmbedderError, MissingExtraError, PinnedError, SalienceError
from salience.maintain.leases import leased
from salience.pending import check_model, count_unembedded, embeddings, unembedded_pages
from salience.ports import Adopt, Derive, Lease, Model, Services
from salience.records import Memory, ReembedReport
from salience.steps import scan_pages

Progress = Callable[[int, int], None]
"""Called with the number of versions that have their new vector, and the number of all."""
PAGE: Final = 64
"""Versions embedded and written at a time."""
SWEEPS: Final = 8
"""Maximum passes over concurrent writes; the rest gets its vectors after the switch."""
LEASE: Final = "reembed"
HELD: Final = timedelta(seconds=20)
"""How long the lease lasts without progress: the wait after a run that was killed."""


def reembed(services: Services, progress: Progress | None = None, held: timedelta = HELD) -> ReembedReport:
    """Give every memory and version a vector of the configured model, pin the store to it, and return the counts.

    New vectors are stored aside while the old ones serve. When all are there, one transaction switches to the new
    model. Memories written during the switch get their vector right after it; until then, searches find their words.
    So do memories whose text the model refuses; upkeep reports those.

    An interrupted run is continued; vectors that were stored aside for a third model are dropped. If the store is
    pinned to the configured model already, only missing vectors are added, and missing token vectors of the tenant's
    memories.

    Args:
        services: the ports, with the new embedder.
        progress: called after each page.
        held: how long the lease lasts without progress.

    Raises:
        EmbedderError: the embedder failed; finished vectors are kept, and the next run continues.
        LeaseError: another process is reembedding.
        StoreError: the store failed; as above.
    """
    store, old = services.store, services.store.pinned()
    lacking = count_unembedded(store)
    total = lacking
    try:
        check_model(services)
    except PinnedError:
        no_model = Model("", services.embedder.dimension)  # for which no vector exists, so all versions count
        total = max(lacking, count_unembedded(store.with_model(no_model)))
    resumed, made = total - lacking, 0

    def report() -> None:
        if progress is not None:
            progress(min(resumed + made, total), total)

    def sweep(lease: Callable[[], Lease]) -> int:
        """Give a vector to each version without one, and return how many got one."""
        nonlocal made
        before = made
        for page in unembedded_pages(store, PAGE):
            memories = [stored.memory for stored in page]
            embedded = _embeddings(services, memories)
            changes = [Derive.of(memory, embedded[memory.content]) for memory in memories if memory.content in embedded]
            store.apply([lease(), *changes])
            made += len(changes)
            report()
        return made - before

    try:
        with leased(services, LEASE, held) as lease:
            report()
            for _ in range(SWEEPS):
                if sweep(lease) < PAGE:
                    break
            store.apply([lease(), Adopt()])
            with suppress(SalienceError):  # the switch is done; the rest is pending, as after any failed embedding
                sweep(lease)
                _add_tokens(services, lease)
    except MissingExtraError:
        raise
    except EmbedderError as error:
        done = min(resumed + made, total)
        raise EmbedderError(f"{error} {done:,} of {total:,} vectors are made and kept: run reembed again.") from None
    return ReembedReport(made, resumed, services.embedder.name if old is None else old.name, services.embedder.name)


def _add_tokens(services: Services, lease: Callable[[], Lease]) -> None:
    """Add token vectors to the tenant's memories that have a vector of the model and no token vectors."""
    if not services.embedder.token_size:
        return
    everything, _ = keywords.scope(services.tenant, keywords.EVERYWHERE)
    for page in scan_pages(services, everything, forgotten=True, size=PAGE):
        lacking = [stored.memory for stored in page if stored.vector is not None and stored.tokens is None]
        embedded = _embeddings(services, lacking)
        changes = [
            Derive.of(memory, tokens=embedded[memory.content].tokens)
            for memory in lacking
            if memory.content in embedded
        ]
        services.store.apply([lease(), *changes])


def _embeddings(services: Services, memories: Iterable[Memory]) -> dict[str, Embedding]:
    """Return text -> embedding, without the texts that the embedder refuses; raise if it stops answering."""
    embedded, failure = embeddings(services, list(dict.fromkeys(memory.content for memory in memories)))
    if failure is not None:
        raise failure
    return embedded
