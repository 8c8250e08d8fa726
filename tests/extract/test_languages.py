"""The language of a text is detected, and its words are found in other forms, with and without diacritics."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from salience import evaluate
from salience.extract.subjects import Subjects, index_terms
from salience.text import AUTO, DETECTED, Tokeniser, detect
from tests.contract.memories import memory

AUTOMATIC = Tokeniser(AUTO)
WORLDS = Path(evaluate.__file__).parent / "data" / "everyday"
LANGUAGES = {"de": "german", "fr": "french", "es": "spanish"}


@pytest.mark.parametrize(
    ("language", "texts"),
    [
        ("german", ("Mein Bruder wohnt in Köln", "wie heißt mein Hund", "Der Termin ist auf Freitag verschoben")),
        ("french", ("Mon frère habite à Lyon", "Anna n'aime pas les olives", "l'hôpital")),
        ("spanish", ("Mi hermano vive en Sevilla", "a Ana no le gustan las aceitunas", "¿Dónde está?")),
        ("portuguese", ("Meu irmão mora em Lisboa", "qual é o nome do meu cachorro")),
        ("dutch", ("Mijn broer woont in Utrecht", "hoe heet mijn hond")),
        ("turkish", ("Kardeşim İzmir'de oturuyor ve çok çalışıyor",)),
        (
            "english",
            ("My brother lives in Cologne", "wifi password", "O'Brien", "die casting machine", "Take care!",
             "Rahmennummer", "42", "", "我的猫", "أين الكتاب"),
        ),
    ],
)  # fmt: skip
def test_detect(language, texts):
    assert {text: detect(text) for text in texts} == dict.fromkeys(texts, language)


def worlds(half):
    """Return the files of worlds, without those of pairs."""
    return [path for path in sorted(WORLDS.glob(f"{half}/*.json")) if not path.name.startswith("pairs-")]


def test_the_language_of_nearly_every_text_of_the_everyday_worlds_is_detected():
    wrong, count = [], 0
    for path in worlds("*"):
        for item in json.loads(path.read_text("utf-8"))["memories"]:
            count += 1
            if detect(item["content"]) != LANGUAGES.get(item.get("language"), "english"):
                wrong.append(item["content"])
    assert count > 700
    assert len(wrong) < 0.01 * count, wrong


@pytest.mark.parametrize(
    ("stored", "asked", "term"),
    [
        ("Ich habe eine Wohnung in Köln", "Wie groß sind die Wohnungen?", "wohnung"),
        ("Herr Müller hat die Schlüssel", "Wo ist Müllers Schluessel?", "schlussel"),
        ("Frau Müller kommt am Montag", "who is Muller", "muller"),
        ("Je mange des gâteaux à midi", "quel gâteau", "gateau"),
        ("Le contrat avec l'hôpital est signé", "hopital", "hopit"),
        ("La operación es en Valencia", "operacion", "operacion"),
        ("Mi hermana vive con los niños en Castellón", "¿Con qué niño?", "nin"),
        ("Jonas wohnt bei seiner Mutter", "Where does Jonas live?", "jona"),
        ("Café on Monday", "cafe", "cafe"),
        ("استعرت ثلاثة كُتُب من المكتبة", "أين الكتب؟", "كتب"),
        ("أتعلّم الفارسية", "اتعلم", "اتعلم"),
        ("مـــوعد الطبيب", "متى موعد الطبيب", "موعد"),
        ("我的猫今天生病了", "猫", "猫"),
        ("护照明年四月到期", "我的护照在哪里？", "护照"),
        ("カレーライスを食べた", "カレー", "カレ"),
        ("ぬか床は二日に一度", "ぬか床", "床"),
        ("Мои ключи у соседа", "Где мой ключ?", "ключ"),
        ("נעליים חדשות", "נעליים", "נעליים"),
        ("생일은 오월이다", "생일", "생일"),
    ],
)
def test_a_query_and_a_memory_have_a_term_in_common(stored, asked, term):
    assert term in set(AUTOMATIC.terms(stored)) & set(AUTOMATIC.terms(asked))


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Wer hat den Ersatzschlüssel?", ("ersatzschlussel",)),
        ("Où est l'hôpital d'Émile ?", ("hopit", "hopital", "emil")),
        ("水曜は書道", ("水", "曜", "水曜", "書", "道", "書道")),
        ("这是我的", ()),
        ("the iPhone 14 和手机", ("iphon", "14", "手", "机", "和手", "手机")),
    ],
)
def test_terms(text, terms):
    assert AUTOMATIC.terms(text) == terms


def test_english_texts_have_the_terms_of_the_english_tokeniser():
    for path in worlds("fit"):
        for question in json.loads(path.read_text("utf-8"))["questions"]:
            text = question["query"]
            if text.isascii() and detect(text) == "english":
                assert AUTOMATIC.terms(text) == Tokeniser().terms(text)


@given(st.text())
def test_any_text_can_be_tokenised(text):
    assert detect(text) in DETECTED
    assert all(term and " " not in term for term in AUTOMATIC.terms(text))


def test_the_date_of_a_memory_is_in_english(clock):
    terms = index_terms(AUTOMATIC, memory(1, content="Ich war bei Anna", created_at=clock()))
    assert terms == ("anna", *Tokeniser().terms("1 May 2026"))


def test_subjects_are_one_for_each_word():
    assert Subjects(AUTOMATIC).of("Ich habe neue Schlüssel.") == {"neu": "neue", "schlussel": "schlüssel"}
    assert Subjects(AUTOMATIC).of("手机") == {"手机": "手机"}
