"""The sample in the package: an assistant's memories of January to April 2026, questions on them, and the demo."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from datetime import datetime
from importlib import resources
from pathlib import Path
from typing import Any, Final

from salience.compose import local
from salience.engine import Engine
from salience.lines import COORDINATES, draft, parsed_object
from salience.ports import Touch
from salience.rank import profiles
from salience.records import ANY, Draft, Memory, Recall, Scope, Stats, checks

_FOLDER: Final = resources.files("salience.evaluate") / "data"
LIMIT: Final = 3
"""Hits per profile if every question is asked; one less for one screen."""
PROFILES: Final = tuple(name for name in profiles.NAMES if name != "precise")
"""The profiles of the demo; `precise` ranks as `salience` does."""


@dataclass(frozen=True, slots=True)
class SampleMemory:
    """A memory of the sample.

    Attributes:
        ref: name within the sample.
        draft: without `supersedes`, since ids exist only after storing.
        supersedes: `ref` of the earlier memory that it replaces, or None.
        recalled: access count.
        recalled_at: last access, or None.
    """

    ref: str
    draft: Draft
    supersedes: str | None
    recalled: int
    recalled_at: datetime | None


@dataclass(frozen=True, slots=True)
class SampleQuestion:
    """A question on the sample, the scope to ask it in, and why profiles answer it differently."""

    question: str
    scope: Scope
    shows: str


def memories() -> tuple[SampleMemory, ...]:
    """Return the memories of the sample, in the order of storing."""
    found = []
    for number, line in enumerate((_FOLDER / "memories.jsonl").read_bytes().splitlines(), 1):
        item = parsed_object(number, line)
        ref, supersedes = item.pop("ref"), item.pop("supersedes", None)
        recalled = item.pop("recalled", {"count": 0, "last": None})
        last = None if recalled["last"] is None else checks.aware("recalled.last", recalled["last"])
        found.append(SampleMemory(ref, draft(number, item), supersedes, recalled["count"], last))
    return tuple(found)


def _questions() -> dict[str, Any]:
    return tomllib.loads((_FOLDER / "questions.toml").read_text(encoding="utf-8"))


def questions() -> tuple[SampleQuestion, ...]:
    """Return the questions of the sample."""
    items = _questions()["question"]
    return tuple(SampleQuestion(item["question"], Scope(**item["scope"]), item["shows"]) for item in items)


def first_screen() -> int:
    """Return how many questions fit on a screen with their answers."""
    return checks.whole("first_screen", _questions()["first_screen"], 1, len(_questions()["question"]))


def now() -> datetime:
    """Return the time at which the questions are asked."""
    return checks.aware("now", _questions()["now"])


def store(engine: Engine) -> dict[str, str]:
    """Store the sample with its access counts; return `ref` -> id."""
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


@dataclass(frozen=True, slots=True)
class Round:
    """A question of the sample, and the answer of each profile, in the order of `PROFILES`."""

    asked: SampleQuestion
    answers: tuple[Recall, ...]

    @property
    def memories(self) -> tuple[Memory, ...]:
        """The distinct memories of all answers, by rank, then by profile."""
        longest = max(map(len, self.answers))
        ranked = [hits[rank].memory for rank in range(longest) for hits in self.answers if rank < len(hits)]
        return tuple({memory.id: memory for memory in ranked}.values())


@dataclass(frozen=True, slots=True)
class Demo:
    """The answers of the demo, their time, the limit of hits, and the counts of the store."""

    now: datetime
    limit: int
    rounds: tuple[Round, ...]
    stats: Stats


def demo(file: Path, embedder: str | None = None, every: bool = False) -> Demo:
    """Ask every question, or one screen of them, in a new store in `file`.

    The clock is fixed and recalls are dry runs, so the answers are the same every day.
    """
    current, limit = now(), LIMIT if every else LIMIT - 1
    with local(file, embedder=embedder, clock=lambda: current) as engine:
        store(engine)
        asked = questions() if every else questions()[: first_screen()]
        rounds = []
        for one in asked:
            where: dict[str, Any] = {name: getattr(one.scope, name) for name in COORDINATES}
            recalls = (
                engine.recall(one.question, profile=name, limit=limit, dry_run=True, **where) for name in PROFILES
            )
            rounds.append(Round(one, tuple(recalls)))
        stats = engine.stats(environment=ANY, project=ANY, user_id=ANY, agent_id=ANY)
    return Demo(current, limit, tuple(rounds), stats)
