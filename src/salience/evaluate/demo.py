"""The demo's work: the sample in a store, and its questions asked under every profile."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from salience.compose import local
from salience.engine import Engine
from salience.evaluate import sample
from salience.evaluate.sample import SampleQuestion
from salience.rank import profiles
from salience.records import ANY, Memory, Recall, Stats

LIMIT: Final = 3
"""Hits of each profile when every question is asked."""
LIMIT_OF_A_SCREEN: Final = 2
"""Hits of each profile when the questions of one screen are asked."""
PROFILES: Final = tuple(name for name in profiles.NAMES if name != "precise")
"""The profiles that are shown; `precise` has the order of `salience`."""


@dataclass(frozen=True, slots=True)
class Round:
    """A question of the sample, and the answer of each profile, in the order of `PROFILES`."""

    asked: SampleQuestion
    answers: tuple[Recall, ...]

    @property
    def memories(self) -> tuple[Memory, ...]:
        """The memories of all answers, each once: those of the best ranks first, of equals the earlier profile's."""
        longest = max(map(len, self.answers))
        ranked = [hits[rank].memory for rank in range(longest) for hits in self.answers if rank < len(hits)]
        return tuple({memory.id: memory for memory in ranked}.values())


@dataclass(frozen=True, slots=True)
class Demo:
    """The rounds, the instant at which they were played, how many hits were asked for, and what the store held."""

    now: datetime
    limit: int
    rounds: tuple[Round, ...]
    stats: Stats


def run(folder: Path, embedder: str = "minilm", every: bool = False) -> Demo:
    """Return the demo, played in a new store in `folder`, with every question or those of one screen.

    The clock stands still at the sample's instant and no recall changes anything, so that every day and every order
    of the questions gives the same answers.
    """
    now, limit = sample.now(), LIMIT if every else LIMIT_OF_A_SCREEN
    with local(folder / "demo.db", embedder=embedder, clock=lambda: now) as engine:
        sample.store(engine)
        questions = sample.questions() if every else sample.questions()[: sample.first_screen()]
        rounds = tuple(ask(engine, question, limit) for question in questions)
        everywhere = engine.stats(environment=ANY, project=ANY, user_id=ANY, agent_id=ANY)
    return Demo(now, limit, rounds, everywhere)


def ask(engine: Engine, question: SampleQuestion, limit: int) -> Round:
    """Return a question with the answer of each profile, of at most `limit` hits."""
    scope = question.scope
    where: dict[str, Any] = {
        "environment": scope.environment,
        "project": scope.project,
        "user_id": scope.user_id,
        "agent_id": scope.agent_id,
        "session_id": scope.session_id,
    }
    return Round(
        question,
        tuple(engine.recall(question.question, profile=name, limit=limit, dry_run=True, **where) for name in PROFILES),
    )
