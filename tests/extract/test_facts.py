"""Which texts state a fact, which fact it is, and above all which texts state none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from salience.extract.facts import MAX_LENGTH, fact, fact_key
from salience.records import Draft
from salience.records.checks import NAME_LIMIT

STATED = {
    "user.favourite.colour": [
        "My favourite colour is blue", "my favorite color is blue.", "My favourite colour is now green!",
        "Blue is my favourite colour", "The user's favorite color is teal", "My favourite colour is green, not blue",
        "User's new favourite color is red", "Actually, my favourite colour is blue",
        "My favorite color changed to teal",
    ],
    "user.residence": [
        "I live in Berlin", "i live in berlin", "I moved to Lisbon last month", "I've moved to Madrid! :)",
        "The user lives in Porto, Portugal", "Lives in Rome", "I'm based in Oslo now",
        "I moved from Paris to New York", "I moved to London from Paris", "Remember that I live in Munich",
        "As of 2024-05-01, I live in Rome", "User lives in Berlin since 2019", "I relocated to the UK in March",
        "I now live in The Hague",
    ],
    "alice.residence": ["Alice lives in Paris", "Alice has recently moved to São Paulo", "Alice is based in NYC"],
    "team.uses.database": [
        "We use PostgreSQL for the database", "We switched from MySQL to PostgreSQL for our database",
        "We migrated the database from MySQL to PostgreSQL", "Our database is PostgreSQL", "our database is sqlite",
        "We replaced MySQL with PostgreSQL for the databases", "Decision: we use Oracle for the database",
    ],
    "team.uses.ci": ["We migrated CI to GitHub Actions", "Our CI is Jenkins", "The team switched CI to CircleCI"],
    "user.uses.testing": ["Uses Vitest for all testing.", "I use pytest for testing", "User is using Jest for testing"],
    "user.name": ["My name is Alice", "my name's sam", "User's name is John.", "I'm called Ana"],
    "user.employer": [
        "I work at Google", "I work for the Bank of Portugal", "I'm working at Acme now", "User started at Meta",
        "I got a new job at Stripe", "Works at Bosch", "My employer is Siemens", "User works at Acme as of May 2024",
    ],
    "user.job": ["I work as a nurse", "User works as an engineer", "My job title is Staff Engineer"],
    "user.age": ["I am 34 years old", "User turned 35 last week"],
    "user.birthday": ["My birthday is 3 May 1990", "My birthday is March 3, 1990", "User's birthday is on 5 June"],
    "user.email": ["My email is a@b.co", "The user switched their email to bob@x.io"],
    "user.email.work": ["My work email is a@b.co", "I changed my work email to c@d.io"],
    "user.phone": ["My phone number is +49 170 1234567", "My phone number changed to 555-1234"],
    "user.address": ["My address is 12 Main Street, Springfield"],
    "user.timezone": ["My timezone is CET", "My time zone is Europe/Lisbon", "User is in the Pacific Time zone"],
    "user.manager": ["My manager is Dana White", "User's manager is now Priya", "My boss is Leo"],
    "user.wife": ["My wife is Anna", "My wife's name is Anna"],
    "user.theme": ["I switched to light mode", "My theme is dark"],
    "mira.theme.editor": ["Mira's editor theme is Solarized Dark.", "Mira changed her editor theme to Gruvbox Light"],
    "user.prefers.coffee_or_tea": ["I prefer tea over coffee", "User prefers coffee to tea"],
    "alice.prefers.backend_work": ["Alice prefers Python for backend work"],
    "user.favourite.sport": ["My favourite sport is swimming"],
    "tim.favourite.book": ["Tim's favorite book is Harry Potter because it is immersive."],
}  # fmt: skip
"""Key -> texts that state the fact."""
NONE = {
    "question": ["Do you live in Berlin?", "My favourite colour is blue?", "Should we use Redis for caching?"],
    "negation": [
        "I don't live in Berlin", "I no longer live in Berlin", "My favourite colour is not blue",
        "My name isn't Alice", "We stopped using Redis for caching", "User does not work at Acme",
        "Blue isn't my favourite colour", "I live in Berlin, not really", "I quit my job at Acme",
    ],
    "wish, plan, guess": [
        "I'd like to live in Berlin", "If I lived in Berlin", "I might move to Berlin", "She wants to move to Berlin",
        "I plan to move to Berlin next year", "We should use Redis for caching", "Let's use Redis for caching",
        "I would prefer tea over coffee", "I will work at Acme", "Apparently Alice moved to Rome",
        "Rust is probably my favourite language",
    ],
    "past": [
        "I used to live in Berlin", "I lived in Paris in 2010", "My favourite colour was blue",
        "I moved to Rome in 2010", "We used Redis for caching", "My name was Smith", "I moved to Boston for college",
    ],
    "for a while": [
        "I'm staying in Berlin", "I live in Berlin this summer", "I'm based in Berlin until June",
        "We use Slack for now", "User is working for Google temporarily", "I live in Berlin during the week",
    ],
    "what somebody said": [
        'Alice said "I live in Paris"', "Bob told me that Alice lives in Paris", "I think Alice lives in Paris",
        "Alice moved to Rome, I heard",
    ],
    "more than one": [
        "I live in Berlin and work at Google", "My name is John, I'm a student", "I live in Berlin. My flat is small.",
        "My favourite colours are blue and green", "My favourite colour is blue and green",
        "Alice and Bob live in Rome", "We use Python and Go for the backend",
        "We use Redis for caching, sessions and queues", "My manager is Alice and my boss is Bob",
        "I work at Stripe as a backend engineer.", "We also use Bash for scripts",
        "User's favorite color is red. Johnny approves.", "I live in Berlin but work in Potsdam",
        "One of my favourite books is Dune",
    ],
    "one of several": ["I like blue", "My friend is Anna", "My hobby is chess", "User speaks German", "I use Vim"],
    "no value": [
        "My favourite shop is closed", "My favourite film is about hackers", "My job is stressful", "My job is a mess",
        "My job is to lead the team", "My wife is a doctor", "My wife is sick", "My wife is Portuguese",
        "My email is down", "My phone is broken", "My address is wrong", "My birthday is coming up",
        "My manager is nice", "My editor is slow", "Our CI is broken", "Our queue is long", "My name is on the list",
        "My salary is too low", "The user's name is unknown", "My favourite team is winning", "My phone is an iPhone",
        "My role is important",
    ],
    "no place, no employer": [
        "I live in fear", "I live in a small flat", "I moved to the next topic", "I moved to Linux",
        "Alice moved to Marketing", "We moved to Postgres", "The meeting moved to Tuesday", "I live in the mountains",
        "I work at night", "I work from home", "I work for free", "I work as a team", "The user moved to PostgreSQL",
        "Moved to Done", "I moved to Google",
    ],
    "nobody in particular": [
        "He lives in Paris", "Everyone lives in Paris", "The dog lives in Berlin", "Penguins live in Antarctica",
        "Her favourite colour is blue", "You live in Berlin", "Redis is used for caching", "We live in Berlin",
    ],
    "only in what was said before": [
        "My favourite part is the ending", "This is my favourite mug", "My favourite is blue",
        "It's my favourite colour", "My favourite character is Aragorn", "I prefer the blue one over the red one",
        "I prefer it over that",
    ],
    "no use": ["We use it for now", "We use Zoom for 3 hours", "I use this script for backups"],
    "no choice": ["I prefer Alice to go first", "I prefer to walk", "I prefer tea"],
}  # fmt: skip
"""Why a text states no fact -> texts."""


@pytest.mark.parametrize("key", STATED)
def test_a_plain_statement_has_the_key_of_its_fact(key):
    assert {text: fact_key(text) for text in STATED[key]} == dict.fromkeys(STATED[key], key)


@pytest.mark.parametrize("reason", NONE)
def test_a_text_without_a_plain_fact_has_no_key(reason):
    assert [text for text in NONE[reason] if fact(text) is not None] == []


@pytest.mark.parametrize("clause", ["I live in Berlin", "My favourite colour is blue", "We use Redis for caching"])
def test_a_longer_text_that_holds_a_statement_has_no_key(clause):
    """It says more than the fact, and would be hidden whole."""
    assert fact_key(clause) is not None
    for text in (f"{clause}. It rains.", f"It rains. {clause}.", f"{clause}, and it rains", f"They say {clause}",
                 f"{clause}\nIt rains", f'"{clause}" is what she said'):  # fmt: skip
        assert fact_key(text) is None


def test_the_value_is_kept_as_written():
    assert fact("Our database is PostgreSQL 16")[:2] == ("team.uses.database", "PostgreSQL 16")
    assert fact("i live in berlin")[:2] == ("user.residence", "berlin")
    assert fact("I live in Porto, Portugal now")[:2] == ("user.residence", "Porto, Portugal")


@pytest.mark.parametrize(
    ("speaker", "user_id", "key"),
    [
        (None, None, "user.residence"),
        ("user", None, "user.residence"),
        ("Human", "alice", "user.residence"),
        ("Alice", "alice", "user.residence"),
        ("ALICE ", "alice", "user.residence"),
        ("Alice", None, "alice.residence"),
        ("Bob Smith", "alice", "bob_smith.residence"),
        ("assistant", "alice", "assistant.residence"),
        ("", "alice", "user.residence"),
        ("...", "alice", None),
    ],
)
def test_the_first_person_is_the_speaker(speaker, user_id, key):
    assert fact_key("I live in Berlin", speaker=speaker, user_id=user_id) == key


@pytest.mark.parametrize("content", ["Alice lives in Berlin", "alice lives in Berlin", "The user lives in Berlin"])
def test_who_bears_the_name_of_the_user_is_the_user(content):
    assert fact_key(content, speaker="assistant", user_id="alice") == "user.residence"
    assert fact_key("Alice's favourite tea is sencha", user_id="Alice") == "user.favourite.tea"
    assert fact_key("Alicia lives in Berlin", user_id="alice") == "alicia.residence"


def test_a_word_with_a_hyphen_is_no_opening():
    assert fact("Hi - my favourite hobby is chess")[:2] == ("user.favourite.hobby", "chess")
    assert fact("Hi-fi is my favourite hobby")[:2] == ("user.favourite.hobby", "Hi-fi")


def test_a_text_is_read_up_to_its_length():
    assert fact_key(f"{' ' * 10}I live in Berlin") == "user.residence"
    assert fact_key(f"I live in Berlin{' ' * MAX_LENGTH}") is None


PIECES = st.sampled_from(
    "I my we user's Alice's live moved use prefer favourite is in to from for over Berlin tea Redis colour name now "
    "not because , . changed switched birthday 3 May".split()
)


@given(st.text() | st.lists(PIECES, max_size=20).map(" ".join), st.none() | st.text(), st.none() | st.text())
def test_any_text_is_read_and_a_key_is_one_that_a_memory_may_have(content, speaker, user_id):
    found = fact(content, speaker=speaker, user_id=user_id)
    assert found == fact(content, speaker=speaker, user_id=user_id)
    if found:
        assert Draft(content=content, fact_key=found.key).fact_key == found.key
        assert len(found.key) <= NAME_LIMIT
        assert found.key == found.key.casefold()
        assert " " not in found.key
        assert found.value


@pytest.mark.parametrize(
    ("what", "part"),
    [
        ("tests", "test"), ("deployments", "deployment"), ("caches", "cache"), ("movies", "movie"), ("boxes", "box"),
        ("searches", "search"), ("companies", "company"), ("databases", "database"), ("classes", "class"),
        ("IDEs", "ide"), ("atlas", "atlas"), ("Atlas", "atlas"), ("atlas CI", "atlas_ci"), ("news", "news"),
        ("Dallas", "dallas"), ("analytics", "analytics"), ("canvas", "canvas"), ("series", "series"), ("DNS", "dns"),
        ("address lists", "address_list"),
    ],
)  # fmt: skip
def test_a_plural_is_told_from_a_name_and_a_word_in_s(what, part):
    assert fact_key(f"We use Zork for {what}") == f"team.uses.{part}"
    assert fact_key("Atlas uses CircleCI for CI") == "atlas.uses.ci"
