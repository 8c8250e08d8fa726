"""Letta: agent files (`.af`), and lists of archival passages.

Source: `letta/schemas/agent_file.py` (agents, blocks and messages) and the older form, one agent with `core_memory`, in
`letta/serialize_schemas/pydantic_agent_schema.py`, both in https://github.com/letta-ai/letta. An agent file has no
archival memory: save the list of passages that the API returns, each with `text` and `created_at`.

A block is a context with its label as a tag; a message of the user or the assistant is a turn of the session of its
agent. System and tool messages are left out. Ids in a file count from 0, so keys are made of the contents.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from salience.errors import InputError
from salience.lines import message_text
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

SPEAKERS: Final = ("user", "assistant")
"""Roles whose messages are stored."""
Convert = Callable[..., Record | None]
"""A function of a number, an item and the name of its agent."""


def read(file: File) -> Iterator[Item]:
    """Yield the blocks, messages and passages of a file."""
    found = known(json_items(file), "Letta", "agents", "core_memory", "text")
    parts = (part for _, item in found for part in _parts(item))
    for number, (item, convert, agent) in enumerate(parts, start=1):
        yield from each([(number, item)], partial(convert, agent=agent))


def _parts(file: Any) -> Iterator[tuple[Any, Convert, str | None]]:
    """Yield the items of an agent file, or a passage, each with its function and the name of its agent."""
    if isinstance(file, dict) and isinstance(file.get("core_memory"), list):
        file = {"agents": [file]}
    if not (isinstance(file, dict) and isinstance(file.get("agents"), list)):
        yield file, _passage, None
        return
    owners = _owners(file["agents"])
    for block in _several(file, "blocks"):
        agents = owners.get(str(block.get("id")), ()) if isinstance(block, dict) else ()
        yield block, _block, agents[0] if len(agents) == 1 else None
    lists: dict[str, Convert] = {
        "core_memory": _block, "memory_blocks": _block, "messages": _message, "passages": _passage,
    }  # fmt: skip
    for agent in file["agents"]:
        if not isinstance(agent, dict):
            yield agent, _block, None
            continue
        for field, convert in lists.items():
            for item in _several(agent, field):
                yield item, convert, name(agent.get("name"))


def _several(item: Mapping[str, Any], field: str) -> list[Any]:
    found = item.get(field)
    return found if isinstance(found, list) else []


def _owners(agents: list[Any]) -> Mapping[str, list[str]]:
    """Return the names of the agents that have each block."""
    owners: dict[str, list[str]] = {}
    for agent in agents:
        for block in _several(agent, "block_ids") if isinstance(agent, dict) else ():
            owners.setdefault(str(block), []).append(name(agent.get("name")) or "")
    return owners


def _draft(item: Mapping[str, Any], content: str, agent: str | None, what: str, **more: Any) -> dict[str, Any]:
    created = item.get("created_at")
    return {
        "content": content,
        "agent_id": agent or None,
        "created_at": instant("created_at", created),
        "metadata": original({field: value for field, value in item.items() if field != "embedding"}),
        "key": f"{what}:{content_hash(f'{agent} {created} {content}')}",
        **more,
    }


def _block(number: int, item: dict[str, Any], agent: str | None) -> Record | None:
    if not item.get("value"):
        return None  # blocks may be empty
    return Record(
        number, _draft(item, required(item, "value"), agent, "block", kind="context", tags=names([item.get("label")]))
    )


def _passage(number: int, item: dict[str, Any], agent: str | None) -> Record:
    return Record(
        number, _draft(item, required(item, "text"), agent, "passage", kind="fact", tags=names(item.get("tags")))
    )


def _message(number: int, item: dict[str, Any], agent: str | None) -> Record | None:
    role = item.get("role")
    if role not in SPEAKERS:
        if not isinstance(role, str):
            raise InputError("role", None, "Give the role of the message.", "is missing")
        return None
    content = _spoken(item) if role == "assistant" else None
    content = content or message_text(item.get("content") if item.get("content") is not None else item.get("text"))
    if role == "user":
        content = _unwrapped(content)
    if not content:
        return None  # a call of a tool, or an event such as a login
    speaker = name(item.get("name")) or role
    return Record(
        number, _draft(item, content, agent, "message", kind="turn", speaker=speaker, session_id=agent or "letta")
    )


def _spoken(item: Mapping[str, Any]) -> str | None:
    """Return the text of a call of `send_message`, by which older agents answer."""
    for call in _several(item, "tool_calls"):
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict) and function.get("name") == "send_message":
            try:
                arguments = json.loads(str(function.get("arguments")))
            except ValueError:
                continue
            if isinstance(arguments, dict) and isinstance(arguments.get("message"), str):
                return str(arguments["message"])
    return None


def _unwrapped(content: str) -> str:
    """Return the text in the JSON that Letta wraps around messages of users; empty for other events."""
    try:
        event = json.loads(content)
    except ValueError:
        return content
    if not isinstance(event, dict) or not isinstance(event.get("type"), str):
        return content
    return str(event.get("message") or "") if event["type"] == "user_message" else ""
