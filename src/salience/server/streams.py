"""Answers that go on and on. They end when the server does, instead of keeping it from that."""

from __future__ import annotations

from typing import Final

import anyio
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

EVENTS: Final = "text/event-stream"
STREAMED: Final = (EVENTS, "application/x-ndjson")
"""Media types of answers that may go on. No write is answered by one, so that to cut it off loses nothing."""


class Streams:
    """The streams that are under way."""

    def __init__(self) -> None:
        self._going: set[anyio.CancelScope] = set()
        self._ended = False

    def end(self) -> None:
        """End them all, and each that still begins; to be called where the loop runs."""
        self._ended = True
        for scope in list(self._going):
            scope.cancel()

    async def through(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Let an application answer a request.

        A stream of events that is ended is complete. An export is cut off, so that nobody takes it for a whole one.
        """
        kind = ""

        async def noted(message: Message) -> None:
            nonlocal kind
            if message["type"] == "http.response.start":
                kind = Headers(raw=message["headers"]).get("content-type", "").partition(";")[0]
                if kind in STREAMED:
                    self._going.add(going)
                    if self._ended:
                        going.cancel()
            await send(message)

        with anyio.CancelScope() as going:
            try:
                await app(scope, receive, noted)
            finally:
                self._going.discard(going)
        if going.cancelled_caught and kind == EVENTS:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
