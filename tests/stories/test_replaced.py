"""What a receipt tells of the memories that a new one replaces, how recalls treat them, and how to undo that."""

from __future__ import annotations

import pytest

BERLIN, LISBON, ROME = "I live in Berlin", "User lives in Lisbon", "I moved to Rome"
CITIES = {BERLIN: 0.9, LISBON: 0.89, ROME: 0.88}
OTHER = "Deploys need two approvals"


@pytest.fixture
def memory(planted):
    return planted({**CITIES, OTHER: 0.87})


def found(memory, **where):
    return memory.recall("query", limit=10, min_score=0, dry_run=True, **where)


def returned(memory, **where):
    """Return the texts of all hits."""
    return {hit.memory.content for hit in found(memory, **where)}


def current(memory, **where):
    """Return the texts of the hits that no other memory replaces."""
    return {hit.memory.content for hit in found(memory, **where) if hit.memory.replaced_by is None}


def replaces(older, newer, reason, *, hides=False):
    """Return the line of a receipt about an older memory that a fact key replaces."""
    treated = "no longer returns that one" if hides else "ranks it first and marks the other as replaced"
    new, old = newer.short_id, older.short_id
    return (
        f"This replaces memory {old} ({reason}); recall {treated}. To undo that: dismiss(id='{new}', other_id='{old}')."
    )


def test_a_newer_memory_of_a_fact_names_the_one_that_it_replaces(memory):
    old = memory.remember(BERLIN)
    assert (old.status, old.superseded, old.warning) == ("created", None, None)
    new = memory.remember(LISBON)
    assert (new.status, new.superseded) == ("superseded", old.memory.id)
    assert new.warning == replaces(old.memory, new.memory, "fact user.residence")
    hits = found(memory)
    assert [hit.memory.content for hit in hits] == [LISBON, BERLIN]  # nobody said that the older one is over
    assert hits[1].memory.replaced_by.id == new.memory.id
    assert memory.get(old.memory.id).weight == 1.0


def test_the_line_of_a_replaced_memory_says_by_which_it_is_replaced(memory):
    old, new = (memory.remember(text).memory for text in (BERLIN, LISBON))
    listed = {one.id: str(one) for one in memory.list()}
    assert listed[old.id].endswith(f"'{BERLIN}' [{memory.get(old.id).replaced_by}]")
    assert listed[new.id].endswith(f"'{LISBON}'")
    assert str(found(memory)[1]).count(f"by {new.short_id}]") == 1
    memory.dismiss(new.id, old.id)
    assert "replaced" not in str(memory.get(old.id))


def test_of_a_fact_key_that_the_caller_gives_only_the_newest_memory_is_returned(memory):
    old = memory.remember(OTHER, fact_key="home").memory
    new = memory.remember(LISBON, fact_key="home")
    assert new.warning == replaces(old, new.memory, "fact home", hides=True)
    assert returned(memory) == {LISBON}


@pytest.mark.parametrize("kept", [0, 1])
def test_the_remedy_in_the_warning_keeps_both(memory, kept):
    ids = [memory.remember(text).memory.id for text in (BERLIN, LISBON)]
    memory.update(ids[kept], fact_key=None)
    assert current(memory) == {BERLIN, LISBON}


@pytest.mark.parametrize("given", [{}, {"fact_key": "home"}])
def test_one_call_undoes_a_replacement(memory, given):
    old, new = (memory.remember(text, **given).memory for text in (BERLIN, LISBON))
    assert current(memory) == {LISBON}
    memory.dismiss(new.id, old.id)
    assert current(memory) == {BERLIN, LISBON}
    memory.dismiss(new.id, old.id, undo=True)
    assert current(memory) == {LISBON}
    assert returned(memory) == ({LISBON} if given else {BERLIN, LISBON})


def test_the_current_memory_of_the_fact_is_named(memory):
    memory.remember(BERLIN)
    second = memory.remember(LISBON).memory
    third = memory.remember(ROME)
    assert third.superseded == second.id
    assert current(memory) == {ROME}


def test_in_a_batch_each_replaces_the_one_before_it(memory):
    stored = memory.remember(BERLIN).memory
    one, other = memory.remember_many([{"content": LISBON}, {"content": ROME}])
    assert (one.superseded, other.superseded) == (stored.id, one.memory.id)
    assert one.memory.short_id in other.warning


def test_a_memory_of_an_earlier_time_replaces_none(memory, clock):
    memory.remember(ROME)
    older = memory.remember(BERLIN, created_at=clock.now.replace(year=2020))
    assert (older.status, older.superseded) == ("created", None)
    assert current(memory) == {ROME}
    drafts = [{"content": LISBON}, {"content": BERLIN, "created_at": clock.now.replace(year=2019)}]
    later, earlier = memory.remember_many(drafts, user_id="u")  # given in this order
    assert (later.superseded, earlier.superseded) == (earlier.memory.id, None)
    assert current(memory, user_id="u") & {LISBON, BERLIN} == {LISBON}


def test_an_expired_memory_of_the_fact_is_not_named(memory, clock):
    first = memory.remember(BERLIN).memory
    memory.remember(LISBON, ttl=60)
    clock.advance(minutes=2)
    assert current(memory) == {BERLIN}
    assert memory.remember(ROME).superseded == first.id


def test_facts_of_another_user_are_not_replaced(memory):
    memory.remember(BERLIN, user_id="alice")
    memory.remember("I live in Germany", user_id="bob")
    assert memory.remember(LISBON, user_id="bob").superseded is None
    assert current(memory, user_id="alice") == {BERLIN}


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
        f"This supersedes memory {old.short_id}; recall no longer returns it. To undo that: "
        f"update(id='{new.memory.short_id}', supersedes=None)."
    )
    assert returned(memory) == {OTHER}
    memory.forget(new.memory.id)
    assert returned(memory) == {BERLIN}


def test_the_warning_names_the_superseded_memory_and_the_fact(memory):
    note, fact = (memory.remember(text).memory for text in (OTHER, BERLIN))
    receipt = memory.remember(LISBON, supersedes=note.id)
    assert receipt.superseded == note.id
    assert f"supersedes memory {note.short_id};" in receipt.warning
    assert replaces(fact, receipt.memory, "fact user.residence") in receipt.warning
    assert current(memory) == {LISBON}
    assert returned(memory) == {LISBON, BERLIN}


def test_an_update_that_states_the_fact_names_what_it_replaces(memory, clock):
    note, fact = (memory.remember(text).memory for text in (OTHER, BERLIN))
    clock.advance(minutes=1)
    receipt = memory.update(note.id, content=LISBON)
    assert (receipt.status, receipt.superseded) == ("updated", fact.id)
    assert replaces(fact, receipt.memory, "fact user.residence") in receipt.warning
    assert current(memory) == {LISBON}
    memory.update(note.id, fact_key=None)
    assert current(memory) == {BERLIN, LISBON}


def test_a_new_text_of_the_older_memory_of_a_fact_makes_it_the_latest(memory, clock):
    oldest, old, new = (memory.remember(text).memory for text in (ROME, BERLIN, LISBON))
    clock.advance(minutes=1)
    tagged = memory.update(oldest.id, tags=["home"])  # says nothing new
    assert (tagged.superseded, tagged.warning) == (None, None)
    assert current(memory) == {LISBON}
    receipt = memory.update(oldest.id, content="I live in Paris")
    assert receipt.superseded == new.id
    assert set(receipt.memory.replaced_ids) == {old.id, new.id}
    assert current(memory) == {"I live in Paris"}  # and none of the two replaces it any more


def test_a_restored_version_names_what_it_replaces(memory, clock):
    note = memory.remember(BERLIN).memory
    memory.update(note.id, content=OTHER)
    fact = memory.remember(LISBON).memory
    clock.advance(minutes=1)
    receipt = memory.restore(note.id, 1)
    assert (receipt.status, receipt.superseded) == ("restored", fact.id)
    assert fact.short_id in receipt.warning
    assert current(memory) == {BERLIN}


def test_a_memory_that_was_hidden_while_another_replaced_it_comes_back_as_replaced(memory, clock):
    old = memory.remember(BERLIN).memory
    memory.forget(old.id)
    clock.advance(minutes=1)
    new = memory.remember(LISBON)
    assert new.superseded is None
    receipt = memory.restore(old.id)
    assert (receipt.status, receipt.superseded) == ("restored", None)
    assert new.memory.short_id in receipt.warning
    assert current(memory) == {LISBON}


def test_a_turn_replaces_what_a_memory_said_before(memory):
    old = memory.remember(BERLIN).memory
    (receipt,) = memory.ingest([{"role": "user", "content": ROME}], session_id="s")
    assert (receipt.status, receipt.superseded) == ("created", None)
    assert receipt.memory.replaced_ids == (old.id,)
    assert f"probably replaces memory {old.short_id}" in receipt.warning
    assert returned(memory) == {BERLIN, ROME}
    assert current(memory) == {ROME}


def test_a_pending_memory_names_what_it_replaces(memory, target, connect, clock):
    class Down:
        name, dimension = "down", 4

        def embed(self, texts, /):
            raise ConnectionError

    down = connect(target, embedder=Down(), clock=clock)
    old = down.remember(BERLIN).memory
    receipt = down.remember(LISBON)
    assert (receipt.status, receipt.superseded) == ("pending", old.id)
    assert replaces(old, receipt.memory, "fact user.residence") in receipt.warning


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
    """What was current before a write, and is not after it, is what its receipt names."""

    def current():
        found = [memory.recall("query", limit=20, min_score=0, user_id=user) for user in ("a", "b")]
        return {hit.memory.id for hits in found for hit in hits if hit.memory.replaced_by is None}

    writes = [
        (BERLIN, {"user_id": "a"}), (LISBON, {"user_id": "a"}), (BERLIN, {"user_id": "a"}), (ROME, {"user_id": "b"}),
        (LISBON, {"user_id": "b", "fact_key": "user.home"}), (OTHER, {"user_id": "b", "fact_key": "user.home"}),
        (OTHER, {"user_id": "a"}), (ROME, {"user_id": "a"}), (BERLIN, {"user_id": "a", "fact_key": "user.residence"}),
    ]  # fmt: skip
    for content, given in writes:
        before = current()
        receipt = memory.remember(content, **given)
        replaced = set(receipt.memory.replaced_ids) if receipt.status != "unchanged" else set()
        assert before - current() <= replaced, (content, given)
        assert {receipt.superseded} - {None} <= replaced - current(), (content, given)
