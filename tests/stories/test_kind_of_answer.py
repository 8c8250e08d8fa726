"""Questions for a place, a time, a person or an amount, beside memories of something else of the right thing, or that
only deny what is asked, or say it the other way round."""

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
    ("We deploy every Thursday afternoon", "We never deploy on Fridays", "When do we deploy?"),
    ("The key is under the flower pot", "The key is not under the doormat", "Where is the key?"),
    ("Kofi leads the design team", "Dana does not lead the design team", "Who leads the design team?"),
    ("We use Postgres for the ledger", "We do not use MySQL for the ledger", "What do we use for the ledger?"),
    ("We format the code with ruff", "We do not format the code with black", "How do we format the code?"),
    (
        "The web app calls the billing service",
        "The billing service calls the ledger",
        "What calls the billing service?",
    ),
    ("The importer depends on the parser", "The parser depends on the lexer", "What depends on the parser?"),
    ("The parser depends on the lexer", "The importer depends on the parser", "What does the parser depend on?"),
    ("La biblioteca abre a las nueve", "La biblioteca no abre los domingos", "¿Cuándo abre la biblioteca?"),
    ("La réunion est le mardi", "La réunion n'est jamais le vendredi", "Quand est la réunion ?"),
]
ANSWERS = [
    ("The spare key hangs behind the boiler", "Where is the spare key?"),
    ("My passport: top drawer", "Where is my passport?"),
    ("Lisbon has our office", "Where is our office?"),
    ("The neighbour feeds the cat", "Who feeds the cat?"),
    ("I passed my driving test!", "When did I pass my driving test?"),
    ("The wedding is off", "When is the wedding?"),
    ("My lease ends once the exam is over", "When does my lease end?"),
    ("The shop doesn't open until nine", "When does the shop open?"),
    ("The key is not far from the door", "Where is the key?"),
    ("The printer is not working", "How is the printer?"),
    ("The printer is not working", "Is the printer working?"),
    ("Don't forget the dentist on Monday at nine", "When is the dentist?"),
    ("Never wash the wool sweater hot", "How do I wash the wool sweater?"),
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
        ("Alice does not live in Porto", "Bob lives in Rome", "Where does Alice live?"),
        ("Alice reports to Cleo", "Dan reports to Bob", "Who reports to Alice?"),
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


def test_a_statement_that_says_it_the_other_way_round_is_no_sure_answer():
    assert asked("Who reports to Bob?", "Bob reports to Cleo").verdict == "does not answer"
    assert asked("Who reports to Bob?", "Ann reports to Bob").verdict == "answers"


def test_a_newer_denial_takes_over_the_score_of_what_it_denies_and_is_less_sure():
    with salience.connect(":memory:") as memory:
        older = memory.remember("The standup is on Monday").memory
        newer = memory.remember("The standup is not on Monday").memory
        found = memory.recall("When is the standup?")
        certain = memory.recall("Is the standup on Monday?")
    assert [hit.memory.id for hit in found] == [newer.id, older.id]
    assert found[1].memory.replaced_by is not None
    assert found[0].confidence < certain[0].confidence
    assert (found.verdict, certain.verdict) == ("may answer", "answers")


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("We deploy every Thursday afternoon", "We never deploy on Fridays"),
        ("We never deploy on Fridays", "We deploy every Thursday afternoon"),
        ("Leo plays the cello", "Leo does not play the piano"),
        ("Payments are not enabled in us", "Payments are enabled in eu"),
    ],
)
def test_a_denial_and_another_value_replace_nothing(older, newer):
    with salience.connect(":memory:") as memory:
        first = memory.remember(older).memory
        memory.remember(newer)
        assert memory.get(first.id).replaced_by is None


def test_the_score_and_the_confidence_say_so():
    found = asked("Where is the office?", "The office closes at six")
    detail = found[0].score_detail
    assert detail.answer_kind == 0.7
    assert found[0].score == pytest.approx(detail.recompute(), abs=1e-9)
