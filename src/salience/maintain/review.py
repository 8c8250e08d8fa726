"""Review: problems that a person should look at, what changed, and how much happened each day."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from salience.errors import DamagedError, InputError, NotFoundError, Words
from salience.listing import cursor_id
from salience.maintain.versions import changed_fields
from salience.ports import LIVE, Revise, RevisionFilter, Selection, Services, Stored
from salience.rank.profile import Profile
from salience.records import (
    LIKELY,
    PROBLEMS,
    ActivityDay,
    ChangesPage,
    Filter,
    Memory,
    Receipt,
    ReviewItem,
    ReviewPage,
    Scope,
    Version,
    checks,
)
from salience.relations import relate, surest_first
from salience.remember.conflicts import (
    DISMISSED,
    LABELLED,
    REACH,
    are_dismissed,
    contradictions,
    dismissed,
    fetched,
    near_ids,
)
from salience.remember.facts import SUPERSEDED_WEIGHT, fact_of, recency
from salience.remember.write import weight_before
from salience.steps import AnswerLimit, read_page, retry_stale

EXAMINED: Final = 200
"""Maximum number of memories that one page examines."""
CHUNK: Final = 50
"""Memories whose neighbours are looked up at once, before those of all others of the page."""
KINDS: Final = ("contradiction", "duplicate", "update")
"""Labels of pairs that are problems."""
RELATION: Final = "relation"
LINKED: Final = 50
"""Maximum number of memories that replace one, of the problems of that one."""
DEFAULT: Final = frozenset(PROBLEMS) - {RELATION}
UNCHECKED: Final = ("turn", "reflection")
"""Kinds that a write does not check for conflicts."""
_CURSOR: Final = re.compile(r"(-[0-9]{1,16}|[0-9]{1,17})_([0-9a-f]{32})_([0-9]{1,18})", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def review(
    services: Services,
    profile: Profile,
    scope: Scope,
    filter: Filter,
    kinds: frozenset[str],
    limit: int,
    cursor: str | None,
) -> ReviewPage:
    """Return the problems of visible memories of some kinds, those of the newest memory first.

    The page ends with the memory that fills it, or after `EXAMINED` memories. A pair is a problem of its newer memory,
    with the label of a write; pairs with a memory that recalls do not return (expired, superseded, older of one fact
    whose key the caller gave), and dismissed ones, are left out.

    Raises:
        InputError: an invalid cursor.
        LimitError: the page is larger than one answer may be.
    """
    last, now = cursor_id(cursor), services.clock()
    size, items, passed = AnswerLimit(services, "Lower limit."), list[ReviewItem](), list[DamagedError]()
    examined, has_more = 0, True
    while has_more and len(items) < limit and examined < EXAMINED:
        count = EXAMINED - examined if examined else CHUNK
        page = read_page(services, scope, last, count + 1, filter, forgotten=True, newest_first=True, passed=passed)
        chunk, has_more = page[:count], len(page) > count
        for place, (stored, found) in enumerate(
            zip(chunk, _items(services, profile, scope, chunk, kinds, now), strict=True)
        ):
            last, examined = stored.memory.id, examined + 1
            items += found
            for item in found:
                size.add([item.memory, *([item.other] if item.other else [])])
            if len(items) >= limit:
                has_more = has_more or place + 1 < len(chunk)
                break
    damaged = {error.id for error in passed if error.id is not None and (not has_more or error.id > last)}
    return ReviewPage(tuple(items), last if has_more else None, examined, tuple(sorted(damaged)))


def review_of(services: Services, profile: Profile, scope: Scope, id: str, kinds: frozenset[str]) -> ReviewPage:
    """Return the problems of one visible memory, as `review` lists them under it or under a newer memory.

    Of the newer memories, the ten most similar are examined.

    Raises:
        NotFoundError: no such memory is visible.
    """
    versions, now = services.store.history(scope, checks.name("id", id)), services.clock()
    if not versions:
        raise NotFoundError(id)
    stored = versions[-1]
    (items,) = _items(services, profile, scope, [stored], kinds, now)
    newer: list[Stored] = []
    is_compared = stored.vector is not None and stored.memory.forgotten_at is None
    if is_compared and profile.contradiction_above is not None and not kinds.isdisjoint(KINDS):
        ((near,), _) = near_ids(services, profile, scope, [stored], now)
        ids = [near_id for _, near_id in near if near_id > stored.memory.id]
        newer = [found[-1] for near_id in ids[:LABELLED] if (found := services.store.history(scope, near_id))]
    for found_items in _items(services, profile, scope, newer, kinds - {RELATION}, now):
        items += [item for item in found_items if item.other is not None and item.other.id == stored.memory.id]
    if RELATION in kinds:
        selection = Selection(scope=scope, linked_to=(stored.memory.id,), values=LIVE, now=now)
        linked = services.store.browse(selection, "id", LINKED)
        for found_items in _relations(services, scope, linked, now).values():
            items += [item for item in found_items if item.other is not None and item.other.id == stored.memory.id]
    size = AnswerLimit(services, "Read the memories one by one.")
    for item in items:
        size.add([item.memory, *([item.other] if item.other else [])])
    return ReviewPage(tuple(items), None, 1 + len(newer))


def _items(
    services: Services, profile: Profile, scope: Scope, page: Sequence[Stored], kinds: frozenset[str], now: datetime
) -> list[list[ReviewItem]]:
    """Return the problems of each memory of some kinds that are not dismissed."""
    pairs = {} if kinds.isdisjoint(KINDS) else _pairs(services, profile, scope, page, now)
    related = _relations(services, scope, [one.memory for one in page], now) if RELATION in kinds else {}
    found: list[list[ReviewItem]] = []
    for stored in page:
        memory, items = stored.memory, [*pairs.get(stored.memory.id, ()), *related.get(stored.memory.id, ())]
        if memory.status == "stale" and _mark(memory, None) not in dismissed(memory):
            items = [ReviewItem("stale", memory, reasons=(memory.reason,) if memory.reason else ())]
        elif memory.is_live(now) and stored.vector is None:
            items = [ReviewItem("pending", memory), *items]
        found.append([one for one in items if one.kind in kinds])
    return found


def _relations(
    services: Services, scope: Scope, memories: Sequence[Memory], now: datetime
) -> dict[str, list[ReviewItem]]:
    """Return, by the id of the newer memory, the live memories that it likely replaces though no caller said so."""
    said = {
        one.id: [
            link
            for link in one.relations or ()
            if link.kind == "replaces" and link.probability >= LIKELY and not link.hides
        ]
        for one in memories
        if one.is_live(now)
    }
    ids = [*dict.fromkeys(link.id for links in said.values() for link in links)]
    older = {one.id: one for one in services.store.fetch(scope, ids) if one.is_live(now)} if ids else {}
    return {
        one.id: [
            ReviewItem(RELATION, one, older[link.id], link.probability, (link.reason,) if link.reason else ())
            for link in said.get(one.id, ())
            if link.id in older
        ]
        for one in memories
    }


def _pairs(
    services: Services, profile: Profile, scope: Scope, page: Sequence[Stored], now: datetime
) -> dict[str, list[ReviewItem]]:
    """Return, by the id of the newer memory, the pairs of a page's memories with older ones."""
    checked = [
        stored
        for stored in page
        if stored.vector is not None and stored.memory.forgotten_at is None and stored.memory.kind not in UNCHECKED
    ]
    if not checked or profile.contradiction_above is None:
        return {}
    nearby, current = near_ids(services, profile, scope, checked, now)
    older = [
        [pair for pair in near if pair[1] < stored.memory.id][:REACH] if stored.memory.id in current else []
        for stored, near in zip(checked, nearby, strict=True)
    ]
    memories, found = fetched(services, scope, older), dict[str, list[ReviewItem]]()
    for stored, near in zip(checked, older, strict=True):
        new = stored.memory
        others = [(cosine, memories[old_id]) for cosine, old_id in near if old_id in memories]
        others = [
            (cosine, old)
            for cosine, old in others
            if new.scope.sees(old.scope) and old.kind != "reflection" and not are_dismissed(new, old)
        ]
        (conflicts,) = contradictions(services, profile, [stored], [others], now)
        found[new.id] = [
            ReviewItem(conflict.label, new, conflict.memory, conflict.similarity, conflict.because)
            for conflict in conflicts
            if conflict.label is not None and conflict.label in KINDS
        ]
    return found


def _mark(memory: Memory, other: Memory | None) -> str:
    """Return the entry of a dismissed problem: the other memory, or the instant at which a reflection became stale."""
    return str(memory.forgotten_at) if other is None else other.id


def dismiss(
    services: Services, scope: Scope, id: str, other_id: str | None, reason: str | None, *, undo: bool = False
) -> Receipt:
    """Note in the metadata of a memory that a problem of it is settled, or with `undo` that it is not.

    Raises:
        InputError: the memory is live and `other_id` is None, or both ids name one memory.
        NotFoundError: one of the memories is not visible.
    """
    if reason is not None:
        checks.name("reason", reason)

    def attempt() -> Receipt:
        memory = _latest(services, scope, id, "id")
        other = None if other_id is None else _latest(services, scope, other_id, "other_id")
        if other is None and memory.status != "stale":
            raise InputError("other_id", None, "Name the other memory of the pair.", "is missing")
        if other is not None and other.id == memory.id:
            raise InputError("other_id", Words("the same memory"), "Name another memory.", "is the same memory")
        marks, mark = dismissed(memory), _mark(memory, other)
        if (mark in marks) != undo:
            return Receipt(memory, "unchanged")
        kept = [one for one in marks if one != mark] if undo else [*marks, mark]
        rest = {name: value for name, value in memory.metadata.items() if name != DISMISSED}
        metadata = checks.metadata("metadata", {**rest, DISMISSED: kept} if kept else rest)
        what = "undid: dismissed" if undo else "dismissed"
        why = reason or (what if other is None else f"{what} beside {other.short_id}")
        change = "update" if memory.forgotten_at is None else memory.change  # which tells why it is hidden
        now, by = services.clock(), scope.who_at(memory.scope)
        values = {} if other is None else _settled(services, memory, other, undo)
        new = memory.changed(change, now, by=by, reason=why, metadata=metadata, **values)
        changes = [Revise(new)]
        if other is not None and other.forgotten_at is None and (values := _settled(services, other, memory, undo)):
            changes.append(Revise(other.changed("update", now, by=scope.who_at(other.scope), reason=why, **values)))
        return replace(services.store.apply(changes)[0], status="updated")

    return retry_stale(attempt)


def _settled(services: Services, memory: Memory, other: Memory, undo: bool) -> Mapping[str, Any]:
    """Return the `relations` of a memory without those to another one, or with `undo` as they were decided.

    A memory that the other one superseded gets its weight back. Empty if nothing changes.
    """
    if other.supersedes == memory.id:
        weight = weight_before(services, memory, other)
        if undo and any(one.memory.change == "supersede" for one in services.store.history(memory.scope, memory.id)):
            weight = SUPERSEDED_WEIGHT
        return {} if weight == memory.weight else {"weight": weight}
    kept = tuple(one for one in memory.relations or () if one.id != other.id)
    if undo and recency(memory) > recency(other):
        versions, of_older = (services.store.history(one.scope, one.id) for one in (memory, other))
        vectors = versions[-1].vector, of_older[-1].vector
        near = [] if vectors[0] is None or vectors[1] is None else [(float(vectors[0] @ vectors[1]), other)]
        facts = [other] if memory.fact_key is not None and fact_of(memory) == fact_of(other) else []
        said = any(
            link.hides and link.id == other.id
            for one in versions
            if one.memory.supersedes != other.id or memory.supersedes == other.id  # not a word taken back since
            for link in one.memory.relations or ()
        )
        found = relate(services.calibration, memory, near, same_fact=facts, has_key=said)
        kept = surest_first((*kept, *(link for link in found if link.id == other.id)))
    return {} if kept == (memory.relations or ()) else {"relations": kept}


def _latest(services: Services, scope: Scope, id: str, field: str) -> Memory:
    versions = services.store.history(scope, checks.name(field, id))
    if not versions:
        raise NotFoundError(id, field)
    return versions[-1].memory


def changes(services: Services, scope: Scope, filter: RevisionFilter, limit: int, cursor: str | None) -> ChangesPage:
    """Return the versions of visible memories, live or not, the newest first.

    Raises:
        InputError: an invalid cursor.
        LimitError: the page is larger than one answer may be.
    """
    before = None
    if cursor is not None:
        if (read := _CURSOR.fullmatch(checks.name("cursor", cursor))) is None:
            raise InputError("cursor", cursor, "Give the cursor of the page before, or none for the first page.")
        before = _EPOCH + int(read[1]) * _MICROSECOND, read[2], int(read[3])
    found = services.store.revisions(scope, before, limit + 1, filter)
    page = found[:limit]
    AnswerLimit(services, "Lower limit.").add(one.memory for one in page)
    versions = tuple(
        Version(
            one.memory,
            () if one.previous is None else changed_fields(services, scope, one.previous, one.memory),
            one.until,
        )
        for one in page
    )
    last = page[-1].memory if len(found) > limit else None
    key = None if last is None else f"{(last.changed_at - _EPOCH) // _MICROSECOND}_{last.id}_{last.version}"
    return ChangesPage(versions, key)


def activity(services: Services, scope: Scope, filter: RevisionFilter) -> tuple[ActivityDay, ...]:
    """Return the counts of each day in UTC on which something happened, the earliest first."""
    days: dict[date, Counter[str]] = {}
    names = {"create": "created", "forget": "forgotten", "expire": "forgotten", "recall": "recalled",
             "date": "dated"}  # fmt: skip
    for day, change, count in services.store.daily(scope, filter):
        days.setdefault(day, Counter())[names.get(change, "changed")] += count
    return tuple(ActivityDay(day.isoformat(), **counts) for day, counts in sorted(days.items()))
