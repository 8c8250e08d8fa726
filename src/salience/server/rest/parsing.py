"""Parses HTTP requests: query, JSON body, idempotency key, conditions."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from email.message import Message
from tempfile import TemporaryFile
from typing import IO, Annotated, Any, Final, get_args, get_origin

import anyio.to_thread
from fastapi import Request
from pydantic_core import from_json

from salience.errors import InputError, LimitError, StaleError, Words
from salience.records import checks
from salience.server.rest.responses import HttpError, etags
from salience.server.shares import content_length
from salience.verbs import VERBS, Verb
from salience.wire.requests import VerbRequest, parse, type_name

JSON: Final = ("application/json",)
STREAMED: Final = tuple(name for name, verb in VERBS.items() if verb.tag == "transfer")
"""Verbs whose body is lines of JSON, not one object."""
WRITE_SIZE: Final = 1024 * 1024
"""Bytes per write of a body to disk."""
KEY_HEADER: Final = "Idempotency-Key"
KEY_LIMIT: Final = 200
"""Maximum length of a key in the header; the keys of items append to it."""
KEYED_LISTS: Final = ("drafts", "messages")
"""Arguments whose items have idempotency keys."""
_VISIBLE: Final = re.compile("[!-~]+")


def is_in_query(verb: Verb) -> bool:
    """Return whether a verb takes its arguments in the query, not in a JSON body."""
    return verb.method in ("GET", "DELETE") or verb.name in STREAMED


def argument_names(verb: Verb) -> tuple[list[str], list[str]]:
    """Return the names of the arguments in the path, and in the query."""
    in_path = re.findall(r"{(\w+)}", verb.path)
    rest = [name for name in verb.request.model_fields if name not in in_path]
    return in_path, rest if is_in_query(verb) else []


async def chunks(request: Request, limit: int) -> AsyncGenerator[bytes, None]:
    """Yield the body in chunks.

    Raises:
        LimitError: the body is longer than the limit; raised before reading it if it has a Content-Length.
    """
    error = LimitError(f"body: more than the {limit:,} bytes of one request. Send less at a time.")
    if (content_length(request.headers) or 0) > limit:
        raise error
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise error
        yield chunk


async def body(request: Request, limit: int, take: Callable[[int], None]) -> bytes:
    """Return the body; `take` reserves memory for its Content-Length, else for each chunk."""
    length, parts = content_length(request.headers), list[bytes]()
    if length is not None and length <= limit:
        take(length)
    async for chunk in chunks(request, limit):
        if length is None:
            take(len(chunk))
        parts.append(chunk)
    return b"".join(parts)


@asynccontextmanager
async def body_on_disk(request: Request, limit: int) -> AsyncIterator[IO[bytes]]:
    """Yield the body as a temporary file; raises `LimitError` as `chunks`."""
    with TemporaryFile() as file:
        pending = bytearray()
        async for chunk in chunks(request, limit):
            pending += chunk
            if len(pending) >= WRITE_SIZE:
                await anyio.to_thread.run_sync(file.write, bytes(pending))
                pending.clear()
        await anyio.to_thread.run_sync(file.write, bytes(pending))
        file.seek(0)
        yield file


async def no_body(request: Request) -> bytes:
    """Raise `InputError` if there is a body: the arguments are in the query."""
    if request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers:
        raise InputError("body", Words("a body"), "Put the arguments in the query.", "is not accepted here")
    return b""


def require_media_type(request: Request, accepted: Sequence[str]) -> None:
    """Raise `HttpError` (415) unless the body has one of these media types, in UTF-8."""
    header = Message()
    header["content-type"] = request.headers.get("content-type", "none/none")
    charset = header.get_content_charset("utf-8")
    if header.get_content_type() not in accepted or charset not in ("utf-8", "utf8", "us-ascii"):
        raise HttpError(415, f"Content-Type: not supported here. Send {accepted[0]}, in UTF-8.")


def parse_request(verbs: Sequence[Verb], request: Request, body: bytes = b"") -> tuple[Verb, VerbRequest]:
    """Return the verb of a request, and its arguments. A route of several verbs selects one by its required arguments.

    Raises:
        HttpError: the body is not JSON.
        InputError: the arguments do not match the verb.
    """
    verb, path = verbs[0], request.path_params
    if is_in_query(verb):
        given = _query_arguments(verb, request)
    else:
        if request.query_params:
            raise InputError("query", Words("a query"), "Put the arguments in the body.", "is not accepted here")
        given = _json_object(request, body)
        for one in reversed(verbs):
            if {name for name, field in one.request.model_fields.items() if field.is_required()} <= {*given, *path}:
                verb = one
    for name in given.keys() & path.keys():
        raise InputError(name, Words("a second value"), "Leave it out: it is in the path.", "is given twice")
    key = None if verb.name in STREAMED else request.headers.get(KEY_HEADER)
    return verb, parse(verb.request, _with_key(verb, {**given, **path}, key))


def _query_arguments(verb: Verb, request: Request) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, text in request.query_params.multi_items():
        types = _types(verb.request.model_fields[name].annotation) if name in verb.request.model_fields else set()
        if list in types:
            given.setdefault(name, []).append(text)
        elif name in given:
            raise InputError(name, Words("a second value"), "Give it once.", "is given twice")
        else:
            given[name] = _value(types, text)
    return given


def _value(types: set[Any], text: str) -> Any:
    """Return text of a URL as JSON if its argument is a number, true or false, or an object."""
    with suppress(ValueError):
        if types & {int, float, bool, dict} and (found := from_json(text, allow_inf_nan=False)) is not None:
            return found
    return text


def _types(annotation: Any) -> set[Any]:
    """Return the plain types in an annotation; `list` for any list."""
    if get_origin(annotation) in (list, dict):
        return {get_origin(annotation)}
    inner = get_args(annotation)[:1] if get_origin(annotation) is Annotated else get_args(annotation)
    return set().union(*map(_types, inner)) if inner else {annotation}


def _json_object(request: Request, body: bytes) -> dict[str, Any]:
    """Return the JSON object in a body; an empty body is an empty object."""
    if not body:
        return {}
    require_media_type(request, JSON)
    try:
        found = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        place = re.search(r"line \d+ column \d+$", str(error))
        detail = f"body: not JSON ({place[0] if place else 'cut off'}). Send an object, in UTF-8."
        raise HttpError(400, detail) from None
    if not isinstance(found, dict):
        raise InputError("body", type_name(found), "Send an object of the arguments.")
    return found


def _with_key(verb: Verb, given: dict[str, Any], key: str | None) -> dict[str, Any]:
    """Return the arguments with the idempotency key of the header; items get the key with their position."""
    if key is None:
        return given
    if len(checks.name(KEY_HEADER, key)) > KEY_LIMIT or not _VISIBLE.fullmatch(key):
        remedy = f"Give up to {KEY_LIMIT} ASCII characters without spaces."
        raise InputError(KEY_HEADER, Words("another key"), remedy, "is too long, or has other characters")
    if "key" in verb.request.model_fields:
        if given.get("key") not in (None, key):
            value, problem = Words("another key than the body's"), "is another key than the body's"
            raise InputError(KEY_HEADER, value, "Give one of them.", problem)
        return {**given, "key": key}
    for name in KEYED_LISTS:
        if isinstance(given.get(name), list):
            given[name] = [
                {**item, "key": f"{key}/{position}"} if isinstance(item, dict) and item.get("key") is None else item
                for position, item in enumerate(given[name])
            ]
    return given


def if_match(request: Request, verb: Verb) -> list[int] | None:
    """Return the versions in `If-Match`, at which a memory may be changed; None for any version.

    Raises:
        InputError: the header is invalid, has too many tags, or the verb does not accept it.
        StaleError: the header names no version.
    """
    header = request.headers.get("if-match")
    if header is None or verb.changes is None or header.strip() == "*":
        return None
    if "if_version" not in verb.request.model_fields:
        remedy = f"Leave it out: {verb.name} takes none."
        raise InputError("If-Match", Words("a condition"), remedy, "is not accepted here")
    tags = [tag for is_weak, tag in etags("If-Match", header) if not is_weak]
    if not (versions := [int(tag) for tag in tags if re.fullmatch("[1-9]\\d{0,8}", tag)]):
        raise StaleError("If-Match: this is not the version of a memory. Use the ETag of a response.")
    return versions
