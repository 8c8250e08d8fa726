"""Servers for tests: a real uvicorn on a free port of loopback, in a thread of the test's process."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import httpx
import uvicorn
from starlette.types import ASGIApp

from salience.engine import Engine
from salience.ports import Keyring
from salience.records import Grant
from salience.server.auth import Authenticator, verify_key
from salience.server.gate import Gate, Limits, Observer
from salience.server.rest.app import Lifespan, Options, app
from tests.waiting import PATIENCE


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.has_started = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.has_started.set()


@contextmanager
def served(application: ASGIApp, listening: socket.socket | None = None, **config: Any) -> Iterator[str]:
    """Yield the URL under which an ASGI application is served; what uvicorn's `Config` takes can be set."""
    with listening or socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio sets it on its own sockets alone
        set_up = {"log_config": None, "access_log": False, "timeout_graceful_shutdown": 5, **config}
        server = _Server(uvicorn.Config(application, **set_up))
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        try:
            assert server.has_started.wait(PATIENCE), "the server did not start"
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive(), "the server did not end"


def client(url: str, **options: Any) -> httpx.Client:
    """Return a client of a server, which waits as long as a busy machine may take."""
    return httpx.Client(base_url=url, timeout=PATIENCE, verify=False, **options)  # noqa: S501 - reads no certificates


def application(
    engine: Engine,
    keyring: Keyring | None = None,
    *,
    limits: Limits = Limits(),
    check_rate: Callable[[str], None] = lambda _: None,
    observer: Observer | None = None,
    lifespan: Lifespan | None = None,
    **options: Any,
) -> Any:
    """Return the web application of an engine; without a keyring, everybody may do everything in its tenant."""
    return app(Gate(engine, limits, check_rate, observer), door(engine, keyring), Options(**options), lifespan)


def door(engine: Engine, keyring: Keyring | None = None) -> Authenticator:
    """Return the door of an engine; without a keyring, everybody may do everything in its tenant."""
    everybody = Grant(tenant=engine.services.tenant, rights=("admin",), name="local")
    if keyring is None:
        return Authenticator(verifiers=[], anonymous=lambda: everybody)
    return Authenticator(verifiers=[lambda token: verify_key(keyring, token, engine.services.clock())])


@contextmanager
def live(engine: Engine, keyring: Keyring | None = None, **options: Any) -> Iterator[str]:
    """Yield the URL of a server of an engine; the caller closes the engine. Options are those of `application`."""
    with served(application(engine, keyring, **options)) as url:
        yield url


@cache
def document() -> dict[str, Any]:
    """Return the OpenAPI document."""
    gate: Any = Gate(None)  # type: ignore[arg-type]
    found: dict[str, Any] = app(gate, Authenticator(verifiers=[])).openapi()
    return found
