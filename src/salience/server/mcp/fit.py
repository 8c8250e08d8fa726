"""Answers that fit into the limit of a client: Claude Code takes 25,000 tokens from a tool.

An answer has each memory twice, as text and as structured content. Long texts are cut, and the last memories left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from salience.records import Memory, Page, Recall, Version

BUDGET: Final = 40_000
"""Bytes of an answer, in both forms: ids, times and Chinese have two to three bytes a token, English four."""
SHORT: Final = 500
"""Bytes to count per memory in a short form, besides its text, tags and metadata."""
FIELDS: Final = 1_200
"""The same with all fields."""
HIT: Final = 3_000
"""The same with the parts of its score."""
LEAST: Final = 400
"""Bytes of a text that are always shown."""


def fit(result: Any, *, short: bool) -> tuple[Any, str]:
    """Return a result with the memories that fit, and a line about those that were left out; empty for none.

    A page continues with its cursor after the last memory that it has. `short` says whether the structured content has
    the short form of memories.
    """
    memories = _memories(result)
    fields = SHORT if short else HIT if _is_recall(result) else FIELDS
    kept = _fitting(memories, fields)
    longest = _longest([_size(one) for one in memories[:kept]], (BUDGET - kept * fields) // 2)

    def cut(memory: Memory) -> Memory:
        encoded = memory.content.encode()
        if len(encoded) <= longest:
            return memory
        more = f"; ask for {memory.short_id} alone to read more" if kept > 1 else ""
        shown = encoded[:longest].decode(errors="ignore")
        return replace(memory, content=f"{shown}… [cut: {len(memory.content):,} characters in all{more}]")

    left = len(memories) - kept
    note = f"{left:,} more did not fit into one answer: lower limit, or ask for less at once." if left else ""
    match result:
        case Page() if left:
            shown, last = result.memories[:kept], result.memories[kept - 1].id
            return replace(result, memories=tuple(map(cut, shown)), cursor=last), ""
        case Page():
            return replace(result, memories=tuple(map(cut, result.memories))), ""
        case Recall():
            return _recall(result, kept, cut), note
        case list() if _is_recall(result):
            shown_ones, room = [], kept
            for one in result:
                shown_ones.append(_recall(one, room, cut))
                room = max(0, room - len(one.hits))
            return shown_ones, note
        case tuple() if result and all(isinstance(one, Version) for one in result):
            return tuple(replace(one, memory=cut(one.memory)) for one in result[:kept]), note
    return result, ""


def _is_recall(result: Any) -> bool:
    return isinstance(result, Recall) or (isinstance(result, list) and any(isinstance(one, Recall) for one in result))


def _memories(result: Any) -> list[Memory]:
    """Return the memories of a result, in order."""
    match result:
        case Page():
            return list(result.memories)
        case Recall():
            return [hit.memory for hit in result.hits]
        case list() | tuple():
            inside = [_memories(one) if isinstance(one, Recall) else [getattr(one, "memory", None)] for one in result]
            return [one for some in inside for one in some if isinstance(one, Memory)]
    return []


def _recall(found: Recall, most: int, cut: Callable[[Memory], Memory]) -> Recall:
    hits = (replace(hit, memory=cut(hit.memory)) for hit in found.hits[:most])
    return replace(found, hits=tuple(hits))


def _size(memory: Memory) -> int:
    return len(memory.content.encode())


def _fitting(memories: Sequence[Memory], fields: int) -> int:
    """Return how many of the first memories fit with `LEAST` bytes of their texts; at least one."""
    left = BUDGET
    for place, one in enumerate(memories):
        left -= fields + 2 * min(_size(one), LEAST) + len(str(one.metadata)) + len(str(one.tags))
        if left < 0 and place:
            return place
    return len(memories)


def _longest(sizes: Sequence[int], room: int) -> int:
    """Return the length at which texts of these sizes are cut so that they fill `room`; at least `LEAST`."""
    for done, size in enumerate(sorted(sizes)):
        share = room // (len(sizes) - done)
        if size > share:
            return max(share, LEAST)
        room -= size
    return max(sizes, default=LEAST)
