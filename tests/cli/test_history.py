"""History, restore and erase on the command line, reasons, and answers as of an earlier instant."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from command_line import invoke
from salience.cli import memories


@pytest.fixture
def moved(run_json):
    """Store a memory of ann, change it and forget it; return its id and the instants between."""
    first = run_json("remember", "Alice prefers Python for backend work", "--user", "ann", "--agent", "helper")
    id = first["memory"]["id"]
    changed = run_json(
        "update", id, "--user", "ann", "--agent", "helper", "--content", "Deploy on Friday", "--reason", "so"
    )
    run_json("forget", id, "--user", "ann", "--agent", "helper", "--reason", "told to")
    return SimpleNamespace(
        id=id, first=first["memory"], changed=changed["memory"], who=("--user", "ann", "--agent", "helper")
    )


def test_history_shows_who_changed_what_when_and_why(run, moved):
    lines = [line.split("\t") for line in run("history", moved.id[-8:], *moved.who).stdout.splitlines()]
    assert lines[0] == ["# version", "when", "who", "change", "why", "what", "content"]
    assert [line[0] for line in lines[1:]] == ["1", "2", "3"]
    assert [line[3] for line in lines[1:]] == ["create", "update", "forget"]
    assert lines[2][1:5] == [moved.changed["changed_at"], "agent:helper", "update", "so"]
    assert {"content", "updated_at"} <= set(lines[2][5].split(", "))
    assert lines[2][6] == "Deploy on Friday"
    assert lines[1][2] == "agent:helper"
    assert lines[3][2:6] == ["agent:helper", "forget", "told to", "forgotten_at"]


def test_history_as_json_has_every_version_whole(run_json, moved):
    versions = run_json("history", moved.id, *moved.who)
    assert [version["memory"]["version"] for version in versions] == [1, 2, 3]
    assert versions[0]["memory"]["content"] == moved.first["content"]
    assert (versions[0]["changed"], versions[0]["until"]) == ([], moved.changed["changed_at"])
    assert (versions[2]["changed"], versions[2]["until"]) == (["forgotten_at"], None)


def test_restore_undoes_a_forget_and_brings_a_version_back(run_json, run, moved):
    made = run_json("restore", moved.id, *moved.who, "--reason", "a slip")
    assert (made["status"], made["memory"]["content"], made["memory"]["reason"]) == (
        "restored", "Deploy on Friday", "a slip",
    )  # fmt: skip
    assert run_json("restore", moved.id, "--version", "1", *moved.who)["memory"]["content"] == moved.first["content"]
    assert "version is missing, and the memory is live." in run("restore", moved.id, *moved.who, code=2).stderr
    assert "Name one of these: 1, 2, 4." in run("restore", moved.id, "--version", "9", *moved.who, code=2).stderr
    assert run_json("restore", moved.id, "2", *moved.who)["memory"]["version"] == 6


def test_erase_needs_yes_where_nobody_can_confirm(run, run_json, stored):
    refused = run("erase", "--user", "alice", code=2)
    assert "Nothing was erased: confirm with --yes." in refused.stderr
    assert run_json("stats", "--user", "alice")["memories"] == 2
    assert run("erase", "--user", "alice", "--yes").stdout == "erased 2 memories\n"
    assert run_json("stats", "--user", "alice")["memories"] == 0


def test_a_dry_run_of_erase_counts_and_asks_nothing(run, run_json, stored):
    assert run("erase", "--user", "alice", "--dry-run").stdout == "would erase 2 memories\n"
    assert run_json("erase", stored.bob, "--user", "alice", "--dry-run") == {
        "erased": 1,
        "recalls": 0,
        "pending": False,
        "dry_run": True,
    }
    assert run_json("stats", "--user", "alice")["memories"] == 2


def test_erase_names_what_it_lacks(run, stored):
    printed = run("erase", "--yes", code=2).stderr
    assert "Give ids, or at least one of --project, --user, --agent and --session" in printed
    assert "no memory" in run("erase", stored.alice, "0" * 32, "--user", "alice", "--yes", code=1).stderr


@pytest.fixture
def typed(monkeypatch, tmp_path, run):
    """Return a function from what a person types, and arguments, to the result."""

    def call(line, *args, code=0):
        monkeypatch.setattr(memories, "is_interactive", lambda: True)
        result = invoke(["--store", str(tmp_path / "agent.db"), "--embedder", "planted", *args], input=line)
        assert result.exit_code == code, result.output
        return result

    return call


@pytest.mark.parametrize("answer", ["2", "erase", " 2 "])
def test_a_person_types_the_number_or_the_word(typed, run_json, stored, answer):
    result = typed(answer + "\n", "erase", "--user", "alice", "--json")
    assert json.loads(result.stdout) == {"erased": 2, "recalls": 0, "pending": False, "dry_run": False}
    assert "2 memories to erase. Texts, versions, vectors" in result.stderr
    assert run_json("stats", "--user", "alice")["memories"] == 0


@pytest.mark.parametrize("answer", ["y\n", "1\n", "\n", ""])
def test_anything_else_erases_nothing(typed, run_json, stored, answer):
    result = typed(answer, "erase", "--user", "alice", code=1)
    assert result.stdout == ""
    assert result.stderr.endswith("Nothing was erased.\n")
    assert run_json("stats", "--user", "alice")["memories"] == 2
