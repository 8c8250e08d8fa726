"""Operations: counts, sizes, keys, export and import."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from salience.server.ui.page import Visit

router = APIRouter()


@router.get("/operations")
def show(page: Visit) -> Response:
    """Return the page."""
    return page.render("views/operations.html", total=page.call("stats").memories)
