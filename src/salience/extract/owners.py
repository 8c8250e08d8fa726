"""Owners: the person whose state a statement tells, if that is somebody close to its speaker.

To an embedding, "My brother's dog is called Otto" answers "What is my dog called?" as well as "Our dog is called Rex".
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from functools import cache
from typing import Final, Literal

from salience import text
from salience.extract.wordlists import load

LISTS: Final = {name: frozenset(words) for name, words in load("pairs").items()}
MAX_OPENING: Final = 9
"""Words of a text in which its subject is looked for."""
_CONFLICTS: Final = load("conflicts")
_PAST_FORMS: Final = frozenset(load("time")["past_forms"])
VERBS: Final = (
    LISTS["verbs"]
    | _PAST_FORMS
    | {
        phrase.split()[0]
        for name in ("single_verbs", "later", "ended", "copulas", "additive", "changed")
        for phrase in _CONFLICTS[name]
    }
) - LISTS["fillers"] | LISTS["copulas"]
"""English words that end the subject of a statement."""
_CLITICS: Final = frozenset({"m", "ve", "re", "d", "ll"})
_THIRD_PERSON: Final = re.compile(r"[a-z]{2,}[^su\W]s")
_ANIMALS: Final = frozenset("cat dog rabbit".split())
CLOSE: Final = frozenset(
    word + ending for word in (LISTS["kin"] | LISTS["superiors"]) - _ANIMALS for ending in ("", "s", "'s")
)
"""Words for people whose state is not that of the speaker, in all their forms."""
_BOTH: Final = LISTS["selves"] | frozenset("you your yours yourself user user's".split())
"""Words of the speaker and the listener."""
_DETERMINERS: Final = LISTS["possessives"] | {"a", "an", "the"}
_OF: Final = frozenset("of de von meines unseres".split())
Owner = Literal["", "relative", "relative's"]
"""Whose state a text tells: of a relative, or of what belongs to one; "" for anybody else's."""


def verbs_of(language: str) -> Set[str]:
    """Return the words that end the subject of a statement in a language."""
    return VERBS if language == text.ENGLISH else VERBS | LISTS["foreign_verbs"]


def is_verb(word: str, verbs: Set[str]) -> bool:
    """Return whether a word is one of `verbs`, a regular past form, or a pronoun with its verb."""
    return word in verbs or (word.endswith("ed") and len(word) > 4) or word.partition("'")[2] in _CLITICS


def opening(words: Sequence[str], verbs: Set[str]) -> tuple[int, int | None]:
    """Return the place of the first word of a text's subject and that of the first verb after it; None without one."""
    start = next((at for at, word in enumerate(words) if word not in LISTS["openers"]), len(words))
    places = range(start, min(start + MAX_OPENING, len(words)))
    verb = next((at for at in places if is_verb(words[at], verbs) and not _is_noun(words, at)), None)
    if verb is None:  # "db-03 replicates": the first word in the third person
        verb = next((at for at in places[1:] if _THIRD_PERSON.fullmatch(words[at])), None)
    return start, verb


def _is_noun(words: Sequence[str], at: int) -> bool:
    """Return whether a word is no verb, after an article or an owner: "the rent", "my left knee", "Anna's work number".

    A past form after a name can be a verb: "Paul's married".
    """
    before = words[at - 1] if at else ""
    is_past = words[at] in _PAST_FORMS or words[at].endswith("ed")
    return before in _DETERMINERS or (before.endswith("'s") and not is_past)


def owner(content: str) -> Owner:
    """Return "relative" for "My brother has a dog", "relative's" for "My brother's dog is ill", else "".

    It is "" for a text that also tells of its speaker or its listener ("My brother's dog bit me"), of what a relative
    did, which can concern both ("My wife booked the hotel"), and where no possessive stands before the relative ("The
    parent company").
    """
    words = text.words(content)
    if CLOSE.isdisjoint(words):
        return ""
    start, verb = opening(words, verbs_of(any_language().language_of(content)))
    for at in range(start + 1, verb or 0):
        owners = [place for place in range(max(at - 2, start), at) if _is_possessive(words[place])]
        if owners and words[at] in CLOSE and _BOTH.isdisjoint((*words[: owners[-1]], *words[at + 1 :])):
            first = owners[-1]
            if first > start and words[first] not in _OF and words[first - 1] not in _OF:
                return ""  # "Dinner with my wife is at eight"
            if first > start or words[at].endswith("'s") or f"{words[at]}'" in content.lower():
                return "relative's"
            return "" if _is_past(words[verb or 0]) else "relative"
    return ""


def _is_past(verb: str) -> bool:
    return verb not in LISTS["copulas"] and (verb in _PAST_FORMS or verb.endswith("ed"))


def _is_possessive(word: str) -> bool:
    return word in LISTS["possessives"] or word.endswith("'s")


@cache
def any_language() -> text.Tokeniser:
    """Return a tokeniser that detects the language of each text."""
    return text.Tokeniser(text.AUTO)
