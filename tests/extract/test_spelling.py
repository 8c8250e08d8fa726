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
    text = "how many was v2.3.0 of the app relesed in 2024 to adc1"
    assert tokeniser.correctable(text, "english") == {"reles"}
    assert tokeniser.correctable("Müllers Schlussel", "german") == frozenset()
    assert Tokeniser(NO_LANGUAGE).correctable("adress müller", NO_LANGUAGE) == {"adress"}
    assert tokeniser.correctable(f"{'x' * 32} {'x' * 33}", "english") == {"x" * 32}  # its spellings would be thousands


@pytest.mark.parametrize(
    ("text", "correctable"),
    [
        ("how do I reset the cache", set()),
        ("was the boat slighted or sighted", set()),
        ("uteke-cloud-dev tiemout", {"tiemout"}),
        ("parseConfg, MAX_RETRY_CUONT, app.setings and sttings.py fail", set()),
        ("wich docter has my adress?", {"wich", "docter", "adress"}),
    ],
)
def test_english_words_and_names_in_code_are_not_correctable(text, correctable):
    assert Tokeniser(AUTO).correctable(text, "english") == correctable
    assert Tokeniser("english").correctable(text, "english") == correctable


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
