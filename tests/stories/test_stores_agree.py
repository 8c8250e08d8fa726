"""The same content gives the same ids and scores on every store, under every profile."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import salience
from salience import Draft
from salience.engine import Engine
from salience.rank import profiles
from tests.contract.doubles import PlantedEmbedder, StoppedClock

pytestmark = pytest.mark.slow

WORDS = "deploy key vault staging Alice Atlas invoice 4711 dark theme python rust prefers migration broke".split()


def fill(memory: Engine, clock: StoppedClock, seed: int) -> None:
    """Store 120 memories, change some, recall now and then; the same for the same seed."""
    pick = random.Random(seed)
    for number in range(120):
        clock.advance(hours=pick.randrange(12))
        user = pick.choice([None, "alice", "bob"])
        memory.remember(
            " ".join(pick.choices(WORDS, k=pick.randrange(2, 9))) + f" #{number % 40}",
            user_id=user,
            project=pick.choice([None, "atlas"]),
            session_id=pick.choice([None, "s1", "s2"]),
            tier=pick.choice(["working", "episodic", "semantic"]),
            fact_key=pick.choice([None, None, "user.theme", "deploy.key"]),
            ttl=pick.choice([None, None, "40d"]),
            weight=pick.choice([0.5, 1.0]),
            tags=pick.sample(["ops", "ui"], pick.randrange(3)),
        )
        if number % 10 == 9:
            found = memory.list(user_id="alice", project="atlas", limit=1000).memories
            memory.update(pick.choice(found).id, content=f"updated {number}", user_id="alice", project="atlas")
            memory.forget(pick.choice(found[: len(found) // 2]).id, user_id="alice", project="atlas")
            memory.recall("who broke the vault", user_id="alice", session_id="s1", profile="cmm", min_score=0.0)


def answers(memory: Engine, profile: str) -> list[list[tuple[Any, ...]]]:
    terms: dict[str, Any] = {"profile": profile, "dry_run": True}
    found = [
        memory.recall("Alice prefers the dark theme", user_id="alice", session_id="s1", min_score=0.0, **terms),
        memory.recall("invoice 4711", user_id="bob", project="atlas", limit=20, min_score=0.0, **terms),
        memory.recall("latest migration", tags=["ops"], limit=50, min_score=0.0, **terms),
        memory.graph_recall("Alice and Atlas", user_id="alice", project="atlas", limit=20, dry_run=True),
    ]
    return [[(hit.memory.id, hit.score, hit.absorbed, hit.via) for hit in answer] for answer in found]


@pytest.mark.parametrize("first", ["file", ":memory:", "postgresql"])
def test_ids_and_scores_agree_to_the_last_bit(request: pytest.FixtureRequest, tmp_path: Path, first: str):
    """Memories that are written to one store and moved to a file get the same answers from both."""
    clock, source = StoppedClock(), tmp_path / "source.ndjson"
    places = {"file": str(tmp_path / "a.db"), ":memory:": ":memory:"}
    target = places.get(first) or request.getfixturevalue("tables")
    with (
        salience.connect(target, embedder=PlantedEmbedder(dimension=16), clock=clock) as memory,
        salience.connect(tmp_path / "b.db", embedder=PlantedEmbedder(dimension=16), clock=clock) as moved,
    ):
        fill(memory, clock, seed=3)
        memory.export(source)
        clock.advance(days=1)
        moved.import_(source)
        for profile in profiles.NAMES:
            found = answers(memory, profile)
            assert found == answers(moved, profile), profile
            assert all(found)


def test_a_draft_stored_on_two_stores_gives_the_same_record(tmp_path: Path):
    drafts = [Draft(content="Alice prefers Python", tags=["lang"], metadata={"deep": [1, {"x": None}]}, ttl="7d")]
    records = []
    for target in (":memory:", str(tmp_path / "a.db")):
        with salience.connect(target, embedder=PlantedEmbedder(), clock=StoppedClock()) as memory:
            receipt = memory.remember_many(drafts, user_id="alice", session_id="s")[0]
            stored = memory.get(receipt.memory.id, user_id="alice")
            assert stored == receipt.memory
            records.append({**{k: getattr(stored, k) for k in stored.__slots__}, "id": None})
    assert records[0] == records[1]
