"""What a text speaks of: content words without questions, small talk, and what is said of the listener."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from salience.extract.subjects import Subjects, stated
from salience.text import Tokeniser

READ = Subjects(Tokeniser())


def subjects(content: str, is_turn: bool = False) -> list[str]:
    return list(READ.of(content, is_turn).values())


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("Ana drinks green tea at breakfast", ["ana", "drinks", "green", "tea", "breakfast"]),
        ("User likes espresso", ["espresso"]),
        ("Thanks a lot, that sounds great!", []),
        ("Wow, Mel! So happy for you.", ["mel"]),
        ("Where is the boat?", []),
        ("Where is the boat? The boat is in Porto.", ["boat", "porto"]),
        ("Which database? PostgreSQL", ["postgresql"]),
        ('He asked "Is it tea?" It is coffee.', ["coffee"]),
        ("The page is at https://host/find?tea=1 now", ["page", "https", "host", "tea"]),
        ("2026 12:30", []),
        ("v2 of the API", ["v2", "api"]),
        ("Boats and a boat", ["boats"]),
        ("お茶が好き？ 緑茶が好き。", ["緑茶", "茶が", "が好", "好き"]),
        ("", []),
    ],
)
def test_what_a_text_speaks_of(content, found):
    assert subjects(content) == found


def test_a_turn_does_not_speak_of_its_listener():
    content = "I bought a boat. Your garden is lovely! You're good at pottery."
    assert subjects(content, is_turn=True) == ["bought", "boat"]
    assert subjects(content) == ["bought", "boat", "garden", "pottery"]


def test_in_another_language_nothing_is_small_talk():
    read = Subjects(Tokeniser("german"))
    assert list(read.of("Das Boot leckt. Wo ist es?").values()) == ["boot", "leckt"]
    assert list(read.of("Man wird moment fun", is_turn=True).values()) == ["moment", "fun"]
    assert list(Subjects(Tokeniser("none")).of("Thanks for the boat").values()) == ["for", "the", "boat"]


def test_sentences_that_are_no_questions():
    assert stated("One. Two? Three! Four") == ["One.", "Three!", "Four"]
    assert stated("Is it?) Yes.\nNo?\n") == ["Yes."]


@given(st.text(max_size=200), st.booleans())
@example("B'㐀", False)
def test_any_text_is_read_and_read_the_same_twice(content, is_turn):
    found = READ.of(content, is_turn)
    assert found == READ.of(content, is_turn)
    assert set(found) <= set(Tokeniser().terms(content))
