"""An answer without memories says which scopes have some, as far as the caller may know; an id needs no scope."""

from __future__ import annotations

import pytest

from salience import ANY, NotFoundError, OutOfScope, Scope, recall

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
    assert repr(memory.list(tags=["b"], **where)) == "Page(0 memories; tags leaves out every memory in view)"


def test_an_empty_answer_names_the_limit_the_least_score_or_the_instant_that_leaves_out_every_memory(memory):
    memory.remember("coffee", tags=["a"], user_id="alice")
    for given, names in (
        ({"limit": 0}, ("limit",)),
        ({"min_score": 99}, ("min_score",)),
        ({"as_of": "2001-01-01"}, ("as_of",)),
        ({"as_of": "2001-01-01", "tags": ["b"]}, ()),
        ({"min_score": 99, "tags": ["b"]}, ("tags",)),
    ):
        assert memory.recall("query", user_id="alice", **given).emptied_by == names, given
        [answer] = memory.recall_many(["query"], user_id="alice", **given)
        assert answer.emptied_by == names, given
    for given in ({"min_score": 99}, {"as_of": "2001-01-01"}):  # nobody else has a memory
        assert memory.recall("query", user_id="bob", **given).emptied_by == (), given


@pytest.fixture
def beside(planted):
    """Return a memory in view of ann, and a nearer one of her agent, which is not."""
    made = planted({"near": 0.9, "far": 0.4, "near again": 0.95, "nearest": 0.97})
    made.remember("near", user_id="ann", agent_id="helper", tags=["trip"])
    made.remember("far", user_id="ann")
    return made


HERS = OutOfScope(Scope(user_id="ann", agent_id="helper"), 1)
NOT_ON_A_SERVER = "a server's store has no memories of other scopes at hand"


@pytest.mark.local(NOT_ON_A_SERVER)
@pytest.mark.parametrize("read", [READS[name] for name in ("recall", "recall_many", "graph_recall", "context")])
def test_a_better_memory_out_of_view_is_told_of_beside_hits(beside, read):
    assert read(beside, user_id="ann").out_of_scope == (HERS,)
    assert read(beside, user_id="ann", agent_id="helper").out_of_scope == ()
    assert read(beside, user_id="ann", agent_id="other").out_of_scope == ()


@pytest.mark.local(NOT_ON_A_SERVER)
def test_only_a_memory_that_would_come_first_is_told_of(beside):
    def places(**given):
        return beside.recall("query", user_id="ann", **given).out_of_scope

    assert places() == places(tags=["trip"]) == (HERS,)
    assert places(kinds=["rule"]) == places(tags=["other"]) == places(limit=0, tags=["other"]) == ()
    beside.remember("near again", user_id="ann")
    assert places() == ()
    beside.remember("nearest", user_id="ann", agent_id="helper", ttl="1h")
    assert [place.count for place in places()] == [2]


@pytest.mark.local(NOT_ON_A_SERVER)
def test_a_better_memory_that_expired_or_is_in_view_too_is_not_told_of(beside, clock):
    brief = beside.remember("nearest", user_id="ann", agent_id="helper", ttl="1h").memory
    beside.remember("near again", user_id="ann")
    assert len(beside.recall("query", user_id="ann").out_of_scope) == 1
    clock.advance(hours=1)
    assert beside.recall("query", user_id="ann").out_of_scope == ()
    beside.restore(brief.id, user_id="ann", agent_id="helper")
    assert len(beside.recall("query", user_id="ann").out_of_scope) == 1
    beside.remember("nearest", user_id="ann", duplicate=True)
    assert beside.recall("query", user_id="ann").out_of_scope == ()


@pytest.mark.local(NOT_ON_A_SERVER)
def test_a_memory_of_another_user_is_never_told_of(beside):
    beside.remember("nearest", user_id="bob")
    assert beside.recall("query", user_id="ann").out_of_scope == (HERS,)
    assert beside.recall("query", user_id="ann", agent_id="helper").out_of_scope == ()
    assert beside.recall("query", user_id="cleo").out_of_scope == ()


@pytest.mark.local("it looks at the store")
def test_a_scope_that_leaves_nothing_out_ranks_nothing_more(planted, monkeypatch):
    memory, ranked = planted({"near": 0.9}), []
    memory.remember("near", user_id="ann")
    rank = recall.rank
    monkeypatch.setattr(recall, "rank", lambda *given: ranked.append(len(given[1])) or rank(*given))
    memory.recall("query", user_id="ann")
    assert ranked == [1]
    for number in range(20):
        memory.remember(f"other {number}", user_id="ann", project="atlas")
    ranked.clear()
    memory.recall("query", user_id="ann")
    assert ranked == [1, 8]
