"""The same content gives the same ids and scores from a file and from a server, under every profile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_stores_agree import fill

import salience
from salience import profiles
from salience.engine import Engine
from salience.testing.doubles import PlantedEmbedder, StoppedClock


def answers(memory: Engine) -> list[list[tuple[Any, ...]]]:
    found = [
        memory.recall("Alice prefers the dark theme", user_id="alice", session_id="s1", min_score=0.0),
        memory.recall("invoice 4711", user_id="bob", project="atlas", limit=20, min_score=0.0),
        memory.recall("latest migration", tags=["ops"], limit=50, min_score=0.0),
        memory.graph_recall("Alice and Atlas", user_id="alice", project="atlas", limit=20),
    ]
    return [[(hit.memory.id, hit.score, hit.absorbed, hit.via) for hit in answer] for answer in found]


@pytest.mark.parametrize("name", profiles.NAMES)
def test_a_file_and_a_server_agree_to_the_last_bit(tables: str, tmp_path: Path, name: str):
    """What was written on the server is moved to a file, and asked for in both."""
    told = []
    clock, source = StoppedClock(), tmp_path / "source.ndjson"
    for target in (tables, str(tmp_path / "a.db")):
        with salience.connect(target, embedder=PlantedEmbedder(dimension=16), profile=name, clock=clock) as memory:
            if not source.exists():
                fill(memory, clock, seed=3)
                memory.export(source)
                clock.advance(days=1)
            else:
                memory.import_(source)
            told.append(answers(memory))
    assert told[0] == told[1]
    assert all(told[0])
