"""Statements about a relative, and questions about oneself."""

import pytest

from salience.extract.owners import owner
from salience.extract.rivals import of_self
from salience.text import AUTO, Tokeniser

TOKENISER = Tokeniser(AUTO)


def kinds(question):
    language = TOKENISER.language_of(question)
    searched = TOKENISER.query_terms(question, language)
    found = of_self(question, lambda word: TOKENISER.terms(word, language), searched=searched)
    return {kind for one in found for kind in one.kinds}


@pytest.mark.parametrize(
    "text",
    [
        "My brother has a dog",
        "my big sister lives in Rome",
        "My friend Tom works at Siemens",
        "My brother skates on Sundays",
        "Anna's brother is a pilot",
        "The user's wife is allergic to nuts",
        "Note: my mother is in Porto",
        "Mein Bruder wohnt in Porto",
        "Mi hermano vive en Oporto",
        "Ma femme travaille chez Renault",
    ],
)
def test_a_statement_about_a_relative_has_that_owner(text):
    assert owner(text) == "relative"


@pytest.mark.parametrize(
    "text",
    [
        "My brother's dog is ill",
        "My boss's office is on the third floor",
        "My parents' house has a garden",
        "Today my sister's flat was sold",
        "The car of my brother is red",
        "El perro de mi hermano se llama Otto",
        "Der Hund meines Bruders heißt Otto",
    ],
)
def test_a_statement_about_what_belongs_to_a_relative_has_that_owner(text):
    assert owner(text) == "relative's"


@pytest.mark.parametrize(
    "text",
    [
        "My dog is ill",
        "My brother's dog bit me",
        "My wife and I share a car",
        "My wife booked the hotel",
        "My doctor's name is Dr Lim",
        "My cat's vet is Dr Hahn",
        "The passport is at my parents' house",
        "Dinner with my wife is at eight",
        "The parent company is in Oslo",
        "Child processes are limited to eight",
        "My brother",
        "",
    ],
)
def test_other_statements_have_none(text):
    assert owner(text) == ""


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("What is my dog called?", "dog"),
        ("Where do I live?", "live"),
        ("What am I allergic to?", "allerg"),
        ("Which car do I have?", "car"),
        ("How old am I?", "old"),
        ("Where is the user's passport?", "passport"),
        ("Wo wohne ich?", "wohn"),
    ],
)
def test_a_question_about_oneself_asks_about_a_kind(question, kind):
    assert kind in kinds(question)


@pytest.mark.parametrize(
    "question",
    [
        "What is my brother's dog called?",
        "Where does my mother live?",
        "Where do I meet my friends?",
        "Which car do my wife's parents have?",
        "Which dog bit me?",
        "What should I cook for my guests?",
        "What is Alice's dog called?",
        "What is the dog called?",
        "What did I do?",
        "",
    ],
)
def test_other_questions_do_not(question):
    assert kinds(question) == set()


def test_who_asks_for_a_relative_too_but_not_for_what_belongs_to_one():
    (one,) = of_self("Who feeds my cat?", TOKENISER.terms, searched=("feed", "cat"))
    assert one.members == ((), ("owner:relative's",))
