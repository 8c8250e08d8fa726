"""A caller says afterwards that a stored memory replaces another one, and takes it back."""

from __future__ import annotations

import pytest

from salience.errors import InputError, NotFoundError

pytestmark = pytest.mark.every_surface

OLD, NEW, OTHER = "The report is due on Friday", "Send the numbers by Wednesday noon", "Deploys need two approvals"


@pytest.fixture
def memory(planted):
    return planted({OLD: 0.95, NEW: 0.4, OTHER: 0.1})  # too far apart for any other relation


@pytest.fixture
def ids(memory):
    return [memory.remember(text, weight=0.9).memory.id for text in (OLD, NEW, OTHER)]


def returned(memory):
    return {hit.memory.content for hit in memory.recall("query", limit=10, min_score=0)}


def test_an_update_supersedes_as_a_remember_does(memory, ids):
    old, new, _ = ids
    made = memory.update(new, supersedes=old[-8:])
    assert (made.status, made.superseded, made.memory.supersedes) == ("updated", old, old)
    (relation,) = [one for one in made.memory.relations if one.id == old]
    assert (relation.kind, relation.probability, relation.by) == ("replaces", 1.0, "caller")
    assert f"This supersedes memory {old[-8:]};" in made.warning
    assert (memory.get(old).weight, memory.get(old).replaced_by.id) == (0.1, new)
    assert returned(memory) == {NEW, OTHER}


def test_none_brings_the_older_memory_back_with_its_weight(memory, ids):
    old, new, _ = ids
    memory.update(new, supersedes=old)
    made = memory.update(new, supersedes=None)
    assert (made.superseded, made.memory.supersedes) == (None, None)
    assert (memory.get(old).weight, memory.get(old).replaced_by) == (0.9, None)
    assert returned(memory) == {OLD, NEW, OTHER}


def test_another_target_frees_the_former_one(memory, ids):
    old, new, other = ids
    memory.update(new, supersedes=old)
    memory.update(new, supersedes=other)
    assert (memory.get(old).weight, memory.get(other).weight) == (0.9, 0.1)
    assert returned(memory) == {OLD, NEW}


def test_a_memory_that_two_supersede_keeps_its_low_weight_until_both_let_go(memory, ids):
    old, new, other = ids
    memory.update(new, supersedes=old)
    memory.update(other, supersedes=old)
    memory.update(new, supersedes=None)
    assert memory.get(old).weight == 0.1
    assert returned(memory) == {NEW, OTHER}


def test_the_other_way_round_turns_the_relation(memory, ids):
    old, new, _ = ids
    memory.update(new, supersedes=old)
    memory.update(old, weight=0.8)
    memory.update(old, supersedes=new)
    assert memory.get(new).supersedes is None
    assert returned(memory) == {OLD, OTHER}


def test_dismissing_the_pair_gives_the_weight_back_and_undo_takes_it_again(memory, ids):
    old, new, _ = ids
    memory.update(new, supersedes=old)
    memory.dismiss(new, old)
    assert (memory.get(old).weight, memory.get(old).replaced_by) == (0.9, None)
    memory.dismiss(new, old, undo=True)
    assert (memory.get(old).weight, memory.get(old).replaced_by.id) == (0.1, new)


def test_a_weight_that_was_set_since_is_kept(memory, ids):
    old, new, _ = ids
    memory.update(new, supersedes=old)
    memory.update(old, weight=0.5)
    memory.update(new, supersedes=None)
    assert memory.get(old).weight == 0.5


def test_a_new_text_keeps_what_the_caller_said(memory, ids):
    old, new, _ = ids
    memory.update(new, supersedes=old)
    made = memory.update(new, content=OTHER + " each").memory
    assert [one.id for one in made.relations if one.by == "caller"] == [old]


def test_a_restored_version_has_its_relation(memory, ids):
    old, new, _ = ids
    memory.update(new, supersedes=old)
    memory.update(new, supersedes=None)
    memory.restore(new, 2)
    assert memory.get(old).replaced_by.id == new
    memory.restore(new, 1)
    assert memory.get(old).replaced_by is None


@pytest.mark.parametrize(("named", "error"), [("deadbeef", NotFoundError), ("itself", InputError)])
def test_an_unknown_memory_and_the_memory_itself_are_refused(memory, ids, named, error):
    with pytest.raises(error, match="supersedes"):
        memory.update(ids[1], supersedes=ids[1] if named == "itself" else named)
    assert memory.get(ids[1]).version == 1


def test_a_shared_memory_cannot_supersede_a_private_one(memory, ids):
    private = memory.remember("Mine alone", user_id="alice").memory.id
    with pytest.raises(NotFoundError, match="supersedes"):
        memory.update(ids[0], supersedes=private, user_id="alice")
