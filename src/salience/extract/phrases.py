"""Phrases: find the phrases of a list in a text, and the intent of a query by the words of a profile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from salience import text
from salience.records import Intent

Phrase = tuple[str, ...]


class Phrasebook:
    """An index of phrases. A search takes time in proportion to the words times the longest phrase.

    Args:
        phrases: words or phrases in any case, Unicode form and punctuation; a phrase without a word is never found.
    """

    def __init__(self, phrases: Iterable[str]) -> None:
        known = {words: phrase for phrase in phrases if (words := tuple(text.words(phrase)))}
        self._known: Final = known
        lengths: dict[str, set[int]] = {}
        for words in known:
            lengths.setdefault(words[0], set()).add(len(words))
        self._lengths: Final = {first: sorted(sizes, reverse=True) for first, sizes in lengths.items()}

    def find(self, words: Sequence[str]) -> list[tuple[int, int, Phrase]]:
        """Return (start, end, phrase) of every occurrence in `words`, in order, except inside a longer one."""
        found: list[tuple[int, int, Phrase]] = []
        end = 0
        for start, word in enumerate(words):
            for length in self._lengths.get(word, ()):
                phrase = tuple(words[start : start + length])
                if phrase in self._known:
                    if start + len(phrase) > end:
                        end = start + len(phrase)
                        found.append((start, end, phrase))
                    break
        return found

    def spelling(self, phrase: Phrase) -> str:
        """Return a found phrase as it was given."""
        return self._known[phrase]


def detect_intent(query: str, intents: Mapping[str, Sequence[str]]) -> Intent:
    """Return the intent of `query`, with the matched phrases in the order of the query.

    The intent with the most distinct phrases in the query wins; of equals, the first in `intents`. Without any phrase
    it is `Intent("default", ())`. Phrases match whole words in any case and Unicode form. A phrase inside a longer
    match (of any intent) does not count: "this week" is one match.

    Args:
        query: any text.
        intents: name -> words or phrases, in the profile's order.
    """
    if not intents:
        return Intent()
    book, phrases = _index(tuple((name, tuple(phrases)) for name, phrases in intents.items()))
    found = dict.fromkeys(phrase for _, _, phrase in book.find(text.words(query)))
    best = Intent()
    for name, own in phrases.items():
        matched = tuple(book.spelling(phrase) for phrase in found if phrase in own)
        if len(matched) > len(best.words):
            best = Intent(name, matched)
    return best


@lru_cache(maxsize=32)
def _index(intents: tuple[tuple[str, tuple[str, ...]], ...]) -> tuple[Phrasebook, Mapping[str, frozenset[Phrase]]]:
    """Return an index of all phrases, and the phrases of each intent."""
    book = Phrasebook(phrase for _, phrases in intents for phrase in phrases)
    return book, {name: frozenset(tuple(text.words(phrase)) for phrase in phrases) for name, phrases in intents}
