"""A command line in this process, on a store of its own and with planted vectors; and one in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import Result

import salience
from command_line import invoke
from salience.models import registry
from tests.contract.doubles import PlantedEmbedder
from waiting import PATIENCE

ALICE = "Alice prefers Python for backend work"
BOB = "Bob drinks tea in the morning"
AGAIN = "Alice prefers Python for backend jobs"
TRIP = "Alice went to Lisbon"
RULE = "Deploy on Friday"
COSINES = {ALICE: 0.9, BOB: 0.8, AGAIN: 0.9, TRIP: 0.1, RULE: 0.7}
AXES = {ALICE: 1, BOB: 2, AGAIN: 1, TRIP: 3, RULE: 4}

Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Return a function from arguments to the result: `run("recall", "query", code=0, terminal=True)`."""
    plant(monkeypatch)
    return runner(tmp_path)


def plant(patch: pytest.MonkeyPatch) -> None:
    """Let the command line choose the planted embedder."""
    patch.setitem(registry.EMBEDDERS, "planted", lambda _: PlantedEmbedder(COSINES, axes=AXES))


def runner(folder: Path) -> Run:
    """Return a function that runs the command line in this process, on a store in a folder."""

    def call(
        *args: str, code: int = 0, input: str | None = None, terminal: bool = False, env: dict[str, str] | None = None
    ) -> Result:
        shown = {"COLUMNS": "120", "FORCE_COLOR": "1" if terminal else None, "NO_COLOR": None, "TERM": "xterm"}
        options = ["--store", str(folder / "agent.db"), "--embedder", "planted"]
        result = invoke([*options, *args], input=input, env={**shown, **(env or {})})
        assert result.exit_code == code, result.output
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return result

    return call


@pytest.fixture
def run_json(run: Run) -> Callable[..., Any]:
    """Return a function from arguments to the one JSON document that the command prints."""

    def call(*args: str, **options: Any) -> Any:
        return json.loads(run(*args, "--json", **options).stdout)

    return call


@pytest.fixture(scope="session")
def apart() -> Callable[[Path], AbstractContextManager[Run]]:
    """Return a context in which the command line runs on a store in a folder, for what several tests share."""

    @contextmanager
    def running(folder: Path) -> Iterator[Run]:
        with pytest.MonkeyPatch.context() as patch:
            plant(patch)
            yield runner(folder)

    return running


@pytest.fixture(scope="session")
def of_alice(
    apart: Callable[[Path], AbstractContextManager[Run]], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, SimpleNamespace]:
    """Return the file of a store with two memories of the user alice, to be copied; and their texts and ids."""
    folder = tmp_path_factory.mktemp("of_alice")
    with apart(folder) as run:
        result = [run("remember", text, "--user", "alice", "--json").stdout for text in (ALICE, BOB)]
    alice, bob = (json.loads(one)["memory"]["id"] for one in result)
    return folder / "agent.db", SimpleNamespace(alice=alice, bob=bob, text=ALICE, other=BOB, again=AGAIN, trip=TRIP)


@pytest.fixture
def stored(of_alice: tuple[Path, SimpleNamespace], tmp_path: Path) -> SimpleNamespace:
    """Store two memories of the user alice; return their texts and ids."""
    file, result = of_alice
    shutil.copyfile(file, tmp_path / file.name)
    return result


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """Make a store without memories; return its file."""
    salience.connect(tmp_path / "agent.db", embedder=PlantedEmbedder()).close()
    return tmp_path / "agent.db"


@pytest.fixture
def process(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs the installed command in a process of its own."""
    command = str(Path(sys.executable).with_name("salience"))

    def call(*args: str, **options: Any) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "SALIENCE_URL": str(tmp_path / "process.db")}
        return subprocess.run([command, *args], text=True, capture_output=True, timeout=PATIENCE, env=env, **options)

    return call


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., str]:
    """Return a function that writes a file of JSON values (or raw lines), one a line, and returns its path."""

    def write(name: str, *lines: object) -> str:
        path = tmp_path / name
        path.write_text(
            "".join((item if isinstance(item, str) else json.dumps(item)) + "\n" for item in lines), "utf-8"
        )
        return str(path)

    return write
