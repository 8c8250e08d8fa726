"""The programs of `bench/` run end to end at a small size, and find a fault that is planted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


def run(program, arguments):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", f"bench.{program}", *arguments.split()]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        ("torture", "crash --runs 3"),
        ("torture", "crowd --processes 2 --seconds 2"),
        ("torture", "reembed --memories 100 --kills 1"),
        ("torture_postgres", "leaks --tenants 4 --threads 2 --seconds 2"),
        ("torture_postgres", "kill --rounds 1 --threads 2 --processes 1"),
        ("torture_server", "leaks --seconds 3 --threads 3"),
        ("recall", "--sizes 500 --peers none --seconds 0.1 --most 10 --out {folder}/out"),
        ("postgres", "--memories 1000 --tenants 8 --seconds 0.1 --compared 2"),
        ("server", "--stores sqlite --memories 100 --workers 1 --clients 2 --seconds 2 --alone 10 --ends 0"),
    ],
)
@pytest.mark.parametrize("planted", [False, True])
def test_a_program_finds_a_fault_only_where_it_is_planted(program, arguments, planted, tmp_path):
    done = run(program, arguments.format(folder=tmp_path) + (" --plant" if planted else ""))
    assert done.returncode == planted, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        ("torture_postgres", "tenants --count 20 --threads 2"),
        ("torture_server", "timing --rounds 10"),
        ("startup", "--runs 1"),
    ],
)
def test_a_program_runs(program, arguments):
    done = run(program, arguments)
    assert done.returncode == 0, done.stderr[-2000:]
