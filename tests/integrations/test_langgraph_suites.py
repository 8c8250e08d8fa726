"""LangGraph's own tests of stores run unchanged, with `SalienceStore` in place of its stores.

pip fetches the source distributions once, into a cache outside of the repository; the plugin is in `suites`.
Tests of the time to live (`test_ttl.py`) are not run here, since they sleep.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import platformdirs
import pytest

pytest.importorskip("langgraph")
pytest.importorskip("pytest_asyncio")
pytestmark = pytest.mark.slow

SUITES = Path(__file__).with_name("suites")
BASE, SQLITE, MOCK = "langgraph_checkpoint-4.3.2", "langgraph_checkpoint_sqlite-3.1.2", "pytest_mock-3.17.0"
PATIENCE = 300
COUNTS = {
    (BASE, "test_store.py"): (116, 1),
    (SQLITE, "test_store.py"): (52, 51),
    (SQLITE, "test_async_store.py"): (20, 19),
}
"""Distribution and file -> tests that pass, and tests that are left out, for the reasons that the plugin gives."""
INI = """[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
markers = flaky
"""


@pytest.fixture(scope="session")
def sources():
    """The folder with the unpacked distributions; skips without the network."""
    place = Path(platformdirs.user_cache_dir("salience-tests")) / "langgraph"
    for name in (BASE, SQLITE, MOCK):
        if not (place / name).exists():
            project, version = name.rsplit("-", 1)
            options = ["--no-deps", "--no-binary", ":all:", "--dest", str(place), f"{project}=={version}"]
            command = [sys.executable, "-m", "pip", "download", "--quiet", *options]
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
            if done.returncode:
                pytest.skip(f"pip cannot fetch {name}")
            with tarfile.open(place / f"{name}.tar.gz") as archive:
                archive.extractall(place, filter="data")
    return place


@pytest.mark.parametrize(("name", "file"), COUNTS)
def test_the_tests_of_langgraph_pass(sources, tmp_path, name, file):
    (tmp_path / "pytest.ini").write_text(INI)
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-c", str(tmp_path / "pytest.ini"), "--rootdir", "."),
        *("-p", "no:cacheprovider", "-p", "no:langsmith_plugin", "-p", "langgraph_stores", f"tests/{file}"),
    ]
    paths = [str(SUITES), str(sources / MOCK / "src"), *sys.path]
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(
        command, cwd=sources / name, env=surroundings, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", done.stdout.splitlines()[-1])}
    assert counts.get("failed", 0) == counts.get("error", 0) == 0, done.stdout[-3000:]
    assert (counts["passed"], counts["deselected"]) == COUNTS[name, file]
