"""The server on standard input and output, started by an MCP client. Logs go to standard error."""

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
_ENDS: Final = (signal.SIGTERM, signal.SIGINT)


def serve(caller: Caller, tools: Mapping[str, Tool] = DEFAULT) -> None:
    """Answer until standard input ends or a signal comes; a call that has begun is finished first."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    with ending_on_signals():
        anyio.run(_served, caller, tools)


async def _served(caller: Caller, tools: Mapping[str, Tool]) -> None:
    answering = server(lambda _: caller, tools=tools)
    async with stdio_server() as (reading, writing):
        await answering.run(reading, writing, answering.create_initialization_options())


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """Close standard input on SIGTERM and SIGINT, as when the client leaves. A second signal ends the process at once.

    A thread that waits for input cannot be interrupted, so the input passes through a socket that can be shut down.
    """
    outside = os.dup(_STDIN)
    ours, theirs = socket.socketpair()
    os.dup2(theirs.fileno(), _STDIN)
    theirs.close()
    threading.Thread(target=_pass_on, args=(outside, ours), name="stdin", daemon=True).start()
    before = {each: signal.signal(each, lambda *_: _end(ours)) for each in _ENDS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _pass_on(outside: int, ours: socket.socket) -> None:
    with suppress(OSError):  # the reader is gone
        while chunk := os.read(outside, _CHUNK):
            ours.sendall(chunk)
    _shut(ours)


def _end(ours: socket.socket) -> None:
    for each in _ENDS:
        signal.signal(each, signal.SIG_DFL)
    _shut(ours)


def _shut(ours: socket.socket) -> None:
    with suppress(OSError):
        ours.shutdown(socket.SHUT_WR)
