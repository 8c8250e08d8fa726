"""The steps of a write: clean, extract, embed, look for neighbours, decide, apply."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import replace
from datetime import datetime
from typing import Final, Literal

from salience.errors import EmbedderError, MovedError
from salience.pending import catch_up
from salience.ports import Add, Revise, Services, Stored, Touch, touched
from salience.rank.profile import Profile
from salience.records import Contradiction, Draft, Memory, Receipt, Scope
from salience.records.ids import short_id
from salience.remember.conflicts import conflict_warning, contradictions, neighbours
from salience.remember.drafts import clean, derive
from salience.remember.facts import (
    FACT_STAGES,
    SUPERSEDED_WEIGHT,
    Facts,
    fact_of,
    link_facts,
    recency,
    repeats,
    replaced_facts,
    stored_facts,
)
from salience.remember.llm import judged, with_facts
from salience.steps import get_memory, retry_stale, try_embed

FORGOTTEN: Final = "Nothing was stored: the memory of this key was forgotten. To store it again, use a new key."
PENDING: Final = "Stored without a vector for now: searches find its words, and conflicts were not checked."
SAME: Final = (
    "Nothing new was stored: this memory has the same text. To store it once more, use duplicate=True (on the command "
    "line, --duplicate)."
)
REPLACES: Final = (
    "This replaces memory {} as the current {}; recall no longer returns it. To keep both, update one of them with "
    "fact_key=None (null in JSON; on the command line, --no-fact-key)."
)
SUPERSEDES: Final = "This supersedes memory {}; recall no longer returns it. To bring it back, forget memory {}."


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
        check_existing: whether to search the store for conflicts and repeated texts.

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

    def attempt() -> list[tuple[Receipt, str | None]]:
        # 4 look: neighbours, idempotency keys and facts in the store
        near = neighbours(services, profile, prepared, now) if check_existing else [[] for _ in prepared]
        retried = retried_ids(services, prepared)
        same = repeats(services, drafts, prepared, near, retried, now)
        positions = [position for position in range(len(prepared)) if position not in same]
        facts = stored_facts(services, [prepared[position].memory for position in positions])
        # 5 decide
        changes, new = decide(services, [prepared[position] for position in positions], now, scope.who, retried, facts)
        conflicts: list[tuple[Contradiction, ...]] = [()] * len(new)
        if check_existing:
            conflicts = contradictions(services, profile, new, [near[position] for position in positions], now)
        replaced_ids = replaced_facts(services, profile, [item.memory for item in new], facts, now, retried)
        counts = Counter(memory.id for memory in same.values())
        touches = {
            memory.id: Touch(memory.scope.without_session, (memory.id,), now, access_count=counts[memory.id], at=now)
            for memory in same.values()
        }
        # 6 apply
        made = services.store.apply([*changes, *map(Add, new), *touches.values()])[len(changes) :]

        by_id = {receipt.memory.id: receipt.memory for receipt in made}
        not_stored = {item.memory.id for item in new} - by_id.keys()
        results: dict[int, tuple[Receipt, str | None]] = {}
        for position, receipt, found, replaced in zip(positions, made, conflicts, replaced_ids, strict=True):
            if receipt.status == "created":
                superseded = receipt.memory.supersedes or replaced
                found = tuple(conflict for conflict in found if conflict.memory.id not in not_stored)
                status: Literal["superseded", "created"] = "superseded" if superseded else "created"
                receipt = replace(receipt, status=status, superseded=superseded, contradictions=found)
            results[position] = receipt, replaced
        for position, memory in same.items():
            touched_memory = touched(by_id.get(memory.id, memory), [touches[memory.id]])
            results[position] = Receipt(touched_memory, "unchanged", warning=SAME), None
        return [results[position] for position in range(len(prepared))]

    receipts, replaced = zip(*retry_stale(attempt), strict=True) if prepared else ((), ())
    return [_with_warning(profile, *pair) for pair in zip(judged(services, receipts), replaced, strict=True)]


def decide(
    services: Services,
    prepared: Sequence[Stored],
    now: datetime,
    by: str | None = None,
    retried: Set[str] | None = None,
    facts: Facts | None = None,
) -> tuple[list[Revise], list[Stored]]:
    """Return the changes to superseded memories, and the new memories linked to those that they supersede or follow.

    The weight of a superseded memory drops to 0.1, and reflections of it become stale. A memory that is private to a
    user or an agent does not change a memory that others share.

    `retried` is the result of `retried_ids`: these memories will not be stored, and supersede nothing. `facts` is the
    result of `stored_facts`. Both are read from the store if they are omitted.

    Raises:
        NotFoundError: a superseded memory that is not visible from the scope of the new one.
    """
    retried = retried_ids(services, prepared) if retried is None else retried
    facts = stored_facts(services, [item.memory for item in prepared]) if facts is None else facts
    targets: dict[str, Memory] = {}
    changes: dict[str, Revise] = {}
    new: list[Stored] = []
    for item in prepared:
        home, supersedes = item.memory.scope, item.memory.supersedes
        if supersedes is None or item.memory.id in retried:
            new.append(item)
            continue
        target = get_memory(services, home, supersedes, "supersedes")
        new.append(replace(item, memory=replace(item.memory, supersedes=target.id)))
        is_private = (home.user_id is not None and target.scope.user_id is None) or (
            home.agent_id is not None and target.scope.agent_id is None
        )
        if target.weight > SUPERSEDED_WEIGHT and not is_private:
            reason = f"superseded by {item.memory.short_id}"
            targets[target.id] = target
            changes[target.id] = Revise(
                target.changed("supersede", now, by=by, reason=reason, weight=SUPERSEDED_WEIGHT)
            )
    stale_reflections = stale(services, list(targets.values()), now, by=by, reason="a source was superseded")
    return [*changes.values(), *stale_reflections], link_facts(new, facts, retried)


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


def retried_ids(services: Services, prepared: Sequence[Stored]) -> frozenset[str]:
    """Return the ids of new memories whose idempotency key is taken, in the store or earlier in the call."""
    keyed = [item.memory for item in prepared if item.memory.key is not None]
    keys: dict[Scope, list[str]] = {}
    for memory in keyed:
        keys.setdefault(memory.scope.without_session, []).append(str(memory.key))
    known = {(home, memory.key) for home, named in keys.items() for memory in services.store.keyed(home, named)}
    retried: set[str] = set()
    for memory in keyed:
        key = memory.scope.without_session, memory.key
        if key in known:
            retried.add(memory.id)
        known.add(key)
    return frozenset(retried)


def _with_warning(profile: Profile, receipt: Receipt, replaced: str | None) -> Receipt:
    """Return a receipt with its warning; `replaced` is the id of the memory that the new one replaces in its fact."""
    memory = receipt.memory
    if receipt.status == "unchanged":
        return replace(receipt, warning=FORGOTTEN) if memory.forgotten_at is not None else receipt
    conflicts = list(receipt.contradictions)
    if memory.fact_key is not None and not FACT_STAGES.isdisjoint(profile.stages):  # recalls drop the others
        conflicts = [
            conflict
            for conflict in conflicts
            if fact_of(conflict.memory) != fact_of(memory) or recency(conflict.memory) > recency(memory)
        ]
    target = memory.supersedes if "outdated" in profile.stages else None
    lines = [
        *([SUPERSEDES.format(short_id(target), memory.short_id)] if target else []),
        *([replacement_warning(memory, replaced)] if replaced not in (None, memory.supersedes) else []),
        *([conflict_warning(memory, conflicts)] if conflicts else []),
    ]
    return replace(receipt, warning="\n".join(lines) or None)


def replacement_warning(memory: Memory, replaced: str) -> str:
    """Return the warning that a memory replaces the current one of its fact."""
    return REPLACES.format(short_id(replaced), memory.fact_key)
