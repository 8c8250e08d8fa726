"""The commands that see to memories between recalls: what they print, and how they end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import salience
from salience.ports import Lease
from tests.contract.doubles import PlantedEmbedder
from waiting import PATIENCE

pytestmark = pytest.mark.slow

COMMAND = str(Path(sys.executable).with_name("salience"))
NONE = "0 embedded, 0 pending, 0 expired, 0 now episodic, 0 now semantic, 0 versions dropped"
YEAR = "2020-01-01T00:00:00+00:00"


@pytest.fixture
def due(run_json):
    """Store a memory whose time ran out long ago, and one that was long idle; return their ids."""
    idle = run_json(
        "remember", "Idle", "--tier", "working", "--created-at", YEAR, "--user", "alice", "--importance", "0.5"
    )
    brief = run_json("remember", "Brief", "--ttl", "1h", "--created-at", YEAR)
    return brief["memory"]["id"], idle["memory"]["id"]


def test_upkeep_does_all_that_is_due_in_every_scope(run, due):
    brief, idle = due
    lines = [
        f"expired\t{brief}",
        f"episodic\t{idle}",
        "0 embedded, 0 pending, 1 expired, 1 now episodic, 0 now semantic, 0 versions dropped",
    ]
    assert run("upkeep", "--dry-run").stdout.splitlines() == [*lines[:2], f"{lines[2]}; nothing was written"]
    assert run("upkeep").stdout.splitlines() == lines
    assert run("upkeep").stdout == NONE + "\n"


def test_while_another_process_runs_upkeep_this_one_says_so_and_ends_with_1(run, tmp_path, due):
    with salience.connect(tmp_path / "agent.db", embedder=PlantedEmbedder()) as memory:
        now = datetime.now(UTC)
        memory.services.store.apply([Lease("upkeep:default", "otherhost:77:ab", now, now + timedelta(minutes=10))])
    result = run("upkeep", code=1)
    assert result.stdout == ""
    assert result.stderr.startswith("salience: upkeep:default: otherhost:77:ab is at it, until ")
    assert len(run("upkeep", "--dry-run").stdout.splitlines()) == 3


@pytest.mark.parametrize("arguments", [["--every", "soon"], ["--every", "0"], ["--every", "10m", "--dry-run"]])
def test_a_pace_that_is_none_is_refused_before_a_file_is_made(run, tmp_path, arguments):
    assert "every is " in run("upkeep", *arguments, code=2).stderr
    assert not (tmp_path / "agent.db").exists()


@pytest.fixture
def keeping(tmp_path):
    """Return a function that starts `salience upkeep --every ...` in a process of its own, on one file."""
    running = []

    def start(*arguments, embedder="minilm", **settings):
        env = {**os.environ, "SALIENCE_URL": str(tmp_path / "process.db"), **settings}
        command = [COMMAND, "--embedder", embedder, "upkeep", *arguments]
        running.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_upkeep_goes_on_until_it_is_interrupted_or_terminated_and_then_ends_well(keeping, number):
    working = keeping("--every", "0.05")
    text = [working.stdout.readline() for _ in range(3)]
    working.send_signal(number)
    rest, errors = working.communicate(timeout=PATIENCE)
    assert (working.returncode, errors) == (0, "")
    for line in (*text, *rest.splitlines()):
        when, counts = line.rstrip("\n").split("\t")
        assert datetime.fromisoformat(when).utcoffset() == timedelta(0)
        assert counts == NONE


def test_as_json_each_pass_is_a_line(keeping):
    working = keeping("--every", "0.05", "--json")
    passes = [json.loads(working.stdout.readline()) for _ in range(2)]
    working.terminate()
    assert working.wait(PATIENCE) == 0
    assert [(result["embedded"], result["warning"]) for result in passes] == [(0, None)] * 2
    assert passes[0]["at"] <= passes[1]["at"]


def test_upkeep_ends_at_once_also_while_a_provider_hangs_and_gives_its_lease_back(keeping, tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, and never answers
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        settings = {"SALIENCE_OPENAI_BASE_URL": url, "SALIENCE_OPENAI_DIMENSION": "4", "SALIENCE_EMBED_PATIENCE": "0.1"}
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        file = str(tmp_path / "process.db")
        with salience.connect(file, embedder="openai") as memory:
            assert memory.remember("text").status == "pending"
        first, _ = silent.accept()
        working = keeping("--every", "10m", embedder="openai", SALIENCE_OPENAI_TIMEOUT="600")
        second, _ = silent.accept()
        assert second.recv(16)  # it is waiting for the answer by now
        working.terminate()
        _, errors = working.communicate(timeout=PATIENCE)
        assert (working.returncode, errors) == (0, "")
        first.close()
        second.close()
    with salience.connect(file, embedder="openai") as memory:
        assert memory.upkeep(dry_run=True).embedded == 1
        now = datetime.now(UTC)
        memory.services.store.apply([Lease("upkeep:default", "me", now, now)])  # free
