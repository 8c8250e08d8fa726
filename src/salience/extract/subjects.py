"""What a text speaks of: its content words without questions and small talk.

Thanks, praise and greetings make up much of a conversation, and texts made of them are alike without having anything
in common that is worth keeping: "That sounds great! How was it?" speaks of nothing. A question tells nothing yet. Words
are taken for small talk whatever they mean where they stand; a subject that is lost this way is one of several, while
one too many would put together what does not belong together.
"""

from __future__ import annotations

import re
from typing import Final

from salience.text import NO_LANGUAGE, Tokeniser, words

SMALL_TALK: Final = frozenset(
    """
    hello hi hey hiya bye goodbye dear morning evening thanks thank thx cheers welcome please sorry worries wow woah
    whoa yay woohoo yeah yep yup yes nope ok okay oh ah aw aww haha hahaha lol omg man dude gosh sure definitely
    absolutely totally exactly really truly actually honestly maybe probably indeed agree true right congrats
    congratulations kudos great good nice awesome amazing cool fantastic wonderful incredible super best better
    lovely beautiful gorgeous stunning pretty cute sweet perfect fun funny blast neat excellent brilliant impressive
    fabulous terrific exciting excited inspiring inspired interesting special important happy glad proud lucky
    stoked thrilled pumped grateful thankful appreciate appreciation love like enjoy hope wish guess bet feel
    feeling mean think thought know knew understand remember forget believe imagine wonder sound look see seen saw
    hear heard say said tell told talk chat speak spoke ask answer reply share get got gotten getting go going gone
    went come came make making made take taking took taken give giving gave given keep kept let put want need try
    help start begin began find found bring brought use become became happen stay thing things stuff lot lots bit
    kind sort way something anything everything nothing someone anyone everyone people one ones guy guys thats whats
    much many even also still just ever never always already yet back around away well far long else another every
    several enough quite almost often sometimes usually though although however time times day week month year
    weekend today yesterday tomorrow tonight last next ago lately recently since soon now moment hour minute later
    catch word words others different difference together forward part whole real impact care encourage
    encouragement motivate motivated motivation push stop journey tough hard easy pic photo picture may might must
    shall gonna wanna gotta dont cant im ive user assistant agent system
    """.split()
)
"""English words that most texts hold, whatever they are about; stop words are none of them."""

LISTENER: Final = frozenset("you you're you've you'll you'd your yours yourself yourselves y'all ya u ur".split())
"""English words for the one who is spoken to."""

_SENTENCE_END: Final = re.compile(r"(?<=[.!?…。！？])[\"'”’)\]]*\s+|\n+|(?<=[。！？])")
_QUESTION_END: Final = ("?", "？")
_CLOSING: Final = "\"'”’)] \t"


class Subjects:
    """Reads what texts speak of.

    Args:
        tokeniser: text to terms; in a language other than English nothing counts as small talk.
    """

    def __init__(self, tokeniser: Tokeniser) -> None:
        self._terms = tokeniser.terms
        english = tokeniser.language in ("english", NO_LANGUAGE)
        self._small_talk = frozenset(tokeniser.terms(" ".join(SMALL_TALK))) if english else frozenset[str]()
        self._listener = LISTENER if english else frozenset[str]()

    def of(self, content: str, is_turn: bool = False) -> dict[str, str]:
        """Return the terms of what `content` speaks of, each with the word that stands for it first, in order.

        In a turn of a conversation, what is said of the listener is passed over: it is praise or advice, and the
        listener told it better.
        """
        found: dict[str, str] = {}
        for sentence in map(words, stated(content)):
            if is_turn and not self._listener.isdisjoint(sentence):
                continue
            for word in sentence:
                for term in self._terms(word):
                    if term not in self._small_talk and any(map(str.isalpha, term)):
                        found.setdefault(term, word)
        return found


def stated(content: str) -> list[str]:
    """Return the sentences of a text that are no questions."""
    sentences = (sentence.strip() for sentence in _SENTENCE_END.split(content))
    return [sentence for sentence in sentences if sentence and not sentence.rstrip(_CLOSING).endswith(_QUESTION_END)]
