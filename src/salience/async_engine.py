"""Coroutines on an engine in this process, and the result of `aconnect`."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Final

from anyio import CapacityLimiter, to_thread

from salience.engine import Engine
from salience.rank.profile import Profile
from salience.verbs import AsyncVerbs, Verb

THREADS: Final = 32
"""Maximum number of concurrent verbs of an AsyncEngine."""


class AsyncEngine(AsyncVerbs):
    """An engine in this process with coroutines, returned by `salience.aconnect`. Each verb runs in a thread.

    A verb that has started runs to its end even if the awaiting task is cancelled, so no write is half done.
    """

    def __init__(self, engine: Engine, threads: int = THREADS) -> None:
        self.engine = engine
        self._limiter = CapacityLimiter(threads)

    @property
    def profile(self) -> Profile:
        """The default ranking profile."""
        return self.engine.profile

    async def _call(self, verb: Verb, given: dict[str, Any]) -> Any:
        return await to_thread.run_sync(partial(self.engine._call, verb, given), limiter=self._limiter)

    async def close(self) -> None:
        """Close the file or the connections."""
        await to_thread.run_sync(self.engine.close, limiter=self._limiter)


class AsyncOpening:
    """The result of `aconnect`: `await` it, or enter it with `async with`.

    `connect` runs in a thread, because it may load a model and migrate a store.
    """

    def __init__(self, connect: Callable[[], AsyncVerbs]) -> None:
        self._connect = connect
        self._verbs: AsyncVerbs | None = None

    def __await__(self) -> Generator[Any, Any, AsyncVerbs]:
        return to_thread.run_sync(self._connect).__await__()

    async def __aenter__(self) -> AsyncVerbs:
        self._verbs = await self
        return self._verbs

    async def __aexit__(self, *_: object) -> None:
        if self._verbs is not None:
            await self._verbs.close()
