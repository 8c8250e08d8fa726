"""Adds Salience to the configuration file of an MCP client: shows a diff, then writes with a backup."""

from __future__ import annotations

import difflib
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from salience.errors import InputError, Words, shown
from salience.server.mcp import jsonc

PRIVATE: Final = stat.S_IRUSR | stat.S_IWUSR
"""Mode of a new file: entries of other servers may contain their keys."""


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
        variable: format of a reference to an environment variable, with `{}` for its name; None if not supported.
    """

    name: str
    user: Callable[[], Path]
    project: str | None
    key: str = "mcpServers"
    comments: bool = False
    typed: bool = False
    variable: str | None = None

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
        named = {} if self.variable is None else {name: self.variable.format(name) for name in variables}
        kind = {"type": "stdio"} if self.typed else {}
        return {**kind, "command": command[0], "args": list(command[1:]), **({"env": named} if named else {})}


def _applications() -> Path:
    """Return the directory of the user's application settings."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


_ALL: Final = (
    Client(
        name="claude-code",
        user=lambda: Path.home() / ".claude.json",
        project=".mcp.json",
        typed=True,
        variable="${{{}}}",
    ),
    Client(
        name="claude-desktop",
        user=lambda: _applications() / "Claude" / "claude_desktop_config.json",
        project=None,
    ),
    Client(
        name="cursor",
        user=lambda: Path.home() / ".cursor" / "mcp.json",
        project=".cursor/mcp.json",
        comments=True,
        variable="${{env:{}}}",
    ),
    Client(
        name="vscode",
        user=lambda: _applications() / "Code" / "User" / "mcp.json",
        project=".vscode/mcp.json",
        key="servers",
        comments=True,
        typed=True,
        variable="${{env:{}}}",
    ),
)

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
    try:
        config = jsonc.parse(text, client.comments)
    except ValueError as error:
        raise _refused(file, f"is not JSON: {error}") from None
    if not isinstance(config, dict) or not isinstance(config.get(client.key, {}), dict):
        raise _refused(file, f"is not an object with an object under {client.key!r}")
    if entry is None:
        return Change(file, before, jsonc.remove_member(text, client.key, name))
    if config.get(client.key, {}).get(name) == entry:
        return Change(file, before, text)
    return Change(file, before, jsonc.set_member(text, client.key, name, entry))


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
