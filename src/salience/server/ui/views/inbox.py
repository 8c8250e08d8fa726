"""Inbox: contradictions, duplicates and what waits."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from salience.server.ui.page import Visit

router = APIRouter()


@router.get("/inbox")
def show(page: Visit) -> Response:
    """Return the page."""
    return page.render("views/inbox.html", total=page.call("stats").memories)
