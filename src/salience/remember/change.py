"""Changes to memories that are there: update and forget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from salience.errors import EmbedderError, InputError, MovedError, Words
from salience.ports import Revise, Services
from salience.rank.profile import Profile
from salience.records import UNSET, Draft, Memory, Receipt, Scope, checks
from salience.remember.answering import Request, answered
from salience.remember.clean import bare, clean, of_home
from salience.remember.facts import facts, with_facts
from salience.remember.staleness import stale
from salience.remember.story import facts_there, replaced_facts, replaces
from salience.steps import get_memory, try_embed


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
    """Put a new version in the place of a memory and return its receipt; the version before it is kept.

    A new content is embedded anew, and read anew for entities unless they are given; where the embedder fails, the
    memory is pending. `updated_at` becomes now. A reflection of the memory is stale from now on. Where this makes the
    memory the latest of its fact, the receipt names the one that it replaces.

    Args:
        services: the ports.
        profile: how recalls rank, and so what they leave out.
        scope: who asks.
        id: of a visible memory.
        changes: fields of `Draft` to their new values; `UNSET` leaves a field as it is.
        reason: why, for the history.
        if_version: the version that the memory has to be at; None: any.
        key: idempotency key; a retry under it writes nothing, and is told the same.

    Raises:
        InputError: nothing to change, or a value that cannot be accepted.
        NotFoundError: no such memory is visible.
        StaleError: the memory is at another version.
        ConflictError: the key stands for something else.
    """
    given = {name: value for name, value in changes.items() if value is not UNSET}
    if not given:
        remedy = f"Give at least one of: {', '.join(sorted(changes))}."
        raise InputError("update", Words("no field"), remedy, "names nothing to change")

    why = said_why(reason)
    request = Request(scope, "update", id, key, if_version)

    def attempt(embeds: bool = True) -> Receipt:
        old, now = get_memory(services, scope, id), services.clock()
        request.require(old)
        new = replace(_revised(services, old, given, now), changed_by=scope.who, reason=why)
        said_anew = new.content != old.content
        vectors, failure = try_embed(services, [new.content]) if said_anew and embeds else (None, None)
        read = bare(services, new)
        change = Revise(
            new,
            None if vectors is None else vectors[0],
            read.terms,
            "importance" in given,
            read.distinctions,
            unembeds=said_anew and vectors is None,
        )
        outdated = stale(services, [old], now, by=scope.who) if said_anew else []
        (older,) = replaced_facts(services, profile, [new], facts_there(services, [new]), now)
        receipt = services.store.apply([change, *outdated, *request.noted(new)])[0]
        said = [*([failure] if failure else []), *([replaces(new, older)] if older else [])]
        return replace(receipt, superseded=older, warning="\n".join(said) or None)

    try:
        return answered(services, request, attempt)
    except (MovedError, EmbedderError) as error:  # the store, or its check of the model, takes no vectors now
        receipt = answered(services, request, lambda: attempt(embeds=False))
        return replace(receipt, warning="\n".join((str(error), *([receipt.warning] if receipt.warning else []))))


def _revised(services: Services, old: Memory, given: Mapping[str, Any], now: datetime) -> Memory:
    kept = {name: getattr(old, name) for name in ("content", "kind", "importance", "weight", "tier")}
    kept |= {"fact_key": None if "content" in given else old.fact_key}
    fields = {**kept, "entities": None if "content" in given else (), **given}
    fresh = clean(services, Draft(**fields, scope=old.scope, speaker=old.speaker), now)
    if "content" in given and "fact_key" not in given:
        fresh = _with_fact(services, old, fresh)
    return old.changed(
        "update",
        now,
        content=fresh.content,
        content_hash=fresh.content_hash,
        kind=fresh.kind,
        importance=fresh.importance,
        weight=fresh.weight,
        tags=fresh.tags if "tags" in given else old.tags,  # what an older version stored may be over a limit of today
        entities=fresh.entities if {"entities", "content"} & given.keys() else old.entities,
        fact_key=given.get("fact_key", fresh.fact_key if "content" in given else old.fact_key),
        metadata=fresh.metadata if "metadata" in given else old.metadata,
        tier=fresh.tier,
        tier_since=old.tier_since if fresh.tier == old.tier else now,
        expires_at=fresh.expires_at if "ttl" in given else old.expires_at,
        updated_at=now,
    )


def _with_fact(services: Services, old: Memory, fresh: Memory) -> Memory:
    """Return a memory with a new text and the fact of that text; a fact that its caller named stays as it is.

    It was named unless it can be read from the old text. The reader of facts is asked about both texts at once.
    """
    if old.fact_key is None or old.fact_key == _by_rules(services, old):
        return with_facts(services, [fresh])[0]
    before, after = facts(services, [old, fresh])
    if before != old.fact_key:
        return replace(fresh, fact_key=old.fact_key)
    return fresh if fresh.fact_key is not None else replace(fresh, fact_key=after)


def _by_rules(services: Services, memory: Memory) -> str | None:
    user = memory.scope.user_id if isinstance(memory.scope.user_id, str) else None
    found = services.extractor.extract(memory.content, speaker=memory.speaker, user_id=user)
    return of_home(found.fact_key, memory.scope)


def said_why(reason: str | None) -> str | None:
    """Return a reason, checked to be a short text; None for none.

    Raises:
        InputError: something else.
    """
    return None if reason is None else checks.name("reason", reason)


def forget(
    services: Services,
    scope: Scope,
    id: str,
    reason: str | None = None,
    *,
    if_version: int | None = None,
    key: str | None = None,
) -> Receipt:
    """Take a memory out of every recall and return its receipt; all its versions are kept.

    `reason` is kept with the version, for the history; `if_version` and `key` are as in `update`.

    Raises:
        NotFoundError: no such memory is visible.
        StaleError: the memory is at another version.
        ConflictError: the key stands for something else.
    """
    request = Request(scope, "forget", id, key, if_version)

    def attempt() -> Receipt:
        memory, now = get_memory(services, scope, id), services.clock()
        request.require(memory)
        gone = memory.changed("forget", now, by=scope.who, reason=said_why(reason), forgotten_at=now)
        outdated = stale(services, [memory], now, by=scope.who, reason="a source was forgotten")
        return services.store.apply([Revise(gone), *outdated, *request.noted(gone)])[0]

    return answered(services, request, attempt)
