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
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, Final

from salience.lines import message_text
from salience.records import checks
from salience.transfer.importers.records import (
    File,
    Item,
    Record,
    checked,
    each,
    instant,
    json_items,
    known,
    name,
    names,
    original,
    turn,
)

ASIDE: Final = ("isMeta", "isSidechain", "isCompactSummary", "isApiErrorMessage")
"""Marks of lines that nobody said in this session: notes and errors of the program, agents of a tool, repetitions."""
SYNTHETIC: Final = "<synthetic>"
"""Model of answers that the program wrote."""
COMMANDS: Final = re.compile(r"\s*<(command-|local-command-|bash-|task-notification)")
"""Start of a message that a command of the program wrote."""
ADDED: Final = re.compile(r"(?s:<system-reminder>.*?</system-reminder>)|(?m:^\[Request interrupted by user[^\]\n]*\]$)")
"""Text that the program adds to a message of the user."""


def read(file: File) -> Iterator[Item]:
    """Yield the turns of a session, and then its titles."""
    titles: list[tuple[int, dict[str, Any]]] = []
    times: dict[str, datetime | None] = {}
    last: datetime | None = None

    def convert(number: int, line: dict[str, Any]) -> Record | None:
        nonlocal last
        if line.get("type") == "summary":  # comes before its messages, whose time is also its own
            titles.append((number, line))
            return None
        last = instant("timestamp", line.get("timestamp")) or last
        times[name(line.get("uuid")) or ""] = last
        return _turn(number, line, last)

    def title(number: int, line: dict[str, Any]) -> Record:
        text = checks.text("summary", line.get("summary"))
        leaf = name(line.get("leafUuid")) or ""
        draft = {"content": text, "kind": "context", "created_at": times.get(leaf, last), "metadata": original(line)}
        return Record(number, {**draft, "key": f"summary:{leaf}:{text}"})

    yield from each(known(json_items(file), "Claude Code", "type"), convert)
    yield from each(titles, title)


def _turn(number: int, line: dict[str, Any], created: datetime | None) -> Record | None:
    """Return a message as a turn; None for lines without text, and for lines of commands and of other agents."""
    speaker = line.get("type")
    if speaker not in ("user", "assistant") or any(line.get(mark) for mark in ASIDE):
        return None
    message = checked("message", line.get("message"), dict)
    if message.get("model") == SYNTHETIC:
        return None
    blocks = message.get("content")
    if not isinstance(blocks, str):
        blocks = checked("content", blocks, list)
        blocks = [block if _type(block) == "text" else {"type": name(_type(block)) or "?"} for block in blocks]
    text = ADDED.sub("", message_text(blocks)).strip()
    if not text or COMMANDS.match(text):
        return None
    uuid = checks.text("uuid", line.get("uuid"))
    session = name(line.get("sessionId")) or uuid
    kept = original({**line, "message": {**message, "content": blocks}})
    tags = names([_folder(line.get("cwd"))])
    return turn(number, uuid, text, speaker=speaker, session=session, created=created, metadata=kept, tags=tags)


def _type(block: object) -> object:
    return block.get("type") if isinstance(block, dict) else None


def _folder(path: object) -> str | None:
    """Return the name of the folder that the session worked in."""
    if not isinstance(path, str):
        return None
    return (PureWindowsPath(path) if "\\" in path else PurePosixPath(path)).name
