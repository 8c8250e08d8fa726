"""What one caller may use at a time, so that others are served meanwhile: threads, and bytes of request bodies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import Message

from salience.errors import LimitError

RETRY_AFTER: Final = 1
"""Default seconds before a retry."""
WAITING: Final = 256
"""Maximum requests of one caller that wait for a thread."""
AUTHENTICATIONS: Final = 8
"""Maximum concurrent authentications, in threads of their own."""
MOST_BYTES: Final = 128 * 1024 * 1024
"""Default maximum of bytes of bodies in memory."""
SHARE: Final = 0.25
"""Share of one caller in these bytes."""
Result = TypeVar("Result")


class Threads:
    """Threads for the work of requests.

    A caller whose share is in use waits in a queue of their own, so that the others do not wait for it.

    Args:
        total: maximum number of threads.
        per_caller: maximum number for one caller.
        waiting: maximum number of requests of one caller that wait.
    """

    def __init__(self, total: int = 32, per_caller: int = 8, waiting: int = WAITING) -> None:
        self.total = total
        self.per_caller = min(per_caller, total)
        self._waiting = waiting
        self._all = anyio.CapacityLimiter(total)
        self._authentications = anyio.CapacityLimiter(AUTHENTICATIONS)
        self._shares: dict[str, anyio.CapacityLimiter] = {}

    async def run(
        self, caller: str, work: Callable[[], Result], receive: Callable[[], Awaitable[Message]] | None = None
    ) -> Result:
        """Return the result of `work`, which runs in a thread of the caller's share.

        Work that has not begun when its client disconnects is dropped; `receive` tells of that.

        Raises:
            ClientDisconnect: the client disconnected.
            LimitError: too many requests of the caller wait.
        """
        if receive is None:
            return await self._run(caller, work)
        is_connected, results, failure = True, list[Result](), None

        async def watch() -> None:
            nonlocal is_connected
            while (await receive())["type"] != "http.disconnect":
                pass
            is_connected = False
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            try:
                results.append(await self._run(caller, work))
            except Exception as error:  # a task group would wrap it
                failure = error
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure
        if not results or not is_connected:
            raise ClientDisconnect
        return results[0]

    async def _run(self, caller: str, work: Callable[[], Result]) -> Result:
        share = self._shares.setdefault(caller, anyio.CapacityLimiter(self.per_caller))
        if share.statistics().tasks_waiting >= self._waiting:
            message = f"requests: {self._waiting:,} of this key wait already. Send fewer at a time."
            raise LimitError(message, RETRY_AFTER)
        try:
            async with share:
                return await anyio.to_thread.run_sync(work, limiter=self._all)
        finally:
            state = share.statistics()
            if not state.borrowed_tokens and not state.tasks_waiting:
                self._shares.pop(caller, None)

    async def authenticate(self, function: Callable[..., Result], *args: Any) -> Result:
        """Return the result of a function that finds out who calls, in a thread that no other work uses."""
        return await anyio.to_thread.run_sync(function, *args, limiter=self._authentications)


def content_length(headers: Headers) -> int | None:
    """Return the length of a body in bytes, as its head says; None if that has no usable number."""
    length = headers.get("content-length", "")
    return int(length) if length.isdecimal() and len(length) < 20 else None


class Budget:
    """Counts the bytes of bodies that are in memory, by caller. Use it in the event loop only.

    Args:
        total: maximum number of bytes of all callers.
        per_caller: maximum number of one caller.
    """

    def __init__(self, total: int = MOST_BYTES, per_caller: int | None = None) -> None:
        self._total = total
        self._per_caller = int(total * SHARE) if per_caller is None else per_caller
        self._by_caller: Counter[str] = Counter()

    def used(self, caller: str | None = None) -> int:
        """Return the bytes in use, of one caller or of all."""
        return self._by_caller.total() if caller is None else self._by_caller[caller]

    @contextmanager
    def reserve(self, caller: str) -> Iterator[Callable[[int], None]]:
        """Yield a function that reserves bytes until the end of the block.

        It raises `LimitError` above a maximum.
        """
        reserved = 0

        def take(size: int) -> None:
            nonlocal reserved
            if self.used(caller) + size > self._per_caller:
                message = f"body: requests of this key hold {self._per_caller:,} bytes already. Send fewer at a time."
                raise LimitError(message, RETRY_AFTER)
            if self.used() + size > self._total:
                message = f"body: the requests of all keys hold {self._total:,} bytes already. Retry later."
                raise LimitError(message, RETRY_AFTER)
            self._by_caller[caller] += size
            reserved += size

        try:
            yield take
        finally:
            self._by_caller[caller] -= reserved
            if not self._by_caller[caller]:
                del self._by_caller[caller]
