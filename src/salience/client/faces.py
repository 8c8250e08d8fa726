"""The verbs of the engine as others have them: the same signatures and texts, and another way to the answer."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from salience.engine import Engine

P = ParamSpec("P")
R = TypeVar("R")


def called(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Verbs, P], R]:
    """Return a method of the same signature that asks for the verb."""

    def ask(self: Verbs, /, *args: P.args, **keywords: P.kwargs) -> R:
        answer: R = self._ask(method, args, keywords)
        return answer

    update_wrapper(ask, method)
    return ask


def awaited(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[AsyncVerbs, P], Coroutine[Any, Any, R]]:
    """Return a coroutine method of the same parameters that asks for the verb."""

    async def ask(self: AsyncVerbs, /, *args: P.args, **keywords: P.kwargs) -> R:
        answer: R = await self._ask(method, args, keywords)
        return answer

    update_wrapper(ask, method)
    return ask


class Verbs:
    """Every verb of an engine; how it is asked for, those below say."""

    def _ask(self, method: Callable[..., Any], args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        """Return what the verb that a method of the engine stands for answers."""
        raise NotImplementedError

    remember = called(Engine.remember)
    remember_many = called(Engine.remember_many)
    ingest = called(Engine.ingest)
    update = called(Engine.update)
    forget = called(Engine.forget)
    restore = called(Engine.restore)
    erase = called(Engine.erase)

    recall = called(Engine.recall)
    recall_many = called(Engine.recall_many)
    graph_recall = called(Engine.graph_recall)
    explain = called(Engine.explain)
    context = called(Engine.context)
    get = called(Engine.get)
    list = called(Engine.list)
    stats = called(Engine.stats)
    help = called(Engine.help)
    history = called(Engine.history)

    end_session = called(Engine.end_session)
    consolidate = called(Engine.consolidate)
    reflect = called(Engine.reflect)
    upkeep = called(Engine.upkeep)
    export = called(Engine.export)
    import_ = called(Engine.import_)
    calibrate = called(Engine.calibrate)
    reembed = called(Engine.reembed)
    doctor = called(Engine.doctor)
    backup = called(Engine.backup)

    def close(self) -> None:
        """Let go of the connections."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncVerbs:
    """Every verb of an engine as a coroutine; how it is asked for, those below say."""

    async def _ask(self, method: Callable[..., Any], args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        """Return what the verb that a method of the engine stands for answers."""
        raise NotImplementedError

    remember = awaited(Engine.remember)
    remember_many = awaited(Engine.remember_many)
    ingest = awaited(Engine.ingest)
    update = awaited(Engine.update)
    forget = awaited(Engine.forget)
    restore = awaited(Engine.restore)
    erase = awaited(Engine.erase)

    recall = awaited(Engine.recall)
    recall_many = awaited(Engine.recall_many)
    graph_recall = awaited(Engine.graph_recall)
    explain = awaited(Engine.explain)
    context = awaited(Engine.context)
    get = awaited(Engine.get)
    list = awaited(Engine.list)
    stats = awaited(Engine.stats)
    help = awaited(Engine.help)
    history = awaited(Engine.history)

    end_session = awaited(Engine.end_session)
    consolidate = awaited(Engine.consolidate)
    reflect = awaited(Engine.reflect)
    upkeep = awaited(Engine.upkeep)
    export = awaited(Engine.export)
    import_ = awaited(Engine.import_)
    calibrate = awaited(Engine.calibrate)
    reembed = awaited(Engine.reembed)
    doctor = awaited(Engine.doctor)
    backup = awaited(Engine.backup)

    async def close(self) -> None:
        """Let go of the file or the connections."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
