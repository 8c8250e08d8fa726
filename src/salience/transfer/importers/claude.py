"""Claude's data export: `conversations.json`, the files of `memories` and of `projects`.

Anthropic publishes no schema; the fields are those that readers of the format agree on, such as
https://github.com/Sinity/polylogue/blob/master/docs/providers/claude-ai.md: `chat_messages` with a `sender` (`human`
or `assistant`), a `text` and the same as blocks of `content`, and `attachments` with the text of a file. In newer
exports a message names its `parent_message_uuid`, and edited messages are branches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from salience.errors import InputError, Words
from salience.lines import message_text
from salience.text import content_hash
from salience.transfer.importers.markdown import sections
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
    names,
    original,
    problem,
    readable_instant,
    turn,
)

SPEAKERS: Final = {"human": "user", "user": "user", "assistant": "assistant"}
ROOT: Final = "00000000-0000-4000-8000-000000000000"
"""Parent of the first message of a conversation."""
MEMORIES: Final = ("conversations_memory", "project_memories", "memory_files")
"""Fields of a record of `memories`."""


def read(file: File) -> Iterator[Item]:
    """Yield a turn for each message, and memories for the sections of saved memories and of project documents."""
    fields = "chat_messages", *MEMORIES, "docs", "prompt_template"
    return each(known(json_items(file, "conversations"), "Claude", *fields), _records)


def _records(number: int, item: dict[str, Any]) -> Iterator[Item]:
    if "chat_messages" in item:
        return _conversation(number, item)
    if any(field in item for field in MEMORIES):
        return _memories(number, item)
    if "docs" in item or "prompt_template" in item:
        return _project(number, item)
    raise InputError(
        "record", Words("another object"), "Give conversations, memories or projects.", "has no chat_messages"
    )


def _conversation(number: int, conversation: dict[str, Any]) -> Iterator[Item]:
    messages = checked("chat_messages", conversation["chat_messages"], list)
    title = name(conversation.get("name"))
    last = readable_instant(conversation.get("created_at")) or readable_instant(conversation.get("updated_at"))
    session = name(conversation.get("uuid")) or content_hash(repr((title, last)))[:32]
    for place, message in _branch(conversation.get("current_leaf_message_uuid"), messages):
        try:
            message = checked("message", message, dict)
            uuid = name(message.get("uuid")) or f"{session}:{place}"
            speaker = SPEAKERS.get(name(message.get("sender")) or "")
            if speaker is None:
                raise InputError("sender", message.get("sender"), "Give human, user or assistant.")
            text = _text(message)
            last = instant("created_at", message.get("created_at")) or last
        except InputError as error:
            yield problem(number, error, f"message {place}:")
            continue
        if text:
            kept = {**original(message), **({"title": title} if title else {})}
            yield turn(number, uuid, text, speaker=speaker, session=session, created=last, metadata=kept)


def _branch(leaf: object, messages: list[Any]) -> list[tuple[int, Any]]:
    """Return the messages of the current branch with their places from 1; all, if their parents are not complete."""
    placed = list(enumerate(messages, start=1))
    known = {name(one.get("uuid")): (place, one) for place, one in placed if isinstance(one, dict)}
    if len(known) < len(messages) or not all("parent_message_uuid" in one for _, one in known.values()):
        return placed
    newest = max(known, key=lambda one: (name(known[one][1].get("created_at")) or "", known[one][0]), default=None)
    node = name(leaf) if name(leaf) in known else newest
    branch: dict[str | None, tuple[int, Any]] = {}
    while node in known and node not in branch:
        branch[node] = known[node]
        node = name(known[node][1]["parent_message_uuid"])
    return list(branch.values())[::-1] if node in (ROOT, None) else placed


def _text(message: dict[str, Any]) -> str:
    """Return the text of a message and of its attachments, without thinking and tools."""
    blocks = message.get("content")
    if isinstance(blocks, list):
        blocks = [block for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
    text = message_text(blocks) or message_text(message.get("text"))
    attachments = message.get("attachments")
    for attachment in attachments if isinstance(attachments, list) else ():
        extracted = attachment.get("extracted_content") if isinstance(attachment, dict) else None
        if isinstance(extracted, str) and extracted.strip():
            text += f"\n\nAttachment {name(attachment.get('file_name')) or ''}".rstrip() + f":\n{extracted}"
    return text.strip()


def _memories(number: int, item: dict[str, Any]) -> Iterator[Item]:
    """Yield the sections of what Claude remembers: of all chats, of each project, and of each file."""
    files = item.get("memory_files")
    for file in files if isinstance(files, list) else ():
        yield from _sections(number, checked("memory_files", file, dict), "content", "path", "updated_at")
    yield from _sections(number, item, "conversations_memory")
    projects = item.get("project_memories")
    for project, text in projects.items() if isinstance(projects, dict) else ():
        yield from _sections(number, {"project": project, "text": text}, "text", "project")


def _project(number: int, item: dict[str, Any]) -> Iterator[Item]:
    """Yield the instructions and the sections of the documents of a project."""
    about = {field: item.get(field) for field in ("uuid", "name", "description", "created_at")}
    for field in ("description", "prompt_template"):
        kind = "rule" if field == "prompt_template" else "context"
        yield from _sections(number, {**about, field: item.get(field)}, field, "name", "created_at", kind=kind)
    docs = item.get("docs")
    for doc in docs if isinstance(docs, list) else ():
        about = {**checked("docs", doc, dict), "project": item.get("name")}
        yield from _sections(number, about, "content", "filename", "created_at")


def _sections(
    number: int, record: dict[str, Any], field: str, title: str = "", time: str = "", *, kind: str = "fact"
) -> Iterator[Item]:
    """Yield the sections of the Markdown text in a field of a record; none if the field has no text."""
    text = record.get(field)
    if not isinstance(text, str) or not text.strip():
        return
    for headings, section in sections(text):
        path = " > ".join(filter(None, (name(record.get(title)), *headings)))
        draft = {
            "content": f"{path}\n\n{section}" if path else section,
            "kind": kind,
            "tags": names([record.get("project") or record.get("name")]),
            "created_at": instant(time, record.get(time)),
            "key": ":".join((field, content_hash("\n".join((path, section)))[:32])),
            "metadata": original({**record, field: section}),
        }
        yield Record(number, draft)
