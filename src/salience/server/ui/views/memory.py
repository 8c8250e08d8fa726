"""Memory: one memory with its content, fields and versions."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import RedirectResponse, Response

from salience.server.ui.page import Visit

router = APIRouter()


@router.get("/memory")
def find(page: Visit) -> Response:
    """Return the form that asks for an id, or the page of the memory that the URL names."""
    if memory_id := page.query.get("id", "").strip():
        return RedirectResponse(page.url(f"memory/{memory_id}"), 303)
    return page.render("views/memory_find.html")


@router.get("/memory/{memory_id}")
def show(page: Visit, memory_id: str) -> Response:
    """Return the page of a memory."""
    versions = page.call("history", id=memory_id)
    return page.render("views/memory.html", memory=versions[-1].memory, versions=versions)
