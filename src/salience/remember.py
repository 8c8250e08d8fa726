"""The story of remembering: clean, extract, embed, look for conflicts, decide, apply."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

import numpy as np

from salience import checks
from salience.batch import cosines
from salience.derived import embed, one, until_fresh
from salience.errors import InputError, Words
from salience.extract.distinctions import distinctions
from salience.extract.numerals import MONTHS
from salience.lines import as_draft, moment, said
from salience.ports import EDGE, Add, Calibration, Near, Need, Revise, Stored, World
from salience.rank.profile import Profile
from salience.rank.stages import expired, superseded
from salience.rank.state import State
from salience.records import UNSET, Contradiction, Draft, Memory, Receipt, Scope
from salience.text import content_hash, one_line

SUPERSEDED_WEIGHT: Final = 0.1
"""What is left of a superseded memory's weight. Source: mememory, Memory Weight."""
WARNED: Final = 10
"""Most memories that a warning names; the receipt's `contradictions` hold all."""
FORGOTTEN: Final = "Nothing was stored: the memory of this key was forgotten. To store it again, use a new key."
"""Warning of a retry that came after its memory was forgotten."""
RAW: Final = Calibration((0.0, 1.0), (0.0, 1.0), 1.0, "raw cosine")
"""The scale on which a cosine means itself."""


def remember(world: World, profile: Profile, drafts: Sequence[Draft], scope: Scope, look: bool = True) -> list[Receipt]:
    """Store drafts in one transaction, all or none, and return a receipt for each, in order.

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
        EmbedderError, StoreError: the world failed; nothing was stored.
    """
    now = world.clock()
    stored = prepare(world, drafts, scope, now)

    def attempt() -> list[Receipt]:
        changes, new = decide(world, stored, now)
        conflicts = contradictions(world, profile, new, now) if look else [()] * len(new)
        receipts = world.store.apply([*changes, *map(Add, new)])[len(changes) :]
        return [with_conflicts(receipt, found) for receipt, found in zip(receipts, conflicts, strict=True)]

    return until_fresh(attempt)


def prepare(world: World, drafts: Sequence[Draft], scope: Scope, now: datetime) -> list[Stored]:
    """Return the drafts cleaned, extracted, embedded and indexed; nothing is stored yet."""
    memories = [clean(world, replace(draft, scope=draft.scope or scope), now) for draft in drafts]
    vectors = embed(world, [memory.content for memory in memories])
    return [replace(bare(world, memory), vector=vector) for memory, vector in zip(memories, vectors, strict=True)]


def bare(world: World, memory: Memory) -> Stored:
    """Return the memory with all that is read from its text, but for the vector."""
    return Stored(memory, None, index_terms(world, memory), {}, distinctions(memory.content, memory.speaker))


def decide(world: World, stored: Sequence[Stored], now: datetime) -> tuple[list[Revise], list[Stored]]:
    """Return the changes to memories that the new ones supersede, and the new ones with the whole ids of those.

    A memory whose key is taken will not be stored, and so supersedes nothing. One that is private to a user or an
    agent takes no weight from a memory that others share; only who sees both is spared the older one.

    Raises:
        NotFoundError: a superseded memory that is not visible from where the new one lives.
    """
    changes: dict[str, Revise] = {}
    new: list[Stored] = []
    for item in stored:
        if item.memory.supersedes is None or _is_known(world, item.memory):
            new.append(item)
            continue
        target = one(world, item.memory.scope, item.memory.supersedes)
        new.append(replace(item, memory=replace(item.memory, supersedes=target.id)))
        if target.weight > SUPERSEDED_WEIGHT and not _is_private_beside(item.memory.scope, target.scope):
            changes[target.id] = Revise(target.changed("supersede", now, weight=SUPERSEDED_WEIGHT))
    return list(changes.values()), new


def _is_known(world: World, memory: Memory) -> bool:
    return memory.key is not None and bool(world.store.keyed(memory.scope, [memory.key]))


def _is_private_beside(home: Scope, shared: Scope) -> bool:
    return any(getattr(home, who) is not None and getattr(shared, who) is None for who in ("user_id", "agent_id"))


def clean(world: World, draft: Draft, now: datetime) -> Memory:
    """Return the memory that a draft with a scope becomes, with what the caller left open filled in."""
    checks.text("content", draft.content, world.content_limit)
    found = None
    if draft.importance is None or draft.entities is None:
        found = world.extractor.extract(draft.content)
    entities = draft.entities if draft.entities is not None else (found.entities if found else ())
    if draft.speaker and draft.entities is None:
        entities = tuple(dict.fromkeys((draft.speaker, *entities)))
    created = draft.created_at or now
    home = replace(draft.scope or Scope(), tenant=world.tenant)
    return Memory(
        id=world.new_id(now),
        scope=home.as_home(),
        content=draft.content,
        content_hash=content_hash(draft.content),
        kind=draft.kind,
        importance=draft.importance if draft.importance is not None else (found.importance if found else 0.5),
        weight=draft.weight,
        tier=draft.tier,
        tags=tuple(draft.tags),
        entities=tuple(entities),
        fact_key=draft.fact_key,
        supersedes=draft.supersedes,
        metadata=draft.metadata,
        key=draft.key,
        speaker=draft.speaker,
        created_at=created,
        updated_at=created,
        tier_since=created,
        changed_at=now,
        expires_at=expiry(created, draft.ttl),
    )


def expiry(created: datetime, ttl: timedelta | None) -> datetime | None:
    """Return the instant at which a time to live that starts at `created` ends; None for none.

    Raises:
        InputError: it ends beyond the year 9999.
    """
    try:
        return None if ttl is None else created + ttl
    except OverflowError:
        raise InputError("ttl", str(ttl), "Give one that ends before the year 10000, or none.") from None


def index_terms(world: World, memory: Memory) -> tuple[str, ...]:
    """Return the terms by which the lexical channel finds a memory: of its text, speaker, tags and date."""
    created = memory.created_at
    date = f"{created.day} {MONTHS[created.month - 1].title()} {created.year}"
    return world.tokeniser.terms(" ".join((memory.content, memory.speaker or "", *memory.tags, date)))


def contradictions(
    world: World, profile: Profile, stored: Sequence[Stored], now: datetime
) -> list[tuple[Contradiction, ...]]:
    """Return, for each new memory, the live ones that it may conflict with, most similar first.

    Those are the memories visible from where it lives, or before it among the new ones, whose similarity is above the
    profile's threshold. Source: mememory, Contradiction Detection.
    """
    if profile.contradiction_above is None or not stored:
        return [()] * len(stored)
    to_scale = world.calibration if profile.threshold_scale == "calibrated" else RAW
    above = float(np.interp(profile.contradiction_above, to_scale.relatedness, to_scale.cosine)) + EDGE
    found: list[list[tuple[float, Memory]]] = [[] for _ in stored]
    for scope in dict.fromkeys(item.memory.scope for item in stored):
        places = [place for place, item in enumerate(stored) if item.memory.scope == scope]
        rivals = _stored_rivals(world, profile, [stored[place] for place in places], above, now)
        for place, pairs in zip(places, rivals, strict=True):
            found[place] += pairs
    for place, pairs in enumerate(_new_rivals(stored, above, now)):
        found[place] += pairs
    return [
        tuple(
            Contradiction(memory, float(np.interp(cosine, to_scale.cosine, to_scale.relatedness)))
            for cosine, memory in sorted(pairs, key=lambda pair: -pair[0])
        )
        for pairs in found
    ]


def _stored_rivals(
    world: World, profile: Profile, stored: Sequence[Stored], above: float, now: datetime
) -> list[list[tuple[float, Memory]]]:
    """Return, for each of some memories of one scope, (cosine, memory) of those in the store that are too alike."""
    vectors = np.stack([item.vector for item in stored if item.vector is not None])
    columns = frozenset({"expires_at", "code", "supersedes"})
    scope = stored[0].memory.scope
    need = Need(scope=scope, now=now, columns=columns, vectors=True, near=Near(vectors, above))
    batch = world.store.gather(need)
    rows = superseded(expired(State.start(profile, batch, need))).rows
    if batch.vectors is None or not len(rows):
        return [[] for _ in stored]
    ids = [str(batch.ids[row]) for row in rows]
    memories = {memory.id: memory for memory in world.store.fetch(scope, ids)}
    alike = cosines(batch.vectors.at(rows), vectors)
    rivals: list[list[tuple[float, Memory]]] = []
    for number, item in enumerate(stored):
        near = [(float(alike[place, number]), ids[place]) for place in np.flatnonzero(alike[:, number] > above)]
        rivals.append(
            [
                (cosine, memories[rival])
                for cosine, rival in near
                if rival in memories and rival != item.memory.supersedes
            ]
        )
    return rivals


def _new_rivals(stored: Sequence[Stored], above: float, now: datetime) -> list[list[tuple[float, Memory]]]:
    """Return, for each new memory, (cosine, memory) of the new ones before it that it sees and that are too alike."""
    vectors = np.stack([item.vector for item in stored if item.vector is not None])
    rivals: list[list[tuple[float, Memory]]] = []
    for place, item in enumerate(stored):
        alike = cosines(vectors[:place], vectors[place])
        near = [(float(alike[other]), stored[other].memory) for other in np.flatnonzero(alike > above).tolist()]
        rivals.append(
            [
                (cosine, rival)
                for cosine, rival in near
                if item.memory.scope.sees(rival.scope) and (rival.expires_at is None or rival.expires_at > now)
            ]
        )
    return rivals


def with_conflicts(receipt: Receipt, found: tuple[Contradiction, ...]) -> Receipt:
    """Return the receipt with its contradictions and their warning; a write that stored nothing has none."""
    if receipt.status == "unchanged" and receipt.memory.forgotten_at is not None:
        return replace(receipt, warning=FORGOTTEN)
    if not found or receipt.status == "unchanged":
        return receipt
    return replace(receipt, contradictions=found, warning=warning(receipt.memory, found))


def warning(memory: Memory, found: Sequence[Contradiction]) -> str:
    """Return the contradictions as text for an agent to read, each memory on one line, the most similar `WARNED`.

    Source: mememory, Contradiction Detection.
    """
    rivals = [
        f"[{rival.memory.short_id}] (similarity: {rival.similarity:.0%}) {one_line(rival.memory.content)}"
        for rival in found[:WARNED]
    ]
    more = [f"... and {len(found) - WARNED} more"] if len(found) > WARNED else []
    return "\n".join(
        (
            "CONTRADICTION DETECTED",
            "New memory:",
            f"[{memory.short_id}] {one_line(memory.content)}",
            "Potentially conflicting memories:",
            *rivals,
            *more,
            "Options:",
            "1. Keep both — if they are complementary",
            "2. Update old — call update(id=<old_id>, content=...)",
            "3. Supersede — call remember(content=..., supersedes=<old_id>)",
            "4. Delete old — call forget(id=<old_id>)",
        )
    )


def drafts(items: Iterable[object], scope: Scope) -> list[Draft]:
    """Return a draft for each of some drafts or mappings of their fields.

    Raises:
        InputError: one that cannot be accepted; names its place.
    """
    made: list[Draft] = []
    for place, item in enumerate(items):
        try:
            made.append(as_draft(item, scope))
        except InputError as error:
            raise InputError(f"drafts[{place}].{error.field}", error.value, error.remedy) from None
    return made


def turns(messages: Iterable[object], scope: Scope) -> list[Draft]:
    """Return a draft for each message of a conversation: the content verbatim, with speaker and time.

    A message is a mapping (or an object with these attributes): `content` or `text`, which may be a list of parts;
    `speaker`, `name` or `role`; and, all optional, `timestamp` (aware, ISO 8601 with an offset, or seconds since
    1970), `metadata` and `key` (idempotency). One that calls tools and says nothing is left out.

    Raises:
        InputError: no session, or a message that cannot be accepted; names its place.
    """
    if scope.session_id is None:
        raise InputError("session_id", None, "Name the session that the messages belong to.")
    if isinstance(messages, (str, bytes, Mapping)):
        raise InputError("messages", Words(type(messages).__name__), "Give a list of messages.")
    drafts = (_turn(f"messages[{place}]", message, scope) for place, message in enumerate(messages))
    return [draft for draft in drafts if draft is not None]


def _turn(path: str, message: object, scope: Scope) -> Draft | None:
    def get(*names: str) -> Any:
        found = (message.get(name) if isinstance(message, Mapping) else getattr(message, name, None) for name in names)
        return next((value for value in found if value is not None), None)

    if not isinstance(message, Mapping) and not (hasattr(message, "content") or hasattr(message, "text")):
        raise InputError(path, Words(type(message).__name__), "Give a mapping with a content, and a role or speaker.")
    try:
        content = said(get("content", "text"))
        if not content and get("tool_calls", "function_call") is not None:
            return None
        return Draft(
            content=content,
            scope=scope,
            kind="turn",
            speaker=get("speaker", "name", "role"),
            created_at=moment(get("timestamp")),
            metadata=get("metadata") or {},
            key=get("key"),
        )
    except InputError as error:
        raise InputError(f"{path}.{error.field}", error.value, error.remedy) from None


def update(world: World, scope: Scope, id: str, changes: Mapping[str, Any], reason: str | None = None) -> Receipt:
    """Put a new version in the place of a memory and return its receipt; the version before it is kept.

    A new content is embedded anew, and read anew for entities unless they are given. `updated_at` becomes now.

    Args:
        world: the ports.
        scope: who asks.
        id: of a visible memory.
        changes: fields of `Draft` to their new values; `UNSET` leaves a field as it is.
        reason: why, for the history.

    Raises:
        InputError: nothing to change, or a value that cannot be accepted.
        NotFoundError: no such memory is visible.
    """
    given = {name: value for name, value in changes.items() if value is not UNSET}
    if not given:
        raise InputError("update", Words("no field"), f"Give at least one of: {', '.join(sorted(changes))}.")

    def attempt() -> Receipt:
        old, now = one(world, scope, id), world.clock()
        new = replace(_revised(world, old, given, now), changed_by=scope.who, reason=said_why(reason))
        said_anew = new.content != old.content
        vector = embed(world, [new.content])[0] if said_anew else None
        read, sets = bare(world, new), "importance" in given
        return world.store.apply([Revise(new, vector, read.terms, sets, read.distinctions)])[0]

    return until_fresh(attempt)


def _revised(world: World, old: Memory, given: Mapping[str, Any], now: datetime) -> Memory:
    kept = {
        name: getattr(old, name) for name in ("content", "kind", "importance", "weight", "tags", "fact_key", "tier")
    }
    entities = given.get("entities", None if "content" in given else old.entities)
    fields = {**kept, "metadata": old.metadata, **given, "entities": entities}
    fresh = clean(world, Draft(**fields, scope=old.scope, speaker=old.speaker), now)
    return old.changed(
        "update",
        now,
        content=fresh.content,
        content_hash=fresh.content_hash,
        kind=fresh.kind,
        importance=fresh.importance,
        weight=fresh.weight,
        tags=fresh.tags,
        entities=fresh.entities,
        fact_key=fresh.fact_key,
        metadata=fresh.metadata,
        tier=fresh.tier,
        tier_since=old.tier_since if fresh.tier == old.tier else now,
        expires_at=fresh.expires_at if "ttl" in given else old.expires_at,
        updated_at=now,
    )


def said_why(reason: str | None) -> str | None:
    """Return a reason, checked to be a short text; None for none.

    Raises:
        InputError: something else.
    """
    return None if reason is None else checks.name("reason", reason)


def forget(world: World, scope: Scope, id: str, reason: str | None = None) -> Receipt:
    """Take a memory out of every recall and return its receipt; all its versions are kept.

    `reason` is kept with the version, for the history.

    Raises:
        NotFoundError: no such memory is visible.
    """

    def attempt() -> Receipt:
        memory, now = one(world, scope, id), world.clock()
        gone = memory.changed("forget", now, by=scope.who, reason=said_why(reason), forgotten_at=now)
        return world.store.apply([Revise(gone)])[0]

    return until_fresh(attempt)
