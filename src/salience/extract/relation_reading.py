"""What is read from a text to be held against another one: words, the stems of those that name something, claims."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, pairwise
from typing import Final

from salience import text
from salience.extract import relation_words as lists
from salience.extract.contrasts import BASES, CONTRASTS
from salience.extract.distinctions import distinctions
from salience.extract.numerals import (
    CARDINALS,
    HUNDREDS,
    MOMENTS,
    MONTHS,
    MULTIPLES,
    ORDINALS,
    RELATIVE,
    UNITS,
    WEEKDAYS,
)
from salience.extract.phrases import Phrasebook
from salience.extract.tense import PAST_FORMS

LONGEST: Final = 1000
"""Characters of a text that are read; a longer one is of many things."""
FEWEST: Final = 4
"""Fewest words of a clause that is held against another one by itself."""
_PART: Final = re.compile(
    r"[,;:(—]\s|\s[–-]\s|[.!?]\s|\b(?:because|since|which|so that|after|when|until)\b", re.IGNORECASE
)
SHOWN: Final = 60
"""Most characters of a quotation."""
NEGATORS: Final = frozenset(phrase for phrase in CONTRASTS["not"] if " " not in phrase)
"""Single words that deny."""
NUMERALS: Final = frozenset(
    word for table in (UNITS, MOMENTS) for spellings in (*table.values(), *table) for word in spellings.split()
) | frozenset(
    {*CARDINALS, *HUNDREDS, *MULTIPLES, *ORDINALS, *RELATIVE, *MONTHS, *(month[:3] for month in MONTHS), *WEEKDAYS}
    | {"am", "pm", *(f"{day}s" for day in WEEKDAYS)}
)
"""Words of numbers, dates and units; `numerals` reads them."""
_CUES: Final = frozenset(word for phrase in (*lists.LATER, *lists.ENDED, *lists.FOR_NOW) for word in phrase.split())
EMPTY: Final = text.ENGLISH_STOPWORDS | lists.LIGHT | NUMERALS | (NEGATORS - BASES.keys()) | _CUES
"""Words that name nothing that a text is about."""
_SMALL: Final = lists.LIGHT | NUMERALS
_PASSIVE: Final = frozenset({"is", "are", "be", "been", "being"})
_BETWEEN: Final = frozenset({"now", "currently", "still", "also", "not", "only", "always", "no", "longer"})


@dataclass(frozen=True, slots=True)
class Said:
    """A text as it is held against another.

    Attributes:
        content: the text, at most `LONGEST` characters of it.
        words: all its words in order, normalised.
        terms: (stem, word) of the words that name something, in order.
        told: (kind, value) of its distinctions, in order.
        later: phrases that say or imply a change, in order.
        ended: phrases that say that something is over, in order.
    """

    content: str
    words: tuple[str, ...]
    terms: tuple[tuple[str, str], ...]
    told: tuple[tuple[str, str], ...]
    later: tuple[str, ...]
    ended: tuple[str, ...]

    @property
    def stems(self) -> frozenset[str]:
        """The stems of the words that name something."""
        return frozenset(stem for stem, _ in self.terms)

    @property
    def denies(self) -> bool:
        """Whether the text denies something; "stop" does so only before a verb: not in "stopped the car"."""
        pairs = pairwise((*self.words, ""))
        idle = sum(word in lists.STOPS and not after.endswith("ing") for word, after in pairs)
        return self.told.count(("claim", "not")) > idle

    @property
    def opening(self) -> frozenset[str]:
        """The words of the name that opens the text; empty if none does."""
        first = text.words(next(iter(self.values("name")), ""))
        opens = [word.removesuffix("'s") for word in self.words[: len(first)]] == first
        return frozenset(first) if opens else frozenset()

    @property
    def is_indefinite(self) -> bool:
        """Whether the text opens on somebody or something that is not named, so that others may speak of another."""
        return not self.words or self.words[0] in lists.INDEFINITE or self.words[0] in CARDINALS

    def values(self, *kinds: str) -> list[str]:
        """Return the distinctions of some kinds, in order."""
        return [value for kind, value in self.told if kind in kinds]

    def before(self, word: str) -> tuple[str, ...]:
        """Return the words before the first place of a word of the text."""
        return self.words[: self.words.index(word)]

    def after(self, word: str) -> tuple[str, ...]:
        """Return the words after the first place of a word of the text."""
        return self.words[self.words.index(word) + 1 :]


def read(content: str) -> Said:
    """Return what is read from a text, of any form."""
    content = content[:LONGEST]
    words = tuple(text.words(content))
    told = tuple((kind, value) for kind, _, value in (one.partition(":") for one in distinctions(content)))
    return Said(content, words, tuple(terms(words)), told, phrases("LATER", words), phrases("ENDED", words))


def main_clause(content: str) -> str:
    """Return the first part of a text that is a sentence of its own, without what is said of why and how."""
    parts = _PART.split(content[:LONGEST])
    return next((part for part in parts if len(part.split()) >= FEWEST), content)


def terms(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Return (stem, word) of the words that name something; one that a prefix negates is the word without it."""
    return chain.from_iterable(map(_TERMS.__getitem__, words))


def stems(words: Iterable[str]) -> list[str]:
    """Return the stems of all words but function words, light words and numerals, in order."""
    return list(chain.from_iterable(map(_STEMS.__getitem__, words)))


def has_figure(word: str) -> bool:
    """Return whether a word holds a figure, so that `numerals` reads it."""
    return any(map(str.isdigit, word))


def phrases(name: str, words: Sequence[str]) -> tuple[str, ...]:
    """Return the phrases of a list of `relation_words` that stand among `words`, in order, each once."""
    book = _book(name)
    found = dict.fromkeys(book.spelling(phrase) for _, _, phrase in book.find(words))
    return tuple(phrase for phrase in found if phrase not in lists.HIDING)


def strangers(one: Said, other: Said) -> bool:
    """Return whether two texts open with names, and not with the same."""
    return bool(one.opening and other.opening and one.opening.isdisjoint(other.opening))


def apart(one: Said, other: Said) -> tuple[list[str], list[str]]:
    """Return the words that only the first, and only the second text holds, in their order."""
    first, second = set(one.words), set(other.words)
    return [word for word in one.words if word not in second], [word for word in other.words if word not in first]


def tells_an_event(words: Iterable[str]) -> bool:
    """Return whether a verb is in the past: what happened once may have happened twice."""
    before = ""
    for word in words:
        is_past = word in PAST_FORMS or word.endswith("ed")
        if is_past and word not in lists.STATES and word not in lists.CHANGED and before not in _PASSIVE:
            return True
        before = before if word in _BETWEEN else word
    return False


def quoted(value: str) -> str:
    """Return `value` on one line, at most `SHOWN` characters."""
    line = text.one_line(value)
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 1]}…"


def _terms_of(word: str) -> tuple[tuple[str, str], ...]:
    plain = BASES.get(word, word).removesuffix("'s")
    if plain in EMPTY or word in EMPTY or has_figure(plain):
        return ()
    return tuple((stem, plain) for stem in _tokeniser().terms(plain))


def _stems_of(word: str) -> tuple[str, ...]:
    return () if word in _SMALL or has_figure(word) else _tokeniser().terms(word.removesuffix("'s"))


_TERMS: Final = text.Kept(_terms_of)
_STEMS: Final = text.Kept(_stems_of)


@cache
def _tokeniser() -> text.Tokeniser:
    return text.Tokeniser()


@cache
def _book(name: str) -> Phrasebook:
    return Phrasebook((*getattr(lists, name), *lists.HIDING))
