"""Values of data sets, and the reading of JSON files and dates."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from salience.errors import InputError, Words
from salience.lines import message_text, parsed
from salience.records import Draft, Filter, Scope


@dataclass(frozen=True, slots=True)
class Message:
    """A turn of a conversation.

    Attributes:
        speaker: name or role.
        content: verbatim.
        timestamp: aware, in UTC; None if the file has none.
        metadata: other fields of the file.
        ref: id within the conversation, for evidence; empty without one.
    """

    speaker: str
    content: str
    timestamp: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    ref: str = ""


@dataclass(frozen=True, slots=True)
class Session:
    """The messages of a session, in order."""

    session_id: str
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Belief:
    """A memory that is not a turn of a conversation.

    Attributes:
        ref: id within the file.
        draft: without `supersedes`, since ids exist only after storing.
        supersedes: `ref` of the earlier belief that it replaces, or None.
    """

    ref: str
    draft: Draft
    supersedes: str | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A question on a conversation.

    Attributes:
        question: its text.
        answer: the correct answer, or empty.
        category: the format's own, as text; see `CATEGORIES`.
        evidence: refs of the memories that hold the answer; a file may name refs that do not exist.
        sessions: ids of the sessions that hold the answer.
        now: time of the question; None if the file has none.
        answerable: whether the stored memories answer it.
        scope: to ask in.
        filter: of the memories to return.
    """

    question: str
    answer: str
    category: str
    evidence: tuple[str, ...]
    sessions: tuple[str, ...] = ()
    now: datetime | None = None
    answerable: bool = True
    scope: Scope = Scope()
    filter: Filter = Filter()


@dataclass(frozen=True, slots=True)
class Conversation:
    """The content of one store, in order (sessions, or beliefs if there are no turns), and questions on it."""

    name: str
    sessions: tuple[Session, ...]
    questions: tuple[Question, ...] = ()
    beliefs: tuple[Belief, ...] = ()

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of all sessions."""
        return tuple(message for session in self.sessions for message in session.messages)


_KINDS: Final = {dict: "an object", list: "a list", str: "text", int: "a whole number", bool: "true or false"}
"""Names of JSON types in errors."""


@dataclass(frozen=True, slots=True)
class Place:
    """A value of a JSON file with its place, for errors.

    Attributes:
        path: the file.
        value: None if the file has none.
        key: such as `qa[3].question`; empty for the whole file.
    """

    path: Path
    value: Any
    key: str = ""

    def at(self, key: str) -> Place:
        """Return the value under `key` of this object; its value is None if the key is missing."""
        return Place(self.path, self.object().get(key), f"{self.key}.{key}" if self.key else key)

    def first(self, *keys: str) -> Place:
        """Return the value under the first of `keys` that is set."""
        return self.at(next((key for key in keys if self.object().get(key) is not None), keys[0]))

    def each(self) -> list[Place]:
        """Return the values of this list."""
        return [Place(self.path, value, f"{self.key}[{place}]") for place, value in enumerate(self.list())]

    def object(self) -> dict[str, Any]:
        """Return the value if it is an object."""
        found: dict[str, Any] = self._of(dict)
        return found

    def list(self) -> list[Any]:
        """Return the value if it is a list."""
        found: list[Any] = self._of(list)
        return found

    def text(self) -> str:
        """Return the value if it is text."""
        return str(self._of(str))

    def label(self) -> str:
        """Return the value as text if it is text or a whole number."""
        return str(self.value) if type(self.value) is int else self.text()

    def message_text(self) -> str:
        """Return the text of a message, from text or a list of parts; empty if there is none."""
        try:
            return message_text(self.value)
        except InputError as error:
            raise error.at(f"{self.key} in {self.path}") from None

    def words(self) -> str:
        """Return any value as text; empty for None."""
        return "" if self.value is None else str(self.value)

    def refused(self, expected: str) -> InputError:
        """Return the error of a value of the wrong type; it does not show the value."""
        found = "nothing" if self.value is None else _KINDS.get(type(self.value), type(self.value).__name__)
        problem = "is missing" if self.value is None else None
        return InputError(f"{self.key or 'content'} in {self.path}", Words(found), f"Give {expected}.", problem)

    def _of(self, kind: type) -> Any:
        if type(self.value) is not kind:
            raise self.refused(_KINDS[kind])
        return self.value


def document(path: Path, remedy: str = "Give a JSON document in UTF-8.") -> Any:
    """Return the JSON value of a file.

    Raises:
        InputError: an unreadable file, or invalid JSON (with the `remedy`).
    """
    try:
        return parsed(path.read_bytes())
    except OSError as error:
        raise unreadable(path, error) from None
    except ValueError:
        raise InputError(f"file {path}", Words("its content"), remedy, "is not JSON") from None


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (number, line) of the lines that are not blank."""
    try:
        with path.open("rb") as file:
            yield from ((number, line) for number, line in enumerate(file, 1) if line.strip())
    except OSError as error:
        raise unreadable(path, error) from None


def unreadable(path: Path, error: OSError) -> InputError:
    """Return the error of a file that the system cannot read."""
    reason = Words(error.strerror or type(error).__name__)
    return InputError(f"file {path}", reason, "Give a file that can be read.", f"cannot be read: {reason}")


_MONTHS: Final = "january february march april may june july august september october november december".split()
_CLOCK: Final = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}))?"
_NAMED: Final = r"(?P<month>[A-Za-z]{3,9})"

DAY_AFTER_CLOCK: Final = re.compile(
    rf"{_CLOCK}\s*(?P<half>[ap]m) on (?P<day>\d{{1,2}}) {_NAMED},? (?P<year>\d{{4}})", re.IGNORECASE
)
"""LoCoMo: 1:56 pm on 8 May, 2023."""
DAY_FIRST: Final = re.compile(rf"(?P<day>\d{{1,2}})\.(?P<month>\d{{1,2}})\.(?P<year>\d{{4}})(?:,? +{_CLOCK})?")
"""REALTALK: 29.12.2023, 11:23:21."""
YEAR_FIRST: Final = re.compile(
    rf"(?P<year>\d{{4}})[-/](?P<month>\d{{1,2}})[-/](?P<day>\d{{1,2}})(?: \([A-Za-z]+\))?(?:[ T]{_CLOCK})?"
)
"""LongMemEval: 2023/05/30 (Tue) 23:40."""
MONTH_FIRST: Final = re.compile(rf"{_NAMED}[- ](?P<day>\d{{1,2}}),?[- ](?P<year>\d{{4}})")
"""BEAM: March-15-2024."""


def instant(place: Place, pattern: re.Pattern[str], example: str) -> datetime | None:
    """Return the time in one format; None if there is none.

    Raises:
        InputError: another format; shows the example.
    """
    if place.value is None:
        return None
    found = parse_date(place.text(), pattern)
    if found is None:
        raise place.refused(f"a time such as '{example}'")
    return found


def parse_date(written: str, *patterns: re.Pattern[str]) -> datetime | None:
    """Return the time of a whole text in one of the formats; None if it has none of them. UTC is assumed."""
    for pattern in patterns:
        if match := pattern.fullmatch(written.strip()):
            return _instant(match.groupdict())
    return None


def _instant(parts: dict[str, str | None]) -> datetime | None:
    numbers = {name: int(parts.get(name) or 0) for name in ("year", "day", "hour", "minute", "second")}
    if half := parts.get("half"):
        numbers["hour"] = numbers["hour"] % 12 + (12 if half.lower() == "pm" else 0)
    try:
        return datetime(month=_month(parts["month"] or ""), tzinfo=UTC, **numbers)
    except ValueError:
        return None


def _month(written: str) -> int:
    """Return the number of a month from a number, a name or the start of a name; 0 if unknown."""
    if written.isdigit():
        return int(written)
    return next((number for number, name in enumerate(_MONTHS, 1) if name.startswith(written.lower())), 0)
