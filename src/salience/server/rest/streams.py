"""Lines of JSON, out and in, that are never whole in memory."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from tempfile import TemporaryFile
from typing import IO, Final, cast

import anyio
import anyio.from_thread
import anyio.to_thread
from anyio.streams.memory import MemoryObjectSendStream
from fastapi import Request
from fastapi.responses import Response
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from salience.server.rest.reading import LINES, chunks

CHUNK: Final = 64 * 1024
"""Characters that are handed on at a time."""
SPOOLED: Final = 1024 * 1024
"""Bytes that are written to disk at a time."""
PATIENCE: Final = 30.0
"""Seconds for which a client may take nothing, until the answer is cut off: others wait for its turn."""
AHEAD: Final = 4
"""Chunks that are written before the first of them is taken."""


class Pipe:
    """A text file that hands on what is written to it, and waits while nobody takes that."""

    encoding: Final = "utf-8"

    def __init__(self, taker: MemoryObjectSendStream[bytes]) -> None:
        self._taker = taker
        self._kept: list[str] = []
        self._size = 0

    def write(self, text: str) -> int:
        """Keep a text, and hand on what is kept once it is enough; return its length.

        Raises:
            anyio.BrokenResourceError: nobody takes it any more.
        """
        self._kept.append(text)
        self._size += len(text)
        if self._size >= CHUNK:
            self.flush()
        return len(text)

    def flush(self) -> None:
        """Hand on what is kept."""
        if self._kept:
            anyio.from_thread.run(self._taker.send, "".join(self._kept).encode(self.encoding))
        self._kept, self._size = [], 0


class LinesResponse(Response):
    """An answer that is written in a thread while it is sent.

    An error before its first chunk is raised, so that it can still be answered with; one after that cuts it off.

    Args:
        write: writes the whole answer to a text file.
        turns: how many of them are written at a time.
    """

    def __init__(self, write: Callable[[IO[str]], object], turns: anyio.CapacityLimiter) -> None:
        super().__init__(media_type=LINES[0])
        del self.headers["content-length"]
        self._write = write
        self._turns = turns
        self._failure: Exception | None = None
        self._is_heard = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what is written, as it is written; stop the writing where the client has gone."""
        put, take = anyio.create_memory_object_stream[bytes](AHEAD)
        has_begun = False
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._written, put)
            with anyio.CancelScope() as sending, take:  # once nobody takes, the writing ends
                tasks.start_soon(self._listen, receive, sending)
                async for chunk in take:
                    sending.deadline = anyio.current_time() + PATIENCE
                    if not has_begun:
                        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                        has_begun = True
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                    sending.deadline = math.inf
            tasks.cancel_scope.cancel()
        if sending.cancelled_caught and self._is_heard:
            raise ClientDisconnect  # it took nothing for too long; the answer is left unfinished
        if self._failure is not None and self._is_heard:
            raise self._failure
        if has_begun:
            await send({"type": "http.response.body", "body": b""})

    async def _written(self, put: MemoryObjectSendStream[bytes]) -> None:
        def write() -> None:
            pipe = Pipe(put)
            self._write(cast("IO[str]", pipe))
            pipe.flush()

        async with put:
            try:
                await anyio.to_thread.run_sync(write, limiter=self._turns)
            except Exception as error:
                self._failure = error

    async def _listen(self, receive: Receive, sending: anyio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._is_heard = False
        sending.cancel()


@asynccontextmanager
async def spooled(request: Request, limit: int) -> AsyncIterator[IO[bytes]]:
    """Yield the body as a file on disk, which goes when it is closed.

    Raises:
        LimitError: it is longer than the limit.
    """
    with TemporaryFile() as file:
        kept = bytearray()
        async for chunk in chunks(request, limit):
            kept += chunk
            if len(kept) >= SPOOLED:
                await anyio.to_thread.run_sync(file.write, bytes(kept))
                kept.clear()
        await anyio.to_thread.run_sync(file.write, bytes(kept))
        file.seek(0)
        yield file
