"""Changes of stored memories: update, forget and restore, each at most once per idempotency key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal

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
from salience.ports import Answered, Derive, Revise, Selection, Services, Stored
from salience.rank.profile import Profile
from salience.records import CALLER, CHANGEABLE, FACT, LIKELY, UNSET, Draft, Memory, Receipt, Relation, Scope, checks
from salience.records.ids import short_id
from salience.relations import MOST, replacements, surest_first
from salience.remember.conflicts import DISMISSED, Near, neighbours
from salience.remember.drafts import clean, derive, project_fact_key, user_of
from salience.remember.facts import current, recency, stored_facts, with_written
from salience.remember.llm import read_facts, with_facts
from salience.remember.write import (
    SUPERSEDED_BY,
    decide,
    related,
    replacement_warnings,
    stale,
    superseded_by,
    superseded_memory,
    weight_before,
)
from salience.steps import get_memory, retry_stale, try_embed

MAX_VERSION: Final = 2**62
RESTORED: Final = (
    "content", "content_hash", "kind", "importance", "weight", "tier", "tags", "entities", "fact_key", "supersedes",
    "metadata", "sources",
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
    `updated_at` becomes now. Reflections of the memory become stale. `supersedes` means what it means to `remember`.

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
        NotFoundError: no such memory is visible, or not the superseded one from its scope.
        StaleError: the memory is at another version.
        ConflictError: the key was used with a different verb or memory.
    """
    given = {name: value for name, value in changes.items() if value is not UNSET}
    if not given:
        remedy = f"Give at least one of: {', '.join(CHANGEABLE)}."
        raise InputError("update", Words("no field"), remedy, "names nothing to change")
    request = Request(scope, "update", id, key, if_version, reason)

    def attempt(embeds: bool = True) -> Receipt:
        now = services.clock()
        old = get_memory(services, scope, id, now)
        request.check_version(old)
        new = replace(_updated(services, old, given, now), changed_by=scope.who, reason=reason)
        new, links = _superseding(services, old, new, now, scope.who) if "supersedes" in given else (new, [])
        has_new_text = new.content != old.content
        embedded, failure = try_embed(services, [new.content]) if has_new_text and embeds else (None, None)
        derived = derive(services, new)
        others, released = list[Derive](), list[Revise]()
        if has_new_text or "fact_key" in given:
            vector = embedded[0].vector if embedded else None
            has_key = "fact_key" in given or _has_key(old)
            item = replace(derived, memory=new, vector=vector)
            new, others, released = _related(services, profile, item, old, has_key, now)
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
        revised = [*released, *links, *(stale(services, [old], now, by=scope.who) if has_new_text else [])]
        revised = list({one.memory.id: one for one in revised}.values())
        receipt = services.store.apply([change, *revised, *request.answer(new), *others])[0]
        has_changed = new.relations != old.relations
        lines = [*([failure] if failure else []), *(replacement_warnings(profile, new) if has_changed else [])]
        replaced = superseded_by(profile, new, stored_facts(services, [new])) if has_changed else None
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
        supersedes=given.get("supersedes", old.supersedes),
        metadata=_with_dismissals(old, fresh.metadata) if "metadata" in given else old.metadata,
        tier=fresh.tier,
        tier_since=old.tier_since if fresh.tier == old.tier else now,
        expires_at=fresh.expires_at if "ttl" in given else old.expires_at,
        updated_at=now,
    )


def _superseding(
    services: Services, old: Memory, new: Memory, now: datetime, by: str | None
) -> tuple[Memory, list[Revise]]:
    """Return a changed memory with the relation that its new `supersedes` states, and the changes of other memories.

    The changed memory is the latest statement: none replaces it any more, except one that supersedes it. The memory
    that it superseded before gets its weight back.
    """
    relations = tuple(one for one in old.relations or () if not (one.hides and one.id == old.supersedes))
    if new.supersedes is None:
        return replace(new, relations=None if old.relations is None else relations), _freed(services, old, new, by)
    target = superseded_memory(services, new.scope, new.supersedes)
    if target.id == new.id:
        raise InputError("supersedes", new.supersedes, "Name another memory.", "is the memory itself")
    (revised, (item,)) = decide(services, [Stored(new, None, (), {})], now, by, frozenset())
    said = Relation(target.id, "replaces", 1.0, CALLER, "supersedes")
    memory = replace(item.memory, relations=(said, *(one for one in relations if one.id != target.id)))
    freed = _freed(services, old, item.memory, by)
    released = _released(_replacing(services, memory, now), memory, True)
    changes = {one.memory.id: one for one in (*released, *freed, *revised) if one.memory.id != new.id}
    backwards = tuple(one for one in target.relations or () if one.id != new.id)
    if target.is_live(now) and backwards != (target.relations or ()):
        reason = SUPERSEDED_BY.format(new.short_id)
        made = changes[target.id].memory if target.id in changes else target.changed("update", now, reason=reason)
        kept = None if target.supersedes == new.id else target.supersedes
        changes[target.id] = Revise(replace(made, relations=backwards, supersedes=kept, changed_by=by))
    return memory, list(changes.values())


def _freed(services: Services, old: Memory, new: Memory, by: str | None) -> list[Revise]:
    """Return the change that gives a memory its weight back that a changed memory no longer supersedes."""
    if old.supersedes in (None, new.supersedes):
        return []
    reason = f"no longer superseded by {new.short_id}"
    return [
        Revise(one.changed("update", new.changed_at, by=by, reason=reason, weight=weight))
        for one in services.store.fetch(new.scope, [old.supersedes])
        if one.is_live(new.changed_at) and (weight := weight_before(services, one, old)) != one.weight
    ]


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
        now = services.clock()
        memory = get_memory(services, scope, id, now)
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
        then, old = _version_to_restore(versions, number, now), versions[-1]
        has_expired = then.memory.expires_at is not None and then.memory.expires_at <= now
        new = old.memory.changed(
            "restore",
            now,
            by=scope.who,
            reason=reason,
            **{name: getattr(then.memory, name) for name in RESTORED},
            **({} if number is None else {"relations": then.memory.relations}),
            tier_since=old.memory.tier_since if then.memory.tier == old.memory.tier else now,
            expires_at=None if has_expired else then.memory.expires_at,
            forgotten_at=None,
            updated_at=then.memory.updated_at if number is None else now,  # naming a version counts as an update
        )
        has_new_text = new.content_hash != old.memory.content_hash
        vector = then.vector if embeds and (has_new_text or old.vector is None) else None
        derived = derive(services, new)  # speaker and date, which terms include, are those of the current version
        others, released = list[Derive](), list[Revise]()
        stored = replace(derived, memory=new, vector=then.vector if embeds else None)
        if number is None:
            new = replace(new, relations=_still_older(services, new))
            others = _later(services, profile, replace(stored, memory=new), now)
        elif has_new_text or new.fact_key != old.memory.fact_key:
            new, others, released = _related(services, profile, stored, old.memory, _has_key(then.memory), now)
        else:  # the relations of the same text are those of today: an older version may know less
            new = replace(new, relations=old.memory.relations)
            if new.supersedes != old.memory.supersedes:
                if new.supersedes is not None and not services.store.fetch(new.scope, [new.supersedes]):
                    new = replace(new, supersedes=None)
                new, released = _superseding(services, old.memory, new, now, scope.who)
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
        others_changed = _freed(services, old.memory, new, scope.who)
        if not old.memory.is_live(now) or has_new_text:
            of_memory = stale(services, [old.memory], now, by=scope.who, reason="a source was restored")
            others_changed += [one for one in of_memory if new.id in one.memory.sources]
        others_changed = list({one.memory.id: one for one in (*released, *others_changed)}.values())
        receipt = services.store.apply([change, *others_changed, *request.answer(new), *others])[0]
        newer = replacements(services, scope, [new.id], now).get(new.id)
        replaced = superseded_by(profile, new, stored_facts(services, [new])) if number is not None else None
        lines = [
            *([PENDING] if change.unembeds else []),
            *([OUTDATED] if new.sources else []),
            *([REPLACED.format(id=newer.short_id)] if newer and newer.probability >= LIKELY else []),
            *(replacement_warnings(profile, new) if replaced else []),
        ]
        return replace(receipt, superseded=replaced, warning=" ".join(lines) or None)

    try:
        return once(services, request, attempt)
    except (MovedError, EmbedderError):  # the store, or its check of the model, refuses vectors for now
        return once(services, request, lambda: attempt(embeds=False))


def _version_to_restore(versions: Sequence[Stored], number: int | None, now: datetime) -> Stored:
    """Return the version of a number; without a number, the last live version of a hidden memory."""
    current = versions[-1].memory
    is_live = current.is_live(now)
    others = [stored for stored in versions if stored.memory.forgotten_at is None]
    others = others[:-1] if is_live else others  # an expired memory may be hidden by no version
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


def _related(
    services: Services, profile: Profile, new: Stored, old: Memory, has_key: bool, now: datetime
) -> tuple[Memory, list[Derive], list[Revise]]:
    """Return a changed memory with its relations, those of later ones to it, and the changes of what it is freed from.

    A new text is the latest statement about its subject, and a new fact key the latest one of its fact, but replaces
    nothing that is as new as the memory that supersedes it. With the same text, only the relations that facts give are
    decided again.
    """
    memory, has_new_text = replace(new.memory, supersedes=None), new.memory.content_hash != old.content_hash
    facts = with_written(stored_facts(services, [memory]), [memory])
    near: Near = []
    if has_new_text:
        (near,) = neighbours(services, profile, [replace(new, memory=memory)], now)
        near = [pair for pair in near if pair[1].id != memory.id]
    newer = _replacing(services, memory, now)
    heirs = [one for one in newer if one.supersedes == memory.id]
    if heirs:
        first = min(map(recency, heirs))
        near = [pair for pair in near if recency(pair[1]) < first]
        facts = {fact: [one for one in held if recency(one) < first] for fact, held in facts.items()}
    ((made,), later) = related(services, [replace(new, memory=memory)], [near], facts, [has_key])
    kept = [one for one in old.relations or () if not (has_new_text or _is_of_fact(one, old))]
    kept += [one for one in new.memory.relations or () if one.hides and one.id == new.memory.supersedes]
    found = surest_first({one.id: one for one in (*(made.memory.relations or ()), *kept)}.values())
    is_undecided = new.vector is None if has_new_text else old.relations is None
    is_latest = has_new_text or any(one.kind == "replaces" for one in made.memory.relations or ())
    made_new = replace(new.memory, relations=None if is_undecided and not found else found)
    return made_new, later, _released(newer, memory, is_latest)


def _replacing(services: Services, memory: Memory, now: datetime) -> Sequence[Memory]:
    """Return the memories that replace one, at any probability."""
    if len(current(services, memory.scope, [memory.id], now, 0.0)):
        return []
    linked = services.store.browse(Selection(scope=memory.scope, linked_to=(memory.id,)), "id", MOST)
    return [one for one in linked if memory.id in (one.supersedes, *one.replaced_ids)]


def _released(newer: Sequence[Memory], memory: Memory, is_latest: bool) -> list[Revise]:
    """Return the changes to memories after which none replaces a changed one, except one that supersedes it.

    Unless the changed memory is the latest statement, only relations of facts end.
    """
    changes = []
    for one in newer:
        kept = tuple(
            link for link in one.relations or ()
            if link.id != memory.id or one.supersedes == memory.id
            or not (is_latest or _is_of_fact(link, one))
        )  # fmt: skip
        if kept != (one.relations or ()):
            reason, now = f"no longer replaces {memory.short_id}", memory.changed_at
            changes.append(Revise(one.changed("update", now, by=memory.changed_by, reason=reason, relations=kept)))
    return changes


def _still_older(services: Services, memory: Memory) -> tuple[Relation, ...] | None:
    """Return the relations of a restored memory, without those to memories that were updated while it was hidden."""
    if not memory.relations:
        return memory.relations
    found = services.store.fetch(memory.scope, [one.id for one in memory.relations if one.id != memory.supersedes])
    updated = {one.id for one in found if recency(one) > recency(memory)}
    return tuple(one for one in memory.relations if one.id not in updated)


def _later(services: Services, profile: Profile, restored: Stored, now: datetime) -> list[Derive]:
    """Return the relations to a restored memory of memories that were written while it was hidden."""
    (near,) = neighbours(services, profile, [restored], now)
    near = [pair for pair in near if pair[1].id != restored.memory.id]
    _, later = related(services, [restored], [near], stored_facts(services, [restored.memory]), [False])
    return later


def _is_of_fact(relation: Relation, newer: Memory) -> bool:
    """Return whether a relation of a memory is one that its fact key gives."""
    return relation.by == FACT or (relation.hides and relation.id != newer.supersedes)


def _has_key(memory: Memory) -> bool:
    """Return whether a caller gave the fact key of a memory, as far as its relations tell."""
    return any(one.hides and one.id != memory.supersedes for one in memory.relations or ())
