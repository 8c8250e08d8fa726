"""What every format becomes: conversations of messages, or beliefs, with questions on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from salience.records import Draft, Filter, Scope


@dataclass(frozen=True, slots=True)
class Message:
    """A turn of a conversation.

    Attributes:
        speaker: who said it, or the role.
        content: what was said, verbatim.
        timestamp: aware, in UTC; None where the file has none.
        metadata: what else the file says of it.
        ref: its name within the conversation, by which evidence refers to it; empty where nothing does.
    """

    speaker: str
    content: str
    timestamp: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    ref: str = ""


@dataclass(frozen=True, slots=True)
class Session:
    """Messages in order, under the session they belong to."""

    session_id: str
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Belief:
    """A memory that is no turn of a conversation.

    Attributes:
        ref: its name within the file.
        draft: without `supersedes`, since a memory has its id only once it is stored.
        supersedes: `ref` of the belief that it replaces, which stands before it; else None.
    """

    ref: str
    draft: Draft
    supersedes: str | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A question on a conversation.

    Attributes:
        question: as it is asked.
        answer: the right one; empty where there is none to give.
        category: the format's own, as text: see `CATEGORIES` of the formats that number theirs.
        evidence: refs of the memories that hold the answer; a file may name some that do not exist, or none.
        sessions: ids of the sessions that hold the answer.
        now: when it is asked; None where the file does not say.
        answerable: whether what is stored answers it.
        scope: who asks.
        filter: what the memories of an answer have to be, where others reach the reader in another way.
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
    """What goes into one store, in order, and the questions on it: sessions, or beliefs where there are no turns."""

    name: str
    sessions: tuple[Session, ...]
    questions: tuple[Question, ...] = ()
    beliefs: tuple[Belief, ...] = ()

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of all sessions."""
        return tuple(message for session in self.sessions for message in session.messages)
