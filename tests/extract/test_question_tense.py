"""Whether a question asks for a present state, for something past, or for a state that is over."""

from __future__ import annotations

import pytest

from salience.extract.tense import question_tense

FORMER = [
    "Where did I live before Lisbon?",
    "my previous phone",
    "Did I use to smoke?",
    "Which neighbour used to do sewing?",
    "For which day was the wedding originally planned?",
    "Which supplier made our boards until the summer?",
    "Who was the treasurer before Dmitri?",
    "What was my old address?",
    "Bob's old car",
    "What didn't I use before the move?",
]
PAST = [
    "What did Caroline paint?",
    "What did I do the day before yesterday?",
    "What did I do before yesterday?",
    "Who was at the party?",
    "How long was the flight?",
]
PRESENT = [
    "Where do I live?",
    "how old is Ela",
    "boss",
    "is Bob married?",
    "Which tests do I have to run before a push?",
    "Should I show the diff before changing a file?",
    "Where is our office located?",
    "What is the tool used to sign releases?",
    "I am used to tea, what is there?",
    "How long do refunds for unused labels take?",
    "What do we no longer sell?",
    "Wo wohne ich?",
]


@pytest.mark.parametrize(
    ("question", "tense"),
    [
        *((question, "former") for question in FORMER),
        *((question, "past") for question in PAST),
        *((question, "present") for question in PRESENT),
    ],
)
def test_the_tense_of_a_question(question, tense):
    assert question_tense(question) == tense
