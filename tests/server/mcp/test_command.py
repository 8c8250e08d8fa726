"""The command that serves: what it hands on, and what it says before it does."""

from __future__ import annotations

import pytest

import salience
from command_line import invoke
from mcp_servers import TABS
from salience.server.mcp import server as stdio
from salience.server.mcp.tools import DEFAULT, TOOLS, LocalCaller, RemoteCaller
from salience.verbs import VERBS


@pytest.fixture
def started(monkeypatch, tmp_path):
    """A function from arguments to who would answer, and the result of the command."""
    seen, offered = [], []
    monkeypatch.setattr(stdio, "serve", lambda asker, tools: seen.append(asker) or offered.append({*tools}))

    def started(*arguments, store=None):
        result = invoke(["--store", store or str(tmp_path / "agent.db"), *arguments])
        return (seen.pop() if seen else None), result

    started.offered = offered
    return started


@pytest.mark.parametrize("arguments", [["mcp"], ["mcp", "serve"]])
def test_it_serves_with_or_without_a_word(started, arguments):
    asker, result = started(*arguments)
    assert result.exit_code == 0
    assert isinstance(asker, LocalCaller)
    assert (asker.grant.rights, asker.grant.bound, asker.defaults) == (("read", "write"), {}, {})


@pytest.mark.parametrize(
    ("arguments", "variable", "tools"),
    [
        (["mcp"], None, DEFAULT),
        (["mcp", "serve"], None, DEFAULT),
        (["mcp", "--tools", "all"], None, TOOLS),
        (["mcp", "serve", "--tools", "all"], None, TOOLS),
        (["mcp", "--tools", "all", "serve"], None, TOOLS),
        (["mcp", "serve", "--tools", "recall, explain"], None, ("recall", "explain")),
        (["mcp"], "all", TOOLS),
        (["mcp", "--tools", "default"], "all", DEFAULT),
    ],
)
def test_an_option_or_a_setting_names_the_tools(started, monkeypatch, arguments, variable, tools):
    if variable is not None:
        monkeypatch.setenv("SALIENCE_MCP_TOOLS", variable)
    _, result = started(*arguments)
    assert result.exit_code == 0, result.output
    assert started.offered == [{*tools}]


def test_options_are_defaults_and_no_bound(started):
    asker, _ = started("mcp", "serve", "--project", "parcel", "--agent", "coder", "--read-only")
    assert asker.defaults == {"project": "parcel", "agent_id": "coder"}
    assert (asker.grant.rights, asker.grant.bound) == (("read",), {})


def test_a_url_is_served_through_a_client(started):
    asker, _ = started("mcp", "serve", "--user", "alice", "--read-only", store="https://memory.example.org")
    assert isinstance(asker, RemoteCaller)
    assert asker.defaults == {"user_id": "alice"}
    assert (asker.may(VERBS["recall"]), asker.may(VERBS["remember"])) == (True, False)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--embedder", "nonsense", "mcp"], 2),
        (["--profile", "nonsense", "mcp"], 2),
        (["mcp", "serve", "--project", " "], 2),
        (["mcp", "--tools", "recall,nonsense"], 2),
        (["mcp", "install", "--client", "cursor", "--tools", "nonsense", "--dry-run"], 2),
        (["--store", "/proc/nowhere/agent.db", "mcp"], 1),
    ],
)
def test_a_target_that_cannot_be_opened_is_reported_at_once(started, arguments, code):
    asker, result = started(*arguments)
    assert asker is None
    assert result.exit_code == code
    assert result.stdout == ""
    assert result.stderr.startswith("salience: ")


def test_another_model_than_the_stores_is_reported_at_once(started, tmp_path, engine):
    with salience.connect(tmp_path / "agent.db", embedder=engine.services.embedder) as other:
        other.remember(TABS)
    asker, result = started("mcp")
    assert (asker, result.exit_code) == (None, 1)
    assert "reembed" in result.stderr


def test_the_model_and_the_memories_are_loaded_before_the_first_question(started, monkeypatch):
    warmed = []
    monkeypatch.setattr("salience.compose.warm_in_background", warmed.append)
    asker, _ = started("mcp")
    assert warmed == [asker.gate.engine]


def test_a_person_is_told_what_waits(started, monkeypatch):
    monkeypatch.setattr("salience.cli.mcp.is_interactive", lambda: True)
    assert "salience mcp install --help" in started("mcp")[1].stderr


def test_a_missing_library_is_reported_with_the_pip_line(started, monkeypatch):
    monkeypatch.setattr("salience.loading.find_spec", lambda _: None)
    asker, result = started("mcp")
    assert (asker, result.exit_code) == (None, 1)
    assert result.stderr.endswith('[server]"\n')
