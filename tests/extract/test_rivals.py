"""Words of a question that say which of several things it asks about, and those that do not."""

import pytest

from salience.extract.distinctions import details
from salience.extract.rivals import rivals
from salience.text import AUTO, Tokeniser

TOKENISER = Tokeniser(AUTO)


def found(question, has_window=False):
    language = TOKENISER.language_of(question)

    def terms(word):
        return TOKENISER.terms(word, language)

    searched = TOKENISER.query_terms(question, language)
    return rivals(question, details(question), language, terms, searched=searched, has_window=has_window)


@pytest.mark.parametrize(
    ("question", "kinds", "own", "other"),
    [
        ("Who leads team blue?", {"team"}, "blue", "red"),
        ("Which doctor treats my left knee?", {"treat", "knee"}, "left", "right"),
        ("What is the wifi password at home?", {"password"}, "home", "offic"),
        ("Where does my brother live?", {"live"}, "brother", "sister"),
        ("When is Mom's birthday?", {"birthday"}, "mom", "dad"),
        ("Which version does the us cluster run?", {"cluster"}, "us", "eu"),
        ("Who runs the US team?", {"team"}, "us", "eu"),
        ("When is the standup on Monday?", {"standup"}, "date:monday", "date:friday"),
        ("What is Monday's special?", {"special"}, "date:monday", "date:friday"),
        ("What is the rent for May?", {"rent"}, "date:month 5", "date:month 6"),
        ("What are the morning pills for?", {"pill"}, "date:morning", "date:evening"),
        ("Where is the summer house?", {"hous"}, "date:summer", "date:winter"),
        ("Where is the first draft?", {"draft"}, "number:rank 1", "number:rank 2"),
        ("Where is Tom's 2nd draft?", {"tom", "draft"}, "number:rank 2", "number:rank 1"),
        ("What is the budget for 2025?", {"budget"}, "number:2025", "number:2024"),
        ("What is on the 2025 roadmap?", {"roadmap"}, "number:2025", "number:2024"),
        ("Is the right lane closed?", {"lane"}, "right", "left"),
        ("Wer behandelt mein linkes Knie?", {"behandelt", "knie"}, "link", "recht"),
        ("¿De quién es el coche azul?", {"coch"}, "azul", "roj"),
        ("Qui soigne mon genou gauche ?", {"genou"}, "gauch", "droit"),
    ],
)
def test_a_word_that_says_which_thing_has_rivals(question, kinds, own, other):
    (one,) = found(question)
    assert kinds <= set(one.kinds)
    assert own in one.members[0]
    assert any(other in member for member in one.members[1:])
    assert not any(other in member for member in one.members[:1])


@pytest.mark.parametrize(
    "question",
    [
        "Is the car red?",
        "Is the meeting in the morning?",
        "Should I turn left?",
        "Are the keys in the left drawer?",
        "Does Bob lead the red team?",
        "Am I left-handed?",
        "Is the concert in May?",
        "Ist das Auto rot?",
        "¿Es rojo el coche?",
        "Est-ce que le chemin est à gauche ?",
    ],
)
def test_the_value_that_a_question_for_yes_or_no_asks_about_has_none(question):
    assert found(question) == ()


@pytest.mark.parametrize(
    "question",
    ["Which wheel is flat, the back one?", "When did I move to Berlin, in 2020?", "When is the call, on Monday?"],
)
def test_a_guess_at_the_answer_has_none(question):
    assert found(question) == ()


@pytest.mark.parametrize(
    "question",
    [
        "Do I work at home or at the office?",
        "Which is stronger, my left or my right hand?",
        "Which days from Monday to Friday is the shop open?",
    ],
)
def test_two_words_of_a_class_have_none(question):
    assert found(question) == ()


@pytest.mark.parametrize(
    "question",
    [
        "May I go to Lisbon?",
        "What did Mrs Green order?",
        "Which Red Hat version do we run?",
        "What did Tom tell us about the trip?",
        "When did I first meet Ann?",
        "How many seconds does the test take?",
        "When do I write the report on 9 May?",
        "Where are the links to the slides stored?",
        "Where did I live in 2020?",
        "Who left?",
        "How many days are left in the sprint?",
        "How much budget is left?",
        "What do I do right after the meeting?",
        "When does Ann come back to Berlin?",
        "What do I do on weekends?",
        "Where do my parents live?",
    ],
)
def test_a_word_in_another_sense_has_none(question):
    assert found(question) == ()


def test_a_time_in_which_the_answer_lies_has_none_unless_it_is_the_year_of_a_thing():
    assert found("What did I eat on Monday?", has_window=True) == ()
    assert found("What happened in 2025?", has_window=True) == ()
    assert len(found("What is the budget for 2025?", has_window=True)) == 1


def test_a_word_for_both_is_one_for_each():
    (one,) = found("Where does my mother live?")
    assert "parent" in one.members[0]
    (one,) = found("Who waters the plants on Monday?")
    assert {"date:weekday", "date:every day"} <= set(one.members[0])
