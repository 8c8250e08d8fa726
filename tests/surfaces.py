"""The ways to an engine's verbs, each with the API of `salience.connect`: here, over HTTP, and by coroutines."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from anyio.from_thread import BlockingPortal

import salience
import servers
from salience.client import AsyncVerbs
from salience.engine import Engine
from salience.records import Grant
from salience.server.auth import Authenticator
from salience.server.gate import Gate
from salience.server.rest.app import app
from salience.server.rest.routes import Options


class House:
    """Many engines behind one server: each under the key that it was given, which stands in the tenant's place."""

    def __init__(self) -> None:
        self.engines: dict[str, Engine] = {}
        self._numbers = itertools.count()

    def take_in(self, engine: Engine) -> str:
        """Return the key under which an engine is asked from now on."""
        key = f"key{next(self._numbers)}"
        self.engines[key] = engine
        return key

    def of(self, tenant: str, answer_limit: int | None = None) -> Engine:
        return self.engines[tenant]

    def granted(self, token: str) -> Grant | None:
        return Grant(tenant=token, rights=("admin",), name=token) if token in self.engines else None


@contextmanager
def housed() -> Iterator[tuple[House, str]]:
    """Yield a house, and the URL of its server."""
    house = House()
    gate: Any = Gate(house)  # type: ignore[arg-type]
    with servers.served(app(gate, Authenticator(verifiers=[house.granted]), Options())) as url:
        yield house, url


class Blocking:
    """Coroutine verbs as calls: each runs in the loop of a portal's thread, and is waited for."""

    def __init__(self, portal: BlockingPortal, verbs: AsyncVerbs) -> None:
        self._portal = portal
        self._verbs = verbs

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._verbs, name)
        if not inspect.iscoroutinefunction(found):
            return found
        return lambda *args, **keywords: self._portal.call(partial(found, *args, **keywords))

    def __enter__(self) -> Blocking:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass
class Services:
    """What the surfaces need: a house and its URL, a portal, and what is to be closed in the end."""

    house: House
    url: str
    portal: BlockingPortal
    closing: ExitStack = field(default_factory=ExitStack)

    def serve(self, target: object, options: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments by which a client is connected to an engine that is made of `options`."""
        engine = self.closing.enter_context(salience.connect(target, **options))  # type: ignore[arg-type]
        profile = {"profile": options["profile"]} if "profile" in options else {}
        return {"target": self.url, "api_key": self.house.take_in(engine), **profile}

    def opened(self, **arguments: Any) -> Any:
        """Return coroutine verbs as calls."""

        async def opened() -> AsyncVerbs:
            return await salience.aconnect(**arguments)

        return self.closing.enter_context(Blocking(self.portal, self.portal.call(opened)))


def here(services: Services, target: object = None, **options: Any) -> Any:
    return services.closing.enter_context(salience.connect(target, **options))  # type: ignore[arg-type]


def here_by_coroutines(services: Services, target: object = None, **options: Any) -> Any:
    return services.opened(target=target, **options)


def over_http(services: Services, target: object = None, **options: Any) -> Any:
    return services.closing.enter_context(salience.connect(**services.serve(target, options)))


def over_http_by_coroutines(services: Services, target: object = None, **options: Any) -> Any:
    return services.opened(**services.serve(target, options))


@dataclass(frozen=True)
class Surface:
    """A way, and the store that is at its end."""

    connect: Callable[..., Any]
    store: str


HERE = {"memory": Surface(here, "memory"), "sqlite": Surface(here, "sqlite")}
"""Where every story runs."""
ELSEWHERE = {
    "coroutines": Surface(here_by_coroutines, "memory"),
    "rest": Surface(over_http, "sqlite"),
    "rest-coroutines": Surface(over_http_by_coroutines, "memory"),
}
"""Where those run besides that are marked `every_surface`, but for those marked `local`, which say why."""
