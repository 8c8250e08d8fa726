"""Who a question speaks of, and the question put in that speaker's own voice. English."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from salience.text import ENGLISH_STOPWORDS, normalise, words

LANGUAGE: Final = "english"
"""The language in which questions can be put in another's voice."""
ROLES: Final[Mapping[str, tuple[str, ...]]] = {
    "user": ("i", "me", "my", "mine", "myself", "i'm", "i've", "i'd", "i'll"),
    "human": ("i", "me", "my", "mine", "myself", "i'm", "i've", "i'd", "i'll"),
    "assistant": ("you", "your", "yours", "yourself", "you're", "you've"),
    "ai": ("you", "your", "yours", "yourself", "you're", "you've"),
}
"""Speaker of a chat -> the words of a question that mean it: who asks is the user, who is asked the assistant."""


_PRONOUNS: Final = frozenset().union(*ROLES.values())
_MODALS: Final = frozenset({"can", "may", "might", "must", "shall", "will"})
_NOBODY: Final = (ENGLISH_STOPWORDS | {"new", "old"}) - _MODALS


def roles(query: str) -> tuple[str, ...]:
    """Return the roles of a chat that the pronouns of `query` stand for."""
    said = _PRONOUNS.intersection(words(query))
    return tuple(role for role, pronouns in ROLES.items() if said.intersection(pronouns)) if said else ()


def named(query: str, speakers: Iterable[str]) -> tuple[str, ...]:
    """Return the speakers whom `query` names, by the whole name or its first word, spelled as it is.

    A name that is also a common word ("May", "Will") is none where it stands in small letters or opens the question,
    unless the question has no capitals at all. Pronouns and articles name nobody.
    """
    return tuple(speaker for speaker in speakers if any(_stands(query, form) for form in _spellings(speaker)))


def _spellings(speaker: str) -> tuple[str, ...]:
    """Return the whole name and its first word, without those that are common words in themselves."""
    return tuple(form for form in dict.fromkeys((speaker, speaker.split()[0])) if normalise(form) not in _NOBODY)


def _stands(query: str, form: str) -> bool:
    places = [match.start() for match in _pattern(form, query).finditer(query)]
    if normalise(form) in _MODALS and query != query.lower():
        places = [place for place in places if query[:place].strip()]
    return bool(places)


def _pattern(form: str, query: str, ending: str = "") -> re.Pattern[str]:
    return _compiled(form, ending, query == query.lower())


@lru_cache(maxsize=256)
def _compiled(form: str, ending: str, in_any_case: bool) -> re.Pattern[str]:
    """Return the pattern of a name, kept since the same few are asked about again and again."""
    return re.compile(rf"(?<!\w){re.escape(form)}{ending}(?!\w)", re.IGNORECASE if in_any_case else re.NOFLAG)


def forms(speakers: Iterable[str]) -> tuple[str, ...]:
    """Return the names in normal form by which some speakers may go: the whole, and its first word."""
    return tuple(dict.fromkeys(normalise(form) for speaker in speakers for form in _spellings(speaker)))


def first_person(query: str, speakers: Iterable[str]) -> str:
    """Return `query` as the named speakers would put it: "What did I paint?" for "What did Caroline paint?".

    A speaker tells of "I" and "my", not of a name, so that a question in the third person lies far from its answer.

    Args:
        query: any text.
        speakers: names; each is replaced where it stands whole, or its first word does, as it is spelled (in whatever
            case in a query without capitals).
    """
    spellings = {form for speaker in speakers for form in _spellings(speaker)}
    for name in sorted(spellings, key=len, reverse=True):
        query = _pattern(name, query, "['’]s").sub("my", query)
        query = _pattern(name, query).sub("I", query)
    return query
