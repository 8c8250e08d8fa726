"""The ways to connect to an engine: in the process, over HTTP, and coroutines of both; each on a store."""

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
from salience.engine import Engine
from salience.records import Grant
from salience.verbs import AsyncVerbs


class Server:
    """Many engines behind one server, each under its own key, which is also its tenant."""

    def __init__(self) -> None:
        self.engines: dict[str, Engine] = {}
        self._numbers = itertools.count()

    def add(self, engine: Engine) -> str:
        """Return the API key of an engine."""
        key = f"key{next(self._numbers)}"
        self.engines[key] = engine
        return key

    def of(self, tenant: str, answer_limit: int | None = None, *, records_access: bool = True) -> Engine:
        return self.engines[tenant]

    def granted(self, token: str) -> Grant | None:
        return Grant(tenant=token, rights=("admin",), name=token) if token in self.engines else None


@contextmanager
def served() -> Iterator[tuple[Server, str]]:
    """Yield a server and its URL."""
    import servers
    from salience.server.auth import Authenticator
    from salience.server.gate import Gate
    from salience.server.rest.app import Options, app

    server = Server()
    gate: Any = Gate(server)  # type: ignore[arg-type]
    with servers.served(app(gate, Authenticator(verifiers=[server.granted]), Options())) as url:
        yield server, url


class Blocking:
    """Blocking calls of coroutine verbs, which run in the event loop of a portal's thread."""

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
    """A server and its URL, a portal, and everything to close at the end of a test."""

    server: Server
    url: str
    portal: BlockingPortal
    closing: ExitStack = field(default_factory=ExitStack)

    def serve(self, target: object, options: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments that connect a client to a new engine with `options`."""
        engine = self.closing.enter_context(salience.connect(target, **options))  # type: ignore[arg-type]
        profile = {"profile": options["profile"]} if "profile" in options else {}
        return {"target": self.url, "api_key": self.server.add(engine), **profile}

    def opened(self, **arguments: Any) -> Any:
        """Return coroutine verbs as blocking calls."""

        async def opened() -> AsyncVerbs:
            return await salience.aconnect(**arguments)

        return self.closing.enter_context(Blocking(self.portal, self.portal.call(opened)))


def local(services: Services, target: object = None, **options: Any) -> Any:
    return services.closing.enter_context(salience.connect(target, **options))  # type: ignore[arg-type]


def local_coroutines(services: Services, target: object = None, **options: Any) -> Any:
    return services.opened(target=target, **options)


def over_http(services: Services, target: object = None, **options: Any) -> Any:
    return services.closing.enter_context(salience.connect(**services.serve(target, options)))


def over_http_coroutines(services: Services, target: object = None, **options: Any) -> Any:
    return services.opened(**services.serve(target, options))


@dataclass(frozen=True)
class Surface:
    """A way to connect, and the store behind it."""

    connect: Callable[..., Any]
    store: str


SURFACES = {
    **{store: Surface(local, store) for store in ("sqlite", "postgresql")},
    "coroutines": Surface(local_coroutines, "memory"),
    "rest": Surface(over_http, "sqlite"),
    "rest-coroutines": Surface(over_http_coroutines, "memory"),
}
