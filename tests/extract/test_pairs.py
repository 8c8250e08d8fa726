"""The subject of a statement, and whether two statements are about the same one."""

from __future__ import annotations

from difflib import SequenceMatcher

import pytest
from hypothesis import given
from hypothesis import strategies as st

from salience.extract.conflicts import relation
from salience.extract.pairs import (
    FEATURES,
    denies_another_value,
    differences,
    features,
    hedges,
    is_about_another,
    repeats_event,
    shared_blocks,
    statement,
)

SUBJECTS = [
    ("I live in Berlin", "self"),
    ("I'm allergic to nuts", "self"),
    ("My favourite colour is green", "thing"),
    ("My brother lives in Berlin", "relative"),
    ("My mum's phone number is 0171", "relative"),
    ("Her sister works at Acme", "relative"),
    ("Bob lives in Berlin", "other"),
    ("borealis runs on db-03", "thing"),
    ("The staging database is PostgreSQL", "thing"),
    ("The wifi password at home is kranich", "thing"),
    ("Moved to Lisbon", "self"),
    ("It is green", "unknown"),
    ("Ich wohne in Berlin", "self"),
    ("Mein Bruder wohnt in Berlin", "relative"),
    ("Das Passwort ist geheim", "thing"),
    ("Vivo en Madrid", "unknown"),
    ("Her car is red", "relative"),
    ("Unser Haus ist rot", "thing"),
    ("Mi hermana vive en Madrid", "relative"),
    ("La contraseña es secreta", "thing"),
    ("我住在柏林", "self"),
    ("我妹妹住在柏林", "relative"),
    ("我的妈妈喜欢喝茶", "relative"),
    ("他住在柏林", "relative"),
]


@pytest.mark.parametrize(("text", "about"), SUBJECTS, ids=[text for text, _ in SUBJECTS])
def test_a_statement_is_about_someone_or_something(text, about):
    assert statement(text).about == about


def test_a_name_of_the_user_or_the_speaker_is_the_first_person():
    assert statement("Rosa lives in Rome").about == "other"
    assert statement("Rosa lives in Rome", "Rosa").about == "self"
    assert statement("Rosa lives in Rome", None, "rosa").about == "self"
    assert statement("User lives in Rome").about == "self"


def test_the_words_of_a_subject_are_stems_without_possessives():
    assert statement("My brother's new cars are red").subject == statement("My brother's new car is red").subject
    assert statement("My dad lives in Rome").subject == statement("My father lives in Rome").subject
    assert statement("我妹妹住在上海").subject == statement("我的妹妹搬到北京了").subject


APART = [
    ("I live in Lisbon", "My brother lives in Berlin"),
    ("My sister lives in Rome", "My brother lives in Berlin"),
    ("Her sister works at Acme", "I work at Globex"),
    ("Bob lives in Rome", "Alice lives in Berlin"),
    ("I live in Rome", "Bob lives in Berlin"),
    ("My brother's car is red", "My car is blue"),
    ("My sister's phone number is 0171 222", "My phone number is 0171 111"),
    ("My daughter's favourite colour is red", "My favourite colour is green"),
    ("The wifi password at the office is x", "The wifi password at home is y"),
    ("The upload limit is 20", "The download limit is 30"),
    ("Bob reports to Cleo", "Ann reports to Bob"),
    ("Paul's shoe size is 38", "My shoe size is 43"),
    ("Tom's office is in room 4", "Our office is in room 5"),
    ("Anna's work number is 030 777", "Anna's new phone number is 0176 555"),
    ("The flight back from Oslo lands at 21:40", "The flight to Oslo leaves at 7:15"),
    ("The rent for the garage is 90 euros", "The rent for the flat is 900 euros"),
    ("The train to the airport leaves at eleven", "The bus to the airport leaves at ten"),
    ("The invoice from June is open", "The invoice from May is paid"),
    ("Mein Bruder wohnt in Rom", "Ich wohne in Berlin"),
    ("Das Passwort meines Bruders ist storch", "Mein Passwort ist kranich"),
    ("Mi hermana vive en Roma", "Mi hermano vive en Madrid"),
    ("Mis padres están con Verdeluz para la luz", "Estoy con Energía Sur para la luz"),
    ("我妹妹住在上海", "我住在北京"),
    ("我妹妹住在上海", "我哥哥住在北京"),
]
TOGETHER = [
    ("I moved to Lisbon", "I live in Berlin"),
    ("My brother moved to Lisbon", "My brother lives in Berlin"),
    ("The car of my brother is red", "My brother's car is blue"),
    ("Bob moved to Rome", "Bob lives in Berlin"),
    ("Ann left, Bob runs the shop now", "Ann runs the shop"),
    ("Eva's dog now sleeps in the hall", "Eva's dog sleeps in the kitchen"),
    ("Paul's married to Kim", "Paul is single"),
    ("The flight to Oslo leaves at nine", "The flight to Oslo leaves at 7:15"),
    ("My dad lives in Rome", "My father lives in Berlin"),
    ("User lives in Rome", "I live in Berlin"),
    ("The wifi password at home is z", "The wifi password at home is y"),
    ("Ich wohne jetzt in Rom", "Ich wohne in Berlin"),
    ("Ahora vivo en Roma", "Vivo en Madrid"),
    ("我住在上海", "我住在北京"),
    ("我妹妹搬到上海了", "我妹妹住在北京"),
]


@pytest.mark.parametrize(
    ("one", "other", "is_apart"), [*((*pair, True) for pair in APART), *((*pair, False) for pair in TOGETHER)]
)
def test_statements_about_different_subjects_are_apart_in_both_orders(one, other, is_apart):
    first, second = statement(one), statement(other)
    assert (is_about_another(first, second), is_about_another(second, first)) == (is_apart, is_apart)


@pytest.mark.parametrize(
    ("newer", "older", "is_apart"),
    [
        ("The old staging server at AWS was switched off", "The staging server was moved to Hetzner", True),
        ("The old door code was 4411", "The door code is 4412", True),
        ("The old staging server at AWS was switched off", "The staging server is at AWS", False),
        ("My old phone was sold", "My phone is a Pixel", False),
        ("The old limit was 100, the new one is 200", "The limit is 100", False),
        ("The new door code is 4412", "The door code is 4411", False),
    ],
)
def test_a_former_thing_with_a_value_of_its_own_is_another_one(newer, older, is_apart):
    assert is_about_another(statement(newer), statement(older)) is is_apart


@pytest.mark.parametrize(
    ("newer", "older", "repeats"),
    [
        ("Deployed build 77 to eu", "Deployed build 76 to eu", True),
        ("Bob visited Rome", "Bob visited Oslo", True),
        ("Bob no longer visited Rome", "Bob visited Oslo", False),
        ("Bob lives in Rome", "Bob visited Oslo", False),
        ("The door is red", "The door is green", False),
    ],
)
def test_events_of_one_kind_repeat_each_other(newer, older, repeats):
    assert repeats_event(statement(newer), statement(older)) is repeats


DENIES_ANOTHER = [
    ("We no longer deploy on Fridays", "We deploy on Tuesdays"),
    ("We used to deploy on Fridays", "We deploy on Tuesdays"),
    ("Ana no longer deploys on Fridays", "Ana deploys on Tuesdays"),
    ("The office is not open on Sundays anymore", "The office is open on Mondays"),
    ("Standup is no longer at 10:00", "Standup is at 9:30"),
    ("The limit is no longer 400", "The limit is 500"),
    ("We no longer use Jenkins", "We use Buildkite for CI"),
    ("Luca no longer lives in Paris", "Luca lives in Rome"),
    ("I no longer play tennis with Carl", "I play tennis with Ben"),
    ("I no longer drink coffee after noon", "I drink oat milk in coffee"),
    ("We no longer deploy on Fridays", "We deploy from main"),
    ("I no longer play the piano", "I play the cello"),
    ("The clinic is not on Park Road any more", "The clinic is on Mill Road"),
    ("We never deploy on Fridays", "We deploy every Thursday afternoon"),
    ("We do not use MySQL for the ledger", "We use Postgres for the ledger"),
    ("Leo does not play the piano", "Leo plays the cello"),
    ("Never send invoices to info@acme.io", "Invoices go to billing@acme.io"),
    ("The window in the cellar is not open", "The window in the attic is open"),
    ("My flight does not leave from gate 21", "My flight leaves from gate 12"),
    ("Die Bibliothek öffnet nicht am Sonntag", "Die Bibliothek öffnet um neun"),
    ("La llave no está debajo del felpudo", "La llave está debajo de la maceta"),
    ("La réunion n'est jamais le vendredi", "La réunion est le mardi"),
]
DENIES_IT = [
    ("We no longer deploy on Fridays", "We deploy on Fridays"),
    ("We no longer deploy on Fridays", "We deploy every day"),
    ("We no longer deploy on Fridays, it is Mondays now", "We deploy on Tuesdays"),
    ("We no longer use Jenkins", "We use Jenkins for CI"),
    ("I no longer smoke, the last one was at Easter.", "I smoke half a pack a day."),
    ("From Monday we no longer use Jenkins", "We use Jenkins for CI"),
    ("We no longer use Jenkins, we use Buildkite now", "We use Jenkins for CI"),
    ("I no longer take the train", "I take the 7:40 train"),
    ("I no longer use Emacs", "I use Vim for Python and Emacs for notes"),
    ("Since May I no longer play tennis", "I play tennis on Mondays"),
    ("I stopped working at Acme in 2024", "I work at Acme since 2019"),
    ("Petros has left, so Wiebke is scrum master.", "Scrum master is Petros."),
    ("User has stopped taking sugar in tea because of the diabetes.", "User takes sugar in his tea."),
    ("Luca no longer lives there", "Luca lives in Rome"),
    ("We deploy on Fridays", "We deploy on Tuesdays"),
    ("The door is not locked", "The door is locked"),
    ("The server isn't reachable", "The server is up"),
    ("Tom doesn't lead the platform team", "Tom leads the platform team"),
    ("We never deploy on Fridays", "We deploy on Fridays"),
    ("I don't own a car", "I have a car"),
    ("The standup isn't at nine, it is at ten", "The standup is at nine"),
    ("I don't play football now, only tennis", "I play football"),
    ("I don't have a car", "I have a red Honda"),
    ("Mia doesn't play an instrument", "Mia plays the violin"),
    ("Seit Neujahr keine einzige Zigarette mehr", "Ich rauche etwa zehn Zigaretten am Tag"),
    ("La gata ya no sale al patio", "La gata solo come lata de salmón"),
]


@pytest.mark.parametrize(
    ("one", "other", "is_another"),
    [*((*pair, True) for pair in DENIES_ANOTHER), *((*pair, False) for pair in DENIES_IT)],
)
def test_a_denial_or_the_end_of_one_value_leaves_another_value_true(one, other, is_another):
    assert denies_another_value(statement(one), statement(other)) is is_another


@pytest.mark.parametrize(
    ("newer", "older", "is_hedged"),
    [
        ("Maybe the meeting is at ten", "The meeting is at nine", True),
        ("Tom thinks the server is in Dublin", "The server is in Frankfurt", True),
        ("If there is snow, the shop opens at ten", "The shop opens at nine", True),
        ("When it rains I take the bus", "I take the bike", True),
        ("The limit should be 1,000 requests", "The limit is 100 requests", True),
        ("The kids may go to the school on Oak Street", "The kids go to the school on Elm Street", True),
        ("The meeting is at ten", "The meeting is at nine", False),
        ("The deadline is 14 May", "The deadline is 30 April", False),
        ("Maybe the meeting is at ten", "The meeting might be at nine", False),
        ("The budget should be 6,000 euros now", "The budget is 5,000 euros", False),
        ("Noor left, Elias babysits when we go out", "Noor babysits for us", False),
    ],
)
def test_a_plan_a_guess_or_a_condition_is_no_later_value(newer, older, is_hedged):
    assert hedges(statement(newer), statement(older)) is is_hedged


@pytest.mark.parametrize(
    ("newer", "older", "before", "after"),
    [
        ("the limit is 20", "the limit is 30", [], [(["20"], ["30"])]),
        ("the eu limit is 20", "the us limit is 20", [(["eu"], ["us"])], []),
        ("the eu limit is 20", "the us limit is 30", [(["eu"], ["us"])], [(["20"], ["30"])]),
        ("the limit is 20", "the limit is 20", [], []),
        ("the limit is 20 now", "the limit is 20", [], []),
    ],
)
def test_words_that_differ_say_which_thing_is_meant_or_are_its_value(newer, older, before, after):
    assert differences(tuple(newer.split()), tuple(older.split())) == (before, after)


_WORDS = st.lists(st.sampled_from("a b c d e".split()), max_size=12)


@given(_WORDS, _WORDS)
def test_the_shared_blocks_of_two_texts_are_those_of_difflib(newer, older):
    blocks = SequenceMatcher(None, newer, older, autojunk=False).get_matching_blocks()
    joined = []
    for at, other, size in shared_blocks(newer, older):
        if size and joined and joined[-1][0] + joined[-1][2] == at and joined[-1][1] + joined[-1][2] == other:
            joined[-1][2] += size
        else:
            joined.append([at, other, size])
    assert list(map(tuple, joined)) == list(map(tuple, blocks))


@pytest.mark.parametrize(("newer", "older"), [*APART, *TOGETHER])
def test_a_pair_has_a_value_of_every_feature(newer, older):
    rule = relation(newer, older, similarity=0.8, paraphrase=0.7)
    first, second = statement(newer), statement(older)
    row = features(
        first,
        second,
        rule,
        cosine=0.8,
        margin=0.1,
        speakers=(None, None),
        turns=False,
        user_id=None,
        another=is_about_another(first, second),
    )
    found = dict(zip(FEATURES, map(float, row), strict=True))
    assert all(0 <= value <= 1 for value in found.values())
    assert found["another"] == ((newer, older) in APART)
