"""Conversations into stores of their own, each memory known by the ref that evidence names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from salience import compose
from salience.engine import Engine
from salience.evaluate.datasets import Conversation
from salience.evaluate.vectors import OnDisk
from salience.ports import Embedder, Services

WITHOUT_TIMES: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""When a conversation whose messages have no times is taken to have been held."""
_MOMENT: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, eq=False)
class Planted:
    """A conversation in a store.

    Attributes:
        name: of the conversation.
        engine: on the store.
        services: what queries are asked in; it embeds them anew each time, so that the time it takes can be told.
        refs: id of a memory -> its ref.
        sessions: id of a memory -> its session.
        end: a moment after the last message, when a question is asked whose file does not say when.
    """

    name: str
    engine: Engine
    services: Services
    refs: Mapping[str, str]
    sessions: Mapping[str, str]
    end: datetime


@contextmanager
def planted(conversation: Conversation, embedder: Embedder, cache: Path | None) -> Iterator[Planted]:
    """Yield the conversation in a SQLite file of its own, which is gone afterwards.

    Args:
        conversation: what to store; turns one memory each, in their sessions, or beliefs.
        embedder: makes the vectors.
        cache: folder of vectors made before; None for none.
    """
    end = ending(conversation)
    makes = embedder if cache is None else OnDisk(embedder, cache)
    with (
        TemporaryDirectory(prefix="salience-eval-") as folder,
        compose.local(Path(folder) / "store.db", embedder=makes, clock=lambda: end) as engine,
    ):
        refs, sessions = _store(engine, conversation)
        yield Planted(conversation.name, engine, replace(engine.services, embedder=embedder), refs, sessions, end)


def ending(conversation: Conversation) -> datetime:
    """Return a moment after the last thing that a conversation or its beliefs tell of."""
    said = [message.timestamp for message in conversation.messages]
    held = [belief.draft.created_at for belief in conversation.beliefs]
    return max((time for time in (*said, *held) if time is not None), default=WITHOUT_TIMES) + _MOMENT


def _store(engine: Engine, conversation: Conversation) -> tuple[dict[str, str], dict[str, str]]:
    """Store everything and return id -> ref and id -> session."""
    refs, sessions = {}, {}
    for session in conversation.sessions:
        receipts = engine.ingest(session.messages, session_id=session.session_id)
        for receipt, message in zip(receipts, session.messages, strict=True):
            refs[receipt.memory.id], sessions[receipt.memory.id] = message.ref, session.session_id
    ids: dict[str, str] = {}
    for belief in conversation.beliefs:
        older = None if belief.supersedes is None else ids[belief.supersedes]
        made = engine.remember_many([replace(belief.draft, supersedes=older)])[0].memory
        ids[belief.ref] = made.id
        refs[made.id] = belief.ref
    return refs, sessions
