"""Our entry in a client's configuration file: the change as a diff, then the writing, with a copy of what was there."""

from __future__ import annotations

import difflib
import os
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from salience.errors import InputError, Words
from salience.server.mcp import jsonc
from salience.server.mcp.clients import Client

PRIVATE: Final = stat.S_IRUSR | stat.S_IWUSR
"""Who may read a file that is new: its owner; entries of other servers may come to hold their keys."""


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of a file: its text before (None: it is not there) and after."""

    file: Path
    before: str | None
    after: str

    @property
    def changes(self) -> bool:
        """Whether anything becomes of it."""
        return (self.before or "") != self.after

    def diff(self) -> str:
        """Return the change as a unified diff; empty where there is none."""
        old, new = (self.before or "").splitlines(), self.after.splitlines()
        name = "/dev/null" if self.before is None else str(self.file)
        return "\n".join(difflib.unified_diff(old, new, name, str(self.file), lineterm=""))


def planned(client: Client, file: Path, name: str, entry: Mapping[str, Any] | None) -> Change:
    """Return the change that puts an entry under a name, in the place of one that is there; None takes it away.

    Raises:
        InputError: the file is not JSON, or what holds the servers is no object.
    """
    before = _read(file)
    text = before or ""
    try:
        held = jsonc.parsed(text, client.comments)
    except ValueError as error:
        raise _refused(file, f"is not JSON: {error}") from None
    if not isinstance(held, dict) or not isinstance(held.get(client.key, {}), dict):
        raise _refused(file, f"does not hold an object, with an object under {client.key!r}")
    if entry is None:
        return Change(file, before, jsonc.without_member(text, client.key, name))
    if held.get(client.key, {}).get(name) == entry:
        return Change(file, before, text)
    return Change(file, before, jsonc.with_member(text, client.key, name, entry))


def _read(file: Path) -> str | None:
    try:
        return file.read_bytes().decode("utf-8")  # line ends stay as they are
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise _refused(file, "is not UTF-8") from None


def _refused(file: Path, problem: str) -> InputError:
    return InputError(str(file), Words("what it holds"), "Mend the file, or move it away.", problem)


def write(change: Change, now: datetime) -> Path | None:
    """Write a change, all or nothing, and return the copy of what was there; None where nothing was.

    Raises:
        InputError: the file was changed since it was read.
    """
    file = change.file.resolve()  # a link stays one
    if _read(file) != change.before:
        raise InputError(
            str(file), Words("a change made meanwhile"), "Nothing was written. Run this again.", "was changed meanwhile"
        )
    file.parent.mkdir(parents=True, exist_ok=True)
    if change.before is None:
        _replace(file, change.after, PRIVATE)
        return None
    mode = stat.S_IMODE(file.stat().st_mode)
    kept = file.with_name(f"{file.name}.{now:%Y%m%d-%H%M%S}.bak")
    _replace(kept, change.before, mode)
    _replace(file, change.after, mode)
    return kept


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
