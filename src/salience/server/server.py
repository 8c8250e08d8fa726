"""uvicorn in this process: how it begins, and how it ends."""

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
from types import FrameType
from typing import Any, Final

import structlog
import uvicorn

from salience.server.site import Site
from salience.server.workers import KILLED

UNREAD: Final = 1.0
"""Seconds for which nothing is read of the end of an answer, until its connection is dropped."""
FAREWELL: Final = 0.5
"""Seconds for a thread that is about to end to do so."""


class Server(uvicorn.Server):
    """A server that ends when it is told to, once its requests are answered, and then with code 0.

    Args:
        config: of uvicorn.
        end_streams: ends the answers that would go on.
        at_once: whether a second signal ends the process at once; a worker leaves that to its supervisor.
    """

    def __init__(self, config: uvicorn.Config, end_streams: Callable[[], None], at_once: bool) -> None:
        super().__init__(config)
        self._end_streams = end_streams
        self._at_once = at_once

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more connections, and let those that are there end."""
        log: Any = structlog.get_logger()
        log.info("ending", connections=len(self.server_state.connections))
        self._end_streams()
        cutting_off = asyncio.create_task(self._cut_off())
        await super().shutdown(sockets)
        cutting_off.cancel()

    async def _cut_off(self) -> None:
        """Drop connections that are to close while what was sent last is not read."""
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
            await asyncio.sleep(UNREAD)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end; the signal is not raised again, as uvicorn would, since all is done then."""
        if self.should_exit and self._at_once:
            os._exit(KILLED + sig)  # whatever is under way is a transaction that is there or is not
        if self._at_once or sig == signal.SIGTERM:  # Ctrl+C reaches workers too: their supervisor tells them
            self.should_exit = True


def serve(site: Site, listening: socket.socket, seconds: float, supervisor: Callable[[], None] | None = None) -> None:
    """Serve on a socket until a signal ends it.

    Args:
        site: what is served.
        listening: the socket.
        seconds: that requests have to end.
        supervisor: returns when the process that started this one is gone; None: nobody did.
    """
    server = Server(_config(site, seconds), site.end_streams, at_once=supervisor is None)
    if supervisor is not None:
        threading.Thread(target=_follow, args=(supervisor, server), daemon=True).start()
    server.run([listening])


def leave() -> None:
    """End the process with code 0 where a thread would keep it from ending: its request had all the time that it had.

    Returns if there is none. What the process holds is not looked through for garbage any more: that took seconds.
    """
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(FAREWELL)
            if thread.is_alive():
                sys.stderr.flush()
                os._exit(0)
    gc.freeze()


def _follow(supervisor: Callable[[], None], server: Server) -> None:
    supervisor()
    server.should_exit = True


def _config(site: Site, seconds: float) -> uvicorn.Config:
    return uvicorn.Config(
        site.app,
        http=site.protocol,
        lifespan="on",
        ws="none",
        log_config=None,  # its lines go where all do
        access_log=False,  # it has paths with their queries
        server_header=False,
        timeout_graceful_shutdown=math.ceil(seconds),
    )
