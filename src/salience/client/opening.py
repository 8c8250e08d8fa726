"""A target on its way to be open: awaited, or entered with `async with`."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from anyio import to_thread

from salience.client.faces import AsyncVerbs


class Opening:
    """What `aconnect` returns.

    Args:
        opened: returns the verbs on the open target; runs in a thread, since it may read a model and migrate a store.
    """

    def __init__(self, opened: Callable[[], AsyncVerbs]) -> None:
        self._opened = opened
        self._verbs: AsyncVerbs | None = None

    def __await__(self) -> Generator[Any, Any, AsyncVerbs]:
        return to_thread.run_sync(self._opened).__await__()

    async def __aenter__(self) -> AsyncVerbs:
        self._verbs = await self
        return self._verbs

    async def __aexit__(self, *_: object) -> None:
        if self._verbs is not None:
            await self._verbs.close()
