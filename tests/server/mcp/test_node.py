"""The programs of the protocol's own authors, from npm: the Inspector's command line and the conformance suite.

`node/package-lock.json` names them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import node_packages
from mcp_servers import COMMAND, TABS, site, surroundings
from node_packages import call, program
from salience.server.mcp.tools import DEFAULT

pytestmark = pytest.mark.slow

HERE = Path(__file__).with_name("node")
LEAST = 22
"""Version of Node.js that the Inspector needs."""
SUITES = {"2025": "@modelcontextprotocol/conformance", "2026": "conformance-of-2026"}
REVISION = {"2025": [], "2026": ["--requirements", "2026-07-28"]}


@pytest.fixture(scope="session")
def node():
    """Path of Node.js; skips where it, or npm, is not there, or too old."""
    found = program("node")
    if int(call(found, "--version").stdout[1:].split(".")[0]) < LEAST:
        pytest.skip(f"node is older than version {LEAST}")
    return found


@pytest.fixture(scope="session")
def modules(node):
    return node_packages.modules(HERE)


@pytest.fixture
def inspect(node, modules, tmp_path):
    """A function from a server, a method and its arguments to what the Inspector prints."""

    def inspect(server, method, *arguments):
        inspector = str(modules / ".bin" / "mcp-inspector")
        done = call(node, inspector, "--cli", *server, "--method", method, *arguments, env=surroundings(tmp_path))
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
    suite = str(modules / SUITES[year] / "dist" / "index.js")
    expected = HERE / f"expected-of-{year}.yml"
    with site(engine) as url:
        arguments = ["server", "--url", url, *REVISION[year], "--expected-failures", str(expected)]
        done = call(node, suite, *arguments, "--output-dir", str(tmp_path), check=False)
    assert done.returncode == 0, done.stdout[done.stdout.find("=== SUMMARY") :]
    passed = re.search(r"Total: (\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= {"2025": 8, "2026": 100}[year]
