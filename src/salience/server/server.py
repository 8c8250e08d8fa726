"""uvicorn in this process: limits on connections, serving, and a graceful shutdown."""

from __future__ import annotations

import asyncio
import gc
import math
import os
import signal
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any, Final

import anyio
import h11
import structlog
import uvicorn
from pydantic_core import to_json
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from salience.errors import LimitError
from salience.server.process import SIGNALLED
from salience.server.rest.app import HEAD_LIMIT
from salience.server.rest.responses import http_problem
from salience.server.shares import RETRY_AFTER
from salience.wire.errors import MEDIA_TYPE, to_problem

EVENTS: Final = "text/event-stream"
STREAMED: Final = (EVENTS, "application/x-ndjson")
"""Media types of long responses. Writes never have one, so cutting one off loses nothing."""
STALLED: Final = 1.0
"""Seconds without progress after which a closing connection is dropped."""
JOIN_TIMEOUT: Final = 0.5
"""Time for a thread to end, seconds."""
BODY_RATE: Final = 1000
"""Bytes of a body that extend its timeout by one second, so that a long import on a slow line is not cut off."""


@dataclass(slots=True)
class ConnectionLimits:
    """The open connections of one process, and their limits.

    Args:
        total: maximum number of connections.
        per_address: maximum number from one address.
        seconds: timeout for the head of a request, for its body (longer bodies get more time, see `BODY_RATE`), and for
            a client that reads nothing of a response.
    """

    total: int
    per_address: int
    seconds: float
    _by_address: Counter[str] = field(default_factory=Counter, init=False)

    def acquire(self, address: str) -> LimitError | None:
        """Count a connection, or return the error of too many."""
        if self._by_address.total() >= self.total:
            return LimitError(f"connections: the server accepts {self.total} at a time. Retry later.", RETRY_AFTER)
        if self._by_address[address] >= self.per_address:
            message = f"connections: the server accepts {self.per_address} from one address at a time. Close some."
            return LimitError(message, RETRY_AFTER)
        self._by_address[address] += 1
        return None

    def release(self, address: str) -> None:
        """Uncount a connection."""
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


class LimitedProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 protocol with connection limits.

    uvicorn closes only connections that are idle between two requests. It waits without limit for the rest of a
    request, and for the first byte of a connection.
    """

    def __init__(self, limits: ConnectionLimits, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limits = limits
        self._address: str | None = None
        self._awaited: object = None  # h11's state while the rest of a request is due
        self._began = 0.0
        self._received = 0
        self._read_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, or refuse it if there are too many."""
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        if (error := self._limits.acquire(address)) is not None:
            self._refuse(to_problem(error), {"Retry-After": str(RETRY_AFTER)})
            return
        self._address = address
        self._update_read_timer(0)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release a connection."""
        super().connection_lost(exc)
        for timer in (self._read_timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        if self._address is not None:
            self._limits.release(self._address)
            self._address = None

    def data_received(self, data: bytes) -> None:
        """Receive a part of a request."""
        super().data_received(data)
        self._update_read_timer(len(data))

    def on_response_complete(self) -> None:
        """Prepare for the next request."""
        super().on_response_complete()
        self._update_read_timer(0)

    def _update_read_timer(self, size: int) -> None:
        """Start, continue or stop the timer after `size` more bytes."""
        state = self.conn.their_state
        is_idle = state is h11.IDLE and self.timeout_keep_alive_task is not None  # uvicorn closes these
        awaited = state if state in (h11.IDLE, h11.SEND_BODY) and not is_idle else None
        if awaited is self._awaited:
            self._received += size
            return
        if self._read_timer is not None:
            self._read_timer.cancel()
        self._awaited, self._received, self._began = awaited, 0, self.loop.time()
        self._read_timer = None if awaited is None else self.loop.call_later(self._limits.seconds, self._read_timeout)

    def _read_timeout(self) -> None:
        """Refuse a request that is late, unless the server has paused reading."""
        now = self.loop.time()
        if self.flow.read_paused or self.conn.they_are_waiting_for_100_continue:
            self._began, self._received = now, 0
        extra = self._received / BODY_RATE if self._awaited is h11.SEND_BODY else 0.0
        left = self._began + self._limits.seconds + extra - now
        if left > 0:
            self._read_timer = self.loop.call_later(left, self._read_timeout)
            return
        part = "body" if self._awaited is h11.SEND_BODY else "head"
        detail = f"request: its {part} did not arrive within {self._limits.seconds:g} s. Send it faster."
        self._refuse(http_problem(HTTPStatus.REQUEST_TIMEOUT, detail), {})

    def _refuse(self, details: dict[str, Any], headers: dict[str, str]) -> None:
        """Close the connection; send problem details unless a response has begun."""
        if self.transport.is_closing():
            return
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        is_answering = cycle is not None and not cycle.response_complete
        if not (is_answering and self.cycle.response_started) and self.conn.our_state is not h11.DONE:
            status, body = HTTPStatus(details["status"]), to_json(details)
            fields = {**headers, "Content-Type": MEDIA_TYPE, "Content-Length": str(len(body)), "Connection": "close"}
            lines = [f"HTTP/1.1 {status} {status.phrase}", *(f"{name}: {value}" for name, value in fields.items())]
            self.transport.write("\r\n".join([*lines, "", ""]).encode("ascii") + body)
        if is_answering:  # wakes the application, which is reading the body
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()

    def pause_writing(self) -> None:
        """Wait for the client to read, with a timer."""
        super().pause_writing()
        if self._write_timer is None:
            self._check_written(None)

    def resume_writing(self) -> None:
        """Continue writing."""
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _check_written(self, before: int | None) -> None:
        """Cut off a response if the client has read nothing since the last check."""
        left = self.transport.get_write_buffer_size()
        if left == before:
            self.transport.abort()
            return
        self._write_timer = self.loop.call_later(self._limits.seconds, self._check_written, left)


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


@dataclass(frozen=True, slots=True)
class ServerApp:
    """The application of one process.

    Attributes:
        asgi: the application; upkeep runs during its lifespan.
        connections: limits on connections.
        is_open: returns whether callers need no key.
        end_streams: ends the streamed responses; call it in the event loop.
    """

    asgi: ASGIApp
    connections: ConnectionLimits
    is_open: Callable[[], bool]
    end_streams: Callable[[], None]


class Server(uvicorn.Server):
    """A uvicorn server that finishes its requests on a signal, then exits with code 0.

    A worker ignores SIGINT and a second signal; its supervisor handles them.
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


def serve(app: ServerApp, listening: socket.socket, shutdown: float, supervisor: Connection | None = None) -> None:
    """Serve on a socket until a signal ends it, then give requests `shutdown` seconds to finish.

    `supervisor` is a pipe that closes when the supervisor dies; None if this process is not a worker.
    """
    config = uvicorn.Config(
        app.asgi,
        http=partial(LimitedProtocol, app.connections),  # type: ignore[arg-type]
        lifespan="on",
        ws="none",
        log_config=None,  # structlog handles these lines
        access_log=False,  # it would contain URLs with their queries
        server_header=False,
        h11_max_incomplete_event_size=HEAD_LIMIT,
        timeout_graceful_shutdown=math.ceil(shutdown),
    )
    server = Server(config, app.end_streams, is_worker=supervisor is not None)

    def follow(supervisor: Connection) -> None:
        with suppress(EOFError, OSError):
            supervisor.recv_bytes()
        server.should_exit = True

    if supervisor is not None:
        threading.Thread(target=follow, args=(supervisor,), daemon=True).start()
    server.run([listening])


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
