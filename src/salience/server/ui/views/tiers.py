"""Tiers and decay: memories by tier, and how they fade."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from salience.server.ui.page import Visit

router = APIRouter()


@router.get("/tiers")
def show(page: Visit) -> Response:
    """Return the page."""
    return page.render("views/tiers.html", total=page.call("stats").memories)
