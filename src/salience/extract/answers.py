"""Answers: the kind of answer that a question asks for, and the kinds that a text does not give.

To an embedding, "The office closes at six" answers "Where is the office?" as well as "The office is in Lisbon" does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from salience import text
from salience.extract.owners import CLOSE, any_language
from salience.extract.phrases import Phrasebook
from salience.extract.wordlists import MONTHS, WEEKDAYS, load

Kind = Literal["place", "time", "person", "number", "measure", "colour"]
"""A kind of answer. A measure is a number, a time or a word such as "often"."""
MAX_WORDS: Final = 40
"""Words of the longest text that is read: a longer one gives an answer of nearly every kind."""
_LISTS: Final = {name: frozenset(words) for name, words in load("answers").items()}
_PLACES: Final = frozenset(name for names in load("places").values() for name in names)
_NO_PLACES: Final = _LISTS["no_places"] | {*MONTHS, *WEEKDAYS, *(f"{day}s" for day in WEEKDAYS)}
_ENDED: Final = Phrasebook({*load("conflicts")["ended"], *_LISTS["ended"]} - {"left"})  # "two plasters left"
_DETERMINERS: Final = frozenset("the a an my your his her its our their this that each every".split())
_OCCUPATION: Final = re.compile(r"\w{2,}(?:er|or|ist|ian|ant)s?")
_NOTE: Final = re.compile(r"[:=(]| [-–—>]+ ")
"""A sign of a note."""
_WHICH: Final = r"(?:what|which)(?:'s| is| was)?(?: the| my| your| his| her| its| our| their| \w+'s)*"
_BEFORE: Final = r"(?:(?:in|on|at|to|from|for|by) )?"
_OPENINGS: Final[Mapping[Kind, str]] = {
    "place": rf"where(?:'s)?|{_WHICH} (?:city|town|country|street|village|place|address)",
    "person": r"who(?:'s)?|whose|whom",
    # what happened in the past has the time of its memory
    "time": rf"(?!.* (?:did|was|were) )(?:when(?:'s| \w+)|"
    rf"{_WHICH} (?:time(?! zone)|day|date|week|month|weekday|season))",
    "number": r"how (?:many|much|old|tall|far|heavy)|"
    rf"{_WHICH} (?:price|cost|rent|salary|wage|fee|budget|limit|age|height|weight|temperature|rate|deposit|dose)",
    "measure": r"how (?:long|often|big|large|high|deep|wide|fast)",
    "colour": rf"{_WHICH} colou?r",
}
"""Kind -> pattern of the first words of a question for it."""
_ASKING: Final = {kind: re.compile(rf"{_BEFORE}(?:{words})\b") for kind, words in _OPENINGS.items()}


def asked_kind(question: str) -> Kind | None:
    """Return the kind of answer that an English question asks for; None for any other kind."""
    form = " ".join(text.words(question))
    return next((kind for kind, asking in _ASKING.items() if asking.match(form)), None)


def missing_kinds(content: str, details: Sequence[str]) -> list[Kind]:
    """Return the kinds of answer that an English text does not give: none for a long text, a note, or an end.

    "Passport: top drawer" is a note, and "The wedding is off" answers every question about the wedding.

    Args:
        content: the text.
        details: its `distinctions.details`.
    """
    words = text.words(content)
    if not 2 <= len(words) <= MAX_WORDS or _NOTE.search(content):
        return []
    if any_language().language_of(content) != text.ENGLISH or _ENDED.find(words):
        return []

    def has(name: str) -> bool:
        return not _LISTS[name].isdisjoint(words)

    names = [value for kind, _, value in (one.partition(":") for one in details) if kind == "name"]
    has_number = any(one.startswith("number:") for one in details)
    has_time = has_number or has("times") or any(one.startswith("date:") for one in details)
    has_amount = has_number or has("amounts")
    given: dict[Kind, bool] = {
        "place": has("places") or "/" in content or _names_place(words, names),
        "time": has_time,
        "person": has("people") or bool(names) or not CLOSE.isdisjoint(words) or any(map(_OCCUPATION.fullmatch, words)),
        "number": has_amount or "and" in words or "," in content,  # "Tom and Ann" are two
        "measure": has_amount or has_time,
        "colour": has("colours"),
    }
    return [kind for kind, is_given in given.items() if not is_given]


def _names_place(words: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether a text has the name of a place, any name after its first word, or a phrase such as "in bed"."""
    if any(name in _PLACES or name.split()[0] != words[0] for name in names):
        return True
    for at, word in enumerate(words):
        if word in _LISTS["prepositions"]:
            is_determined = words[at + 1 : at + 2] != [] and words[at + 1] in _DETERMINERS
            thing = "".join(words[at + 1 + is_determined : at + 2 + is_determined])
            is_place = thing != "" and thing not in _NO_PLACES and not any(map(str.isdigit, thing))
            if is_place and (is_determined or word != "to"):
                return True
    return False
