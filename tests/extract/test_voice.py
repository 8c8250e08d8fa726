"""Whom a question names, and the question in that one's own voice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from salience.extract.voice import first_person, names


@pytest.mark.parametrize(
    ("query", "speakers", "expected"),
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
def test_a_question_becomes_the_speaker_s_own(query, speakers, expected):
    assert first_person(query, speakers) == expected


def test_names_are_phrases_and_the_roles_of_pronouns():
    assert {"caroline", "caroline's", "i"} <= set(names("What did I say of Caroline's?"))
    assert {"user", "human"} <= set(names("What did I say?"))
    assert {"assistant", "ai"} <= set(names("What did you say?"))
    assert not {"user", "assistant"} & set(names("What did Caroline say?"))


@given(st.text(max_size=60), st.lists(st.text(min_size=1, max_size=8).filter(str.strip), max_size=3))
def test_any_text_can_be_asked(query, speakers):
    assert isinstance(first_person(query, speakers), str)
    assert all(name for name in names(query))
