"""From a draft to a memory: what the caller left open is filled in, and what its text says is read from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from salience.batch import Vectors32
from salience.errors import InputError
from salience.extract.distinctions import distinctions
from salience.extract.facts import TEAM, slug
from salience.extract.terms import index_terms
from salience.ports import Extract, Services, Stored
from salience.records import Draft, Memory, Scope, checks
from salience.text import content_hash


def clean(services: Services, draft: Draft, now: datetime, caller: Scope | None = None) -> Memory:
    """Return the memory that a draft becomes, with what was left open filled in.

    Args:
        services: the ports.
        draft: what to store.
        now: the instant of the call.
        caller: the scope of the call, where a draft without a scope of its own lives, and who made the version.
    """
    checks.text("content", draft.content, services.content_limit)
    home = _of_tenant(services, draft.scope or caller or Scope()).as_home()
    found = extracted(services, draft, home)
    entities = draft.entities if draft.entities is not None else checks.first_labels(found.entities)
    if draft.speaker and draft.entities is None:
        entities = checks.first_labels(dict.fromkeys((draft.speaker, *entities)))
    created = draft.created_at or now
    return Memory(
        id=services.new_id(now),
        scope=home,
        content=draft.content,
        content_hash=content_hash(draft.content),
        kind=draft.kind,
        importance=draft.importance if draft.importance is not None else found.importance,
        weight=draft.weight,
        tier=draft.tier,
        tags=tuple(draft.tags),
        entities=tuple(entities),
        fact_key=draft.fact_key if draft.fact_key is not None else found.fact_key,
        supersedes=draft.supersedes,
        metadata=draft.metadata,
        key=draft.key,
        speaker=draft.speaker,
        created_at=created,
        updated_at=created,
        tier_since=created,
        changed_at=now,
        changed_by=None if caller is None else caller.who,
        expires_at=expiry(created, draft.ttl),
    )


def _of_tenant(services: Services, scope: Scope) -> Scope:
    """Return a scope with the tenant of the services, which comes with the connection."""
    return scope if scope.tenant == services.tenant else replace(scope, tenant=services.tenant)


def extracted(services: Services, draft: Draft, home: Scope) -> Extract:
    """Return what the text says of itself, as far as the caller left it open.

    A turn of a conversation states no fact by itself: what is said is not yet what is held.
    """
    states_fact = draft.fact_key is None and draft.kind != "turn"
    if draft.importance is not None and draft.entities is not None and not states_fact:
        return Extract(draft.importance, ())
    but_for_fact: Callable[[str], Extract] | None = getattr(services.extractor, "but_for_fact", None)
    if not states_fact and but_for_fact is not None:
        return but_for_fact(draft.content)
    user = home.user_id if isinstance(home.user_id, str) else None
    found = services.extractor.extract(draft.content, speaker=draft.speaker, user_id=user)
    key = of_home(found.fact_key, home) if states_fact else None
    return found if found.fact_key == key else replace(found, fact_key=key)


def of_home(key: str | None, home: Scope) -> str | None:
    """Return the key of a fact that was read, with the project in the team's place: each has a database of its own."""
    if key is None or home.project is None or not key.startswith(f"{TEAM}."):
        return key
    return f"{slug(str(home.project)) or 'project'}{key.removeprefix(TEAM)}"


def expiry(created: datetime, ttl: timedelta | None) -> datetime | None:
    """Return the instant at which a time to live that starts at `created` ends; None for none.

    Raises:
        InputError: it ends beyond the year 9999.
    """
    try:
        return None if ttl is None else created + ttl
    except OverflowError:
        raise InputError("ttl", str(ttl), "Give one that ends before the year 10000, or none.") from None


def bare(
    services: Services, memory: Memory, vector: Vectors32 | None = None, activations: Mapping[str, int] | None = None
) -> Stored:
    """Return the memory with all that is read from its text, and with what is known of the rest."""
    terms, told = read(services, memory)
    return Stored(memory, vector, terms, activations or {}, told)


def read(services: Services, memory: Memory) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the terms and the distinctions of a memory."""
    return index_terms(services.tokeniser, memory), distinctions(memory.content, memory.speaker)
