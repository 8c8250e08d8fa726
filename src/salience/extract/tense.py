"""Which way an English query looks at a time that comes round: back at the last one, or ahead.

"On Friday" is last Friday in "What did we say on Friday?", the coming one in "Will it rain on Friday?", and any one in
"Is the shop open on Friday?". The verb tells: the sign that stands nearest before the time, or without one the first
after it. So "Can you tell me what we did on Friday?" looks back. Verbs are known by tables of their forms and not by a
parser, which would cost more than the whole recall.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter
from typing import Final, Literal, NamedTuple

from salience.extract import periods
from salience.extract.patterns import Pattern

Tense = Literal["past", "coming", "unsaid"]
"""Where a time lies, by the words around it; "unsaid" is what holds in general, or has no verb that would tell."""

PAST_FORMS: Final = frozenset(
    """
    did was were had been went gone done happened ate eaten became began begun bent bit bitten blew bled bought bred
    broke broken brought built burnt came caught chose chosen dealt drank drawn drew driven drove dug fallen fed fell
    felt fled flew flown forgave forgiven forgot forgotten fought found froze frozen gave given got gotten grew grown
    heard held hid hidden hung kept knew known laid learnt led left lent lit lost made meant met paid ran rang ridden
    risen rode rose said sang sank saw seen sent shook shot shown slept slid sold sought spent spoke spoken spun
    stole stolen stood stuck sung swam swept swore sworn swum taken taught thought threw thrown told took tore torn
    understood woke won wore worn written wrote agreed disagreed freed guaranteed
    """.split()
)
"""Forms of the past and the participles alone; not "read" and "put", the present as well, nor "sat", a day too."""
NOT_VERBS: Final = frozenset("hundred sacred naked wicked beloved united shed embed fred alfred jared ahmed".split())
"""What ends like a regular past and is none; "need" and "speed" are known by their double e."""

_PAST_FORM = rf"(?:{'|'.join(sorted(PAST_FORMS))}|(?:did|was|were|had)n['’]t)\b"
_REGULAR = rf"(?!(?:{'|'.join(sorted(NOT_VERBS))})\b)\w\w+(?<!e)ed\b"
_PARTICIPLE = rf"(?:{_PAST_FORM}|{_REGULAR})"
_DETERMINER = r"(?:the|an?|my|our|your|his|her|its|their|this|that)"
_BE = r"(?:\b(?:is|are|am|be|being|gets?)(?:n['’]t)?|\b(?:who|what|where|when|how|it|he|she|that)['’]s|['’](?:re|m))"
_NO_CLAUSE = r"(?!(?:who|what|which|that|where|when|how|why)\b)"
"""In "that is what happened" nothing is happened: a clause of its own begins."""
_NO_AGENT = r"(?!(?:i|we|you|he|she|it|they)\b|(?-i:[A-Z]))"
"""In "is the cake Bob baked" and "is the cake we baked" one did it; in "is the coffee shop closed" nobody did."""
_PASSIVE = (  # "is closed", "is the shop closed", "isn't Bob invited": a state, though its verb looks like the past
    rf"{_BE}\s+(?:(?:not|always|usually|often|only|still|already|ever)\s+)?"
    rf"(?:(?:{_DETERMINER}\s+)?{_NO_CLAUSE}\w+\s+(?:{_NO_AGENT}\w+\s+)?)?{_PARTICIPLE}"
)
_AHEAD = (
    r"\b(?:will|wo|shall|should|can|could|would|might|must)(?:n['’]t)?\b|['’]ll\b|\bgonna\b"
    r"|\b(?:do|does)(?:n['’]t)?\s+(?:i|we|you|he|she|they|it|people)\b|(?:\b(?:is|are|am)|['’](?:s|re|m))\s+going\s+to\b"
    r"|\b(?:plan(?:s|ned|ning)?|schedul(?:es?|ed|ing)|book(?:ed|ings?)|arranged|intend(?:s|ed)?)\s+(?:for|to)\b"
    r"|\bplan(?:s|ned|ning)?\s+on\b"
)
_BACK = r"\b(?:ago|previously|last\s+time|since|back\s+(?:in|on|at|around))\b"
_DAY = "|".join(name for name in periods.WEEKDAYS if name.endswith("day"))
_SIGN = Pattern(rf"(?P<coming>{_PASSIVE}|{_AHEAD})|(?P<past>{_BACK}|\b{_PARTICIPLE})")
_OCCASION = Pattern(rf"\b(?:on|from|in|at|during)\s+(?:{_DAY})['’]s\s+\w")
"""A thing that was, on one day: "decisions from Friday's call"; not "for" or "of", as in "agenda for Friday's call"."""


class Sign(NamedTuple):
    """Words that say where the times near them lie, and where they begin."""

    at: int
    tense: Tense


def signs(text: str) -> list[Sign]:
    """Return what tells the tense in `text`, in order; a thing of one day tells it only where no verb does."""
    found = [Sign(match.start(), "past" if match["past"] else "coming") for match in _SIGN.compiled.finditer(text)]
    return found or [Sign(match.start(), "past") for match in _OCCASION.compiled.finditer(text)]


def tense(signs: Sequence[Sign], until: int) -> Tense:
    """Return where a time that ends at `until` lies, by the sign nearest before that, or else the first after it."""
    before = bisect_left(signs, until, key=attrgetter("at"))
    return signs[max(before - 1, 0)].tense if signs else "unsaid"
