"""Speakers that a question names, and the question rewritten in the first person. English."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from salience.text import ENGLISH_STOPWORDS, normalise, words

USER: Final = ("user", "human")
"""Roles of the user in a chat."""
LANGUAGE: Final = "english"
"""The language of questions that `first_person` can rewrite."""
ROLES: Final[Mapping[str, tuple[str, ...]]] = {
    "user": ("i", "me", "my", "mine", "myself", "i'm", "i've", "i'd", "i'll"),
    "human": ("i", "me", "my", "mine", "myself", "i'm", "i've", "i'd", "i'll"),
    "assistant": ("you", "your", "yours", "yourself", "you're", "you've"),
    "ai": ("you", "your", "yours", "yourself", "you're", "you've"),
}
"""Role in a chat -> pronouns of a question that refer to it: the user asks the assistant."""
_MODALS: Final = frozenset({"can", "may", "might", "must", "shall", "will"})
_NOT_NAMES: Final = (ENGLISH_STOPWORDS | {"new", "old"}) - _MODALS


def roles(query: str) -> tuple[str, ...]:
    """Return the roles in a chat that the pronouns of `query` refer to."""
    found = set(words(query))
    return tuple(role for role, pronouns in ROLES.items() if not found.isdisjoint(pronouns))


def named(query: str, speakers: Iterable[str]) -> tuple[str, ...]:
    """Return the speakers that `query` names by the whole name or its first word, in the same case.

    A name that is also a modal verb ("May", "Will") does not count in lower case or as the first word, unless the whole
    query is in lower case. Pronouns and articles never count as names.
    """
    return tuple(speaker for speaker in speakers if any(_occurs(query, form) for form in _spellings(speaker)))


def _spellings(speaker: str) -> tuple[str, ...]:
    """Return the whole name and its first word, except common words."""
    return tuple(form for form in dict.fromkeys((speaker, speaker.split()[0])) if normalise(form) not in _NOT_NAMES)


def _occurs(query: str, form: str) -> bool:
    places = [match.start() for match in _pattern(form, query).finditer(query)]
    if normalise(form) in _MODALS and query != query.lower():
        places = [place for place in places if query[:place].strip()]
    return bool(places)


def _pattern(form: str, query: str, ending: str = "") -> re.Pattern[str]:
    is_lower = query == query.lower()
    return re.compile(rf"(?<!\w){re.escape(form)}{ending}(?!\w)", re.IGNORECASE if is_lower else re.NOFLAG)


def forms(speakers: Iterable[str]) -> tuple[str, ...]:
    """Return the speakers' names and their first words in normal form."""
    return tuple(dict.fromkeys(normalise(form) for speaker in speakers for form in _spellings(speaker)))


def first_person(query: str, speakers: Iterable[str]) -> str:
    """Return `query` in the first person of the speakers: "What did I paint?" for "What did Caroline paint?".

    Speakers say "I" and "my" of themselves, so a question in the third person is less similar to their answers.

    Args:
        query: any text.
        speakers: names; the whole name and its first word are replaced, in the same case (in any case if the query is
            in lower case).
    """
    spellings = {form for speaker in speakers for form in _spellings(speaker)}
    for name in sorted(spellings, key=len, reverse=True):
        query = _pattern(name, query, "['’]s").sub("my", query)
        query = _pattern(name, query).sub("I", query)
    return query
