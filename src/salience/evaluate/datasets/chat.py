"""Conversations as chat APIs and logs write them: a JSON list of messages, or a message a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from salience.errors import InputError, wrong_type
from salience.evaluate.datasets.reading import document, lines
from salience.evaluate.datasets.values import Message
from salience.lines import KEYS, moment, parsed_object, refused, said
from salience.records import checks

SPEAKER: Final = ("speaker", "name", "role")
"""Keys of who speaks, the most telling first."""
TEXT: Final = ("content", "text")
TIME: Final = ("timestamp", "created_at")
ONLY_DRAFT: Final = KEYS - {"speaker", "content", "created_at", "session_id", "metadata"}
"""Keys that a draft may have and a message has not."""


def chat(path: Path) -> Iterator[tuple[str | None, Message]]:
    """Yield (the session that it names, message) of a JSON list of messages, or of `{"messages": [...]}`."""
    held = document(path)
    for number, item in enumerate(held["messages"] if isinstance(held, dict) else held, 1):
        try:
            yield _message(item)
        except InputError as error:
            raise error.at(f"{error.field} of message {number} in {path}") from None


def message_lines(path: Path) -> Iterator[tuple[str | None, Message]]:
    """Yield (the session that it names, message) of each line, as it is read."""
    for number, line in lines(path):
        item = parsed_object(number, line)
        try:
            yield _message(item)
        except InputError as error:
            raise refused(number, error) from None


def _message(item: Any) -> tuple[str | None, Message]:
    """Return the session that a message names, if any, and the message; keys of no other use become metadata."""
    if not isinstance(item, dict):
        raise wrong_type("value", item, "Give a JSON object with a role and a content.")
    who, what, when = (
        next((key for key in keys if item.get(key) is not None), keys[0]) for keys in (SPEAKER, TEXT, TIME)
    )
    used = {who, what, when, "session_id", "metadata"}
    rest = {key: item[key] for key in item.keys() - used}
    metadata = {**checks.metadata("metadata", item.get("metadata") or {}), **checks.metadata("message", rest)}
    session_id = None if item.get("session_id") is None else checks.name("session_id", item["session_id"])
    speaker, content = checks.name(who, item.get(who)), said(item.get(what))
    return session_id, Message(speaker, content, moment(item.get(when)), metadata)
