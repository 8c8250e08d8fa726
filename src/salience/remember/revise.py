"""Changes of stored memories: update, forget and restore, each at most once per idempotency key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal

import numpy as np

from salience.errors import (
    ConflictError,
    EmbedderError,
    InputError,
    MovedError,
    NotFoundError,
    SalienceError,
    StaleError,
    Words,
    shown,
)
from salience.ports import Answered, Need, Revise, Services, Stored
from salience.rank.profile import Profile
from salience.records import UNSET, Draft, Memory, Receipt, Scope, checks
from salience.records.ids import short_id
from salience.remember.conflicts import DISMISSED
from salience.remember.drafts import clean, derive, project_fact_key, user_of
from salience.remember.facts import replaced_facts, stored_facts
from salience.remember.llm import read_facts, with_facts
from salience.remember.write import replacement_warning, stale
from salience.steps import get_memory, retry_stale, try_embed

MAX_VERSION: Final = 2**62
RESTORED: Final = (
    "content", "content_hash", "kind", "importance", "weight", "tier", "tags", "entities", "fact_key", "supersedes",
    "follows", "metadata", "sources",
)  # fmt: skip
"""Fields that a restored memory takes from the older version."""
PENDING: Final = "It has no vector for now: searches find its words only, until upkeep adds the vector."
OUTDATED: Final = "Its text may be outdated: it sums up its sources as they were. The next run of reflect renews it."
REPLACED: Final = "Memory {id} is current instead, so some profiles leave this one out. Forget or update that memory."

Verb = Literal["update", "forget", "restore"]
_STATUS: Final[dict[Verb, Literal["updated", "forgotten", "restored"]]] = {
    "update": "updated", "forget": "forgotten", "restore": "restored",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Request:
    """A requested change of one memory.

    Attributes:
        scope: of the caller; `key` is unique within it, regardless of the session.
        verb: the change.
        id: of the memory, whole or short.
        key: idempotency key; None: the request is carried out every time.
        if_version: version that the memory must be at; None: any.
        reason: why, for the history.
    """

    scope: Scope
    verb: Verb
    id: str
    key: str | None = None
    if_version: int | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        for field in ("key", "reason"):
            if getattr(self, field) is not None:
                checks.name(field, getattr(self, field))
        if self.if_version is not None:
            checks.whole("if_version", self.if_version, 1, MAX_VERSION)

    def check_version(self, memory: Memory) -> None:
        """Raise unless the memory is at the required version."""
        if self.if_version not in (None, memory.version):
            raise _WrongVersionError(
                f"id: memory {memory.short_id} is at version {memory.version}, not at {self.if_version}; nothing was "
                "written. Read it again, then retry."
            )

    def answer(self, made: Memory) -> list[Answered]:
        """Return the change that records which version answered the key; apply it together with that version."""
        if self.key is None:
            return []
        return [Answered(self.scope, self.key, self.verb, made.id, made.version, made.changed_at)]


class _WrongVersionError(SalienceError):
    """The memory is not at the required version; unlike a `StaleError`, no retry helps."""


def once(services: Services, request: Request, attempt: Callable[[], Receipt]) -> Receipt:
    """Return the receipt of `attempt`, or the first receipt if the key of the request was answered before.

    `attempt` is called again if another writer was faster, as in `retry_stale`.

    Raises:
        StaleError: the memory is not at the required version; nothing was written.
        ConflictError: the key was used with a different verb or memory.
        NotFoundError: the memory is not visible.
    """

    def try_once() -> Receipt:
        first = _first_receipt(services, request)
        if first is not None:
            return first
        try:
            return attempt()
        except SalienceError:  # another process, or a commit whose connection broke, may have answered meanwhile
            first = _first_receipt(services, request)
            if first is None:
                raise
            return first

    try:
        return retry_stale(try_once)
    except _WrongVersionError as error:
        raise StaleError(str(error)) from None


def _first_receipt(services: Services, request: Request) -> Receipt | None:
    known = None if request.key is None else services.store.answered(request.scope, request.key)
    if known is None:
        return None
    versions = [stored.memory for stored in versions_of(services, request.scope, request.id)]
    if (known.verb, known.id) != (request.verb, versions[-1].id):
        raise ConflictError(
            f"key: {shown(request.key)} already belongs to: {known.verb} memory {short_id(known.id)}. Use a new key."
        )
    made = next((memory for memory in versions if memory.version == known.version), versions[-1])
    return Receipt(made, _STATUS[request.verb])


def versions_of(services: Services, scope: Scope, id: str) -> list[Stored]:
    """Return the versions of a visible memory, live or not, oldest first; at least one.

    Raises:
        NotFoundError: no such memory is visible.
    """
    found = services.store.history(scope, checks.name("id", id))
    if not found:
        raise NotFoundError(id)
    return found


def update(
    services: Services,
    profile: Profile,
    scope: Scope,
    id: str,
    changes: Mapping[str, Any],
    reason: str | None = None,
    *,
    if_version: int | None = None,
    key: str | None = None,
) -> Receipt:
    """Write the next version of a memory and return its receipt; earlier versions are kept.

    New content gets a new vector, and new entities unless they are given; if the embedder fails, the memory is pending.
    `updated_at` becomes now. Reflections of the memory become stale.

    Args:
        services: the ports.
        profile: how recalls rank.
        scope: of the caller.
        id: of a visible memory.
        changes: new values of fields of `Draft`; `UNSET` leaves a field unchanged.
        reason: why, for the history.
        if_version: version that the memory must be at; None: any.
        key: idempotency key.

    Raises:
        InputError: nothing to change, or an invalid value.
        NotFoundError: no such memory is visible.
        StaleError: the memory is at another version.
        ConflictError: the key was used with a different verb or memory.
    """
    given = {name: value for name, value in changes.items() if value is not UNSET}
    if not given:
        remedy = f"Give at least one of: {', '.join(sorted(changes))}."
        raise InputError("update", Words("no field"), remedy, "names nothing to change")
    request = Request(scope, "update", id, key, if_version, reason)

    def attempt(embeds: bool = True) -> Receipt:
        old, now = get_memory(services, scope, id), services.clock()
        request.check_version(old)
        new = replace(_updated(services, old, given, now), changed_by=scope.who, reason=reason)
        has_new_text = new.content != old.content
        embedded, failure = try_embed(services, [new.content]) if has_new_text and embeds else (None, None)
        derived = derive(services, new)
        change = Revise(
            new,
            embedded[0].vector if embedded else None,
            derived.terms,
            "importance" in given,
            derived.distinctions,
            unembeds=has_new_text and embedded is None,
            event=derived.event,
            tokens=embedded[0].tokens if embedded else None,
        )
        stale_reflections = stale(services, [old], now, by=scope.who) if has_new_text else []
        replaced = replaced_facts(services, profile, [new], stored_facts(services, [new]), now)[0]
        receipt = services.store.apply([change, *stale_reflections, *request.answer(new)])[0]
        lines = [*([failure] if failure else []), *([replacement_warning(new, replaced)] if replaced else [])]
        return replace(receipt, superseded=replaced, warning="\n".join(lines) or None)

    try:
        return once(services, request, attempt)
    except (MovedError, EmbedderError) as error:  # the store, or its check of the model, refuses vectors for now
        receipt = once(services, request, lambda: attempt(embeds=False))
        return replace(receipt, warning="\n".join((str(error), *([receipt.warning] if receipt.warning else []))))


def _updated(services: Services, old: Memory, given: Mapping[str, Any], now: datetime) -> Memory:
    """Return the next version of a memory, with the given fields cleaned as those of a new memory."""
    has_content = "content" in given
    fields = {name: getattr(old, name) for name in ("content", "kind", "importance", "weight", "tier")}
    fields |= {"fact_key": None if has_content else old.fact_key, "entities": None if has_content else (), **given}
    fresh = clean(services, Draft(**fields, scope=old.scope, speaker=old.speaker), now)
    if has_content and "fact_key" not in given:
        found = services.extractor.extract(old.content, speaker=old.speaker, user_id=user_of(old.scope))
        if old.fact_key in (None, project_fact_key(found.fact_key, old.scope)):
            fresh = with_facts(services, [fresh])[0]
        else:  # one request for both texts: a key that the reader does not find in the old text is the caller's
            before, after = read_facts(services, [old, fresh])
            fact_key = old.fact_key if before != old.fact_key else fresh.fact_key or after
            fresh = replace(fresh, fact_key=fact_key)
    return old.changed(
        "update",
        now,
        content=fresh.content,
        content_hash=fresh.content_hash,
        kind=fresh.kind,
        importance=fresh.importance,
        weight=fresh.weight,
        tags=fresh.tags if "tags" in given else old.tags,  # older versions may exceed the limits of today
        entities=fresh.entities if {"entities", "content"} & given.keys() else old.entities,
        fact_key=given.get("fact_key", fresh.fact_key if has_content else old.fact_key),
        metadata=_with_dismissals(old, fresh.metadata) if "metadata" in given else old.metadata,
        tier=fresh.tier,
        tier_since=old.tier_since if fresh.tier == old.tier else now,
        expires_at=fresh.expires_at if "ttl" in given else old.expires_at,
        updated_at=now,
    )


def _with_dismissals(old: Memory, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return new metadata with the dismissals of the old, unless the new names them itself."""
    if DISMISSED not in old.metadata or DISMISSED in given:
        return given
    return checks.metadata("metadata", {**given, DISMISSED: old.metadata[DISMISSED]})


def forget(
    services: Services,
    scope: Scope,
    id: str,
    reason: str | None = None,
    *,
    if_version: int | None = None,
    key: str | None = None,
) -> Receipt:
    """Hide a memory from every recall and return its receipt; all versions are kept.

    The arguments and errors are those of `update`.
    """
    request = Request(scope, "forget", id, key, if_version, reason)

    def attempt() -> Receipt:
        memory, now = get_memory(services, scope, id), services.clock()
        request.check_version(memory)
        gone = memory.changed("forget", now, by=scope.who, reason=reason, forgotten_at=now)
        stale_reflections = stale(services, [memory], now, by=scope.who, reason="a source was forgotten")
        return services.store.apply([Revise(gone), *stale_reflections, *request.answer(gone)])[0]

    return once(services, request, attempt)


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
    """Write an older version of a memory as its next version and return its receipt.

    The vector and tokens of the older version are used again; without a vector, the memory is pending. The reflection
    of the memory becomes stale if the text changes or was hidden.

    The arguments are those of `update`; `version` None restores the last live version of a hidden memory.

    Raises:
        InputError: the version does not exist, was hidden itself or is the live one; or None for a live memory.
        NotFoundError: no such memory is visible.
        ConflictError: the key was used with a different verb or memory.
    """
    number = None if version is None else checks.whole("version", version, 1, MAX_VERSION)
    request = Request(scope, "restore", id, key, reason=reason)

    def attempt(embeds: bool = True) -> Receipt:
        versions, now = versions_of(services, scope, id), services.clock()
        then, old = _version_to_restore(versions, number), versions[-1]
        has_expired = then.memory.expires_at is not None and then.memory.expires_at <= now
        new = old.memory.changed(
            "restore",
            now,
            by=scope.who,
            reason=reason,
            **{name: getattr(then.memory, name) for name in RESTORED},
            tier_since=old.memory.tier_since if then.memory.tier == old.memory.tier else now,
            expires_at=None if has_expired else then.memory.expires_at,
            forgotten_at=None,
            updated_at=then.memory.updated_at if number is None else now,  # naming a version counts as an update
        )
        has_new_text = new.content_hash != old.memory.content_hash
        vector = then.vector if embeds and (has_new_text or old.vector is None) else None
        derived = derive(services, new)  # speaker and date, which terms include, are those of the current version
        change = Revise(
            new,
            vector,
            derived.terms,
            sets_importance=True,
            distinctions=derived.distinctions,
            unembeds=has_new_text and vector is None,
            tokens=then.tokens,
            event=derived.event,
        )
        stale_reflections: list[Revise] = []
        if old.memory.forgotten_at is not None or has_new_text:
            of_memory = stale(services, [old.memory], now, by=scope.who, reason="a source was restored")
            stale_reflections = [one for one in of_memory if new.id in one.memory.sources]
        replaced = replaced_facts(services, profile, [new], stored_facts(services, [new]), now)[0]
        receipt = services.store.apply([change, *stale_reflections, *request.answer(new)])[0]
        lines = [
            *([PENDING] if change.unembeds else []),
            *([OUTDATED] if new.sources else []),
            *(REPLACED.format(id=short_id(other)) for other in _successors(services, scope, new.id, now)),
            *([replacement_warning(new, replaced)] if replaced else []),
        ]
        return replace(receipt, superseded=replaced, warning=" ".join(lines) or None)

    try:
        return once(services, request, attempt)
    except (MovedError, EmbedderError):  # the store, or its check of the model, refuses vectors for now
        return once(services, request, lambda: attempt(embeds=False))


def _version_to_restore(versions: Sequence[Stored], number: int | None) -> Stored:
    """Return the version of a number; without a number, the last live version of a hidden memory."""
    current = versions[-1].memory
    is_live = current.forgotten_at is None
    others = [stored for stored in versions[:-1] if stored.memory.forgotten_at is None]
    if number is None and not is_live:
        return others[-1] if others else versions[-1]  # the hidden version holds all fields of the live one
    found = [stored for stored in others if stored.memory.version == number]
    if found:
        return found[0]
    runs: list[list[int]] = []
    for stored in others:
        if runs and stored.memory.version == runs[-1][-1] + 1:
            runs[-1].append(stored.memory.version)
        else:
            runs.append([stored.memory.version])
    numbers = (f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
    remedy = f"Name one of these: {', '.join(numbers)}." if others else "There is no other version of it."
    if number is None:
        raise InputError("version", None, remedy, "is missing, and the memory is live")
    if number == current.version and is_live:
        raise InputError("version", number, remedy, f"{number} is live")
    was_hidden = number in [stored.memory.version for stored in versions]
    raise InputError(
        "version", number, remedy, f"{shown(number)} {'was hidden from recalls' if was_hidden else 'does not exist'}"
    )


def _successors(services: Services, scope: Scope, id: str, now: datetime) -> list[str]:
    """Return the id of the memory that is current instead of a live one, as recalls of the scope see it, if any."""
    need = Need(scope=scope, now=now, columns=frozenset({"code", "successor"}))
    if not (services.store.gather(replace(need, ids=(id,)))["successor"] >= 0).any():
        return []  # the usual case, without a read of the whole scope
    batch = services.store.gather(need)
    successors = batch["successor"][batch.ids == id]
    return [str(other) for other in batch.ids[np.isin(batch["code"], successors[successors >= 0])]]
