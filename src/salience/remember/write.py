"""The steps of a write: clean, extract, embed, look for neighbours, decide, apply."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from typing import Final, Literal

import numpy as np

from salience.batch import ROUNDING, approximate_cosines, cosines
from salience.errors import EmbedderError, MovedError, NotFoundError
from salience.pending import catch_up
from salience.ports import LIVE, Add, Derive, Revise, Selection, Services, Stored, Touch, touched
from salience.rank.profile import Profile
from salience.records import CALLER, FACT, LIKELY, Contradiction, Draft, Memory, Receipt, Relation, Scope, checks
from salience.records.ids import short_id
from salience.relations import MOST, NEAREST, relate, surest_first
from salience.remember.conflicts import Near, are_dismissed, conflict_warning, contradictions, neighbours
from salience.remember.drafts import clean, derive
from salience.remember.facts import (
    FACT_STAGES,
    SUPERSEDED_WEIGHT,
    Facts,
    fact_of,
    recency,
    repeats,
    same_fact,
    stored_facts,
    with_written,
)
from salience.remember.llm import judged, with_facts
from salience.steps import retry_stale, try_embed

GONE: Final = "Nothing was stored: the memory of this key {}. To store it again, use a new key."
AGAIN: Final = "Memory {} of this key has expired, so this one was stored."
UPKEEP: Final = "upkeep"
"""Author of changes that no caller asked for."""
PENDING: Final = "Stored without a vector for now: searches find its words, and conflicts were not checked."
SAME: Final = "Nothing new was stored: this memory has the same text. To store it once more, use duplicate=True."
REPLACES: Final = "This {} memory {} ({}); recall {}. To undo that: dismiss(id='{}', other_id='{}')."
OUTRANKS: Final = "ranks it first and marks the other as replaced"
HIDES: Final = "no longer returns that one"
SUPERSEDES: Final = (
    "This supersedes memory {}; recall no longer returns it. To undo that: update(id='{}', supersedes=None)."
)
SUPERSEDED_BY: Final = "superseded by {}"
"""Reason of the version that lowers a weight."""


def remember(
    services: Services, profile: Profile, drafts: Sequence[Draft], scope: Scope, check_existing: bool = True
) -> list[Receipt]:
    """Store drafts in one transaction, all or none, and return a receipt for each, in order.

    If the embedder fails or is late, the memories are stored as pending: searches find their words, and upkeep adds
    the vectors later.

    Args:
        services: the ports.
        profile: sets the similarity above which memories conflict.
        drafts: one without a scope of its own is stored in `scope`.
        scope: of the call.
        check_existing: whether to report conflicts, and store no text twice.

    Raises:
        InputError: an invalid draft.
        NotFoundError: a superseded memory that is not visible.
        ConflictError: an idempotency key that was used with different content.
        PinnedError: the store was written by a different model with the same name; nothing was stored.
        StoreError: the store failed; nothing was stored.
    """
    now = services.clock()
    # 1 clean, 2 extract
    memories = with_facts(services, [clean(services, draft, now, scope) for draft in drafts])
    # 3 embed
    embedded, failure = try_embed(services, [memory.content for memory in memories])
    if embedded is None:
        prepared = [derive(services, memory) for memory in memories]
    else:
        prepared = [
            derive(services, memory, embedding.vector, tokens=embedding.tokens)
            for memory, embedding in zip(memories, embedded, strict=True)
        ]
    if failure is None:
        try:
            receipts = _write(services, profile, drafts, prepared, now, scope, check_existing)
        except (MovedError, EmbedderError) as error:  # the store, or its check of the model, refuses vectors for now
            prepared, failure = [replace(item, vector=None, tokens=None) for item in prepared], str(error)
        else:
            catch_up(services)
            return receipts
    receipts = _write(services, profile, drafts, prepared, now, scope, check_existing=False)
    for position, receipt in enumerate(receipts):
        if receipt.status != "unchanged":
            warning = "\n".join(filter(None, (f"{PENDING} {failure}", receipt.warning)))
            receipts[position] = replace(receipt, status="pending", warning=warning)
    return receipts


def _write(
    services: Services,
    profile: Profile,
    drafts: Sequence[Draft],
    prepared: Sequence[Stored],
    now: datetime,
    scope: Scope,
    check_existing: bool,
) -> list[Receipt]:
    """Store new memories, with the changes that follow from them, in one transaction and return the receipts.

    A repeated text is not stored again; the memory that holds it counts an access. The judge reads the conflicts after
    the commit, so it delays no write and runs only once.
    """

    def attempt() -> list[Receipt]:
        # 4 look: neighbours, idempotency keys and facts in the store
        near = neighbours(services, profile, prepared, now)
        held = held_keys(services, prepared)
        freed = {
            key: held[key]
            for memory in (item.memory for item in prepared if item.memory.is_live(now))
            if (key := _home_and_key(memory)) in held and held[key].seen_at(now).status == "expired"
        }
        retried = retried_ids(prepared, held.keys() - freed.keys())
        same = repeats(services, drafts, prepared, near, retried, now) if check_existing else {}
        positions = [position for position in range(len(prepared)) if position not in same]
        written = [prepared[position].memory for position in positions]
        stored = [memory for memory in written if memory.id not in retried]
        facts = with_written(stored_facts(services, written), stored)
        # 5 decide
        changes, new = decide(services, [prepared[position] for position in positions], now, scope.who, retried)
        changes += hidden(services, list(freed.values()), now, key=None)
        changes = list({change.memory.id: change for change in changes}.values())
        nearby = with_others(new, [near[position] for position in positions], retried)
        keys = [drafts[position].fact_key is not None for position in positions]
        new, derived = related(services, new, nearby, facts, keys, retried)
        conflicts: list[tuple[Contradiction, ...]] = [()] * len(new)
        if check_existing:
            conflicts = contradictions(services, profile, new, [near[position] for position in positions], now)
        counts = Counter(memory.id for memory in same.values())
        touches = {
            memory.id: Touch(memory.scope.without_session, (memory.id,), now, access_count=counts[memory.id], at=now)
            for memory in same.values()
        }
        # 6 apply
        made = services.store.apply([*changes, *map(Add, new), *derived])[len(changes) :]
        for touch in touches.values():
            services.access_log.add(touch)

        by_id = {receipt.memory.id: receipt.memory for receipt in made}
        not_stored = {item.memory.id for item in new} - by_id.keys()
        results: dict[int, Receipt] = {}
        for position, receipt, found in zip(positions, made, conflicts, strict=True):
            if receipt.status == "created":
                superseded = superseded_by(profile, receipt.memory, facts)
                found = tuple(conflict for conflict in found if conflict.memory.id not in not_stored)
                status: Literal["superseded", "created"] = "superseded" if superseded else "created"
                former = freed.get(_home_and_key(receipt.memory))
                again = None if former is None else AGAIN.format(former.short_id)
                receipt = Receipt(receipt.memory, status, found, again, superseded)
            results[position] = receipt
        for position, memory in same.items():
            touched_memory = touched(by_id.get(memory.id, memory), [touches[memory.id]])
            results[position] = Receipt(touched_memory, "unchanged", warning=SAME)
        return [results[position] for position in range(len(prepared))]

    receipts = judged(services, retry_stale(attempt)) if prepared else []
    return [_with_warning(profile, receipt, now) for receipt in receipts]


def with_others(new: Sequence[Stored], near: Sequence[Near], retried: Set[str]) -> list[Near]:
    """Return the neighbours of new memories with those among the memories of the same call, nearest first."""
    found: list[Near] = [list(each) for each in near]
    if len(new) < 2 or any(item.vector is None for item in new):
        return found
    vectors = np.stack([item.vector for item in new if item.vector is not None])
    count = min(NEAREST + 1, len(new))  # each is the nearest to itself
    for position, (item, about) in enumerate(zip(new, approximate_cosines(vectors, vectors), strict=True)):
        close = np.flatnonzero(about >= np.partition(about, -count)[-count] - 2 * ROUNDING)
        alike = cosines(vectors[close], vectors[position])
        nearest = np.argsort(-alike, kind="stable")[:count]
        pairs = zip(alike[nearest].tolist(), close[nearest].tolist(), strict=True)
        home, others = item.memory.scope, [(cosine, new[place].memory) for cosine, place in pairs if place != position]
        found[position] += [pair for pair in others if home.sees(pair[1].scope) and pair[1].id not in retried]
        found[position].sort(key=lambda pair: -pair[0])
    return found


def related(
    services: Services,
    new: Sequence[Stored],
    near: Sequence[Near],
    facts: Facts,
    has_key: Sequence[bool],
    retried: Set[str] = frozenset(),
) -> tuple[list[Stored], list[Derive]]:
    """Return new memories with their relations to older ones; and the relations of stored, later ones to them.

    A memory without a vector has only the relations that its `supersedes` and its fact give; upkeep decides those of
    one that has neither.

    Args:
        services: the ports.
        new: the memories, in the order of the call.
        near: their neighbours in the store and in the call.
        facts: the memories of their facts, in the store and in the call.
        has_key: whether the caller gave a fact key.
        retried: the result of `retried_ids`: these memories will not be stored.
    """
    made, later = list[Stored](), dict[str, tuple[Memory, list[Relation]]]()
    new_ids = {item.memory.id for item in new}
    for item, close, given in zip(new, near, has_key, strict=True):
        memory = item.memory
        if memory.id in retried:
            made.append(item)
            continue
        written = recency(memory)
        older = [pair for pair in close if recency(pair[1]) < written and not are_dismissed(pair[1], memory)]
        before = [one for one in same_fact(memory, facts) if given or not are_dismissed(one, memory)]
        found = relate(services.calibration, memory, older, same_fact=before, has_key=given)
        relations = found if found or item.vector is not None else None
        made.append(replace(item, memory=replace(memory, relations=relations)))
        cosines_of = {one.id: cosine for cosine, one in close}
        of_fact = {one.id: one for one in facts.get(fact_of(memory), ()) if memory.fact_key is not None}
        for newer in ({one.id: one for _, one in close} | of_fact).values():
            if newer.id in new_ids or newer.relations is None or recency(newer) < written:
                continue  # upkeep decides all relations of a memory without any
            if are_dismissed(newer, memory):
                continue
            if memory.scope.sees(newer.scope) and newer.scope.sees(memory.scope):
                pairs = [(cosines_of[newer.id], memory)] if newer.id in cosines_of else []
                links = relate(services.calibration, newer, pairs, same_fact=[memory] if newer.id in of_fact else [])
                later.setdefault(newer.id, (newer, []))[1].extend(
                    replace(link, at=memory.changed_at) for link in links if link.id == memory.id
                )
    changes = [
        Derive.of(one, relations=surest_first({link.id: link for link in (*added, *(one.relations or ()))}.values()))
        for one, added in later.values()
        if added
    ]
    return made, changes


def superseded_by(profile: Profile, memory: Memory, facts: Facts) -> str | None:
    """Return the id of the memory that a new one supersedes, else of the latest one of its fact that it replaces."""
    if memory.supersedes is not None:
        return memory.supersedes
    if FACT_STAGES.isdisjoint(profile.stages):
        return None
    of_fact = {one.id for one in memory.relations or () if one.kind == "replaces" and one.by in (CALLER, FACT)}
    older = [one.id for one in facts.get(fact_of(memory), ()) if one.id in of_fact]
    return older[-1] if older else next(iter(sorted(of_fact, reverse=True)), None)


def decide(
    services: Services,
    prepared: Sequence[Stored],
    now: datetime,
    by: str | None = None,
    retried: Set[str] | None = None,
) -> tuple[list[Revise], list[Stored]]:
    """Return the changes to superseded memories, and the new memories with the whole ids of these.

    The weight of a superseded memory drops to 0.1, and reflections of it become stale. A memory that is private to a
    user or an agent does not change a memory that others share.

    `retried` is the result of `retried_ids`: these memories will not be stored, and supersede nothing. It is read from
    the store if it is omitted.

    Raises:
        NotFoundError: a superseded memory that is not visible from the scope of the new one.
    """
    retried = retried_ids(prepared, held_keys(services, prepared)) if retried is None else retried
    targets: dict[str, Memory] = {}
    changes: dict[str, Revise] = {}
    new: list[Stored] = []
    for item in prepared:
        home, supersedes = item.memory.scope, item.memory.supersedes
        if supersedes is None or item.memory.id in retried:
            new.append(item)
            continue
        target = superseded_memory(services, home, supersedes)
        new.append(replace(item, memory=replace(item.memory, supersedes=target.id)))
        is_private = (home.user_id is not None and target.scope.user_id is None) or (
            home.agent_id is not None and target.scope.agent_id is None
        )
        if target.is_live(now) and target.weight > SUPERSEDED_WEIGHT and not is_private:
            reason = SUPERSEDED_BY.format(item.memory.short_id)
            targets[target.id] = target
            changes[target.id] = Revise(
                target.changed("supersede", now, by=by, reason=reason, weight=SUPERSEDED_WEIGHT)
            )
    stale_reflections = stale(services, list(targets.values()), now, by=by, reason="a source was superseded")
    return [*changes.values(), *stale_reflections], new


def superseded_memory(services: Services, scope: Scope, id: str) -> Memory:
    """Return the memory that a new one in `scope` supersedes: a live or an expired one.

    Raises:
        NotFoundError: no such memory is visible.
    """
    found = services.store.fetch(scope, [checks.name("supersedes", id)])
    found = found or [stored.memory for stored in services.store.history(scope, id)[-1:]]
    if not found or found[0].status not in ("live", "expired"):
        raise NotFoundError(id, "supersedes")
    return found[0]


def weight_before(services: Services, older: Memory, newer: Memory) -> float:
    """Return the weight of a memory without the fall that a newer one, which superseded it, caused.

    It is the current weight if that changed since, or if another live memory supersedes the older one too.
    """
    if older.weight != SUPERSEDED_WEIGHT:
        return older.weight
    others = Selection(scope=older.scope.widened(), supersedes=(older.id,), values=LIVE, now=services.clock())
    if any(one.id != newer.id for one in services.store.browse(others, "id", MOST)):
        return older.weight
    versions, reason = services.store.history(older.scope, older.id), SUPERSEDED_BY.format(newer.short_id)
    fell = [
        before.memory.weight
        for before, after in pairwise(versions)
        if after.memory.change == "supersede" and after.memory.reason == reason
    ]
    return fell[-1] if fell else older.weight


def stale(
    services: Services,
    memories: Sequence[Memory],
    now: datetime,
    *,
    by: str | None = None,
    reason: str | None = "a source was changed",
) -> list[Revise]:
    """Return the changes that hide the live reflections of some memories, to be applied with the change itself.

    The text of a forgotten or updated memory must not survive in a reflection. The next run of `reflect` renews them.
    Reflections that are themselves among `memories` are left out.
    """
    given = {memory.id for memory in memories}
    by_home: dict[Scope, set[str]] = {}
    for memory in memories:
        if memory.reflection is not None and memory.reflection not in given:
            by_home.setdefault(memory.scope.without_session, set()).add(memory.reflection)
    return [
        Revise(reflection.changed("stale", now, by=by, reason=reason, forgotten_at=now))
        for home, ids in by_home.items()
        for reflection in services.store.fetch(home, sorted(ids))
    ]


def hidden(services: Services, memories: Sequence[Memory], now: datetime, **values: None) -> list[Revise]:
    """Return the changes that hide memories whose time to live is over, and then the live reflections of them.

    `values` are fields that change too, also of a memory that is hidden already.
    """
    changes = [
        Revise(
            memory.changed(
                "expire", now, by=UPKEEP, reason="its time ran out", forgotten_at=memory.forgotten_at or now, **values
            )
        )
        for memory in memories
    ]
    return changes + stale(services, memories, now, by=UPKEEP, reason="the time of a source ran out")


def _home_and_key(memory: Memory) -> tuple[Scope, str | None]:
    return memory.scope.without_session, memory.key


def held_keys(services: Services, prepared: Sequence[Stored]) -> dict[tuple[Scope, str | None], Memory]:
    """Return home and idempotency key -> the stored memory with it, for the keys of new memories."""
    keys: dict[Scope, list[str]] = {}
    for memory in (item.memory for item in prepared):
        if memory.key is not None:
            keys.setdefault(memory.scope.without_session, []).append(memory.key)
    found = (services.store.find_by_key(home, named) for home, named in keys.items())
    return {_home_and_key(memory): memory for each in found for memory in each}


def retried_ids(prepared: Sequence[Stored], held: Iterable[tuple[Scope, str | None]]) -> frozenset[str]:
    """Return the ids of new memories whose idempotency key is taken, among the `held` ones or earlier in the call."""
    known, retried = set(held), set[str]()
    for memory in (item.memory for item in prepared if item.memory.key is not None):
        key = _home_and_key(memory)
        if key in known:
            retried.add(memory.id)
        known.add(key)
    return frozenset(retried)


def _with_warning(profile: Profile, receipt: Receipt, now: datetime) -> Receipt:
    """Return a receipt with its warning."""
    memory = receipt.memory
    if receipt.status == "unchanged":
        if memory.is_live(now):
            return receipt
        gone = "has expired" if memory.seen_at(now).status == "expired" else "was forgotten"
        return replace(receipt, warning=GONE.format(gone))
    conflicts = list(receipt.contradictions)
    if memory.fact_key is not None and not FACT_STAGES.isdisjoint(profile.stages):  # these are settled
        conflicts = [
            conflict
            for conflict in conflicts
            if fact_of(conflict.memory) != fact_of(memory) or recency(conflict.memory) > recency(memory)
        ]
    lines = [] if receipt.warning is None else [receipt.warning]
    lines += [*replacement_warnings(profile, memory), *([conflict_warning(memory, conflicts)] if conflicts else [])]
    return replace(receipt, warning="\n".join(lines) or None)


def replacement_warnings(profile: Profile, memory: Memory) -> list[str]:
    """Return a line for each memory that a new one replaces, how recall treats the two, and how to undo it."""
    if "replaced" not in profile.stages:
        return []
    lines = []
    for one in memory.relations or ():
        if one.kind != "replaces" or one.probability < LIKELY:
            continue
        older, newer = short_id(one.id), memory.short_id
        if one.id == memory.supersedes:
            lines.append(SUPERSEDES.format(older, newer))
            continue
        verb = "replaces" if one.by in (CALLER, FACT) else "probably replaces"
        lines.append(REPLACES.format(verb, older, one.reason, HIDES if one.hides else OUTRANKS, newer, older))
    return lines
