"""Sentences in the forms of facts that state none, and statements that differ from them by a word."""

from __future__ import annotations

import pytest

from salience.extract.fact_values import LISTED, is_known
from salience.extract.facts import fact, fact_key

NO_FACTS = {
    "moved to a thing": [
        "I moved to dark mode", "I moved to Dark Mode", "I moved to light mode", "I moved to decaf", "I moved to Decaf",
        "I moved to bed early", "I moved to night shifts", "I moved to standing desks", "I moved to the back row",
        "I moved to Tuesday", "I moved to a new role", "I moved on to TypeScript", "I moved to TypeScript",
        "I moved to Python 3.12", "I moved to Siemens", "I moved from Siemens to Bosch", "I moved to Keto",
        "I moved to English", "I moved to Figma", "I moved to Room 12", "I moved to Spring", "I moved to Christmas",
        "Moved to review", "Moved to Backlog", "Moved to In Progress",
        "i moved to reading fiction", "i moved to reading",
        "I moved to Java", "User moved to the new plan", "Alice moved to Platform", "I've moved to Copilot",
    ],
    "lives in no place": [
        "I live in pyjamas", "i live in hotels", "I live in denial", "I live in sin", "I live in Excel",
        "I live in Notion", "I live in Christmas jumpers", "I'm based in reality", "I'm based in Marketing",
        "I'm living in the moment", "Lives in Confluence", "My hometown is small", "my hometown is boring",
    ],
    "no employer, no job": [
        "I work at night", "I work from home", "I work with Bob", "I work at Christmas", "I work as a unit",
        "I work as a last resort", "My job is remote", "My job is hybrid", "My job is safe", "My role is temporary",
        "I started at noon", "I switched jobs to Google",
    ],
    "nobody": [
        "I'm married to my job", "My boss is Jira", "My manager is Slack", "My partner is Google", "My wife is Virgo",
        "i'm called crazy", "my name is german", "my name is common", "My name is misspelled",
    ],
    "no value": [
        "My username is taken", "My theme is ugly", "My currency is weak", "My salary is 2 weeks late",
        "My birthday is 3 weeks away", "My birthday is 3 decades ago", "My address is 2 blocks from Main Street",
        "My blood type is rare", "My height is 3 inches over", "My first language is Python", "My timezone is OK",
        "I turned 180",
    ],
    "no choice, no tool": [
        "I prefer walking to work", "I prefer going to bed early", "I prefer listening to podcasts",
        "I prefer talking over Zoom", "I prefer to meet over lunch", "I prefer access to raw data",
        "I prefer trips to Italy", "I switched gears to testing", "I switched focus to testing",
        "I switched to decaf for Lent",
    ],
    "not the user": [
        "User stories live in Jira", "User accounts live in Berlin", "Users live in Lisbon",
        "Users prefer tea over coffee",
        "User research moved to Lisbon", "The user guide lives in Berlin", "The user's manual is Sam",
        "User Stories live in Lisbon", "The users live in Lisbon",
    ],
}  # fmt: skip
"""Why a sentence states no fact -> sentences."""
FACTS = {
    "user.residence": [
        "I moved to Lisbon", "i moved to lisbon", "I moved to lisbon", "i live in new york", "i live in são paulo",
        "i live in sao paulo", "I moved to San Mateo", "I moved to Neustadt", "I moved to Cambridge, Massachusetts",
        "I live in Ottobrunn", "I live in Mexico City", "I live in 東京", "I moved to 東京", "I relocated to Ottobrunn",
        "I moved from Berlin to Lisbon", "I moved back to Porto", "I've moved to The Hague", "I moved to NYC",
        "i'm based in oslo", "My home city is Ulm",
        "User lives in Lisbon", "The user lives in Lisbon", "The User lives in Lisbon", "user lives in lisbon",
        "The user currently lives in Lisbon", "User has moved to Lisbon", "User is based in Lisbon, Portugal",
        "Lives in Lisbon",
    ],
    "user.residence.country": ["I live in Germany", "i live in the netherlands", "User lives in Peru"],
    "user.name": ["The user's name is Sam", "User's name is Sam", "my name is sam", "User is named Sam"],
    "user.employer": ["I work at Siemens", "User works at Acme", "I started at Bosch"],
    "user.job": ["I work as a barista", "I work as a data scientist", "My job is accountant"],
    "user.prefers.coffee_or_tea": ["User prefers tea over coffee", "The user prefers tea to coffee"],
    "user.prefers.running_or_swimming": ["I prefer swimming to running"],
    "user.wife": ["My wife is Virginia"],
    "user.birthday": ["My birthday is 3 May", "My birthday is 03.05.1990"],
    "user.height": ["My height is 180 cm", "My height is 5 ft 11"],
    "user.salary": ["My salary is $85k a year"],
    "user.blood_type": ["My blood type is 0+", "My blood type is AB negative"],
    "user.currency": ["My currency is EUR", "My currency is euros"],
    "user.age": ["I turned 80"],
}  # fmt: skip
"""Key -> sentences that state the fact."""


@pytest.mark.parametrize("reason", NO_FACTS)
def test_a_sentence_in_the_form_of_a_fact_that_states_none_has_no_key(reason):
    assert [text for text in NO_FACTS[reason] if fact(text) is not None] == []


@pytest.mark.parametrize("key", FACTS)
def test_a_statement_of_the_same_form_has_its_key(key):
    assert {text: fact_key(text) for text in FACTS[key]} == dict.fromkeys(FACTS[key], key)


def test_a_listed_place_is_known_in_any_case():
    assert [name for name in LISTED if not is_known(name.title()) or name != name.casefold().strip()] == []
