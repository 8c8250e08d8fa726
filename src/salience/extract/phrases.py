"""Where the phrases of a list occur among the words of a text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from salience import text

Phrase = tuple[str, ...]


class Phrasebook:
    """Phrases, ready to be found. Work grows with the number of words times the longest phrase.

    Args:
        phrases: words or phrases; case, Unicode form and punctuation do not matter. One without any word in it is
            never found.
    """

    def __init__(self, phrases: Iterable[str]) -> None:
        known = {words: phrase for phrase in phrases if (words := tuple(text.words(phrase)))}
        self._known: Final = known
        lengths: dict[str, set[int]] = {}
        for words in known:
            lengths.setdefault(words[0], set()).add(len(words))
        self._lengths: Final = {first: sorted(sizes, reverse=True) for first, sizes in lengths.items()}
        self._telling: Final = frozenset(max(words, key=len) for words in known)  # "left" of "to the left": seldom met

    def may_hold(self, words: Iterable[str]) -> bool:
        """Return whether any phrase may occur in a text with these words; False is sure."""
        return not self._telling.isdisjoint(words)

    def may_open(self, word: str) -> bool:
        """Return whether any phrase begins with this word."""
        return word in self._lengths

    def find(self, words: Sequence[str]) -> list[tuple[int, int, Phrase]]:
        """Return (start, end, phrase) of every occurrence in `words`, in order; one inside a longer one is left out."""
        if not self.may_hold(words):
            return []
        found: list[tuple[int, int, Phrase]] = []
        reached = 0
        for start in [at for at, word in enumerate(words) if word in self._lengths]:
            for length in self._lengths[words[start]]:
                phrase = tuple(words[start : start + length])
                if phrase in self._known:
                    if start + len(phrase) > reached:
                        reached = start + len(phrase)
                        found.append((start, reached, phrase))
                    break
        return found

    def spelling(self, phrase: Phrase) -> str:
        """Return a found phrase as it was given."""
        return self._known[phrase]
