"""Which memory is asked about, and whether the caller may know of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any

from salience.errors import NotFoundError
from salience.ports import Services
from salience.records import ANY, BOUNDS, NARROWING, Filter, Memory, Scope, checks


@dataclass(frozen=True, slots=True)
class Target:
    """The memory that is asked about.

    Attributes:
        memory: the memory.
        scope: the caller's, with the memory's own value of each coordinate that hides it.
        hidden: coordinate that hides it -> what the caller asked with.
        own: project, user and agent of the memory that the question is asked with, since the caller names none.
    """

    memory: Memory
    scope: Scope
    hidden: Mapping[str, Any]
    own: Mapping[str, str] = field(default_factory=dict)


def sought(services: Services, scope: Scope, id: str, as_of: datetime | None = None) -> Target:
    """Return the memory of an id: one that the scope shows, else one it hides, else a forgotten one it showed.

    With `as_of`, it is the memory as it stood then, and last comes one that was stored only later.

    A caller that names no project, user or agent asks in the memory's own scope. A caller that names one may know of a
    memory that the other coordinates hide, or another project, agent or environment: these guard nothing. A memory of
    another user than the one named, or of another tenant, is not told from one that is not there.

    Raises:
        NotFoundError: none of these.
    """
    checks.name("id", id)
    for memory in services.store.fetch(scope, [id], as_of=as_of):
        return Target(memory, scope, {})
    open_to = scope.widened()
    if all(getattr(scope, name) is None for name in NARROWING):
        for memory in services.store.fetch(open_to, [id], as_of=as_of):
            own = {name: value for name in NARROWING if (value := getattr(memory.scope, name)) is not None}
            return Target(memory, replace(scope, **own), {}, own)
    wide = replace(open_to, environment=ANY, project=ANY, agent_id=ANY)
    for memory in services.store.fetch(wide, [id], as_of=as_of):
        hiding = [name for name in BOUNDS if not replace(wide, **{name: getattr(scope, name)}).sees(memory.scope)]
        asked = {name: getattr(memory.scope, name) for name in hiding}
        return Target(memory, replace(scope, **asked), {name: getattr(scope, name) for name in hiding})
    versions = [stored.memory for stored in services.store.history(open_to, id)]
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
