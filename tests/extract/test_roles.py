"""Who does what to whom, and the statements that say what a question asks the other way round."""

from __future__ import annotations

import pytest

from salience.extract.roles import _LISTS, _stems, reversed_role, roles


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Bob reports to Cleo", ["role:subject bob report to", "role:object cleo report to"]),
        ("The billing service calls the ledger", ["role:subject bill servic call", "role:object ledger call"]),
        ("Etcd replaced Zookeeper", ["role:subject etcd replac", "role:object zookeep replac"]),
        ("I like tea", ["role:object tea like"]),
        ("Bob lives in Rome", []),
        ("Bob doesn't report to Cleo", []),
        ("Bob reports to Cleo, who reports to Dan", []),
        ("The ledger is called by the billing service", []),
        ("Ann trains with Bob", []),
        ("Ann and Bob manage the shop", []),
        ("Does Bob report to Cleo?", []),
        ("Call the bank", []),
        ("", []),
    ],
)
def test_a_statement_has_roles(text, found):
    assert roles(text) == found


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Who reports to Bob?", "Bob reports to Cleo"),
        ("Who does Bob report to?", "Ann reports to Bob"),
        ("What calls the billing service?", "The billing service calls the ledger"),
        ("Which service calls the billing service?", "The billing service calls the ledger"),
        ("What does the billing service call?", "The web app calls the billing service"),
        ("What did etcd replace?", "Vault replaced etcd"),
    ],
)
def test_a_question_asks_for_the_other_role(question, text):
    assert reversed_role(question, "english") in roles(text)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Who reports to Bob?", "Ann reports to Bob"),
        ("Who does Bob report to?", "Bob reports to Cleo"),
        ("Who manages Bob?", "Bob works for Cleo"),
        ("What runs on db-03?", "db-03 runs PostgreSQL"),
        ("What is my dog called?", "My dog called for help"),
        ("Does Bob report to Cleo?", "Cleo reports to Dan"),
        ("Who has replaced Ann?", "Ann replaced Bob"),
        ("Who does Bob report sick to?", "Ann reports to Bob"),
        ("", "Bob reports to Cleo"),
    ],
)
def test_other_statements_are_not_reversed(question, text):
    assert reversed_role(question, "english") not in roles(text)


def test_questions_of_other_languages_ask_for_no_role():
    assert reversed_role("Who reports to Bob?", "german") == ""


def test_each_verb_has_one_stem():
    assert {len(_stems([verb])) for verb in _LISTS["verbs"]} == {1}
