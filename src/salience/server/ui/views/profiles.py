"""Profiles: the formulas that rank recalls."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from salience.server.ui.page import Visit

router = APIRouter()


@router.get("/profiles")
def show(page: Visit) -> Response:
    """Return the page."""
    return page.render("views/profiles.html", total=page.call("stats").memories)
