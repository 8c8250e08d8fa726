"""Graph: entities and links around a memory."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from salience.server.ui.page import Visit

router = APIRouter()


@router.get("/graph")
def show(page: Visit) -> Response:
    """Return the page."""
    return page.render("views/graph.html", total=page.call("stats").memories)
