"""The status of a store, the first steps without a command, and the sides of the command that options go on."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
import typer

import salience
from command_line import invoke
from salience.cli import app, status
from salience.server.mcp.install import CLIENTS
from tests.contract.doubles import PlantedEmbedder


@pytest.fixture(autouse=True)
def at_home(monkeypatch, tmp_path):
    """Let no test read the clients and stores of the developer."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("SALIENCE_URL", raising=False)


def test_a_file_tells_all(run_json, run, stored, tmp_path):
    run("forget", stored.alice, "--user", "alice")
    run("remember", "Bo sails", "--project", "boat", "--ttl", "0.001")  # the next write or upkeep records its end
    found = run_json("status")
    assert found == {
        "store": str(tmp_path / "agent.db"), "bytes": (tmp_path / "agent.db").stat().st_size,
        "database": f"SQLite {sqlite3.sqlite_version}", "revision": found["head"], "head": found["head"],
        "embedder": "planted", "dimension": PlantedEmbedder().dimension, "memories": 1, "forgotten": 2, "pending": 0,
        "sessions": 0, "by_kind": {"fact": 1}, "by_tier": {"episodic": 1}, "upkeep_changed": None,
        "due": {"embed": 0, "expire": 1, "promote": 0, "prune": 0}, "api_keys": 0, "mcp_clients": [], "problems": [],
    }  # fmt: skip
    assert f"due: 1 to expire; run: salience --store {tmp_path / 'agent.db'} upkeep" in run("status").stdout
    run("upkeep")
    assert "last change 0s ago; nothing is due" in run("status").stdout.replace("1s ago", "0s ago")


def test_what_is_due_is_left_open_in_a_large_store(run, stored, monkeypatch, tmp_path):
    monkeypatch.setattr(status, "MOST", 1)
    assert f"to see what is due: salience --store {tmp_path / 'agent.db'} upkeep --dry-run" in run("status").stdout


def test_an_agent_that_has_the_server_is_named(run, run_json, stored):
    run("mcp", "install", "--client", "cursor", "--yes")
    broken = CLIENTS["vscode"].file(None)
    broken.parent.mkdir(parents=True)
    broken.write_text("{")
    assert run_json("status")["mcp_clients"] == ["cursor"]
    assert "agents\tcursor\n" in run("status").stdout


def test_a_store_of_a_newer_version_has_a_problem_and_no_counts(run, run_json, stored, tmp_path):
    with closing(sqlite3.connect(tmp_path / "agent.db")) as file, file:
        file.execute("UPDATE alembic_version SET version_num = '9999'")
    found = run_json("status", code=1)
    assert (found["revision"], found["memories"]) == ("9999", None)
    assert "newer" in found["problems"][0]
    assert "The store cannot be used" in run().stdout


def test_another_model_is_a_problem_with_the_remedy(run_json, tmp_path):
    with salience.connect(tmp_path / "agent.db", embedder=PlantedEmbedder(dimension=8)) as memory:
        memory.remember("Tea")
    assert "reembed" in run_json("status", code=1)["problems"][0]


def test_without_a_store_the_first_commands_are_shown(tmp_path):
    printed = invoke([])
    place = tmp_path / "data" / "salience" / "memory.db"
    assert printed.exit_code == 0
    assert printed.stdout.startswith(f"No memories yet. The first one makes {place}:\n\n  salience remember ")
    assert not place.parent.exists()


def test_with_a_store_the_next_commands_name_it(run, stored, tmp_path):
    printed = run().stdout
    assert printed.startswith(f"The store {tmp_path}/agent.db has 2 memories.\n")
    assert f"  salience --store {tmp_path}/agent.db status " in printed


def test_a_remote_store_is_not_asked(monkeypatch):
    target = "postgresql://me:s3cret@127.0.0.1:1/memory"
    printed = invoke(["--store", target]).stdout
    assert "The store is postgresql://me:***@127.0.0.1:1/memory" in printed
    assert "s3cret" not in printed


def test_what_is_printed_first_fits_80_columns():
    for text in (status.START, status.NEXT.format(store="")):
        assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["keys", "--store", "a.db", "list"], "--store goes before the command: salience --store TARGET keys ..."),
        (["--user", "alice", "list"], "--user goes after the command: salience COMMAND ... --user NAME"),
        (["--json", "list"], "--json goes after the command: salience COMMAND ... --json\n"),
    ],
)
def test_an_option_on_the_wrong_side_is_told_the_right_one(run, arguments, message):
    assert message in run(*arguments, code=2).stderr


@pytest.mark.parametrize("command", [["list"], ["keys", "list"], ["stats"], ["config", "show"]])
def test_the_store_may_stand_after_any_command(run, stored, tmp_path, command):
    before = run(*command)
    after = invoke([*command, "--store", tmp_path / "agent.db", "--embedder", "planted"])
    assert (after.exit_code, after.stdout) == (0, before.stdout)


def test_an_option_after_the_command_wins_over_the_same_before_it_and_errors_name_it(run, stored, tmp_path):
    other = tmp_path / "other.db"
    assert f"salience --store {other} remember" in run("list", "--store", str(other), code=1).stderr


def test_every_command_but_the_hook_takes_the_store_the_embedder_and_the_profile_after_it():
    tree = typer.main.get_command(app).commands
    leaves = {
        f"{name} {below}".strip(): command
        for name, top in tree.items()
        for below, command in getattr(top, "commands", {"": top}).items()
    }
    for name in ("store", "embedder", "profile"):
        without = {path for path, one in leaves.items() if name not in {p.name for p in one.params}}
        assert without == {"hook"}
    for path, one in leaves.items():
        assert path == "hook" or "--store" in (one.epilog or "")


WITHOUT_JSON = {
    "chat": "a conversation",
    "hook": "answers an agent in the agent's own JSON",
    "mcp serve": "speaks MCP on standard output",
    "serve": "runs until it is ended; its logs are JSON",
    "ui": "runs until it is ended",
}
"""Command without --json -> the reason."""


def test_every_other_command_answers_in_json():
    tree = typer.main.get_command(app).commands
    leaves = {
        f"{name} {below}".strip(): command
        for name, top in tree.items()
        for below, command in getattr(top, "commands", {"": top}).items()
    }
    assert {name for name, one in leaves.items() if "json" not in {p.name for p in one.params}} == set(WITHOUT_JSON)


@pytest.mark.parametrize("group", ["db", "keys", "profiles", "config"])
def test_a_group_without_a_command_shows_its_help(run, group):
    assert run(group).stdout == run(group, "--help").stdout


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("salience st", ["status", "stats"]),
        ("salience recall --profile mem", ["mememory", "memlayer", "memorysync"]),
        (
            "salience --embedder ",
            ["minilm", "static", "bge", "multilingual", "fastembed", "openai", "onnx", "sentence-transformers"],
        ),
        ("salience remember --kind f", ["fact", "feedback"]),
        ("salience list --tier ", ["working", "episodic", "semantic"]),
        ("salience import --from mem", ["mem0", "mempalace"]),
        ("salience mcp install --client c", ["claude-code", "codex", "claude-desktop", "cursor"]),
        ("salience keys create --right ", ["read", "write", "admin"]),
        ("salience export --to m", ["markdown", "mem0"]),
        ("salience profiles show p", ["precise"]),
        ("salience changes --change e", ["expire"]),
        ("salience help contr", ["contradictions"]),
        ("salience help upk", ["upkeep"]),
    ],
)
def test_bash_completes_commands_and_values(line, expected):
    words = line.split(" ")
    env = {"_SALIENCE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    assert invoke([], env=env, prog_name="salience").stdout.split() == expected


@pytest.mark.parametrize(
    ("shell", "word"), [("bash", "complete -o default"), ("zsh", "#compdef salience"), ("fish", "complete --command")]
)
def test_each_shell_gets_its_script(monkeypatch, shell, word):
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: shell)
    assert word in invoke(["--show-completion"], prog_name="salience").stdout
