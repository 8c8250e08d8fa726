"""Facts and texts that are already stored: which memory is the current one of a fact, and which text repeats one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime
from typing import Final

from salience.extract.distinctions import stated_time
from salience.ports import Need, Services, Stored
from salience.records import LIKELY, Draft, Filter, Memory, Scope
from salience.records.ids import ONCE
from salience.remember.conflicts import DISMISSED, Near
from salience.steps import scan
from salience.text import same_text

SUPERSEDED_WEIGHT: Final = 0.1
"""Weight of a superseded memory. Source: mememory, Memory Weight."""
FACT_STAGES: Final = frozenset({"replaced", "same_fact"})
"""Ranking stages that rank the latest memory of a fact before the others, or drop these."""
COMPARED: Final = ("kind", "importance", "weight", "tier", "tags", "entities", "fact_key", "metadata")
"""Fields that make a draft different from an old memory of the same text, if the caller gave them."""
Fact = tuple[object, ...]
"""User id and fact key."""
Facts = Mapping[Fact, Sequence[Memory]]
"""The memories of each fact, the latest last."""


def fact_of(memory: Memory) -> Fact:
    """Return the fact that a memory states."""
    return memory.scope.user_id, memory.fact_key


def recency(memory: Memory) -> tuple[datetime, str]:
    """Return the sort key of the memories of a fact; the last one is current."""
    return memory.updated_at, memory.id


def stored_facts(services: Services, memories: Sequence[Memory]) -> Facts:
    """Return the memories in the store, live and not expired, that state the same facts as the new ones."""
    now = services.clock()
    keys: dict[Scope, set[str]] = {}
    for memory in memories:
        if memory.fact_key is not None:
            keys.setdefault(memory.scope.without_session, set()).add(memory.fact_key)
    found: dict[Fact, dict[str, Memory]] = {}
    for home, named in keys.items():
        for item in scan(services, home, Filter(fact_keys=sorted(named))):
            if item.memory.is_live(now):
                found.setdefault(fact_of(item.memory), {})[item.memory.id] = item.memory
    return {fact: sorted(memories.values(), key=recency) for fact, memories in found.items()}


def same_fact(memory: Memory, facts: Facts) -> list[Memory]:
    """Return the visible memories of the fact of a memory that are older than it, the latest last."""
    others = facts.get(fact_of(memory), ()) if memory.fact_key is not None else ()
    return [older for older in others if memory.scope.sees(older.scope) and recency(older) < recency(memory)]


def with_written(facts: Facts, memories: Sequence[Memory]) -> Facts:
    """Return the facts with more memories, which are about to be stored."""
    found = {fact: {one.id: one for one in of_fact} for fact, of_fact in facts.items()}
    for memory in memories:
        if memory.fact_key is not None:
            found.setdefault(fact_of(memory), {})[memory.id] = memory
    return {fact: sorted(of_fact.values(), key=recency) for fact, of_fact in found.items()}


def current(
    services: Services, scope: Scope, ids: Sequence[str], now: datetime, least: float = LIKELY
) -> frozenset[str]:
    """Return the ids of live memories that no other memory replaces with at least a probability of `least`, above 0."""
    if not ids:
        return frozenset()
    columns = frozenset({"replaced"})
    batch = services.store.gather(Need(scope=scope.without_session, now=now, columns=columns, ids=tuple(ids)))
    is_replaced = (batch["replaced"] > 0) & (batch["replaced"] >= least)
    return frozenset(batch.ids[~is_replaced].tolist())


def repeats(
    services: Services,
    drafts: Sequence[Draft],
    prepared: Sequence[Stored],
    near: Sequence[Near],
    retried: Set[str],
    now: datetime,
) -> dict[int, Memory]:
    """Return position -> current memory, for each new memory that repeats one in the store or earlier in the call.

    A memory repeats another one of the same scope that has the same text, of the same time if its words depend on when
    they were said ("yesterday"), and every field that the caller gave. "The same text" is closer than the same
    statement of the stage `same_statement`, since a repeated text is not stored, and a full stop or a capital could not
    be read any more.
    Conversation turns never repeat one another, and neither do memories whose id is in `retried`: they will not be
    stored. `near` holds the neighbours of each new memory in the store.
    """
    texts = [same_text(item.memory.content) for item in prepared]
    candidates = [
        []
        if item.memory.id in retried
        else [old for _, old in found if same_text(old.content) == text and _is_repeat(draft, item.memory, old)]
        for draft, item, text, found in zip(drafts, prepared, texts, near, strict=True)
    ]
    ids: dict[Scope, dict[str, None]] = {}
    for item, found in zip(prepared, candidates, strict=True):
        ids.setdefault(item.memory.scope.without_session, {}).update((old.id, None) for old in found)
    live = {old for home, named in ids.items() for old in current(services, home, list(named), now)}
    same: dict[int, Memory] = {}
    by_text: dict[str, list[tuple[int, Memory]]] = {}
    latest_of_fact: dict[Fact, int] = {}
    superseded: set[str] = set()
    for position, (draft, item, text) in enumerate(zip(drafts, prepared, texts, strict=True)):
        new = item.memory
        if new.id in retried:
            continue
        before = [(-1, old) for old in candidates[position] if old.id in live]
        before += [(at, other) for at, other in by_text.get(text, ()) if _is_repeat(draft, new, other)]
        for at, old in reversed(before):
            is_latest = old.fact_key is None or latest_of_fact.get(fact_of(old), at) == at
            if is_latest and superseded.isdisjoint((old.id, old.short_id)):
                same[position] = old
                break
        else:
            by_text.setdefault(text, []).append((position, new))
            if new.supersedes:
                superseded.add(new.supersedes)
            if new.fact_key is not None:
                latest_of_fact[fact_of(new)] = position
    return same


def _is_repeat(draft: Draft, new: Memory, old: Memory) -> bool:
    """Return whether an older memory of the same text holds all that a draft says."""
    if draft.duplicate or (draft.key is not None and not draft.key.startswith(ONCE)):
        return False
    if any(value is not None for value in (draft.created_at, draft.supersedes, draft.ttl, old.expires_at)):
        return False
    if "turn" in (new.kind, old.kind) or old.kind == "reflection" or new.speaker != old.speaker:
        return False
    is_elsewhere = new.scope.without_session != old.scope.without_session
    if is_elsewhere or new.scope.session_id not in (None, old.scope.session_id):
        return False
    if old.weight <= SUPERSEDED_WEIGHT and new.weight != old.weight:  # the memory that superseded it was forgotten
        return False
    given = draft.given
    named = [name for name in COMPARED if name in given and getattr(draft, name) is not None]
    if DISMISSED in old.metadata:
        old = replace(old, metadata={name: value for name, value in old.metadata.items() if name != DISMISSED})
    if any(getattr(new, name) != getattr(old, name) for name in named):
        return False
    return stated_time(new.content, new.created_at) == stated_time(old.content, old.created_at)
