"""Memories about tea and about a boat, and functions that run `reflect` and list its results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from salience.engine import Engine
from salience.errors import EmbedderError
from salience.maintain.reflect import reflect
from salience.records import ANY, Memory, ReflectReport, Scope

TEA = ("Ana drinks green tea at breakfast", "Ana buys her tea in Porto", "Tea keeps Ana awake")
BOAT = ("The boat leaks at the stern", "Ana painted the boat", "A new sail for the boat")
MORE = "Ana has tea with lemon"
COSINES = {**dict(zip(TEA, (0.9, 0.95, 0.85), strict=True)), MORE: 0.92, **dict.fromkeys(BOAT, 0.1)}
AXES = {**dict.fromkeys((*TEA, MORE), 1), **dict.fromkeys(BOAT, 2)}
EVERYWHERE = Scope(environment=ANY, project=ANY, user_id=ANY, agent_id=ANY)
ANA = Scope(user_id="ana")


def store(memory: Engine, texts: Sequence[str] = TEA, **values: Any) -> list[Memory]:
    return [memory.remember(text, **{"user_id": "ana", **values}).memory for text in texts]


def run(memory: Engine, scope: Scope = EVERYWHERE, **options: Any) -> ReflectReport:
    return reflect(memory.services, scope, **options)


def counts(report: ReflectReport) -> tuple[int, int, int, int]:
    return len(report.made), len(report.renewed), len(report.retired), report.unchanged


def versions(memory: Engine) -> list[tuple[str, int]]:
    found = memory.services.store.scan(EVERYWHERE, forgotten=True, versions=True, limit=1000)
    return [(stored.memory.id, stored.memory.version) for stored in found]


def now(memory: Engine, id: str) -> Memory:
    """Return a memory as it stands, live or not."""
    return memory.services.store.history(EVERYWHERE, id)[-1].memory


def recalled(memory: Engine, **where: Any) -> list[str]:
    return [hit.memory.id for hit in memory.recall("query", limit=50, min_score=0, dry_run=True, **where)]


def failing(*_: object) -> None:
    raise EmbedderError("the embedder is down")
