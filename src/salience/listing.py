"""Listings: pages of memories, and counts."""

from __future__ import annotations

from collections import Counter
from typing import Final

from salience.errors import DamagedError, InputError
from salience.ports import Services
from salience.records import Filter, Memory, Page, Scope, Stats, checks
from salience.records.ids import ID
from salience.steps import AnswerLimit, out_of_scope, read_page

READ: Final = 128
"""Memories read at a time, so that a page over the answer limit is not read to its end."""


def page(services: Services, scope: Scope, filter: Filter, limit: int, cursor: str | None) -> Page:
    """Return up to `limit` visible live memories after `cursor`.

    Raises:
        InputError: an invalid cursor.
        LimitError: the page is larger than one answer may be.
    """
    after = cursor_id(cursor)
    size, memories, passed = AnswerLimit(services, "Lower limit."), list[Memory](), list[DamagedError]()
    while wanted := limit + 1 - len(memories):
        read = read_page(services, scope, after, min(wanted, READ), filter, passed=passed)
        found = [stored.memory for stored in read]
        memories += found
        size.add(found[:limit])
        if len(found) < min(wanted, READ):
            break
        after = found[-1].id
    next_page = memories[limit - 1].id if len(memories) > limit else None
    damaged = {error.id for error in passed if error.id is not None and (next_page is None or error.id < next_page)}
    is_empty = not memories and not damaged and cursor is None and filter.level is None
    elsewhere = out_of_scope(services, scope) if is_empty else ()
    return Page(tuple(memories[:limit]), next_page, tuple(sorted(damaged)), elsewhere)


def cursor_id(cursor: str | None) -> str:
    """Return the id in a cursor; empty for None. Raise `InputError` for an invalid cursor."""
    after = "" if cursor is None else checks.name("cursor", cursor)
    if after and not ID.fullmatch(after):
        raise InputError("cursor", after, "Give the cursor of the page before, or none for the first page.")
    return after


def stats(services: Services, scope: Scope) -> Stats:
    """Return the number of visible live memories, in total and by kind, tier, project, user and agent."""
    counts = {name: Counter[str]() for name in ("kind", "tier", "project", "user_id", "agent_id", "session_id")}
    total = pending = 0
    for found in services.store.counts(scope):
        total += found.memories
        pending += found.pending
        for name, counter in counts.items():
            counter[getattr(found, name) or ""] += found.memories
    by = {name: dict(sorted(counter.items())) for name, counter in counts.items()}
    return Stats(
        memories=total,
        by_kind=by["kind"],
        by_tier=by["tier"],
        by_project=by["project"],
        by_user=by["user_id"],
        by_agent=by["agent_id"],
        sessions=len(by["session_id"].keys() - {""}),
        embedder=services.embedder.name,
        dimension=services.embedder.dimension,
        pending=pending,
        out_of_scope=() if total else out_of_scope(services, scope),
    )
