"""From what came over HTTP to the request of a verb."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from email.message import Message
from typing import Annotated, Any, Final, get_args, get_origin

from fastapi import Request
from pydantic_core import from_json

from salience.errors import InputError, LimitError, Words
from salience.records import checks
from salience.server.rest.grouping import is_in_query
from salience.server.rest.problems import Refused
from salience.wire.requests import VerbRequest, parse, type_name
from salience.wire.verbs import Verb

JSON: Final = ("application/json",)
LINES: Final = ("application/x-ndjson", "application/ndjson", "application/jsonl")
KEY: Final = "Idempotency-Key"
KEY_LIMIT: Final = 200
"""Longest key in that header: those that are made of it for each of many are longer."""
MANY: Final = ("drafts", "messages")
"""Arguments whose items have idempotency keys of their own."""
_VISIBLE: Final = re.compile("[!-~]+")
_WHOLE: Final = re.compile("-?[0-9]{1,18}")
_TRUTH: Final = {"true": True, "false": False}


async def chunks(request: Request, limit: int) -> AsyncIterator[bytes]:
    """Yield the body as it comes.

    Raises:
        LimitError: it is longer than the limit; told before it is read where its length is known.
    """
    said = request.headers.get("content-length", "")
    size = int(said) if said.isdecimal() and len(said) < 20 else 0
    _require_within(limit, size)
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        _require_within(limit, size)
        yield chunk


def _require_within(limit: int, size: int) -> None:
    if size > limit:
        raise LimitError(f"body: more than the {limit:,} bytes that one request may have. Send less at a time.")


def whole_body(limit: int) -> Callable[[Request], Any]:
    """Return a dependency of a route: the body, in memory."""

    async def body(request: Request) -> bytes:
        return b"".join([chunk async for chunk in chunks(request, limit)])

    return body


async def no_body(request: Request) -> bytes:
    """Return no body, for a route whose arguments stand in the query.

    Raises:
        InputError: there is one.
    """
    if request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers:
        raise InputError(
            "body", Words("a body"), "Leave it out: the arguments stand in the query.", "is not for this request"
        )
    return b""


def require_type(request: Request, accepted: Sequence[str]) -> None:
    """Return if the body is of one of these media types, in UTF-8.

    Raises:
        Refused: it is not.
    """
    said = Message()
    said["content-type"] = request.headers.get("content-type", "none/none")
    charset = said.get_content_charset("utf-8")
    if said.get_content_type() not in accepted or charset not in ("utf-8", "utf8", "us-ascii"):
        raise Refused(415, f"Content-Type: not what this takes. Send {accepted[0]}, in UTF-8.")


def asked_by(verbs: Sequence[Verb], request: Request, body: bytes) -> tuple[Verb, VerbRequest]:
    """Return which verb of a path and method a request asks for, and with what arguments.

    Raises:
        Refused: the body is no JSON.
        InputError: arguments of another shape than the verb's.
    """
    path, query = request.path_params, request.query_params.multi_items()
    if is_in_query(verbs[0]):
        verb, given = verbs[0], _in_query(verbs[0], query)
    else:
        if query:
            raise InputError(
                "query", Words("a query"), "Leave it out: the arguments stand in the body.", "is not for this request"
            )
        given = _object(request, body)
        verb = next((verb for verb in verbs if _required(verb) <= {*given, *path}), verbs[0])
    for name in given.keys() & path.keys():
        raise InputError(name, Words("a second value"), "Leave it out: the path has it.", "is given twice")
    return verb, parse(verb.request, _under_key(verb, {**given, **path}, request.headers.get(KEY)))


def asked_in_query(verb: Verb, request: Request) -> VerbRequest:
    """Return the arguments in the query of a request for a verb that has no others; raises as `asked_by` does."""
    return parse(verb.request, _in_query(verb, request.query_params.multi_items()))


def _in_query(verb: Verb, pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return the arguments that a query holds: lists for names that may stand more than once, numbers from digits.

    Raises:
        InputError: a name that may not stand twice does.
    """
    given: dict[str, Any] = {}
    for name, text in pairs:
        kinds = _kinds(verb.request.model_fields[name].annotation) if name in verb.request.model_fields else set()
        if list in kinds:
            given.setdefault(name, []).append(text)
        elif name in given:
            raise InputError(name, Words("a second value"), "Give it once.", "is given twice")
        elif int in kinds and _WHOLE.fullmatch(text):
            given[name] = int(text)
        else:
            given[name] = _TRUTH.get(text, text) if bool in kinds else text
    return given


def _object(request: Request, body: bytes) -> dict[str, Any]:
    """Return the JSON object of a body; of an empty one, an empty object."""
    if not body:
        return {}
    require_type(request, JSON)
    try:
        found = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        place = re.search(r"line \d+ column \d+$", str(error))
        raise Refused(400, f"body: no JSON ({place[0] if place else 'cut off'}). Send an object, in UTF-8.") from None
    if not isinstance(found, dict):
        raise InputError("body", type_name(found), "Send an object of the arguments.")
    return found


def _required(verb: Verb) -> set[str]:
    return {name for name, field in verb.request.model_fields.items() if field.is_required()}


def _kinds(annotation: Any) -> set[Any]:
    """Return the plain types that an annotation takes; any list is `list`."""
    if get_origin(annotation) is list:
        return {list}
    inner = get_args(annotation)[:1] if get_origin(annotation) is Annotated else get_args(annotation)
    return set().union(*map(_kinds, inner)) if inner else {annotation}


def _under_key(verb: Verb, given: dict[str, Any], key: str | None) -> dict[str, Any]:
    """Return the arguments with the idempotency key of the header; each of many has a key of its own, by its place."""
    if key is None:
        return given
    if len(checks.name(KEY, key)) > KEY_LIMIT or not _VISIBLE.fullmatch(key):
        raise InputError(
            KEY,
            Words("another key"),
            f"Give up to {KEY_LIMIT} ASCII characters without spaces.",
            "is too long, or has other characters",
        )
    if "key" in verb.request.model_fields:
        if given.get("key") not in (None, key):
            raise InputError(
                KEY, Words("another key than the body's"), "Give one of them.", "is another key than the body's"
            )
        return {**given, "key": key}
    many = {name: given[name] for name in MANY if isinstance(given.get(name), list)}
    return given | {name: [_keyed(item, f"{key}/{place}") for place, item in enumerate(many[name])] for name in many}


def _keyed(item: Any, key: str) -> Any:
    return {**item, "key": key} if isinstance(item, dict) and item.get("key") is None else item
