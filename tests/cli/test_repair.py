"""backup, reinstate, doctor and reembed on the command line."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from salience.cli import output
from salience.models import registry
from salience.store.sqlite_file import PAGE_SIZE
from tests.contract.doubles import HashedEmbedder


@pytest.fixture
def path(stored, tmp_path):
    return tmp_path / "agent.db"


@pytest.fixture
def other(monkeypatch):
    """The name of an embedder besides the one that the store is pinned to."""
    monkeypatch.setitem(registry.EMBEDDERS, "other", lambda _: HashedEmbedder("other", 24))
    return ("--embedder", "other")


def plant(path, statement):
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute(statement).rowcount > 0
        connection.commit()


def test_a_backup_says_where_and_how_much(run, run_json, path, tmp_path):
    assert run("backup", str(tmp_path / "copy.db")).stdout.startswith(f"backed up to {tmp_path}/copy.db: 0.")
    result = run_json("backup", str(tmp_path / "copy.db"), "--force")
    assert result == {"file": str(tmp_path / "copy.db"), "bytes": (tmp_path / "copy.db").stat().st_size}


def test_a_backup_is_replaced_only_with_force(run, path, tmp_path):
    run("backup", str(tmp_path / "copy.db"))
    assert "--force" in run("backup", str(tmp_path / "copy.db"), code=2).stderr
    (tmp_path / "letter").write_text("a letter")
    assert "not a store" in run("backup", str(tmp_path / "letter"), "--force", code=2).stderr


@pytest.mark.parametrize("arguments", [["backup", "copy.db"], ["doctor"], ["reembed"]])
def test_a_store_that_is_not_there_is_not_made_to_be_looked_after(run, tmp_path, arguments):
    result = run("--store", str(tmp_path / "nowhere.db"), *arguments, code=1)
    assert "nowhere.db does not exist. Check the path, or make a store there" in result.stderr
    assert not (tmp_path / "nowhere.db").exists()


def test_reinstate_puts_the_backup_back_and_says_where_the_rest_is(run, run_json, stored, path, tmp_path):
    run("backup", str(tmp_path / "copy.db"))
    run("forget", stored.alice, "--user", "alice")
    result = run("reinstate", str(tmp_path / "copy.db"), "--yes").stdout
    assert result.splitlines() == [
        f"{path} holds what {tmp_path}/copy.db does",
        f"the previous content is in {path}.before-reinstate",
    ]
    assert run_json("stats", "--user", "alice")["memories"] == 2
    result = run_json("reinstate", f"{path}.before-reinstate", "--yes", "--discard")
    assert result == {"store": str(path), "file": f"{path}.before-reinstate", "kept": None}
    assert run_json("stats", "--user", "alice")["memories"] == 1


def test_reinstate_asks_for_confirmation_only_on_a_terminal(run, run_json, path, tmp_path, monkeypatch):
    run("backup", str(tmp_path / "copy.db"))
    run("remember", "of now", "--user", "alice")
    assert "confirm with --yes" in run("reinstate", str(tmp_path / "copy.db"), code=2).stderr
    monkeypatch.setattr(output, "is_interactive", lambda: True)
    refused = run("reinstate", str(tmp_path / "copy.db"), input="n\n", code=1)
    assert f"Replace all that {path} holds with {tmp_path}/copy.db?" in refused.stderr
    assert run_json("stats", "--user", "alice")["memories"] == 3
    run("reinstate", str(tmp_path / "copy.db"), input="y\n")
    assert run_json("stats", "--user", "alice")["memories"] == 2


def test_doctor_shows_errors_and_mends_it(run, run_json, stored, path):
    plant(path, "UPDATE memories SET terms = 'x' WHERE content LIKE 'Alice%'")
    line = f"wrong\tterms\t{stored.alice}\tversion 1: its terms are not those of its text."
    first, last = run("doctor", code=1).stdout.splitlines()
    assert first == f"{line} To make it anew: salience --store {path} doctor --repair"
    assert last == "2 memories and 0 older versions read, 1 wrong"
    found = json.loads(run("doctor", "--json", code=1).stdout)
    assert (found["healthy"], [one["check"] for one in found["findings"]]) == (False, ["terms"])
    shown = run("doctor", code=1, terminal=True).stdout
    assert "its terms are not those of its text" in shown
    mended = run("doctor", "--repair").stdout.splitlines()
    assert mended == [line.replace("wrong", "repaired"), "2 memories and 0 older versions read, 1 repaired, healthy"]
    assert run_json("doctor")["findings"] == []


def test_doctor_says_of_a_torn_file_what_to_do(run, path):
    raw = bytearray(path.read_bytes())
    amid_the_schema = PAGE_SIZE // 2
    raw[amid_the_schema:] = bytes(byte ^ 0x5A for byte in raw[amid_the_schema:])
    path.write_bytes(raw)
    result = run("doctor", code=1)
    assert "damaged" in result.stderr
    assert "Traceback" not in result.output


def test_reembed_takes_the_store_over(run, run_json, stored, path, other):
    run(*other, "recall", "query", "--user", "alice", code=1)
    result = run(*other, "reembed").stdout
    assert result == "embedded 2 versions with other, replacing planted: open the store with it from now on\n"
    refused = run("recall", "query", "--user", "alice", code=1).stderr
    assert "was written with embedder 'other' (24 dimensions)" in refused
    assert f"salience --store {path} --embedder NAME reembed" in refused
    assert run_json(*other, "recall", stored.text, "--user", "alice")["hits"][0]["memory"]["id"] == stored.alice
    assert run_json(*other, "reembed") == {"made": 0, "resumed": 0, "old": "other", "new": "other"}
    assert run_json(*other, "doctor", "--deep")["healthy"]


ALICE, BOB, TRIP = "Alice prefers Python for backend work", "Bob drinks tea in the morning", "Alice went to Lisbon"
