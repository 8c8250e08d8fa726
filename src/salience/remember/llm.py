"""Optional language models that improve a write: a fact reader and a judge of conflicts.

Both have a time limit. A write never waits longer for them and never fails because of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar, get_args

from salience import text
from salience.deadline import slots, within
from salience.extract.facts import may_state
from salience.ports import Services, Statement
from salience.records import Contradiction, Label, Memory, Receipt
from salience.remember.drafts import project_fact_key, user_of

BATCH: Final = 8
"""Items per request to a model: if a later batch is late, the answers of the earlier ones are still used."""
FEWEST_WORDS: Final = 3
"""Fewest words of a text that may state a fact."""
JUDGED: Final = 10
"""Most conflicts of one memory that are judged: the most similar ones."""
SETTLED: Final = ("same words", "speaker")
"""Evidence that needs no judge: the texts are equal, or the speakers differ."""
LABELS: Final[tuple[Label, ...]] = get_args(Label)
_fact_slots: Final = slots()
_judge_slots: Final = slots()
Item = TypeVar("Item")
Answer = TypeVar("Answer")


def ask(
    items: Sequence[Item],
    model: Callable[[Sequence[Item]], Sequence[Answer | None]],
    seconds: float,
    slots: threading.BoundedSemaphore,
) -> list[Answer | None]:
    """Return the model's answer for each item; None from the first batch on that fails or is late. Never raises.

    `seconds` is the time limit for all items; `slots` limits concurrent requests of this kind.
    """
    until, answers = time.monotonic() + seconds, list[Answer | None]()
    for start in range(0, len(items), BATCH):
        batch = items[start : start + BATCH]
        try:
            found = within(until - time.monotonic(), partial(model, batch), slots)
            answers += [answer for _, answer in zip(batch, found, strict=True)]
        except Exception:  # of any kind: the write continues without the model
            break
    return answers + [None] * (len(items) - len(answers))


def with_facts(services: Services, memories: Sequence[Memory]) -> list[Memory]:
    """Return the memories, with the fact keys that the configured fact reader finds for those without one."""
    unknown = [memory for memory in memories if memory.fact_key is None]
    keys = dict(zip((memory.id for memory in unknown), read_facts(services, unknown), strict=True))
    return [replace(memory, fact_key=keys[memory.id]) if keys.get(memory.id) else memory for memory in memories]


def read_facts(services: Services, memories: Sequence[Memory]) -> list[str | None]:
    """Return the fact key that the configured fact reader finds in each text, else None.

    Only short declarative texts are sent to the reader, and no conversation turns.
    """
    if services.fact_reader is None:
        return [None] * len(memories)
    sent = [
        memory
        for memory in memories
        if memory.kind != "turn" and may_state(memory.content) and len(text.words(memory.content)) >= FEWEST_WORDS
    ]
    statements = [Statement(memory.content, memory.speaker, user_of(memory.scope)) for memory in sent]
    answers = ask(statements, services.fact_reader.facts, services.llm_extract_timeout, _fact_slots)
    keys = {memory.id: key for memory, key in zip(sent, answers, strict=True) if isinstance(key, str)}
    return [project_fact_key(keys.get(memory.id), memory.scope) for memory in memories]


def judged(services: Services, receipts: Sequence[Receipt]) -> list[Receipt]:
    """Return the receipts, with the conflict labels of the configured judge; without an answer, a label stays."""
    judge = services.judge
    if judge is None:
        return list(receipts)
    pairs = {
        (receipt.memory.content, conflict.memory.content): None
        for receipt in receipts
        for conflict in receipt.contradictions[:JUDGED]
        if _is_open(conflict)
    }
    labels = dict(zip(pairs, ask(list(pairs), judge.judge, services.judge_timeout, _judge_slots), strict=True))
    found: list[Receipt] = []
    for receipt in receipts:
        conflicts = list(receipt.contradictions)
        for position, conflict in enumerate(conflicts):
            label = labels.get((receipt.memory.content, conflict.memory.content)) if _is_open(conflict) else None
            if label in LABELS:
                conflicts[position] = replace(conflict, label=label, because=(f"judge: {judge.name}",))
        found.append(replace(receipt, contradictions=tuple(conflicts)))
    return found


def _is_open(conflict: Contradiction) -> bool:
    return not any(reason.partition(":")[0] in SETTLED for reason in conflict.because)
