"""A connected memory of each kind: a file, and, in the slow run, PostgreSQL and a server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import salience
import servers
from salience.integrations import Memory
from salience.models.minilm import MiniLM


@pytest.fixture(scope="session")
def model() -> MiniLM:
    """Return the default embedder, loaded once: loading takes longer than most tests."""
    return MiniLM()


@pytest.fixture(
    params=["file", pytest.param("postgres", marks=pytest.mark.slow), pytest.param("server", marks=pytest.mark.slow)]
)
def memory(request: pytest.FixtureRequest, target: str, model: MiniLM) -> Iterator[Memory]:
    """Yield an empty memory with the default embedder."""
    place = request.getfixturevalue("tables") if request.param == "postgres" else target
    with salience.connect(place, embedder=model) as engine:
        if request.param != "server":
            yield engine
            return
        with servers.live(engine) as url, salience.connect(url, api_key="any") as client:  # type: ignore[arg-type]
            yield client


@pytest.fixture
def local(target: str, model: MiniLM) -> Iterator[Memory]:
    """Yield an empty memory on a file, for what no kind of connection changes."""
    with salience.connect(target, embedder=model) as engine:
        yield engine
