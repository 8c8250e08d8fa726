"""The official client on an engine in the test's process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from mcp import Client

import salience
from mcp_servers import AXES, COSINES, grant
from salience.engine import Engine
from salience.records import Grant
from salience.server.gate import Gate
from salience.server.mcp.server import server
from salience.server.mcp.tools import LocalCaller, chosen
from tests.contract.doubles import PlantedEmbedder, StoppedClock

Opening = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def engine(clock: StoppedClock) -> Iterator[Engine]:
    embedder = PlantedEmbedder(COSINES, axes=AXES)
    with salience.connect(":memory:", embedder=embedder, clock=clock) as engine:
        assert isinstance(engine, Engine)
        yield engine


@pytest.fixture
def opened(engine: Engine) -> Opening:
    """Return a function that opens the official client on all tools: `opened(grant("read"), project="p")`."""

    @asynccontextmanager
    async def opened(given: Grant | None = None, mode: Any = "auto", tools: str = "all", **defaults: str) -> Any:
        asker = LocalCaller(Gate(engine), given or grant(), defaults)
        async with Client(server(lambda _: asker, tools=chosen(tools)), mode=mode) as client:
            yield client

    return opened
