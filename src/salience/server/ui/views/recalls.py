"""Recalls: the log of recalls, and the trace of each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from fastapi import APIRouter
from starlette.responses import Response

from salience.errors import NotFoundError
from salience.rank import profiles
from salience.records import LoggedHit, LoggedRecall, RecallLogPage
from salience.server.ui.page import Page, Visit

router = APIRouter()
PAGE: Final = 50


@router.get("/recalls")
def show(page: Visit) -> Response:
    """Return the entries whose question contains the text of the URL, or that name its memory, the newest first."""
    question, memory_id = page.query.get("q", "").strip() or None, page.query.get("memory", "").strip() or None
    cursor = page.query.get("cursor") or None
    found: RecallLogPage = page.call("recalls", query=question, memory_id=memory_id, limit=PAGE, cursor=cursor)
    return page.render("views/recalls.html", found=found, memory_id=memory_id)


@router.get("/recalls/{id}")
def trace(page: Visit, id: str) -> Response:
    """Return an entry with the parts of the score of each hit."""
    found: RecallLogPage = page.call("recalls", id=id, limit=1)
    if not found.recalls:
        raise NotFoundError(id)
    entry = found.recalls[0]
    ids = sorted(entry.cited)
    memories = page.call("list", ids=ids, limit=len(ids)).memories if ids else ()
    return page.render(
        "views/recall.html",
        entry=entry,
        memories={one.id: one for one in memories},
        sums={hit.id: added(hit) for hit in entry.hits},
        names=names(entry.hits),
        widest=max((sum(value for _, value in added(hit)) for hit in entry.hits), default=1.0) or 1.0,
        conditions=conditions(entry),
        again=page.url("playground", **question(page, entry)),
    )


def names(hits: Sequence[LoggedHit]) -> list[str]:
    """Return the signals that are added in the scores of some hits, in the order of the profile."""
    return list(dict.fromkeys(part.signal for hit in hits for part in hit.score_detail.parts if part.combine == "sum"))


def added(hit: LoggedHit) -> list[tuple[str, float]]:
    """Return the parts of a score that are added."""
    return [(part.signal, part.contribution) for part in hit.score_detail.parts if part.combine == "sum"]


def conditions(entry: LoggedRecall) -> list[tuple[str, Any]]:
    """Return the arguments of a logged recall that were given, with their labels."""
    given = {"limit": entry.limit, "least score": entry.min_score, "now": entry.now, "as of": entry.as_of}
    found = [(name, value) for name, value in given.items() if value is not None]
    found += [(name, value) for name, value in entry.filter.items() if value not in (None, [], ())]
    return [(name, _text(value)) for name, value in found]


def question(page: Page, entry: LoggedRecall) -> dict[str, Any]:
    """Return the parameters of the playground that ask the same question in the same scope."""
    scope = {name: value for name, value in entry.scope.as_dict().items() if name not in page.grant.bound}
    options = {"limit": entry.limit, "min_score": entry.min_score, "now": entry.now, "as_of": entry.as_of}
    named = {name: _text(value) for name, value in {**options, **entry.filter}.items() if value not in (None, [], ())}
    own = {} if entry.profile not in profiles.NAMES else {"profile": entry.profile}
    return {**scope, "q": entry.question, **own, **named}


def _text(value: Any) -> str:
    match value:
        case datetime():
            return value.isoformat()
        case list() | tuple():
            return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
