"""Why: why a memory is, or is not, in the answer to a question."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from salience.server.ui.page import Visit

router = APIRouter()


@router.get("/why")
def show(page: Visit) -> Response:
    """Return the page."""
    return page.render("views/why.html", total=page.call("stats").memories)
