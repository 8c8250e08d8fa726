"""Results to HTTP responses: objects with status and headers, and streamed lines of JSON."""

from __future__ import annotations

import math
from collections.abc import Callable
from http import HTTPStatus
from typing import IO, Any, Final, cast
from urllib.parse import urlencode

import anyio
import anyio.from_thread
import anyio.to_thread
from anyio.streams.memory import MemoryObjectSendStream
from fastapi import Request
from fastapi.responses import Response
from pydantic_core import to_json
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from salience.records import Memory, Page, Receipt
from salience.server.rest.parsing import NDJSON, if_none_match
from salience.wire.verbs import VERBS, Verb

CREATED: Final = ("created", "superseded", "pending")
"""Receipt statuses of new memories."""
CHUNK: Final = 64 * 1024
"""Characters per chunk of a streamed response."""
STALLED: Final = 30.0
"""Seconds without progress after which a streamed response is cut off, because other requests wait for its slot."""
BUFFERED: Final = 4
"""Maximum number of chunks that wait for the client."""


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
    if isinstance(result, Page) and result.cursor is not None:
        query = [(name, value) for name, value in request.query_params.multi_items() if name != "cursor"]
        url = f"{request.url.path}?{urlencode([*query, ('cursor', result.cursor)])}"
        headers["Link"] = f'<{url}>; rel="next"'
    if isinstance(result, Memory) and if_none_match(request, result.version):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    status = HTTPStatus.CREATED if is_new else HTTPStatus.OK
    return Response(to_json(verb.to_json(result)), status, headers, "application/json")


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

    An error before the first chunk becomes an error response. A later error cuts the response off.

    Args:
        write: writes the whole response to a text file.
        limiter: limits the number of concurrent streamed responses.
    """

    def __init__(self, write: Callable[[IO[str]], object], limiter: anyio.CapacityLimiter) -> None:
        super().__init__(media_type=NDJSON[0])
        del self.headers["content-length"]
        self._write = write
        self._limiter = limiter
        self._error: Exception | None = None
        self._is_connected = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response; stop writing when the client disconnects."""
        sender, receiver = anyio.create_memory_object_stream[bytes](BUFFERED)
        has_started = False
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._run, sender)
            with anyio.CancelScope() as sending, receiver:  # closing the receiver ends the writer
                tasks.start_soon(self._watch_disconnect, receive, sending)
                async for chunk in receiver:
                    sending.deadline = anyio.current_time() + STALLED
                    if not has_started:
                        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                        has_started = True
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                    sending.deadline = math.inf
            tasks.cancel_scope.cancel()
        if sending.cancelled_caught and self._is_connected:
            raise ClientDisconnect  # the client reads too slowly; the response stays unfinished
        if self._error is not None and self._is_connected:
            raise self._error
        if has_started:
            await send({"type": "http.response.body", "body": b""})

    async def _run(self, sender: MemoryObjectSendStream[bytes]) -> None:
        def write() -> None:
            pipe = _Pipe(sender)
            self._write(cast("IO[str]", pipe))
            pipe.flush()

        async with sender:
            try:
                await anyio.to_thread.run_sync(write, limiter=self._limiter)
            except Exception as error:
                self._error = error

    async def _watch_disconnect(self, receive: Receive, sending: anyio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._is_connected = False
        sending.cancel()
