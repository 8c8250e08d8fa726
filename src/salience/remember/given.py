"""What a caller gave, as drafts: one by one, or as the turns of a conversation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from salience.errors import InputError, wrong_type
from salience.lines import as_draft, moment, said
from salience.records import Draft, Scope


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
