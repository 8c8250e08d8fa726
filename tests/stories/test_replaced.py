"""What a receipt tells of memories that recalls no longer return, and how to bring them back."""

from __future__ import annotations

import pytest

from salience.records.ids import short_id

pytestmark = pytest.mark.every_surface

BERLIN, LISBON, ROME = "I live in Berlin", "User lives in Lisbon", "I moved to Rome"
CITIES = {BERLIN: 0.9, LISBON: 0.89, ROME: 0.88}
OTHER = "Deploys need two approvals"


@pytest.fixture
def memory(planted):
    return planted({**CITIES, OTHER: 0.87})


def returned(memory, **where):
    return {hit.memory.content for hit in memory.recall("query", limit=10, min_score=0, **where)}


def test_a_newer_memory_of_a_fact_names_the_one_that_it_replaces(memory):
    old = memory.remember(BERLIN)
    assert (old.status, old.superseded, old.warning) == ("created", None, None)
    new = memory.remember(LISBON)
    assert (new.status, new.superseded) == ("superseded", old.memory.id)
    assert new.warning.startswith(
        f"This replaces memory {old.memory.short_id} as the current user.residence; recall no longer returns it."
    )
    assert returned(memory) == {LISBON}
    assert memory.get(old.memory.id).weight == 1.0


@pytest.mark.parametrize("kept", [0, 1])
def test_the_remedy_in_the_warning_keeps_both(memory, kept):
    ids = [memory.remember(text).memory.id for text in (BERLIN, LISBON)]
    memory.update(ids[kept], fact_key=None)
    assert returned(memory) == {BERLIN, LISBON}


def test_only_the_current_memory_is_named(memory):
    memory.remember(BERLIN)
    second = memory.remember(LISBON).memory
    third = memory.remember(ROME)
    assert third.superseded == second.id
    assert third.warning.count("This replaces") == 1
    assert third.warning.count("\n") == 0


def test_in_a_batch_each_replaces_the_one_before_it(memory):
    stored = memory.remember(BERLIN).memory
    one, other = memory.remember_many([{"content": LISBON}, {"content": ROME}])
    assert (one.superseded, other.superseded) == (stored.id, one.memory.id)
    assert one.memory.short_id in other.warning


def test_a_memory_of_an_earlier_time_replaces_none(memory, clock):
    memory.remember(ROME)
    older = memory.remember(BERLIN, created_at=clock.now.replace(year=2020))
    assert (older.status, older.superseded) == ("created", None)
    assert returned(memory) == {ROME}


def test_an_expired_memory_of_the_fact_is_not_named(memory, clock):
    first = memory.remember(BERLIN).memory
    memory.remember(LISBON, ttl=60)
    clock.advance(minutes=2)
    assert returned(memory) == {BERLIN}
    assert memory.remember(ROME).superseded == first.id


def test_facts_of_another_user_are_not_replaced(memory):
    memory.remember(BERLIN, user_id="alice")
    memory.remember("I live in Germany", user_id="bob")
    assert memory.remember(LISBON, user_id="bob").superseded is None
    assert returned(memory, user_id="alice") == {BERLIN}


def test_an_invisible_memory_is_not_named(memory):
    hidden = memory.remember(BERLIN, user_id="alice", agent_id="a").memory
    receipt = memory.remember(LISBON, user_id="alice")
    assert receipt.superseded is None
    assert hidden.short_id not in (receipt.warning or "")


def test_forgetting_the_successor_brings_back_the_superseded_memory(memory):
    old = memory.remember(BERLIN).memory
    new = memory.remember(OTHER, supersedes=old.short_id)
    assert (new.status, new.superseded) == ("superseded", old.id)
    assert new.warning == (
        f"This supersedes memory {old.short_id}; recall no longer returns it. "
        f"To bring it back, forget memory {new.memory.short_id}."
    )
    assert returned(memory) == {OTHER}
    memory.forget(new.memory.id)
    assert returned(memory) == {BERLIN}


def test_the_warning_names_the_superseded_memory_and_the_fact(memory):
    note, fact = (memory.remember(text).memory for text in (OTHER, BERLIN))
    receipt = memory.remember(LISBON, supersedes=note.id)
    assert receipt.superseded == note.id
    assert f"supersedes memory {note.short_id};" in receipt.warning
    assert f"replaces memory {fact.short_id} as" in receipt.warning
    assert returned(memory) == {LISBON}


def test_an_update_that_states_the_fact_names_what_it_replaces(memory, clock):
    note, fact = (memory.remember(text).memory for text in (OTHER, BERLIN))
    clock.advance(minutes=1)
    receipt = memory.update(note.id, content=LISBON)
    assert (receipt.status, receipt.superseded) == ("updated", fact.id)
    assert f"This replaces memory {fact.short_id} as the current user.residence" in receipt.warning
    assert returned(memory) == {LISBON}
    memory.update(note.id, fact_key=None)
    assert returned(memory) == {BERLIN, LISBON}


def test_an_update_of_an_older_memory_of_the_fact_makes_it_the_latest(memory, clock):
    old, new = (memory.remember(text).memory for text in (BERLIN, LISBON))
    clock.advance(minutes=1)
    receipt = memory.update(old.id, tags=["home"])
    assert receipt.superseded == new.id
    assert returned(memory) == {BERLIN}
    clock.advance(minutes=1)
    again = memory.update(old.id, tags=["town"])
    assert (again.superseded, again.warning) == (None, None)


def test_a_restored_version_names_what_it_replaces(memory, clock):
    note = memory.remember(BERLIN).memory
    memory.update(note.id, content=OTHER)
    fact = memory.remember(LISBON).memory
    clock.advance(minutes=1)
    receipt = memory.restore(note.id, 1)
    assert (receipt.status, receipt.superseded) == ("restored", fact.id)
    assert fact.short_id in receipt.warning
    assert returned(memory) == {BERLIN}


def test_a_turn_replaces_nothing(memory):
    memory.remember(BERLIN)
    (receipt,) = memory.ingest([{"role": "user", "content": ROME}], session_id="s")
    assert (receipt.status, receipt.superseded, receipt.warning) == ("created", None, None)
    assert returned(memory) == {BERLIN, ROME}


def test_a_pending_memory_names_what_it_replaces(memory, target, connect, clock):
    class Down:
        name, dimension = "down", 4

        def embed(self, texts, /):
            raise ConnectionError

    down = connect(target, embedder=Down(), clock=clock)
    old = down.remember(BERLIN).memory
    receipt = down.remember(LISBON)
    assert (receipt.status, receipt.superseded) == ("pending", old.id)
    assert f"This replaces memory {short_id(old.id)} as" in receipt.warning


@pytest.mark.parametrize("profile", ["mememory", "memlayer", "zeromemory", "cmm"])
def test_profiles_that_ignore_facts_replace_nothing(planted, profile):
    memory = planted(CITIES, profile=profile)
    memory.remember(BERLIN)
    receipt = memory.remember(LISBON)
    assert (receipt.status, receipt.superseded) == ("created", None)
    assert "This replaces" not in (receipt.warning or "")


def test_a_replaced_memory_is_no_contradiction_in_the_warning(planted):
    memory = planted(CITIES, axes=dict.fromkeys(CITIES, 1))
    old = memory.remember(BERLIN).memory
    receipt = memory.remember(LISBON)
    assert [(found.memory.id, found.label) for found in receipt.contradictions] == [(old.id, "update")]
    assert "CONTRADICTION" not in receipt.warning


def test_receipts_agree_with_recalls(memory):
    """What recalls returned before a write, and do not after it, is what its receipt names."""

    def current():
        found = [memory.recall("query", limit=20, min_score=0, user_id=user) for user in ("a", "b")]
        return {hit.memory.id for hits in found for hit in hits}

    writes = [
        (BERLIN, {"user_id": "a"}), (LISBON, {"user_id": "a"}), (BERLIN, {"user_id": "a"}), (ROME, {"user_id": "b"}),
        (LISBON, {"user_id": "b", "fact_key": "user.home"}), (OTHER, {"user_id": "b", "fact_key": "user.home"}),
        (OTHER, {"user_id": "a"}), (ROME, {"user_id": "a"}), (BERLIN, {"user_id": "a", "fact_key": "user.residence"}),
    ]  # fmt: skip
    for content, given in writes:
        before = current()
        receipt = memory.remember(content, **given)
        assert before - current() == {receipt.superseded} - {None}, (content, given)
