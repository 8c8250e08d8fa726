"""Sessions: the turns of a session."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from salience.server.ui.page import Visit

router = APIRouter()


@router.get("/sessions")
def show(page: Visit) -> Response:
    """Return the page."""
    return page.render("views/sessions.html", total=page.call("stats").memories)
