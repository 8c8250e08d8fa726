"""Which memory is asked about, and whether the caller may know of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from salience import checks
from salience.derived import scan
from salience.errors import NotFoundError
from salience.ids import SHORT
from salience.ports import World
from salience.records import ANY, Filter, Memory, Scope

WIDE: Final = ("environment", "project", "agent_id")
"""The coordinates beyond which a caller may know of a memory; the user and the tenant are not among them."""
SIBLINGS: Final = 16
"""Ids that differ in their last hexadecimal digit alone."""


@dataclass(frozen=True, slots=True)
class Target:
    """The memory that is asked about.

    Attributes:
        memory: the memory.
        scope: the caller's, with the memory's own value of each coordinate that hides it.
        hidden: coordinate that hides it -> what the caller asked with.
    """

    memory: Memory
    scope: Scope
    hidden: Mapping[str, Any]


def sought(world: World, scope: Scope, id: str) -> Target:
    """Return the memory of an id: one that the scope shows, else one it hides, else a forgotten one it showed.

    A caller may know of a memory that a project, agent or environment hides if the same user would see it there: these
    are named in a call and guard nothing. A memory of another user or tenant is not told from one that is not there.

    Raises:
        NotFoundError: none of these.
    """
    checks.name("id", id)
    for memory in world.store.fetch(scope, [id]):
        return Target(memory, scope, {})
    wide = replace(scope, environment=ANY, project=ANY, agent_id=ANY)
    for memory in world.store.fetch(wide, [id]):
        hiding = [name for name in WIDE if not replace(wide, **{name: getattr(scope, name)}).sees(memory.scope)]
        own = {name: getattr(memory.scope, name) for name in hiding}
        return Target(memory, replace(scope, **own), {name: getattr(scope, name) for name in hiding})
    gone = forgotten(world, scope, id)
    if gone is None:
        raise NotFoundError(id)
    return Target(gone, scope, {})


def forgotten(world: World, scope: Scope, id: str) -> Memory | None:
    """Return the forgotten memory of an id that `scope` would show; None if there is none, or more than one.

    By a whole id this reads a few rows. A short one is sought among all, since it is indexed for live memories alone.
    """
    if len(id) == SHORT:
        found = scan(world, scope, forgotten=True)
        fits = [item.memory for item in found if item.memory.short_id == id and item.memory.forgotten_at is not None]
        return fits[0] if len(fits) == 1 else None
    siblings = [item.memory for item in world.store.scan(scope, id[:-1], SIBLINGS, forgotten=True)]
    return next((memory for memory in siblings if memory.id == id and memory.forgotten_at is not None), None)


def refused(filter: Filter, memory: Memory) -> tuple[str, ...]:
    """Return the conditions of a filter that a memory does not meet."""
    names = [item.name for item in fields(Filter)]
    return tuple(name for name in names if not Filter(**{name: getattr(filter, name)}).accepts(memory))


def without(filter: Filter, names: tuple[str, ...]) -> Filter:
    """Return a filter without some of its conditions."""
    return replace(filter, **{name: getattr(Filter(), name) for name in names})
