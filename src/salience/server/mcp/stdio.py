"""MCP over standard input and output, for a client that starts this process. Logs go to standard error."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

import anyio
from mcp.server.stdio import stdio_server

from salience.server.mcp.callers import Caller
from salience.server.mcp.server import server
from salience.server.mcp.tools import DEFAULT, Tool

_STDIN: Final = 0
_CHUNK: Final = 65_536
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def serve(caller: Caller, tools: Mapping[str, Tool] = DEFAULT) -> None:
    """Serve until standard input ends or a signal arrives; running calls finish first."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    with ending_on_signals():
        anyio.run(_serve, caller, tools)


async def _serve(caller: Caller, tools: Mapping[str, Tool]) -> None:
    protocol = server(lambda _: caller, tools=tools)
    async with stdio_server() as (read, write):
        await protocol.run(read, write, protocol.create_initialization_options())


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """Close standard input on SIGTERM and SIGINT, as a client does. A second signal ends the process at once.

    A thread blocked on a read of standard input cannot be interrupted, so a socket that can be shut down replaces it.
    """
    original = os.dup(_STDIN)
    source, replacement = socket.socketpair()
    os.dup2(replacement.fileno(), _STDIN)
    replacement.close()

    def close_input() -> None:
        with suppress(OSError):
            source.shutdown(socket.SHUT_WR)

    def forward() -> None:
        with suppress(OSError):  # the server closed its end
            while chunk := os.read(original, _CHUNK):
                source.sendall(chunk)
        close_input()

    def handle(*_: object) -> None:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        close_input()

    threading.Thread(target=forward, name="stdin", daemon=True).start()
    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
