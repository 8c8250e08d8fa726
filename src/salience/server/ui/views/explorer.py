"""Explorer: memories by field, with counts per value, or by a question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from fastapi import APIRouter
from starlette.responses import Response

from salience import keywords
from salience.engine import Engine
from salience.errors import InputError
from salience.ports import FACETS, TAG, After, Facets, Selection
from salience.rank import profiles
from salience.records import Memory, Recall, checks
from salience.records.ids import ID
from salience.relations import with_replacements
from salience.server.ui import decay
from salience.server.ui.page import BASE, Page, Visit
from salience.verbs import VERBS

router = APIRouter()
BROWSE: Final = replace(VERBS["list"], name="browse")
"""For the rights and bounds of the caller; `browse` and `count` are no verbs of the API."""
PAGE: Final = 50
HITS: Final = 50
"""Memories of a recall."""
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
    page, selection = replace(page, path=f"{BASE}/"), _selection(page)
    is_filtered = _is_filtered(page, selection)
    return page.render(
        "views/explorer_facets.html", LABELS=LABELS, NONE=NONE, facets=_counts(page), is_filtered=is_filtered
    )


def _search(page: Page) -> dict[str, Any]:
    """Return the values of the template."""
    query, fading = page.query.get("q", "").strip(), decay.profiles_that_fade()
    mode = checks.choice("mode", page.query.get("mode", "text"), ("text", "recall"))
    sort = checks.choice("sort", page.query.get("sort", "id"), tuple(SORTS))
    order = checks.choice("order", page.query.get("order", "desc"), ("desc", "asc"))
    default = page.profile.name if page.profile.name in fading else fading[0]
    faded = checks.choice("decay", page.query.get("decay", default), fading)
    selection = _selection(page)
    recall: Recall | None = None
    found: Facets | None = None
    if mode == "recall" and query:
        recall, found = _recall(page, query, selection)
        memories, cursor = [hit.memory for hit in recall], None
    else:
        memories, cursor = _browse(page, selection, sort, order)
    return {
        "q": query, "mode": mode, "sort": sort, "order": order, "decay": faded, "FADING": fading, "SORTS": SORTS,
        "LABELS": LABELS, "NONE": NONE, "memories": memories, "cursor": cursor, "facets": found, "recall": recall,
        "hits": {hit.memory.id: hit for hit in recall or ()},
        "best": max((hit.score for hit in recall or ()), default=1.0),
        "curves": decay.curves(memories, profiles.load(faded), page.now), "is_filtered": _is_filtered(page, selection),
    }  # fmt: skip


def _selection(page: Page) -> dict[str, Any]:
    """Return the fields of `Selection` but the scope."""
    values = {name: tuple(page.query.getlist(f"f_{name}")) for name in FACETS}
    values = {name: chosen for name, chosen in values.items() if chosen}
    words = page.query.get("q", "").split() if page.query.get("mode", "text") == "text" else []
    return {
        "words": tuple(words[:20]),
        "tags": tuple(page.query.getlist("f_tag")),
        "entities": entities_of(page),
        "values": values if "status" in values else {**values, "status": ("live",)},
    }


def entities_of(page: Page) -> tuple[str, ...]:
    """Return the entities of the URL, of which a memory must name one."""
    return tuple(page.query.getlist(ENTITY))


def _is_filtered(page: Page, selection: dict[str, Any]) -> bool:
    named = any(page.query.get(name) is not None for name in (*(f"f_{facet}" for facet in (*FACETS, TAG)), ENTITY))
    return named or bool(selection["words"]) or bool(page.query.get("q"))


def _counts(page: Page) -> Facets:
    """Return the facets, with more values of the one that the URL names."""
    selection, wide = _selection(page), page.query.get("facet")

    def count(engine: Engine, **where: Any) -> Facets:
        scope = keywords.scope(engine.services.tenant, where)[0]
        engine.services.access_log.flush()
        return engine.services.store.facets(Selection(scope=scope, **selection), MANY if wide else TOP)

    found: Facets = page.apply(BROWSE, count)
    if not wide:
        return found
    cut = {name: values if name == wide else dict(list(values.items())[:TOP]) for name, values in found.values.items()}
    return Facets(found.total, cut, found.distinct)


def _browse(page: Page, chosen: dict[str, Any], sort: str, order: str) -> tuple[list[Memory], str | None]:
    """Return a page of memories, and the cursor of the next page."""
    after = _after(page.query.get("cursor"))

    def browse(engine: Engine, **where: Any) -> list[Memory]:
        services = engine.services
        services.access_log.flush()
        selection = Selection(scope=keywords.scope(services.tenant, where)[0], **chosen)
        found = services.store.browse(selection, sort, PAGE + 1, ascending=order == "asc", after=after)
        return with_replacements(services, selection.scope, found)

    found: list[Memory] = page.apply(BROWSE, browse)
    if len(found) <= PAGE:
        return found, None
    last = found[PAGE - 1]
    return found[:PAGE], f"{_sortable(last, sort)!r}:{last.id}"


def _sortable(memory: Memory, sort: str) -> float:
    value = 0 if sort == "id" else getattr(memory, sort) or 0
    return value if isinstance(value, int | float) else round(value.timestamp() * 1_000_000)


def _after(cursor: str | None) -> After | None:
    if not cursor:
        return None
    number, _, last = cursor.partition(":")
    try:
        value = float(number)
    except ValueError:
        value = -1.0
    if not (0 <= value < 2**53) or not ID.fullmatch(last):
        raise InputError("cursor", cursor, "Go back to the first page.", "is not the cursor of a page")
    return After(value, last)


def _recall(page: Page, query: str, selection: dict[str, Any]) -> tuple[Recall, Facets]:
    """Return the hits for a question that the filters accept, and the counts of the hits."""
    values: dict[str, tuple[str, ...]] = selection["values"]
    filters = {
        "kinds": list(values.get("kind", ())), "tiers": list(values.get("tier", ())), "tags": list(selection["tags"]),
        "sessions": [name for name in values.get("session_id", ()) if name],
    }  # fmt: skip
    recall: Recall = page.call("recall", query=query, limit=HITS, dry_run=True, **filters)
    own = {name: chosen for name, chosen in values.items() if name in ("project", "user_id", "agent_id")}
    entities = set(selection["entities"])
    hits = tuple(
        hit
        for hit in recall
        if all((getattr(hit.memory.scope, name) or "") in chosen for name, chosen in own.items())
        and (not entities or not entities.isdisjoint(hit.memory.entities))
    )
    found = _facets_of([hit.memory for hit in hits])
    return Recall(hits, recall.profile, confident=recall.confident, degraded=recall.degraded), found


def _facets_of(memories: Sequence[Memory]) -> Facets:
    """Return the counts of the values of some memories."""
    counts: dict[str, Counter[str]] = {
        name: Counter(getattr(one, name, None) or getattr(one.scope, name, None) or "" for one in memories)
        for name in FACETS
    }
    counts[TAG] = Counter(tag for one in memories for tag in one.tags)
    distinct = {name: len(found) for name, found in counts.items()}
    return Facets(len(memories), {name: dict(found.most_common(TOP)) for name, found in counts.items()}, distinct)
