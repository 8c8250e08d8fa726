"""Bounds on connections that hold before anybody is authenticated: how many there are, and how slow they may be."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import h11
from pydantic_core import to_json
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from salience.errors import LimitError
from salience.server.rest.problems import RETRY_AFTER, untyped
from salience.settings import Settings
from salience.wire.errors import MEDIA_TYPE, to_problem

BODY_RATE: Final = 1000
"""Bytes of a body that extend its time by one second, so that a long import over a slow line is not cut off."""


class Connections:
    """The open connections of one process, and their bounds.

    Args:
        most: connections at a time.
        per_address: the same from one address.
        seconds: within which the head of a request has to arrive, and then its body (more for a long one; see
            `BODY_RATE`); and for which a client may read nothing of an answer.
    """

    def __init__(self, most: int, per_address: int, seconds: float) -> None:
        self.most = most
        self.per_address = per_address
        self.seconds = seconds
        self._by_address: Counter[str] = Counter()

    def take(self, address: str) -> LimitError | None:
        """Count a connection, or return why there are too many."""
        if self._by_address.total() >= self.most:
            return LimitError(f"connections: the server takes {self.most} at a time. Try again later.", RETRY_AFTER)
        if self._by_address[address] >= self.per_address:
            detail = f"connections: the server takes {self.per_address} of one address at a time. Close some."
            return LimitError(detail, RETRY_AFTER)
        self._by_address[address] += 1
        return None

    def release(self, address: str) -> None:
        """Count a connection no more."""
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


def protocol(settings: Settings) -> Any:
    """Return what makes the protocol of each connection, for `uvicorn.Config(http=...)`."""
    bounds = Connections(
        settings.server_connections, settings.server_connections_per_address, settings.server_request_timeout
    )
    return partial(BoundedProtocol, bounds)


class BoundedProtocol(H11Protocol):
    """uvicorn's HTTP/1.1, with the bounds of `Connections`.

    uvicorn itself closes only connections that are idle between two requests; it waits without end for the rest of a
    request that has begun, and for the first byte of a new connection.
    """

    def __init__(self, bounds: Connections, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._bounds = bounds
        self._counted: str | None = None
        self._awaited: object = None  # the state of h11 in which more of the request has to come
        self._began = 0.0
        self._received = 0
        self._reading: asyncio.TimerHandle | None = None
        self._writing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, or refuse it where there are too many."""
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        if (refusal := self._bounds.take(address)) is not None:
            self._refuse(to_problem(refusal), {"Retry-After": str(RETRY_AFTER)})
            return
        self._counted = address
        self._watch(0)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        super().connection_lost(exc)
        for timer in (self._reading, self._writing):
            if timer is not None:
                timer.cancel()
        if self._counted is not None:
            self._bounds.release(self._counted)
            self._counted = None

    def data_received(self, data: bytes) -> None:
        """Take more of a request."""
        super().data_received(data)
        self._watch(len(data))

    def on_response_complete(self) -> None:
        """Go on to the next request."""
        super().on_response_complete()
        self._watch(0)

    def _watch(self, size: int) -> None:
        """Start, keep or stop the clock, by what is awaited after so many bytes more."""
        state = self.conn.their_state
        is_idle = state is h11.IDLE and self.timeout_keep_alive_task is not None  # uvicorn closes these
        awaited = state if state in (h11.IDLE, h11.SEND_BODY) and not is_idle else None
        if awaited is self._awaited:
            self._received += size
            return
        if self._reading is not None:
            self._reading.cancel()
        self._awaited, self._received, self._began = awaited, 0, self.loop.time()
        self._reading = None if awaited is None else self.loop.call_later(self._bounds.seconds, self._late)

    def _late(self) -> None:
        """Refuse a request that has not arrived, unless it has more time, or the server itself does not read."""
        now = self.loop.time()
        if self.flow.read_paused or self.conn.they_are_waiting_for_100_continue:
            self._began, self._received = now, 0
        extra = self._received / BODY_RATE if self._awaited is h11.SEND_BODY else 0.0
        left = self._began + self._bounds.seconds + extra - now
        if left > 0:
            self._reading = self.loop.call_later(left, self._late)
            return
        what = "body" if self._awaited is h11.SEND_BODY else "head"
        detail = f"request: its {what} did not arrive within {self._bounds.seconds:g} s. Send it faster."
        self._refuse(untyped(HTTPStatus.REQUEST_TIMEOUT, detail), {})

    def _refuse(self, details: dict[str, Any], headers: dict[str, str]) -> None:
        """Close the connection; say why unless an answer has begun."""
        if self.transport.is_closing():
            return
        cycle: RequestResponseCycle | None = self.cycle  # there is none before the first request
        waiting = cycle is not None and not cycle.response_complete
        if not (waiting and self.cycle.response_started) and self.conn.our_state is not h11.DONE:
            status, body = HTTPStatus(details["status"]), to_json(details)
            said = {**headers, "Content-Type": MEDIA_TYPE, "Content-Length": str(len(body)), "Connection": "close"}
            lines = [f"HTTP/1.1 {status} {status.phrase}", *(f"{name}: {value}" for name, value in said.items())]
            self.transport.write("\r\n".join([*lines, "", ""]).encode("ascii") + body)
        if waiting:  # the application, which reads the body, learns that the client has gone
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()

    def pause_writing(self) -> None:
        """Wait for the client to read, though not for ever."""
        super().pause_writing()
        if self._writing is None:
            self._unread(None)

    def resume_writing(self) -> None:
        """Go on, once the client has read."""
        super().resume_writing()
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None

    def _unread(self, before: int | None) -> None:
        """Cut off an answer of which nothing was read since the last look."""
        left = self.transport.get_write_buffer_size()
        if left == before:
            self.transport.abort()
            return
        self._writing = self.loop.call_later(self._bounds.seconds, self._unread, left)
