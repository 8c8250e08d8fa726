"""An engine's verbs as coroutines: each runs in a thread, and no event loop waits for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from anyio import CapacityLimiter, to_thread

from salience.client.faces import AsyncVerbs
from salience.engine import Engine
from salience.rank.profile import Profile

THREADS: Final = 32
"""Most verbs of one engine that run at a time; further ones wait."""


class AsyncEngine(AsyncVerbs):
    """An engine of this process with coroutines. Made by `salience.aconnect`.

    A verb that was begun is done to its end, also where the task that waits for it is cancelled: a write is whole.

    Args:
        engine: with the verbs.
        threads: most of them that run at a time.
    """

    def __init__(self, engine: Engine, threads: int = THREADS) -> None:
        self.engine = engine
        self._limiter = CapacityLimiter(threads)

    @property
    def profile(self) -> Profile:
        """The ranking profile of recalls that name none."""
        return self.engine.profile

    async def _ask(self, method: Callable[..., Any], args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        return await to_thread.run_sync(partial(method, self.engine, *args, **keywords), limiter=self._limiter)

    async def close(self) -> None:
        """Release the file or connection."""
        await to_thread.run_sync(self.engine.close, limiter=self._limiter)
