"""An answer without memories says which scopes have some, as far as the caller may know; an id needs no scope."""

from __future__ import annotations

import pytest

from salience import ANY, NotFoundError, OutOfScope, Scope

pytestmark = pytest.mark.every_store


@pytest.fixture
def memory(planted):
    made = planted({"tea": 0.9, "coffee": 0.9, "soup": 0.9})
    for text in ("tea", "coffee"):
        made.remember(text, user_id="alice")
    made.remember("soup", user_id="alice", project="atlas")
    return made


READS = {
    "recall": lambda memory, **where: memory.recall("query", **where),
    "recall_many": lambda memory, **where: memory.recall_many(["query", "query"], **where)[-1],
    "graph_recall": lambda memory, **where: memory.graph_recall("query", **where),
    "context": lambda memory, **where: memory.context("query", **where),
    "list": lambda memory, **where: memory.list(**where),
    "stats": lambda memory, **where: memory.stats(**where),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_read_that_finds_nothing_tells_where_memories_are(memory, read):
    hers = OutOfScope(Scope(user_id="alice"), 2)
    in_atlas = OutOfScope(Scope(user_id="alice", project="atlas"), 1)
    assert read(memory).out_of_scope == (hers, in_atlas)
    assert read(memory, project="zen").out_of_scope == (hers,)
    assert read(memory, user_id="alice").out_of_scope == ()
    assert read(memory, user_id=ANY, project=ANY, agent_id=ANY, environment="staging").out_of_scope == ()


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_call_with_a_user_names_no_other_user(memory, read):
    assert read(memory, user_id="bob").out_of_scope == ()


def test_the_past_and_later_pages_tell_of_none(memory):
    stored = memory.list(user_id="alice").memories[0].created_at
    assert memory.recall("query", as_of=stored).out_of_scope == ()
    assert memory.list(cursor="f" * 32).out_of_scope == ()


def test_an_empty_answer_counts_the_memories_elsewhere_that_its_filters_accept(memory):
    memory.remember("tea", user_id="alice", tags=["a"], fact_key="alice.drink", kind="rule", duplicate=True)
    for read in (memory.list, lambda **given: memory.recall("query", **given)):
        for given, counts in (
            ({}, [3, 1]),
            ({"tags": ["a"]}, [1]),
            ({"tags": ["b"]}, []),
            ({"kinds": ["rule"]}, [1]),
            ({"scope": "global"}, [3]),
            ({"where": {"plan": "pro"}}, []),
            ({"until": "2001-01-01"}, []),
        ):
            assert [place.count for place in read(**given).out_of_scope] == counts, given
    for given, counts in (
        ({"fact_keys": ["alice.drink"]}, [1]), ({"words": ["soup"]}, [1]), ({"statuses": ["forgotten"]}, [])
    ):  # fmt: skip
        assert [place.count for place in memory.list(**given).out_of_scope] == counts, given


def test_memories_are_listed_by_their_fact(memory):
    for key in ("alice.drink", "alice.meal"):
        memory.remember(key, fact_key=key, user_id="alice")
    listed = memory.list(fact_keys=["alice.meal", "alice.home"], user_id="alice").memories
    assert [one.content for one in listed] == ["alice.meal"]


def test_out_of_scope_memories_are_described_in_a_sentence():
    one = OutOfScope(Scope(user_id="alice"), 3)
    assert one.describe() == "3 memories of user 'alice' are not in view; add user_id='alice'"
    both = OutOfScope(Scope(project="p", agent_id="a"), 1)
    assert both.describe() == "1 memory of project 'p' and agent 'a' is not in view; add project='p' agent_id='a'"


def test_an_id_is_enough_for_history_get_and_explain(memory):
    kept = memory.list(user_id="alice", project="atlas").memories[-1]
    for id in (kept.id, kept.short_id):
        assert memory.get(id) == memory.history(id)[0].memory == kept
        found = memory.explain("query", id)
        assert (found.stage, found.path[0].note) == ("returned", "with project='atlas', user_id='alice'")
        assert found.reason.endswith(
            " Explained with project='atlas', user_id='alice', the memory's own scope; this call does not see it."
        )
        assert found.rank == memory.explain("query", id, user_id="alice", project="atlas").rank
        for verb in (memory.get, memory.history, lambda id, **where: memory.explain("query", id, **where)):
            with pytest.raises(NotFoundError):
                verb(id, user_id="bob")
    memory.forget(kept.id, user_id="alice", project="atlas")
    assert memory.history(kept.id)[-1].memory.status == "forgotten"
    assert memory.explain("query", kept.id).stage == "forgotten"


def test_an_empty_answer_names_the_conditions_that_leave_out_every_memory(memory):
    where = {"user_id": "alice"}
    memory.remember("coffee", tags=["a"], kind="rule", duplicate=True, **where)
    memory.recall("query", **where)
    for given, names in (
        ({}, ()),
        ({"tags": ["a"]}, ()),
        ({"tags": ["b"]}, ("tags",)),
        ({"tags": ["a"], "kinds": ["fact"]}, ("tags", "kinds")),
        ({"tags": ["b"], "kinds": ["fact"]}, ("tags",)),
        ({"tags": ["b"], "kinds": ["context"]}, ("tags", "kinds")),
        ({"until": "2001-01-01"}, ("until",)),
        ({"where": {"plan": "pro"}}, ("where",)),
        ({"scope": "project"}, ("scope",)),
    ):
        assert memory.list(**given, **where).emptied_by == names, given
        assert memory.recall("query", min_score=0, **given, **where).emptied_by == names, given
        assert memory.context("query", **given, **where).emptied_by == names, given
    for given, names in (
        ({"words": ["water"]}, ("words",)),
        ({"ids": ["f" * 32]}, ("ids",)),
        ({"statuses": ["expired"]}, ("statuses",)),
        ({"users": ["bob"]}, ("users",)),
        ({"fact_keys": ["alice.x"], "statuses": ["live"]}, ("fact_keys",)),
    ):
        assert memory.list(**given, **where).emptied_by == names, given
    assert memory.list(tags=["b"], user_id="bob").emptied_by == ()
    assert memory.list(tags=["b"], cursor="f" * 32, **where).emptied_by == ()
    assert memory.recall("query", tags=["a"], min_score=99, **where).emptied_by == ()
    assert repr(memory.list(tags=["b"], **where)) == "Page(0 memories; tags leaves out every memory in view)"
