"""Providers for the Microsoft Agent Framework: memories for the prompt, and the history of a session."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from salience.errors import InputError, MissingExtraError
from salience.integrations import QUERY, Memory, in_thread, named, scan
from salience.rank.profiles import ProfileLike
from salience.text import content_hash

try:
    from agent_framework import (
        AgentSession,
        ContextProvider,
        HistoryProvider,
        Message,
        SessionContext,
        SupportsAgentRun,
    )
except ImportError as error:
    raise MissingExtraError("salience.integrations.agent_framework", "agent-framework") from error

UserOf = Callable[[str], str | None]
"""From a session id to the id of its user."""
FIELD: Final = "agent_framework"
"""Key of the metadata that holds a message as JSON, without its text if it is all text."""
SPILL: Final = 60_000
"""If the JSON of a message has more characters than this, it is stored as content, where it may be split."""


class SalienceContextProvider(ContextProvider):
    """Adds memories that answer the input to the prompt, and stores the input and the answer as turns.

    Args:
        memory: a connection.
        source_id: name of this provider in the agent.
        user_id: the user, or a function from a session id to its user. None: memories that no user owns.
        agent_id, project: other coordinates of the memories.
        profile: ranks the memories; None for the connection's.
        limit: maximum number of memories in a prompt; None for the profile's.
        budget_tokens: maximum size of the memories in a prompt.
        store: whether to store turns; False if a `SalienceHistoryProvider` of the same agent does.
    """

    DEFAULT_SOURCE_ID = "salience"

    def __init__(
        self,
        memory: Memory,
        *,
        source_id: str = DEFAULT_SOURCE_ID,
        user_id: str | UserOf | None = None,
        agent_id: str | None = None,
        project: str | None = None,
        profile: ProfileLike | None = None,
        limit: int | None = None,
        budget_tokens: int = 2000,
        store: bool = True,
    ) -> None:
        super().__init__(source_id)
        self._turns = _Turns(memory, user_id, agent_id, project)
        self._options: dict[str, Any] = {"profile": profile, "limit": limit, "budget_tokens": budget_tokens}
        self._store = store

    async def before_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Add one message with the memories for the input; nothing if there is no memory."""
        query = "\n".join(message.text for message in context.input_messages if message.text.strip())[:QUERY]
        if not query:
            return
        where = self._turns.where(context.session_id)
        found = await in_thread(self._turns.memory.context, query, **self._options, **where)
        if found.text:
            origins = {hit.memory.scope.session_id for hit in found.hits} - {None, context.session_id}
            message = Message("user", [found.text])
            context.extend_messages(self, [message], origin_session_ids=sorted(map(str, origins)))

    async def after_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Store the messages with text."""
        messages = [*context.input_messages, *(context.response.messages if context.response else ())]
        spoken = [message for message in messages if message.text.strip()]
        if self._store and spoken:
            await in_thread(self._turns.save, context.session_id, spoken)


class SalienceHistoryProvider(HistoryProvider):
    """Stores the messages of each session as turns, and loads them before the next run of the session.

    Args:
        memory: a connection.
        source_id: name of this provider in the agent.
        user_id: the user, or a function from a session id to its user. None: turns that no user owns.
        agent_id, project: other coordinates of the turns.
        **options: those of `HistoryProvider`, such as `load_messages` and `store_outputs`.
    """

    DEFAULT_SOURCE_ID = "salience_history"

    def __init__(
        self,
        memory: Memory,
        *,
        source_id: str = DEFAULT_SOURCE_ID,
        user_id: str | UserOf | None = None,
        agent_id: str | None = None,
        project: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(source_id, **options)
        self._turns = _Turns(memory, user_id, agent_id, project)

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """Return the messages of a session, oldest first."""
        return await in_thread(self._turns.load, session_id)

    async def save_messages(
        self, session_id: str | None, messages: Sequence[Message], *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        """Store messages; a message without an id gets one, and a message that is already stored is left out."""
        if messages:
            await in_thread(self._turns.save, session_id, messages)


class _Turns:
    """The turns of sessions in a memory."""

    def __init__(self, memory: Memory, user_id: str | UserOf | None, agent_id: str | None, project: str | None) -> None:
        self.memory, self.user_id, self.agent_id, self.project = memory, user_id, agent_id, project

    def where(self, session_id: str | None) -> dict[str, Any]:
        if session_id is None:
            raise InputError("session_id", None, "Run the agent with a session: agent.run(..., session=session).")
        user = self.user_id(session_id) if callable(self.user_id) else self.user_id
        return named(user_id=user, agent_id=self.agent_id, project=self.project, session_id=session_id)

    def save(self, session_id: str | None, messages: Sequence[Message]) -> None:
        where = self.where(session_id)
        self.memory.ingest([_as_turn(str(session_id), message) for message in messages], **where)

    def load(self, session_id: str | None) -> list[Message]:
        found = scan(self.memory, self.where(session_id), kinds=("turn",), sessions=(str(session_id),))
        turns = (turn for turn in found if FIELD in turn.metadata)
        messages = [list(parts) for _, parts in groupby(turns, key=lambda turn: turn.metadata["id"])]
        return [_as_message(parts[0].metadata[FIELD], "".join(part.content for part in parts)) for parts in messages]


def _as_turn(session_id: str, message: Message) -> Mapping[str, Any]:
    """Return a message for `ingest`: its text as content, the rest as metadata."""
    if message.message_id is None:
        message.message_id = str(uuid.uuid4())  # as the framework's own providers do; a retry has the same id
    whole, data, content = message.to_json(), message.to_dict(), message.text
    if not content.strip():
        content = f"[{', '.join(item.type for item in message.contents) or 'no content'}]"
    elif len(message.contents) == 1:
        data["contents"][0]["text"] = None
    kept = json.dumps(data)
    if len(kept) > SPILL or "\0" in content:
        content, kept = whole, ""
    identity = content_hash(json.dumps([session_id, whole]))
    metadata = {FIELD: kept, "id": identity}
    return {"content": content, "speaker": message.role, "metadata": metadata, "key": f"agent-framework:{identity}"}


def _as_message(kept: str, content: str) -> Message:
    """Return the message that `_as_turn` was given."""
    if not kept:
        return Message.from_json(content)
    data = json.loads(kept)
    if len(data["contents"]) == 1 and data["contents"][0].get("text", content) is None:
        data["contents"][0]["text"] = content
    return Message.from_dict(data)
