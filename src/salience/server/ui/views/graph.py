"""Graph: the memories, entities and sessions around one memory or entity, two hops far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fastapi import APIRouter
from starlette.responses import Response

from salience.records import ENTITY, STATUSES, Facets, Memory, checks
from salience.server.ui import neighbourhood as near
from salience.server.ui.neighbourhood import Graph, Node
from salience.server.ui.page import Page, Visit

router = APIRouter()
ENTITIES: Final = 10
"""Maximum number of entities on the first hop."""
MEMORIES: Final = 12
"""Maximum number of memories of one entity."""
TOP: Final = 60
"""Entities on the page without a centre."""
COUNTED: Final = 100_000
"""Maximum number of entities that are counted."""


@router.get("/graph")
def show(page: Visit) -> Response:
    """Return the graph around the memory or the entity of the URL, or the most frequent entities."""
    if memory_id := page.query.get("memory", "").strip():
        memory: Memory = page.call("history", id=memory_id)[-1].memory
        found = around_memory(page, memory)
        return _render(page, found, memory=memory)
    if entity := page.query.get("entity", "").strip():
        name = checks.name("entity", entity)
        found = around_entity(page, name)
        return _render(page, found, entity=name)
    part = page.query.get("q", "").strip().casefold()
    counts: Facets = page.call("facets", fields=[ENTITY], top=COUNTED)
    named = [item for item in counts.values[ENTITY].items() if part in item[0].casefold()]
    return page.render("views/graph.html", found=None, entities=named[:TOP], total=len(named), memory=None, entity=None)


def around_memory(page: Page, memory: Memory) -> Graph:
    """Return the graph around a memory: its links, entities and session, and the memories that these lead to."""
    key = memory.id
    ids = [one for one in (*memory.replaced_ids, memory.reflection, *memory.sources) if one][:MEMORIES]
    older = page.call("list", ids=ids, statuses=STATUSES) if ids else ()
    newer = page.call("list", linked_to=[key], statuses=STATUSES, descending=True, limit=MEMORIES)
    linked = [one for one in {one.id: one for one in (*older, *newer)}.values() if one.id != key]
    names = memory.entities[:ENTITIES]
    naming, totals = _naming(page, names)
    first = [near.of_memory(memory, 0, None), *(near.of_memory(one, 1, key) for one in linked)]
    first += [near.of_entity(name, 1, key) for name in names]
    branches = {
        f"entity:{name}": [near.of_memory(one, 2, f"entity:{name}") for one in found] for name, found in naming.items()
    }
    if (session := memory.scope.session_id) is not None:
        node = near.of_session(session, 1, key)
        first.insert(1, node)
        of = {"sessions": [session], "users": [_text(memory.scope.user_id)]}
        turns = page.call("list", **of, order="created_at", descending=True, limit=MEMORIES)
        branches[node.key] = [near.of_memory(one, 2, node.key) for one in turns]
        totals[node.key] = sum(one.size for one in page.call("sessions", **of, limit=10).sessions)
    return near.graph(near.within(first, branches, totals))


def around_entity(page: Page, name: str) -> Graph:
    """Return the graph around an entity: the newest memories that name it, and what these name and link to."""
    key = f"entity:{name}"
    naming, totals = _naming(page, (name,))
    memories = naming[name]
    first = [near.of_entity(name, 0, None), *(near.of_memory(one, 1, key) for one in memories)]
    branches: dict[str, list[Node]] = {}
    for one in memories:
        others = [near.of_entity(other, 2, one.id) for other in one.entities if other != name]
        session = one.scope.session_id
        branches[one.id] = others + ([near.of_session(session, 2, one.id)] if session else [])
    shown = len(memories)
    nodes = near.within(first, branches, {})
    if totals[key] > shown:
        nodes.append(Node(f"more:{key}", "more", f"{totals[key] - shown:,} more", 1, key))
    return near.graph(nodes)


def _naming(page: Page, names: Sequence[str]) -> tuple[dict[str, list[Memory]], dict[str, int]]:
    """Return the newest live memories that name each entity, and the number of all by the key of its node."""
    if not names:
        return {}, {}
    counts = page.call("facets", fields=[ENTITY], entities=names, top=COUNTED).values[ENTITY]
    rare = tuple(name for name in names if counts.get(name, 0) <= MEMORIES)
    found: list[Memory] = []
    if rare:  # all of them in one query; of a frequent entity, the index of the order ends the search early
        found = list(page.call("list", entities=rare, descending=True, limit=MEMORIES * len(rare)))
    naming = {name: [one for one in found if name in one.entities] for name in rare}
    for name in names:
        if name not in naming:
            naming[name] = list(page.call("list", entities=[name], descending=True, limit=MEMORIES))
    return naming, {f"entity:{name}": counts.get(name, 0) for name in names}


def _render(page: Page, found: Graph, memory: Memory | None = None, entity: str | None = None) -> Response:
    urls = {node.key: _url(page, node, found) for node in found.nodes}
    places = near.places(found.nodes)
    drawing = {
        "nodes": [
            {"id": one.key, "kind": one.kind, "label": one.label, "hop": one.hop, "url": urls[one.key],
             "x": places[one.key][0], "y": places[one.key][1]} for one in found.nodes
        ],
        "edges": [
            *({"source": one.source, "target": one.target, "kind": one.kind} for one in found.edges),
            *({"source": one.parent, "target": one.key, "kind": "more"} for one in found.nodes if one.kind == "more"),
        ],
    }  # fmt: skip
    return page.render(
        "views/graph.html",
        found=found,
        urls=urls,
        drawing=drawing,
        rows=rows(found),
        EDGES=near.EDGES,
        memory=memory,
        entity=entity,
        centre=found.nodes[0],
    )


def rows(found: Graph) -> list[tuple[Node, list[tuple[str, Node]]]]:
    """Return each node that edges begin or end at, in the order of hops, with (label of the edge, other node)."""
    by_key = {one.key: one for one in found.nodes}
    listed: dict[str, list[tuple[str, Node]]] = {one.key: [] for one in found.nodes if one.kind != "more"}
    for edge in found.edges:
        source, target = by_key[edge.source], by_key[edge.target]
        if source.hop <= target.hop:
            listed[source.key].append((near.EDGES[edge.kind], target))
        else:
            listed[target.key].append((BACKWARDS[edge.kind], source))
    for node in found.nodes:
        if node.kind == "more" and node.parent in listed:
            listed[node.parent].append(("and", node))
    return [(by_key[key], ends) for key, ends in listed.items() if ends]


BACKWARDS: Final = {
    "replaces": "replaced by", "sums_up": "summed up by", "names": "named by",
    "session": "has",
}  # fmt: skip
"""Type of an edge -> its label, from its second node to its first."""


def _url(page: Page, node: Node, found: Graph) -> str:
    kept = {"memory": None, "entity": None}
    match node.kind:
        case "memory":
            return page.url("graph", **{**kept, "memory": node.key})
        case "entity":
            return page.url("graph", **{**kept, "entity": node.label})
        case "session":
            users = {
                one.memory.scope.user_id
                for one in found.nodes
                if one.memory and one.memory.scope.session_id == node.label
            }
            one_user = {"f_user_id": _text(next(iter(users)))} if len(users) == 1 else {}
            return page.url("sessions/transcript", id=node.label, **one_user)
    parent = next(one for one in found.nodes if one.key == node.parent)
    if parent.kind == "entity":
        return page.url("", f_status="live", f_entity=parent.label)
    return _url(page, parent, found)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
