"""Saying the same again: one memory, and an access to it."""

from __future__ import annotations

from threading import Barrier, Thread

import pytest

import salience
from salience.errors import InputError
from salience.rank import profiles

pytestmark = pytest.mark.every_store

TEXT = "Mira drinks green tea"


@pytest.fixture
def memory(planted):
    return planted({TEXT: 0.9})


def stored(memory, **where):
    return memory.stats(**where).memories


def test_the_same_text_again_stores_nothing_and_counts_as_an_access(memory, clock):
    first = memory.remember(TEXT)
    clock.advance(minutes=5)
    again = memory.remember(TEXT)
    assert (again.status, again.memory.id, again.contradictions) == ("unchanged", first.memory.id, ())
    assert again.warning.startswith("Nothing new was stored: this memory has the same text.")
    assert (again.memory.access_count, again.memory.accessed_at) == (1, clock.now)
    assert memory.get(first.memory.id) == again.memory
    assert again.memory.version == 1
    assert stored(memory) == 1


def test_the_access_is_stored_with_its_time(planted, target, clock, tmp_path):
    file = str(tmp_path / "kept.db")
    with salience.connect(file, clock=clock) as memory:
        id = memory.remember(TEXT).memory.id
        clock.advance(hours=1)
        before = clock.now
        clock.advance(hours=1)
        memory.remember(TEXT)
    with salience.connect(file, clock=clock) as memory:
        assert memory.get(id).access_count == 1
        (then,) = memory.recall(TEXT, as_of=before, min_score=0)
        assert then.memory.access_count == 0
        assert len(memory.history(id)) == 1


@pytest.mark.parametrize(
    ("one", "same"),
    [(TEXT, f" {TEXT}\n"), (TEXT, "Mira  drinks\tgreen tea"), ("Caf\u00e9 Mira", "Cafe\u0301 Mira")],
)
def test_spaces_and_unicode_composition_do_not_differ(planted, one, same):
    memory = planted({one: 0.9, same: 0.9}, axes={one: 1, same: 1})
    first = memory.remember(one).memory
    assert memory.remember(same).memory == memory.get(first.id)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("the wifi password is Tulip", "the wifi password is tulip"),
        ("if a:\n    b()\nc()", "if a:\n    b()\n    c()"),
        ("area in m²", "area in m2"),
    ],
)
def test_case_indentation_and_punctuation_differ(planted, one, other):
    memory = planted({one: 0.9, other: 0.9}, axes={one: 1, other: 1})
    memory.remember(one)
    assert memory.remember(other).status == "created"


@pytest.mark.parametrize(
    "given",
    [
        {"kind": "rule"}, {"importance": 0.9}, {"weight": 0.5}, {"tags": ["drinks"]}, {"entities": ["Tea"]},
        {"fact_key": "mira.tea"}, {"tier": "semantic"}, {"metadata": {"source": "chat"}},
    ],
    ids=lambda given: next(iter(given)),
)  # fmt: skip
def test_given_fields_must_be_equal(memory, given):
    plain = memory.remember(TEXT).memory
    other = memory.remember(TEXT, **given)
    assert other.status in ("created", "superseded")
    assert other.memory.id != plain.id
    assert memory.remember(TEXT, **given).memory.id == other.memory.id
    assert memory.remember(TEXT).status == "unchanged"
    assert stored(memory) == 2


@pytest.mark.parametrize(
    ("given", "default"),
    [
        ({"kind": "rule"}, {"kind": "fact"}), ({"weight": 0.5}, {"weight": 1.0}), ({"tags": ["a"]}, {"tags": []}),
        ({"tier": "semantic"}, {"tier": "episodic"}), ({"metadata": {"a": 1}}, {"metadata": {}}),
    ],
)  # fmt: skip
def test_a_given_default_counts_as_given(memory, given, default):
    first = memory.remember(TEXT, **given).memory
    assert memory.remember(TEXT).memory.id == first.id
    assert memory.remember(TEXT, **default).memory.id != first.id
    drafts = [{"content": TEXT, **default}, {"content": TEXT, **given}]
    assert [receipt.status for receipt in memory.remember_many(drafts)] == ["unchanged", "unchanged"]


def test_a_key_a_time_an_end_or_another_session_make_another_memory(memory, clock):
    first = memory.remember(TEXT, session_id="monday").memory
    assert memory.remember(TEXT).memory.id == first.id
    assert memory.remember(TEXT, session_id="monday").memory.id == first.id
    others = [
        memory.remember(TEXT, session_id="tuesday"),
        memory.remember(TEXT, key="mine"),
        memory.remember(TEXT, created_at=clock.now),
        memory.remember(TEXT, ttl="1h"),
        memory.remember(TEXT, duplicate=True),
    ]
    assert {receipt.status for receipt in others} == {"created"}
    assert memory.remember(TEXT, supersedes=first.id).status == "superseded"
    assert stored(memory) == 7


def test_a_memory_with_an_expiry_is_never_matched(memory):
    memory.remember(TEXT, ttl="1h")
    lasting = memory.remember(TEXT)
    assert (lasting.status, lasting.memory.expires_at) == ("created", None)


@pytest.mark.parametrize(
    "where", [{"user_id": "mira"}, {"project": "atlas"}, {"agent_id": "helper"}, {"environment": "test"}]
)
def test_the_same_text_in_another_scope_is_stored(memory, where):
    memory.remember(TEXT)
    assert memory.remember(TEXT, **where).status == "created"
    assert memory.remember(TEXT, **where).status == "unchanged"


def test_only_current_memories_are_matched(memory):
    forgotten = memory.remember(TEXT).memory
    memory.forget(forgotten.id)
    second = memory.remember(TEXT)
    assert second.status == "created"
    memory.remember("Mira drinks coffee", supersedes=second.memory.id)
    third = memory.remember(TEXT)
    assert (third.status, third.memory.weight) == ("created", 1.0)


def test_a_memory_whose_successor_was_forgotten_is_not_matched(memory):
    first = memory.remember(TEXT).memory
    memory.forget(memory.remember("Mira drinks coffee", supersedes=first.id).memory.id)
    again = memory.remember(TEXT)
    assert (again.status, again.memory.weight) == ("created", 1.0)


def test_a_fact_that_becomes_true_again_is_stored(planted):
    cities = {"I live in Berlin": 0.9, "I live in Lisbon": 0.89}
    memory = planted(cities)
    berlin, lisbon = (memory.remember(text).memory for text in cities)
    again = memory.remember("I live in Berlin")
    assert (again.status, again.superseded) == ("superseded", lisbon.id)
    assert again.memory.id != berlin.id
    found = memory.recall("query", min_score=0)
    assert [hit.memory.id for hit in found if hit.memory.replaced_by is None] == [again.memory.id]
    assert memory.remember("I live in Berlin").memory.id == again.memory.id


def test_within_a_batch_the_first_is_stored(memory):
    texts = ["I live in Berlin", TEXT, "I live in Lisbon", TEXT, "I live in Berlin", TEXT]
    receipts = memory.remember_many([{"content": text} for text in texts])
    assert [receipt.status for receipt in receipts] == [
        "created", "created", "superseded", "unchanged", "superseded", "unchanged",
    ]  # fmt: skip
    assert {receipts[place].memory.id for place in (1, 3, 5)} == {receipts[1].memory.id}
    assert memory.get(receipts[1].memory.id).access_count == 2
    assert [hit.memory.content for hit in memory.recall("where", min_score=0, limit=9)].count("I live in Berlin") <= 1


def test_duplicate_stores_a_text_again(memory):
    drafts = [{"content": TEXT}, {"content": TEXT, "duplicate": True}]
    assert [receipt.status for receipt in memory.remember_many(drafts)] == ["created", "created"]
    with pytest.raises(InputError, match="duplicate"):
        memory.remember(TEXT, duplicate="yes")


def test_turns_are_never_matched(memory):
    turns = [{"role": "user", "content": "ok"}, {"role": "user", "content": "ok"}]
    receipts = memory.ingest(turns, session_id="s") + memory.ingest(turns, session_id="s")
    assert [receipt.memory.turn for receipt in receipts] == [1, 2, 3, 4]
    assert memory.remember("ok", session_id="s").status == "created"


@pytest.mark.parametrize("profile", profiles.NAMES)
def test_every_profile_stores_a_text_once(planted, profile):
    memory = planted({TEXT: 0.9}, profile=profile)
    memory.remember(TEXT)
    assert memory.remember(TEXT).status == "unchanged"
    assert stored(memory) == 1


def test_concurrent_writers_of_one_text_both_get_a_receipt(planted):
    memory, start, receipts = planted({TEXT: 0.9}), Barrier(4), []

    def say():
        start.wait()
        receipts.append(memory.remember(TEXT))

    threads = [Thread(target=say) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {memory.get(receipt.memory.id).content for receipt in receipts} == {TEXT}
    assert stored(memory) == len({receipt.memory.id for receipt in receipts})
    assert memory.remember(TEXT).status == "unchanged"


def test_a_near_duplicate_gets_its_own_warning(planted):
    one, other = "The office closes at six", "the office closes at six!"
    memory = planted({one: 0.9, other: 0.9}, axes={one: 1, other: 1})
    old = memory.remember(one).memory
    receipt = memory.remember(other)
    assert (receipt.status, [found.label for found in receipt.contradictions]) == ("created", ["duplicate"])
    assert "CONTRADICTION" not in receipt.warning
    assert f"[{old.short_id}] (similarity: 100%) {one}" in receipt.warning
    for verb in ("forget(id=", "update(id="):
        assert verb in receipt.warning


def test_duplicates_beside_an_update_get_the_usual_warning(planted):
    texts = ["The limit is 30", "The limit is 40", "the limit is 40!"]
    memory = planted(dict.fromkeys(texts, 0.9), axes=dict.fromkeys(texts, 1))
    for text in texts[:2]:
        memory.remember(text)
    receipt = memory.remember(texts[2])
    assert sorted(found.label for found in receipt.contradictions) == ["duplicate", "update"]
    assert "CONTRADICTION DETECTED" in receipt.warning
