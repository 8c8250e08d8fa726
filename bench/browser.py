"""The dashboard on loopback, and Debian's Chromium that looks at it; for screenshots and tests."""

from __future__ import annotations

import secrets
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

import uvicorn
from fastapi import FastAPI
from playwright.sync_api import Browser, sync_playwright

from salience import compose
from salience.engine import Engine
from salience.ports import Keyring
from salience.records import Grant
from salience.server.auth import Authenticator, verify_key
from salience.server.gate import Gate
from salience.server.metrics import Metrics
from salience.server.rest.app import Options, app
from salience.server.telemetry import Traces, VerbTelemetry
from salience.server.ui import site
from salience.server.ui.login import Sessions
from salience.store.keyring import MemoryKeyring

PATIENCE: Final = 30.0
"""Seconds after which a server that does not start, or does not end, is an error."""


def dashboard(
    engine: Engine, keyring: Keyring | None = None, one_time_token: str | None = None, target: str | None = None
) -> FastAPI:
    """Return a server of an engine with the dashboard; without a keyring, callers need no key.

    `target` is that of the engine, for the sizes of its store.
    """
    clock, tenant = engine.services.clock, engine.services.tenant
    local = Grant(tenant=tenant, rights=("admin",), name="local") if keyring is None and not one_time_token else None
    counters = Metrics()

    def anonymous() -> Grant | None:
        return local

    authenticator = Authenticator(
        [] if keyring is None else [lambda token: verify_key(keyring, token, clock())], anonymous
    )
    application = app(Gate(engine), authenticator, Options(is_open=lambda: local is not None))
    sessions = Sessions(keyring or MemoryKeyring(), clock, secrets.token_bytes(32), anonymous, tenant, one_time_token)
    observer = VerbTelemetry(counters, Traces(None))
    database = None if target is None else partial(compose.database, target)
    site.mount(application, Gate(engine, observer=observer), sessions, database=database, metrics=counters)
    return application


@contextmanager
def served(application: FastAPI) -> Iterator[str]:
    """Yield the URL under which an application is served."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(application, log_config=None, access_log=False, timeout_graceful_shutdown=5)
        server, started = uvicorn.Server(config), threading.Event()
        startup = server.startup

        async def start(sockets: list[socket.socket] | None = None) -> None:
            await startup(sockets)
            started.set()

        server.startup = start  # type: ignore[method-assign]
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        try:
            if not started.wait(PATIENCE):
                raise TimeoutError("the server did not start")
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(PATIENCE)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yield the Chromium of the system.

    Raises:
        FileNotFoundError: it is not installed.
    """
    path = shutil.which("chromium")
    if path is None:
        raise FileNotFoundError("chromium: install it with apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()
