"""OpenAI Agents SDK: a session whose items are memories, tools that remember and recall, and recalled instructions."""

from __future__ import annotations

import json
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final, Unpack

from salience import keywords
from salience.errors import InputError, MissingExtraError, NotFoundError, StaleError
from salience.integrations import QUERY, Memory, in_thread, scan
from salience.integrations.files import split
from salience.keywords import CallerKeywords
from salience.rank.profiles import ProfileLike
from salience.records import Memory as Record
from salience.records import checks

try:
    from agents import (
        Agent,
        RunContextWrapper,
        SessionSettings,
        Tool,
        TResponseInputItem,
        default_tool_error_function,
        function_tool,
    )
except ImportError as error:
    raise MissingExtraError("salience.integrations.openai_agents", "openai-agents") from error

ITEM: Final = "agents_item"
"""Field of the metadata with the id of a call of `add_items` and a position; `json` holds the item itself."""
JSON_SIZE: Final = 30_000
"""Characters of JSON in the metadata of one memory, which may double when they are stored."""
TEXT_SIZE: Final = 60_000
"""Bytes of text in one memory."""
UserId = str | Callable[[RunContextWrapper[Any]], str | None] | None
"""The user, or a function from the context of a run to its user."""


class SalienceSession:
    """The conversation history of an agent, each item of it a turn in memory: `Runner.run(..., session=session)`.

    Items come back exactly as they were added. Their texts are recalled like other memories.

    Args:
        memory: a connected memory.
        session_id: the conversation; sessions of different users never mix, even under the same id.
        session_settings: as in the SDK; `limit` is the default number of items that `get_items` returns.
        **where: the scope keywords, such as `user_id`.
    """

    def __init__(
        self,
        memory: Memory,
        session_id: str,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        **where: Unpack[CallerKeywords],
    ) -> None:
        self._memory, self._where = memory, where
        keywords.home("default", where)  # refuses ANY
        self.session_id = checks.name("session_id", session_id)
        if not isinstance(session_settings, SessionSettings):
            session_settings = SessionSettings().resolve(session_settings)  # refuses unknown fields
        self.session_settings: SessionSettings | None = session_settings

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items in order; with a limit, the latest ones."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        if limit is not None and limit <= 0:
            return []
        items = [item for _, item in await in_thread(self._stored) if item is not None]
        return items if limit is None else items[-limit:]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items, all or none."""
        call = uuid.uuid4().hex
        messages = [message for number, item in enumerate(items) for message in _messages(item, f"{call}:{number}")]
        if messages:
            await in_thread(self._memory.ingest, messages, session_id=self.session_id, **self._where)

    async def pop_item(self) -> TResponseInputItem | None:
        """Forget the latest item and return it; None if there is none."""
        return await in_thread(self._pop)

    async def clear_session(self) -> None:
        """Forget all items."""
        await in_thread(self._forget, self._turns())

    def _stored(self) -> list[tuple[list[Record], TResponseInputItem | None]]:
        """Return the memories of each item and the item, in order; None for an item of which a part was forgotten."""
        calls: dict[str, dict[int, list[Record]]] = {}  # the turns of concurrent calls may alternate
        for memory in self._turns():
            call, _, number = memory.metadata[ITEM].partition(":")
            calls.setdefault(call, {}).setdefault(int(number), []).append(memory)
        groups = [items[number] for items in calls.values() for number in sorted(items)]
        return [(memories, _item(memories)) for memories in groups]

    def _turns(self) -> Iterator[Record]:
        found = scan(self._memory, self._where, kinds=("turn",), sessions=(self.session_id,))
        return (memory for memory in found if ITEM in memory.metadata)

    def _pop(self) -> TResponseInputItem | None:
        while stored := self._stored():
            memories, item = stored[-1]
            try:  # of concurrent calls, the one that forgets the first part has popped the item
                self._memory.forget(memories[0].id, if_version=memories[0].version, **self._where)
            except (NotFoundError, StaleError):
                continue
            self._forget(memories[1:])
            if item is not None:
                return item
        return None

    def _forget(self, memories: Any) -> None:
        for memory in [*memories]:
            try:
                self._memory.forget(memory.id, **self._where)
            except NotFoundError:  # another call forgot it
                continue


def memory_tools(
    memory: Memory,
    *,
    user_id: UserId = None,
    limit: int | None = None,
    profile: ProfileLike | None = None,
    **where: Any,
) -> list[Tool]:
    """Return the function tools `remember` and `recall` for `Agent(tools=...)`.

    Args:
        memory: a connected memory.
        user_id: the user, or a function from the run's context to the user, for an agent that serves several.
        limit: maximum number of memories that `recall` returns.
        profile: ranking profile of `recall`.
        **where: further scope keywords.
    """

    @function_tool(failure_error_function=_failure)
    async def remember(ctx: RunContextWrapper[Any], content: str) -> str:  # noqa: D417 - the model does not see ctx
        """Store one fact, preference or decision that will matter in later conversations.

        Args:
            content: a sentence that is clear without this conversation.
        """
        receipt = await in_thread(memory.remember, content, **_scope(user_id, ctx, where))
        return "\n".join(filter(None, (f"{receipt.status}: {receipt.memory.short_id}", receipt.warning)))

    @function_tool(failure_error_function=_failure)
    async def recall(ctx: RunContextWrapper[Any], query: str) -> str:  # noqa: D417
        """Return memories of earlier conversations that answer a question.

        Args:
            query: the question.
        """
        scope = _scope(user_id, ctx, where)
        found = await in_thread(memory.context, query, limit=limit, profile=profile, **scope)
        return found.text or "There are no memories."

    return [remember, recall]


def memory_instructions(
    memory: Memory,
    instructions: str = "",
    *,
    user_id: UserId = None,
    budget_tokens: int = 2000,
    limit: int | None = None,
    profile: ProfileLike | None = None,
    **where: Any,
) -> Callable[[RunContextWrapper[Any], Agent[Any]], Awaitable[str]]:
    """Return `Agent(instructions=...)` that end with the memories for the latest message of the user.

    Args:
        memory: a connected memory.
        instructions: the agent's own instructions.
        user_id: as in `memory_tools`.
        budget_tokens: maximum size of the memories.
        limit: maximum number of memories.
        profile: ranking profile.
        **where: further scope keywords.
    """

    async def recalled(ctx: RunContextWrapper[Any], agent: Agent[Any]) -> str:  # noqa: ARG001 - the SDK passes it
        asked = [_text(item) for item in ctx.turn_input if _role(item) == "user"]
        if not asked or not asked[-1].strip():
            return instructions
        found = await in_thread(
            memory.context,
            _storable(asked[-1])[:QUERY],
            budget_tokens=budget_tokens,
            limit=limit,
            profile=profile,
            **_scope(user_id, ctx, where),
        )
        return "\n\n".join(filter(None, (instructions, found.text)))

    return recalled


def _failure(ctx: RunContextWrapper[Any], error: Exception) -> str:
    """Return the result of a failed tool call; the message of an InputError says how to correct it."""
    return str(error) if isinstance(error, InputError) else default_tool_error_function(ctx, error)


def _scope(user_id: UserId, ctx: RunContextWrapper[Any], where: Mapping[str, Any]) -> dict[str, Any]:
    return {**where, "user_id": user_id(ctx) if callable(user_id) else user_id}


def _messages(item: TResponseInputItem, item_id: str) -> list[dict[str, Any]]:
    """Return the turns that hold an item: one, or several if the item is large."""
    encoded = json.dumps(item)
    pieces = [encoded[start : start + JSON_SIZE] for start in range(0, len(encoded), JSON_SIZE)]
    label = f"({_type(item)})"
    texts = split(_storable(_text(item)), TEXT_SIZE)[: len(pieces)]  # never more: the JSON holds the text
    return [
        {
            "content": texts[number] if number < len(texts) and texts[number].strip() else label,
            "speaker": _role(item) or ("tool" if _type(item).endswith("_output") else "assistant"),
            "metadata": {ITEM: item_id, "part": number, "parts": len(pieces), "json": piece},
            "key": f"{item_id}#{number}",  # equal texts are separate items
        }
        for number, piece in enumerate(pieces)
    ]


def _item(memories: list[Record]) -> TResponseInputItem | None:
    """Return the item that memories hold; None if one is missing."""
    pieces = {memory.metadata["part"]: memory.metadata["json"] for memory in memories}
    if len(pieces) < memories[0].metadata["parts"]:
        return None
    item: TResponseInputItem = json.loads("".join(pieces[number] for number in sorted(pieces)))
    return item


def _role(item: Any) -> str | None:
    return item.get("role") if isinstance(item, Mapping) else None


def _type(item: Any) -> str:
    return str((isinstance(item, Mapping) and item.get("type")) or "message")


def _text(item: Any) -> str:
    """Return the readable text of an item: of a message its text, of a tool call its name and arguments."""
    if isinstance(item, str):
        return item
    if isinstance(item, list):
        return "\n".join(filter(None, map(_text, item)))
    if not isinstance(item, Mapping):
        return ""
    if item.get("type") == "function_call":
        return f"{item.get('name')}({item.get('arguments')})"
    return "\n".join(filter(None, (_text(item.get(field)) for field in ("content", "text", "summary", "output"))))


def _storable(text: str) -> str:
    """Return `text` with U+FFFD for the characters that no memory can hold."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
