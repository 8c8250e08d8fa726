"""The story of remembering: clean, extract, embed, look for conflicts, decide, apply."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from datetime import datetime
from typing import Final

from salience.errors import EmbedderError, MovedError
from salience.pending import catch_up
from salience.ports import Add, Need, Revise, Services, Stored, Touch, touched
from salience.rank.profile import Profile
from salience.records import Contradiction, Draft, Filter, Memory, Receipt, Scope
from salience.records.ids import ONCE, short_id
from salience.remember.clean import bare, clean
from salience.remember.conflicts import Near, contradictions, neighbours, warning
from salience.remember.facts import with_facts
from salience.remember.judging import judged
from salience.remember.staleness import stale
from salience.steps import get_memory, retry_stale, scan, try_embed
from salience.text import same_text

Facts = dict[tuple[object, ...], list[Memory]]
"""Memories by their user and fact, of each fact the latest last."""
SUPERSEDED_WEIGHT: Final = 0.1
"""What is left of a superseded memory's weight. Source: mememory, Memory Weight."""
FORGOTTEN: Final = "Nothing was stored: the memory of this key was forgotten. To store it again, use a new key."
"""Warning of a retry that came after its memory was forgotten."""
PENDING: Final = "Stored, and found by its words; its vector is still to come, and conflicts were not looked for."
"""Start of the warning of a memory that is pending."""
SAME: Final = (
    "Nothing new was stored: this memory has the same text. To store it once more, use duplicate=True (on the command "
    "line, --duplicate)."
)
"""Warning of a text that is there already."""
REPLACES: Final = (
    "This replaces memory {} as the current {}; recall no longer returns it. To keep both, update one of them with "
    "fact_key=None (null in JSON; on the command line, --no-fact-key)."
)
SUPERSEDES: Final = "This supersedes memory {}; recall no longer returns it. To bring it back, forget memory {}."
FACT_STAGES: Final = frozenset({"outdated", "same_fact"})
"""Stages that leave only the latest memory of a fact."""
REPEATED: Final = ("kind", "importance", "weight", "tier", "tags", "entities", "fact_key", "metadata")
"""Fields that have to be equal, where the caller gave them, for a memory to be the same."""


def remember(
    services: Services, profile: Profile, drafts: Sequence[Draft], scope: Scope, look: bool = True
) -> list[Receipt]:
    """Store drafts in one transaction, all or none, and return a receipt for each, in order.

    Where the embedder fails, or takes longer than a write waits for, the memories are stored as pending: words find
    them, and upkeep gives them their vectors later.

    Args:
        services: the ports.
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
    now = services.clock()
    stored, why = prepare(services, drafts, scope, now)
    if why is None:
        try:
            receipts = written(services, profile, drafts, stored, now, scope, look)
        except (MovedError, EmbedderError) as error:  # the store, or its check of the model, takes no vectors now
            stored, why = [replace(item, vector=None) for item in stored], str(error)
        else:
            catch_up(services)
            return receipts
    return [pending(receipt, why) for receipt in written(services, profile, drafts, stored, now, scope, look=False)]


def prepare(
    services: Services, drafts: Sequence[Draft], scope: Scope, now: datetime
) -> tuple[list[Stored], str | None]:
    """Return the drafts cleaned, extracted, embedded and indexed, and why they have no vectors, if they have none."""
    memories = with_facts(services, [clean(services, draft, now, scope) for draft in drafts])
    vectors, why = try_embed(services, [memory.content for memory in memories])
    if vectors is None:
        return [bare(services, memory) for memory in memories], why
    return [bare(services, memory, vector) for memory, vector in zip(memories, vectors, strict=True)], None


def written(
    services: Services,
    profile: Profile,
    drafts: Sequence[Draft],
    stored: Sequence[Stored],
    now: datetime,
    scope: Scope,
    look: bool,
) -> list[Receipt]:
    """Return the receipts of the memories, stored in one transaction with what they change.

    A memory whose text is there already is not stored again; the one that is there is touched. A judge reads the
    conflicts once the memories are stored, so that it keeps no write waiting and is asked but once.
    """

    def attempt() -> tuple[list[Receipt], list[str | None]]:
        near = neighbours(services, profile, stored, now) if look else [[] for _ in stored]
        taken = retries(services, stored)
        same = repeats(services, drafts, stored, near, taken, now)
        kept = [place for place in range(len(stored)) if place not in same]
        older_facts = facts_there(services, [stored[place].memory for place in kept])
        changes, new = decide(
            services, [stored[place] for place in kept], now, by=scope.who, taken=taken, facts=older_facts
        )
        conflicts: list[tuple[Contradiction, ...]] = [()] * len(new)
        if look:
            conflicts = contradictions(services, profile, new, [near[place] for place in kept], now)
        older = replaced_facts(services, profile, [item.memory for item in new], older_facts, now, taken)
        touches = accesses(same.values(), now)
        made = services.store.apply([*changes, *map(Add, new), *touches.values()])[len(changes) :]
        unstored = {item.memory.id for item in new} - {receipt.memory.id for receipt in made}
        receipts: dict[int, Receipt] = {}
        for place, receipt, held, gone in zip(kept, made, conflicts, older, strict=True):
            found = tuple(one for one in held if one.memory.id not in unstored)
            receipts[place] = with_conflicts(replaced(receipt, gone), found)
        now_held = {receipt.memory.id: receipt.memory for receipt in made}
        for place, memory in same.items():
            counted = touched(now_held.get(memory.id, memory), [touches[memory.id]])
            receipts[place] = Receipt(counted, "unchanged", warning=SAME)
        gone_of = dict(zip(kept, older, strict=True))
        return [receipts[place] for place in range(len(stored))], [gone_of.get(place) for place in range(len(stored))]

    receipts, gone = retry_stale(attempt)
    return [warned(profile, receipt, older) for receipt, older in zip(judged(services, receipts), gone, strict=True)]


def decide(
    services: Services,
    stored: Sequence[Stored],
    now: datetime,
    *,
    by: str | None = None,
    taken: Set[str] | None = None,
    facts: Facts | None = None,
) -> tuple[list[Revise], list[Stored]]:
    """Return the changes to memories that the new ones supersede, and the new ones with the ids that they link to.

    A memory whose key is `taken` (by default, as `retries` finds) will not be stored, and so supersedes nothing. One
    that is private to a user or an agent takes no weight from a memory that others share; only who sees both is spared
    the older one. A memory that states a fact follows the latest one of the same fact, which stays as it is; `facts`
    are those that `facts_there` returns.

    Raises:
        NotFoundError: a superseded memory that is not visible from where the new one lives.
    """
    targets: dict[str, Memory] = {}
    changes: dict[str, Revise] = {}
    new: list[Stored] = []
    taken = retries(services, stored) if taken is None else taken
    for item in stored:
        if item.memory.supersedes is None or item.memory.id in taken:
            new.append(item)
            continue
        target = get_memory(services, item.memory.scope, item.memory.supersedes, "supersedes")
        new.append(replace(item, memory=replace(item.memory, supersedes=target.id)))
        if target.weight > SUPERSEDED_WEIGHT and not _is_private_beside(item.memory.scope, target.scope):
            why = f"superseded by {item.memory.short_id}"
            targets[target.id] = target
            changes[target.id] = Revise(target.changed("supersede", now, by=by, reason=why, weight=SUPERSEDED_WEIGHT))
    gone = stale(services, list(targets.values()), now, by=by, reason="a source was superseded")
    return [*changes.values(), *gone], following(services, new, taken, facts)


def retries(services: Services, stored: Sequence[Stored]) -> frozenset[str]:
    """Return the ids of the new memories whose key is taken, in the store or before them: they will not be stored."""
    keyed = [
        (replace(item.memory.scope, session_id=None), item.memory.key, item.memory.id)
        for item in stored
        if item.memory.key is not None
    ]
    keys: dict[Scope, list[str]] = {}
    for home, key, _ in keyed:
        keys.setdefault(home, []).append(key)
    known = {(home, held.key) for home, of_home in keys.items() for held in services.store.keyed(home, of_home)}
    taken: set[str] = set()
    for home, key, new in keyed:
        if (home, key) in known:
            taken.add(new)
        known.add((home, key))
    return frozenset(taken)


def following(
    services: Services, new: Sequence[Stored], taken: Set[str] = frozenset(), facts: Facts | None = None
) -> list[Stored]:
    """Return new memories with those that state a fact linked to the latest that is there, or before them, of it.

    None is linked to one that is `taken`, by its id: it will not be stored. `facts` are those of `facts_there`.
    """
    latest = dict(facts_there(services, [item.memory for item in new]) if facts is None else facts)
    linked: list[Stored] = []
    for item in new:
        memory, fact = item.memory, _fact(item.memory)
        seen = [older for older in latest.get(fact, ()) if memory.scope.sees(older.scope)]
        if memory.fact_key is not None and memory.id not in taken:
            latest[fact] = [*latest.get(fact, ()), memory]
        follows = seen[-1].id if seen else None
        linked.append(replace(item, memory=replace(memory, follows=follows)) if follows else item)
    return linked


def facts_there(services: Services, memories: Sequence[Memory]) -> Facts:
    """Return the live memories in the store of the facts that some new ones state, the latest last."""
    found: dict[tuple[object, ...], dict[str, Memory]] = {}
    stating = [memory for memory in memories if memory.fact_key is not None]
    for home in dict.fromkeys(replace(memory.scope, session_id=None) for memory in stating):
        keys = {memory.fact_key for memory in stating if replace(memory.scope, session_id=None) == home}
        for item in scan(services, home, Filter(fact_keys=sorted(key for key in keys if key is not None))):
            found.setdefault(_fact(item.memory), {})[item.memory.id] = item.memory
    return {fact: sorted(held.values(), key=_order) for fact, held in found.items()}


def _fact(memory: Memory) -> tuple[object, ...]:
    return memory.scope.user_id, memory.fact_key


def _order(memory: Memory) -> tuple[datetime, str]:
    """Return what the memories of a fact are ordered by; the last one holds."""
    return memory.updated_at, memory.id


def _is_private_beside(home: Scope, shared: Scope) -> bool:
    return any(getattr(home, who) is not None and getattr(shared, who) is None for who in ("user_id", "agent_id"))


def replaced_facts(
    services: Services,
    profile: Profile,
    memories: Sequence[Memory],
    facts: Facts,
    now: datetime,
    taken: Set[str] = frozenset(),
) -> list[str | None]:
    """Return, for each memory that is about to be written, the id of the one of the same fact that it replaces.

    That is the memory which recalls from the same scope return until then, and no longer. None where there is none, or
    where the profile knows no facts.

    Args:
        services: the ports.
        profile: how recalls rank.
        memories: new ones, or next versions, in the order in which they are written.
        facts: what `facts_there` returns of them.
        now: the instant of the call.
        taken: ids of new memories that will not be stored.
    """
    found: list[str | None] = [None] * len(memories)
    if FACT_STAGES.isdisjoint(profile.stages):
        return found
    of_fact, written = dict(facts), set[str]()
    for place, memory in enumerate(memories):
        if memory.fact_key is None or memory.id in taken:
            continue
        held = [older for older in of_fact.get(_fact(memory), ()) if older.id != memory.id]
        live = [older for older in held if older.expires_at is None or older.expires_at > now]
        seen = [older for older in live if memory.scope.sees(older.scope)]
        last = max(seen, key=_order, default=None)
        if last is not None and _order(last) < _order(memory):
            is_current = last.id in written or last.id in current(services, memory.scope, [last.id], now)
            found[place] = last.id if is_current else None
        of_fact[_fact(memory)] = [*held, memory]
        written.add(memory.id)
    return found


def current(services: Services, scope: Scope, ids: Sequence[str], now: datetime) -> frozenset[str]:
    """Return those of some live memories in whose place no other holds, as the stage `outdated` has it."""
    if not ids:
        return frozenset()
    need = Need(
        scope=replace(scope, session_id=None), now=now, columns=frozenset({"code", "successor"}), ids=tuple(ids)
    )
    batch = services.store.gather(need)
    return frozenset(batch.ids[batch["successor"] < 0].tolist())


def repeats(
    services: Services,
    drafts: Sequence[Draft],
    stored: Sequence[Stored],
    near: Sequence[Near],
    taken: Set[str],
    now: datetime,
) -> dict[int, Memory]:
    """Return, by the places of the new memories that repeat a current one, the memory that they repeat.

    A memory repeats one of the same scope that has the same text, and every field that its caller gave; that one is in
    the store, or before it among the new ones. A turn of a conversation repeats none.

    Args:
        services: the ports.
        drafts: as the caller gave them.
        stored: the new memories that they become.
        near: of each, the memories in the store that are like it.
        taken: ids of the new memories that will not be stored, since their key is taken.
        now: the instant of the call.
    """
    there = [
        [memory for _, memory in found if _repeats(draft, item.memory, memory)] if item.memory.id not in taken else []
        for draft, item, found in zip(drafts, stored, near, strict=True)
    ]
    ids: dict[Scope, dict[str, None]] = {}
    for item, found in zip(stored, there, strict=True):
        ids.setdefault(replace(item.memory.scope, session_id=None), {}).update((memory.id, None) for memory in found)
    standing = {one for home, held in ids.items() for one in current(services, home, list(held), now)}
    same: dict[int, Memory] = {}
    said: dict[str, list[tuple[int, Memory]]] = {}
    stated: dict[tuple[object, ...], int] = {}
    gone: set[str] = set()
    for place, (draft, item) in enumerate(zip(drafts, stored, strict=True)):
        new = item.memory
        if new.id in taken:
            continue
        before = [(-1, memory) for memory in there[place] if memory.id in standing]
        before += [(at, other) for at, other in said.get(same_text(new.content), ()) if _repeats(draft, new, other)]
        for at, memory in reversed(before):
            is_latest = memory.fact_key is None or stated.get(_fact(memory), at) == at
            if is_latest and gone.isdisjoint((memory.id, memory.short_id)):
                same[place] = memory
                break
        else:
            said.setdefault(same_text(new.content), []).append((place, new))
            gone |= {new.supersedes} if new.supersedes else set()
            if new.fact_key is not None:
                stated[_fact(new)] = place
    return same


def _repeats(draft: Draft, new: Memory, old: Memory) -> bool:
    """Return whether a draft says nothing that an older memory of its home does not hold."""
    if draft.duplicate or (draft.key is not None and not draft.key.startswith(ONCE)):
        return False
    if any(value is not None for value in (draft.created_at, draft.supersedes, draft.ttl, old.expires_at)):
        return False
    if "turn" in (new.kind, old.kind) or old.kind == "reflection" or new.speaker != old.speaker:
        return False
    if replace(new.scope, session_id=None) != replace(old.scope, session_id=None):
        return False
    if new.scope.session_id not in (None, old.scope.session_id):
        return False
    if old.weight <= SUPERSEDED_WEIGHT and new.weight != old.weight:  # what superseded it was forgotten
        return False
    named = [name for name in REPEATED if name in draft.given and getattr(draft, name) is not None]
    same = all(getattr(new, name) == getattr(old, name) for name in named)
    return same and same_text(new.content) == same_text(old.content)


def accesses(memories: Iterable[Memory], now: datetime) -> dict[str, Touch]:
    """Return, by id, what counts one access to each of some memories for each time that it is among them."""
    held = list(memories)
    times = Counter(memory.id for memory in held)
    return {
        memory.id: Touch(
            scope=replace(memory.scope, session_id=None),
            ids=(memory.id,),
            accessed_at=now,
            access_count=times[memory.id],
            at=now,
        )
        for memory in held
    }


def replaced(receipt: Receipt, older: str | None) -> Receipt:
    """Return the receipt of a new memory with the id of the one that it supersedes, else of the `older` of its fact."""
    gone = receipt.memory.supersedes or older
    if receipt.status != "created" or gone is None:
        return receipt
    return replace(receipt, status="superseded", superseded=gone)


def with_conflicts(receipt: Receipt, found: tuple[Contradiction, ...]) -> Receipt:
    """Return the receipt with its contradictions; a write that stored nothing has none."""
    return receipt if receipt.status == "unchanged" else replace(receipt, contradictions=found)


def warned(profile: Profile, receipt: Receipt, older: str | None) -> Receipt:
    """Return the receipt of a new memory with its warning.

    Args:
        profile: how recalls rank; the warning tells nothing of older memories of the fact where it leaves them out.
        receipt: with what it replaces, and with its contradictions.
        older: the id of the memory of the same fact that it replaces; None: none.
    """
    memory = receipt.memory
    if receipt.status == "unchanged":
        return replace(receipt, warning=FORGOTTEN) if memory.forgotten_at is not None else receipt
    conflicts = list(receipt.contradictions)
    if memory.fact_key is not None and not FACT_STAGES.isdisjoint(profile.stages):
        conflicts = [
            found
            for found in conflicts
            if _fact(found.memory) != _fact(memory) or _order(found.memory) > _order(memory)
        ]
    target = memory.supersedes if "outdated" in profile.stages else None
    said = [
        *([SUPERSEDES.format(short_id(target), memory.short_id)] if target else []),
        *([replaces(memory, older)] if older not in (None, memory.supersedes) else []),
        *([warning(memory, conflicts)] if conflicts else []),
    ]
    return replace(receipt, warning="\n".join(said) or None)


def replaces(memory: Memory, older: str) -> str:
    """Return the sentence that tells which memory of the same fact another one replaces."""
    return REPLACES.format(short_id(older), memory.fact_key)


def pending(receipt: Receipt, why: str | None) -> Receipt:
    """Return the receipt of a memory that was stored without its vector; one that stored nothing is as it was."""
    if receipt.status == "unchanged":
        return receipt
    more = f"\n{receipt.warning}" if receipt.warning else ""
    return replace(receipt, status="pending", warning=f"{PENDING} {why}{more}")
