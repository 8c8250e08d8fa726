"""Explorer: memories by field, with counts per value, or by a question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from fastapi import APIRouter
from starlette.responses import Response

from salience.records import FACETS, TAG, Facets, Memory, Recall, checks
from salience.records import Page as Listing
from salience.records.answers import emptied
from salience.records.query import CHOICES
from salience.server.ui.page import BASE, Page, Visit

router = APIRouter()
PAGE: Final = 50
HITS: Final = 50
"""Memories of a recall."""
DAYS: Final = 30
STEPS: Final = 24
"""Days and points of a curve."""
TOP: Final = 20
"""Values of a facet; more of the facet that the URL names in `facet`."""
MANY: Final = 500
SORTS: Final = {
    "id": "Stored", "created_at": "Created", "updated_at": "Changed", "accessed_at": "Last recalled",
    "importance": "Importance", "weight": "Weight", "access_count": "Times recalled",
}  # fmt: skip
"""Field to sort by -> its label."""
LABELS: Final = {
    "status": "Status", "user_id": "User", "project": "Project", "agent_id": "Agent", "kind": "Kind", "tier": "Tier",
    "tag": "Tag", "session_id": "Session",
}  # fmt: skip
"""Facet -> its label, in the order of the page."""
ENTITY: Final = "f_entity"
"""Parameter with an entity that the memories must name. It is no facet: a store has too many entities."""
NONE: Final = dict.fromkeys(("user_id", "project", "agent_id"), "shared by all")
"""Facet -> the label of memories without a value."""


@router.get("/")
def show(page: Visit) -> Response:
    """Return the memories that the URL selects."""
    values = _search(page)
    if page.query.get("counts") and values["facets"] is None:
        values["facets"] = _counts(page)
    return page.render("views/explorer.html", **values)


@router.get("/facets")
def show_facets(page: Visit) -> Response:
    """Return the filters with their counts, which take longer than the memories."""
    page = replace(page, path=f"{BASE}/")
    is_filtered = _is_filtered(page)
    return page.render(
        "views/explorer_facets.html", LABELS=LABELS, NONE=NONE, facets=_counts(page), is_filtered=is_filtered
    )


def _search(page: Page) -> dict[str, Any]:
    """Return the values of the template."""
    query, fading = page.query.get("q", "").strip(), page.fading
    mode = checks.choice("mode", page.query.get("mode", "text"), ("text", "recall"))
    sort = checks.choice("sort", page.query.get("sort", "id"), tuple(SORTS))
    order = checks.choice("order", page.query.get("order", "desc"), ("desc", "asc"))
    default = page.profile.name if page.profile.name in fading else "none"
    faded = checks.choice("decay", page.query.get("decay", default), ("none", *fading))
    selection = _selection(page)
    recall: Recall | None = None
    found: Facets | None = None
    if mode == "recall" and query:
        recall, found = _recall(page, query, selection)
        memories, cursor, emptied_by = [hit.memory for hit in recall], None, recall.emptied_by
    else:
        listed: Listing = page.call(
            "list", **selection, order=sort, descending=order == "desc", limit=PAGE, cursor=page.query.get("cursor")
        )
        memories, cursor, emptied_by = list(listed.memories), listed.cursor, listed.emptied_by
    return {
        "q": query, "mode": mode, "sort": sort, "order": order, "decay": faded, "FADING": fading, "SORTS": SORTS,
        "LABELS": LABELS, "NONE": NONE, "memories": memories, "cursor": cursor, "facets": found, "recall": recall,
        "hits": {hit.memory.id: hit for hit in recall or ()},
        "best": max((hit.score for hit in recall or ()), default=1.0),
        "curves": [] if faded == "none" else page.curves(memories, faded, DAYS, STEPS),
        "is_filtered": _is_filtered(page),
        "emptied": "".join(emptied(emptied_by)),
        "emptied_by": emptied_by,
    }  # fmt: skip


def _selection(page: Page) -> dict[str, Any]:
    """Return the conditions of `list` and `facets` that the URL names."""
    words = page.query.get("q", "").split() if page.query.get("mode", "text") == "text" else []
    chosen = {name: page.query.getlist(f"f_{field}") for name, field in CHOICES.items()}
    chosen |= {"tags": page.query.getlist("f_tag"), "entities": page.query.getlist(ENTITY), "words": words[:20]}
    return {name: values for name, values in chosen.items() if values}


def _is_filtered(page: Page) -> bool:
    named = any(page.query.get(name) is not None for name in (*(f"f_{facet}" for facet in (*FACETS, TAG)), ENTITY))
    return named or bool(page.query.get("q"))


def _counts(page: Page) -> Facets:
    """Return the facets, with more values of the one that the URL names."""
    wide = page.query.get("facet")
    found: Facets = page.call("facets", **_selection(page), top=MANY if wide else TOP)
    if not wide:
        return found
    cut = {name: values if name == wide else dict(list(values.items())[:TOP]) for name, values in found.values.items()}
    return Facets(found.total, cut, found.distinct)


def _recall(page: Page, query: str, selection: dict[str, Any]) -> tuple[Recall, Facets]:
    """Return the hits for a question that the filters accept, and the counts of the hits."""
    filters = {name: [one for one in selection.get(name, ()) if one] for name in ("kinds", "tiers", "tags", "sessions")}
    recall: Recall = page.call("recall", query=query, limit=HITS, dry_run=True, **filters)
    own = {CHOICES[name]: selection[name] for name in ("projects", "users", "agents") if name in selection}
    entities = set(selection.get("entities", ()))
    hits = tuple(
        hit
        for hit in recall
        if all((getattr(hit.memory.scope, name) or "") in chosen for name, chosen in own.items())
        and (not entities or not entities.isdisjoint(hit.memory.entities))
    )
    found = _facets_of([hit.memory for hit in hits])
    shown = Recall(
        hits, recall.profile, confident=recall.confident, degraded=recall.degraded, emptied_by=recall.emptied_by
    )
    return shown, found


def _facets_of(memories: Sequence[Memory]) -> Facets:
    """Return the counts of the values of some memories."""
    counts: dict[str, Counter[str]] = {
        name: Counter(getattr(one, name, None) or getattr(one.scope, name, None) or "" for one in memories)
        for name in FACETS
    }
    counts[TAG] = Counter(tag for one in memories for tag in one.tags)
    distinct = {name: len(found) for name, found in counts.items()}
    return Facets(len(memories), {name: dict(found.most_common(TOP)) for name, found in counts.items()}, distinct)
