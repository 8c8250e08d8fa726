"""A server on loopback, and clients of it, sync and by coroutines, whose network fails as it is told to."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from anyio.from_thread import start_blocking_portal

import salience
import servers
import surfaces
from salience.client import AsyncClient, Client, Endpoint, RetryPolicy
from tests.contract.doubles import PlantedEmbedder, StoppedClock

sys.path.insert(0, str(Path(__file__).parent))
from faults import Network


@pytest.fixture(scope="package")
def engine() -> Iterator[Any]:
    embedder = PlantedEmbedder({"text": 0.9, "other": 0.8})
    with salience.connect(":memory:", embedder=embedder, clock=StoppedClock(), profile="zeromemory") as engine:
        yield engine


@pytest.fixture(scope="package")
def url(engine: Any) -> Iterator[str]:
    with servers.live(engine) as url:
        yield url


@pytest.fixture(scope="package")
def portal() -> Iterator[Any]:
    with start_blocking_portal() as portal:
        yield portal


@pytest.fixture
def where() -> dict[str, str]:
    """Return the coordinates of a user whom nobody else asks for."""
    return {"user_id": uuid.uuid4().hex}


class Waits(list[float]):
    """The seconds that a client waited for, without waiting."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)

    async def by_coroutine(self, seconds: float) -> None:
        self.append(seconds)


@pytest.fixture
def waits() -> Waits:
    return Waits()


Made = Callable[..., Any]


@pytest.fixture(params=["calls", "coroutines"])
def through(request: pytest.FixtureRequest, url: str, portal: Any, waits: Waits) -> Iterator[Made]:
    """Return a function from faults to a client that meets with them, and the network that it uses."""
    made: list[Any] = []

    def client(*faults: Any, retries: int = 3, transport: Any = None, at: str = url, **options: Any) -> Any:
        network = transport or Network(faults)
        kind, sleep = (Client, waits) if request.param == "calls" else (AsyncClient, waits.by_coroutine)
        verbs: Any = kind(Endpoint.parse(at), RetryPolicy(10.0, retries), transport=network, sleep=sleep, **options)
        made.append(verbs if request.param == "calls" else surfaces.Blocking(portal, verbs))
        return made[-1], network

    yield client
    for one in made:
        one.close()


def answering(status: int, content: bytes, media: str = "application/json") -> httpx.Response:
    """Return an answer as it comes over the wire."""
    return httpx.Response(status, content=content, headers={"Content-Type": media})
