"""A clock that steps back by days."""

from __future__ import annotations

from datetime import timedelta

import pytest

from salience.engine import Engine
from tests.contract.doubles import PlantedEmbedder


@pytest.fixture
def memory(planted) -> Engine:
    return planted({"first": 0.9, "second": 0.9})


def test_upkeep_that_is_done_keeps_no_later_one_waiting(memory, clock):
    memory.upkeep()
    clock.advance(days=-3)
    assert memory.upkeep().warning is None


def test_a_reembedding_that_is_done_keeps_no_later_one_waiting(memory, clock):
    memory.remember("first")
    other, third = PlantedEmbedder(), PlantedEmbedder()
    other.name, third.name = "other", "third"  # type: ignore[misc]
    memory.reembed(other)
    clock.advance(days=-3)
    assert memory.reembed(third).new == "third"


def test_what_is_written_after_it_is_found_and_has_versions_in_order(memory, clock):
    id = memory.remember("first").memory.id
    before = clock()
    clock.advance(days=-3)
    memory.update(id, content="second")
    told = memory.history(id)
    assert [version.memory.content for version in told] == ["first", "second"]
    assert [version.memory.changed_at for version in told] == [before, before]
    assert told[0].until == before
    assert [hit.memory.content for hit in memory.recall("query", min_score=0.0).hits] == ["second"]
    assert memory.doctor().findings == ()
    clock.advance(days=3, seconds=1)
    found = memory.recall("query", min_score=0.0, as_of=clock() - timedelta(seconds=1))
    assert [hit.memory.content for hit in found.hits] == ["second"]
