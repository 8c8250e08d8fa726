"""A connected memory of each kind: a file, and, in the slow run, PostgreSQL and a server.

In the environment of the frameworks that cannot be installed beside the server, the server is a process of the main
environment: the variable SALIENCE_TEST_COMMAND is the path of its command.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

import salience
from salience import ANY
from salience.integrations import Memory
from salience.models.minilm import MiniLM

COMMAND = "SALIENCE_TEST_COMMAND"
os.environ.update(CREWAI_DISABLE_TELEMETRY="true", CREWAI_TRACING_ENABLED="false", CREWAI_TESTING="true")


@pytest.fixture(scope="session")
def model() -> MiniLM:
    """Return the default embedder, loaded once: loading takes longer than most tests."""
    return MiniLM()


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory, model: MiniLM) -> Path:
    """Return an empty store to copy: creating one takes ten times as long as opening it."""
    path = tmp_path_factory.mktemp("integrations") / "empty.db"
    salience.connect(path, embedder=model).close()
    return path


@pytest.fixture(
    params=["file", pytest.param("postgres", marks=pytest.mark.slow), pytest.param("server", marks=pytest.mark.slow)]
)
def memory(request: pytest.FixtureRequest, target: str, model: MiniLM, empty: Path) -> Iterator[Memory]:
    """Yield an empty memory with the default embedder."""
    if request.param == "server" and not find_spec("fastapi"):
        with salience.connect(request.getfixturevalue("other_process"), api_key="any") as client:
            yield client
            client.erase(environment=ANY, project=ANY, user_id=ANY, agent_id=ANY)
        return
    place = request.getfixturevalue("tables") if request.param == "postgres" else shutil.copy(empty, target)
    with salience.connect(place, embedder=model) as engine:
        if request.param != "server":
            yield engine
            return
        import servers

        with servers.live(engine) as url, salience.connect(url, api_key="any") as client:  # type: ignore[arg-type]
            yield client


@pytest.fixture(scope="session")
def other_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the URL of a server in the main environment, where this environment can have none."""
    if COMMAND not in os.environ:
        pytest.skip(f"this environment has no server; set {COMMAND} to the path of a salience command that has one")
    store = tmp_path_factory.mktemp("served") / "agent.db"
    process = subprocess.Popen(
        [os.environ[COMMAND], "--store", store, "serve", "--port", "0"], stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        lines = (json.loads(line) for line in process.stderr if line.startswith("{"))
        yield next(line["url"] for line in lines if line["event"] == "serving")
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def local(target: str, model: MiniLM, empty: Path) -> Iterator[Memory]:
    """Yield an empty memory on a file, for what no kind of connection changes."""
    with salience.connect(shutil.copy(empty, target), embedder=model) as engine:
        yield engine
