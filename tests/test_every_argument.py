"""Every surface has every argument of every verb: Python, coroutines, clients, REST, MCP, commands, the reference."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import typer

import salience
import servers
from salience.cli import app
from salience.server.mcp.tools import FOR_PROGRAMS, TOOLS
from salience.verbs import ALL, VERBS

ROOT = Path(__file__).parents[1]
ARGUMENTS = [(verb, name) for verb, row in VERBS.items() for name, one in row.arguments.items() if one.json is not None]
COMMANDS = {"recall_many": "recall", "import_": "import"}
"""Verb -> its command, if that is not its name with hyphens."""
ELSEWHERE = {
    ("recall_many", "queries"): "also",
    ("dismiss", "other_id"): "other",
    ("ingest", "messages"): "paths",
    ("remember_many", "drafts"): None,  # `salience import` reads drafts
}
"""Argument of a verb -> the parameter of its command; None: there is no such command."""


def parameters(operation, document):
    """Return the names of the arguments of an operation of OpenAPI."""
    names = {one["name"] for one in operation.get("parameters", ()) if one["in"] != "header"}
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    for one in body.get("anyOf", [body]):
        if "$ref" in one:
            names |= {*document["components"]["schemas"][one["$ref"].rpartition("/")[2]]["properties"]}
    return names


@pytest.fixture(scope="module")
def document():
    return servers.document()


@pytest.fixture(scope="module")
def commands():
    return typer.main.get_command(app).commands


@pytest.mark.parametrize("verb", VERBS)
def test_rest_has_every_argument(verb, document):
    row = VERBS[verb]
    operation = document["paths"][row.path][row.method.lower()]
    assert {name for of, name in ARGUMENTS if of == verb} <= parameters(operation, document)


@pytest.mark.parametrize("tool", TOOLS)
def test_mcp_has_every_argument_but_those_for_programs(tool):
    taken = {name for of, name in ARGUMENTS if of == tool} - {*FOR_PROGRAMS}
    assert taken == {*TOOLS[tool].input_schema["properties"]} - {*TOOLS[tool].synonyms}


@pytest.mark.parametrize(("verb", "name"), ARGUMENTS)
def test_the_command_line_has_every_argument(verb, name, commands):
    parameter = ELSEWHERE.get((verb, name), name)
    command = commands.get(COMMANDS.get(verb, verb.replace("_", "-")))
    if parameter is None or verb in ("remember_many", "help"):
        pytest.skip("a command of its own")
    assert parameter in {one.name for one in command.params}


@pytest.mark.parametrize("verb", ALL)
def test_every_connection_has_every_argument_and_help_shows_it(verb):
    for kind in (salience.Verbs, salience.Engine, salience.Client, salience.AsyncEngine, salience.AsyncClient):
        method = getattr(kind, verb)
        assert [name for name in inspect.signature(method).parameters if name != "self"] == [*ALL[verb].arguments]
        assert all(f"\n    {name}: " in method.__doc__ for name in ALL[verb].arguments)


@pytest.mark.parametrize("verb", ALL)
def test_the_reference_has_every_argument(verb):
    page = (ROOT / "docs/reference/python.md").read_text("utf-8")
    section = page.partition(f"::: salience.verbs.Verbs.{verb}\n")[2].partition("\n::: ")[0]
    assert all(f"| `{name}` |" in section for name in ALL[verb].arguments)
