"""HTTP responses: results with status and headers, streamed lines of JSON, and problem details (RFC 9457)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from tempfile import TemporaryFile
from typing import IO, Any, Final, cast
from urllib.parse import urlencode

import anyio
import anyio.from_thread
import anyio.to_thread
from anyio.streams.memory import MemoryObjectSendStream
from fastapi import Request
from fastapi.responses import Response
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from salience.errors import AccessError, ForbiddenError, InputError, LimitError, SalienceError, Words
from salience.records import Memory, Page, RecallLogPage, Receipt
from salience.server.shares import RETRY_AFTER
from salience.verbs import VERBS, Verb
from salience.wire.errors import MEDIA_TYPE, UNTYPED, instance, to_problem

NDJSON: Final = ("application/x-ndjson", "application/ndjson", "application/jsonl")
ANY_FILE: Final = ("application/octet-stream", "application/json", "application/zip", "text/markdown", *NDJSON)
"""Media types of other systems' exports."""
CREATED: Final = ("created", "superseded", "pending")
"""Receipt statuses of new memories."""
CHUNK: Final = 64 * 1024
"""Characters or bytes per chunk of a streamed response."""
STALLED: Final = 30.0
"""Seconds without progress after which a streamed response is cut off, because other requests wait for its slot."""
BUFFERED: Final = 4
"""Maximum number of chunks that wait for the client."""
ETAGS_LIMIT: Final = 8
"""Maximum number of entity tags in a condition."""
_ETAG: Final = re.compile(r'[ \t]*(W/)?"([\x21\x23-\x7e\x80-\xff]*)"[ \t]*(?:,|$)')


class HttpError(Exception):
    """The path, method, media type or syntax of a request is invalid; `detail` quotes nothing from a body."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})
        super().__init__(detail)


def http_problem(status: int, detail: str) -> dict[str, Any]:
    """Return problem details without a type of their own."""
    return {"type": UNTYPED, "title": HTTPStatus(status).phrase, "status": status, "detail": detail}


def error_response(request_id: str, error: Exception) -> Response:
    """Return the response for an error; an unexpected error reveals only the request id."""
    headers: Mapping[str, str] = {}
    match error:
        case SalienceError():
            details = to_problem(error)
            if isinstance(error, AccessError) and not isinstance(error, ForbiddenError):
                headers = {"WWW-Authenticate": "Bearer"}
            elif isinstance(error, LimitError) and error.retry_after is not None:
                headers = {"Retry-After": str(max(1, math.ceil(error.retry_after)))}
            elif details["status"] == HTTPStatus.SERVICE_UNAVAILABLE:
                headers = {"Retry-After": str(RETRY_AFTER)}
        case HttpError():
            details, headers = http_problem(error.status, error.detail), error.headers
        case HTTPException():
            is_missing = error.status_code == HTTPStatus.NOT_FOUND
            detail = f"The request is refused: {HTTPStatus(error.status_code).phrase}."
            detail = "path: not found. See /openapi.json for the paths." if is_missing else detail
            details, headers = http_problem(error.status_code, detail), error.headers or {}
        case _:
            details = http_problem(500, f"The server failed. Its log has more under the request id {request_id}.")
    body = to_json({**details, "instance": instance(request_id)})
    return Response(body, details["status"], dict(headers), MEDIA_TYPE)


def etags(field: str, header: str) -> list[tuple[bool, str]]:
    """Return the entity tags in a header: whether each is weak, and its text; raises `InputError` for other text."""
    tags: list[tuple[bool, str]] = []
    position = 0
    while position < len(header) and (match := _ETAG.match(header, position)) and len(tags) <= ETAGS_LIMIT:
        tags.append((match[1] is not None, match[2]))
        position = match.end()
    if position < len(header) or not tags:
        remedy = f'Give up to {ETAGS_LIMIT} of the form "3".'
        raise InputError(field, Words("a text of another form"), remedy, "is not a list of entity tags")
    return tags


def result_response(request: Request, verb: Verb, result: object) -> Response:
    """Return a result as JSON, with its status, ETag, Location and Link."""
    headers: dict[str, str] = {}
    receipts: Any = result if isinstance(result, list) else [result]
    is_new = verb.creates and any(receipt.status in CREATED for receipt in receipts)
    memory = result.memory if isinstance(result, Receipt) else result
    if isinstance(memory, Memory):
        headers["ETag"] = f'"{memory.version}"'
    if isinstance(result, Receipt) and is_new:
        headers["Location"] = VERBS["get"].path.format(id=result.memory.id)
    if isinstance(result, Page | RecallLogPage) and result.cursor is not None:
        query = [(name, value) for name, value in request.query_params.multi_items() if name != "cursor"]
        url = f"{request.url.path}?{urlencode([*query, ('cursor', result.cursor)])}"
        headers["Link"] = f'<{url}>; rel="next"'
    condition = request.headers.get("if-none-match", "").strip()
    if isinstance(result, Memory) and condition:
        try:
            tags = [tag for _, tag in etags("If-None-Match", condition)] if condition != "*" else [str(result.version)]
        except InputError:  # RFC 9110: a server ignores a condition that it cannot read
            tags = []
        if str(result.version) in tags:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    status = HTTPStatus.CREATED if is_new else HTTPStatus.OK
    body = to_json(verb.to_json(result))
    kind = Response if len(body) <= CHUNK else SpooledResponse
    return kind(body, status, headers, "application/json")


class SpooledResponse(Response):
    """A large response, kept on disk and sent in chunks: clients that read slowly hold no memory."""

    def __init__(self, content: bytes, status: int, headers: Mapping[str, str], media_type: str) -> None:
        super().__init__(None, status, {**headers, "Content-Length": str(len(content))}, media_type)
        self._file = TemporaryFile()  # noqa: SIM115 - closed once it is sent
        self._file.write(content)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response; `send` waits for the client."""
        with self._file as file:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            file.seek(0)
            while chunk := file.read(CHUNK):  # from the cache of the system
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b""})


class _Pipe:
    """A text file that sends its text in chunks, and blocks while the receiver is behind."""

    encoding: Final = "utf-8"

    def __init__(self, sender: MemoryObjectSendStream[bytes]) -> None:
        self._sender = sender
        self._parts: list[str] = []
        self._size = 0

    def write(self, text: str) -> int:
        """Add a text; raises `anyio.BrokenResourceError` if the client disconnected."""
        self._parts.append(text)
        self._size += len(text)
        if self._size >= CHUNK:
            self.flush()
        return len(text)

    def flush(self) -> None:
        """Send the rest."""
        if self._parts:
            anyio.from_thread.run(self._sender.send, "".join(self._parts).encode(self.encoding))
        self._parts, self._size = [], 0


class LinesResponse(Response):
    """A streamed response, written by a thread.

    `write` writes the whole response to a text file. An error before the first chunk becomes an error response; a later
    error cuts the response off.
    """

    def __init__(self, write: Callable[[IO[str]], object], limiter: anyio.CapacityLimiter) -> None:
        super().__init__(media_type=NDJSON[0])
        del self.headers["content-length"]
        self._write = write
        self._limiter = limiter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response; stop writing when the client disconnects."""
        sender, receiver = anyio.create_memory_object_stream[bytes](BUFFERED)
        has_started, is_connected = False, True
        failure: Exception | None = None

        def write() -> None:
            pipe = _Pipe(sender)
            self._write(cast("IO[str]", pipe))
            pipe.flush()

        async def produce() -> None:
            nonlocal failure
            async with sender:
                try:
                    await anyio.to_thread.run_sync(write, limiter=self._limiter)
                except Exception as error:
                    failure = error

        async def watch_disconnect() -> None:
            nonlocal is_connected
            while (await receive())["type"] != "http.disconnect":
                pass
            is_connected = False
            sending.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(produce)
            with anyio.CancelScope() as sending, receiver:  # closing the receiver ends the writer
                tasks.start_soon(watch_disconnect)
                async for chunk in receiver:
                    sending.deadline = anyio.current_time() + STALLED
                    if not has_started:
                        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                        has_started = True
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                    sending.deadline = math.inf
            tasks.cancel_scope.cancel()
        if sending.cancelled_caught and is_connected:
            raise ClientDisconnect  # the client reads too slowly; the response stays unfinished
        if failure is not None and is_connected:
            raise failure
        if has_started:
            await send({"type": "http.response.body", "body": b""})
