"""The history of a memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from itertools import pairwise
from typing import Final

from salience.ports import Services
from salience.records import ANY, Memory, Scope, Version
from salience.remember import versions_of
from salience.steps import AnswerLimit

NOT_COMPARED: Final = frozenset(
    (
        "version",
        "change",
        "changed_at",
        "changed_by",
        "reason",
        "accessed_at",
        "access_count",
        "content_hash",
        "replaced_by",
    )
)
"""Fields that differ in every version, that recalls change, or that repeat another field."""
COMPARED: Final = tuple(item.name for item in fields(Memory) if item.name not in NOT_COMPARED)


def history(services: Services, scope: Scope, id: str) -> tuple[Version, ...]:
    """Return every version of a visible memory, forgotten or not, oldest first.

    Raises:
        LimitError: the versions are larger than one answer may be.
        NotFoundError: no such memory is visible.
    """
    versions = versions_of(services, scope.widened(), id)
    memories = [stored.memory for stored in versions]
    AnswerLimit(services, "Export the memory instead: an export has its versions, and no limit.").add(memories)
    changed = [(), *(changed_fields(services, scope, old, new) for old, new in pairwise(memories))]
    ends = [*(memory.changed_at for memory in memories[1:]), None]
    *older, last = map(Version, memories, changed, ends)
    activations = _activations(scope, versions[-1].activations)
    return (*older, replace(last, memory=last.memory.seen_at(services.clock()), activations=activations))


def _activations(scope: Scope, turns: Mapping[str, int]) -> dict[str, int]:
    """Return session -> turn, for the sessions of the environment and user that a call names."""
    found = {}
    for key, turn in turns.items():
        environment, user, session = key.split("\x1f", 2)
        if scope.environment in (ANY, environment) and scope.user_id in (ANY, None, user):
            found[session] = turn
    return found


def changed_fields(services: Services, scope: Scope, old: Memory, new: Memory) -> tuple[str, ...]:
    """Return the names of the fields that a version changed.

    Recalls raise the importance of a version after it began, so its first importance is read from the store.
    """
    if old.importance != new.importance:
        then = services.store.fetch(scope, [new.id], as_of=new.changed_at)
        if then and then[0].version == new.version:
            new = replace(new, importance=then[0].importance)
    return tuple(name for name in COMPARED if getattr(old, name) != getattr(new, name))
