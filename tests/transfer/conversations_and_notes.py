"""Exports of chats, notes, graphs and stores, written by the tests; see `other_systems`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from other_systems import Sample, at, fact

TURNS: Final = 4
"""Messages of a conversation, and observations of an entity."""
SPEAKERS: Final = ("user", "assistant")


def chatgpt(folder: Path, count: int) -> Sample:
    def conversation(first: int) -> dict[str, Any]:
        mapping: dict[str, Any] = {"root": {"id": "root", "message": None, "parent": None}}
        parent = "root"
        for number in range(first, first + TURNS):
            content = {"content_type": "text", "parts": [fact(number)]}
            message = {"id": f"m{number}", "author": {"role": SPEAKERS[number % 2]}, "content": content}
            message["create_time"] = at(number).timestamp()
            regenerated = {**message, "id": f"old{number}", "content": {**content, "parts": ["Given up"]}}
            mapping[f"old{number}"] = {"id": f"old{number}", "message": regenerated, "parent": parent}
            mapping[f"m{number}"] = {"id": f"m{number}", "message": message, "parent": parent}
            parent = f"m{number}"
        return {"conversation_id": f"c{first}", "title": "Stamps", "mapping": mapping, "current_node": parent}

    conversations = [conversation(first) for first in range(0, count, TURNS)]
    return _list(folder, [*conversations, "broken", {"mapping": []}], count)


def claude(folder: Path, count: int) -> Sample:
    def message(number: int) -> dict[str, Any]:
        blocks = [{"type": "text", "text": fact(number)}, {"type": "tool_use", "name": "search", "input": {}}]
        sender = ("human", "assistant")[number % 2]
        return {"uuid": f"m{number}", "sender": sender, "content": blocks, "created_at": at(number).isoformat()}

    conversations = [
        {"uuid": f"c{first}", "name": "Stamps", "chat_messages": [message(first + turn) for turn in range(TURNS)]}
        for first in range(0, count, TURNS)
    ]
    return _list(folder, [*conversations, 5, {"uuid": "c"}], count)


def claude_code(folder: Path, count: int) -> Sample:
    for first in range(0, count, 100):
        lines: list[object] = [{"type": "file-history-snapshot", "messageId": "x", "snapshot": {}}]
        for number in range(first, min(first + 100, count)):
            message = {"role": SPEAKERS[number % 2], "content": [{"type": "text", "text": fact(number)}]}
            place = {"sessionId": f"s{first}", "cwd": "/home/ann/shop", "timestamp": at(number).isoformat()}
            lines.append({"type": SPEAKERS[number % 2], "uuid": f"u{number}", "message": message, **place})
        _lines(folder / f"project{first // 500}" / f"s{first}.jsonl", lines)
    _lines(folder / "torn" / "torn.jsonl", ["{torn", {"type": "user", "message": 3}])
    return Sample(folder, count, {"turn": count}, _times(count), (1, 2))


def langgraph(folder: Path, count: int) -> Sample:
    items: list[object] = []
    for number in range(count):
        times = dict.fromkeys(("created_at", "updated_at"), at(number).isoformat())
        value = {"kind": "Memory", "content": {"content": fact(number)}}
        items.append({"namespace": ["memories", "ann"], "key": f"k{number}", "value": value, **times})
    path = _lines(folder / "store.jsonl", [*items, "{torn", {"namespace": ["a"], "key": "k"}])
    return Sample(path, count, {"fact": count}, _times(count), (count + 1, count + 2), {"user_id": "ann"})


def mcp_server_memory(folder: Path, count: int) -> Sample:
    observed = count * 4 // 5
    records: list[dict[str, Any]] = [
        {
            "type": "entity",
            "name": f"Album_{first}",
            "entityType": "album",
            "observations": [fact(number) for number in range(first, first + TURNS)],
        }
        for first in range(0, observed, TURNS)
    ]
    records += [
        {"type": "relation", "from": f"Album_{number}", "to": "Shelf", "relationType": "stands_on"}
        for number in range(count - observed)
    ]
    path = _lines(folder / "memory.json", [*records, {"type": "entity"}, {"relationType": 1}])
    return Sample(path, count, {"fact": count}, {}, (len(records) + 1, len(records) + 2))


def notes(folder: Path, count: int) -> Sample:
    created = {}
    for number in range(count):
        name, text = f"Page {number:04}", f"{fact(number)} #stamps, see [[Album]]."
        path = folder / f"Album {number // 100}" / f"{name}.md"
        path.parent.mkdir(exist_ok=True)
        front = f"---\ncreated: {at(number).isoformat()}\ntags: [page]\n---\n" if number % 2 else ""
        path.write_text(front + text, encoding="utf-8")
        os.utime(path, (at(number).timestamp(),) * 2)
        created[f"{name}\n\n{text}"] = at(number)
    (folder / "zz.md").write_bytes(b"\xff\xff")
    return Sample(folder, count, {"fact": count}, created, (1,))


SAMPLES: Final[Mapping[str, Callable[[Path, int], Sample]]] = {
    "chatgpt": chatgpt,
    "claude": claude,
    "claude-code": claude_code,
    "langgraph": langgraph,
    "markdown": notes,
    "mcp-server-memory": mcp_server_memory,
    "obsidian": notes,
}


def _times(count: int) -> dict[str, Any]:
    return {fact(number): at(number) for number in range(count)}


def _list(folder: Path, items: list[Any], count: int) -> Sample:
    """Write conversations as one JSON list, of which the last two are broken."""
    path = folder / "conversations.json"
    path.write_text(json.dumps(items), encoding="utf-8")
    return Sample(path, count, {"turn": count}, _times(count), (len(items) - 1, len(items)))


def _lines(path: Path, values: list[Any]) -> Path:
    """Write values as lines of JSON, and texts as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (value if isinstance(value, str) else json.dumps(value) for value in values)
    path.write_text("\n".join(lines), encoding="utf-8")
    return path
