"""What new memories link to when some of those given with them are there already: only to what is stored."""

from __future__ import annotations

import pytest

from salience.engine import Engine
from salience.errors import ConflictError


@pytest.fixture
def memory(planted) -> Engine:
    return planted({"I live in Porto": 0.9, "I live in Rome": 0.89}, profile="mememory")


def test_a_fact_follows_the_stored_memory_and_not_the_retry_of_it(memory):
    first = memory.remember("I live in Porto", key="k").memory
    retried, second = memory.remember_many([{"content": "I live in Porto", "key": "k"}, {"content": "I live in Rome"}])
    assert (retried.status, retried.memory.id) == ("unchanged", first.id)
    assert second.memory.follows == first.id
    assert [one.memory.id for one in second.contradictions] == [first.id]


def test_no_memory_follows_the_retry_of_a_forgotten_one(memory):
    first = memory.remember("I live in Porto", key="k").memory
    memory.forget(first.id)
    second = memory.remember_many([{"content": "I live in Porto", "key": "k"}, {"content": "I live in Rome"}])[1]
    assert second.memory.follows is None
    assert second.contradictions == ()


def test_a_retry_after_a_change_stores_nothing(memory):
    first = memory.remember("old", key="k").memory
    changed = memory.update(first.id, content="new").memory
    again = memory.remember("old", key="k")
    assert (again.status, again.memory) == ("unchanged", changed)
    with pytest.raises(ConflictError, match="'k' already stands for"):
        memory.remember("other", key="k")
