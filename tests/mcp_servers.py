"""MCP servers for tests: in the web application, and as a process on standard input and output."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from starlette.routing import Route

import servers
from salience.engine import Engine
from salience.ports import Keyring
from salience.records import Grant
from salience.server.gate import Gate
from salience.server.mcp import http
from salience.server.rest.app import Options
from salience.server.rest.app import app as web

TABS = "Alice prefers tabs"
SPACES = "Alice does not prefer tabs"
TEA = "Bob drinks tea"
COSINES = {TABS: 0.9, SPACES: 0.88, TEA: 0.5}
AXES = {TABS: 1, SPACES: 1, TEA: 2}
COMMAND = str(Path(sys.executable).with_name("salience"))


def grant(*rights: str, tenant: str = "default", **bound: str) -> Grant:
    return Grant(tenant=tenant, rights=rights or ("read", "write"), bound=bound, name="test")


@contextmanager
def site(engine: Engine, keyring: Keyring | None = None, options: Options = Options(), **given: Any) -> Iterator[str]:
    """Yield the URL of MCP behind the entrance of the web application, as a server has it; `given` is for MCP."""
    door = servers.door(engine, keyring)
    endpoint = http.Endpoint(Gate(engine), door, **given)

    @asynccontextmanager
    async def running(_: Any) -> Any:
        async with endpoint.running():
            yield

    made = web(Gate(engine), door, options, running)
    made.router.routes.append(Route(http.PATH, endpoint))
    with servers.served(made) as url:
        yield f"{url}{http.PATH}"


def surroundings(folder: Path, **env: str) -> dict[str, str]:
    """Return the environment of a process whose files all stand in a folder."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if name in os.environ}
    own = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"), str(folder))
    return {**kept, **own, **env}


def text_of(result: Any) -> str:
    """Return the text of a tool's answer."""
    return "\n".join(block.text for block in result.content)
