"""What follows from the few verbs of a store: one memory by id, every memory, another try after a stale read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from salience import checks
from salience.errors import NotFoundError, StaleError
from salience.ports import Stored, World
from salience.records import Filter, Memory, Scope

TRIES: Final = 20
"""How often a change is made anew because another writer was quicker."""
PAGE: Final = 500
"""Memories read at a time."""
Made = TypeVar("Made")


def one(world: World, scope: Scope, id: str) -> Memory:
    """Return the live memory of an id (whole or short) that is visible in `scope`.

    Raises:
        NotFoundError: there is none, or it is not visible.
    """
    found = world.store.fetch(scope, [checks.name("id", id)])
    if not found:
        raise NotFoundError(id)
    return found[0]


def scan(
    world: World, scope: Scope, filter: Filter = Filter(), *, forgotten: bool = False, versions: bool = False
) -> Iterator[Stored]:
    """Yield every visible memory that passes `filter`, in the order of ids, a page at a time."""
    after = ""
    while page := world.store.scan(scope, after, PAGE, filter, forgotten=forgotten, versions=versions):
        yield from page
        after = page[-1].memory.id


def until_fresh(attempt: Callable[[], Made]) -> Made:
    """Return what `attempt` returns, trying again when another writer changed what it had read."""
    for _ in range(TRIES - 1):
        try:
            return attempt()
        except StaleError:
            continue
    return attempt()
