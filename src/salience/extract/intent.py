"""What a query is after, told by the words of a profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from salience import text
from salience.extract.phrases import Phrase, Phrasebook
from salience.records import Intent


def detect(query: str, intents: Mapping[str, Sequence[str]]) -> Intent:
    """Return the intent of `query`, with the phrases that gave it away in the order of the query.

    The intent with the most distinct phrases in the query wins; of equals, the one that stands first in `intents`.
    Without any phrase it is `Intent("default", ())`. Phrases are matched as whole words, whatever their case and
    Unicode form. A phrase inside a longer one that matches (of any intent) does not count: "this week" is one match.

    Args:
        query: any text.
        intents: name -> words or phrases, in the profile's order; a phrase may stand under several names.
    """
    if not intents:
        return Intent()
    book, phrases = _learnt(tuple((name, tuple(phrases)) for name, phrases in intents.items()))
    found = dict.fromkeys(phrase for _, _, phrase in book.find(text.words(query)))
    best = Intent()
    for name, own in phrases.items():
        matched = tuple(book.spelling(phrase) for phrase in found if phrase in own)
        if len(matched) > len(best.words):
            best = Intent(name, matched)
    return best


@lru_cache(maxsize=32)
def _learnt(intents: tuple[tuple[str, tuple[str, ...]], ...]) -> tuple[Phrasebook, Mapping[str, frozenset[Phrase]]]:
    """Return the phrases of a profile ready to be found, and those of each intent."""
    book = Phrasebook(phrase for _, phrases in intents for phrase in phrases)
    return book, {name: frozenset(tuple(text.words(phrase)) for phrase in phrases) for name, phrases in intents}
