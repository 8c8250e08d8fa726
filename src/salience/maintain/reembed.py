"""Another model for a store that goes on being used: new vectors are laid by, then all take their place at once."""

from __future__ import annotations

import os
import platform
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final

from salience.batch import Vectors32
from salience.errors import ConflictError, EmbedderError, MissingExtraError, PinnedError, SalienceError, StoreError
from salience.pending import admitted
from salience.ports import FINGERPRINTED, Adopt, Derive, Lease, Model, Services, Store, Stored
from salience.records import ReembedReport
from salience.steps import embed

Progress = Callable[[int, int], None]
"""Called with how many versions have their new vector, and of how many."""
PAGE: Final = 64
"""Versions that are embedded, and written, at a time."""
SWEEPS: Final = 8
"""How often the store is gone through for what was written meanwhile, before the rest is left for after the change."""
WORK: Final = "reembed"
"""Name of the lease."""
HELD: Final = timedelta(seconds=20)
"""How long the lease is held without a page being done: so long a run that was killed keeps the next one waiting."""
_FIRST: Final = ("", "", 0)


def reembed(services: Services, progress: Progress | None = None, held: timedelta = HELD) -> ReembedReport:
    """Give every memory and version a vector of the configured model, pin the store to it, and return what was done.

    The vectors are laid by, while those of the former model serve, until there is one for everything; then one
    transaction puts them in place. What is written at that very moment gets its vector right after, and is found by
    its words until then. So is a text that the model refuses while it answers to others; upkeep names those.

    A run that was cut short is gone on with; what was laid by for yet another model is dropped. Where the store is
    pinned to the configured model already, what has no vector yet gets one.

    Args:
        services: under the new model.
        progress: called after each page.
        held: how long the lease is held without a page being done.

    Raises:
        EmbedderError: the embedder failed. What was done is kept: run it again to go on.
        LeaseError: another process is at it.
        StoreError: the store failed; as above.
    """
    told, store = progress or (lambda _done, _of: None), services.store
    old = store.pinned()
    lacking, of = _lacking(services)
    run = _Run(services, held, resumed=of - lacking, of=of)
    try:
        _lay_by(run, told)
        store.apply([_lease(run), Adopt()])
        with suppress(SalienceError):  # the change is made; those few are pending then, as after any such write
            _sweep(run, told)
    except MissingExtraError:
        raise
    except EmbedderError as error:
        raise EmbedderError(f"{error} {run.done:,} of {of:,} vectors are made and kept: run reembed again.") from None
    finally:
        with suppress(ConflictError, StoreError):  # another one has the lease by now, or nobody needs it any more
            store.apply([Lease.given_back(WORK, run.holder, services.clock())])
    return ReembedReport(
        run.made, run.resumed, services.embedder.name if old is None else old.name, services.embedder.name
    )


class _Run:
    """One run, and how far it has come.

    Args:
        services: under the new model.
        held: as for `reembed`.
        resumed: vectors laid by in a run before.
        of: versions in all when it began.
    """

    def __init__(self, services: Services, held: timedelta, resumed: int, of: int) -> None:
        self.services = services
        self.held = held
        self.made = 0
        self.resumed = resumed
        self.of = of
        self.holder = f"process {os.getpid()} on {platform.node()} ({secrets.token_hex(3)})"

    @property
    def done(self) -> int:
        """How many versions have their vector; what was written meanwhile does not make it more than all."""
        return min(self.resumed + self.made, self.of)


def _lacking(services: Services) -> tuple[int, int]:
    """Return how many versions have no vector of the configured model, and how many are to have one in all.

    Those are all versions where the store is pinned to another model, and where not, only those that lack it.
    """
    lacking = _count(services.store)
    if _is_home(services):
        return lacking, lacking
    nobody = Model("", services.embedder.dimension)  # no vector is laid by for it
    return lacking, max(lacking, _count(services.store.under(nobody)))


def _is_home(services: Services) -> bool:
    """Return whether the store is pinned to the configured model."""
    try:
        admitted(services)
    except PinnedError:
        return False
    return True


def _count(store: Store) -> int:
    return sum(len(page) for page in _pages(store, 500))


def _pages(store: Store, size: int) -> Iterator[list[Stored]]:
    """Yield the versions that have no vector of the store's handle, in the order of their keys."""
    after = _FIRST
    while page := store.unembedded(after, size):
        yield page
        last = page[-1].memory
        after = (last.scope.tenant, last.id, last.version)


def _lay_by(run: _Run, told: Progress) -> None:
    """Give vectors to all versions, and to those that are written meanwhile, until next to none are left."""
    run.services.store.apply([_lease(run)])
    told(run.done, run.of)
    for _ in range(SWEEPS):
        if _sweep(run, told) < PAGE:
            return


def _sweep(run: _Run, told: Progress) -> int:
    """Go once through the versions without a vector, give each one, and return how many got one."""
    before = run.made
    for page in _pages(run.services.store, PAGE):
        changes = _derived(run.services, page)
        run.services.store.apply([_lease(run), *changes])
        run.made += len(changes)
        told(run.done, run.of)
    return run.made - before


def _derived(services: Services, page: Sequence[Stored]) -> list[Derive]:
    """Return the changes that give some versions their vectors; texts that are equal are embedded once."""
    vectors = _vectors(services, list(dict.fromkeys(stored.memory.content for stored in page)))
    held = [stored.memory for stored in page if stored.memory.content in vectors]
    return [
        Derive(memory.scope.tenant, memory.id, memory.version, memory.content_hash, vectors[memory.content])
        for memory in held
    ]


def _vectors(services: Services, texts: Sequence[str]) -> dict[str, Vectors32]:
    """Return text -> unit vector; without the texts that the embedder refuses while it answers to another.

    Raises:
        EmbedderError: it answers to none.
    """
    try:
        return dict(zip(texts, embed(services, texts), strict=True))
    except EmbedderError:
        embed(services, [FINGERPRINTED] * 2)  # of a single text, a vector may be kept from before
    if len(texts) == 1:
        return {}
    half = len(texts) // 2
    return {**_vectors(services, texts[:half]), **_vectors(services, texts[half:])}


def _lease(run: _Run) -> Lease:
    now = run.services.clock()
    return Lease(WORK, run.holder, now, now + run.held)
