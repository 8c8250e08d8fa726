"""Upkeep by many processes on one file: each thing is done by one, and what a killed one leaves is taken over."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

import salience
from salience.errors import EmbedderError, LeaseError
from tests.contract.doubles import PlantedEmbedder, StoppedClock
from waiting import PATIENCE

pytestmark = pytest.mark.slow

PRELUDE = """
import json, signal, sys
from datetime import timedelta
import salience
from salience.errors import LeaseError
from tests.contract.doubles import PlantedEmbedder, StoppedClock
"""
KEEPER = """
clock = StoppedClock()
clock.advance(days=1)
memory = salience.connect(sys.argv[1], embedder=PlantedEmbedder(), clock=clock)
print("ready", flush=True)
sys.stdin.readline()
for _ in range(5):
    try:
        done = memory.upkeep()
        print(json.dumps([done.expired, done.promoted["episodic"], done.warning]), flush=True)
    except LeaseError:
        pass
memory.close()
"""
HANGING = """
class Hanging(PlantedEmbedder):
    def embed(self, texts, /):
        print("at it", flush=True)
        signal.pause()

salience.connect(sys.argv[1], embedder=Hanging(), clock=StoppedClock()).upkeep()
"""


class Moody(PlantedEmbedder):
    """An embedder that fails while it is `down`."""

    down = True

    def embed(self, texts, /):
        if self.down:
            raise EmbedderError("embedder 'planted' is down. Wait.")
        return super().embed(texts)


@pytest.fixture
def file(tmp_path):
    return str(tmp_path / "agent.db")


@pytest.fixture
def start(file):
    running = []

    def start(program):
        command = [sys.executable, "-W", "error", "-c", PRELUDE + program, file]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


def test_each_task_is_done_by_one_of_many_processes(file, start):
    with salience.connect(file, embedder=Moody(), clock=StoppedClock()) as memory:
        for number in range(40):
            memory.remember(f"text {number}", **({"ttl": "1h"} if number % 2 else {"tier": "working"}))
    keepers = [start(KEEPER) for _ in range(4)]
    assert [keeper.stdout.readline() for keeper in keepers] == ["ready\n"] * 4
    for keeper in keepers:
        keeper.stdin.write("\n")
        keeper.stdin.flush()
    ends = [(*keeper.communicate(timeout=PATIENCE), keeper.returncode) for keeper in keepers]
    assert [(errors, code) for _, errors, code in ends] == [("", 0)] * 4
    result = [json.loads(line) for text, _, _ in ends for line in text.splitlines()]
    assert {warning for *_, warning in result} == {None}
    expired = [gone for ids, _, _ in result for gone in ids]
    promoted = [moved for _, ids, _ in result for moved in ids]
    assert (len(expired), len(set(expired)), len(promoted), len(set(promoted))) == (20, 20, 20, 20)
    with salience.connect(file, embedder=PlantedEmbedder(), clock=StoppedClock()) as memory:
        assert {found.version for found in memory.list(limit=100).memories} == {2}
        assert memory.stats().pending == 0
        for gone in expired:
            assert [version.memory.change for version in memory.history(gone)] == ["create", "expire"]


def test_the_work_of_a_killed_process_is_taken_over(file, start):
    clock, embedder = StoppedClock(), Moody()
    with salience.connect(file, embedder=embedder, clock=clock) as memory:
        made = memory.remember("text", tier="working").memory
        killed = start(HANGING)
        assert killed.stdout.readline() == "at it\n"
        os.kill(killed.pid, signal.SIGKILL)
        assert killed.wait(PATIENCE) == -signal.SIGKILL
        embedder.down = False
        with pytest.raises(LeaseError):
            memory.upkeep()
        clock.advance(minutes=10)
        report = memory.upkeep()
        assert (report.embedded, report.pending, report.warning) == (1, 0, None)
        assert memory.get(made.id) == replace(made, relations=())  # decided with the vector
