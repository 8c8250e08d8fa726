"""A misspelt word is corrected to the word that it most likely is, and to none if it is no likely misspelling."""

import pytest

from salience.text import AUTO, NO_LANGUAGE, Tokeniser, similar_term


@pytest.mark.parametrize(
    ("term", "known", "found"),
    [
        ("adress", {"address": 1}, "address"),
        ("birtday", {"birthday": 1}, "birthday"),
        ("yaer", {"year": 1}, "year"),
        ("dril", {"drill": 1}, "drill"),
        ("docter", {"doctor": 1}, "doctor"),
        ("chello", {"cello": 1}, "cello"),
        ("ehllo", {"hello": 1}, "hello"),
        ("kiten", {"kitten": 1, "kitchen": 9}, "kitten"),
        ("comit", {"comfit": 9, "commit": 1}, "commit"),
        ("vallet", {"valley": 1, "ballet": 9}, "valley"),
        ("tablet", {"tables": 1, "cabled": 1}, "tables"),
        ("walet", {"wallet": 2, "waslet": 5}, "wallet"),
        ("boat", {"coat": 5, "boats": 1, "beat": 3, "bat": 3}, None),
        ("sport", {"spot": 5, "short": 1}, None),
        ("brand", {"brandl": 1}, None),
        ("address", {}, None),
        ("ab", {"ba": 1}, None),
    ],
)
def test_similar_term(term, known, found):
    assert similar_term(term, lambda other: known.get(other, 0)) == found


def test_frequent_words_numbers_and_short_words_are_not_correctable():
    tokeniser = Tokeniser(AUTO)
    terms = tokeniser.terms("how many was v2.3.0 of the app relesed in 2024 to adc1")
    assert tokeniser.correctable(terms, "english") == {"reles"}
    assert tokeniser.correctable(tokeniser.terms("Müllers Schlussel"), "german") == frozenset()
    assert Tokeniser(NO_LANGUAGE).correctable(("adress", "müller"), NO_LANGUAGE) == {"adress"}
    assert tokeniser.correctable(("x" * 32, "x" * 33), "english") == {"x" * 32}  # its spellings would be thousands


@pytest.mark.parametrize(
    ("text", "term", "similar", "words"),
    [
        ("wich alergy is it?", "alergi", "allergi", ("alergy", "allergy")),
        ("expence limit", "expenc", "expens", ("expence", "expense")),
        ("my Adress", "adress", "address", ("adress", "address")),
    ],
)
def test_a_correction_is_shown_as_words(text, term, similar, words):
    assert Tokeniser(AUTO).respelled(text, term, similar) == words
