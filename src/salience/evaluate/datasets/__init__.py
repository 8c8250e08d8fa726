"""Files of conversations: detect the format, and read the content.

```
LoCoMo             {"conversation": {"session_1": [...]}, "qa": [...]}, or a list of such objects
REALTALK           {"session_1": [...], "qa": [...]}
LongMemEval        [{"haystack_sessions": [[...]], "question": ...}], or such objects a line
BEAM               a folder of chat.json and probing_questions/, or folders of these; rows of the published data set
precisionMemBench  a folder of beliefs.seed.json and retrieval.cases.json
everyday           {"user": ..., "now": ..., "memories": [...], "questions": [...]}; {"fillers", "pairs"}
chat list          [{"role" | "speaker" | "name", "content" | "text", "timestamp"?}], or {"messages": [...]}
messages           the same, one JSON object a line
drafts             {"content", "kind"?, "user_id"?, ...}, one JSON object a line
```
The content decides the format, not the name of the file. Messages in lines are read one at a time; the others as a
whole. All files are UTF-8. The modules of the first six describe their formats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal

from salience.errors import InputError, Words, wrong_type
from salience.evaluate.datasets import beam, everyday, locomo, longmemeval, precisionmembench, realtalk
from salience.evaluate.datasets.loader import Belief, Conversation, Message, Question, Session, document, lines
from salience.lines import KEYS, message_text, moment, parsed, parsed_object, refused
from salience.records import checks

__all__ = [
    "CATEGORIES",
    "FORMATS",
    "Belief",
    "Conversation",
    "Format",
    "Message",
    "Question",
    "Session",
    "conversations",
    "detect",
    "questions",
    "turns",
]

Format = Literal[
    "locomo", "realtalk", "longmemeval", "beam", "precisionmembench", "everyday", "chat", "messages", "drafts"
]
FORMATS: Final[Mapping[Format, str]] = {
    "locomo": "LoCoMo JSON",
    "realtalk": "REALTALK JSON",
    "longmemeval": "LongMemEval JSON",
    "beam": "BEAM JSON",
    "precisionmembench": "a folder of precisionMemBench",
    "everyday": "everyday JSON",
    "chat": "a JSON list of messages",
    "messages": "JSONL of messages",
    "drafts": "JSONL of drafts",
}
"""Format -> its name in errors."""
_REMEDY: Final = f"Give one of: {', '.join(FORMATS.values())}."
CATEGORIES: Final[Mapping[Format, Mapping[str, str]]] = {
    "locomo": locomo.CATEGORIES,
    "realtalk": realtalk.CATEGORIES,
}
"""Format -> category number -> its meaning."""
_READ: Final[Mapping[Format, Callable[[Path, Any], Iterator[Conversation]]]] = {
    "locomo": locomo.read,
    "realtalk": realtalk.read,
    "longmemeval": longmemeval.read,
    "beam": beam.read,
    "everyday": everyday.read,
}
"""Formats of one JSON document -> reader."""

_SPEAKER: Final = ("speaker", "name", "role")
"""Keys of the speaker, the most specific first."""
_TEXT: Final = ("content", "text")
_TIME: Final = ("timestamp", "created_at")
_ONLY_DRAFT: Final = KEYS - {"speaker", "content", "created_at", "session_id", "metadata"}
"""Keys of a draft that a message does not have."""


def detect(path: str | Path) -> Format:
    """Return the format of the file or folder at `path`.

    Raises:
        InputError: unreadable, or of no known format.
        ImportLineError: a file named as lines, whose first line is not a JSON object.
    """
    path = Path(path)
    if path.is_dir() and precisionmembench.fits(path):
        return "precisionmembench"
    if path.is_dir() and beam.folders(path):
        return "beam"
    first = list(islice(lines(path), 1))
    if not first:
        raise _unknown(path)
    try:
        head = parsed(first[0][1])
    except ValueError:
        if path.suffix in (".jsonl", ".ndjson"):
            parsed_object(*first[0])  # raises, with the reason
        head = None  # the first line of a document that spans several
    found = _of_line(head) or _of_document(document(path, _REMEDY) if head is None else head)
    if found is None:
        raise _unknown(path)
    return found


def _of_line(value: object) -> Format | None:
    if not isinstance(value, dict) or _of_document(value):
        return None
    if any(key in value for key in _SPEAKER) and any(key in value for key in _TEXT):
        is_draft = not {"role", "name", "text"} & value.keys() and _ONLY_DRAFT & value.keys()
        return "drafts" if is_draft else "messages"
    return "drafts" if "content" in value else None


def _of_document(value: object) -> Format | None:
    first = value[0] if isinstance(value, list) and value else value
    if isinstance(first, dict) and isinstance(first.get("conversation"), dict):
        return "locomo"
    if isinstance(first, dict) and longmemeval.KEY in first:
        return "longmemeval"
    if realtalk.fits(value):
        return "realtalk"
    if beam.fits(value):
        return "beam"
    if everyday.fits(value):
        return "everyday"
    if isinstance(value, dict):
        return "chat" if isinstance(value.get("messages"), list) else None
    return "chat" if isinstance(value, list) and _of_line(first) == "messages" else None


def conversations(path: str | Path) -> Iterator[Conversation]:
    """Yield the conversations of a file or folder of any format but drafts.

    In formats with questions, sessions are named `NAME/session_N`, with the sample's id or the file's stem as NAME. In
    the others, a message belongs to its `session_id`, else to a session named as the file's stem.

    Raises:
        InputError: as from `detect`; a file of drafts; an invalid value, by its place.
        ImportLineError: an invalid line, by its number.
    """
    path = Path(path)
    found = detect(path)
    if found == "precisionmembench":
        yield precisionmembench.read_folder(path)
    elif path.is_dir():
        yield from map(beam.read_folder, beam.folders(path))
    elif found in _READ:
        yield from _READ[found](path, _objects(path) if found == "longmemeval" else document(path, _REMEDY))
    else:
        grouped: dict[str, list[Message]] = {}
        for session_id, message in turns(path):
            grouped.setdefault(session_id, []).append(message)
        yield Conversation(path.stem, tuple(Session(name, tuple(held)) for name, held in grouped.items()))


def _objects(path: Path) -> Any:
    """Return the document, or the list of the objects in its lines."""
    if path.suffix in (".jsonl", ".ndjson"):
        return [parsed_object(number, line) for number, line in lines(path)]
    return document(path, _REMEDY)


def turns(path: str | Path) -> Iterator[tuple[str, Message]]:
    """Yield (session id, message) of a file of any format but drafts and everyday; reads JSONL one line at a time.

    Messages without text, such as tool calls, are skipped. Raises as `conversations` does.
    """
    path = Path(path)
    found = detect(path)
    if found == "everyday":
        raise InputError(f"file {path}", Words(FORMATS[found]), "Evaluate it, or give a file of a conversation.")
    if found == "drafts":
        raise InputError(f"file {path}", Words("JSONL of drafts"), "Import it, or give a file of a conversation.")
    if found not in ("chat", "messages"):
        for conversation in conversations(path):
            for session in conversation.sessions:
                yield from ((session.session_id, message) for message in session.messages)
        return
    for session_id, message in _chat(path) if found == "chat" else _message_lines(path):
        if message.content.strip():
            yield session_id or path.stem, message


def questions(path: str | Path) -> tuple[Question, ...]:
    """Return the questions of a file; empty if its format has none."""
    if detect(path) in ("chat", "messages", "drafts"):
        return ()
    return tuple(question for conversation in conversations(path) for question in conversation.questions)


def _unknown(path: Path) -> InputError:
    remedy = f"{_REMEDY} If another system wrote it, name that: salience import --from NAME."
    return InputError(f"file {path}", Words("its content"), remedy, "has an unknown format")


def _chat(path: Path) -> Iterator[tuple[str | None, Message]]:
    """Yield (session or None, message) from a JSON list of messages, or `{"messages": [...]}`."""
    held = document(path)
    for number, item in enumerate(held["messages"] if isinstance(held, dict) else held, 1):
        try:
            yield _message(item)
        except InputError as error:
            raise error.at(f"{error.field} of message {number} in {path}") from None


def _message_lines(path: Path) -> Iterator[tuple[str | None, Message]]:
    """Yield (session or None, message) from each line."""
    for number, line in lines(path):
        item = parsed_object(number, line)
        try:
            yield _message(item)
        except InputError as error:
            raise refused(number, error) from None


def _message(item: Any) -> tuple[str | None, Message]:
    """Return the session of a message, if any, and the message; unknown keys become metadata."""
    if not isinstance(item, dict):
        raise wrong_type("value", item, "Give a JSON object with a role and a content.")
    who, what, when = (
        next((key for key in keys if item.get(key) is not None), keys[0]) for keys in (_SPEAKER, _TEXT, _TIME)
    )
    used = {who, what, when, "session_id", "metadata"}
    rest = {key: item[key] for key in item.keys() - used}
    metadata = {**checks.metadata("metadata", item.get("metadata") or {}), **checks.metadata("message", rest)}
    session_id = None if item.get("session_id") is None else checks.name("session_id", item["session_id"])
    speaker, content = checks.name(who, item.get(who)), message_text(item.get(what))
    return session_id, Message(speaker, content, moment(item.get(when)), metadata)
