"""The programs of the protocol's own authors, from npm: the Inspector's command line and the conformance suite.

They are installed once, as `node/package-lock.json` names them, into a cache outside of the repository.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import platformdirs
import pytest

from mcp_servers import COMMAND, TABS, site, surroundings
from salience.server.mcp.tools import DEFAULT

pytestmark = pytest.mark.slow

HERE = Path(__file__).with_name("node")
PATIENCE = 300
LEAST = 22
"""Version of Node.js that the Inspector needs."""
SUITES = {"2025": "@modelcontextprotocol/conformance", "2026": "conformance-of-2026"}
REVISION = {"2025": [], "2026": ["--requirements", "2026-07-28"]}


def _program(name):
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name)


def _call(*command, check=True, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=check, **options)


@pytest.fixture(scope="session")
def node():
    """Path of Node.js; skips where it, or npm, is not there, or too old."""
    found = _program("node")
    if found is None or _program("npm") is None:
        pytest.skip("node and npm are not installed")
    if int(_call(found, "--version").stdout[1:].split(".")[0]) < LEAST:
        pytest.skip(f"node is older than version {LEAST}")
    return found


@pytest.fixture(scope="session")
def modules(node):
    """The folder of the packages, each installed by its lock."""
    lock = (HERE / "package-lock.json").read_bytes()
    place = Path(platformdirs.user_cache_dir("salience-tests")) / f"node-{hashlib.sha256(lock).hexdigest()[:16]}"
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent) as folder:
            making = Path(shutil.copytree(HERE, Path(folder) / "node"))
            search = {**os.environ, "PATH": f"{Path(node).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
            _call(_program("npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=making, env=search)
            with suppress(OSError):  # another run was first
                making.rename(place)
    return place / "node_modules"


@pytest.fixture
def inspect(node, modules, tmp_path):
    """A function from a server, a method and its arguments to what the Inspector prints."""

    def inspect(server, method, *arguments):
        program = str(modules / ".bin" / "mcp-inspector")
        done = _call(
            node, program, "--cli", *server, "--method", method, *arguments, env=surroundings(tmp_path), check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    return inspect


def test_the_inspector_speaks_with_a_process(inspect, tmp_path):
    server = [COMMAND, "--store", str(tmp_path / "agent.db"), "mcp", "serve"]
    result = inspect(server, "tools/call", "--tool-name", "remember", "--tool-arg", f"content={TABS}")
    assert result["structuredContent"]["status"] == "created"


def test_the_inspector_speaks_with_a_server(inspect, engine):
    engine.remember(TABS, kind="bootstrap")
    with site(engine) as url:
        listed = inspect([url], "tools/list")["tools"]
        recalled = inspect([url], "tools/call", "--tool-name", "recall", "--tool-arg", "query=query")
        known = inspect([url], "resources/read", "--uri", "salience://bootstrap")
        prompt = inspect([url], "prompts/get", "--prompt-name", "recall_about", "--prompt-args", "topic=query")
    assert {tool["name"] for tool in listed} == set(DEFAULT)
    assert TABS in recalled["content"][0]["text"]
    assert TABS in known["contents"][0]["text"]
    assert TABS in prompt["messages"][0]["content"]["text"]


@pytest.mark.parametrize("year", SUITES)
def test_the_conformance_suite_misses_nothing_but_its_own_tools(node, modules, engine, tmp_path, year):
    program = str(modules / SUITES[year] / "dist" / "index.js")
    expected = HERE / f"expected-of-{year}.yml"
    with site(engine) as url:
        arguments = ["server", "--url", url, *REVISION[year], "--expected-failures", str(expected)]
        done = _call(node, program, *arguments, "--output-dir", str(tmp_path), check=False)
    assert done.returncode == 0, done.stdout[done.stdout.find("=== SUMMARY") :]
    passed = re.search(r"Total: (\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= {"2025": 8, "2026": 100}[year]
