"""Terms and subjects of a text: the terms by which lexical search finds it, and its content words.

Thanks, praise and greetings fill conversations, and such texts are alike without a common subject: "That sounds great!
How was it?" has none. Questions state nothing. Small talk is a fixed word list: a subject that is lost by it is one of
several, while a false subject would group unrelated texts.
"""

from __future__ import annotations

import re
from typing import Final

from salience.extract.wordlists import MONTHS, load
from salience.records import Memory
from salience.text import AUTO, ENGLISH, NO_LANGUAGE, Tokeniser, normalise, words

_LISTS: Final = load("subjects")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?…。！？])[\"'”’)\]]*\s+|\n+|(?<=[。！？])")
_QUESTION_END: Final = ("?", "？")
_CLOSING: Final = "\"'”’)] \t"


def index_terms(tokeniser: Tokeniser, memory: Memory) -> tuple[str, ...]:
    """Return the terms of a memory's text, speaker, tags, other names and date, in order, with repetitions.

    Other names are the entities that the caller gave and the text does not contain, such as aliases.
    """
    created = memory.created_at
    date = f"{created.day} {MONTHS[created.month - 1]} {created.year}"
    texts = " ".join((memory.content, memory.speaker or "", *memory.tags))
    known = normalise(texts)
    others = [entity for entity in memory.entities if normalise(entity) not in known]
    terms = tokeniser.terms(" ".join((texts, *others)))
    return terms + tokeniser.terms(date)  # in English, whatever the language of the text


class Subjects:
    """Finds the subjects of texts.

    Args:
        tokeniser: splits texts into terms; small talk is only known in English.
    """

    def __init__(self, tokeniser: Tokeniser) -> None:
        self._tokeniser = tokeniser
        english = tokeniser.language in (AUTO, ENGLISH, NO_LANGUAGE)
        self._small_talk = frozenset(tokeniser.terms(" ".join(_LISTS["small_talk"]))) if english else frozenset[str]()
        self._listener = frozenset(_LISTS["listener"]) if english else frozenset[str]()

    def of(self, content: str, is_turn: bool = False) -> dict[str, str]:
        """Return the subjects of `content` in order: term -> its first word.

        Sentences of a conversation turn that address the listener are skipped: they are praise or advice, and the
        listener's own turns say more.
        """
        found: dict[str, str] = {}
        language = self._tokeniser.language_of(content)
        for sentence in map(words, stated(content)):
            if is_turn and not self._listener.isdisjoint(sentence):
                continue
            for word in sentence:
                for term in self._tokeniser.terms(word, language)[-1:]:
                    if term not in self._small_talk and any(map(str.isalpha, term)):
                        found.setdefault(term, word)
        return found


def stated(content: str) -> list[str]:
    """Return the sentences of a text except questions."""
    sentences = (sentence.strip() for sentence in _SENTENCE_END.split(content))
    return [sentence for sentence in sentences if sentence and not sentence.rstrip(_CLOSING).endswith(_QUESTION_END)]
