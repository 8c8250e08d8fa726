"""Sentences such as an assistant is told, and questions on them: put together from parts, so that there are enough."""

from __future__ import annotations

import random
from typing import Final

PEOPLE: Final = (
    "Mira", "Tomás", "Priya", "Elena", "Noor", "Jonas", "Aiko", "Samuel", "Ingrid", "Dmitri", "Leila", "Marcus",
    "Chen", "Beatriz", "Oskar", "Fatima", "Ruth", "Kofi", "Yara", "Pavel",
)  # fmt: skip
SUBJECTS: Final = (
    "the label service", "the nightly backup", "the invoice export", "the search page", "the mobile app",
    "the payment provider", "the old warehouse", "the customer survey", "the login form", "the delivery route",
    "the staging database", "the holiday calendar", "the price list", "the newsletter", "the office kitchen",
    "the data centre in Lyon", "the contract with Norda", "the audit report", "the translation files",
    "the on-call rota", "the cello lessons", "the garden fence", "the allergy plan", "the train tickets",
)  # fmt: skip
DEEDS: Final = (
    "wants to replace", "has doubts about", "spent the morning on", "wrote the first draft of", "asked the team about",
    "found a mistake in", "is proud of", "has to explain", "postponed the review of", "will present",
    "took photographs of", "complained about", "is still waiting for", "finished the checklist for",
    "promised to look after", "dreamt about",
)  # fmt: skip
REASONS: Final = (
    "because the costs have doubled since spring", "after two customers called about it",
    "so that the release can go out on time", "although nobody had asked for it", "before the visit of the auditors",
    "since the tests fail every other night", "while the others were at lunch", "because the supplier changed terms",
    "as soon as the new laptops arrive", "until the migration is over", "since the heating broke down",
    "because the children start school in autumn", "after a long talk with the landlord",
    "so that the weekend stays free", "because the figures did not add up", "once the lawyers have agreed",
)  # fmt: skip
PLACES: Final = ("in Porto", "in Lyon", "by telephone", "over dinner", "in the stand-up", "on the train", "at the fair")
QUESTIONS: Final = (
    "Why did {person} talk about {subject} {place}, {reason}?",
    "Who else knows that {person} {deed} {subject} {reason}?",
    "Is it true that {person} {deed} {subject} {place}?",
    "When did we hear {place} that {person} {deed} {subject}?",
)
PARTS: Final = {"person": PEOPLE, "deed": DEEDS, "subject": SUBJECTS, "place": PLACES, "reason": REASONS}


def sentences(count: int, seed: int) -> list[str]:
    """Return as many different sentences."""
    return _different("{person} {deed} {subject} {place}, {reason}.", count, seed)


def questions(count: int, seed: int) -> list[str]:
    """Return as many different questions."""
    return _different("", count, seed)


def _different(form: str, count: int, seed: int) -> list[str]:
    """Return different texts of a form; where that is empty, of any form of a question."""
    choose = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        parts = {name: choose.choice(texts) for name, texts in PARTS.items()}
        found[(form or choose.choice(QUESTIONS)).format(**parts)] = None
    return list(found)
