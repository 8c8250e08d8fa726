"""Playground: a question, and how each hit got its score."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from salience.server.ui.page import Visit

router = APIRouter()


@router.get("/playground")
def show(page: Visit) -> Response:
    """Return the page."""
    return page.render("views/playground.html", total=page.call("stats").memories)
