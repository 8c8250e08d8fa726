"""uvicorn in this process: serving, and a graceful shutdown."""

from __future__ import annotations

import asyncio
import gc
import math
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any, Final

import anyio
import structlog
import uvicorn
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from salience.server.process import SIGNALLED

EVENTS: Final = "text/event-stream"
STREAMED: Final = (EVENTS, "application/x-ndjson")
"""Media types of long responses. Writes never have one, so cutting one off loses nothing."""
STALLED: Final = 1.0
"""Seconds without progress after which a closing connection is dropped."""
JOIN_TIMEOUT: Final = 0.5
"""Time for a thread to end, seconds."""


class Streams:
    """ASGI middleware that ends streamed responses when the server shuts down, so that they do not delay it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open: set[anyio.CancelScope] = set()
        self._ended = False

    def end(self) -> None:
        """End all streams, including later ones. Call this in the event loop."""
        self._ended = True
        for scope in list(self._open):
            scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. At shutdown, an event stream is completed; an export is cut off, so that clients see it."""
        kind = ""

        async def watching(message: Message) -> None:
            nonlocal kind
            if message["type"] == "http.response.start":
                kind = Headers(raw=message["headers"]).get("content-type", "").partition(";")[0]
                if kind in STREAMED:
                    self._open.add(stream)
                    if self._ended:
                        stream.cancel()
            await send(message)

        with anyio.CancelScope() as stream:
            try:
                await self._app(scope, receive, watching)
            finally:
                self._open.discard(stream)
        if stream.cancelled_caught and kind == EVENTS:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


class Server(uvicorn.Server):
    """A uvicorn server that finishes its requests on a signal, then exits with code 0.

    Args:
        config: of uvicorn.
        end_streams: ends the streamed responses.
        is_worker: a worker ignores SIGINT and a second signal; its supervisor handles them.
    """

    def __init__(self, config: uvicorn.Config, end_streams: Callable[[], None], is_worker: bool) -> None:
        super().__init__(config)
        self._end_streams = end_streams
        self._is_worker = is_worker

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more connections, and wait for the open ones."""
        log: Any = structlog.get_logger()
        log.info("ending", connections=len(self.server_state.connections))
        self._end_streams()
        dropping = asyncio.create_task(self._drop_stalled())
        await super().shutdown(sockets)
        dropping.cancel()

    async def _drop_stalled(self) -> None:
        """Drop closing connections whose client does not read the rest of its response."""
        before: dict[asyncio.Transport, int] = {}
        while True:
            now = {
                transport: transport.get_write_buffer_size()
                for connection in self.server_state.connections
                if (transport := connection.transport).is_closing()
            }
            for transport in [transport for transport, unread in now.items() if before.get(transport) == unread]:
                transport.abort()
            before = now
            await asyncio.sleep(STALLED)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin the shutdown. Unlike uvicorn's, this does not raise the signal again at the end."""
        if self.should_exit and not self._is_worker:
            os._exit(SIGNALLED + sig)  # every write is a transaction, done or not
        if sig == signal.SIGTERM or not self._is_worker:  # Ctrl+C reaches workers too
            self.should_exit = True


def serve(
    app: ASGIApp,
    protocol: Any,
    end_streams: Callable[[], None],
    listening: socket.socket,
    shutdown: float,
    supervisor: Connection | None = None,
) -> None:
    """Serve on a socket until a signal ends it.

    Args:
        app: the application.
        protocol: the protocol factory.
        end_streams: ends the streamed responses.
        listening: the socket.
        shutdown: time for requests to finish after the signal, seconds.
        supervisor: a pipe that closes when the supervisor dies; None if this process is not a worker.
    """
    config = uvicorn.Config(
        app,
        http=protocol,
        lifespan="on",
        ws="none",
        log_config=None,  # structlog handles these lines
        access_log=False,  # it would contain URLs with their queries
        server_header=False,
        timeout_graceful_shutdown=math.ceil(shutdown),
    )
    server = Server(config, end_streams, is_worker=supervisor is not None)
    if supervisor is not None:
        threading.Thread(target=_follow, args=(server, supervisor), daemon=True).start()
    server.run([listening])


def _follow(server: Server, supervisor: Connection) -> None:
    """End the server when the supervisor dies."""
    with suppress(EOFError, OSError):
        supervisor.recv_bytes()
    server.should_exit = True


def exit_if_stuck() -> None:
    """Exit with code 0 if a request's thread runs on after the shutdown time; otherwise return.

    Objects are frozen before the return, because a last garbage collection of a large index takes seconds.
    """
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(JOIN_TIMEOUT)
            if thread.is_alive():
                sys.stderr.flush()
                os._exit(0)
    gc.freeze()
