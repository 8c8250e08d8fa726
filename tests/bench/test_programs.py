"""The programs of `bench/` run end to end at a small size, and find a fault that is planted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


def run(command, folder):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", *f"bench.{command.format(folder=folder)}".split()]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(
    "command",
    [
        "torture crash --runs 1",
        "torture_postgres leaks --tenants 3 --threads 2 --seconds 1",
        "torture_server leaks --seconds 1 --threads 2 --workers 1",
    ],
)
def test_a_program_finds_a_planted_fault(command, tmp_path):
    done = run(f"{command} --plant", tmp_path)
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]
    assert "Traceback" not in done.stderr, done.stderr[-2000:]


@pytest.mark.parametrize(
    "command",
    [
        "torture crash --runs 1",
        "torture crowd --processes 2 --seconds 0.5",
        "torture_server leaks --seconds 1 --threads 2 --workers 1",
        "resident --operations 20 --memories 10 --allowed 500",
    ],
)
def test_a_program_finds_no_fault_that_is_not_there(command, tmp_path):
    """The others run without a plant in tests/store, tests/stories/test_reembed.py and as `make` targets."""
    done = run(command, tmp_path)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
