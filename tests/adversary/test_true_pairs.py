"""Pairs of plain statements that are both true: no rule-made fact may hide the older one of them."""

from __future__ import annotations

import pytest

from salience.extract.facts import fact_key

BOTH_TRUE = [
    ("I live in Berlin", "I live in Germany"),
    ("Alice lives in Rome", "Alice is based in Italy"),
    ("I work as a nurse", "I work as a volunteer on weekends"),
    ("My role is tech lead", "My role is admin in Jira"),
    ("My title is Staff Engineer", "My role is tech lead"),
    ("My title is Staff Engineer", "My title is Dr"),
    ("We use React for the frontend", "We use TypeScript for the frontend"),
    ("We use ruff for linting", "We use mypy for linting"),
    ("We use S3 for storage", "We use Postgres for storage"),
    ("We use Python for scripts", "We use Bash for scripts"),
    ("Anna uses Vim for coding", "Anna uses Copilot for coding"),
    ("I use olive oil for cooking", "I use a pan for cooking"),
    ("I use shampoo for my hair", "I use conditioner for my hair"),
    ("I use Lightroom for photos", "I use Photoshop for photos"),
    ("I prefer oat milk for coffee", "I prefer light roast for coffee"),
    ("I prefer bikes for short trips", "I prefer walking for short trips"),
    ("Our CI is GitHub Actions", "Our CI is Linux only"),
    ("My favourite book is 1984", "My favourite book is a novel"),
    ("My favourite book is 1984", "My favourite book is 400 pages long"),
    ("My favourite book is Dune", "My favourite book is a present from my aunt"),
    ("My favourite bar is Murphy's", "My favourite bar is Irish"),
    ("My favourite director is Nolan", "My favourite director is British"),
    ("My favourite cousin is Tim", "My favourite cousin is a pilot"),
    ("My favourite pen is a Lamy", "My favourite pen is blue"),
    ("My favourite park is Tiergarten", "My favourite park is huge"),
    ("My favourite music is jazz", "My favourite music is loud"),
    ("My favourite podcast is Serial", "My favourite podcast is weekly"),
    ("My favourite cake is carrot cake", "My favourite cake is an old recipe"),
]


@pytest.mark.parametrize(("older", "newer"), BOTH_TRUE)
def test_what_is_true_beside_another_statement_does_not_have_its_key(older, newer):
    key = fact_key(newer)
    assert key is None or key != fact_key(older)


ONE_HOLDS = [
    ("My favourite colour is blue", "My favourite color is green", "user.favourite.colour"),
    ("My favourite food is Thai", "My favourite food is Indian", "user.favourite.food"),
    ("My favourite language is German", "My favourite language is French", "user.favourite.language"),
    ("My favourite wine is red", "My favourite wine is white", "user.favourite.wine"),
    ("My favourite film is Big", "My favourite film is Old Boy", "user.favourite.movie"),
    ("I live in Berlin", "I moved to Japan", "user.residence"),
    ("I live in Germany", "I live in Japan", "user.residence.country"),
    ("My role is tech lead", "My role changed to architect", "user.role"),
    ("We use Postgres for billing", "We switched from Postgres to MySQL for billing", "team.uses.billing"),
    ("I prefer Python for backend work", "I prefer Go for backend work", "user.prefers.backend_work"),
]


@pytest.mark.parametrize(("older", "newer", "key"), ONE_HOLDS)
def test_what_takes_the_place_of_another_statement_has_its_key(older, newer, key):
    assert fact_key(older) == fact_key(newer) == key
