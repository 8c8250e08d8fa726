"""Questions for a place, a time, a person or an amount, beside memories of something else of the right thing."""

from __future__ import annotations

import pytest

import salience

PAIRS = [
    ("The office is in Lisbon", "The office closes at six", "Where is the office?"),
    ("My sister works from home", "My sister works long hours", "Where does my sister work?"),
    ("The spare key hangs behind the boiler", "The spare key does not fit well", "Where is the spare key?"),
    ("Backups go to s3://corp-backups", "The backups run every night", "Where are the backups stored?"),
    ("Standup is at half past nine", "Our standup is too long", "When is our standup?"),
    ("The release is planned for 12 March", "The release contains the new login", "When is the release?"),
    ("The kids have swimming on Wednesdays", "The kids love swimming", "When do the kids have swimming?"),
    ("The dentist visit is tomorrow", "The dentist visit is with Dr Hahn", "When is the dentist visit?"),
    ("A roofer from Leeds repaired the roof", "The roof was repaired in May", "Who repaired the roof?"),
    ("The payments squad owns the repo", "The repo uses trunk-based development", "Who owns the repo?"),
    ("The team is six people", "The team works from Berlin", "How many people are in the team?"),
    ("The rent is 900 euros", "The rent is due on Monday", "How much is the rent?"),
    ("The warranty lasts two years", "The warranty covers water damage", "How long is the warranty?"),
    ("The backup runs nightly", "The backup writes to a separate disk", "How often does the backup run?"),
    ("My car is dark green", "My car is a Skoda Fabia", "What colour is my car?"),
    ("Mein Reisepass ist in der Schublade", "Mein Reisepass läuft im Mai ab", "Wo ist mein Reisepass?"),
    ("Das Standup ist um halb zehn", "Das Standup dauert zu lange", "Wann ist das Standup?"),
    ("La oficina está en Lisboa", "La oficina cierra a las seis", "¿Dónde está la oficina?"),
    ("El alquiler es de 900 euros", "El alquiler se paga por transferencia", "¿Cuánto es el alquiler?"),
    ("Le bureau est à Lisbonne", "Le bureau ferme à six heures", "Où est le bureau ?"),
    ("La réunion est à neuf heures", "La réunion est trop longue", "Quand est la réunion ?"),
]
ANSWERS = [
    ("The spare key hangs behind the boiler", "Where is the spare key?"),
    ("My passport: top drawer", "Where is my passport?"),
    ("Lisbon has our office", "Where is our office?"),
    ("The neighbour feeds the cat", "Who feeds the cat?"),
    ("I passed my driving test!", "When did I pass my driving test?"),
    ("The wedding is off", "When is the wedding?"),
    ("My lease ends once the exam is over", "When does my lease end?"),
]


def asked(question, *texts):
    with salience.connect(":memory:") as memory:
        for text in texts:
            memory.remember(text)
        return memory.recall(question)


@pytest.mark.parametrize(("right", "other", "question"), PAIRS)
@pytest.mark.parametrize("newest_first", [False, True])
def test_a_memory_with_an_answer_of_the_kind_comes_first(right, other, question, newest_first):
    found = asked(question, *((other, right) if newest_first else (right, other)))
    assert found[0].memory.content == right


@pytest.mark.parametrize(("other", "question"), [(other, question) for _, other, question in PAIRS])
def test_a_memory_without_one_is_no_sure_answer(other, question):
    assert asked(question, other).verdict != "answers"


@pytest.mark.parametrize(("text", "question"), ANSWERS)
def test_a_memory_with_one_answers(text, question):
    assert asked(question, text).verdict == "answers"


@pytest.mark.parametrize(
    ("named", "other", "question"),
    [
        ("Alice is a nurse", "Bob works at the harbour", "Where does Alice work?"),
        ("PR 89 is blocked", "The deploy is at noon", "When is PR 89 deployed?"),
        ("The left drawer sticks", "The scissors are in the kitchen", "Where is the left drawer?"),
    ],
)
def test_what_the_question_names_counts_more_than_the_kind(named, other, question):
    found = asked(question, named, other)
    assert found[0].memory.content == named
    assert {hit.score_detail.answer_kind for hit in found} == {1.0}


def test_a_newer_memory_without_an_answer_takes_over_no_score_from_one_with_it():
    with salience.connect(":memory:") as memory:
        older = memory.remember("My sister works from home").memory
        newer = memory.remember("My sister works long hours").memory
        assert [one.kind for one in newer.relations or ()] == ["replaces"]  # so the model of relations says
        found = memory.recall("Where does my sister work?")
    assert [hit.memory.id for hit in found] == [older.id, newer.id]
    assert found[1].via is None


def test_the_score_and_the_confidence_say_so():
    found = asked("Where is the office?", "The office closes at six")
    detail = found[0].score_detail
    assert detail.answer_kind == 0.7
    assert found[0].score == pytest.approx(detail.recompute(), abs=1e-9)
