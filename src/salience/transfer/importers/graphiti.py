"""Graphiti and Zep: episodes, messages, edges and nodes as JSON.

Source: `graphiti_core/nodes.py` and `edges.py` of the package graphiti-core 0.31.2. A file is an object with any of
the lists `nodes`, `episodes` and `edges` (as `model_dump` of the classes gives them), one list of such objects, one
object a line, or Neo4j's APOC export with one node or relationship a line
(https://neo4j.com/docs/apoc/current/export/json/).

Zep's API returns the same in the types `Edge`, `Episode`, `Message` and `Node` of the package zep-cloud 4.0.1: the
thread is the session, the user of the graph the user.

An edge is a fact of the entities that it connects: it holds from `valid_at` until `invalid_at` (or `expired_at`), and
keeps its `created_at`. An episode is a turn or a context, a node with a summary is a context. The group is the project.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from salience.errors import InputError
from salience.text import content_hash
from salience.transfer.importers.records import (
    File,
    Item,
    Record,
    each,
    instant,
    json_items,
    known,
    name,
    names,
    original,
    required,
)

LISTS: Final = ("nodes", "episodes", "messages", "edges", "facts")
EMBEDDINGS: Final = ("fact_embedding", "name_embedding")
FIELDS: Final = ("fact", "content", "name", "properties", "uuid", "uuid_")


def read(file: File) -> Iterator[Item]:
    """Yield the edges, the episodes and messages, and the nodes with a summary."""
    labels: dict[str, str] = {}

    def convert(number: int, item: dict[str, Any]) -> Record | None:
        if isinstance(item.get("properties"), dict):  # of a line of APOC
            item = {**item["properties"], "labels": names(item.get("labels"))}
            if item["labels"] == ["Community"]:
                return None
        item = {field: value for field, value in item.items() if field not in EMBEDDINGS}
        identity = name(item.get("uuid") or item.get("uuid_"))
        if "fact" in item:
            return _edge(number, item, identity, labels)
        if "content" in item:
            return _episode(number, item, identity)
        if "name" not in item:
            if set(item) <= {"uuid", "group_id", "created_at", "labels"}:
                return None  # an edge without a text, such as from an episode to an entity
            raise InputError("record", None, "Give a node, an episode or an edge.", "has no fact, content or name")
        label = name(item["name"])
        if identity and label:
            labels[identity] = label
        if not isinstance(item.get("summary"), str) or not item["summary"].strip():
            return None  # the name is in the edges
        draft = {
            "content": f"{label}: {item['summary']}",
            "kind": "context",
            "tags": [one for one in names(item.get("labels")) if one != "Entity"],
            "entities": names([label]),
            "created_at": instant("created_at", item.get("created_at")),
        }
        return Record(number, draft | _common(item, identity or content_hash(str(label))))

    return each(known(json_items(file, *LISTS), "Graphiti or Zep", *FIELDS), convert)


def _edge(number: int, item: dict[str, Any], identity: str | None, labels: Mapping[str, str]) -> Record:
    fact = required(item, "fact")
    ends = [
        item.get(f"{end}_node_name") or labels.get(str(item.get(f"{end}_node_uuid"))) for end in ("source", "target")
    ]
    created = instant("reference_time", item.get("reference_time")) or instant("created_at", item.get("created_at"))
    valid = instant("valid_at", item.get("valid_at"))
    ended = instant("invalid_at", item.get("invalid_at")) or instant("expired_at", item.get("expired_at"))
    began = min((one for one in (valid, created) if one is not None), default=None)
    draft = {
        "content": fact,
        "kind": "fact",
        "tags": names([item.get("name")]),
        "entities": names(ends) or None,
        "created_at": created or valid,
    }
    return Record(number, draft | _common(item, identity or content_hash(fact)), ended=ended, began=began)


def _episode(number: int, item: dict[str, Any], identity: str | None) -> Record:
    content = required(item, "content")
    times = (instant(field, item.get(field)) for field in ("reference_time", "valid_at", "created_at"))
    thread = name(item.get("thread_uuid") or item.get("thread_id") or item.get("session_id"))
    speaker = name(item.get("role_name") or item.get("name") or item.get("role")) if "role" in item else None
    is_turn = thread is not None or speaker is not None or item.get("source") == "message"
    draft = {
        "content": content,
        "kind": "turn" if is_turn else "context",
        "speaker": speaker,
        "session_id": thread,
        "created_at": next((one for one in times if one is not None), None),
    }
    return Record(number, draft | _common(item, identity or content_hash(content)))


def _common(item: dict[str, Any], identity: str) -> dict[str, Any]:
    return {
        "project": name(item.get("group_id") or item.get("graph_uuid")),
        "user_id": name(item.get("user_uuid") or item.get("user_id")),
        "key": identity,
        "metadata": original(item),
    }
