"""What new memories link to when some of those given with them are there already: only to what is stored."""

from __future__ import annotations

import pytest

from salience.engine import Engine
from salience.errors import ConflictError, NotFoundError

pytestmark = pytest.mark.every_store


@pytest.fixture
def memory(planted) -> Engine:
    return planted({"I live in Porto": 0.9, "I live in Rome": 0.89}, profile="mememory")


def test_a_fact_replaces_the_stored_memory_and_not_the_retry_of_it(memory):
    first = memory.remember("I live in Porto", key="k").memory
    retried, second = memory.remember_many([{"content": "I live in Porto", "key": "k"}, {"content": "I live in Rome"}])
    assert (retried.status, retried.memory.id) == ("unchanged", first.id)
    assert second.memory.replaced_ids == (first.id,)
    assert [one.memory.id for one in second.contradictions] == [first.id]


def test_the_first_of_two_drafts_with_one_key_is_replaced(memory):
    one, same, other = memory.remember_many(
        [
            {"content": "I live in Porto", "key": "k"},
            {"content": "I live in Porto", "key": "k"},
            {"content": "I live in Rome"},
        ]
    )
    assert (same.status, same.memory.id) == ("unchanged", one.memory.id)
    assert other.memory.replaced_ids == (one.memory.id,)
    assert [found.memory.id for found in other.contradictions] == [one.memory.id]


def test_no_memory_replaces_the_retry_of_a_forgotten_one(memory):
    first = memory.remember("I live in Porto", key="k").memory
    memory.forget(first.id)
    second = memory.remember_many([{"content": "I live in Porto", "key": "k"}, {"content": "I live in Rome"}])[1]
    assert second.memory.replaced_ids == ()
    assert second.contradictions == ()


def test_the_second_of_two_with_one_key_supersedes_nothing(memory):
    old = memory.remember("old").memory
    drafts = [{"content": "new", "key": "k"}, {"content": "new", "key": "k", "supersedes": old.id}]
    assert [receipt.status for receipt in memory.remember_many(drafts)] == ["created", "unchanged"]
    assert memory.get(old.id).weight == 1.0


def test_a_retry_does_not_need_the_superseded_memory(memory):
    old = memory.remember("old").memory
    memory.remember("new", key="k", supersedes=old.id)
    memory.forget(old.id)
    assert memory.remember("new", key="k", supersedes=old.id).status == "unchanged"
    with pytest.raises(NotFoundError):
        memory.remember("newer", key="other", supersedes=old.id)


def test_a_retry_after_a_change_stores_nothing(memory):
    first = memory.remember("old", key="k").memory
    changed = memory.update(first.id, content="new").memory
    again = memory.remember("old", key="k")
    assert (again.status, again.memory) == ("unchanged", changed)
    with pytest.raises(ConflictError, match="'k' already stands for"):
        memory.remember("other", key="k")
