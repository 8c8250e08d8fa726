"""Listings: pages of memories, sessions and the recall log, and counts."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import Final

from salience.errors import DamagedError, InputError
from salience.ports import LIVE, After, Selection, Services
from salience.records import (
    ENTITY,
    FACETS,
    SORTABLE,
    TAG,
    Facets,
    Memory,
    Page,
    RecallLogPage,
    Scope,
    SessionsPage,
    Stats,
    checks,
)
from salience.records.ids import ID, WHOLE_OR_SHORT_ID
from salience.relations import with_replacements
from salience.steps import AnswerLimit, emptied_by, out_of_scope
from salience.store.values import microseconds

READ: Final = 128
"""Memories read at a time, so that a page over the answer limit is not read to its end."""
ENTRY_SIZE: Final = 2000
"""Bytes to count per entry of the recall log besides its question and hits."""
HIT_SIZE: Final = 1600
"""Bytes to count per hit of an entry."""


def page(
    services: Services, selection: Selection, order: str, limit: int, cursor: str | None, *, descending: bool
) -> Page:
    """Return up to `limit` selected memories after `cursor`.

    Raises:
        InputError: an unknown order, or an invalid cursor.
        LimitError: the page is larger than one answer may be.
    """
    after, scope = _after(checks.choice("order", order, SORTABLE), cursor), selection.scope
    size, memories, passed = AnswerLimit(services, "Lower limit."), list[Memory](), list[DamagedError]()
    while wanted := min(limit + 1 - len(memories), READ):
        found = services.store.browse(selection, order, wanted, ascending=not descending, after=after, passed=passed)
        size.add(found[: limit - len(memories)])
        memories += found
        if len(found) < wanted:
            break
        after = _place(found[-1], order)
    listed, last = memories[:limit], memories[limit - 1] if len(memories) > limit else None
    damaged = {error.id for error in passed if error.id is not None}
    if last is not None and order == "id":  # the others are on the next page
        damaged = {one for one in damaged if (one > last.id if descending else one < last.id)}
    is_empty = not memories and not damaged and cursor is None
    elsewhere = out_of_scope(services, selection) if is_empty else ()
    emptied = emptied_by(services, selection) if is_empty else ()
    with suppress(DamagedError):  # `damaged` names that row, here or on its page; the others are listed without marks
        listed = with_replacements(services, scope, listed)
    return Page(
        tuple(listed), None if last is None else _cursor(last, order), tuple(sorted(damaged)), elsewhere, emptied
    )


def _place(memory: Memory, order: str) -> After:
    value = 0 if order == "id" else getattr(memory, order) or 0
    return After(value if isinstance(value, int | float) else microseconds(value), memory.id)


def _cursor(memory: Memory, order: str) -> str:
    return memory.id if order == "id" else f"{_place(memory, order).value!r}_{memory.id}"


def _after(order: str, cursor: str | None) -> After | None:
    """Return the place of a cursor of `page`; None for the first page. Raise `InputError` for an invalid cursor."""
    if cursor is None:
        return None
    number, _, last = checks.name("cursor", cursor).rpartition("_")
    try:
        value = 0.0 if order == "id" else float(number)
    except ValueError:
        value = math.inf
    if not ID.fullmatch(last) or not abs(value) < 2**53:
        raise _no_cursor(cursor)
    return After(value, last)


def _no_cursor(cursor: str) -> InputError:
    remedy = "Give the cursor of the page before, under the same arguments, or none for the first page."
    return InputError("cursor", cursor, remedy)


def facets(services: Services, selection: Selection, fields: Sequence[str], top: int) -> Facets:
    """Return the number of selected memories, and the `top` most frequent values of some fields; empty: all but one.

    A store has too many entities to count them unasked.
    """
    for name in checks.names("fields", fields):
        checks.choice("fields", name, (*FACETS, TAG, ENTITY))
    wanted = tuple(fields) or (*FACETS, TAG)
    found = services.store.facets(selection, top)
    values, distinct = {**found.values}, {**found.distinct}
    if ENTITY in wanted:
        entities = services.store.count_entities(selection)
        values[ENTITY], distinct[ENTITY] = dict(islice(entities.items(), top)), len(entities)
    return Facets(found.total, {name: values[name] for name in wanted}, {name: distinct[name] for name in wanted})


def sessions(services: Services, selection: Selection, limit: int, cursor: str | None) -> SessionsPage:
    """Return up to `limit` sessions of the selected memories after `cursor`, the latest first.

    Raises:
        InputError: an invalid cursor.
    """
    after = None
    if cursor is not None:
        number, _, key = cursor.partition("_")
        if not re.fullmatch("-?[0-9]{1,17}", number) or key.count("\x1f") != 2:
            raise _no_cursor(cursor)
        after = After(int(number), key)
    found = services.store.browse_sessions(selection, limit + 1, after)
    last = found[limit - 1] if len(found) > limit else None
    return SessionsPage(tuple(found[:limit]), None if last is None else f"{microseconds(last.end)}_{last.key}")


def cursor_id(cursor: str | None) -> str:
    """Return the id in a cursor; empty for None. Raise `InputError` for an invalid cursor."""
    after = "" if cursor is None else checks.name("cursor", cursor)
    if after and not ID.fullmatch(after):
        raise _no_cursor(after)
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
        checks.query("query", text)
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
    kept = services.recall_log
    return RecallLogPage(
        tuple(found[:limit]),
        found[limit - 1].id if len(found) > limit else None,
        None if kept is None else kept.total_seconds(),
    )


def stats(services: Services, scope: Scope) -> Stats:
    """Return the number of visible live memories, in total and by kind, tier, project, user and agent."""
    now = services.clock()
    found = services.store.counts(scope, now)
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
        out_of_scope=() if found.total else out_of_scope(services, Selection(scope=scope, values=LIVE, now=now)),
    )
