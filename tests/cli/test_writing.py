"""What remember, update, forget and end-session do."""

from __future__ import annotations

import re

import pytest


def test_remember_prints_status_and_id(run, run_json):
    status, id = run("remember", "The sky is blue").stdout.split()
    assert status == "created"
    assert run_json("get", id)["content"] == "The sky is blue"
    assert run_json("get", id[-8:])["id"] == id


def test_every_field_is_stored(run_json, stored):
    memory = run_json(
        "remember", "Ship it", "--kind", "decision", "--importance", "0.9", "--weight", "0.7", "--tag", "a", "--tag",
        "b", "--entity", "Zed", "--fact-key", "ship.it", "--supersedes", stored.alice[-8:], "--ttl", "7d",
        "--tier", "working",
        "--metadata", '{"page": 7}', "--key", "k1", "--created-at", "2026-01-02T03:04:05+01:00", "--user", "alice",
        "--project", "atlas", "--agent", "helper", "--session", "s1", "--environment", "default",
    )["memory"]  # fmt: skip
    expected = {
        "kind": "decision", "importance": 0.9, "weight": 0.7, "tags": ["a", "b"], "entities": ["Zed"],
        "fact_key": "ship.it", "supersedes": stored.alice, "tier": "working", "metadata": {"page": 7}, "key": "k1",
        "created_at": "2026-01-02T02:04:05+00:00", "expires_at": "2026-01-09T02:04:05+00:00", "turn": 1,
        "scope": {
            "environment": "default", "project": "atlas", "user_id": "alice", "agent_id": "helper", "session_id": "s1",
        },
    }  # fmt: skip
    assert {name: memory[name] for name in expected} == expected


def test_a_contradiction_is_reported_on_standard_output(run, run_json, stored):
    result = run("remember", stored.again, "--user", "alice")
    assert "CONTRADICTION DETECTED" in result.stdout
    assert f"[{stored.alice[-8:]}] (similarity: 100%) {stored.text}" in result.stdout
    assert result.stderr == ""


def test_the_same_text_again_is_reported_as_unchanged_and_can_be_forced(run, run_json, stored):
    again = run("remember", stored.text, "--user", "alice").stdout
    assert again.splitlines()[0] == f"unchanged\t{stored.alice}"
    assert "Nothing new was stored" in again
    assert "CONTRADICTION" not in again
    forced = run_json("remember", stored.text, "--user", "alice", "--duplicate")
    assert forced["memory"]["id"] != stored.alice


@pytest.mark.parametrize("terminal", [False, True])
def test_the_replaced_memory_is_reported_and_the_remedy_works_as_printed(run, run_json, terminal):
    old = run_json("remember", "I live in Berlin")["memory"]
    result = run("remember", "User lives in Lisbon", terminal=terminal).stdout
    printed = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", result).split())
    assert f"This replaces memory {old['short_id']} (fact user.residence);" in printed
    undo = re.search(r"To undo that: salience (dismiss \w{8} \w{8})", printed)[1]
    assert run_json("get", old["id"])["replaced_by"] is not None
    run(*undo.split())
    assert run_json("get", old["id"])["replaced_by"] is None


def test_update_changes_what_is_given_and_nothing_else(run, run_json, stored):
    made = run_json("update", stored.alice, "--user", "alice", "--content", "-", "--tag", "new", input="Alice likes Go")
    assert made["status"] == "updated"
    memory = run_json("get", stored.alice, "--user", "alice")
    assert (memory["content"], memory["tags"], memory["kind"], memory["version"]) == (
        "Alice likes Go",
        ["new"],
        "fact",
        2,
    )


def test_the_new_text_may_follow_the_id(run_json, stored):
    made = run_json("update", stored.alice, "Alice likes Go", "--user", "alice")
    assert (made["status"], made["memory"]["content"]) == ("updated", "Alice likes Go")
    assert run_json("update", stored.alice, "-", "--user", "alice", input="Alice likes C\n")["memory"]["version"] == 3


def test_update_says_that_a_memory_replaces_another_and_takes_it_back(run, run_json):
    old, new = (run_json("remember", text)["memory"] for text in ("The report is due on Friday", "Lunch is at noon"))
    made = run_json("update", new["short_id"], "--supersedes", old["short_id"])
    assert (made["superseded"], made["memory"]["supersedes"]) == (old["id"], old["id"])
    assert run_json("get", old["id"])["replaced_by"]["id"] == new["id"]
    assert run_json("update", new["short_id"], "--no-supersedes")["memory"]["supersedes"] is None
    assert run_json("get", old["id"])["replaced_by"] is None
    refused = run("update", new["short_id"], "--supersedes", old["short_id"], "--no-supersedes", code=2)
    assert "--no-supersedes is given beside --supersedes" in refused.stderr


def test_a_warning_advises_commands(run, run_json):
    first = run("remember", "I live in Berlin", "--user", "ann").stdout.split()[1]
    second = run("remember", "I live in Rome", "--user", "ann").stdout
    new = second.split()[1]
    assert f"To undo that: salience dismiss {new[-8:]} {first[-8:]}." in second
    assert "use --duplicate." in run("remember", "I live in Rome", "--user", "ann").stdout
    third = run("remember", "I live in Bonn", "--user", "ann", "--supersedes", new).stdout
    assert f"salience update {third.split()[1][-8:]} --no-supersedes." in third
    assert "(id=" not in second + third


def test_a_new_memory_that_replaces_another_is_called_created(run, stored):
    assert (
        run("remember", "It moved", "--supersedes", stored.alice, "--user", "alice", terminal=True).stdout.count(
            "created"
        )
        == 1
    )
