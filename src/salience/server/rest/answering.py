"""From what a verb answered to what goes out over HTTP."""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode

from fastapi import Request
from fastapi.responses import Response
from pydantic_core import to_json

from salience.errors import InputError, StaleError, Words
from salience.records import Memory, Page, Receipt
from salience.wire.verbs import VERBS, Verb

CREATED: Final = ("created", "superseded", "pending")
"""Statuses of the receipt of a new memory."""
TAGS: Final = 8
"""Most versions that a condition may name."""
_TAG: Final = re.compile(r'[ \t]*(W/)?"([\x21\x23-\x7e\x80-\xff]*)"[ \t]*(?:,|$)')


def answered(request: Request, verb: Verb, result: object) -> Response:
    """Return what a verb answered as JSON, with its status and headers."""
    headers = _headers(request, verb, result)
    if isinstance(result, Memory) and _has(request.headers.get("if-none-match"), result.version):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    status = HTTPStatus.CREATED if verb.creates and _creates(result) else HTTPStatus.OK
    return json_response(verb.to_json(result), status, headers)


def json_response(told: Any, status: int = HTTPStatus.OK, headers: dict[str, str] | None = None) -> Response:
    """Return JSON values as an answer."""
    return Response(to_json(told), status, headers, "application/json")


def wanted(request: Request, verb: Verb) -> list[int] | None:
    """Return the versions at one of which `If-Match` wants the memory to be that is changed; None: at any.

    Raises:
        InputError: it cannot be read, names too many, or the verb takes no such condition.
        StaleError: it names none.
    """
    said = request.headers.get("if-match")
    if said is None or verb.changes is None or said.strip() == "*":
        return None
    if "if_version" not in verb.request.model_fields:
        raise InputError(
            "If-Match", Words("a condition"), f"Leave it out: {verb.name} takes none.", "is not for this request"
        )
    versions = [
        int(tag) for is_weak, tag in _tags("If-Match", said) if not is_weak and re.fullmatch("[1-9]\\d{0,8}", tag)
    ]
    if not versions:
        raise StaleError("If-Match: no version of a memory is named by this. Take the ETag of an answer.")
    return versions


def _tags(field: str, said: str) -> list[tuple[bool, str]]:
    """Return the entity tags of a header: whether each is weak, and what it names."""
    found: list[tuple[bool, str]] = []
    place = 0
    while place < len(said) and (match := _TAG.match(said, place)) and len(found) <= TAGS:
        found.append((match[1] is not None, match[2]))
        place = match.end()
    if place < len(said) or not found:
        raise InputError(
            field, Words("what is no list of tags"), f'Give up to {TAGS} of the form "3".', "is no list of entity tags"
        )
    return found


def _has(said: str | None, version: int) -> bool:
    """Return whether `If-None-Match` names a version; one that cannot be read names none."""
    if said is None:
        return False
    try:
        return said.strip() == "*" or str(version) in (tag for _, tag in _tags("If-None-Match", said))
    except InputError:
        return False


def _headers(request: Request, verb: Verb, result: object) -> dict[str, str]:
    headers: dict[str, str] = {}
    memory = result.memory if isinstance(result, Receipt) else result
    if isinstance(memory, Memory):
        headers["ETag"] = f'"{memory.version}"'
    if isinstance(result, Receipt) and verb.creates and _creates(result):
        headers["Location"] = VERBS["get"].path.format(id=result.memory.id)
    if isinstance(result, Page) and result.cursor is not None:
        headers["Link"] = f'<{_next(request, result.cursor)}>; rel="next"'
    return headers


def _next(request: Request, cursor: str) -> str:
    """Return the path of the next page: that of this one with another cursor."""
    kept = [(name, value) for name, value in request.query_params.multi_items() if name != "cursor"]
    return f"{request.url.path}?{urlencode([*kept, ('cursor', cursor)])}"


def _creates(result: object) -> bool:
    receipts: Sequence[Receipt] = [result] if isinstance(result, Receipt) else result  # type: ignore[assignment]
    return any(receipt.status in CREATED for receipt in receipts)
