"""Whom a question names, and the question in that one's own voice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from salience.extract.speakers import first_person, forms, named, roles


@pytest.mark.parametrize(
    ("query", "named", "expected"),
    [
        ("What did Caroline research?", ["Caroline"], "What did I research?"),
        ("When is Caroline's party?", ["Caroline"], "When is my party?"),
        ("When is Caroline’s party?", ["Caroline"], "When is my party?"),
        ("Who met Ann Lee and Ann?", ["Ann Lee"], "Who met I and I?"),
        ("Is Annabel here?", ["Ann"], "Is Annabel here?"),
        ("what did caroline say", ["Caroline"], "what did I say"),
        ("When will Mel go?", ["Will", "Mel"], "When will I go?"),
        ("What did C++ (x) say?", ["C++ (x)"], "What did I say?"),
        ("What is it?", [], "What is it?"),
        ("What did Zoë paint?", ["Zoë"], "What did I paint?"),
    ],
)
def test_a_question_becomes_the_speaker_s_own(query, named, expected):
    assert first_person(query, named) == expected


@pytest.mark.parametrize(
    ("query", "speakers", "expected"),
    [
        ("What may happen to the flat?", ["May"], ()),
        ("What did May say?", ["May", "Mel"], ("May",)),
        ("Will Mel come?", ["Will", "Mel"], ("Mel",)),
        ("When did Will come?", ["Will"], ("Will",)),
        ("what did will say", ["Will"], ("Will",)),
        ("What colour is the bike?", ["The Boss"], ()),
        ("What did The Boss say?", ["The Boss"], ("The Boss",)),
        ("Where is the new bike?", ["New user"], ()),
        ("What do I like?", ["I"], ()),
        ("What did Ann say?", ["Ann Lee", "Annabel"], ("Ann Lee",)),
        ("Is C++ (x) here?", ["C++ (x)"], ("C++ (x)",)),
    ],
)
def test_a_name_that_is_a_common_word_names_nobody_where_it_is_one(query, speakers, expected):
    assert named(query, speakers) == expected


def test_pronouns_stand_for_the_roles_of_a_chat():
    assert roles("What did I say of Caroline's?") == ("user", "human")
    assert roles("What did you say of mine?") == ("user", "human", "assistant", "ai")
    assert roles("What did Caroline say?") == ()


def test_a_speaker_goes_by_the_whole_name_and_its_first_word():
    assert forms(["Ann Lee", "Ann", "Zoë  Q"]) == ("ann lee", "ann", "zoë q", "zoë")


@given(st.text(max_size=60), st.lists(st.text(min_size=1, max_size=8).filter(str.strip), max_size=3))
def test_any_query_is_read(query, speakers):
    assert isinstance(first_person(query, speakers), str)
    assert set(named(query, speakers)) <= set(speakers)
    assert all(forms(speakers))
