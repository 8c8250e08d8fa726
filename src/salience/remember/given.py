"""What a caller gave, as drafts: one by one, or as the turns of a conversation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from salience.errors import InputError, wrong_type
from salience.lines import as_draft, moment, said
from salience.records import Draft, Scope
from salience.records.checks import NAME_LIMIT
from salience.text import content_hash

BOUNDARIES: Final = tuple(map(re.compile, (r"\n\s*\n", r"\n", r"[.!?][\"')\]]*\s|[。！？]", r"\s")))
"""Where a message over the limit may be split, best first: after a paragraph, a line, a sentence, a word."""
LEAST: Final = 4
"""A better boundary is taken unless the part before it is shorter than the limit divided by this."""


def drafts(items: Iterable[object], scope: Scope) -> list[Draft]:
    """Return a draft for each of some drafts or mappings of their fields.

    Raises:
        InputError: one that cannot be accepted; names its place.
    """
    made: list[Draft] = []
    for place, item in enumerate(items):
        try:
            made.append(as_draft(item, scope))
        except InputError as error:
            raise error.at(f"drafts[{place}].{error.field}") from None
    return made


def turns(messages: Iterable[object], scope: Scope) -> list[Draft]:
    """Return a draft for each message of a conversation: the content verbatim, with speaker and time.

    A message is a mapping (or an object with these attributes): `content` or `text`, which may be a list of parts;
    `speaker`, `name` or `role`; and, all optional, `timestamp` (aware, ISO 8601 with an offset, or seconds since
    1970), `metadata` and `key` (idempotency). One that calls tools and says nothing is left out.

    Raises:
        InputError: no session, or a message that cannot be accepted; names its place.
    """
    if scope.session_id is None:
        raise InputError("session_id", None, "Name the session that the messages belong to.")
    if isinstance(messages, (str, bytes, Mapping)):
        raise wrong_type("messages", messages, "Give a list of messages.")
    drafts = (_turn(f"messages[{place}]", message, scope) for place, message in enumerate(messages))
    return [draft for draft in drafts if draft is not None]


def parted(drafts: Iterable[Draft], limit: int) -> Iterator[tuple[Draft, str | None]]:
    """Yield turns, those over `limit` bytes in parts, each with a warning that says so; None for a whole turn.

    Parts are turns of their own, in order. The metadata of each has its number as `part`, their number as `parts`, and
    as `message` a hash of the whole text, which is the same in all of them. A key is followed by the number of its
    part, so that a retry stores no part twice.
    """
    for draft in drafts:
        if len(draft.content.encode()) <= limit:
            yield draft, None
            continue
        texts = split(draft.content, limit)
        whole = content_hash(draft.content)
        for number, text in enumerate(texts, 1):
            named = {"part": number, "parts": len(texts), "message": whole[:32]}
            warning = f"Part {number} of {len(texts)} of a message over {limit:,} bytes, which was split."
            key = None if draft.key is None else _of_part(draft.key, number)
            yield replace(draft, content=text, metadata={**named, **draft.metadata}, key=key), warning


def _of_part(key: str, number: int) -> str:
    """Return the key of a part of the message under a key; of a long one, its hash."""
    named = f"{key}#{number}"
    return named if len(named) <= NAME_LIMIT else f"{content_hash(key)}#{number}"


def split(text: str, limit: int) -> Sequence[str]:
    """Return a text in parts of at most `limit` bytes in UTF-8, in order; nothing but white space between them is lost.

    Each part ends with a paragraph, else with a line, a sentence or a word, and is cut anywhere only where none ends.
    """
    parts, start = [], 0
    while start < len(text):
        window = text[start : start + limit].encode()[:limit].decode(errors="ignore") or text[start]
        end = len(window) if start + len(window) == len(text) else _boundary(window)
        if not window[:end].isspace():
            parts.append(window[:end])
        start += end
    return parts


def _boundary(window: str) -> int:
    """Return where the best part of a text ends that is as long as a part may be."""
    end = 0
    for boundary in BOUNDARIES:
        end = max((match.end() for match in boundary.finditer(window)), default=0)
        if end >= len(window) // LEAST:
            break
    return end or len(window)


def _turn(path: str, message: object, scope: Scope) -> Draft | None:
    def get(*names: str) -> Any:
        found = (message.get(name) if isinstance(message, Mapping) else getattr(message, name, None) for name in names)
        return next((value for value in found if value is not None), None)

    if not isinstance(message, Mapping) and not (hasattr(message, "content") or hasattr(message, "text")):
        raise wrong_type(path, message, "Give a mapping with a content, and a role or speaker.")
    try:
        content = said(get("content", "text"))
        if not content and get("tool_calls", "function_call") is not None:
            return None
        return Draft(
            content=content,
            scope=scope,
            kind="turn",
            speaker=get("speaker", "name", "role"),
            created_at=moment(get("timestamp")),
            metadata=get("metadata") or {},
            key=get("key"),
        )
    except InputError as error:
        raise error.at(f"{path}.{error.field}") from None
