"""The kind of answer that a question asks for, and the kinds that a text does not give."""

from __future__ import annotations

import pytest

from salience.extract.answers import MAX_WORDS, asked_kind, asks_value, missing_kinds
from salience.extract.distinctions import details
from salience.text import AUTO, Tokeniser

language_of = Tokeniser(AUTO).language_of


def missing(text):
    return set(missing_kinds(text, details(text)))


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("Where is the office?", "place"),
        ("where's my passport", "place"),
        ("In which city do I live?", "place"),
        ("What is Anna's address?", "place"),
        ("Who fixed the roof?", "person"),
        ("Whose bike is this?", "person"),
        ("For whom is the parcel?", "person"),
        ("When is the standup?", "time"),
        ("At what time does the shop open?", "time"),
        ("Which day is the bin collection?", "time"),
        ("How many siblings do I have?", "number"),
        ("How old is Tom?", "measure"),
        ("What's our rent?", "number"),
        ("What is the height of the shelf?", "number"),
        ("How often does the backup run?", "measure"),
        ("How long is the warranty?", "measure"),
        ("What colour is the car?", "colour"),
        ("What is the color of my bike?", "colour"),
        ("Wo ist das Büro?", "place"),
        ("In welcher Stadt wohne ich?", "place"),
        ("Wann öffnet der Laden?", "time"),
        ("Wie viele Zimmer hat die Wohnung?", "number"),
        ("Wie lange gilt die Garantie?", "measure"),
        ("¿Dónde está la llave?", "place"),
        ("¿De dónde es Ana?", "place"),
        ("¿Cuándo abre la tienda?", "time"),
        ("¿Cuántas personas hay en el equipo?", "number"),
        ("¿Quién arregló el tejado?", "person"),
        ("Où est la clé ?", "place"),
        ("Quand ouvre le magasin ?", "time"),
        ("Combien de personnes travaillent ici ?", "number"),
        ("Combien de temps dure le trajet ?", "measure"),
    ],
)
def test_a_question_asks_for_a_kind_of_answer(question, kind):
    assert asked_kind(question, language_of(question)) == kind


@pytest.mark.parametrize(
    "question",
    [
        "When did I pass the driving test?",
        "What day was the interview?",
        "Which time zone do I work in?",
        "What is my dog called?",
        "How do I reset the router?",
        "Is the office where we met?",
        "Tell me who fixed the roof",
        "Wann habe ich den Führerschein gemacht?",
        "¿Cuándo aprobé el examen?",
        "Quand est-ce que j'ai déménagé ?",
        "Dov'è l'ufficio?",
        "",
    ],
)
def test_another_question_asks_for_any_answer(question):
    assert asked_kind(question, language_of(question)) is None


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("place", "The office closes at six"),
        ("place", "My passport expires in May"),
        ("place", "Anna is allergic to nuts"),
        ("place", "I drive to work by bike"),
        ("place", "The backup runs on Mondays"),
        ("time", "The standup is held in the blue room"),
        ("time", "Anna lives in Oslo"),
        ("person", "The roof was repaired in May"),
        ("person", "The billing service is slow"),
        ("measure", "Tom lives in Leeds"),
        ("number", "The rent is due on Monday"),
        ("measure", "The warranty covers water damage"),
        ("colour", "My car is a Skoda"),
        ("place", "Das Büro schließt um sechs"),
        ("time", "Der Ersatzschlüssel passt nicht richtig"),
        ("number", "Die Miete ist am Montag fällig"),
        ("place", "La oficina cierra a las seis"),
        ("person", "El tejado se arregló en mayo"),
        ("number", "El equipo trabaja muy bien"),
        ("place", "Le bureau ferme à six heures"),
        ("time", "La clé de secours ne marche pas bien"),
    ],
)
def test_a_text_lacks_an_answer(kind, text):
    assert kind in missing(text)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("place", "The office is in Lisbon"),
        ("place", "I work for Siemens"),
        ("place", "Lisbon has our office"),
        ("place", "The spare key hangs behind the boiler"),
        ("place", "Anna moved in with her mother"),
        ("place", "My sister works from home"),
        ("place", "The config is settings.toml"),
        ("place", "Backups go to s3://corp-backups"),
        ("place", "We live upstairs"),
        ("time", "The standup is at half past nine"),
        ("time", "We deploy after the standup"),
        ("time", "The appointment is tomorrow"),
        ("person", "A roofer repaired the roof"),
        ("person", "The neighbour feeds the cat"),
        ("person", "I feed the cat"),
        ("person", "The cat broke the vase"),
        ("person", "Priya owns the billing service"),
        ("number", "Tom and Anna are my kids"),
        ("number", "I have a brother"),
        ("number", "The rent is 900 euros"),
        ("measure", "The house was built before the war"),
        ("measure", "The backup runs nightly"),
        ("measure", "The warranty lasts two years"),
        ("colour", "My car is dark green"),
        ("place", "Das Büro ist in Lissabon"),
        ("place", "Meine Schwester arbeitet bei Bosch"),
        ("time", "Das Standup ist um halb zehn"),
        ("number", "Die Wohnung hat vier Zimmer"),
        ("place", "La llave está detrás de la caldera"),
        ("person", "Marta da el curso"),
        ("measure", "El viaje dura tres horas"),
        ("place", "Le bureau est à Lisbonne"),
        ("person", "Marthe donne le cours"),
        ("number", "L'équipe compte six personnes"),
    ],
)
def test_a_text_gives_an_answer(kind, text):
    assert kind not in missing(text)


@pytest.mark.parametrize(
    "text",
    [
        "Passport: top drawer",
        "spare key -> neighbour",
        "The wedding is off",
        "I sold the car",
        "Tom ist sieben Jahre alt",
        "Biuro jest zamknięte w niedziele",
        "Rex",
        "",
        "word " * (MAX_WORDS + 1),
    ],
)
def test_of_notes_ends_other_languages_and_long_texts_nothing_is_known(text):
    assert missing(text) == set()


@pytest.mark.parametrize(
    "text",
    [
        "We never deploy on Fridays",
        "The key is not under the doormat",
        "Tom doesn't water the plants",
        "I haven't seen the contract",
        "Der Schlüssel liegt nicht unter der Matte",
        "La llave no está debajo del felpudo",
        "La clé n'est pas sous le paillasson",
    ],
)
def test_a_text_that_only_denies_lacks_a_value(text):
    assert "value" in missing(text)


@pytest.mark.parametrize(
    "text",
    [
        "We deploy on Thursdays",
        "The shop doesn't open until nine",
        "The key is not under the doormat but in the shed",
        "I don't keep the passport at home, it is at the bank",
        "The office is not far from the station",
        "Don't forget the dentist at nine",
        "Never wash the sweater hot",
        "Do not clean the screen with alcohol",
        "Please don't call before nine",
        "We deploy on Thursday and never on Friday",
        "Tom doesn't live in Porto any more",
        "Der Laden öffnet nicht vor neun",
        "Den Pullover nie heiß waschen, nur kalt",
        "La tienda no abre hasta las nueve",
        "Le magasin n'ouvre pas avant neuf heures",
    ],
)
def test_a_text_that_says_more_than_a_denial_has_one(text):
    assert "value" not in missing(text)


@pytest.mark.parametrize(
    ("question", "asks"),
    [
        ("When do we deploy?", True),
        ("On which day do we deploy?", True),
        ("How do we format the code?", True),
        ("Wer leitet das Team?", True),
        ("¿Dónde está la llave?", True),
        ("Où est la clé ?", True),
        ("Do we deploy on Fridays?", False),
        ("When do we not deploy?", False),
        ("Who hasn't signed?", False),
        ("How many cars do I own?", False),
        ("How is the printer?", False),
        ("What about the invoice?", False),
        ("What should I wear in the dojo?", False),
        ("Wann arbeite ich nicht?", False),
        ("Dov'è l'ufficio?", False),
        ("", False),
    ],
)
def test_a_question_asks_for_a_value(question, asks):
    assert asks_value(question, language_of(question)) is asks
