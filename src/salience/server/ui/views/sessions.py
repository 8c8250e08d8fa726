"""Sessions: the sessions of a scope, the latest first, and the turns of one as a transcript."""

from __future__ import annotations

from datetime import timedelta
from itertools import groupby
from typing import Any, Final

from fastapi import APIRouter
from starlette.responses import Response

from salience import keywords
from salience.engine import Engine
from salience.errors import InputError
from salience.ports import SESSION, After, Selection, SessionSummary
from salience.records import Memory, checks
from salience.records.ids import ID
from salience.server.ui.page import Page, Visit
from salience.server.ui.views.explorer import BROWSE

router = APIRouter()
PAGE: Final = 50
"""Sessions on a page."""
TURNS: Final = 100
"""Memories of a transcript on a page."""
WORDS: Final = 20
PAUSE: Final = timedelta(minutes=30)
"""A transcript shows the time again after a pause of this length."""
SPEAKERS: Final = 6
"""Number of colours for speakers."""


@router.get("/sessions")
def show(page: Visit) -> Response:
    """Return the sessions with memories that contain the words of the URL."""
    words = tuple(page.query.get("q", "").split()[:WORDS])
    after = _after(page.query.get("cursor"))

    def find(engine: Engine, **where: Any) -> list[SessionSummary]:
        scope = keywords.scope(engine.services.tenant, where)[0]
        values = {"status": ("live",), **({SESSION: (scope.session_id,)} if scope.session_id else {})}
        return engine.services.store.browse_sessions(
            Selection(scope=scope, words=words, values=values), PAGE + 1, after
        )

    found = page.apply(BROWSE, find)
    sessions, cursor = found[:PAGE], None
    if len(found) > PAGE:
        cursor = f"{_microseconds(sessions[-1])}:{sessions[-1].key}"
    links = [_transcript(page, one) for one in sessions]
    return page.render("views/sessions.html", sessions=list(zip(sessions, links, strict=True)), cursor=cursor)


@router.get("/sessions/transcript")
def transcript(page: Visit) -> Response:
    """Return the memories of a session in the order of their instants.

    `id` is the session and `f_user_id` its user, empty for a session without one. Without it, the session of any user
    is shown.
    """
    name = checks.name("id", page.query.get("id", ""))
    values = {SESSION: (name,), "status": ("live",)}
    if (user := page.query.get("f_user_id")) is not None:
        values["user_id"] = (user,)
    place = {"environment": page.query["env"]} if page.query.get("env") else {}
    after = _after(page.query.get("cursor"), is_id=True)

    def find(engine: Engine, **where: Any) -> tuple[list[SessionSummary], list[Memory]]:
        store = engine.services.store
        selection = Selection(scope=keywords.scope(engine.services.tenant, where)[0], values=values)
        turns = store.browse(selection, "created_at", TURNS + 1, ascending=True, after=after)
        return store.browse_sessions(selection, PAGE), turns

    summaries, found = page.apply(BROWSE, find, session_id=None, **place)
    turns, cursor = found[:TURNS], None
    if len(found) > TURNS:
        cursor = f"{round(turns[-1].created_at.timestamp() * 1_000_000)}:{turns[-1].id}"
    return page.render(
        "views/transcript.html",
        name=name,
        summaries=summaries,
        parts=parts(turns),
        colours=colours(turns),
        cursor=cursor,
    )


def parts(turns: list[Memory]) -> list[list[Memory]]:
    """Return a transcript in parts, between which `PAUSE` or more goes by."""
    starts, number = dict[str, int](), 0
    for before, one in zip([None, *turns], turns, strict=False):
        number += before is not None and one.created_at - before.created_at >= PAUSE
        starts[one.id] = number
    return [list(part) for _, part in groupby(turns, key=lambda one: starts[one.id])]


def colours(turns: list[Memory]) -> dict[str, int]:
    """Return the number of the colour of each speaker, in the order of their first turn."""
    speakers = dict.fromkeys(one.speaker for one in turns if one.speaker)
    return {name: number % SPEAKERS for number, name in enumerate(speakers)}


def _transcript(page: Page, session: SessionSummary) -> str:
    return page.url("sessions/transcript", id=session.id, f_user_id=session.user_id or "", env=session.environment)


def _microseconds(session: SessionSummary) -> int:
    return round(session.end.timestamp() * 1_000_000)


def _after(cursor: str | None, *, is_id: bool = False) -> After | None:
    if not cursor:
        return None
    number, _, last = cursor.partition(":")
    is_whole = number.removeprefix("-").isdecimal() and len(number) < 18
    if not is_whole or (is_id and not ID.fullmatch(last)) or last.count("\x1f") != (0 if is_id else 2):
        raise InputError("cursor", cursor, "Go back to the first page.", "is not the cursor of a page")
    return After(int(number), last)
