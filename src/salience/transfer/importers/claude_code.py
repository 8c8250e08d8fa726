"""Session logs of Claude Code (`~/.claude/projects/*/*.jsonl`): one turn for each message with text.

The format is internal to Claude Code and changes between releases; the fields are those of real logs, as
https://github.com/simonw/claude-code-transcripts reads them. A line has a `type` (`user`, `assistant`, `summary`,
`system` and others), a `message` as in the Messages API, a `uuid`, `sessionId`, `timestamp` and `cwd`. Tools answer in
lines of the type `user`, too. A line `summary` names a session after its last message, `leafUuid`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any, Final

from salience.errors import InputError
from salience.lines import message_text
from salience.records import checks
from salience.transfer.importers.records import (
    Item,
    Problem,
    Record,
    files_in,
    instant,
    json_lines,
    key,
    name,
    names,
    objects,
    original,
    problem,
    turn,
)

SOURCE: Final = "claude-code"
ASIDE: Final = ("isMeta", "isSidechain", "isCompactSummary")
"""Marks of lines that nobody said in this session: notes of the program, agents of a tool, and repetitions."""
COMMANDS: Final = re.compile(r"\s*<(command-|local-command-|bash-|task-notification)")
"""Start of a message that a command of the program wrote."""
REMINDER: Final = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
"""Text that the program adds to what the user wrote."""


def read(file: IO[bytes] | Path) -> Iterator[Item]:
    """Yield the turns and titles of a session, or of every session in a folder."""
    if not isinstance(file, Path) or not file.is_dir():
        yield from _session(file)
        return
    for path in files_in(file, ".jsonl"):
        where = path.relative_to(file).as_posix()
        try:
            for item in _session(path):
                yield (
                    Problem(item.number, f"{where}: {item.reason}", item.remedy) if isinstance(item, Problem) else item
                )
        except OSError as error:
            yield Problem(1, f"{where} cannot be read: {error.strerror}", "Give files that can be read.")


def _session(file: IO[bytes] | Path) -> Iterator[Item]:
    titles: list[tuple[int, dict[str, Any]]] = []
    times: dict[str, datetime | None] = {}
    last: datetime | None = None
    for number, value in json_lines(file):
        try:
            line = objects("line", value)
            if line.get("type") == "summary":
                titles.append((number, line))
                continue
            last = instant("timestamp", line.get("timestamp")) or last
            times[name(line.get("uuid")) or ""] = last
            record = _turn(number, line, last)
        except InputError as error:
            yield problem(number, error)
        else:
            if record is not None:
                yield record
    for number, line in titles:  # a title comes before its messages, whose time is also its own
        try:
            text = checks.text("summary", line.get("summary"))
        except InputError as error:
            yield problem(number, error)
            continue
        leaf = name(line.get("leafUuid")) or ""
        draft = {"content": text, "kind": "context", "created_at": times.get(leaf, last), "metadata": original(line)}
        yield Record(number, {**draft, "key": key(SOURCE, "summary", leaf, text)})


def _turn(number: int, line: dict[str, Any], created: datetime | None) -> Record | None:
    """Return a message as a turn; None for lines without text, and for lines of commands and of other agents."""
    speaker = line.get("type")
    if speaker not in ("user", "assistant") or any(line.get(mark) for mark in ASIDE):
        return None
    message = objects("message", line.get("message"))
    blocks = message.get("content")
    if isinstance(blocks, list):
        blocks = [block if _is_text(block) else {"type": name(_type(block)) or "?"} for block in blocks]
    elif not isinstance(blocks, str):
        raise InputError("content", blocks, "Give text, or a list of blocks.")
    text = REMINDER.sub("", message_text(blocks)).strip()
    if not text or COMMANDS.match(text):
        return None
    uuid = checks.text("uuid", line.get("uuid"))
    session = name(line.get("sessionId")) or uuid
    kept = original({**line, "message": {**message, "content": blocks}})
    tags = names([_folder(line.get("cwd"))])
    return turn(SOURCE, number, uuid, text, speaker=speaker, session=session, created=created, metadata=kept, tags=tags)


def _is_text(block: object) -> bool:
    return isinstance(block, dict) and _type(block) == "text"


def _type(block: object) -> object:
    return block.get("type") if isinstance(block, dict) else None


def _folder(path: object) -> str | None:
    """Return the name of the folder that the session worked in."""
    if not isinstance(path, str):
        return None
    return (PureWindowsPath(path) if "\\" in path else PurePosixPath(path)).name
