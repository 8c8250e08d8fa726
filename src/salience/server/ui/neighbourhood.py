"""The graph around a memory or an entity: nodes, typed edges, and their places on two rings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from salience.records import Memory

MOST: Final = 40
"""Maximum number of nodes."""
LABEL: Final = 42
"""Maximum length of the label of a node, characters."""
RINGS: Final = ((260.0, 170.0), (560.0, 360.0))
"""Half the width and height of the ring of each hop."""
EDGES: Final = {
    "replaces": "replaces", "sums_up": "sums up", "names": "names",
    "session": "in the session",
}  # fmt: skip
"""Type of an edge -> its label, from its first node to its second."""
LINKS: Final = ("replaces", "sums_up")
"""Types between two memories."""
NodeKind = Literal["memory", "entity", "session", "more"]


@dataclass(frozen=True, slots=True)
class Node:
    """A node: its key, kind and label, the number of hops from the centre, and the memory, if it is one.

    `parent` is the key of the node through which it was reached; None for the centre.
    """

    key: str
    kind: NodeKind
    label: str
    hop: int
    parent: str | None = None
    memory: Memory | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge of a type from `EDGES`, between the keys of two nodes."""

    source: str
    target: str
    kind: str


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes, the centre first, and the edges between them."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def of_memory(memory: Memory, hop: int, parent: str | None) -> Node:
    """Return the node of a memory."""
    text = " ".join(memory.content.split())
    return Node(memory.id, "memory", text if len(text) <= LABEL else f"{text[: LABEL - 1]}…", hop, parent, memory)


def of_entity(name: str, hop: int, parent: str | None) -> Node:
    """Return the node of an entity."""
    return Node(f"entity:{name}", "entity", name, hop, parent)


def of_session(name: str, hop: int, parent: str | None) -> Node:
    """Return the node of a session."""
    return Node(f"session:{name}", "session", name, hop, parent)


def within(first: Iterable[Node], branches: Mapping[str, Sequence[Node]], totals: Mapping[str, int]) -> list[Node]:
    """Return the nodes of a graph, at most `MOST`.

    Args:
        first: the centre and the nodes of the first hop, the most important first.
        branches: key of a node of the first hop -> nodes that it leads to. All branches get an equal share of the room.
        totals: key -> number of all nodes that it leads to, of which a node "more" counts those that are left out.
    """
    nodes = {node.key: node for node in list(first)[: MOST // 2]}
    queues = {key: [one for one in found if one.key not in nodes] for key, found in branches.items() if key in nodes}
    room = MOST - len(nodes) - sum(key in nodes for key in totals)
    while room > 0 and any(queues.values()):
        for queue in queues.values():
            while queue and queue[0].key in nodes:
                queue.pop(0)
            if queue and room > 0:
                node = queue.pop(0)
                nodes[node.key] = node
                room -= 1
    for key, total in totals.items():
        shown = sum(one.key in nodes for one in branches.get(key, ()))
        if key in nodes and total > shown:
            nodes[f"more:{key}"] = Node(f"more:{key}", "more", f"{total - shown:,} more", nodes[key].hop + 1, key)
    return list(nodes.values())


def edges_of(nodes: Sequence[Node]) -> list[Edge]:
    """Return the edges between nodes: links of memories, the entities that they name, and their sessions."""
    keys = {node.key for node in nodes}
    found: dict[tuple[str, str], Edge] = {}
    for node in nodes:
        if (memory := node.memory) is None:
            continue
        targets = [("replaces", one) for one in memory.replaced_ids]
        targets += [("sums_up", source) for source in memory.sources]
        targets += [("names", f"entity:{name}") for name in memory.entities]
        targets += [("session", f"session:{memory.scope.session_id}")]
        for kind, target in targets:
            if target in keys and target != node.key:
                found.setdefault((node.key, target), Edge(node.key, target, kind))
    return list(found.values())


def graph(nodes: Sequence[Node]) -> Graph:
    """Return the graph of some nodes."""
    return Graph(tuple(nodes), tuple(edges_of(nodes)))


def places(nodes: Sequence[Node]) -> dict[str, tuple[float, float]]:
    """Return the place of each node: the centre, its neighbours on a ring, and each branch beyond in its sector."""
    children: dict[str | None, list[Node]] = {}
    for node in nodes:
        children.setdefault(node.parent, []).append(node)
    found = {node.key: (0.0, 0.0) for node in children.get(None, ())}
    first = [node for key in list(found) for node in children.get(key, ())]
    sizes = [max(len(children.get(node.key, ())), 1) for node in first]
    step, at = 2 * math.pi / max(sum(sizes), 1), -math.pi / 2
    for node, size in zip(first, sizes, strict=True):
        found[node.key] = _on(RINGS[0], at + step * size / 2)
        for place, child in enumerate(children.get(node.key, ())):
            found[child.key] = _on(RINGS[1], at + step * (place + 0.5))
        at += step * size
    return found


def _on(ring: tuple[float, float], angle: float) -> tuple[float, float]:
    return round(ring[0] * math.cos(angle), 1), round(ring[1] * math.sin(angle), 1)
