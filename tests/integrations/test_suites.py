"""The frameworks' own tests of their interfaces run unchanged, with our adapters in place of their classes.

The tests are in the source distributions, which pip fetches once, into a cache outside of the repository.
The plugins in `suites` put our classes in place and list the tests that are left out, each with its reason.
Tests of the time to live in LangGraph's stores (`test_ttl.py`) are not run here, since they sleep.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import platformdirs
import pytest

from waiting import PATIENCE

pytest.importorskip("pytest_asyncio")
pytestmark = pytest.mark.slow

PLUGINS = Path(__file__).with_name("suites")
CACHE = Path(platformdirs.user_cache_dir("salience-tests")) / "suites"


class Suite(NamedTuple):
    """Files of tests in a source distribution, and the results with the given version of it."""

    project: str
    version: str
    plugin: str
    files: str
    passed: int
    left_out: int


SUITES = [
    Suite("langgraph-checkpoint", "4.3.2", "langgraph_stores", "test_store.py", passed=116, left_out=1),
    Suite("langgraph-checkpoint-sqlite", "3.1.2", "langgraph_stores", "test_store.py", passed=52, left_out=51),
    Suite("langgraph-checkpoint-sqlite", "3.1.2", "langgraph_stores", "test_async_store.py", passed=20, left_out=19),
    Suite(
        "anthropic", "2.13.0", "anthropic_files", "lib/tools/memory_tools/test_filesystem.py", passed=74, left_out=25
    ),
    Suite(
        "openai-agents",
        "0.24.0",
        "openai_sessions",
        "memory/test_session.py memory/test_session_limit.py memory/test_openai_responses_compaction_session.py "
        "test_agent_runner.py test_agent_runner_streamed.py test_max_turns.py test_soft_cancel.py",
        passed=262,
        left_out=25,
    ),
]
MOCK = ("pytest-mock", "3.17.0")
"""A plugin that tests of LangGraph need."""
INI = """[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
markers =
    allow_call_model_methods
    flaky
    requires_native_macos_sandbox
    review_optional
    serial
"""


def source(project, version, folder="tests"):
    """Return the source distribution's directory, of which one folder is unpacked; skip without the network."""
    name = f"{project.replace('-', '_')}-{version}"
    place = CACHE / name
    if place.exists():
        return place
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as fetched:
        options = ["--no-deps", "--no-binary", project, "--dest", fetched, f"{project}=={version}"]  # tools as wheels
        command = [sys.executable, "-m", "pip", "download", "--quiet", *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        if done.returncode:
            pytest.skip(f"pip cannot fetch the source distribution {name}, and no earlier run did")
        with tarfile.open(Path(fetched, f"{name}.tar.gz")) as archive:
            members = [member for member in archive if member.name.startswith(f"{name}/{folder}/")]
            archive.extractall(fetched, members, filter="data")
        Path(fetched, name).rename(place)
    return place


def installed(project, otherwise):
    """Return the version of an installed distribution."""
    try:
        return metadata.version(project)
    except metadata.PackageNotFoundError:
        return otherwise


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: f"{suite.project}-{suite.files.split()[0]}")
def test_the_tests_of_the_framework_pass(suite, tmp_path):
    version = installed(suite.project, suite.version)
    folder = source(suite.project, version)
    files = [f"tests/{file}" for file in suite.files.split()]
    (tmp_path / "pytest.ini").write_text(INI)
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-c", str(tmp_path / "pytest.ini"), "--rootdir", "."),
        *("-p", "no:cacheprovider", "-p", "no:langsmith_plugin", "-p", suite.plugin),
        *files,
    ]
    if suite.project == "anthropic":  # the fixtures of its other tests need further packages
        command += ["--confcutdir", str(Path(files[0]).parent)]
    paths = [str(PLUGINS), *sys.path, str(folder)]
    if suite.plugin == "langgraph_stores":
        paths.append(str(source(*MOCK, folder="src") / "src"))
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(
        command, cwd=folder, env=surroundings, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", done.stdout.splitlines()[-1])}
    assert done.returncode == 0, done.stdout[-3000:]
    assert counts.keys() <= {"passed", "deselected", "warning", "warnings"}
    if version == suite.version:
        assert (counts["passed"], counts.get("deselected", 0)) == (suite.passed, suite.left_out)
