"""A store that does not exist: commands that read refuse, and no command makes a folder for it."""

from __future__ import annotations

import pytest

READING = {
    "recall": ["recall", "query"], "graph-recall": ["graph-recall", "query"], "context": ["context", "query"],
    "explain": ["explain", "query", "feedbeef"], "get": ["get", "feedbeef"], "history": ["history", "feedbeef"],
    "list": ["list"], "stats": ["stats"], "export": ["export"], "update": ["update", "feedbeef", "text"],
    "forget": ["forget", "feedbeef"], "restore": ["restore", "feedbeef"], "erase": ["erase", "feedbeef", "--yes"],
    "end-session": ["end-session", "monday"], "consolidate": ["consolidate"], "reflect": ["reflect"],
    "upkeep": ["upkeep"], "review": ["review"], "dismiss": ["dismiss", "feedbeef", "feedbee1"],
    "changes": ["changes"], "activity": ["activity"], "scores": ["scores", "query"], "facets": ["facets"],
    "sessions": ["sessions"], "decay": ["decay", "feedbeef"],
}  # fmt: skip


@pytest.mark.parametrize("command", READING.values(), ids=READING)
@pytest.mark.parametrize("place", ["mistyped.db", "no/such/folder/agent.db"])
def test_a_command_that_stores_nothing_makes_no_store(run, tmp_path, command, place):
    printed = run("--store", str(tmp_path / place), *command, code=1).stderr
    assert printed == (
        f"salience: store: {tmp_path / place} does not exist. "
        f'Check the path, or make a store there: salience --store {tmp_path / place} remember "TEXT"\n'
    )
    assert list(tmp_path.iterdir()) == []


def test_so_does_a_store_that_a_variable_names(process, tmp_path):
    done = process("recall", "query")
    assert (done.returncode, list(tmp_path.iterdir())) == (1, [])
    assert f"{tmp_path}/process.db does not exist" in done.stderr


def test_without_any_store_the_platforms_own_is_made_by_the_first_memory(run, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("SALIENCE_URL", raising=False)
    own = tmp_path / "data" / "salience" / "memory.db"
    printed = run("--store", str(own), "recall", "query", code=1).stderr
    remedy = 'Make one: salience remember "TEXT"; or open another file: salience --store FILE ...'
    assert printed == f"salience: store: none was made yet ({own}). {remedy}\n"
    assert not own.parent.exists()
    run("--store", str(own), "remember", "Tea")
    assert own.exists()


@pytest.mark.parametrize("command", [["remember", "Tea"], ["ingest", "-"], ["import", "-"]])
def test_a_command_that_stores_makes_the_file_and_no_folder(run, tmp_path, command):
    lines = '{"role": "user", "content": "Tea"}\n'
    printed = run("--store", str(tmp_path / "no" / "agent.db"), *command, code=1, input=lines).stderr
    assert printed == (
        f"salience: store: the folder {tmp_path}/no does not exist. "
        f"Check the path, or make it: mkdir -p {tmp_path}/no\n"
    )
    assert list(tmp_path.iterdir()) == []
    run("--store", str(tmp_path / "agent.db"), *command, input=lines)
    assert (tmp_path / "agent.db").exists()


@pytest.mark.parametrize("command", [["recall", "query"], ["status"], ["db", "status"], ["remember", "Tea"]])
def test_a_folder_is_named_as_such(run, tmp_path, command):
    printed = run("--store", str(tmp_path), *command, code=1).stderr
    assert printed == f"salience: store: {tmp_path}: it is a folder. Name a file in it.\n"
