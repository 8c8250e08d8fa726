"""Same statements: pairs that both must be shown, and pairs that differ in nothing that anyone could mean."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from salience.extract.distinctions import distinctions, distinguish

MONDAY = datetime(2026, 5, 4, 9, tzinfo=UTC)

DIFFERENT = {
    "identifiers": [
        ("Deployed build 77 to eu-west", "Deployed build 77 to eu-east"),
        ("Deployed build 77 to eu-west", "Deployed build 78 to eu-west"),
        ("Ticket PROJ-17 is open", "Ticket PROJ-71 is open"),
        ("The service runs on Python 3.11", "The service runs on Python 3.12"),
        ("Upgraded the API to v2", "Upgraded the API to v2.1"),
        ("The server is at 10.0.0.1", "The server is at 10.0.0.2"),
        ("Ticket 0042 is open", "Ticket 42 is open"),
        ("The home office is in Lisbon", "The office is in Lisbon"),
        ("The scar is on the left side", "The scar is on the right side"),
        ("Use the staging database", "Use the production database"),
    ],
    "codes that differ by case": [
        ("The wifi password is Tulip9", "The wifi password is tulip9"),
        ("The wifi password is Tulip", "The wifi password is tulip"),
        ("Tulip is the wifi password", "tulip is the wifi password"),
        ("Tulip", "tulip"),
        ("TULIP opens the safe", "Tulip opens the safe"),
        ("The flag is `-v`", "The flag is `-V`"),
        ("`Read` is the method", "`read` is the method"),
        ('The code word is "Tulip"', 'The code word is "tulip"'),
        ("The password is hunter2", "The password is hunter2!"),
        ("The limit is 5 Mb", "The limit is 5 MB"),
        ("A is left of B", "a is left of B"),
        ("Polish is hard", "polish is hard"),
        ("Rust is slow", "rust is slow"),
        ("Mark paid", "mark paid"),
        ("Will paid", "will paid"),
        ("May paid", "may paid"),
    ],
    "signs": [
        ("She writes C", "She writes C++"),
        ("She writes C++", "She writes C#"),
        ("The offset is +5", "The offset is -5"),
        ("The offset is 5", "The offset is -5"),
        ("The latency is < 5 ms", "The latency is > 5 ms"),
        ("The share is 5", "The share is 5%"),
        ("The yard has 5 m²", "The yard has 5 m2"),
        ("Bob left", "Bob left?"),
        ("Let's eat Grandma", "Let's eat, Grandma"),
        ("Use a:b", "Use a-b"),
        ("Set `x = 1`", "Set `x  = 1`"),
        ("if a:\n    b\nc", "if a:\n    b\n    c"),
    ],
    "emoji": [
        ("The vote was 👍", "The vote was 👎"),
        ("Nice work", "Nice work 🙃"),
        ("The flag is 🇩🇪", "The flag is 🇧🇪"),
        ("The family is 👨‍👩‍👧", "The family is 👨‍👩‍👦"),
    ],
    "negations": [
        ("Ann eats meat", "Ann does not eat meat"),
        ("She can swim", "She can't swim"),
        ("She can swim", "She cannot swim"),
        ("Ich esse Fleisch", "Ich esse kein Fleisch"),
        ("Das Tor ist offen", "Das Tor ist nicht offen"),
        ("Como carne", "No como carne"),
        ("Je mange de la viande", "Je ne mange pas de viande"),
        ("我吃肉", "我不吃肉"),
        ("肉を食べます", "肉を食べません"),
        ("Я ем мясо", "Я не ем мясо"),
        ("أنا آكل اللحم", "أنا لا آكل اللحم"),
        ("The build is safe", "The build is unsafe"),
    ],
    "roles": [
        ("The parser calls the lexer", "The lexer calls the parser"),
        ("Bob paid Ann", "Ann paid Bob"),
        ("He moved from Berlin to Paris", "He moved from Paris to Berlin"),
        ("Yesterday I met Ann who left", "I met Ann who left yesterday"),
        ("Ann and Bob got 5 and 10", "Bob and Ann got 5 and 10"),
    ],
    "values": [
        ("The invoice is $1,200", "The invoice is €1,200"),
        ("The run is 5 km", "The run is 5 miles"),
        ("The limit is 30 seconds", "The limit is 30 minutes"),
        ("The meeting is on Monday", "The meeting is on Tuesday"),
        ("The meeting is at 3 pm", "The meeting is at 3 am"),
        ("She was born on 3 May 1990", "She was born on 4 May 1990"),
        ("Call Alice about the lease", "Call Bob about the lease"),
        ("She lives in Mexico", "She lives in New Mexico"),
    ],
    "small words": [
        ("He signed the lease", "She signed the lease"),
        ("My brother signed the lease", "The brother signed the lease"),
        ("I have few friends", "I have a few friends"),
        ("He is a doctor", "He is the doctor"),
        ("Take the pill before lunch", "Take the pill after lunch"),
        ("All tests pass", "Some tests pass"),
        ("Guests may pay", "Guests must pay"),
        ("I am tired", "I was tired"),
        ("We're late", "We were late"),
        ("She's finished", "She is finished"),
        ("I told Ann and Bob", "I told Ann or Bob"),
        ("Please Bob", "Bob"),
        ("By the way he walked I knew him", "He walked I knew him"),
        ("The user pays", "The users pay"),
    ],
}
"""Pairs of which a reader of one misses the other."""
SAME = [
    ("Deployed build 77 to eu-west", "Deployed build 77 to eu-west."),
    ("Deployed build 77 to eu-west", "deployed build 77 to eu-west"),
    ("Deployed build 77 to eu-west", "  Deployed  build 77\tto eu-west "),
    ("Deployed build 77 to eu-west", '"Deployed build 77 to eu-west."'),
    ("Deployed build 77 to eu-west", "“Deployed build 77 to eu-west”."),
    ("The invoice is $1,200", "the invoice is $1,200."),
    ("I'm allergic to nuts", "I am allergic to nuts"),
    ("I’m allergic to nuts", "i'm allergic to nuts."),
    ("I've moved to Lisbon", "I have moved to Lisbon"),
    ("We'll meet at noon", "We will meet at noon"),
    ("They're late", "they are late"),
    ("She can't swim", "She cannot swim"),
    ("Alice doesn't like tea", "Alice does not like tea"),
    ("Don't deploy on Fridays", "do not deploy on Fridays"),
    ("The key won't turn", "The key will not turn"),
    ("Please remind me about the call", "Remind me about the call"),
    ("please, remind me about the call", "Remind me about the call."),
    ("Remember that Ann left the firm", "Ann left the firm"),
    ("FYI: the key is in the vault", "The key is in the vault"),
    ("By the way, the key is in the vault", "The key is in the vault"),
    ("Note that my bike is blue", "My bike is blue"),
    ("Note that Bob paid Ann", "Bob paid Ann"),
    ("The user prefers dark mode", "User prefers dark mode"),
    ("We ate at Caf\u00e9 Rouge", "We ate at Cafe\u0301 Rouge"),
    ("我不吃肉", "我不吃肉。"),
    ("The key is in the vault", "The key is in the\u00a0vault"),
]
"""Pairs that are one statement."""


def same(text, speaker=None):
    """Return the distinctions of a text that name its statement."""
    return [one for one in distinctions(text, speaker) if one.startswith("same:")]


@pytest.mark.parametrize("kind", DIFFERENT)
def test_a_difference_that_may_mean_something_makes_two_statements(kind):
    assert [pair for pair in DIFFERENT[kind] if same(pair[0]) == same(pair[1])] == []


def test_harmless_differences_leave_one_statement():
    assert [pair for pair in SAME if same(pair[0]) != same(pair[1])] == []


def test_every_text_makes_one_statement():
    for text in ("", " ", ".", "…", "I", "'", '"', "`", "please", "\n", "a\n\nb"):
        assert len(same(text)) == 1


def test_what_two_people_say_is_two_statements():
    text = "I work from home"
    assert same(text, "Ann") == same(text, "ann ") != same(text, "Bob")
    assert same(text, "Ann") != same(text)


@pytest.mark.parametrize(
    ("text", "days", "is_same"),
    [
        ("I work from home", 40, True),
        ("The office closed on 3 May 2024", 40, True),
        ("I met Ann yesterday", 0, True),
        ("I met Ann yesterday", 1, False),
        ("I ran 5 km today", 0, True),
        ("I ran 5 km today", 1, False),
        ("We deploy this week", 7, False),
        ("The meeting is on Monday", 7, False),
    ],
)
def test_a_time_that_depends_on_the_day_of_telling_is_part_of_the_statement(text, days, is_same):
    (first, _), (later, _) = (distinguish(text, None, MONDAY + timedelta(days=more)) for more in (0, days))
    assert (first == later) is is_same


WORDS = (
    "the we she they user Ann Bob Lisbon build 77 eu-west eu-east C C++ Tulip9 not never moved deploys likes left "
    "right before after tea €5 -5 👍 I'm don't can't and to"
).split()
EDITS = {
    "a full stop after a word": lambda text: f"{text}." if text[-1].isalnum() else text,
    "white space": lambda text: f"  {text.replace(' ', '  ')} ",
    "quotes around it": lambda text: f'"{text}"',
    "a word of politeness": lambda text: f"please {text}",
    "curly apostrophes": lambda text: text.replace("'", "\u2019"),
    "contractions in full": lambda text: text.replace("don't", "do not").replace("can't", "cannot"),
    "a capital": lambda text: text[0].upper() + text[1:] if text[:3] in ("the", "we ", "she") else text,
}
TEXTS = st.lists(st.sampled_from(WORDS), min_size=3, max_size=9).map(" ".join)


@given(text=TEXTS, edit=st.sampled_from(sorted(EDITS)))
def test_a_harmless_edit_leaves_the_statement(text, edit):
    assert same(EDITS[edit](text)) == same(text)


@given(text=TEXTS, at=st.integers(0, 8), other=st.sampled_from(WORDS))
def test_another_word_makes_another_statement(text, at, other):
    words = text.split()
    at %= len(words)
    changed = [*words[:at], other, *words[at + 1 :]]
    assert (same(" ".join(changed)) == same(text)) is (other == words[at])


@given(text=TEXTS, seed=st.integers(0, 1000))
def test_another_order_of_the_words_makes_another_statement(text, seed):
    words = text.split()
    random.Random(seed).shuffle(words)
    assert (same(" ".join(words)) == same(text)) is (words == text.split())
