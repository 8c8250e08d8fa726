"""JSON as others write it: an object a line, the draft that it may hold, what a message says and when."""

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
"""Keys of a line that say where the memory lives."""
MILLISECONDS_FROM: Final = 1e11
"""A timestamp this large is in milliseconds: as seconds it would lie beyond the year 5000."""
KEYS: Final = frozenset(item.name for item in fields(Draft) if item.name != "scope") | frozenset(COORDINATES)
"""Keys that the line of a draft may have."""
_BLANKS: Final = " \t\n\r"
"""What may stand around a JSON value."""
_decoded: Final = json.JSONDecoder().raw_decode


def parsed(written: bytes | str) -> Any:
    """Return a JSON value; a `ValueError` says why there is none."""
    text = written.removeprefix(BOM_UTF8).decode("utf-8") if isinstance(written, bytes) else written
    try:
        return _at_once(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _at_once(text: str) -> Any:
    """Return what `json.loads` does, sooner where a value begins the text, as in lines that a program wrote."""
    try:
        value, end = _decoded(text)
    except json.JSONDecodeError:
        return json.loads(text)
    return value if not text[end:].strip(_BLANKS) else json.loads(text)


def parsed_object(number: int, line: bytes | str) -> dict[str, Any]:
    """Return the JSON object that the line `number` of a file is; `ImportLineError` says why it is none."""
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
    """Return the draft that the line `number` holds, as `as_draft` does; `ImportLineError` says why it holds none."""
    try:
        return as_draft(item, scope)
    except InputError as error:
        raise refused(number, error) from None


def as_draft(item: object, scope: Scope | None = None) -> Draft:
    """Return a draft as it is, or from a mapping of its fields and of the coordinates of its scope.

    The coordinates of the mapping come before those of `scope`; the draft has no scope if there is neither.

    Raises:
        InputError: something else, an unknown key, or a value that `Draft` refuses.
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


def said(content: object) -> str:
    """Return the text of a message, verbatim; empty where it has none.

    Of a list of parts, as chat APIs have it, the text parts stand on lines of their own.
    """
    if isinstance(content, (list, tuple)):
        texts = (part.get("text") for part in content if isinstance(part, Mapping))
        content = "\n".join(text for text in texts if isinstance(text, str))
    if content is None or (isinstance(content, str) and not content.strip()):
        return ""
    return checks.text("content", content)


def moment(timestamp: object) -> datetime | None:
    """Return an instant from an aware datetime, ISO 8601 with an offset, or seconds or milliseconds since 1970."""
    if timestamp is None:
        return None
    if isinstance(timestamp, (int, float)) and not isinstance(timestamp, bool):
        seconds = checks.number("timestamp", timestamp, 0, 1e14)
        return datetime.fromtimestamp(seconds / (1000 if seconds >= MILLISECONDS_FROM else 1), UTC)
    return checks.instant("timestamp", timestamp)


def refused(number: int, error: InputError) -> ImportLineError:
    """Return what is wrong with a value as what is wrong with its line."""
    return ImportLineError(number, f"{error.field} {error.problem}", error.remedy)
