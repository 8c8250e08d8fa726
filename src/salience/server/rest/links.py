"""Where an answer leads on to: the links of the OpenAPI document, from a memory to what can be done with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from salience.wire.verbs import VERBS, Verb

Link = dict[str, Any]
_ON_ONE: Final = ("get", "update", "forget", "restore", "history")
"""Verbs on one memory, each of which any other leads on to."""
_MEMORY: Final[Mapping[str, str]] = {
    "remember": "/memory",
    "remember_many": "/receipts/0/memory",
    "ingest": "/receipts/0/memory",
    "list": "/memories/0",
    "get": "",
    "update": "/memory",
    "forget": "/memory",
    "restore": "/memory",
    "recall": "/hits/0/memory",
    "recall_many": "/recalls/0/hits/0/memory",
    "graph_recall": "/hits/0/memory",
    "context": "/hits/0/memory",
}
"""Where in the answer of a verb the first memory stands."""
_WHERE: Final = ("environment", "project", "user_id", "agent_id")
_ASKED: Final = ("query", "environment")
"""Arguments of a question that `explain` takes over."""


def links(verb: Verb) -> dict[str, Link]:
    """Return the links of the answer of a verb, by names that differ between the verbs of one path."""
    return {f"{verb.name}_{name}": link for name, link in _links(verb)}


def _links(verb: Verb) -> Iterator[tuple[str, Link]]:
    place = _MEMORY.get(verb.name)
    if place is not None:
        yield from ((name, _on(VERBS[name], f"$response.body#{place}")) for name in _ON_ONE)
    match verb.name:
        case "remember" | "ingest":
            yield "end_session", _ending(f"$response.body#{place}")
        case "list":
            yield "list", {"operationId": "list", "parameters": {"query.cursor": "$response.body#/cursor"}}
        case "get":
            yield "update_unchanged", _unchanged("update")
            yield "forget_unchanged", _unchanged("forget")
        case "history":
            yield "restore", _restoring()
        case "recall" | "graph_recall":
            yield "explain", _explaining(f"$response.body#{place}")


def _on(verb: Verb, memory: str) -> Link:
    """Return a link from a memory to a verb on it, asked from where the memory lives."""
    parameters = {"path.id": f"{memory}/id"}
    if verb.method in ("GET", "DELETE"):
        parameters |= {f"query.{name}": f"{memory}/scope/{name}" for name in _WHERE}
        return {"operationId": verb.name, "parameters": parameters}
    return {"operationId": verb.name, "parameters": parameters, "requestBody": f"{memory}/scope"}


def _ending(memory: str) -> Link:
    return {
        "operationId": "end_session",
        "parameters": {"path.session_id": f"{memory}/scope/session_id"},
        "requestBody": {"environment": f"{memory}/scope/environment"},
    }


def _unchanged(name: str) -> Link:
    """Return a link from a memory to a change of it that is refused where another one came between."""
    found = _on(VERBS[name], "$response.body#")
    found["parameters"]["header.If-Match"] = "$response.header.ETag"
    return found


def _restoring() -> Link:
    first = "$response.body#/versions/0/memory"
    body = {"version": f"{first}/version", "environment": f"{first}/scope/environment"}
    return {"operationId": "restore", "parameters": {"path.id": "$request.path.id"}, "requestBody": body}


def _explaining(memory: str) -> Link:
    body = {"memory_id": f"{memory}/id", **{name: f"$request.body#/{name}" for name in _ASKED}}
    return {"operationId": "explain", "requestBody": body}
