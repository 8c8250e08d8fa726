"""Compare: the answers of several profiles, side by side."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from salience.server.ui.page import Visit

router = APIRouter()


@router.get("/compare")
def show(page: Visit) -> Response:
    """Return the page."""
    return page.render("views/compare.html", total=page.call("stats").memories)
