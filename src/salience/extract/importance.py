"""Importance of a text by the table of cmm, estimated when a memory is stored.

A text belongs to the first class of `CLASSES` of which it holds a phrase. Two readings of the table:

- A text is *routine* if routine phrases cover all of its words: "Thanks!" is routine, "Thanks, the deploy key is in
  the vault" is normal.
- A phrase matches whole words: "never" does not match "nevertheless". `IDIOMS` lists phrases that contain a word of
  the table with another sense, such as "never mind" and "do you remember".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from salience import text
from salience.extract.phrases import Phrasebook


@dataclass(frozen=True, slots=True)
class ImportanceClass:
    """A row of the table.

    Attributes:
        multiplier: cmm's score, [0.5, 2].
        phrases: words and phrases that put a text in this class.
    """

    multiplier: float
    phrases: tuple[str, ...]


NORMAL: Final = "normal"
ROUTINE: Final = "routine"

_SELF: Final = ("i", "we", "user")
_SAYING: Final = (
    "prefer", "like", "love", "hate", "live in", "moved", "work at", "work as", "work for", "use", "now use",
    "switched", "decided", "agreed on", "bought", "adopted",
)  # fmt: skip
"""Verbs that state something new after one of `_SELF`; alone they do not ("looks like", "for use")."""

CLASSES: Final[Mapping[str, ImportanceClass]] = {
    "correction": ImportanceClass(
        2.0,
        (
            "actually", "i was wrong", "we were wrong", "you were wrong", "that was wrong", "that's wrong",
            "that is wrong", "that's not right", "that is not right", "that's incorrect", "that is incorrect",
            "correction", "i misspoke", "i meant", "my mistake", "i made a mistake", "i stand corrected",
            "scratch that", "i take that back", "not true anymore", "no longer true",
        ),
    ),
    "instruction": ImportanceClass(
        2.0,
        (
            "always", "never", "remember", "don't forget", "do not forget", "make sure", "be sure to", "from now on",
            "keep in mind", "remind me", "at all times", "under no circumstances", "must not", "mustn't",
        ),
    ),
    "novel": ImportanceClass(
        1.5,
        (
            *(f"{who} {verb}" for who in _SELF for verb in _SAYING),
            "prefers", "likes", "loves", "hates", "dislikes", "lives in", "moved to", "moved from", "moves to",
            "works at", "works as", "works for", "uses", "switched to", "migrated to", "decided to", "decided on",
            "my name is", "my name's", "call me", "is called", "favourite", "favorite", "favourites", "favorites",
            "born", "birthday", "allergic to", "got married", "got engaged", "got promoted", "new job", "no longer",
        ),
    ),
    NORMAL: ImportanceClass(1.0, ()),
    ROUTINE: ImportanceClass(
        0.5,
        (
            "hello", "hi", "hey", "hiya", "good morning", "good afternoon", "good evening", "good night", "how are you",
            "how's it going", "what's up", "i'm fine", "i'm good", "bye", "goodbye", "see you", "see you later",
            "see you soon", "see you tomorrow", "talk later", "talk to you later", "take care", "have a good day",
            "have a nice day", "have a good one", "thanks", "thank you", "thx", "ty", "cheers", "thanks a lot",
            "thanks for your help", "thank you for your help", "thanks for the help", "many thanks", "much appreciated",
            "you're welcome", "no problem", "no worries", "my pleasure", "ok", "okay", "k", "yes", "yeah", "yep", "no",
            "nope", "sure", "of course", "got it", "great", "good", "nice", "cool", "perfect", "awesome", "sounds good",
            "sounds great", "will do", "done", "lol", "haha", "never mind", "nevermind", "please", "sorry",
            "there", "everyone", "all", "team", "and", "again", "oh", "well", "then", "much", "for now",
        ),
    ),
}  # fmt: skip
"""The table, in the order in which its classes are tried; a routine text holds nothing but that row's phrases."""

IDIOMS: Final = ("never mind", "as always", "do you remember", "remember when")
"""Phrases that hide a word of the table which they hold."""

FILLERS: Final = frozenset("absolutely also completely definitely ever just really recently so still too very".split())
"""Words that are passed over: "I really like" is "I like", "thanks so very much" is "thanks much"."""

_PHRASES: Final = {name: Phrasebook((*row.phrases, *IDIOMS)) for name, row in CLASSES.items() if row.phrases}
_IDIOMS: Final = frozenset(tuple(text.words(idiom)) for idiom in IDIOMS)


def importance(content: str) -> float:
    """Return the importance that `content` is stored with, half of cmm's multiplier: 0.25, 0.5, 0.75 or 1."""
    return CLASSES[importance_class(content)].multiplier / 2


def importance_class(content: str) -> str:
    """Return the name of the row of `CLASSES` that `content` belongs to."""
    words = [word for word in text.words(content) if word not in FILLERS]
    for name, phrases in _PHRASES.items():
        found = phrases.find(words)
        if name == ROUTINE:  # a text without words, such as a single emoji, is routine too
            matches = len({place for start, end, _ in found for place in range(start, end)}) == len(words)
        else:
            matches = any(phrase not in _IDIOMS for _, _, phrase in found)
        if matches:
            return name
    return NORMAL
