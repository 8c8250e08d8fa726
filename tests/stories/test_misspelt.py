"""A misspelt query finds what the correctly spelt one finds, and the answer shows the correction."""

import pytest

pytestmark = pytest.mark.every_store


@pytest.fixture
def memory(planted):
    engine = planted({"My new address is Mill Lane 4": 0.1, "The garden needs water": 0.1})
    engine.remember("My new address is Mill Lane 4", user_id="alice")
    engine.remember("The garden needs water", user_id="alice")
    engine.remember("The sandbox is down", user_id="bob")
    return engine


def test_a_misspelt_word_is_corrected(memory):
    found = memory.recall("query: alices adress", user_id="alice", min_score=0)
    assert found[0].memory.content == "My new address is Mill Lane 4"
    assert found.corrected == {"adress": "address"}
    right = memory.recall("query: alices address", user_id="alice", min_score=0)
    assert right.corrected == {}
    assert right[0].score > found[0].score > right[1].score


def test_words_of_others_are_no_corrections(memory):
    assert memory.recall("query: sandbx", user_id="alice").corrected == {}
    assert memory.recall("query: sandbx", user_id="bob").corrected == {"sandbx": "sandbox"}


def test_a_score_explained_is_that_of_the_corrected_query(memory):
    (hit,) = memory.recall("query: alices adress", user_id="alice", limit=1)
    found = memory.explain("query: alices adress", hit.memory.id, user_id="alice")
    assert found.score_detail == hit.score_detail


def test_a_word_of_the_present_is_unknown_in_the_past(memory, clock):
    past = clock()
    clock.advance(days=1)
    memory.remember("The invoice is paid", user_id="alice")
    assert memory.recall("query: invoce", user_id="alice").corrected == {"invoce": "invoice"}
    assert memory.recall("query: invoce", user_id="alice", as_of=past).corrected == {}
