"""The facts of new memories in whose texts the rules find none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from salience import text
from salience.deadline import places
from salience.extract.facts import may_state
from salience.ports import Services, Statement
from salience.records import Memory
from salience.remember.asking import asked
from salience.remember.clean import of_home

FEWEST: Final = 3
"""Fewest words of a text that may state a fact: of what, and which."""
_waiting: Final = places()


def with_facts(services: Services, memories: Sequence[Memory]) -> list[Memory]:
    """Return new memories with the facts that the configured reader finds, if there is one and it answers in time.

    It is asked about those without a fact whose text may state one: short and declarative, and no turn of a
    conversation. A memory for which it fails is as it was.
    """
    if services.fact_reader is None:
        return list(memories)
    unread = [memory for memory in memories if memory.fact_key is None]
    found = {memory.id: key for memory, key in zip(unread, facts(services, unread), strict=True) if key is not None}
    return [replace(memory, fact_key=found[memory.id]) if memory.id in found else memory for memory in memories]


def facts(services: Services, memories: Sequence[Memory]) -> list[str | None]:
    """Return the fact that the configured reader finds in each text; None where it finds none or is late."""
    asking = [memory for memory in memories if _may_state(memory)]
    keys = {memory.id: key for memory, key in zip(asking, _read(services, asking), strict=True)}
    return [keys.get(memory.id) for memory in memories]


def _read(services: Services, memories: Sequence[Memory]) -> list[str | None]:
    if services.fact_reader is None:
        return [None] * len(memories)
    statements = [Statement(memory.content, memory.speaker, _user(memory)) for memory in memories]
    keys = asked(statements, services.fact_reader.facts, services.llm_extract_timeout, _waiting)
    read = zip(memories, keys, strict=True)
    return [of_home(key, memory.scope) if isinstance(key, str) else None for memory, key in read]


def _may_state(memory: Memory) -> bool:
    return memory.kind != "turn" and may_state(memory.content) and len(text.words(memory.content)) >= FEWEST


def _user(memory: Memory) -> str | None:
    return memory.scope.user_id if isinstance(memory.scope.user_id, str) else None
