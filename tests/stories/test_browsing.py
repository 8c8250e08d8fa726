"""Listing memories by many conditions, counting their values, sessions, and the scores of a recall."""

from __future__ import annotations

import pytest

from salience import InputError

pytestmark = pytest.mark.every_surface
COSINES = {"tea is green": 0.9, "coffee is black": 0.5, "Ann lives in Oslo": 0.1}


@pytest.fixture
def memory(planted):
    made = planted(COSINES)
    made.remember("tea is green", user_id="alice", tags=["drink"], importance=0.2, session_id="monday")
    made.remember("coffee is black", importance=0.9)
    made.remember("Ann lives in Oslo", user_id="alice", entities=["Ann", "Oslo"], importance=0.5)
    return made


def texts(page):
    return [one.content for one in page]


def test_a_list_is_sorted_by_a_field_page_by_page(memory):
    found, cursor = [], None
    while len(found) < 3:
        page = memory.list(user_id="alice", order="importance", descending=True, limit=2, cursor=cursor)
        found, cursor = found + texts(page), page.cursor
    assert found == ["coffee is black", "Ann lives in Oslo", "tea is green"]
    assert cursor is None


def test_a_list_takes_ids_words_entities_and_statuses(memory):
    one, _, last = memory.list(user_id="alice")
    assert texts(memory.list(user_id="alice", ids=[last.short_id, one.id])) == ["tea is green", "Ann lives in Oslo"]
    assert texts(memory.list(user_id="alice", words=["TEA", "green"])) == ["tea is green"]
    assert texts(memory.list(user_id="alice", entities=["Oslo", "Rome"])) == ["Ann lives in Oslo"]
    memory.forget(one.id, user_id="alice")
    assert texts(memory.list(user_id="alice", statuses=["forgotten"])) == ["tea is green"]
    assert texts(memory.list(user_id="alice", users=[""])) == ["coffee is black"]
    assert texts(memory.list(user_id="alice", users=["alice"])) == ["Ann lives in Oslo"]


@pytest.mark.parametrize(
    "wrong",
    [{"order": "colour"}, {"statuses": ["gone"]}, {"cursor": "zz"}, {"words": "tea"}, {"words": ["a"] * 21}],
    ids=str,
)
def test_a_list_refuses_other_values(memory, wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        memory.list(**wrong)


def test_facets_count_the_values_of_fields(memory):
    found = memory.facets(user_id="alice", fields=["user_id", "entity"], words=["e"])
    assert (found.total, {**found.values["user_id"]}) == (3, {"alice": 2, "": 1})
    assert {**found.values["entity"]} == {"Ann": 1, "Oslo": 1}
    assert {*memory.facets(user_id="alice").values} >= {"kind", "tag", "status"}


def test_sessions_are_those_of_the_user(memory):
    [one] = memory.sessions(user_id="alice").sessions
    assert (one.id, one.user_id, one.size) == ("monday", "alice", 1)
    assert memory.sessions().sessions == ()


def test_the_scores_of_a_recall_name_what_it_does_not_return(memory):
    found = memory.scores("query", user_id="alice", limit=1)
    assert found.candidates == 3
    assert sum(found.dropped.values()) == 2
    assert [one.memory.content for one in found.missed][:1] == ["coffee is black"]


def test_a_cursor_of_another_order_is_refused_with_what_to_give(memory):
    cursor = memory.list(limit=1, user_id="alice").cursor
    with pytest.raises(InputError, match="under the same arguments"):
        memory.list(limit=1, order="importance", cursor=cursor, user_id="alice")
