"""The versions of a memory: what it was, and how an older one is put in place again."""

from __future__ import annotations

from salience.ports import World
from salience.records import Receipt, Scope, Version


def history(world: World, scope: Scope, id: str) -> tuple[Version, ...]:
    """Return every version of a visible memory, forgotten or not, oldest first."""
    raise NotImplementedError


def restore(world: World, scope: Scope, id: str, version: int | None, reason: str | None) -> Receipt:
    """Put an older version of a memory in its place again, as its next version, and return its receipt."""
    raise NotImplementedError
