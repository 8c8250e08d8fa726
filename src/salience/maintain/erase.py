"""The one true delete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Final

from salience import keywords
from salience.errors import InputError, NotFoundError, Words
from salience.ports import Erase, Services, Stored
from salience.records import ANY, NARROWING, Filter, Scope, checks
from salience.steps import retry_stale, scan

NAMED: Final = (*NARROWING, "session_id")
"""Coordinates of which one at least has to be named where memories are not."""


def erase(services: Services, where: Mapping[str, object], ids: Sequence[str] | None, *, dry_run: bool = False) -> int:
    """Delete memories for good, with all that was made of them, and return how many.

    Every reflection that sums one of them up, or did in an older version, goes too and is counted. Either all are
    deleted or none.

    Args:
        services: the ports.
        where: the scope keywords; with `ids` they say who asks, without, whose memories are meant.
        ids: of visible memories, live or not, whole or short.
        dry_run: count, and delete nothing.

    Raises:
        InputError: neither ids nor a coordinate, or one that is None.
        NotFoundError: one of the ids is of no visible memory.
    """
    meant = _of_scope(services, where) if ids is None else _of_ids(services, where, ids)

    def attempt() -> frozenset[str]:
        going = meant.read(services)
        whole = frozenset(going.ids | _summing_up(_reflections(services, going), going.ids))
        if not dry_run:
            services.store.apply([Erase(services.tenant, tuple(sorted(whole)), meant.sessions)])
        return whole

    gone = retry_stale(attempt)
    if dry_run:
        return len(gone)
    forget = getattr(services.embedder, "forget", None)
    if forget is not None:
        forget()
    return len(gone | _late(services, gone))


@dataclass(slots=True)
class Going:
    """What is to be deleted: ids of memories, and of the reflections that they went into."""

    ids: set[str] = field(default_factory=set)
    reflections: set[str] = field(default_factory=set)

    def add(self, versions: Iterable[Stored]) -> None:
        """Add the versions of some memories."""
        for stored in versions:
            self.ids.add(stored.memory.id)
            if stored.memory.reflection is not None:
                self.reflections.add(stored.memory.reflection)


@dataclass(frozen=True, slots=True)
class OfIds:
    """The memories of some ids, as a caller sees them; their sessions go where they have no other memory."""

    scope: Scope
    ids: tuple[str, ...]
    sessions: None = None

    def read(self, services: Services) -> Going:
        """Return what is there of them.

        Raises:
            NotFoundError: one is not.
        """
        going = Going()
        for id_ in self.ids:
            found = services.store.history(self.scope, id_)
            if not found:
                raise NotFoundError(id_)
            going.add(found)
        return going


@dataclass(frozen=True, slots=True)
class OfScope:
    """The memories whose own coordinates are those that are named.

    Attributes:
        scope: sees them all, and others.
        filter: which they pass.
        named: coordinate -> its value, or `ANY`.
        sessions: as in `Erase`.
    """

    scope: Scope
    filter: Filter
    named: Mapping[str, object]
    sessions: Scope | None

    def read(self, services: Services) -> Going:
        """Return what is there of them."""
        going = Going()
        going.add(
            stored
            for stored in scan(services, self.scope, self.filter, forgotten=True, versions=True)
            if all(value is ANY or getattr(stored.memory.scope, name) == value for name, value in self.named.items())
        )
        return going


def _of_ids(services: Services, where: Mapping[str, object], ids: Sequence[str]) -> OfIds:
    return OfIds(keywords.scope(services.tenant, where)[0], checks.names("ids", ids))


def _of_scope(services: Services, where: Mapping[str, object]) -> OfScope:
    rest = {name: value for name, value in where.items() if (name, value) != ("session_id", ANY)}
    caller, level = keywords.scope(services.tenant, rest)
    named = _named(where)
    free: dict[str, Any] = dict.fromkeys((name for name in NARROWING if name not in named), ANY)
    scope = replace(caller, session_id=None, **free)
    sessions = () if caller.session_id is None else (caller.session_id,)
    is_whole = level is None and scope.project is ANY and scope.agent_id is ANY  # else the sessions go on elsewhere
    whose = replace(scope, session_id=caller.session_id) if is_whole else None
    return OfScope(scope, Filter(sessions=sessions, level=level), named, whose)


def _named(where: Mapping[str, object]) -> dict[str, object]:
    """Return the coordinates that say whose memories are meant.

    Raises:
        InputError: there is none, or one is None.
    """
    named = {name: where[name] for name in NAMED if name in where}
    for name, value in named.items():
        if value is None:  # a name that a caller failed to fill in must not stand for everybody
            raise InputError(name, None, "Name one, or salience.ANY; leave it out where it does not matter.", "is None")
    if not named:
        remedy = f"Name at least one of {', '.join(NAMED)} (salience.ANY for whatever it is), or give ids."
        raise InputError("erase", Words("no memory"), remedy, "names no memory")
    return named


def _reflections(services: Services, going: Going) -> dict[str, set[str]]:
    """Return reflection -> the ids of all that it sums up or did; also one that goes by another kind by now."""
    everywhere, _ = keywords.scope(services.tenant, keywords.EVERYWHERE)
    found: dict[str, set[str]] = {}
    for stored in _versions(services, everywhere, going.reflections):
        found.setdefault(stored.memory.id, set()).update(stored.memory.sources)
    return found


def _versions(services: Services, everywhere: Scope, ids: Iterable[str]) -> Iterator[Stored]:
    yield from scan(services, everywhere, Filter(kinds=("reflection",)), forgotten=True, versions=True)
    for id_ in ids:
        yield from services.store.history(everywhere, id_)


def _summing_up(sources: Mapping[str, Set[str]], ids: Set[str]) -> frozenset[str]:
    """Return the reflections that sum up some memories, or sum up such a reflection."""
    found: frozenset[str] = frozenset()
    while more := {name for name, held in sources.items() if name not in found and held & (ids | found)}:
        found |= more
    return found


def _late(services: Services, gone: Set[str]) -> frozenset[str]:
    """Delete the reflections that were made of deleted memories while these were read, and return them.

    None can come later: it could not be written without its sources.
    """

    def attempt() -> frozenset[str]:
        late = _summing_up(_reflections(services, Going()), gone)
        if late:
            services.store.apply([Erase(services.tenant, tuple(sorted(late)))])
        return late

    return retry_stale(attempt)
