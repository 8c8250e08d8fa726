"""Time: the store at an instant of the past."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from salience.server.ui.page import Visit

router = APIRouter()


@router.get("/time")
def show(page: Visit) -> Response:
    """Return the page."""
    return page.render("views/time.html", total=page.call("stats").memories)
