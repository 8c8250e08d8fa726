"""Sessions: the sessions of a scope, the latest first, and the turns of one as a transcript."""

from __future__ import annotations

from datetime import timedelta
from itertools import groupby
from typing import Any, Final

from fastapi import APIRouter
from starlette.responses import Response

from salience.records import Memory, SessionsPage, checks
from salience.records import Page as Listing
from salience.server.ui.page import Visit

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
    words, session = page.query.get("q", "").split()[:WORDS], page.scope.get("session_id")
    found: SessionsPage = page.call(
        "sessions", words=words, sessions=[session] if session else [], limit=PAGE, cursor=page.query.get("cursor")
    )
    links = [
        page.url("sessions/transcript", id=one.id, f_user_id=one.user_id or "", env=one.environment)
        for one in found.sessions
    ]
    return page.render(
        "views/sessions.html", sessions=list(zip(found.sessions, links, strict=True)), cursor=found.cursor
    )


@router.get("/sessions/transcript")
def transcript(page: Visit) -> Response:
    """Return the memories of a session in the order of their instants.

    `id` is the session and `f_user_id` its user, empty for a session without one. Without it, the session of any user
    is shown.
    """
    name = checks.name("id", page.query.get("id", ""))
    of: dict[str, Any] = {"sessions": [name], "session_id": None}
    if (user := page.query.get("f_user_id")) is not None:
        of["users"] = [user]
    if page.query.get("env"):
        of["environment"] = page.query["env"]
    found: Listing = page.call("list", **of, order="created_at", limit=TURNS, cursor=page.query.get("cursor"))
    turns, summaries = list(found.memories), page.call("sessions", **of, limit=PAGE).sessions
    return page.render(
        "views/transcript.html",
        name=name,
        summaries=summaries,
        parts=parts(turns),
        colours=colours(turns),
        cursor=found.cursor,
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
