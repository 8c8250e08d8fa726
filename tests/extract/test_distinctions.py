"""What tells texts apart: pairs that look much alike to a model, and whether one of them may stand for the other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference import Distinctions
from salience.batch import KINDS
from salience.extract.distinctions import CONTRASTS, distinctions, numbered
from salience.extract.wordlists import load
from salience.rank.stages import covers
from salience.text import normalise

DIFFERENT = {
    "numbers": [
        ("The limit is 30 seconds", "The limit is 40 seconds"),
        ("The limit is 30 seconds", "The limit is 30 minutes"),
        ("Two people attended", "Three people attended"),
        ("She has one child", "She has two children"),
        ("The invoice is $1,200", "The invoice is €1,200"),
        ("The invoice is $1,200", "The invoice is $12,000"),
        ("The service runs on Python 3.11", "The service runs on Python 3.12"),
        ("Deploy v2 of the API", "Deploy v3 of the API"),
        ("The server is at 10.0.0.1", "The server is at 10.0.0.2"),
        ("He came first in the race", "He came second in the race"),
        ("Ticket 0042 is open", "Ticket 42 is open"),
        ("It was -5 degrees", "It was 5 degrees"),
        ("Three cats and three dogs", "Three cats and four dogs"),
        ("It scales from 2 to 8 workers", "It scales from 8 to 2 workers"),
    ],
    "dates": [
        ("The meeting is on Monday", "The meeting is on Tuesday"),
        ("The meeting is at 3 pm", "The meeting is at 3 am"),
        ("She was born on 3 May 1990", "She was born on 4 May 1990"),
        ("She was born in May 1990", "She was born in June 1990"),
        ("He runs every morning", "He runs every evening"),
        ("The backup runs daily", "The backup runs weekly"),
        ("The release was yesterday", "The release is tomorrow"),
        ("They met last week", "They meet next week"),
    ],
    "words in other scripts and signs": [
        ("Alice likes 寿司", "Alice likes 天ぷら"),
        ("Lunch was 🍕 with Bob", "Lunch was 🍣 with Bob"),
        ("Кошку зовут Мурка", "Собаку зовут Мурка"),
    ],
    "names": [
        ("Alice likes green tea", "Bob likes green tea"),
        ("The report was written by Maria Chen", "The report was written by Maria Silva"),
        ("We met in Lisbon", "We met in Porto"),
        ("He moved from Berlin to Paris", "He moved from Paris to Berlin"),
        ("The bug is PROJ-17", "The bug is PROJ-71"),
        ("Ask @nadia about the key", "Ask @omar about the key"),
        ("The code is in src/engine.py", "The code is in src/client.py"),
        ("The team uses `pytest`", "The team uses `nose`"),
        ("She lives in Mexico", "She lives in New Mexico"),
    ],
    "negations": [
        ("Alice likes mushrooms", "Alice doesn't like mushrooms"),
        ("Alice likes mushrooms", "Alice dislikes mushrooms"),
        ("Alice loves mushrooms", "Alice hates mushrooms"),
        ("The build is safe to ship", "The build is not safe to ship"),
        ("The build is safe to ship", "The build is unsafe to ship"),
        ("He drinks coffee", "He never drinks coffee"),
        ("He drinks coffee", "He no longer drinks coffee"),
        ("He drinks coffee", "He stopped drinking coffee"),
        ("He takes coffee with sugar", "He takes coffee without sugar"),
        ("Both of the tests pass", "Neither of the tests passes"),
        ("Everybody came to the party", "Nobody came to the party"),
        ("She can swim", "She can’t swim"),
        ("She can swim", "She cant swim"),
        ("She is a smoker", "She is a non-smoker"),
        ("He often eats meat", "He rarely eats meat"),
        ("He lives in a flat", "He used to live in a flat"),
        ("She does not eat meat and eats fish", "She does not eat meat and does not eat fish"),
        ("Alice agreed and Bob did not", "Alice did not agree and Bob did"),
    ],
    "opposites": [
        ("Turn the heating on", "Turn the heating off"),
        ("Tracing is enabled", "Tracing is disabled"),
        ("Take the pill before lunch", "Take the pill after lunch"),
        ("The scar is on the left side", "The scar is on the right side"),
        ("The shop is open", "The shop is closed"),
        ("They sold the house", "They bought the house"),
        ("His mother lives nearby", "His father lives nearby"),
        ("Use the staging database", "Use the production database"),
        ("The user prefers dark mode", "The user prefers light mode"),
    ],
    "owners": [
        ("My dog is called Luna", "My brother's dog is called Luna"),
        ("We live in Lisbon", "My parents live in Lisbon"),
    ],
}
"""Pairs neither of which may stand for the other."""
SAME = [
    ("The user prefers dark mode", "User likes dark theme"),
    ("Two people attended", "2 people attended"),
    ("The budget is $30", "The budget is 30 dollars"),
    ("The budget is 1.5 million", "The budget is 1,500,000"),
    ("The meeting is at 3 pm", "The meeting is at 15:00"),
    ("She was born on 3 May 1990", "She was born on 1990-05-03"),
    ("On 3 May Alice moved out", "Alice moved out on May 3rd"),
    ("The service runs on version 2", "The service runs on v2"),
    ("Alice doesn't like mushrooms", "Alice dislikes mushrooms"),
    ("Alice does not like mushrooms", "Alice hates mushrooms"),
    ("He no longer drinks coffee", "He stopped drinking coffee"),
    ("She is not happy", "She is unhappy"),
    ("Alice works at Acme", "Alice is employed at Acme"),
    ("Remind me about the call", "Please remind me about the call"),
    ("Call mom about the party", "Phone mom about the party"),
    ("The deploy key is in the vault", "You find the deploy key in the vault"),
    ("It can't wait to be fixed", "It cannot wait to be fixed"),
    ("ALICE LIKES GREEN TEA", "Alice likes green tea"),
    ("alice  likes green tea", "Alice likes green tea"),
]
"""Pairs each of which may stand for the other."""
LESS = [
    ("The call takes 30 minutes", "The call takes a while"),
    ("The call takes 30 minutes", "The call takes 30"),
    ("Alice moved to Lisbon", "She moved to another town"),
    ("Alice moved to Lisbon in May", "Alice moved to Lisbon"),
    ("She was born on 3 May 1990", "She was born in May"),
    ("She was born on 3 May 1990", "She was born in 1990"),
    ("Alice and Bob like tea", "Alice likes tea"),
]
"""Pairs of which the first says more and may stand for the second, but not the other way round."""


def coded(*held):
    codes = Distinctions()
    return [[codes[one] for one in item] for item in held]


def either(one, other, speakers=(None, None)):
    """Whether the first covers the second, and the second the first."""
    left, right = coded(distinctions(one, speakers[0]), distinctions(other, speakers[1]))
    return covers(left, right), covers(right, left)


@pytest.mark.parametrize("kind", DIFFERENT)
def test_a_different_number_date_name_or_claim_is_never_covered(kind):
    assert [pair for pair in DIFFERENT[kind] if either(*pair) != (False, False)] == []


def test_harmless_rewordings_cover_each_other():
    assert [pair for pair in SAME if either(*pair) != (True, True)] == []


def test_a_text_that_says_more_covers_one_that_says_less():
    assert [pair for pair in LESS if either(*pair) != (True, False)] == []


def test_the_same_words_of_two_speakers_are_two_facts():
    text = "I work from home"
    assert either(text, text, ("Ann", "Bob")) == (False, False)
    assert either(text, text, ("Ann", None)) == (False, False)
    assert either(text, text, ("Ann", "ann ")) == either(text, text) == (True, True)


def test_of_what_nothing_is_known_nothing_is_covered():
    known = coded(distinctions("some text"))[0]
    assert not covers([], [])
    assert not covers(known, [])
    assert not covers([], known)


def test_distinctions_are_in_order_with_their_kind():
    result = distinctions("Alice didn't see Bob at 3 pm on 3 May, nor the 2 others", "Zoë  Å")
    assert result[0].startswith("text:")
    assert result[1].startswith("same:")
    assert result[2:] == (
        "speaker:zoë å", "lacks:colour", "date:15:00", "date:month 5", "date:5-3", "number:2", "name:alice",
        "claim:not", "name:bob", "claim:not",
    )  # fmt: skip
    assert distinctions("My brother's dog is always brown")[2:] == ("owner:relative's", "lacks:place")
    assert {one.partition(":")[0] for one in result} | {"owner", "lacks", "role"} == set(KINDS)


def test_a_capital_that_opens_a_sentence_is_no_name():
    for content in (
        "The deploy failed. Then it worked.",
        "Remember to call back",
        "Thanks! See you tomorrow",
        "Tea is ready",
    ):
        assert [one for one in distinctions(content) if one.startswith("name:")] == []


def claims(text):
    return [one for one in distinctions(text) if one.startswith("claim:")]


def test_every_phrase_makes_its_claim_once_and_an_idiom_none():
    assert [idiom for idiom in load("contrasts")["idioms"] if claims(f"and {idiom} he said")] == []
    for claim, phrases in CONTRASTS.items():
        assert [phrase for phrase in phrases if claims(f"he said {phrase}") != [f"claim:{claim}"]] == []


def test_no_phrase_makes_two_claims():
    phrases = [normalise(phrase) for phrases in CONTRASTS.values() for phrase in phrases]
    assert len(set(phrases)) == len(phrases)
    assert not set(phrases) & set(load("contrasts")["idioms"])


WORDS = st.lists(
    st.sampled_from("server answer music with a the likes blue big of meets tea about house we".split()),
    min_size=2,
    max_size=8,
).map(" ".join)
PLANTS = {
    "number": st.integers(100, 10**6).map(str) | st.sampled_from("two seven thirty 3.12 v9 $5 90%".split()),
    "name": st.sampled_from("Nadia Omar Lisbon PostgreSQL @ann #launch PROJ-9 ann@example.org".split()),
    "negation": st.sampled_from(
        ["not", "never", "no", "without", "doesn't", "can't", "no longer", "neither", "stopped"]
    ),
}


@pytest.mark.parametrize("kind", PLANTS)
@given(data=st.data())
def test_one_planted_difference_is_never_covered(kind, data):
    """Added to a text, and, where it is a number or a name, put in the place of another."""
    before, after = data.draw(WORDS), data.draw(WORDS)
    plant, other = data.draw(PLANTS[kind]), data.draw(PLANTS[kind])
    shared = data.draw(st.sampled_from(["", "Alice ", "not ", "12 "]))
    whole, bare = f"{shared}{before} {plant} {after}", f"{shared}{before} {after}"
    planted_covers, bare_covers = either(whole, bare)
    assert not bare_covers
    assert kind != "negation" or not planted_covers
    if kind != "negation" and plant != other:
        assert either(whole, f"{shared}{before} {other} {after}") == (False, False)


@given(st.text(), st.sampled_from([None, "Ann"]))
def test_any_text_covers_itself_in_any_case_and_spacing(content, speaker):
    result = distinctions(content, speaker)
    assert all("\n" not in one and one.partition(":")[0] in KINDS for one in result)
    again = distinctions(f"  {normalise(content).upper() if content.isascii() else normalise(content)} ", speaker)
    assert covers(*coded(result, again))


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("Was PR 89 merged?", ["pr"]),
        ("Who fixed issue #77?", ["issue"]),
        ("Does db-04 replicate?", ["db"]),
        ("Is flight BA117 late, and room 14 free?", ["flight", "room"]),
        ("When was version 2.2 released?", ["version"]),
        ("Is the limit 500?", []),
        ("Do I weigh more than 70 kg?", []),
        ("What are the top 5 restaurants?", []),
        ("What did we pay in 2024?", []),
        ("Who came on 3 May?", []),
        ("What did I do on May 3?", []),
        ("What does the bus cost?", []),
    ],
)
def test_words_of_which_a_number_names_one(question, words):
    assert numbered(question) == words
