"""How often the disk is waited for, counted where the system is asked to: beneath SQLite, in a process of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from waiting import PATIENCE

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="needs Linux's loader and a C compiler"
)
COUNTER = """
#define _GNU_SOURCE
#include <dlfcn.h>

static int count;

int syncs(void) { return count; }

int fsync(int file)
{
    count++;
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(file);
}

int fdatasync(int file)
{
    count++;
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(file);
}
"""
BEGIN = """
import ctypes, sys
import salience
from tests.contract.doubles import PlantedEmbedder

def syncs(work):
    before = counter.syncs()
    work()
    return counter.syncs() - before

counter = ctypes.CDLL(None)
engine = salience.connect(sys.argv[1], embedder=PlantedEmbedder())
engine.services.access_log._linger = 3600.0
engine.remember("The first write begins the log.")
"""


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that counts the syncs of the process that it is loaded into before all others."""
    folder = tmp_path_factory.mktemp("counter")
    (folder / "counter.c").write_text(COUNTER)
    library = folder / "counter.so"
    command = ["cc", "-shared", "-fPIC", "-o", str(library), str(folder / "counter.c"), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    return library


WORK = {
    "five writes": "[engine.remember(f'The door has code {number}.') for number in range(5)]",
    "a hundred in a call": "engine.remember_many([salience.Draft(content=f'Door {number}.') for number in range(100)])",
    "a turn": "engine.ingest([{'content': 'Hello.', 'speaker': 'Ann'}], session_id='s')",
    "a recall": "engine.recall('first write')",  # what it counts is written later
    "what it counts": "engine.services.access_log.flush()",
}


def test_a_write_waits_for_the_disk_once(counter, tmp_path):
    counts = ", ".join(f"syncs(lambda: {work})" for work in WORK.values())
    command = [sys.executable, "-c", f"{BEGIN}print({counts})", str(tmp_path / "agent.db")]
    settings = {**os.environ, "LD_PRELOAD": str(counter)}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=settings, timeout=PATIENCE)
    assert dict(zip(WORK, map(int, done.stdout.split()), strict=True)) == {
        "five writes": 5, "a hundred in a call": 1, "a turn": 1, "a recall": 0, "what it counts": 1
    }  # fmt: skip
