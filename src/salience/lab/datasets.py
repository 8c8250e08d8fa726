"""Files of conversations: which format a file has, and its content as values.

```
LoCoMo      {"conversation": {"session_1": [{"speaker", "dia_id", "text"}], "session_1_date_time": ...}, "qa": [...]},
            or a list of such objects
chat list   [{"role" | "speaker" | "name", "content" | "text", "timestamp"?}], or {"messages": [...]}
messages    the same, one JSON object a line
drafts      {"content", "kind"?, "user_id"?, ...}, one JSON object a line
```
The content decides, not the name of the file. Files of lines are read a line at a time, so their size does not
matter; the others are read whole. All are UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal

from salience import checks
from salience.errors import InputError, Words
from salience.lines import KEYS, moment, parsed, parsed_object, refused, said

Format = Literal["locomo", "chat", "messages", "drafts"]
FORMATS: Final[Mapping[Format, str]] = {
    "locomo": "LoCoMo JSON",
    "chat": "a JSON list of messages",
    "messages": "JSONL of messages",
    "drafts": "JSONL of drafts",
}
"""The formats and what they are called in errors."""

TurnId = tuple[int, int]
"""A turn of LoCoMo, `D8:6`, as (8, 6)."""


@dataclass(frozen=True, slots=True)
class Message:
    """A turn of a conversation.

    Attributes:
        speaker: who said it, or the role.
        content: what was said, verbatim.
        timestamp: aware, in UTC; None where the file has none.
        metadata: what else the file says of it.
    """

    speaker: str
    content: str
    timestamp: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Session:
    """Messages in order, under the session they belong to."""

    session_id: str
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """A question on a conversation.

    Attributes:
        question: as it is asked.
        answer: the right one; empty where there is none to give (category 5 asks for what was never said).
        category: 1 multi-hop, 2 temporal, 3 open-domain, 4 single-hop, 5 adversarial.
        evidence: the turns that hold the answer; some name turns that do not exist, some questions have none.
    """

    question: str
    answer: str
    category: int
    evidence: tuple[TurnId, ...]


@dataclass(frozen=True, slots=True)
class Conversation:
    """Sessions in the order in which they were held, and the questions on them."""

    name: str
    sessions: tuple[Session, ...]
    questions: tuple[Question, ...] = ()


_SPEAKER: Final = ("speaker", "name", "role")
"""Keys of who speaks, the most telling first."""
_TEXT: Final = ("content", "text")
_TIME: Final = ("timestamp", "created_at")
_ONLY_DRAFT: Final = KEYS - {"speaker", "content", "created_at", "session_id", "metadata"}

_TURN_ID = re.compile(r"D:?(\d+):(\d+)")
_SESSION = re.compile(r"session_(\d+)")
_DATE = re.compile(r"(\d{1,2}):(\d{2}) ([ap])m on (\d{1,2}) ([A-Z][a-z]+),? (\d{4})")
_MONTHS: Final = "January February March April May June July August September October November December".split()


def detect(path: str | Path) -> Format:
    """Return the format of the file at `path`.

    Raises:
        InputError: the file cannot be read, or is none of `FORMATS`.
        ImportLineError: the file's name says that it is made of lines, and the first is no JSON object.
    """
    path = Path(path)
    lines = list(islice(_lines(path), 1))
    if not lines:
        raise _unknown(path)
    try:
        head = parsed(lines[0][1])
    except ValueError:
        if path.suffix in (".jsonl", ".ndjson"):
            parsed_object(*lines[0])  # raises, with the reason
        head = None  # the first line of a document that spans several
    found = _of_line(head) or _of_document(_document(path) if head is None else head)
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
    if isinstance(value, dict):
        return "chat" if isinstance(value.get("messages"), list) else None
    return "chat" if isinstance(value, list) and _of_line(first) == "messages" else None


def conversations(path: str | Path) -> Iterator[Conversation]:
    """Yield the conversations of a file of any format but drafts.

    Sessions of LoCoMo are called `NAME/session_N`, NAME being the sample's id or the file's stem. A message of the
    other formats belongs to the session that its `session_id` names, else to one called as the file's stem.

    Raises:
        InputError: as from `detect`; a file of drafts; a message that cannot be read, by its place.
        ImportLineError: a line that cannot be read, by its number.
    """
    path = Path(path)
    if detect(path) == "locomo":
        samples = _document(path)
        yield from (_locomo(path, sample) for sample in (samples if isinstance(samples, list) else [samples]))
    else:
        grouped: dict[str, list[Message]] = {}
        for session_id, message in turns(path):
            grouped.setdefault(session_id, []).append(message)
        yield Conversation(path.stem, tuple(Session(name, tuple(held)) for name, held in grouped.items()))


def turns(path: str | Path) -> Iterator[tuple[str, Message]]:
    """Yield (session id, message) for each message of a file of any format but drafts, one line at a time from JSONL.

    Messages without text, such as a call of a tool, are left out. It raises what `conversations` raises.
    """
    path = Path(path)
    found = detect(path)
    if found == "drafts":
        raise InputError(f"file {path}", Words("JSONL of drafts"), "Import it, or give a file of a conversation.")
    if found == "locomo":
        for conversation in conversations(path):
            for session in conversation.sessions:
                yield from ((session.session_id, message) for message in session.messages)
        return
    for session_id, message in _chat(path) if found == "chat" else _message_lines(path):
        if message.content.strip():
            yield session_id or path.stem, message


def questions(path: str | Path) -> tuple[Question, ...]:
    """Return the questions of a LoCoMo file; none for the other formats."""
    if detect(path) != "locomo":
        return ()
    return tuple(question for conversation in conversations(path) for question in conversation.questions)


def turn_ids(written: str) -> tuple[TurnId, ...]:
    """Return the turns that a text names, as numbers: ((8, 6), (9, 17)) for "D8:6; D9:17", (30, 5) for "D:30:05"."""
    return tuple((int(session), int(turn)) for session, turn in _TURN_ID.findall(written))


def _locomo(path: Path, sample: Any) -> Conversation:
    try:
        name = str(sample.get("sample_id") or path.stem)
        held = sample["conversation"]
        numbers = sorted(int(match[1]) for key in held if (match := _SESSION.fullmatch(key)))
        sessions = tuple(_locomo_session(f"{name}/session_{number}", held, number) for number in numbers)
        return Conversation(name, sessions, tuple(_locomo_question(item) for item in sample.get("qa", ())))
    except (KeyError, TypeError, AttributeError) as error:
        reason = Words(f"LoCoMo JSON with {type(error).__name__}: {error}")
        raise InputError(f"file {path}", reason, "Give a file as LoCoMo publishes it.") from None


def _locomo_session(session_id: str, held: Mapping[str, Any], number: int) -> Session:
    start = _locomo_date(f"session_{number}_date_time", held.get(f"session_{number}_date_time"))
    said = [_locomo_turn(turn, start, index) for index, turn in enumerate(held[f"session_{number}"])]
    return Session(session_id, tuple(message for message in said if message.content.strip()))


def _locomo_turn(turn: Mapping[str, Any], start: datetime | None, index: int) -> Message:
    """Return a turn; each is a second after the one before, since only the session has a time."""
    metadata = {key: turn[key] for key in ("dia_id", "img_url", "blip_caption") if key in turn}
    content = turn["text"] or turn.get("blip_caption", "")  # a photo sent without a word says what it shows
    timestamp = None if start is None else start + timedelta(seconds=index)
    return Message(turn["speaker"], content, timestamp, metadata)


def _locomo_date(name: str, written: str | None) -> datetime | None:
    """Return "1:56 pm on 8 May, 2023" as an instant; the data names no zone, so UTC stands for it."""
    if written is None:
        return None
    try:
        hour, minute, half, day, month, year = _DATE.fullmatch(written.strip()).groups()  # type: ignore[union-attr]
        clock = int(hour) % 12 + (12 if half == "p" else 0)
        return datetime(int(year), _MONTHS.index(month) + 1, int(day), clock, int(minute), tzinfo=UTC)
    except (AttributeError, ValueError):
        raise InputError(name, written, "Give a time such as '1:56 pm on 8 May, 2023'.") from None


def _locomo_question(item: Mapping[str, Any]) -> Question:
    evidence = item.get("evidence") or ()
    named = turn_ids(evidence if isinstance(evidence, str) else " ".join(evidence))
    answer = item.get("answer")
    return Question(
        item["question"], "" if answer is None else str(answer), item["category"], tuple(dict.fromkeys(named))
    )


def _chat(path: Path) -> Iterator[tuple[str | None, Message]]:
    document = _document(path)
    for number, item in enumerate(document["messages"] if isinstance(document, dict) else document, 1):
        try:
            yield _message(item)
        except InputError as error:
            raise InputError(f"{error.field} of message {number} in {path}", error.value, error.remedy) from None


def _message_lines(path: Path) -> Iterator[tuple[str | None, Message]]:
    for number, line in _lines(path):
        item = parsed_object(number, line)
        try:
            yield _message(item)
        except InputError as error:
            raise refused(number, error) from None


def _message(item: Any) -> tuple[str | None, Message]:
    """Return the session that a message names, if any, and the message; keys of no other use become metadata."""
    if not isinstance(item, dict):
        raise InputError("value", Words(type(item).__name__), "Give a JSON object with a role and a content.")
    who, what, when = (
        next((key for key in keys if item.get(key) is not None), keys[0]) for keys in (_SPEAKER, _TEXT, _TIME)
    )
    used = {who, what, when, "session_id", "metadata"}
    rest = {key: item[key] for key in item.keys() - used}
    metadata = {**checks.metadata("metadata", item.get("metadata") or {}), **checks.metadata("message", rest)}
    session_id = None if item.get("session_id") is None else checks.name("session_id", item["session_id"])
    speaker, content = checks.name(who, item.get(who)), said(item.get(what))
    return session_id, Message(speaker, content, moment(item.get(when)), metadata)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (number, line) of the lines that are not blank, as they are read."""
    try:
        with path.open("rb") as file:
            yield from ((number, line) for number, line in enumerate(file, 1) if line.strip())
    except OSError as error:
        raise _unreadable(path, error) from None


def _document(path: Path) -> Any:
    try:
        return parsed(path.read_bytes())
    except OSError as error:
        raise _unreadable(path, error) from None
    except ValueError:
        raise _unknown(path) from None


def _unreadable(path: Path, error: OSError) -> InputError:
    return InputError(f"file {path}", Words(error.strerror or type(error).__name__), "Give a file that can be read.")


def _unknown(path: Path) -> InputError:
    return InputError(f"file {path}", Words("its content"), f"Give one of: {', '.join(FORMATS.values())}.")
