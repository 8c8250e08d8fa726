"""A misspelt query finds what the correctly spelt one finds, and the answer shows the correction."""

import re

import pytest

import salience
from salience import InputError
from salience.records.checks import QUERY_LIMIT
from tests.contract.doubles import PlantedEmbedder


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


def test_the_first_eight_words_are_corrected(memory):
    unknown = [f"unknwn{letter}" for letter in "abcdefg"]
    for words, corrected in (
        (["adress", "gardn", *unknown], {"adress", "gardn"}),
        ([*unknown, "adress", "gardn"], {"adress"}),
        ([*unknown, "unknwnh", "adress"], set()),
    ):
        assert memory.recall(" ".join(words), user_id="alice").corrected.keys() == corrected


@pytest.mark.parametrize(("verb", "field"), [("recall", "query"), ("context", "query"), ("recall_many", "queries[1]")])
def test_a_query_has_a_limit_of_its_own(memory, verb, field):
    """Each step of a recall takes time for the length of its query, and no deadline ends it."""
    for length in (QUERY_LIMIT, QUERY_LIMIT + 1):
        query = ("word " * QUERY_LIMIT)[: length - 1] + "x"
        given = ["fine", query] if verb == "recall_many" else query
        if length == QUERY_LIMIT:
            getattr(memory, verb)(given, user_id="alice")
            continue
        with pytest.raises(InputError, match=rf"^{re.escape(field)} has 4,097 characters. Keep it within 4,096"):
            getattr(memory, verb)(given, user_id="alice")


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


ADDRESS = "My new address is Mill Lane 4"
CORRECTED = {"cosines": {ADDRESS: 0.1, "query: alices address": 0.1}, "axes": {ADDRESS: 1, "query: alices address": 1}}


def test_the_vector_is_the_mean_of_both_spellings(planted):
    memory = planted(**CORRECTED)  # the vector of the corrected query is that of the memory
    memory.remember(ADDRESS, user_id="alice")
    (misspelt,) = memory.recall("query: alices adress", user_id="alice")
    (other,) = memory.recall("query: alices home", user_id="alice", min_score=0)
    assert other.score_detail.similarity == pytest.approx(0.1)
    assert misspelt.score_detail.similarity == pytest.approx((1.1 / 2) ** 0.5)


@pytest.mark.parametrize("deadline_ms", [None, 60_000])
def test_token_vectors_of_both_spellings_count(tmp_path, deadline_ms):
    with salience.connect(tmp_path / "agent.db") as memory:
        memory.remember_many([{"content": "The dentist is Dr. Okafor"}, {"content": "The tailor is Dr. No"}])
        right = memory.recall("dentist apointment", dry_run=True)
        misspelt = memory.recall("dentst apointment", dry_run=True, deadline_ms=deadline_ms)
        assert misspelt.corrected == {"dentst": "dentist"}
        assert misspelt[0].memory.content == "The dentist is Dr. Okafor"
        assert misspelt[0].score_detail.late_interaction == pytest.approx(right[0].score_detail.late_interaction)
        found = memory.explain("dentst apointment", misspelt[0].memory.id)
        assert found.score_detail == misspelt[0].score_detail


def test_a_remote_embedder_gets_no_second_request():
    embedder = PlantedEmbedder(**CORRECTED)
    embedder.remote = True
    with salience.connect(":memory:", embedder=embedder) as memory:
        memory.remember(ADDRESS)
        found = memory.recall("query: alices adress")
        assert found.corrected == {"adress": "address"}
        assert found[0].score_detail.similarity == pytest.approx(0.1)
        assert "query: alices address" not in embedder.texts
