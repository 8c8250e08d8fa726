"""Values of data sets, and the reading of JSON files and dates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
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
        outdated: refs of memories that were true once and are wrong at the time of the question.
        language: of the evidence; empty if the file has none.
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
    outdated: tuple[str, ...] = ()
    language: str = ""


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

    def texts(self) -> tuple[str, ...]:
        """Return the texts of this list."""
        return tuple(place.text() for place in self.each())

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


LOCOMO: Final = ("%I:%M %p on %d %B, %Y", "%I:%M %p on %d %B %Y")
REALTALK: Final = ("%d.%m.%Y, %H:%M:%S", "%d.%m.%Y, %H:%M", "%d.%m.%Y")
LONGMEMEVAL: Final = (
    "%Y/%m/%d (%a) %H:%M", "%Y/%m/%d %H:%M", "%Y/%m/%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d",
)  # fmt: skip
BEAM: Final = ("%B-%d-%Y", "%b-%d-%Y", "%B %d, %Y", *LONGMEMEVAL, *REALTALK)
"""Formats of times, for `strptime`."""


def instant(place: Place, formats: Sequence[str]) -> datetime | None:
    """Return the time in one of the formats, in UTC; None if there is none. The error shows an example."""
    if place.value is None:
        return None
    found = parse_date(place.text(), formats)
    if found is None:
        raise place.refused(f"a time such as '{datetime(2023, 5, 30, 23, 40, tzinfo=UTC):{formats[0]}}'")
    return found


def parse_date(written: str, formats: Sequence[str]) -> datetime | None:
    """Return the time of a whole text in one of the formats; None if it has none of them. UTC is assumed."""
    for one in formats:
        with suppress(ValueError):
            return datetime.strptime(written.strip(), one).replace(tzinfo=UTC)
    return None
