"""Hooks beside the server's entry: what is written for each agent, what is left alone; and the entry in Codex' TOML."""

from __future__ import annotations

import json
import shlex
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from command_line import invoke
from mcp_servers import COMMAND
from salience.cli.hook import EVENTS
from salience.errors import InputError
from salience.server.mcp import install as installing

FILES = {
    ("claude-code", False): (".claude.json", ".claude/settings.json"),
    ("claude-code", True): ("work/.mcp.json", "work/.claude/settings.local.json"),
    ("codex", False): (".codex/config.toml", ".codex/hooks.json"),
    ("codex", True): ("work/.codex/config.toml", "work/.codex/hooks.json"),
    ("cursor", False): (".cursor/mcp.json", ".cursor/hooks.json"),
    ("cursor", True): ("work/.cursor/mcp.json", "work/.cursor/hooks.json"),
}
FOREIGN = {
    "claude-code": {"hooks": [{"type": "command", "command": "say done"}]},
    "codex": {"hooks": [{"type": "command", "command": "say done"}]},
    "cursor": {"command": "say done"},
}


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    return tmp_path


@pytest.fixture
def install(home):
    """A function from arguments to the one JSON document that is printed."""

    def install(*arguments, before=()):
        result = invoke([*before, "mcp", "install", *arguments, "--yes", "--json"])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return install


def commands(client, text):
    """Return each event's command lines of ours, as words."""
    found = {}
    for event, entries in json.loads(text)["hooks"].items():
        hooks = entries if client == "cursor" else [hook for entry in entries for hook in entry["hooks"]]
        found[event] = [words for hook in hooks if (words := shlex.split(hook["command"]))[0] == COMMAND]
    return found


@pytest.mark.parametrize(("client", "of_a_project"), FILES)
def test_each_agent_gets_the_entry_and_a_hook_for_each_event(install, home, client, of_a_project):
    (home / "work").mkdir()
    where = ["--project-dir", str(home / "work")] if of_a_project else []
    result = install("--client", client, "--hooks", *where)
    server, hooks = (home / name for name in FILES[client, of_a_project])
    assert (result["file"], result["hooks"]["file"]) == (str(server), str(hooks))
    assert (result["done"], result["hooks"]["done"]) == ("written", "written")
    assert commands(client, hooks.read_text()) == {
        event: [[COMMAND, "hook", event, "--client", client]] for event in EVENTS[client]
    }
    assert json.loads(hooks.read_text()).get("version") == (1 if client == "cursor" else None)
    again = install("--client", client, "--hooks", *where)
    assert (again["done"], again["hooks"]["done"]) == ("unchanged", "unchanged")


@pytest.mark.parametrize("client", FOREIGN)
def test_foreign_hooks_stay_and_removal_leaves_the_file_as_it_was(install, home, client):
    event = list(EVENTS[client])[-1]
    before = {"theme": "dark", "hooks": {event: [FOREIGN[client]], "Another": [FOREIGN[client]]}, "last": [1]}
    file = home / FILES[client, False][1]
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(before, indent=2) + "\n")
    install("--client", client, "--hooks")
    held = json.loads(file.read_text())
    assert held["hooks"][event][0] == held["hooks"]["Another"][0] == FOREIGN[client]
    assert len(commands(client, file.read_text())[event]) == 1
    assert (held["theme"], held["last"]) == ("dark", [1])

    result = install("--client", client, "--remove")
    assert (result["done"], result["hooks"]["done"]) == ("written", "written")
    assert json.loads(file.read_text()) == before
    result = install("--client", client, "--remove")
    assert result["done"] == "unchanged"
    assert "hooks" not in result


def test_hooks_alone_are_removed_with_both_options(install, home):
    install("--client", "claude-code", "--hooks")
    result = install("--client", "claude-code", "--remove", "--hooks")
    assert (result["file"], result["done"]) == (str(home / ".claude" / "settings.json"), "written")
    assert json.loads((home / ".claude" / "settings.json").read_text()) == {"hooks": {}}
    assert "salience" in json.loads((home / ".claude.json").read_text())["mcpServers"]


def test_a_hook_in_a_group_with_a_foreign_one_is_taken_out_alone(install, home):
    file = home / ".claude" / "settings.json"
    install("--client", "claude-code", "--hooks")
    held = json.loads(file.read_text())
    held["hooks"]["Stop"][0]["hooks"].append({"type": "command", "command": "say 'salience hook'"})
    file.write_text(json.dumps(held))
    install("--client", "claude-code", "--remove")
    left = [
        {
            "hooks": [{"type": "command", "command": "say 'salience hook'"}],
        }
    ]
    assert json.loads(file.read_text()) == {"hooks": {"Stop": left}}


def test_options_are_in_the_command_lines_and_new_ones_replace_them(install, home):
    file = home / ".cursor" / "hooks.json"
    install("--client", "cursor", "--hooks")
    install("--client", "cursor", "--hooks", "--project", "my app", "--user", "ana", before=("--store", "memory.db"))
    line = [COMMAND, "--store", str(Path("memory.db").absolute()), "hook", "afterAgentResponse", "--client", "cursor"]
    found = commands("cursor", file.read_text())
    assert found["afterAgentResponse"] == [[*line, "--project", "my app", "--user", "ana"]]


def test_comments_in_a_file_of_hooks_stay(install, home):
    file = home / ".cursor" / "hooks.json"
    file.parent.mkdir()
    file.write_text('{\n  "version": 1, // of the format\n  "hooks": {\n    /* none yet */\n  }\n}\n')
    install("--client", "cursor", "--hooks")
    text = file.read_text()
    assert "// of the format" in text
    assert "/* none yet */" in text
    assert set(installing.parse_jsonc(text)["hooks"]) == set(EVENTS["cursor"])


@pytest.mark.parametrize("client", ["vscode", "claude-desktop"])
@pytest.mark.parametrize("more", [[], ["--remove"]])
def test_a_client_without_hooks_is_refused(home, client, more):
    result = invoke(["mcp", "install", "--client", client, "--hooks", "--yes", *more])
    assert result.exit_code == 2
    assert "claude-code, codex, cursor" in result.stderr
    assert not list(home.rglob("*.json"))


@pytest.mark.parametrize("text", ["{", "[]", '{"hooks": []}'])
def test_another_file_is_refused_and_nothing_is_written(home, text):
    file = home / ".claude" / "settings.json"
    file.parent.mkdir()
    file.write_text(text)
    result = invoke(["mcp", "install", "--client", "claude-code", "--hooks", "--yes"])
    assert result.exit_code == 2
    assert file.read_text() == text
    assert not (home / ".claude.json").exists()


# --- TOML -------------------------------------------------------------------------------------------------------------

TOML = """\
# mine
model = "gpt-5"  # the best
notify = [
  "say", "[done]"
]

[mcp_servers.other]  # stays
command = "npx"

[mcp_servers.other.env]
KEY = "[mcp_servers.salience]"

[[hooks.Stop]]
[[hooks.Stop.hooks]]
type = "command"
"""
CODEX = installing.CLIENTS["codex"]


def edited(tmp_path, text, name, entry):
    file = tmp_path / "config.toml"
    file.write_bytes(text.encode())
    return installing.planned(CODEX, file, name, entry).after


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_an_entry_in_toml_is_added_replaced_and_removed(tmp_path, end):
    before = TOML.replace("\n", end)
    entry = CODEX.entry(["/bin/salience", "mcp", "serve"], ["SALIENCE_API_KEY"])
    added = edited(tmp_path, before, "salience", entry)
    assert [line for line in before.splitlines() if line not in added.splitlines()] == []
    assert added.count("\n") == added.count(end)
    assert f'env_vars = ["SALIENCE_API_KEY"]{end}{end}[[hooks.Stop]]' in added
    servers = tomllib.loads(added)["mcp_servers"]
    assert servers["salience"] == {
        "command": "/bin/salience", "args": ["mcp", "serve"], "env_vars": ["SALIENCE_API_KEY"],
    }  # fmt: skip
    assert edited(tmp_path, added, "salience", entry) == added
    replaced = edited(tmp_path, added + f"# after{end}[tui]{end}", "salience", CODEX.entry(["/bin/other"]))
    assert tomllib.loads(replaced)["mcp_servers"]["salience"] == {"command": "/bin/other", "args": []}
    assert "# after" in replaced
    assert edited(tmp_path, added, "salience", None) == before


@pytest.mark.parametrize(
    "text",
    [
        'mcp_servers = {other = {command = "npx"}}\n',
        '[mcp_servers]\nsalience = {command = "old", cwd = "/"} # ours\n',
        "mcp_servers.salience.command = 'old'\n",
        "[mcp_servers.salience]\n# ours\ncommand = 'old'\n[tui]\n[mcp_servers.other]\ncommand = 'npx'\n",
    ],
)
def test_an_entry_in_another_form_of_toml_is_edited_in_that_form(tmp_path, text):
    entry = CODEX.entry(["/bin/salience"])
    added = edited(tmp_path, text, "salience", entry)
    assert tomllib.loads(added)["mcp_servers"] == tomllib.loads(text)["mcp_servers"] | {"salience": entry}
    assert ("# ours" in added) == ("# ours" in text)


@pytest.mark.parametrize("text", ["mcp_servers = 1\n", "mcp_servers.salience = 1\n", "[broken\n"])
def test_toml_that_cannot_be_edited_is_refused(tmp_path, text):
    with pytest.raises(InputError):
        edited(tmp_path, text, "salience", CODEX.entry(["/bin/salience"]))


NAMES = some.text(min_size=1, max_size=8).filter(str.isprintable) | some.sampled_from(["salience", "a.b", "x'y", 'q"'])
VALUES = some.dictionaries(some.sampled_from(["command", "cwd"]), some.text(max_size=8), min_size=1)


@given(some.dictionaries(NAMES, VALUES, max_size=3), NAMES, VALUES)
def test_an_edit_of_toml_changes_one_table(tmp_path_factory, others, name, entry):
    others.pop(name, None)
    folder = tmp_path_factory.getbasetemp()
    text = "# mine\nmodel = 'x'\n"
    for other, value in others.items():
        text = edited(folder, text, other, value)
    before = tomllib.loads(text)
    added = edited(folder, text, name, entry)
    assert tomllib.loads(added) == {"model": "x", "mcp_servers": {**others, name: entry}}
    assert tomllib.loads(edited(folder, added, name, None)) == before
    assert "# mine" in added
