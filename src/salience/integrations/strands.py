"""A memory store for the `MemoryManager` of Strands Agents."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from typing import Any, Final

from salience.context import FOOTER, HEADER, UNSURE, entry
from salience.errors import MissingExtraError
from salience.integrations import QUERY, Memory, in_thread, named
from salience.rank.profiles import ProfileLike
from salience.records import Hit
from salience.records.ids import WHOLE_OR_SHORT_ID, short_id
from salience.text import content_hash

try:
    from strands.memory import (
        AddMessagesContext,
        ExtractionConfig,
        InjectionFormatContext,
        InvocationTrigger,
        MemoryEntry,
        MemoryStore,
        SearchOptions,
    )
    from strands.types.content import Message
except ImportError as error:
    raise MissingExtraError("salience.integrations.strands", "strands") from error

DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


class SalienceMemoryStore(MemoryStore):
    """The memories of one user, for the `stores` of a `MemoryManager`.

    Args:
        memory: a connection.
        name: name of the store in the manager and its tools.
        description: description of the store in the manager's tools.
        user_id, agent_id, project: coordinates of the memories.
        session_id: session of the conversation that the manager hands over; None for a new one.
        profile: ranks the memories; None for the connection's.
        max_search_results: maximum number of memories in an answer; None for the profile's.
        writable: whether the manager may write.
        extraction: when the manager hands over the conversation; True: after every run of the agent. False: never.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        name: str = "salience",
        description: str | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        project: str | None = None,
        session_id: str | None = None,
        profile: ProfileLike | None = None,
        max_search_results: int | None = None,
        writable: bool = True,
        extraction: ExtractionConfig | bool = True,
    ) -> None:
        self.name, self.description, self.max_search_results, self.writable = (
            name, description, max_search_results, writable,
        )  # fmt: skip
        self.extraction: ExtractionConfig | bool | None = extraction and writable
        if extraction is True and writable:
            self.extraction = ExtractionConfig(trigger=InvocationTrigger())
        self.session_id = session_id or str(uuid.uuid4())
        self._memory, self._profile = memory, profile
        self._where = named(user_id=user_id, agent_id=agent_id, project=project)

    async def search(self, query: str, options: SearchOptions | None = None) -> list[MemoryEntry]:
        """Return the memories that answer a query, best first."""
        if not query.strip():
            return []
        given = options.get("max_search_results") if options else None
        found = await in_thread(
            self._memory.recall,
            query[:QUERY],
            limit=self.max_search_results if given is None else given,
            profile=self._profile,
            **self._where,
        )
        return [_as_entry(hit) for hit in found]

    async def add(self, content: str, metadata: Mapping[str, Any] | None = None) -> str:
        """Store a fact and return its id; a text that is stored already is not stored again."""
        return (await in_thread(self._memory.remember, content, metadata=metadata, **self._where)).memory.id

    async def add_messages(self, messages: list[Message], context: AddMessagesContext | None = None) -> int:
        """Store messages with text as turns of the session and return their number; a retry stores nothing twice."""
        numbers = context.sequence_numbers if context and context.sequence_numbers else [None] * len(messages)
        turns = []
        for number, message in zip(numbers, messages, strict=True):
            text = "\n".join(block["text"] for block in message["content"] if block.get("text")).strip()
            if text:
                identity = content_hash(json.dumps([self.session_id, number, message["role"], text]))
                turns.append({"content": text, "speaker": message["role"], "key": f"strands:{identity}"})
        if turns:
            await in_thread(self._memory.ingest, turns, session_id=self.session_id, **self._where)
        return len(turns)


def format_memories(context: InjectionFormatContext, **_: Any) -> str:
    """Return memories as `context` quotes them, and say so if none clearly answers.

    For `MemoryManager(stores=[...], injection={"format": format_memories})`.
    """
    if not context.entries:
        return ""
    unsure = all((one.metadata or {}).get("weak") for one in context.entries)
    lines = [_quoted(one.content, one.metadata or {}, unsure) for one in context.entries]
    return "\n".join((UNSURE if unsure else HEADER, *lines, FOOTER))


def _quoted(content: str, metadata: Mapping[str, Any], unsure: bool) -> str:
    """Return a memory as a line of a context; ids and days that other stores wrote in another form are left out."""
    found, day = str(metadata.get("id")), str(metadata.get("date"))[:10]
    return entry(
        content,
        short_id=short_id(found) if WHOLE_OR_SHORT_ID.fullmatch(found) else "no id",
        day=day if DAY.fullmatch(day) else "no date",
        notes=("weak",) if metadata.get("weak") and not unsure else (),
        speaker=str(metadata.get("speaker") or ""),
    )


def _as_entry(hit: Hit) -> MemoryEntry:
    memory = hit.memory
    metadata = {
        "id": memory.id,
        "date": memory.created_at.isoformat(timespec="seconds"),
        "speaker": memory.speaker,
        "score": round(hit.score, 4),
        "confidence": None if hit.confidence is None else round(hit.confidence, 4),
        "weak": hit.weak,
        **memory.metadata,
    }
    return MemoryEntry(content=memory.content, metadata=metadata)
