"""Which memory is asked about, and whether the caller may know of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, Final

from salience import checks
from salience.errors import NotFoundError
from salience.ports import World
from salience.records import ANY, Filter, Memory, Scope

WIDE: Final = ("environment", "project", "agent_id")
"""The coordinates beyond which a caller may know of a memory; the user and the tenant are not among them."""


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


def sought(world: World, scope: Scope, id: str, as_of: datetime | None = None) -> Target:
    """Return the memory of an id: one that the scope shows, else one it hides, else a forgotten one it showed.

    With `as_of`, it is the memory as it stood then, and last comes one that was stored only later.

    A caller may know of a memory that a project, agent or environment hides if the same user would see it there: these
    are named in a call and guard nothing. A memory of another user or tenant is not told from one that is not there.

    Raises:
        NotFoundError: none of these.
    """
    checks.name("id", id)
    for memory in world.store.fetch(scope, [id], as_of=as_of):
        return Target(memory, scope, {})
    wide = replace(scope, environment=ANY, project=ANY, agent_id=ANY)
    for memory in world.store.fetch(wide, [id], as_of=as_of):
        hiding = [name for name in WIDE if not replace(wide, **{name: getattr(scope, name)}).sees(memory.scope)]
        own = {name: getattr(memory.scope, name) for name in hiding}
        return Target(memory, replace(scope, **own), {name: getattr(scope, name) for name in hiding})
    versions = [stored.memory for stored in world.store.history(scope, id)]
    if not versions:
        raise NotFoundError(id)
    held = [memory for memory in versions if as_of is None or memory.changed_at <= as_of]
    gone = held[-1] if held else versions[0]
    if held and gone.forgotten_at is None:  # it came back, or was stored, since it was looked for
        raise NotFoundError(id)
    return Target(gone, scope, {})


def refused(filter: Filter, memory: Memory) -> tuple[str, ...]:
    """Return the conditions of a filter that a memory does not meet."""
    names = [item.name for item in fields(Filter)]
    return tuple(name for name in names if not Filter(**{name: getattr(filter, name)}).accepts(memory))


def without(filter: Filter, names: tuple[str, ...]) -> Filter:
    """Return a filter without some of its conditions."""
    return replace(filter, **{name: getattr(Filter(), name) for name in names})
