"""The engine's verbs for clients, with the same names, signatures and docstrings."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Mapping
from functools import partial, update_wrapper
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

from anyio import CapacityLimiter, to_thread

from salience.engine import Engine
from salience.rank.profile import Profile

THREADS: Final = 32
"""Maximum number of concurrent verbs of an AsyncEngine."""

P = ParamSpec("P")
R = TypeVar("R")


def sync_method(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Verbs, P], R]:
    """Return a method with the signature of an engine method that calls the verb through `_call`."""

    def method_(self: Verbs, /, *args: P.args, **keywords: P.kwargs) -> R:
        result: R = self._call(method, args, keywords)
        return result

    update_wrapper(method_, method)
    return method_


def async_method(
    method: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate[AsyncVerbs, P], Coroutine[Any, Any, R]]:
    """Return a coroutine method with the parameters of an engine method that calls the verb through `_call`."""

    async def method_(self: AsyncVerbs, /, *args: P.args, **keywords: P.kwargs) -> R:
        result: R = await self._call(method, args, keywords)
        return result

    update_wrapper(method_, method)
    return method_


class Verbs:
    """All verbs; subclasses implement `_call`."""

    def _call(self, method: Callable[..., Any], args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        """Return the result of the verb that an engine method implements."""
        raise NotImplementedError

    remember = sync_method(Engine.remember)
    remember_many = sync_method(Engine.remember_many)
    ingest = sync_method(Engine.ingest)
    update = sync_method(Engine.update)
    forget = sync_method(Engine.forget)
    restore = sync_method(Engine.restore)
    dismiss = sync_method(Engine.dismiss)
    erase = sync_method(Engine.erase)

    recall = sync_method(Engine.recall)
    recall_many = sync_method(Engine.recall_many)
    graph_recall = sync_method(Engine.graph_recall)
    explain = sync_method(Engine.explain)
    context = sync_method(Engine.context)
    get = sync_method(Engine.get)
    list = sync_method(Engine.list)
    stats = sync_method(Engine.stats)
    recalls = sync_method(Engine.recalls)
    help = sync_method(Engine.help)
    history = sync_method(Engine.history)
    review = sync_method(Engine.review)
    changes = sync_method(Engine.changes)
    activity = sync_method(Engine.activity)

    end_session = sync_method(Engine.end_session)
    consolidate = sync_method(Engine.consolidate)
    reflect = sync_method(Engine.reflect)
    upkeep = sync_method(Engine.upkeep)
    export = sync_method(Engine.export)
    import_ = sync_method(Engine.import_)
    calibrate = sync_method(Engine.calibrate)
    reembed = sync_method(Engine.reembed)
    doctor = sync_method(Engine.doctor)
    backup = sync_method(Engine.backup)

    def close(self) -> None:
        """Close the connections."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncVerbs:
    """All verbs as coroutines; subclasses implement `_call`."""

    async def _call(self, method: Callable[..., Any], args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        """Return the result of the verb that an engine method implements."""
        raise NotImplementedError

    remember = async_method(Engine.remember)
    remember_many = async_method(Engine.remember_many)
    ingest = async_method(Engine.ingest)
    update = async_method(Engine.update)
    forget = async_method(Engine.forget)
    restore = async_method(Engine.restore)
    dismiss = async_method(Engine.dismiss)
    erase = async_method(Engine.erase)

    recall = async_method(Engine.recall)
    recall_many = async_method(Engine.recall_many)
    graph_recall = async_method(Engine.graph_recall)
    explain = async_method(Engine.explain)
    context = async_method(Engine.context)
    get = async_method(Engine.get)
    list = async_method(Engine.list)
    stats = async_method(Engine.stats)
    recalls = async_method(Engine.recalls)
    help = async_method(Engine.help)
    history = async_method(Engine.history)
    review = async_method(Engine.review)
    changes = async_method(Engine.changes)
    activity = async_method(Engine.activity)

    end_session = async_method(Engine.end_session)
    consolidate = async_method(Engine.consolidate)
    reflect = async_method(Engine.reflect)
    upkeep = async_method(Engine.upkeep)
    export = async_method(Engine.export)
    import_ = async_method(Engine.import_)
    calibrate = async_method(Engine.calibrate)
    reembed = async_method(Engine.reembed)
    doctor = async_method(Engine.doctor)
    backup = async_method(Engine.backup)

    async def close(self) -> None:
        """Close the file or the connections."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


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

    async def _call(self, method: Callable[..., Any], args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        return await to_thread.run_sync(partial(method, self.engine, *args, **keywords), limiter=self._limiter)

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
