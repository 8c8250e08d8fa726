"""Adds Salience to the configuration files of an MCP client, as a server and as hooks: shows a diff, then writes.

Edits of JSON keep everything else: comments, order, white space, other members. Comments and trailing commas are
replaced by spaces before parsing, so that positions stay the same. tomlkit edits TOML.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shlex
import stat
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from salience.errors import InputError, Words, shown
from salience.loading import require

PRIVATE: Final = stat.S_IRUSR | stat.S_IWUSR
"""Mode of a new file: entries of other servers may contain their keys."""
_SPACE: Final = re.compile(r"\s*")
_NOISE: Final = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.DOTALL)
_LINE_COMMENT: Final = re.compile(r"[ \t]*//[^\r\n]*")
_INDENT: Final = "  "
_BOM: Final = "\ufeff"
_DECODER: Final = json.JSONDecoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """How an agent is told to start commands at its events.

    Attributes:
        user: the file of the user, relative to the folder of the client's own file.
        project: the file in a project's directory.
        events: event -> the other members of its entry, such as the timeout in seconds.
        groups: whether an event has groups, each with a matcher and hooks, instead of hooks.
        version: the number that a new file starts with; None for none.
    """

    user: str
    project: str
    events: Mapping[str, Mapping[str, Any]]
    groups: bool = True
    version: int | None = None

    def entry(self, event: str, command: str) -> dict[str, Any]:
        """Return the entry of an event."""
        extra = dict(self.events[event])
        if not self.groups:
            return {"command": command, **extra}
        matcher = {"matcher": extra.pop("matcher")} if "matcher" in extra else {}
        return {**matcher, "hooks": [{"type": "command", "command": command, **extra}]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """An MCP client.

    Attributes:
        name: as an argument of `salience mcp install`.
        user: returns the configuration file of the user.
        project: the configuration file in a project's directory; None if there is none.
        key: of the object with the servers.
        comments: whether the file can have comments.
        typed: whether an entry has the member `type`.
        variable: format of a reference to an environment variable, with `{}` for its name; None if not supported. In a
            TOML file, variables are listed by name instead.
        hooks: how the client starts commands at its events; None if it does not.
    """

    name: str
    user: Callable[[], Path]
    project: str | None
    key: str = "mcpServers"
    comments: bool = False
    typed: bool = False
    variable: str | None = None
    hooks: Hooks | None = None

    def file(self, folder: Path | None) -> Path:
        """Return the configuration file of a project's directory, or of the user.

        Raises:
            InputError: the directory does not exist, or the client has no such file.
        """
        if folder is None:
            return self.user()
        if self.project is None:
            remedy = f"Omit it: {self.name} has one file for all projects."
            raise InputError("--project-dir", str(folder), remedy, "is not for this client")
        if not folder.is_dir():
            problem = f"{shown(str(folder))} does not exist"
            raise InputError("--project-dir", str(folder), "Give an existing directory.", problem)
        return folder.absolute() / self.project

    def entry(self, command: Sequence[str], variables: Sequence[str] = ()) -> dict[str, Any]:
        """Return the entry of a server that a command starts with some environment variables."""
        if self.variable == NAMES:
            return {
                "command": command[0],
                "args": list(command[1:]),
                **({"env_vars": [*variables]} if variables else {}),
            }
        named = {} if self.variable is None else {name: self.variable.format(name) for name in variables}
        kind = {"type": "stdio"} if self.typed else {}
        return {**kind, "command": command[0], "args": list(command[1:]), **({"env": named} if named else {})}


def _applications() -> Path:
    """Return the directory of the user's application settings."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


NAMES: Final = "{}"
"""The `variable` of a client that takes the names of variables."""
_STARTS: Final = "startup|clear|compact"
"""Not `resume`, where the agent still has the context of the first start."""
_EVENTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "SessionStart": {"matcher": _STARTS, "timeout": 10}, "UserPromptSubmit": {"timeout": 10}, "Stop": {"timeout": 60},
}  # fmt: skip
_ALL: Final = (
    Client(name="claude-code", user=lambda: Path.home() / ".claude.json", project=".mcp.json", typed=True,
           variable="${{{}}}",
           hooks=Hooks(user=".claude/settings.json", project=".claude/settings.local.json", events=_EVENTS)),
    Client(name="codex", user=lambda: Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex") / "config.toml",
           project=".codex/config.toml", key="mcp_servers", variable=NAMES,
           hooks=Hooks(user="hooks.json", project=".codex/hooks.json", events=_EVENTS)),
    Client(name="claude-desktop", user=lambda: _applications() / "Claude" / "claude_desktop_config.json",
           project=None),
    Client(name="cursor", user=lambda: Path.home() / ".cursor" / "mcp.json", project=".cursor/mcp.json",
           comments=True, variable="${{env:{}}}",
           hooks=Hooks(user="hooks.json", project=".cursor/hooks.json", groups=False, version=1,
                       events={"sessionStart": {}, "beforeSubmitPrompt": {}, "afterAgentResponse": {}})),
    Client(name="vscode", user=lambda: _applications() / "Code" / "User" / "mcp.json", project=".vscode/mcp.json",
           key="servers", comments=True, typed=True, variable="${{env:{}}}"),
)  # fmt: skip
CLIENTS: Final[Mapping[str, Client]] = {client.name: client for client in _ALL}
"""All clients by name."""


def command() -> str:
    """Return the absolute path of the command `salience`.

    Raises:
        InputError: the command is not beside the interpreter.
    """
    found = Path(sys.executable).with_name("salience")
    if not found.is_file():
        value = Words("an installation without the command")
        raise InputError("command", value, "Install salience with pip.", "salience is not installed")
    return str(found.absolute())


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a file: its text before (None if it does not exist) and after."""

    file: Path
    before: str | None
    after: str

    @property
    def changes(self) -> bool:
        """Whether the texts differ."""
        return (self.before or "") != self.after

    def diff(self) -> str:
        """Return a unified diff; empty if nothing changes."""
        old, new = (self.before or "").splitlines(), self.after.splitlines()
        name = "/dev/null" if self.before is None else str(self.file)
        return "\n".join(difflib.unified_diff(old, new, name, str(self.file), lineterm=""))


def planned(client: Client, file: Path, name: str, entry: Mapping[str, Any] | None) -> Change:
    """Return the change that adds or replaces the entry of a name, or removes it if `entry` is None.

    Raises:
        InputError: the file is not JSON, or its servers are not an object.
    """
    before = _read(file)
    text = before or ""
    if file.suffix == ".toml":
        return Change(file, before, _with_table(file, text, client.key, name, entry))
    config = _config(file, text, client.key, client.comments)
    if entry is None:
        text = remove_member(text, client.key, name)
    elif config.get(client.key, {}).get(name) != entry:
        text = set_member(text, client.key, name, entry)
    return Change(file, before, text)


def planned_hooks(client: Client, folder: Path | None, command: Callable[[str], str] | None) -> Change:
    """Return the change that adds or replaces our hooks of a client, or removes them if `command` is None.

    `folder` is that of the project, None for the user; `command` returns the command line for an event.

    Raises:
        InputError: the client has no hooks, or the file has another form.
    """
    hooks = client.hooks
    if hooks is None:
        able = ", ".join(name for name, one in CLIENTS.items() if one.hooks is not None)
        raise InputError("--hooks", client.name, f"Choose one of: {able}.", f"is not for {client.name}")
    own = client.file(folder)
    file = own.parent / hooks.user if folder is None else folder.absolute() / hooks.project
    before = _read(file)
    text = before or ""
    if command is not None and not text.strip() and hooks.version is not None:
        text = json.dumps({"version": hooks.version}, indent=2) + "\n"
    there = _config(file, text, "hooks", comments=True).get("hooks", {})
    events = dict.fromkeys([*there, *(hooks.events if command is not None else ())])
    for event in reversed(events):  # a new one is written before the others
        old = there.get(event, [])
        if not isinstance(old, list):
            continue
        new = [entry for entry in map(_foreign, old) if entry is not None]
        if command is not None and event in hooks.events:
            new.append(hooks.entry(event, command(event)))
        if new != old:
            text = set_member(text, "hooks", event, new) if new else remove_member(text, "hooks", event)
    return Change(file, before, text)


def _foreign(entry: Any) -> Any:
    """Return an entry of an event without our hooks; None if nothing else is in it."""
    if not isinstance(entry, dict):
        return entry
    if not isinstance(entry.get("hooks"), list):
        return None if _is_ours(entry) else entry
    others = [hook for hook in entry["hooks"] if not _is_ours(hook)]
    return None if entry["hooks"] and not others else {**entry, "hooks": others}


def _is_ours(hook: Any) -> bool:
    """Return whether a hook starts the command `salience hook`."""
    line = hook.get("command") if isinstance(hook, dict) else None
    try:
        words = shlex.split(line) if isinstance(line, str) else []
    except ValueError:  # quotation marks of another shell
        return False
    return bool(words) and Path(words[0]).stem == "salience" and "hook" in words


def _config(file: Path, text: str, key: str, comments: bool) -> dict[str, Any]:
    """Return the object in a file of JSON; raises `InputError` if it, or the value under `key`, is not an object."""
    try:
        config = parse_jsonc(text, comments)
    except ValueError as error:
        raise _refused(file, f"is not JSON: {error}") from None
    if not isinstance(config, dict) or not isinstance(config.get(key, {}), dict):
        raise _refused(file, f"is not an object with an object under {key!r}")
    return config


def _with_table(file: Path, text: str, key: str, name: str, entry: Mapping[str, Any] | None) -> str:
    """Return TOML with the table `[key.name]` set member by member, or removed if `entry` is None.

    Raises `InputError` if the text is not TOML, or `key` or `key.name` is not a table.
    """
    require("tomlkit", "editing TOML", "server")
    import tomlkit
    from tomlkit.exceptions import TOMLKitError
    from tomlkit.items import Table

    try:
        config = tomlkit.parse(text)
    except TOMLKitError as error:
        raise _refused(file, f"is not TOML: {error}") from None
    servers = config.get(key, {})
    held = servers.get(name, {}) if isinstance(servers, dict) else None
    if not isinstance(held, dict):
        raise _refused(file, f"has no tables under {key}")
    if held == (entry or {}):
        return text
    servers = config.setdefault(key, tomlkit.table(is_super_table=True))
    if entry is None:
        del servers[name]
    elif not held:
        servers[name] = entry
        if isinstance(made := servers[name], Table) and [*config][-1] != key:
            made.add(tomlkit.nl())  # another table follows
    else:
        for member in held.keys() - entry.keys():
            del held[member]
        held.update({member: value for member, value in entry.items() if held.get(member) != value})
    if not servers:
        del config[key]
    return tomlkit.dumps(config).replace("\r\n", "\n").replace("\n", _line_end(text))


def _read(file: Path) -> str | None:
    try:
        return file.read_bytes().decode("utf-8")  # keeps the line ends
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise _refused(file, "is not UTF-8") from None


def _refused(file: Path, problem: str) -> InputError:
    return InputError(str(file), Words("another content"), "Repair the file, or move it away.", problem)


def write(change: Change, now: datetime) -> Path | None:
    """Write a change atomically, and return the backup; None if the file is new.

    Raises:
        InputError: the file was changed since it was read.
    """
    file = change.file.resolve()  # keeps a symbolic link
    if _read(file) != change.before:
        raise InputError(
            str(file), Words("another content"), "Nothing was written. Run this again.", "was changed meanwhile"
        )
    file.parent.mkdir(parents=True, exist_ok=True)
    if change.before is None:
        _replace(file, change.after, PRIVATE)
        return None
    mode = stat.S_IMODE(file.stat().st_mode)
    backup = file.with_name(f"{file.name}.{now:%Y%m%d-%H%M%S}.bak")
    _replace(backup, change.before, mode)
    _replace(file, change.after, mode)
    return backup


def _replace(file: Path, text: str, mode: int) -> None:
    handle, path = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(text.encode("utf-8"))
        Path(path).chmod(mode)
        Path(path).replace(file)
    except BaseException:
        Path(path).unlink(missing_ok=True)
        raise


def _without_comments(text: str) -> str:
    plain = _NOISE.sub(lambda match: " " * len(match[0]) if match[0].startswith("/") else match[0], text)
    return " " + plain[1:] if plain.startswith(_BOM) else plain


def _plain(text: str) -> str:
    """Return the text with byte order mark, comments and trailing commas as spaces."""
    return _NOISE.sub(lambda match: " " if match[0] == "," else match[0], _without_comments(text))


def parse_jsonc(text: str, comments: bool = True) -> Any:
    """Return the value; an empty object for an empty text. Raises `ValueError` if the text is not JSON."""
    plain = _plain(text) if comments else text.removeprefix(_BOM)
    return json.loads(plain) if plain.strip() else {}


class _Member(NamedTuple):
    """Positions of a member: its name, its value, its end."""

    start: int
    value: int
    end: int


class _Object(NamedTuple):
    """Positions of an object and its members."""

    start: int
    end: int
    members: dict[str, _Member]


def _object_at(plain: str, start: int) -> _Object:
    """Return the object that starts at or after a position; raises `ValueError` if there is none."""

    def skip_space(at: int) -> int:
        found = _SPACE.match(plain, at)
        return at if found is None else found.end()

    start = skip_space(start)
    if plain[start] != "{":
        raise ValueError("not an object")
    at, members = skip_space(start + 1), dict[str, _Member]()
    while plain[at] != "}":
        name, colon = _DECODER.raw_decode(plain, at)
        value = skip_space(skip_space(colon) + 1)
        members[name] = _Member(at, value, _DECODER.raw_decode(plain, value)[1])
        at = skip_space(members[name].end)
        at = skip_space(at + 1) if plain[at] == "," else at
    return _Object(start, at + 1, members)


def set_member(text: str, key: str, name: str, value: Any) -> str:
    """Return the text with a member in the object under `key`; a new member, or a new object, comes first.

    Raises:
        ValueError: the text, or the value under the key, is not an object.
    """
    plain, line_end = _plain(text), _line_end(text)
    if not plain.strip():
        head = text if text.endswith("\n") or not text.strip(_BOM) else text + line_end
        return head + _dump({key: {name: value}}, "", text) + line_end
    into = _object_at(plain, 0)
    if key in into.members:
        into = _object_at(plain, into.members[key].value)
    else:
        name, value = key, {name: value}
    if name in into.members:
        member = into.members[name]
        return text[: member.value] + _dump(value, _margin(text, member.start), text) + text[member.end :]
    outer, at, end = _margin(text, into.start), into.start + 1, into.end - 1
    first = next(iter(into.members.values()), None)
    margin = outer + _INDENT if first is None else _margin(text, first.start)
    if (comment := _LINE_COMMENT.match(text, at)) is not None:
        at = comment.end()
    head, comma = json.dumps(name, ensure_ascii=False), "" if first is None else ","
    after = text[at:] if text[at:end].strip() else line_end + outer + text[end:]
    return f"{text[:at]}{line_end}{margin}{head}: {_dump(value, margin, text)}{comma}{after}"


def remove_member(text: str, key: str, name: str) -> str:
    """Return the text without a member of the object under `key`, and without its comma.

    Comments around it stay; an empty line is removed. Raises `ValueError` as `set_member`.
    """
    plain = _plain(text)
    root = _object_at(plain, 0) if plain.strip() else _Object(0, 0, {})
    inner = _object_at(plain, root.members[key].value) if key in root.members else root
    if key not in root.members or name not in inner.members:
        return text
    uncommented, (start, _, end) = _without_comments(text), inner.members[name]
    comma = end + len(uncommented[end:]) - len(uncommented[end:].lstrip())
    if uncommented[comma] == ",":
        before, after = text[:start], text[end:comma] + text[comma + 1 :]
    else:  # the last member, whose comma stands before it if there are others
        comma = uncommented.rfind(",", inner.start, start)
        before, after = text[: max(comma, 0)] + text[comma + 1 : start], text[end:]
    if not before[inner.start + 1 :].strip() and after.lstrip().startswith("}"):
        return before[: inner.start + 1] + after.lstrip()
    left, right = before.rstrip(" \t"), after.lstrip(" \t")
    if left.endswith("\n") and right.startswith(("\n", "\r\n")):
        return left + right.removeprefix("\r").removeprefix("\n")
    return before + after


def _dump(value: Any, margin: str, text: str) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", f"{_line_end(text)}{margin}")


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _margin(text: str, at: int) -> str:
    """Return the white space at the beginning of the line of a position."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]
