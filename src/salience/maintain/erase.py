"""Erase: delete memories for good, with everything derived from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, Final

from salience import keywords
from salience.errors import InputError, Words
from salience.ports import Erase, Services, Stored
from salience.records import ANY, NARROWING, Coordinate, Erased, Filter, Scope, checks
from salience.records.checks import Frozen
from salience.remember import versions_of
from salience.steps import retry_stale, scan

COORDINATES: Final = (*NARROWING, "session_id")
"""Without ids, at least one of these coordinates is required."""


def erase(
    services: Services,
    where: Mapping[str, object],
    ids: Sequence[str] | None,
    having: Mapping[str, Any] = Frozen(),
    *,
    dry_run: bool = False,
) -> Erased:
    """Delete memories for good, all or none, and return how many.

    Reflections that sum up one of them, in any version, are deleted and counted too. Entries of the recall log that
    cite a deleted memory are deleted and, without `ids`, the entries of the scope.

    Args:
        services: the ports.
        where: the scope keywords: the caller if `ids` are given, else the scope whose memories are deleted.
        ids: of visible memories, live or not, whole or short.
        having: conditions on the metadata; memories that do not meet them stay.
        dry_run: only count.

    Raises:
        InputError: neither ids nor a coordinate, or a coordinate that is None.
        NotFoundError: one of the memories is not visible.
    """
    sessions, recalls, met = None, None, Filter(where=having)
    if ids is not None:
        caller, names = keywords.scope(services.tenant, where)[0], checks.names("ids", ids)
    else:
        scope, condition, owned, sessions = _erased_scope(services, where)
        recalls = _coordinates(scope, condition, owned)
        if having:  # the sessions and questions of the scope go on with its other memories
            condition, sessions, recalls = replace(condition, where=having), None, None

    def attempt() -> tuple[frozenset[str], int]:
        if ids is not None:
            named_ones = (versions_of(services, caller, name) for name in names)
            found: Iterable[Stored] = [one for every in named_ones if met.accepts(every[-1].memory) for one in every]
        else:
            everything = scan(services, scope, condition, forgotten=True, versions=True)
            found = (
                stored
                for stored in everything
                if all(value in (ANY, getattr(stored.memory.scope, name)) for name, value in owned.items())
            )
        named, reflections = set[str](), set[str]()
        for stored in found:
            named.add(stored.memory.id)
            if stored.memory.reflection is not None:
                reflections.add(stored.memory.reflection)
        gone = frozenset(named | _summing_up(_sources(services, reflections), named))
        change = Erase(services.tenant, tuple(sorted(gone)), sessions, recalls)
        logged = services.store.count_logged(change)
        if not dry_run:
            services.store.apply([change])
        return gone, logged

    gone, logged = retry_stale(attempt)
    if dry_run:
        return Erased(len(gone), logged)
    services.embedder.forget()
    gone |= _erase_late_reflections(services, gone)
    return Erased(len(gone), logged, pending=not services.store.finish_erasures(rewrite=False))


def _erased_scope(
    services: Services, where: Mapping[str, object]
) -> tuple[Scope, Filter, dict[str, object], Scope | None]:
    """Return a scope and a filter to read by, the coordinates that must equal, and the sessions to delete.

    Raises:
        InputError: no coordinate, or one that is None.
    """
    rest = {name: value for name, value in where.items() if (name, value) != ("session_id", ANY)}
    caller, level = keywords.scope(services.tenant, rest)
    owned = {name: where[name] for name in COORDINATES if name in where}
    for name, value in owned.items():
        if value is None:  # a coordinate that the caller forgot to fill in must not delete everything
            raise InputError(name, None, "Name one, or salience.ANY; leave it out where it does not matter.", "is None")
    if not owned:
        remedy = f"Name at least one of {', '.join(COORDINATES)} (salience.ANY for every value), or give ids."
        raise InputError("erase", Words("no memory"), remedy, "names no memory")
    free: dict[str, Any] = dict.fromkeys((name for name in NARROWING if name not in owned), ANY)
    scope = replace(caller, session_id=None, **free)
    condition = Filter(sessions=() if caller.session_id is None else (caller.session_id,), level=level)
    is_whole = level is None and scope.project is ANY and scope.agent_id is ANY  # else the sessions continue elsewhere
    return scope, condition, owned, replace(scope, session_id=caller.session_id) if is_whole else None


def _coordinates(scope: Scope, condition: Filter, owned: Mapping[str, object]) -> dict[str, Coordinate] | None:
    """Return the coordinates of the entries of the recall log that belong to an erased scope, as in `Erase.recalls`.

    None if no memory, and so no entry, can be of the scope: one without a project, of a project.
    """
    named: dict[str, Any] = {"environment": scope.environment, **owned}
    found = {name: value for name, value in named.items() if value is not ANY}
    if condition.level == "project":
        return {"project": ANY, **found}
    if condition.level == "global":
        return None if "project" in found else {**found, "project": None}
    return found


def _sources(services: Services, reflections: Set[str]) -> dict[str, set[str]]:
    """Return reflection id -> ids of all memories that it sums up or summed up in an older version.

    `reflections` are read by id, since an update may have changed their kind.
    """
    everywhere, _ = keywords.scope(services.tenant, keywords.EVERYWHERE)
    found: dict[str, set[str]] = {}
    of_kind = scan(services, everywhere, Filter(kinds=("reflection",)), forgotten=True, versions=True)
    by_id = (version for id_ in reflections for version in services.store.history(everywhere, id_))
    for versions in (of_kind, by_id):
        for stored in versions:
            found.setdefault(stored.memory.id, set()).update(stored.memory.sources)
    return found


def _summing_up(sources: Mapping[str, Set[str]], ids: Set[str]) -> frozenset[str]:
    """Return the ids of the reflections that sum up some memories, or sum up such a reflection."""
    found: frozenset[str] = frozenset()
    while more := {name for name, of in sources.items() if name not in found and of & (ids | found)}:
        found |= more
    return found


def _erase_late_reflections(services: Services, gone: Set[str]) -> frozenset[str]:
    """Delete reflections of the deleted memories that were written during the deletion, and return their ids.

    None can be written later, because the store refuses a reflection without its sources.
    """

    def attempt() -> frozenset[str]:
        late = _summing_up(_sources(services, frozenset()), gone)
        if late:
            services.store.apply([Erase(services.tenant, tuple(sorted(late)))])
        return late

    return retry_stale(attempt)
