"""The same content gives the same ids and scores from a file and from a server, under every profile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_stores_agree import fill

import salience
from salience.engine import Engine
from salience.rank import profiles
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
    result = []
    clock, source = StoppedClock(), tmp_path / "source.ndjson"
    for target in (tables, str(tmp_path / "a.db")):
        with salience.connect(target, embedder=PlantedEmbedder(dimension=16), profile=name, clock=clock) as memory:
            if not source.exists():
                fill(memory, clock, seed=3)
                memory.export(source)
                clock.advance(days=1)
            else:
                memory.import_(source)
            result.append(answers(memory))
    assert result[0] == result[1]
    assert all(result[0])


def test_a_server_stores_no_text_twice_and_names_what_is_replaced(tables: str, clock: StoppedClock):
    with salience.connect(tables, embedder=PlantedEmbedder({"I live in Berlin": 0.9}), clock=clock) as memory:
        first = memory.remember("I live in Berlin", user_id="mira")
        again = memory.remember("I live in Berlin", user_id="mira")
        assert (again.status, again.memory.id, again.memory.access_count) == ("unchanged", first.memory.id, 1)
        assert memory.get(first.memory.id, user_id="mira").access_count == 1
        lisbon = memory.remember("User lives in Lisbon", user_id="mira")
        assert (lisbon.status, lisbon.superseded) == ("superseded", first.memory.id)
        back, same = memory.remember_many([{"content": "I live in Berlin"}] * 2, user_id="mira")
        assert (back.status, back.superseded) == ("superseded", lisbon.memory.id)
        assert (same.status, same.memory.id, same.memory.access_count) == ("unchanged", back.memory.id, 1)
        assert memory.stats(user_id="mira").memories == 3
