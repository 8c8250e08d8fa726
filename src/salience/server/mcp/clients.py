"""Programs that speak MCP: where each keeps its configuration, and how it writes a server down."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from salience.errors import InputError, Words, shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A program that speaks MCP.

    Attributes:
        name: what it is called here.
        user: returns the file for all that a user does.
        project: the file for one project, from its folder; None if it has none.
        key: of the object that holds the servers.
        comments: whether the file may hold comments.
        typed: whether an entry says that it is a command.
        variable: how an entry names a variable of the environment, with `{}` for its name; None if it cannot.
    """

    name: str
    user: Callable[[], Path]
    project: str | None
    key: str = "mcpServers"
    comments: bool = False
    typed: bool = False
    variable: str | None = None

    def file(self, folder: Path | None) -> Path:
        """Return the configuration file: of a project by its folder, or of the user.

        Raises:
            InputError: no such folder, or a client that has no file for a project.
        """
        if folder is None:
            return self.user()
        if self.project is None:
            remedy = f"Leave it out: {self.name} has one file for all projects."
            raise InputError("--project-dir", str(folder), remedy, "is not for this client")
        if not folder.is_dir():
            raise InputError(
                "--project-dir", str(folder), "Give a folder that is there.", f"{shown(str(folder))} does not exist"
            )
        return folder.absolute() / self.project

    def entry(self, command: Sequence[str], variables: Sequence[str] = ()) -> dict[str, Any]:
        """Return how the client writes down a server that a command starts; the variables are handed on to it."""
        named = {} if self.variable is None else {name: self.variable.format(name) for name in variables}
        kind = {"type": "stdio"} if self.typed else {}
        return {**kind, "command": command[0], "args": list(command[1:]), **({"env": named} if named else {})}


def _applications() -> Path:
    """Return where programs keep what is a user's: the platform's folder."""
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
"""Each client by its name."""


def command() -> str:
    """Return the absolute path of the command `salience` of this installation.

    Raises:
        InputError: it is not beside the interpreter.
    """
    found = Path(sys.executable).with_name("salience")
    if not found.is_file():
        raise InputError(
            "command",
            Words("an installation without the command"),
            "Install salience with pip.",
            "salience is not installed",
        )
    return str(found.absolute())
