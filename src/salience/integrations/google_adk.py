"""A memory service for Google's Agent Development Kit (ADK)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from salience.errors import InputError, MissingExtraError, NotFoundError
from salience.integrations import QUERY, Memory, in_thread
from salience.rank.profiles import ProfileLike
from salience.records import Hit
from salience.text import content_hash

try:
    from google.adk.events.event import Event
    from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.adk.sessions.session import Session
    from google.genai import types
except ImportError as error:
    raise MissingExtraError("salience.integrations.google_adk", "google-adk") from error

NO_SESSION: Final = "adk:no-session"
"""Session of events that are added without one."""


class SalienceMemoryService(BaseMemoryService):
    """The memories of the users of ADK apps: `app_name` is the project, `user_id` the user.

    Args:
        memory: a connection.
        profile: ranks the memories; None for the connection's.
        limit: maximum number of memories in an answer; None for the profile's.
        weak: whether an answer includes memories that may well not answer the query.
    """

    def __init__(
        self, memory: Memory, *, profile: ProfileLike | None = None, limit: int | None = None, weak: bool = True
    ) -> None:
        self._memory, self._profile, self._limit, self._weak = memory, profile, limit, weak

    async def add_session_to_memory(self, session: Session) -> None:
        """Store the events of a session that have text as turns; events that are already stored are left out."""
        await self.add_events_to_memory(
            app_name=session.app_name, user_id=session.user_id, events=session.events, session_id=session.id
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store the events that have text as turns, with `custom_metadata` as their metadata."""
        _check(app_name, user_id)
        session_id = session_id or NO_SESSION
        turns = list(_as_turns(events, session_id, custom_metadata or {}))
        if turns:
            await in_thread(self._memory.ingest, turns, project=app_name, user_id=user_id, session_id=session_id)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store memories as facts, all or none; a memory with a known id replaces the former one.

        The `ttl` of the metadata, such as `30d`, is the time to live.
        """
        _check(app_name, user_id)
        drafts = [_as_draft(entry, {**(custom_metadata or {}), **entry.custom_metadata}) for entry in memories]
        await in_thread(self._memory.remember_many, drafts, project=app_name, user_id=user_id)

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Return the memories that answer a query, best first, with their confidence and `verdict` in the metadata."""
        _check(app_name, user_id)
        if not query.strip():
            return SearchMemoryResponse()
        hits = await in_thread(
            self._memory.recall,
            query[:QUERY],
            limit=self._limit,
            profile=self._profile,
            project=app_name,
            user_id=user_id,
        )
        return SearchMemoryResponse(memories=[_as_entry(hit) for hit in hits if self._weak or not hit.weak])

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Forget a memory of this user; its versions are kept. Any other id raises NotFoundError."""
        _check(app_name, user_id)
        if memory_id:
            await in_thread(self._forget, app_name, user_id, memory_id)

    def _forget(self, app_name: str, user_id: str, memory_id: str) -> None:
        memory = self._memory.get(memory_id, project=app_name, user_id=user_id)
        if (memory.scope.project, memory.scope.user_id) != (app_name, user_id):  # shared with other users or apps
            raise NotFoundError(memory_id, "memory_id")
        self._memory.forget(memory.id, project=app_name, user_id=user_id)


def _check(app_name: str, user_id: str) -> None:
    """Raise InputError for an app or user that would match the memories of others."""
    for field, value in (("app_name", app_name), ("user_id", user_id)):
        if not value or value == "*":
            raise InputError(field, value, "Name one.")


def _text(content: types.Content | None) -> str:
    """Return the text of a content without the thoughts of the model."""
    parts = (content.parts if content else None) or []
    return "\n".join(part.text for part in parts if part.text and not part.thought).strip()


def _as_turns(events: Sequence[Event], session_id: str, metadata: Mapping[str, object]) -> Iterator[dict[str, Any]]:
    for event in events:
        if not (text := _text(event.content)):
            continue
        identity = json.dumps([session_id, event.id or [event.author, event.timestamp], text])
        yield {
            "content": text,
            "speaker": event.author or None,
            "timestamp": event.timestamp,
            "metadata": {**metadata, "adk_event": event.id},
            "key": f"adk:{content_hash(identity)}",
        }


def _as_draft(entry: MemoryEntry, metadata: Mapping[str, Any]) -> dict[str, Any]:
    if not (text := _text(entry.content)):
        raise InputError("memories", None, "Give each memory a content with text.")
    created = None
    if entry.timestamp:
        created = datetime.fromisoformat(entry.timestamp)
        created = created if created.tzinfo else created.replace(tzinfo=UTC)
    return {
        "content": text,
        "ttl": metadata.get("ttl"),
        "metadata": {name: value for name, value in metadata.items() if name != "ttl"},
        "speaker": entry.author or None,
        "created_at": created,
        "fact_key": f"adk:{content_hash(entry.id)}"
        if entry.id
        else None,  # a later text of this id replaces the former
        "key": f"adk:{content_hash(json.dumps([entry.id, text]))}" if entry.id else None,
    }


def _as_entry(hit: Hit) -> MemoryEntry:
    memory = hit.memory
    judged = {"score": hit.score, "confidence": hit.confidence, "weak": hit.weak}
    return MemoryEntry(
        id=memory.id,
        content=types.Content(
            role="user" if memory.speaker in (None, "user") else "model", parts=[types.Part(text=memory.content)]
        ),
        author=memory.speaker,
        timestamp=memory.created_at.isoformat(),
        custom_metadata={**memory.metadata, **judged},
    )
