"""The versions of a memory: what it was, and how an older one is put in place again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from datetime import datetime
from itertools import pairwise
from typing import Final

import numpy as np

from salience.errors import EmbedderError, InputError, MovedError, NotFoundError, shown
from salience.ports import Need, Revise, Services, Stored
from salience.rank.profile import Profile
from salience.records import Memory, Receipt, Scope, Version, checks
from salience.records.ids import short_id
from salience.remember import MOST, Request, answered, bare, facts_there, replaced_facts, replaces, said_why
from salience.remember.staleness import stale
from salience.steps import AnswerLimit

TAKEN: Final = (
    "content", "content_hash", "kind", "importance", "weight", "tier", "tags", "entities", "fact_key", "supersedes",
    "follows", "metadata", "sources",
)  # fmt: skip
"""Fields that a restored memory has from the version that is put in place again."""
_TOLD: Final = frozenset(
    ("version", "change", "changed_at", "changed_by", "reason", "accessed_at", "access_count", "content_hash")
)
"""Fields whose change is no news: every version has its own, recalls move them, or another field tells it."""
COMPARED: Final = tuple(item.name for item in fields(Memory) if item.name not in _TOLD)
PENDING: Final = "Its vector is still to come: words find it, likeness does not yet."
"""Warning of a restored content that was never embedded."""
OUTDATED: Final = "Its text may be outdated: it sums up its sources as they were. The next reflection makes it anew."
"""Warning of a reflection that was restored."""
REPLACED: Final = (
    "Memory {id} holds in its place, so that some profiles leave this one out. Forget that one, or update it."
)
"""Warning of a restored memory that another supersedes, or states the fact of later."""


def history(services: Services, scope: Scope, id: str) -> tuple[Version, ...]:
    """Return every version of a visible memory, forgotten or not, oldest first.

    Raises:
        LimitError: the versions are larger than one answer may be.
        NotFoundError: no such memory is visible.
    """
    memories = [stored.memory for stored in kept(services, scope, id)]
    AnswerLimit(services, "Export the memory instead: an export has its versions, and no limit.").add(memories)
    first = Version(memories[0], (), None)
    versions = [first, *(Version(new, _changed(services, scope, old, new), None) for old, new in pairwise(memories))]
    ended = [replace(version, until=later.memory.changed_at) for version, later in pairwise(versions)]
    return (*ended, versions[-1])


def kept(services: Services, scope: Scope, id: str) -> list[Stored]:
    """Return the versions of the memory of an id (whole or short), live or not, oldest first; there is one at least.

    Raises:
        NotFoundError: no such memory is visible.
    """
    found = services.store.history(scope, checks.name("id", id))
    if not found:
        raise NotFoundError(id)
    return found


def _changed(services: Services, scope: Scope, old: Memory, new: Memory) -> tuple[str, ...]:
    """Return the names of the fields in which a version began otherwise than the one before it had ended."""
    if old.importance != new.importance:
        new = replace(new, importance=_first_importance(services, scope, new))
    return tuple(name for name in COMPARED if getattr(old, name) != getattr(new, name))


def _first_importance(services: Services, scope: Scope, memory: Memory) -> float:
    """Return the importance with which a version began, before recalls raised it, as far as that is still known."""
    then = services.store.fetch(scope, [memory.id], as_of=memory.changed_at)
    return then[0].importance if then and then[0].version == memory.version else memory.importance


def restore(
    services: Services,
    profile: Profile,
    scope: Scope,
    id: str,
    version: int | None,
    reason: str | None,
    *,
    key: str | None = None,
) -> Receipt:
    """Put an older version of a memory in its place again, as its next version, and return its receipt.

    Its vector comes along; if that version never had one, the memory is pending. Where that brings a source of a
    reflection back, or back to another text, the reflection is stale from now on. Where this makes the memory the
    latest of its fact, the receipt names the one that it replaces.

    Args:
        services: the ports.
        profile: how recalls rank, and so what they leave out.
        scope: who asks.
        id: of a visible memory, live or not.
        version: its number; None for the last live one of a memory that is out of sight, which is then as it was.
        reason: why, for the history.
        key: idempotency key; a retry under it writes nothing, and is told the same.

    Raises:
        InputError: no such version, one that was out of sight itself, or the one that is live; or none is named, and
            the memory is live.
        NotFoundError: no such memory is visible.
        ConflictError: the key stands for something else.
    """
    number = None if version is None else checks.whole("version", version, 1, MOST)
    why = said_why(reason)
    request = Request(scope, "restore", id, key)

    def attempt(embedded: bool = True) -> Receipt:
        versions, now = kept(services, scope, id), services.clock()
        then, current = sought(versions, number), versions[-1]
        new = _again(current.memory, then.memory, now, is_named=number is not None)
        change = _revision(services, replace(new, changed_by=scope.who, reason=why), current, then, embedded)
        outdated = _outdated(services, current.memory, new, now, scope.who)
        (older,) = replaced_facts(services, profile, [new], facts_there(services, [new]), now)
        receipt = services.store.apply([change, *outdated, *request.noted(new)])[0]
        said = [
            *([PENDING] if change.unembeds else []),
            *([OUTDATED] if new.sources else []),
            *(REPLACED.format(id=short_id(other)) for other in _in_its_place(services, scope, new.id, now)),
            *([replaces(new, older)] if older else []),
        ]
        return replace(receipt, superseded=older, warning=" ".join(said) or None)

    try:
        return answered(services, request, attempt)
    except (MovedError, EmbedderError):  # the store, or its check of the model, takes no vectors now
        return answered(services, request, lambda: attempt(embedded=False))


def _in_its_place(services: Services, scope: Scope, id: str, now: datetime) -> list[str]:
    """Return the id of the memory that holds in the place of a live one, as recalls of the scope see it, or nothing."""
    need = Need(scope=scope, now=now, columns=frozenset({"code", "successor"}))
    if not (services.store.gather(replace(need, ids=(id,)))["successor"] >= 0).any():
        return []  # as a rule, and nothing else has to be read
    everyone = services.store.gather(need)
    successors = everyone["successor"][everyone.ids == id]
    return [str(other) for other in everyone.ids[np.isin(everyone["code"], successors[successors >= 0])]]


def sought(versions: Sequence[Stored], number: int | None) -> Stored:
    """Return the version of a number; without one, the last live one of a memory that is out of sight.

    Raises:
        InputError: there is none, or it is not one to go back to.
    """
    current = versions[-1].memory
    others = [stored for stored in versions if _is_live(stored) and stored is not versions[-1]]
    if number is None and not _is_live(versions[-1]):
        return others[-1] if others else versions[-1]  # what is out of sight has all that it was, but for that
    found = [stored for stored in others if stored.memory.version == number]
    if found:
        return found[0]
    numbers = _listed([stored.memory.version for stored in others])
    there = f"Name one of these: {numbers}." if others else "There is no other version of it."
    if number is None:
        raise InputError("version", None, there, "is missing, and the memory is live")
    if number == current.version and _is_live(versions[-1]):
        raise InputError("version", number, there, f"{number} is live")
    is_out_of_sight = number in [stored.memory.version for stored in versions]
    problem = f"{shown(number)} was out of sight itself" if is_out_of_sight else f"{shown(number)} is not there"
    raise InputError("version", number, there, problem)


def _is_live(stored: Stored) -> bool:
    return stored.memory.forgotten_at is None


def _listed(numbers: Iterable[int]) -> str:
    """Return rising numbers with runs of them taken together: `1 to 3, 5`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


def _again(current: Memory, then: Memory, now: datetime, *, is_named: bool) -> Memory:
    """Return the next version of `current`, which is as `then` was; one that was named is held anew."""
    over = then.expires_at is not None and then.expires_at <= now
    return current.changed(
        "restore",
        now,
        **{name: getattr(then, name) for name in TAKEN},
        tier_since=current.tier_since if then.tier == current.tier else now,
        expires_at=None if over else then.expires_at,
        forgotten_at=None,
        updated_at=now if is_named else then.updated_at,
    )


def _revision(services: Services, new: Memory, current: Stored, then: Stored, embedded: bool) -> Revise:
    """Return the change to `new`, with the vector of `then` unless the text is as it stands, or none may be written.

    Terms and distinctions are read anew: speaker and date, of which they tell too, are those of `current`.
    """
    said_anew = new.content_hash != current.memory.content_hash
    vector = then.vector if embedded and (said_anew or current.vector is None) else None
    read = bare(services, new)
    return Revise(
        new,
        vector,
        read.terms,
        sets_importance=True,
        distinctions=read.distinctions,
        unembeds=said_anew and vector is None,
    )


def _outdated(services: Services, old: Memory, new: Memory, now: datetime, by: str | None) -> list[Revise]:
    """Return what makes the reflection of a memory stale, if it lists one that comes back, or has another text now."""
    if old.forgotten_at is None and old.content_hash == new.content_hash:
        return []
    changes = stale(services, [old], now, by=by, reason="a source was restored")
    return [change for change in changes if old.id in change.memory.sources]
