"""`conversations*.json` of a ChatGPT export: one turn for each visible message of the current branch.

OpenAI publishes no schema; the fields are those that readers of the format agree on, such as
https://github.com/mitkury/chatgpt-export-parser/blob/main/docs/chatgpt-data-export-format.md: a conversation is a tree
(`mapping`) of messages, edited and regenerated messages are branches, and `current_node` is the end of the branch that
ChatGPT shows. The export has no list of saved memories, but each message to the tool `bio` saved one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from salience.errors import InputError
from salience.text import content_hash
from salience.transfer.importers.records import (
    File,
    Item,
    Record,
    checked,
    each,
    instant,
    json_items,
    known,
    name,
    original,
    problem,
    readable_instant,
    turn,
)

SPEAKERS: Final = ("user", "assistant")
"""Authors whose messages are kept; the others are the system and tools."""
TEXT_TYPES: Final = (None, "text", "multimodal_text")
"""Types of content with text that was said; the others are reasoning, code for tools, and context."""
MEMORY_TOOL: Final = "bio"


def read(file: File) -> Iterator[Item]:
    """Yield a turn for each message with text, and a memory for each one that ChatGPT saved."""
    return each(known(json_items(file, "conversations"), "ChatGPT", "mapping"), _conversation)


def _conversation(number: int, conversation: dict[str, Any]) -> Iterator[Item]:
    nodes = checked("mapping", conversation.get("mapping"), dict)
    title = name(conversation.get("title"))
    messages = {key: node.get("message") for key, node in nodes.items() if isinstance(node, dict)}
    last = _started(conversation, [message for message in messages.values() if isinstance(message, dict)])
    session = name(conversation.get("conversation_id") or conversation.get("id"))
    session = session or content_hash(repr((title, *nodes)))[:32]
    for node in _branch(conversation.get("current_node"), nodes):
        try:
            if node in messages and messages[node] is None:  # the root of the tree
                continue
            message = checked("message", messages.get(node), dict)
            times = (instant(field, message.get(field)) for field in ("create_time", "update_time"))
            last = next(filter(None, times), last)
            record = _message(number, message, name(message.get("id")) or node, session, title, last)
        except InputError as error:
            yield problem(number, error, f"message {name(node) or ''}:")
        else:
            if record is not None:
                yield record


def _started(conversation: Mapping[str, Any], messages: Sequence[dict[str, Any]]) -> datetime | None:
    """Return when a conversation was created, else the earlier of its update and its first message."""
    others = (conversation.get("update_time"), *(message.get("create_time") for message in messages))
    created = readable_instant(conversation.get("create_time"))
    return created or min(filter(None, map(readable_instant, others)), default=None)


def _branch(current: object, nodes: dict[str, Any]) -> list[str]:
    """Return the ids of the nodes from the root to the current one; all nodes, if these are not known."""
    branch: dict[str, None] = {}
    node = current
    while isinstance(node, str) and node in nodes and node not in branch:
        branch[node] = None
        if not isinstance(nodes[node], dict):
            return list(nodes)
        node = nodes[node].get("parent")
    return list(branch)[::-1] or list(nodes)


def _message(
    number: int, message: dict[str, Any], id: str, session: str, title: str | None, created: datetime | None
) -> Record | None:
    """Return a message as a turn; None for a hidden message, and for one without text or from a tool."""
    author, content = checked("author", message.get("author"), dict), message.get("content")
    metadata, recipient = message.get("metadata") or {}, message.get("recipient") or "all"
    hidden = isinstance(metadata, dict) and metadata.get("is_visually_hidden_from_conversation")
    speaker = author.get("role")
    if speaker not in SPEAKERS or hidden or content is None:
        return None
    content = checked("content", content, dict)
    text = _text(content) if content.get("content_type") in TEXT_TYPES else ""
    if not text.strip() or recipient not in ("all", MEMORY_TOOL):
        return None
    kept = {**original(message), **({"title": title} if title else {})}
    if recipient == MEMORY_TOOL:
        return Record(number, {"content": text, "created_at": created, "key": id, "metadata": kept})
    return turn(number, id, text, speaker=speaker, session=session, created=created, metadata=kept)


def _text(content: dict[str, Any]) -> str:
    """Return the text parts, and the transcripts of audio parts; images and files have none."""
    parts = checked("parts", content.get("parts"), list)
    texts = (part.get("text") if isinstance(part, dict) else part for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str) and text.strip())
