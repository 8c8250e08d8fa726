"""Bad input and a failing services: the exit code, and one or two lines that say what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from salience.rank import profiles

SECRET = "the launch code is 0000"
SIGNALS = sorted(term.label for term in profiles.load("salience").terms)


def complaint(result):
    lines = result.stderr.splitlines()
    assert 1 <= len(lines) <= 2
    assert lines[0].startswith("salience: ")
    assert result.stdout == ""
    return result.stderr


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["remember", "x", "--importance", "2"], "importance is 2.0"),
        (["remember", "x", "--weight", "0"], "weight is 0.0"),
        (["remember", "x", "--ttl", "soon"], "ttl is 'soon'"),
        (["remember", "x", "--tier", "deep"], "Choose one of: episodic, semantic, working"),
        (["remember", "x", "--metadata", "{"], "metadata is not JSON"),
        (["remember", "x", "--metadata", "[1]"], "metadata has the type list"),
        (["remember", "x", "--created-at", "2026-13-01"], "--created-at is '2026-13-01'"),
        (["remember", "x", "--user", "*"], "--user is salience.ANY"),
        (["remember", " "], "content is empty"),
        (["remember", "x", "--scope", "project"], "scope is 'project'"),
        (["recall", "x", "--since", "2026-01-32"], "Give a date (2026-05-01, 2026-05), a length of time"),
        (["recall", "x", "--now", "soon"], "now is 'soon'"),
        (["recall", "x", "--profile", "best"], "salience, precise, mememory, memlayer, zeromemory, memorysync, cmm"),
        (["--profile", "best", "recall", "x"], "salience, precise, mememory, memlayer, zeromemory, memorysync, cmm"),
        (["recall", "x", "--weights", "similarity"], "Write SIGNAL=NUMBER"),
        (["recall", "x", "--weights", "cosine=1"], f"Choose one of: {', '.join(SIGNALS)}."),
        (["recall", "x", "--limit", "-1"], "limit is -1"),
        (["recall", "x", "--min-score", "nan"], "--min-score is nan"),
        (["graph-recall", "x", "--graph-weight", "2"], "--graph-weight is 2.0"),
        (["context", "x", "--budget", "-5"], "--budget is -5"),
        (["list", "--limit", "0"], "limit is 0"),
        (["list", "--tier", "deep"], "--tier 'deep' is unknown"),
        (["update", "x"], "update names nothing to change. Give at least one of: content, kind, importance,"),
        (["list", "--id", "nope"], "--id has 'nope', which is no id."),
        (["list", "--linked-to", "00000000"], "--linked-to has '00000000', which is no whole id."),
        (["decay", "nope"], "ids has 'nope', which is no id."),
        (["restore", "x", "1", "--version", "2"], "--version is given twice"),
        (["recall", "x", "--tag", "a", "--tag", ""], "--tag is empty"),
        (["recall", "x", "--where", '{"seats": {"$over": 5}}'], "--where.seats '$over' is unknown"),
        (["serve", "--port", "99999"], "--port is 99999."),
        (["--profile", "no.toml", "stats"], "cannot be read: No such file or directory. Give a file"),
        (["--store", "~no-such-user/a.db", "stats"], "target '~no-such-user/a.db' starts with ~ and no user's name."),
        (["export", "~no-such-user/a.jsonl"], "file '~no-such-user/a.jsonl' starts with ~ and no user's name."),
        (["update", "x", "new", "--content", "new"], "Give the new text once"),
        (["end-session", ""], "session_id is empty"),
        (["help", "everything"], "topic 'everything' is unknown"),
        (["profiles", "show", "best"], "profile 'best' is unknown"),
        (["profiles", "check", "cmm", "no.toml"], "profile 'no.toml' cannot be read"),
        (["ingest", "absent.json"], "absent.json"),
        (["import", "absent.jsonl"], "absent.jsonl"),
        (["export", "no/such/folder/x.jsonl"], "Give a file that can be opened"),
        (["export", "--json"], "Name a PATH"),
        (["--embedder", "gpt", "stats"], "embedder 'gpt' is unknown"),
    ],
)
def test_bad_input_exits_with_2_and_names_field_and_remedy(run, empty, arguments, word):
    assert word in complaint(run(*arguments, code=2))


@pytest.mark.parametrize(
    ("arguments", "word", "command"),
    [
        (["recal"], "Did you mean 'recall'", "salience"),
        (["recall"], "Missing argument 'QUERY'", "recall"),
        (["recall", "x", "--limit", "some"], "--limit is 'some'. Give a whole number.", "recall"),
        (["recall", "x", "--min-score", "high"], "--min-score is 'high'. Give a number.", "recall"),
        (["restore", "x", "first"], "VERSION is 'first'. Give a whole number.", "restore"),
        (["remember", "Alice", "likes", "tea"], "Put a text of several words in quotes", "remember"),
        (["remember", "x", "--tag", "a", "b"], "repeat an option for each of its values", "remember"),
        (["recall", "x", "--colour"], "No such option: --colour", "recall"),
        (["profiles", "delete"], "No such command 'delete'", "profiles"),
        (["import", "x", "--on-error", "cry"], "'cry' is not one of 'stop', 'skip'.", "import"),
    ],
)
def test_a_call_that_cannot_be_read_exits_with_2_and_names_the_help(run, arguments, word, command):
    printed = complaint(run(*arguments, code=2))
    assert word in printed
    assert printed.splitlines()[-1].endswith("--help")
    assert command in printed.splitlines()[-1]


@pytest.mark.parametrize("command", ["get", "forget"])
def test_an_unknown_id_exits_with_1_and_the_command_that_lists_the_ids_of_this_store(run, empty, command, tmp_path):
    printed = complaint(run(command, "feedbeef", code=1))
    assert "no memory 'feedbeef' is visible" in printed
    assert f"To see the ids: salience --store {tmp_path / 'agent.db'} list --user '*'" in printed


def test_a_file_that_is_no_store_exits_with_1(run, written):
    path = written("notes.txt", "These are notes, not memories. " * 50)
    assert "notes.txt" in complaint(run("--store", path, "stats", code=1))


def test_bytes_that_are_no_text_are_bad_input(run):
    assert "content is not utf-8" in complaint(run("remember", "-", input=b"caf\xe9", code=2))


def test_an_error_has_no_control_characters(run):
    assert "\x1b" not in complaint(run("ingest", "\x1b[2Jabsent.json", code=2))


def test_a_bad_profile_leaves_no_file_behind(run, tmp_path):
    run("--profile", "best", "stats", code=2)
    assert not (tmp_path / "agent.db").exists()


def test_a_key_taken_by_another_text_exits_with_1_without_showing_either(run):
    run("remember", SECRET, "--key", "k")
    printed = complaint(run("remember", f"not that {SECRET}", "--key", "k", code=1))
    assert SECRET not in printed


def test_a_text_too_long_is_not_shown(run):
    printed = complaint(run("remember", SECRET * 5000, code=2))
    assert "content has " in printed
    assert SECRET not in printed


def test_a_file_that_exists_is_kept_unless_forced(run, stored, written):
    letter = written("letter.txt", "precious")
    assert "no export" in complaint(run("export", letter, "--force", code=2))
    assert Path(letter).read_text() == "precious\n"
    export = str(Path(letter).with_name("all.ndjson"))
    run("export", export)
    assert "--force" in complaint(run("export", export, code=2))
    assert run("export", export, "--force").stdout.startswith("exported 2 memories")
