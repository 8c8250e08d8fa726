"""The story of remembering: clean, extract, embed, look for conflicts, decide, apply."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from datetime import datetime
from typing import Final

from salience.derived import embedded_or_not, one, scan, until_fresh
from salience.errors import EmbedderError, MovedError
from salience.pending import catch_up
from salience.ports import Add, Revise, Stored, World
from salience.rank.profile import Profile
from salience.records import Contradiction, Draft, Filter, Memory, Receipt, Scope
from salience.remember.clean import bare, clean
from salience.remember.conflicts import contradictions, warning
from salience.remember.facts import with_facts
from salience.remember.judging import judged
from salience.staleness import stale

SUPERSEDED_WEIGHT: Final = 0.1
"""What is left of a superseded memory's weight. Source: mememory, Memory Weight."""
FORGOTTEN: Final = "Nothing was stored: the memory of this key was forgotten. To store it again, use a new key."
"""Warning of a retry that came after its memory was forgotten."""
PENDING: Final = "Stored, and found by its words; its vector is still to come, and conflicts were not looked for."
"""Start of the warning of a memory that is pending."""


def remember(world: World, profile: Profile, drafts: Sequence[Draft], scope: Scope, look: bool = True) -> list[Receipt]:
    """Store drafts in one transaction, all or none, and return a receipt for each, in order.

    Where the embedder fails, or takes longer than a write waits for, the memories are stored as pending: words find
    them, and upkeep gives them their vectors later.

    Args:
        world: the ports.
        profile: says from which similarity a memory is reported as a contradiction.
        drafts: what to store; a draft without a scope of its own lives in `scope`.
        scope: of the call.
        look: whether to look for contradictions at all.

    Raises:
        InputError: a draft that cannot be accepted.
        NotFoundError: a superseded memory that is not visible.
        ConflictError: an idempotency key that stands for another content.
        PinnedError: the store belongs to another model of the embedder's name; nothing was stored.
        StoreError: the store failed; nothing was stored.
    """
    now = world.clock()
    stored, why = prepare(world, drafts, scope, now)
    if why is None:
        try:
            receipts = written(world, profile, stored, now, scope, look)
        except (MovedError, EmbedderError) as error:  # the store, or its check of the model, takes no vectors now
            stored, why = [replace(item, vector=None) for item in stored], str(error)
        else:
            catch_up(world)
            return receipts
    return [pending(receipt, why) for receipt in written(world, profile, stored, now, scope, look=False)]


def prepare(world: World, drafts: Sequence[Draft], scope: Scope, now: datetime) -> tuple[list[Stored], str | None]:
    """Return the drafts cleaned, extracted, embedded and indexed, and why they have no vectors, if they have none."""
    memories = with_facts(world, [clean(world, draft, now, scope) for draft in drafts])
    vectors, why = embedded_or_not(world, [memory.content for memory in memories])
    if vectors is None:
        return [bare(world, memory) for memory in memories], why
    return [bare(world, memory, vector) for memory, vector in zip(memories, vectors, strict=True)], None


def written(
    world: World, profile: Profile, stored: Sequence[Stored], now: datetime, scope: Scope, look: bool
) -> list[Receipt]:
    """Return the receipts of the memories, stored in one transaction with what they change.

    A judge reads their conflicts once they are stored, so that it keeps no write waiting and is asked but once.
    """

    def attempt() -> list[Receipt]:
        changes, new = decide(world, stored, now, by=scope.who)
        conflicts = contradictions(world, profile, new, now) if look else [()] * len(new)
        receipts = world.store.apply([*changes, *map(Add, new)])[len(changes) :]
        unstored = {item.memory.id for item in new} - {receipt.memory.id for receipt in receipts}
        found = [tuple(one for one in held if one.memory.id not in unstored) for held in conflicts]
        return [with_conflicts(replaced(receipt), held) for receipt, held in zip(receipts, found, strict=True)]

    return judged(world, until_fresh(attempt))


def decide(
    world: World, stored: Sequence[Stored], now: datetime, *, by: str | None = None
) -> tuple[list[Revise], list[Stored]]:
    """Return the changes to memories that the new ones supersede, and the new ones with the ids that they link to.

    A memory whose key is taken will not be stored, and so supersedes nothing. One that is private to a user or an
    agent takes no weight from a memory that others share; only who sees both is spared the older one. A memory that
    states a fact follows the latest one of the same fact, which stays as it is.

    Raises:
        NotFoundError: a superseded memory that is not visible from where the new one lives.
    """
    targets: dict[str, Memory] = {}
    changes: dict[str, Revise] = {}
    new: list[Stored] = []
    taken = retries(world, stored)
    for item in stored:
        if item.memory.supersedes is None or item.memory.id in taken:
            new.append(item)
            continue
        target = one(world, item.memory.scope, item.memory.supersedes, "supersedes")
        new.append(replace(item, memory=replace(item.memory, supersedes=target.id)))
        if target.weight > SUPERSEDED_WEIGHT and not _is_private_beside(item.memory.scope, target.scope):
            why = f"superseded by {item.memory.short_id}"
            targets[target.id] = target
            changes[target.id] = Revise(target.changed("supersede", now, by=by, reason=why, weight=SUPERSEDED_WEIGHT))
    gone = stale(world, list(targets.values()), now, by=by, reason="a source was superseded")
    return [*changes.values(), *gone], following(world, new, taken)


def retries(world: World, stored: Sequence[Stored]) -> frozenset[str]:
    """Return the ids of the new memories whose key is taken, in the store or before them: they will not be stored."""
    keyed = [
        (replace(item.memory.scope, session_id=None), item.memory.key, item.memory.id)
        for item in stored
        if item.memory.key is not None
    ]
    keys: dict[Scope, list[str]] = {}
    for home, key, _ in keyed:
        keys.setdefault(home, []).append(key)
    known = {(home, held.key) for home, of_home in keys.items() for held in world.store.keyed(home, of_home)}
    taken: set[str] = set()
    for home, key, new in keyed:
        if (home, key) in known:
            taken.add(new)
        known.add((home, key))
    return frozenset(taken)


def following(world: World, new: Sequence[Stored], taken: Set[str] = frozenset()) -> list[Stored]:
    """Return new memories with those that state a fact linked to the latest that is there, or before them, of it.

    None is linked to one that is `taken`, by its id: it will not be stored.
    """
    latest = _facts(world, [item.memory for item in new if item.memory.fact_key is not None])
    linked: list[Stored] = []
    for item in new:
        memory, fact = item.memory, _fact(item.memory)
        seen = [older for older in latest.get(fact, ()) if memory.scope.sees(older.scope)]
        if memory.fact_key is not None and memory.id not in taken:
            latest[fact] = [*latest.get(fact, ()), memory]
        follows = seen[-1].id if seen else None
        linked.append(replace(item, memory=replace(memory, follows=follows)) if follows else item)
    return linked


def _facts(world: World, memories: Sequence[Memory]) -> dict[tuple[object, ...], list[Memory]]:
    """Return the live memories of the facts that some new ones state, the latest last."""
    found: dict[tuple[object, ...], dict[str, Memory]] = {}
    for home in dict.fromkeys(replace(memory.scope, session_id=None) for memory in memories):
        keys = {memory.fact_key for memory in memories if replace(memory.scope, session_id=None) == home}
        for item in scan(world, home, Filter(fact_keys=sorted(key for key in keys if key is not None))):
            found.setdefault(_fact(item.memory), {})[item.memory.id] = item.memory
    return {
        fact: sorted(held.values(), key=lambda memory: (memory.updated_at, memory.id)) for fact, held in found.items()
    }


def _fact(memory: Memory) -> tuple[object, ...]:
    return memory.scope.user_id, memory.fact_key


def _is_private_beside(home: Scope, shared: Scope) -> bool:
    return any(getattr(home, who) is not None and getattr(shared, who) is None for who in ("user_id", "agent_id"))


def replaced(receipt: Receipt) -> Receipt:
    """Return the receipt of a new memory with what it supersedes, if it does."""
    target = receipt.memory.supersedes
    if receipt.status != "created" or target is None:
        return receipt
    return replace(receipt, status="superseded", superseded=target)


def with_conflicts(receipt: Receipt, found: tuple[Contradiction, ...]) -> Receipt:
    """Return the receipt with its contradictions and their warning; a write that stored nothing has none."""
    if receipt.status == "unchanged" and receipt.memory.forgotten_at is not None:
        return replace(receipt, warning=FORGOTTEN)
    if not found or receipt.status == "unchanged":
        return receipt
    return replace(receipt, contradictions=found, warning=warning(receipt.memory, found))


def pending(receipt: Receipt, why: str | None) -> Receipt:
    """Return the receipt of a memory that was stored without its vector; one that stored nothing is as it was."""
    if receipt.status == "unchanged":
        return receipt
    return replace(receipt, status="pending", warning=f"{PENDING} {why}")
