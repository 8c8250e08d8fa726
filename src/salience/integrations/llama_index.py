"""A memory block and a chat store for LlamaIndex's `Memory`."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from pydantic import PrivateAttr

from salience.context import BOOTSTRAP, pack, split, tokens
from salience.errors import MissingExtraError
from salience.integrations import QUERY, Memory, in_thread, named, scan
from salience.rank.profiles import ProfileLike
from salience.records import Memory as Stored
from salience.text import content_hash

try:
    from llama_index.core.base.llms.types import ChatMessage, TextBlock
    from llama_index.core.memory import BaseMemoryBlock
    from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus
except ImportError as error:
    raise MissingExtraError("salience.integrations.llama_index", "llama-index") from error

FIELD: Final = "llama_index"
"""Key of the metadata that holds a message of the chat store as JSON."""
SPILL: Final = 60_000
"""If the JSON of a message has more characters than this, it is stored as content, where it may be split."""
NO_SESSION: Final = "llama-index:no-session"
"""Session of messages that are put into a block without one."""


class SalienceMemoryBlock(BaseMemoryBlock[str]):
    """A block with the memories that answer the latest message. It stores the messages that the chat history drops.

    Args:
        memory: a connection.
        name: name of the block in the prompt.
        user_id, agent_id, project: coordinates of the memories.
        profile: ranks the memories; None for the connection's.
        limit: maximum number of memories in a prompt; None for the profile's.
        budget_tokens: maximum size of the memories in a prompt.
        **fields: the other fields of a block: `description`, `priority`, `accept_short_term_memory`. Set the last to
            False if the messages are in a `SalienceChatStore`.
    """

    _memory: Memory = PrivateAttr()
    _where: dict[str, Any] = PrivateAttr()
    _options: dict[str, Any] = PrivateAttr()
    _budget: int = PrivateAttr()

    def __init__(
        self,
        memory: Memory,
        *,
        name: str = "salience",
        user_id: str | None = None,
        agent_id: str | None = None,
        project: str | None = None,
        profile: ProfileLike | None = None,
        limit: int | None = None,
        budget_tokens: int = 2000,
        **fields: Any,
    ) -> None:
        super().__init__(name=name, **fields)
        self._memory = memory
        self._where = named(user_id=user_id, agent_id=agent_id, project=project)
        self._budget = budget_tokens
        self._options = {"profile": profile, "limit": limit, "budget_tokens": budget_tokens}

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        """Return the memories that answer the latest message of the user, without the messages in the prompt itself."""
        said = [text for message in messages or () if message.role == "user" and (text := _text(message)).strip()]
        if not said:
            return ""
        found = await in_thread(self._memory.context, said[-1][:QUERY], **self._options, **self._where)
        session_id = block_kwargs.get("session_id")
        hits = [hit for hit in found.hits if not _is_active(hit.memory, session_id)]
        recalled = [hit for hit in hits if hit.memory.kind != BOOTSTRAP]
        return pack(hits, self._budget, unsure=bool(recalled) and all(hit.weak for hit in recalled))[1]

    async def _aput(self, messages: list[ChatMessage]) -> None:
        """Store messages as turns; the same text of the same speaker is stored once for each session."""
        for session_id, group in groupby(messages, key=lambda one: one.additional_kwargs.get("session_id")):
            where = {**self._where, "session_id": session_id or NO_SESSION}
            turns = []
            for message in group:
                if text := _text(message).strip():
                    identity = content_hash("\x1f".join((where["session_id"], message.role.value, text)))
                    turns.append({"content": text, "speaker": message.role.value, "key": f"llama-index:{identity}"})
            if turns:
                await in_thread(self._memory.ingest, turns, **where)

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """Return the content without its last memories, or None if no memory is left."""
        header, memories, footer = split(content)
        while memories and tokens_to_truncate > 0:
            tokens_to_truncate -= tokens(memories.pop())
        return "\n".join((header, *memories, footer)) if memories else None


class SalienceChatStore(AsyncDBChatStore):
    """Stores each message of a chat as a turn of its session, at once; deleted messages are forgotten, not erased.

    Args:
        memory: a connection.
        user_id, agent_id, project: coordinates of the turns.
    """

    _memory: Memory = PrivateAttr()
    _where: dict[str, Any] = PrivateAttr()

    def __init__(
        self, memory: Memory, *, user_id: str | None = None, agent_id: str | None = None, project: str | None = None
    ) -> None:
        super().__init__()
        self._memory = memory
        self._where = named(user_id=user_id, agent_id=agent_id, project=project)

    async def get_messages(
        self,
        key: str,
        status: MessageStatus | None = MessageStatus.ACTIVE,
        limit: int | None = None,
        offset: int | None = None,
    ) -> list[ChatMessage]:
        """Return the messages of a session with a status (None: any), oldest first."""
        start = offset or 0
        end = None if limit is None else start + limit
        return [_as_message(parts) for parts in (await in_thread(self._turns, key, status))[start:end]]

    async def count_messages(self, key: str, status: MessageStatus | None = MessageStatus.ACTIVE) -> int:
        """Return the number of messages of a session with a status."""
        return len(await in_thread(self._turns, key, status))

    async def add_message(self, key: str, message: ChatMessage, status: MessageStatus = MessageStatus.ACTIVE) -> None:
        """Store a message."""
        await self.add_messages(key, [message], status)

    async def add_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Store messages, all or none."""
        if messages:
            turns = [_as_turn(message, status) for message in messages]
            await in_thread(self._memory.ingest, turns, session_id=key, **self._where)

    async def set_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Replace all messages of a session; those that it begins with already stay."""
        old = await in_thread(self._turns, key, None)
        same = 0
        while same < min(len(old), len(messages)) and _is(old[same], messages[same], status):
            same += 1
        await in_thread(self._forget, old[same:])
        await self.add_messages(key, messages[same:], status)

    async def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Forget the message at a position of the session, from 0, and return it; None if there is none."""
        found = (await in_thread(self._turns, key, None))[idx : idx + 1] if idx >= 0 else []
        await in_thread(self._forget, found)
        return _as_message(found[0]) if found else None

    async def delete_messages(self, key: str, status: MessageStatus | None = None) -> None:
        """Forget the messages of a session with a status (None: any)."""
        await in_thread(self._forget, await in_thread(self._turns, key, status))

    async def delete_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Forget the oldest n active messages of a session and return them."""
        oldest = (await in_thread(self._turns, key, MessageStatus.ACTIVE))[:n]
        await in_thread(self._forget, oldest)
        return [_as_message(parts) for parts in oldest]

    async def archive_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Archive the oldest n active messages of a session and return them."""
        oldest = (await in_thread(self._turns, key, MessageStatus.ACTIVE))[:n]
        await in_thread(self._archive, oldest)
        return [_as_message(parts) for parts in oldest]

    async def get_keys(self) -> list[str]:
        """Return the ids of the sessions that have messages."""
        turns = await in_thread(self._listed)
        return list(dict.fromkeys(turn.scope.session_id for turn in turns if turn.scope.session_id is not None))

    def _listed(self, *sessions: str) -> list[Stored]:
        """Return the turns of sessions (none: of all) that belong to this user, agent and project themselves."""
        found = scan(self._memory, self._where, kinds=("turn",), sessions=sessions)
        return [turn for turn in found if FIELD in turn.metadata]

    def _turns(self, key: str, status: MessageStatus | None) -> list[list[Stored]]:
        """Return the turns of each message of a session: several for a message that was split."""
        wanted = (turn for turn in self._listed(key) if status is None or turn.metadata["status"] == status.value)
        return [list(parts) for _, parts in groupby(wanted, key=lambda turn: turn.metadata["id"])]

    def _forget(self, messages: Sequence[Sequence[Stored]]) -> None:
        for turn in (turn for parts in messages for turn in parts):
            self._memory.forget(turn.id, **self._where)

    def _archive(self, messages: Sequence[Sequence[Stored]]) -> None:
        for turn in (turn for parts in messages for turn in parts):
            metadata = {**turn.metadata, "status": MessageStatus.ARCHIVED.value}
            self._memory.update(turn.id, metadata=metadata, **self._where)


def _text(message: ChatMessage) -> str:
    return "\n".join(block.text for block in message.blocks if isinstance(block, TextBlock))


def _as_turn(message: ChatMessage, status: MessageStatus) -> Mapping[str, Any]:
    """Return a message for `ingest`: its text as content, the whole as metadata."""
    content, kept = _text(message), message.model_dump_json()
    if len(kept) > SPILL or "\0" in content:
        content, kept = kept, ""
    elif not content.strip():
        content = f"[{', '.join(block.block_type for block in message.blocks) or 'no content'}]"
    metadata = {FIELD: kept, "id": uuid.uuid4().hex, "status": status.value}
    return {"content": content, "speaker": message.role.value, "metadata": metadata}


def _as_message(parts: Sequence[Stored]) -> ChatMessage:
    """Return the message that `_as_turn` was given."""
    kept = parts[0].metadata[FIELD] or "".join(part.content for part in parts)
    return ChatMessage.model_validate_json(kept)


def _is_active(turn: Stored, session_id: str | None) -> bool:
    """Return whether the chat history of a session has a turn."""
    return turn.scope.session_id == session_id and turn.metadata.get("status") == MessageStatus.ACTIVE.value


def _is(parts: Sequence[Stored], message: ChatMessage, status: MessageStatus) -> bool:
    return parts[0].metadata["status"] == status.value and _as_message(parts) == message
