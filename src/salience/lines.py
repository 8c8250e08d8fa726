"""JSON lines from outside: objects, drafts, and the text and time of messages."""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any, Final

from salience.errors import ImportLineError, InputError, unknown_field, wrong_type
from salience.records import Draft, Scope, checks

COORDINATES: Final = tuple(item.name for item in fields(Scope) if item.name != "tenant")
"""Keys of a line that name the scope of the memory."""
MILLISECONDS_FROM: Final = 1e11
"""A timestamp this large is in milliseconds: in seconds it would be after the year 5000."""
KEYS: Final = frozenset(item.name for item in fields(Draft) if item.name != "scope") | frozenset(COORDINATES)
"""Keys that the line of a draft may contain."""


def parsed(written: bytes | str) -> Any:
    """Return the value of a JSON text; UTF-8 may start with a byte order mark.

    Raises:
        ValueError: invalid JSON or UTF-8, or nested too deeply.
    """
    text = written.removeprefix(BOM_UTF8).decode("utf-8") if isinstance(written, bytes) else written
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def parsed_object(number: int, line: bytes | str) -> dict[str, Any]:
    """Return the JSON object in line `number` of a file.

    Raises:
        ImportLineError: the line is no JSON object.
    """
    try:
        value = parsed(line)
    except UnicodeDecodeError:
        raise ImportLineError(number, "text that is not UTF-8", "Save the file as UTF-8.") from None
    except json.JSONDecodeError as error:
        reason = f"JSON with an error at column {error.colno} ({error.msg})"
        raise ImportLineError(number, reason, "Give one JSON object a line.") from None
    except ValueError as error:
        raise ImportLineError(number, f"JSON that is not readable ({error})", "Give one JSON object a line.") from None
    if not isinstance(value, dict):
        raise ImportLineError(number, f"a JSON {type(value).__name__}", "Give one JSON object a line.")
    return value


def draft(number: int, item: Mapping[str, Any], scope: Scope | None = None) -> Draft:
    """Return the draft of line `number`, as `as_draft`; raises `ImportLineError`."""
    try:
        return as_draft(item, scope)
    except InputError as error:
        raise refused(number, error) from None


def as_draft(item: object, scope: Scope | None = None) -> Draft:
    """Return a draft unchanged, or the draft for a mapping of its fields and the coordinates of its scope.

    Coordinates in the mapping override those of `scope`.

    Raises:
        InputError: another type, an unknown key, or an invalid value.
    """
    if isinstance(item, Draft):
        return item
    if not isinstance(item, Mapping):
        raise wrong_type("draft", item, "Give a Draft, or a mapping with a content.")
    for key in item:
        if key not in KEYS:
            raise unknown_field(str(key), sorted(KEYS))
    given = {key: value for key, value in item.items() if value is not None}
    named = {key: given.pop(key) for key in COORDINATES if key in given}
    home = replace(scope or Scope(), **named) if named else scope
    return Draft(**{"content": None, **given}, scope=home)


def message_text(content: object) -> str:
    """Return the text of a message verbatim, or an empty text.

    The text parts of a list of parts, as in chat APIs, are joined by line breaks.
    """
    if isinstance(content, (list, tuple)):
        texts = (part.get("text") for part in content if isinstance(part, Mapping))
        content = "\n".join(text for text in texts if isinstance(text, str))
    if content is None or (isinstance(content, str) and not content.strip()):
        return ""
    return checks.text("content", content)


def moment(timestamp: object) -> datetime | None:
    """Return an instant from what `checks.instant` reads, or seconds or milliseconds since 1970."""
    if timestamp is None:
        return None
    if isinstance(timestamp, (int, float)) and not isinstance(timestamp, bool):
        seconds = checks.number("timestamp", timestamp, 0, 1e14)
        return datetime.fromtimestamp(seconds / (1000 if seconds >= MILLISECONDS_FROM else 1), UTC)
    return checks.instant("timestamp", timestamp)


def refused(number: int, error: InputError) -> ImportLineError:
    """Return the error of a value as an error of its line."""
    return ImportLineError(number, f"{error.field} {error.problem}", error.remedy)
