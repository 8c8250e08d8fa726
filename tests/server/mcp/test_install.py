"""Our entry in the configuration of a client: what is written, what is left alone, what is refused."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from command_line import invoke
from mcp_servers import COMMAND
from salience import settings
from salience.server.mcp import install as jsonc
from salience.server.mcp.install import command

OTHERS = """\
{
  // the editor's own
  "theme": "dark",
  "mcpServers": {
    "other": { "command": "npx", "args": ["-y", "//not a comment"] }, /* stays */
  },
}
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setattr(sys, "platform", "linux")
    return tmp_path


@pytest.fixture
def install(home):
    """A function from arguments, and an exit code, to the one JSON document that is printed."""

    def install(*arguments, code=0, before=(), json_=True):
        options = ["--json"] if json_ else []
        result = invoke([*before, "mcp", "install", *arguments, *options])
        assert result.exit_code == code, result.output
        return json.loads(result.stdout) if json_ and code == 0 else result

    return install


FILES = {
    ("claude-code", False): ".claude.json",
    ("claude-code", True): "work/.mcp.json",
    ("claude-desktop", False): ".config/Claude/claude_desktop_config.json",
    ("cursor", False): ".cursor/mcp.json",
    ("cursor", True): "work/.cursor/mcp.json",
    ("vscode", False): ".config/Code/User/mcp.json",
    ("vscode", True): "work/.vscode/mcp.json",
}


@pytest.mark.parametrize(("client", "of_a_project"), FILES)
def test_each_client_gets_its_own_file_and_form(install, home, client, of_a_project):
    (home / "work").mkdir()
    where = ["--project-dir", str(home / "work")] if of_a_project else []
    result = install("--client", client, "--yes", *where)
    file = home / FILES[client, of_a_project]
    assert result["file"] == str(file)
    assert (result["done"], result["kept"]) == ("written", None)
    held = json.loads(file.read_text())
    entry = held["servers" if client == "vscode" else "mcpServers"]["salience"]
    assert (entry["command"], entry["args"]) == (COMMAND, ["mcp", "serve"])
    assert entry.get("type") == ("stdio" if client in ("vscode", "claude-code") else None)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_on_a_mac_programs_keep_their_files_elsewhere(install, home, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    result = install("--client", "claude-desktop", "--dry-run")
    assert result["file"] == str(home / "Library/Application Support/Claude/claude_desktop_config.json")


def test_options_before_and_after_the_command_are_entered(install, home, monkeypatch):
    monkeypatch.chdir(home)
    install("--client", "cursor", "--yes", "--project", "parcel", "--user", "alice", "--read-only", "--name", "memory",
            before=["--store", "my.db", "--embedder", "static", "--profile", "cmm"])  # fmt: skip
    entry = json.loads((home / ".cursor/mcp.json").read_text())["mcpServers"]["memory"]
    assert entry["args"] == [
        "--store", str(home / "my.db"), "--embedder", "static", "--profile", "cmm",
        "mcp", "serve", "--project", "parcel", "--user", "alice", "--read-only",
    ]  # fmt: skip


def test_a_store_of_the_settings_is_entered_since_a_client_has_not_their_variables(install, home, monkeypatch):
    monkeypatch.setenv("SALIENCE_URL", str(home / "of-mine.db"))
    install("--client", "cursor", "--yes")
    entry = json.loads((home / ".cursor/mcp.json").read_text())["mcpServers"]["salience"]
    assert entry["args"][:2] == ["--store", str(home / "of-mine.db")]


SECRET_URL = "postgresql://agents:hunter2@db.example.org/memory"


@pytest.mark.parametrize(
    ("client", "named"),
    [("claude-code", "${SALIENCE_URL}"), ("cursor", "${env:SALIENCE_URL}"), ("claude-desktop", None)],
)
def test_a_password_of_a_variable_is_handed_on_and_never_written(install, home, monkeypatch, client, named):
    monkeypatch.setenv("SALIENCE_URL", SECRET_URL)
    result = install("--client", client, "--yes", code=0 if named else 2)
    if named is None:
        assert "config.toml" in result.stderr
        assert "hunter2" not in result.output
        assert not any(home.rglob("claude_desktop_config.json"))
    else:
        text = Path(result["file"]).read_text()
        (entry,) = next(iter(json.loads(text).values())).values()
        assert entry["env"] == {"SALIENCE_URL": named}
        assert "hunter2" not in text


def test_a_password_of_the_config_file_stays_there(install, home):
    settings.config_file().parent.mkdir(parents=True)
    settings.config_file().write_text(f'url = "{SECRET_URL}"\n')
    result = install("--client", "claude-desktop", "--yes")
    assert "hunter2" not in Path(result["file"]).read_text()
    refused = install("--client", "claude-code", "--yes", before=["--store", SECRET_URL], code=2)
    assert "hunter2" not in refused.output


@pytest.mark.parametrize(
    ("client", "env"),
    [
        ("claude-code", {"SALIENCE_API_KEY": "${SALIENCE_API_KEY}"}),
        ("cursor", {"SALIENCE_API_KEY": "${env:SALIENCE_API_KEY}"}),
        ("vscode", {"SALIENCE_API_KEY": "${env:SALIENCE_API_KEY}"}),
        ("claude-desktop", None),
    ],
)
def test_the_key_of_a_server_is_handed_on_and_never_written(install, home, monkeypatch, client, env):
    monkeypatch.setenv("SALIENCE_API_KEY", "sal_secret")
    result = install("--client", client, "--yes", before=["--store", "https://memory.example.org"])
    text = Path(result["file"]).read_text()
    (entry,) = next(iter(json.loads(text).values())).values()
    assert entry.get("env") == env
    assert "--embedder" not in entry["args"]
    assert "sal_secret" not in text


def test_what_is_there_stays_comments_too(install, home):
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    file.write_text(OTHERS)
    result = install("--client", "cursor", "--yes")
    lines = file.read_text().splitlines()
    assert [line for line in OTHERS.splitlines() if line not in lines] == []
    assert set(jsonc.parse_jsonc(file.read_text(), comments=True)["mcpServers"]) == {"other", "salience"}
    assert Path(result["kept"]).read_text() == OTHERS
    assert all(line[0] != "-" or line.startswith("---") for line in result["diff"].splitlines())
    install("--client", "cursor", "--yes", "--remove")
    assert jsonc.parse_jsonc(file.read_text(), comments=True) == jsonc.parse_jsonc(OTHERS, comments=True)
    assert "/* stays */" in file.read_text()


def test_a_second_run_changes_nothing(install, home):
    install("--client", "claude-code", "--yes")
    result = install("--client", "claude-code")
    assert result == {"file": str(home / ".claude.json"), "done": "unchanged", "diff": "", "kept": None}


def test_an_entry_of_the_same_name_is_brought_up_to_date(install, home):
    install("--client", "claude-code", "--yes")
    told = install("--client", "claude-code", "--yes", "--project", "parcel")
    assert json.loads((home / ".claude.json").read_text())["mcpServers"]["salience"]["args"][-1] == "parcel"
    assert told["kept"] is not None


def test_removing_what_is_not_there_changes_nothing(install, home):
    assert install("--client", "vscode", "--remove")["done"] == "unchanged"
    assert not (home / ".config").exists()


def test_a_dry_run_shows_the_change_and_writes_nothing(install, home):
    result = install("--client", "claude-code", "--dry-run")
    assert result["done"] == "would be written"
    assert '+      "command": ' in result["diff"]
    assert not (home / ".claude.json").exists()


def test_without_anybody_to_ask_nothing_is_written(install, home):
    result = install("--client", "claude-code", code=2)
    assert '+      "command": ' in result.stderr
    assert "--yes" in result.stderr.splitlines()[-1]
    assert not (home / ".claude.json").exists()


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1)])
def test_a_person_sees_the_change_and_confirms_it(install, home, monkeypatch, answer, code):
    monkeypatch.setattr("salience.cli.output.is_interactive", lambda: True)
    result = invoke(["mcp", "install", "--client", "claude-code"], input=answer)
    assert result.exit_code == code
    assert '+      "command": ' in result.stderr
    assert (home / ".claude.json").exists() == (code == 0)


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ("claude-code", "nonsense"),
        ("claude-code", "{} // comments are not for it"),
        ("cursor", '{"mcpServers": '),
        ("cursor", '{"mcpServers": []}'),
        ("cursor", "[]"),
        ("cursor", b"\xff\xfe"),
    ],
)
def test_a_file_that_is_something_else_is_refused_and_stays(install, home, client, text):
    file = home / (".claude.json" if client == "claude-code" else ".cursor/mcp.json")
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    before = file.read_bytes()
    result = install("--client", client, "--yes", code=2)
    assert str(file) in result.stderr
    assert file.read_bytes() == before
    assert len(list(file.parent.iterdir())) == len({file, *file.parent.glob("*")})


def test_what_another_wrote_meanwhile_is_not_overwritten(install, home, monkeypatch):
    monkeypatch.setattr("salience.cli.mcp.confirm", lambda *_: (home / ".claude.json").write_text("{}"))
    assert "Run this again" in install("--client", "claude-code", code=2).stderr
    assert (home / ".claude.json").read_text() == "{}"


def test_a_link_stays_one_and_who_may_read_stays(install, home):
    real = home / "dotfiles.json"
    real.write_text("{}")
    real.chmod(0o640)
    (home / ".claude.json").symlink_to(real)
    install("--client", "claude-code", "--yes")
    assert (home / ".claude.json").is_symlink()
    assert "salience" in real.read_text()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


@pytest.mark.parametrize(
    "arguments",
    [
        ["--client", "emacs"],
        ["--client", "claude-desktop", "--project-dir", "/"],
        ["--client", "cursor", "--project-dir", "/nowhere/at/all"],
        ["--client", "cursor", "--project", " "],
        ["--client", "cursor", "--name", ""],
    ],
)
def test_what_cannot_be_is_refused(install, arguments):
    assert install(*arguments, "--yes", code=2).stderr.startswith("salience: ")


def test_the_command_is_that_of_this_installation():
    assert command() == COMMAND


NAMES = some.text(min_size=1, max_size=5)
VALUES = some.recursive(
    some.none() | some.booleans() | some.integers() | NAMES,
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


@given(
    others=some.dictionaries(NAMES, VALUES, max_size=3),
    servers=some.none() | some.dictionaries(NAMES, VALUES, max_size=3),
    name=NAMES,
    value=VALUES,
    indent=some.sampled_from([None, 2, 4, "\t"]),
)
def test_an_edit_changes_one_member_and_no_other(others, servers, name, value, indent):
    held = {**others, **({} if servers is None else {"servers": servers})}
    if servers is None:
        held.pop("servers", None)
    text = json.dumps(held, indent=indent, ensure_ascii=False)
    put = jsonc.set_member(text, "servers", name, value)
    assert json.loads(put) == {**held, "servers": {**held.get("servers", {}), name: value}}
    taken = jsonc.remove_member(put, "servers", name)
    left = {other: item for other, item in held.get("servers", {}).items() if other != name}
    assert json.loads(taken) == {**held, "servers": left}


@pytest.mark.parametrize(
    "text",
    [
        '{\n  "servers": {\n    // first\n    "a": 1, // of a\n    "b": 2, // of b\n    /* last */\n  }\n}\n',
        '{"servers": {"a": {"x": "}, //"}, "b": [1, 2,],},}',
        '// top\n{ /* none */ }',
        '{\r\n\t"servers": {\r\n\t\t// none\r\n\t}\r\n}\r\n',
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["a", "b", "new"])
def test_comments_and_commas_that_nothing_follows_are_no_trouble(text, name):
    held = jsonc.parse_jsonc(text, comments=True)
    put = jsonc.set_member(text, "servers", name, {"command": "x"})
    servers = {**held.get("servers", {}), name: {"command": "x"}}
    assert jsonc.parse_jsonc(put, comments=True) == {**held, "servers": servers}
    taken = jsonc.remove_member(put, "servers", name)
    servers.pop(name)
    assert jsonc.parse_jsonc(taken, comments=True) == {**held, "servers": servers}
    for comment in ("// first", "// of b", "/* last */", "// top", "/* none */", "// none"):
        assert (comment in taken) == (comment in text)


@pytest.mark.parametrize("client", ["cursor", "claude-code"])
def test_a_byte_order_mark_and_line_ends_stay(install, home, client):
    file = home / (".claude.json" if client == "claude-code" else ".cursor/mcp.json")
    file.parent.mkdir(exist_ok=True)
    before = '\ufeff{\r\n  "mcpServers": {\r\n    "other": {}\r\n  }\r\n}\r\n'.encode()
    file.write_bytes(before)
    install("--client", client, "--yes")
    after = file.read_bytes()
    assert after.startswith(b"\xef\xbb\xbf{\r\n")
    assert after.count(b"\n") == after.count(b"\r\n")
    assert {*json.loads(after.decode("utf-8-sig"))["mcpServers"]} == {"other", "salience"}
    install("--client", client, "--yes", "--remove")
    assert file.read_bytes() == before


def test_a_file_of_one_comment_without_a_line_end_is_no_trouble():
    put = jsonc.set_member("// mine", "servers", "a", {"command": "x"})
    assert put.startswith("// mine\n{")
    assert jsonc.parse_jsonc(put, comments=True) == {"servers": {"a": {"command": "x"}}}


def rendered(value, draw, ends):
    """Return a value as JSON with a drawn gap around each of its tokens, and the comments in these."""
    comments = []

    def gap():
        sort = draw(some.sampled_from(["", " ", ends, "line", "block"]))
        if sort not in ("line", "block"):
            return sort
        comments.append(f"// {len(comments)}, }}" if sort == "line" else f"/* {len(comments)}, }} */")
        return comments[-1] + (ends if sort == "line" else "")

    def written(one):
        if not isinstance(one, (dict, list)):
            return json.dumps(one)
        brackets = "{}" if isinstance(one, dict) else "[]"
        items = [
            f"{json.dumps(name)}{gap()}:{gap()}{written(item)}" for name, item in one.items()
        ] if isinstance(one, dict) else [written(item) for item in one]  # fmt: skip
        trailing = "," if items and draw(some.booleans()) else ""
        return brackets[0] + ",".join(f"{gap()}{item}{gap()}" for item in items) + trailing + gap() + brackets[1]

    start = gap()
    return start + written(value) + gap(), comments


@given(
    data=some.data(),
    servers=some.dictionaries(some.sampled_from("abc"), some.just({"command": "x", "args": ["1", "2"]}), max_size=3),
    value=some.sampled_from([{"command": "y", "args": ["1", "3", "4"], "env": {}}, {"command": "x"}, 7]),
    ends=some.sampled_from(["\n", "\r\n"]),
)
def test_comments_stay_wherever_they_stand(data, servers, value, ends):
    held = {"theme": 1, "servers": servers, "last": None}
    text, comments = rendered(held, data.draw, ends)
    assert jsonc.parse_jsonc(text, comments=True) == held
    put = jsonc.set_member(text, "servers", "a", value)
    assert jsonc.parse_jsonc(put, comments=True) == {**held, "servers": {**servers, "a": value}}
    if "a" not in servers:
        assert [one for one in comments if one not in put] == []
    taken = jsonc.remove_member(text, "servers", "b")
    assert jsonc.parse_jsonc(taken, comments=True) == {
        **held, "servers": {name: item for name, item in servers.items() if name != "b"}
    }  # fmt: skip
    if "b" not in servers:
        assert taken == text
    else:
        plain = jsonc._plain(text)
        gone = jsonc._object_at(plain, jsonc._object_at(plain, 0).members["servers"].value).members["b"]
        left = text[: gone.start] + text[gone.end :]
        assert [one for one in comments if one in left and one not in taken] == []
