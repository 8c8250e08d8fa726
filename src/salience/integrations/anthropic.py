"""Claude's memory tool (`memory_20250818`) on Salience: the files that Claude keeps are memories.

The commands, results and error messages are those of the tools in the Anthropic SDK that keep files on disk.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import Any, Final, Unpack

from salience.errors import MissingExtraError, SalienceError, StaleError
from salience.integrations import Memory, in_thread
from salience.integrations.files import ATTEMPTS, Files, size
from salience.keywords import CallerKeywords
from salience.records import Memory as Record
from salience.records import checks

try:
    from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
    from anthropic.types.beta import (
        BetaCacheControlEphemeralParam,
        BetaMemoryTool20250818CreateCommand,
        BetaMemoryTool20250818DeleteCommand,
        BetaMemoryTool20250818InsertCommand,
        BetaMemoryTool20250818RenameCommand,
        BetaMemoryTool20250818StrReplaceCommand,
        BetaMemoryTool20250818ViewCommand,
    )
except ImportError as error:
    raise MissingExtraError("salience.integrations.anthropic", "anthropic") from error

ROOT: Final = "/memories"
MAX_LINES: Final = 999_999
NUMBER_WIDTH: Final = 6
LEVELS: Final = 2
"""Levels of a directory that `view` lists."""


class _Commands:
    """The commands of the memory tool over the files of one scope; every error is a `ToolError`, which Claude reads."""

    def __init__(self, memory: Memory, where: CallerKeywords) -> None:
        self.files = Files(memory, **where)

    def run(self, command: Any) -> str:
        """Execute one command and return its result."""
        method: Callable[[Any], str] = getattr(self, command.command)
        try:
            return method(command)
        except SalienceError as error:
            raise ToolError(str(error)) from error

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        path = _valid(command.path)
        file = None if path == ROOT else self.files.read(path)
        if file is not None:
            lines = file.text.split("\n")
            if len(lines) > MAX_LINES:
                raise ToolError(f"File {command.path} exceeds maximum line limit of 999,999 lines.")
            first, last = 1, len(lines)
            if command.view_range and len(command.view_range) == 2:
                first = max(1, command.view_range[0])
                last = last if command.view_range[1] == -1 else command.view_range[1]
            shown = _numbered(lines[first - 1 : last], first)
            return f"Here's the content of {command.path} with line numbers:\n{shown}"
        below = {head.metadata["path"][len(path) + 1 :]: size(head) for head in self._below(path)}
        if not below and path != ROOT:
            raise ToolError(f"The path {command.path} does not exist. Please provide a valid path.")
        shown_path = command.path.rstrip("/")
        lines = [f"{_size(sum(below.values()))}\t{shown_path}"]
        lines += [f"{_size(count)}\t{shown_path}/{entry}" for entry, count in _entries(below)]
        header = (
            f"Here're the files and directories up to {LEVELS} levels deep in {command.path}, excluding hidden items:"
        )
        return "\n".join([header, *lines])

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        path = _valid(command.path)
        try:
            if path == ROOT or self._below(path):
                raise FileExistsError(path)
            self._check_parents(path)
            self.files.create(path, command.file_text)
        except FileExistsError:
            raise ToolError(f"File {command.path} already exists") from None
        return f"File created successfully at: {command.path}"

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        old, new = command.old_str, command.new_str

        def change(text: str) -> str:
            found = _occurrences(text, old)
            if not found:
                raise ToolError(
                    f"No replacement was performed, old_str `{old}` did not appear verbatim in {command.path}."
                )
            if len(found) > 1:
                numbers = ", ".join(str(text.count("\n", 0, position) + 1) for position in found)
                raise ToolError(
                    f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {numbers}. "
                    "Please ensure it is unique"
                )
            return text.replace(old, new, 1)

        before, after = self._edit(command, change)
        line = before.count("\n", 0, before.find(old))
        start = max(0, line - 2)
        snippet = _numbered(after.split("\n")[start : line + 3], start + 1)
        return (
            f"The memory file has been edited. Here is the snippet showing the change (with line numbers):\n{snippet}"
        )

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        def change(text: str) -> str:
            lines = text.removesuffix("\n").split("\n") if text else []
            if not 0 <= command.insert_line <= len(lines):
                raise ToolError(
                    f"Invalid `insert_line` parameter: {command.insert_line}. "
                    f"It should be within the range [0, {len(lines)}]."
                )
            lines.insert(command.insert_line, command.insert_text.rstrip("\n"))
            changed = "\n".join(lines)
            return changed if changed.endswith("\n") else f"{changed}\n"

        self._edit(command, change)
        return f"The file {command.path} has been edited."

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        path = _valid(command.path)
        if path == ROOT:
            raise ToolError("Cannot delete the /memories directory itself")
        for attempt in range(ATTEMPTS):
            heads = self._at_or_below(path)
            if not heads and not attempt:
                raise ToolError(f"The path {command.path} does not exist")
            try:
                for head in heads:
                    self.files.delete(head, reason="deleted by the memory tool")
            except StaleError:
                continue
            break
        return f"Successfully deleted {command.path}"

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        old, new = _valid(command.old_path), _valid(command.new_path)
        if old == ROOT:
            raise ToolError("Cannot rename the /memories directory itself")
        if new == ROOT or self._at_or_below(new):
            raise ToolError(f"The destination {command.new_path} already exists")
        heads = self._at_or_below(old)
        if not heads:
            raise ToolError(f"The path {command.old_path} does not exist")
        if f"{new}/".startswith(f"{old}/"):
            raise ToolError(f"Cannot move {command.old_path} into itself")
        self._check_parents(new)
        for head in heads:
            target = new + head.metadata["path"].removeprefix(old)
            self.files.rename(head, target, reason="renamed by the memory tool")
        return f"Successfully renamed {command.old_path} to {command.new_path}"

    def clear(self) -> str:
        for head in self._below(ROOT):
            self.files.delete(head, reason="memory cleared")
        return "All memory cleared"

    def _edit(
        self,
        command: BetaMemoryTool20250818StrReplaceCommand | BetaMemoryTool20250818InsertCommand,
        change: Callable[[str], str],
    ) -> tuple[str, str]:
        """Change a file, again if another writer came first; return its texts before and after."""
        path = _valid(command.path)
        for _ in range(ATTEMPTS):
            file = self.files.read(path)
            if file is None:
                if path == ROOT or self._below(path):
                    raise ToolError(f"The path {command.path} is not a file.")
                raise ToolError(f"The path {command.path} does not exist. Please provide a valid path.")
            after = change(file.text)
            try:
                self.files.write(file, after, reason=f"{command.command} by the memory tool")
            except StaleError:
                continue
            return file.text, after
        raise ToolError(f"The file {command.path} is being changed by others. Try again.")

    def _below(self, path: str) -> list[Record]:
        return [head for head in self.files.heads() if head.metadata["path"].startswith(f"{path}/")]

    def _at_or_below(self, path: str) -> list[Record]:
        return [head for head in self.files.heads() if f"{head.metadata['path']}/".startswith(f"{path}/")]

    def _check_parents(self, path: str) -> None:
        while (path := posixpath.dirname(path)) != ROOT:
            if self.files.exists(path):
                raise ToolError(f"The path {path} is a file, not a directory")


class SalienceMemoryTool(BetaAbstractMemoryTool):
    """Claude's memory tool over the memories of one user, for `Anthropic().beta.messages.tool_runner`.

    Args:
        memory: a connected memory.
        cache_control: as in the SDK.
        **where: the scope keywords of the files, such as `user_id`; files of other scopes are not visible.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        cache_control: BetaCacheControlEphemeralParam | None = None,
        **where: Unpack[CallerKeywords],
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._commands = _Commands(memory, where)

    def _run(self, command: Any) -> str:
        """Execute a command of Claude and return its result."""
        return self._commands.run(command)

    view = create = str_replace = insert = delete = rename = _run

    def clear_all_memory(self) -> str:
        """Forget all files."""
        return self._commands.clear()


class AsyncSalienceMemoryTool(BetaAsyncAbstractMemoryTool):
    """`SalienceMemoryTool` for `AsyncAnthropic`; commands run in worker threads."""

    def __init__(
        self,
        memory: Memory,
        *,
        cache_control: BetaCacheControlEphemeralParam | None = None,
        **where: Unpack[CallerKeywords],
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._commands = _Commands(memory, where)

    async def _run(self, command: Any) -> str:
        return await in_thread(self._commands.run, command)

    view = create = str_replace = insert = delete = rename = _run

    async def clear_all_memory(self) -> str:
        """Forget all files."""
        return await in_thread(self._commands.clear)


def _valid(path: str) -> str:
    """Return the normal form of a path within /memories; raise ToolError for any other."""
    checks.text("path", path)
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise ToolError(f"Path must start with /memories, got: {path}")
    normal = posixpath.normpath(path)
    if normal != ROOT and not normal.startswith(f"{ROOT}/"):
        raise ToolError(f"Path {path} would escape /memories directory")
    return normal


def _occurrences(text: str, part: str) -> list[int]:
    """Return the positions of `part` in `text`, overlapping ones included."""
    found, position = [], text.find(part)
    while position >= 0:
        found.append(position)
        position = text.find(part, position + 1)
    return found


def _numbered(lines: list[str], first: int) -> str:
    return "\n".join(f"{number:>{NUMBER_WIDTH}}\t{line}" for number, line in enumerate(lines, first))


def _entries(below: dict[str, int]) -> list[tuple[str, int]]:
    """Return the visible entries of a directory with their bytes, from the relative paths and bytes of its files."""
    entries: dict[str, int] = {}
    for path, count in below.items():
        steps = path.split("/")
        for depth, step in enumerate(steps[:LEVELS], 1):
            if step.startswith("."):
                break
            name = "/".join(steps[:depth]) + ("/" if depth < len(steps) else "")
            entries[name] = entries.get(name, 0) + count
    return sorted(entries.items(), key=lambda entry: entry[0].rstrip("/").split("/"))


def _size(count: int) -> str:
    """Return a number of bytes as `0B`, `1.5K` or `2M`."""
    power = min(max(count.bit_length() - 1, 0) // 10, 3)
    scaled = count / 1024**power
    return f"{int(scaled)}{'BKMG'[power]}" if scaled == int(scaled) else f"{scaled:.1f}{'BKMG'[power]}"
