"""A server on an engine in memory, and a client of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import httpx
import pytest

import salience
import servers
from salience.engine import Engine
from tests.contract.doubles import PlantedEmbedder, StoppedClock


@pytest.fixture
def engine(clock: StoppedClock) -> Iterator[Engine]:
    made = salience.connect(":memory:", embedder=PlantedEmbedder(), clock=clock)
    yield made
    made.close()


@pytest.fixture
def http(engine: Engine) -> Iterator[httpx.Client]:
    with servers.live(engine) as url, servers.client(url) as client:
        yield client


@pytest.fixture(scope="module")
def standing() -> Iterator[httpx.Client]:
    """A client of a server that stands for all tests of a module, which do not look at what others stored."""
    made = salience.connect(":memory:", embedder=PlantedEmbedder(), clock=StoppedClock())
    with closing(made), servers.live(made, hosts=("memory.example.org",)) as url, servers.client(url) as client:
        yield client
