"""Who a question speaks of, and the question put in that speaker's own voice. English."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from salience.text import normalise, words

LANGUAGE: Final = "english"
"""The language in which questions can be put in another's voice."""
ROLES: Final[Mapping[str, tuple[str, ...]]] = {
    "user": ("i", "me", "my", "mine", "myself", "i'm", "i've", "i'd", "i'll"),
    "human": ("i", "me", "my", "mine", "myself", "i'm", "i've", "i'd", "i'll"),
    "assistant": ("you", "your", "yours", "yourself", "you're", "you've"),
    "ai": ("you", "your", "yours", "yourself", "you're", "you've"),
}
"""Speaker of a chat -> the words of a question that mean it: who asks is the user, who is asked the assistant."""


def roles(query: str) -> tuple[str, ...]:
    """Return the roles of a chat that the pronouns of `query` stand for."""
    said = set(words(query))
    return tuple(role for role, pronouns in ROLES.items() if said.intersection(pronouns))


def forms(speakers: Iterable[str]) -> tuple[str, ...]:
    """Return the names in normal form by which some speakers may go: the whole, and its first word."""
    whole = [normalise(name) for name in speakers]
    return tuple(dict.fromkeys(form for name in whole for form in (name, name.partition(" ")[0])))


def first_person(query: str, speakers: Iterable[str]) -> str:
    """Return `query` as the named speakers would put it: "What did I paint?" for "What did Caroline paint?".

    A speaker tells of "I" and "my", not of a name, so that a question in the third person lies far from its answer.

    Args:
        query: any text.
        speakers: names; each is replaced where it stands whole, or its first word does, as it is spelled (in whatever
            case in a query without capitals).
    """
    flags = re.IGNORECASE if query == query.lower() else re.NOFLAG
    spellings = {form for speaker in speakers for form in (speaker, speaker.split()[0])}
    for name in sorted(spellings, key=len, reverse=True):
        query = re.sub(rf"(?<!\w){re.escape(name)}['’]s(?!\w)", "my", query, flags=flags)
        query = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "I", query, flags=flags)
    return query
