"""Narrow terminals: no line is too long, no id is cut, and a pipe or NO_COLOR gets no escape sequences."""

from __future__ import annotations

import re

import pytest
from rich.cells import cell_len

ANSI = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
PROJECT = "projekt-mit-einem-sehr-langen-namen-der-nicht-aufhoert"
USER = "user-自動化-🤖-of-an-organisation-with-a-very-long-name"
TEXTS = ("東京の寿司屋🍣で晩ご飯を食べた。" * 6, "Supercalifragilistic" * 9, "Alice prefers Go 🇩🇪 for backend work")
ANYONE = ("--user", "*", "--project", "*", "--agent", "*")
COMMANDS = {
    "recall": ["recall", "query", "--min-score", "0", *ANYONE],
    "graph-recall": ["graph-recall", "query", "--explain", *ANYONE],
    "list": ["list", *ANYONE],
    "history": ["history", "ID", *ANYONE],
    "get": ["get", "ID", *ANYONE],
    "changes": ["changes", *ANYONE],
    "recalls": ["recalls", *ANYONE],
    "stats": ["stats", *ANYONE],
    "explain": ["explain", "query", "ID", *ANYONE],
    "keys list": ["keys", "list"],
    "profiles list": ["profiles", "list"],
    "config show": ["config", "show"],
    "status": ["status"],
    "review": ["review", *ANYONE],
}
WITH_ID = ("recall", "list", "history", "get", "changes")


@pytest.fixture(scope="module")
def wide(apart, tmp_path_factory):
    """A store with long names and texts of wide characters; a function that runs commands on it, and an id."""
    with apart(tmp_path_factory.mktemp("wide")) as run, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SALIENCE_RECALL_LOG", "30d")
        made = [
            run("remember", text, "--user", USER, "--project", PROJECT, "--kind", "a-kind-of-my-own-that-is-long")
            for text in TEXTS
        ]
        id_ = made[0].stdout.split()[1]
        run("update", id_, "--importance", "0.9", "--reason", "a reason of some length, " * 4, *ANYONE)
        run("recall", "What was for dinner in 東京?", "--user", USER, "--project", PROJECT)
        run("keys", "create", "--right", "read", "--project", PROJECT, "--user", USER, "--note", "寿司 " * 20)
        yield run, id_


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_line_is_longer_than_the_terminal_and_no_id_is_cut(wide, name, width):
    run, id_ = wide
    arguments = [id_ if item == "ID" else item for item in COMMANDS[name]]
    shown = run(*arguments, terminal=True, env={"COLUMNS": str(width)}).stdout
    lines = ANSI.sub("", shown).splitlines()
    assert [line for line in lines if cell_len(line.rstrip()) > width] == []
    assert sum(len(line.strip()) == 1 for line in lines) <= len(TEXTS), "a column of one character"
    if name in WITH_ID:
        assert any(id_[-8:] in line for line in lines)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_pipe_is_plain_and_no_color_has_no_colours(wide, name):
    run, id_ = wide
    arguments = [id_ if item == "ID" else item for item in COMMANDS[name]]
    assert "\x1b" not in run(*arguments, env={"COLUMNS": "60"}).stdout
    without = run(*arguments, terminal=True, env={"COLUMNS": "80", "NO_COLOR": "1"}).stdout
    assert not re.search(r"\x1b\[[0-9;]*(3[0-7]|9[0-7]|4[0-7])m", without)
