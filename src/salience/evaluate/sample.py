"""The sample that ships with the package: an assistant's memory from January to April 2026, and questions on it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from datetime import datetime
from importlib import resources
from typing import Any, Final

from salience.engine import Engine
from salience.lines import draft, parsed_object
from salience.ports import Touch
from salience.records import Draft, Scope, checks

_FOLDER: Final = resources.files("salience.evaluate") / "data"


@dataclass(frozen=True, slots=True)
class SampleMemory:
    """A memory of the sample.

    Attributes:
        ref: its name within the sample.
        draft: without `supersedes`, since a memory has its id only once it is stored.
        supersedes: `ref` of the memory that it replaces, which stands before it; else None.
        recalled: how many recalls have returned it.
        recalled_at: when the last of them was; None without any.
    """

    ref: str
    draft: Draft
    supersedes: str | None
    recalled: int
    recalled_at: datetime | None


@dataclass(frozen=True, slots=True)
class SampleQuestion:
    """A question on the sample.

    Attributes:
        question: as it is asked.
        scope: who asks.
        shows: in a sentence, why profiles answer it differently.
    """

    question: str
    scope: Scope
    shows: str


def memories() -> tuple[SampleMemory, ...]:
    """Return the memories of the sample, in the order in which they are to be stored."""
    lines = (_FOLDER / "memories.jsonl").read_bytes().splitlines()
    return tuple(_memory(number, parsed_object(number, line)) for number, line in enumerate(lines, 1))


def questions() -> tuple[SampleQuestion, ...]:
    """Return the questions of the sample."""
    return tuple(
        SampleQuestion(item["question"], Scope(**item["scope"]), item["shows"]) for item in _questions()["question"]
    )


def first_screen() -> int:
    """Return how many of the questions, the first ones, fit on a screen with their answers."""
    return checks.whole("first_screen", _questions()["first_screen"], 1, len(_questions()["question"]))


def now() -> datetime:
    """Return the instant at which the questions are asked."""
    return checks.instant("now", _questions()["now"])


def _questions() -> dict[str, Any]:
    return tomllib.loads((_FOLDER / "questions.toml").read_text(encoding="utf-8"))


def _memory(number: int, item: dict[str, Any]) -> SampleMemory:
    ref, supersedes = item.pop("ref"), item.pop("supersedes", None)
    recalled = item.pop("recalled", {"count": 0, "last": None})
    last = None if recalled["last"] is None else checks.instant("recalled.last", recalled["last"])
    return SampleMemory(ref, draft(number, item), supersedes, recalled["count"], last)


def store(engine: Engine) -> dict[str, str]:
    """Store the sample, with its counts of recalls, and return the id of each memory by its `ref`."""
    ids: dict[str, str] = {}
    for memory in memories():
        replaced = None if memory.supersedes is None else ids[memory.supersedes]
        made = engine.remember_many([replace(memory.draft, supersedes=replaced)])[0].memory
        ids[memory.ref] = made.id
        if memory.recalled:
            scope = replace(made.scope, session_id=None)
            touch = Touch(scope, (made.id,), accessed_at=memory.recalled_at, access_count=memory.recalled)
            engine.services.store.apply([touch])
    return ids
