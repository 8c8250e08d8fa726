"""Files of conversations: which format a file has, and its content as values.

```
LoCoMo             {"conversation": {"session_1": [...]}, "qa": [...]}, or a list of such objects
REALTALK           {"session_1": [...], "qa": [...]}
LongMemEval        [{"haystack_sessions": [[...]], "question": ...}], or such objects a line
BEAM               a folder of chat.json and probing_questions/, or folders of these; rows of the published data set
precisionMemBench  a folder of beliefs.seed.json and retrieval.cases.json
chat list          [{"role" | "speaker" | "name", "content" | "text", "timestamp"?}], or {"messages": [...]}
messages           the same, one JSON object a line
drafts             {"content", "kind"?, "user_id"?, ...}, one JSON object a line
```
The content decides, not the name of the file. Messages by the line are read a line at a time, so their size does not
matter; the others are read whole. All are UTF-8. A module for each of the first five says more of its format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal

from salience.errors import InputError, Words
from salience.evaluate.datasets import beam, chat, locomo, longmemeval, precisionmembench, realtalk
from salience.evaluate.datasets.reading import document, lines
from salience.evaluate.datasets.values import Belief, Conversation, Message, Question, Session
from salience.lines import parsed, parsed_object

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

Format = Literal["locomo", "realtalk", "longmemeval", "beam", "precisionmembench", "chat", "messages", "drafts"]
FORMATS: Final[Mapping[Format, str]] = {
    "locomo": "LoCoMo JSON",
    "realtalk": "REALTALK JSON",
    "longmemeval": "LongMemEval JSON",
    "beam": "BEAM JSON",
    "precisionmembench": "a folder of precisionMemBench",
    "chat": "a JSON list of messages",
    "messages": "JSONL of messages",
    "drafts": "JSONL of drafts",
}
"""The formats and what they are called in errors."""
_REMEDY: Final = f"Give one of: {', '.join(FORMATS.values())}."
CATEGORIES: Final[Mapping[Format, Mapping[str, str]]] = {
    "locomo": locomo.CATEGORIES,
    "realtalk": realtalk.CATEGORIES,
}
"""What the categories of the formats mean that number theirs."""
_READ: Final[Mapping[Format, Callable[[Path, Any], Iterator[Conversation]]]] = {
    "locomo": locomo.read,
    "realtalk": realtalk.read,
    "longmemeval": longmemeval.read,
    "beam": beam.read,
}
"""Formats that are one JSON document, and how it is read."""


def detect(path: str | Path) -> Format:
    """Return the format of the file or folder at `path`.

    Raises:
        InputError: it cannot be read, or is none of `FORMATS`.
        ImportLineError: the file's name says that it is made of lines, and the first is no JSON object.
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
    if any(key in value for key in chat.SPEAKER) and any(key in value for key in chat.TEXT):
        is_draft = not {"role", "name", "text"} & value.keys() and chat.ONLY_DRAFT & value.keys()
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
    if isinstance(value, dict):
        return "chat" if isinstance(value.get("messages"), list) else None
    return "chat" if isinstance(value, list) and _of_line(first) == "messages" else None


def conversations(path: str | Path) -> Iterator[Conversation]:
    """Yield the conversations of a file or folder of any format but drafts.

    Sessions of LoCoMo are called `NAME/session_N`, NAME being the sample's id or the file's stem; those of the other
    formats with questions alike. A message of the rest belongs to the session that its `session_id` names, else to one
    called as the file's stem.

    Raises:
        InputError: as from `detect`; a file of drafts; what cannot be read, by its place.
        ImportLineError: a line that cannot be read, by its number.
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
    """Return the document, or the list of the objects that stand a line each."""
    if path.suffix in (".jsonl", ".ndjson"):
        return [parsed_object(number, line) for number, line in lines(path)]
    return document(path, _REMEDY)


def turns(path: str | Path) -> Iterator[tuple[str, Message]]:
    """Yield (session id, message) for each message of a file of any format but drafts, one line at a time from JSONL.

    Messages without text, such as a call of a tool, are left out. It raises what `conversations` raises.
    """
    path = Path(path)
    found = detect(path)
    if found == "drafts":
        raise InputError(f"file {path}", Words("JSONL of drafts"), "Import it, or give a file of a conversation.")
    if found not in ("chat", "messages"):
        for conversation in conversations(path):
            for session in conversation.sessions:
                yield from ((session.session_id, message) for message in session.messages)
        return
    for session_id, message in chat.chat(path) if found == "chat" else chat.message_lines(path):
        if message.content.strip():
            yield session_id or path.stem, message


def questions(path: str | Path) -> tuple[Question, ...]:
    """Return the questions of a file; none where its format has none."""
    if detect(path) in ("chat", "messages", "drafts"):
        return ()
    return tuple(question for conversation in conversations(path) for question in conversation.questions)


def _unknown(path: Path) -> InputError:
    return InputError(f"file {path}", Words("its content"), _REMEDY, "has an unknown format")
