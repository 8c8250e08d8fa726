"""Listings: pages of memories and of the recall log, and counts."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from salience.errors import DamagedError, InputError
from salience.ports import Services
from salience.records import Filter, Memory, Page, RecallLogPage, Scope, Stats, checks
from salience.records.ids import ID, WHOLE_OR_SHORT_ID
from salience.relations import with_replacements
from salience.steps import AnswerLimit, out_of_scope, read_page

READ: Final = 128
"""Memories read at a time, so that a page over the answer limit is not read to its end."""
ENTRY_SIZE: Final = 2000
"""Bytes to count per entry of the recall log besides its question and hits."""
HIT_SIZE: Final = 1600
"""Bytes to count per hit of an entry."""


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
    is_empty = not memories and not damaged and cursor is None and filter.level is None and not filter.fact_keys
    elsewhere = out_of_scope(services, scope) if is_empty else ()
    listed = memories[:limit]
    with suppress(DamagedError):  # `damaged` names that row, here or on its page; the others are listed without marks
        listed = with_replacements(services, scope, listed)
    return Page(tuple(listed), next_page, tuple(sorted(damaged)), elsewhere)


def cursor_id(cursor: str | None) -> str:
    """Return the id in a cursor; empty for None. Raise `InputError` for an invalid cursor."""
    after = "" if cursor is None else checks.name("cursor", cursor)
    if after and not ID.fullmatch(after):
        raise InputError("cursor", after, "Give the cursor of the page before, or none for the first page.")
    return after


def recalls(
    services: Services,
    scope: Scope,
    limit: int,
    cursor: str | None,
    text: str | None,
    id: str | None,
    memory_id: str | None,
) -> RecallLogPage:
    """Return up to `limit` entries of the recall log that belong to `scope`, newest first, after `cursor`.

    Raises:
        InputError, LimitError: as `page`.
    """
    before = cursor_id(cursor) or None
    if text is not None:
        checks.text("query", text, services.content_limit)
    if id is not None and not ID.fullmatch(checks.name("id", id)):
        raise InputError("id", id, "Give the id of an entry of the recall log.")
    if memory_id is not None and not WHOLE_OR_SHORT_ID.fullmatch(checks.name("memory_id", memory_id)):
        raise InputError("memory_id", memory_id, "Give the whole or short id of a memory.")
    found = services.store.recalls(
        scope, services.clock(), limit + 1, before=before, text=text, id=id, memory_id=memory_id
    )
    size = AnswerLimit(services, "Lower limit.")
    for entry in found[:limit]:
        size.add_size(ENTRY_SIZE + len(entry.question.encode()) + HIT_SIZE * len(entry.hits))
    return RecallLogPage(tuple(found[:limit]), found[limit - 1].id if len(found) > limit else None)


def stats(services: Services, scope: Scope) -> Stats:
    """Return the number of visible live memories, in total and by kind, tier, project, user and agent."""
    found = services.store.counts(scope)
    by = {name: dict(sorted(values.items())) for name, values in found.values.items()}
    return Stats(
        memories=found.total,
        by_kind=by["kind"],
        by_tier=by["tier"],
        by_project=by["project"],
        by_user=by["user_id"],
        by_agent=by["agent_id"],
        sessions=len(by["session_id"].keys() - {""}),
        embedder=services.embedder.name,
        dimension=services.embedder.dimension,
        pending=found.pending,
        out_of_scope=() if found.total else out_of_scope(services, scope),
    )
