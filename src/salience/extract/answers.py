"""Answers: the kind of answer that a question asks for, and the kinds that a text does not give.

To an embedding, "The office closes at six" and "The office is not in Porto" answer "Where is the office?" as well as
"The office is in Lisbon" does.
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
Missing = Kind | Literal["value"]
"""What a text may lack: a kind of answer, or the value of anything, if it only denies one."""
MAX_WORDS: Final = 40
"""Words of the longest text that is read: a longer one gives an answer of nearly every kind."""
_LISTS: Final = {name: frozenset(words) for name, words in load("answers").items()}
_LANGUAGES: Final = frozenset(name.partition(" ")[0] for name in _LISTS)
_PLACES: Final = frozenset(name for names in load("places").values() for name in names)
_NO_PLACES: Final = {
    language: _LISTS[f"{language} no_places"].union(MONTHS, WEEKDAYS, [f"{day}s" for day in WEEKDAYS])
    for language in _LANGUAGES
}
"""Language -> words after a preposition that name no place."""
_ENDED: Final = Phrasebook(
    {*load("conflicts")["ended"], *(phrase for one in _LANGUAGES for phrase in _LISTS[f"{one} ended"])} - {"left"}
)
"""Phrases that say that something is over; "two plasters left" says nothing of the kind."""
DENIALS: Final = {one: _LISTS[f"{one} denials"] for one in _LANGUAGES}
"""Language -> words that deny what follows."""
_RULES: Final = {one: tuple(f"{words} " for words in _LISTS.get(f"{one} rules", ())) for one in _LANGUAGES}
"""Language -> first words of a rule: "Never wash it hot" says how to wash it."""
_EXCEPTIONS: Final = {one: Phrasebook(_LISTS[f"{one} exceptions"]) for one in _LANGUAGES}
"""Language -> phrases with which a text says more than a denial, such as "until" or "don't forget"."""
SECOND_CLAUSE: Final = re.compile(r",(?!\d)|[;(—–]|\.\s")
_DETERMINERS: Final = frozenset(
    "the a an my your his her its our their this that each every "
    "der die das dem den des ein eine einem einen einer mein meine meinem meinen meiner unser unsere unserem unserer "
    "seinem seiner ihrem ihrer jedem jeder el la los las un una mi mis tu su sus nuestro nuestra este esta cada "
    "le les l une mon ma mes ton son sa ses notre nos leur leurs ce cette chaque".split()
)
_ARTICLES: Final = frozenset("a an ein eine einen einem un una une".split())
ADVICE: Final = frozenset("should could can might would shall soll sollte kann könnte".split())
"""Words of a question for advice."""
_OCCUPATION: Final = re.compile(r"\w{2,}(?:er|or|ist|ian|ant|ora|ero|era|ista|ante|eur|euse|ier|ière|iste|ien|ienne)s?")
_NOTE: Final = re.compile(r"[:=(]| [-–—>]+ ")
"""A sign of a note."""
_WHICH: Final = r"(?:what|which)(?:'s| is| was)?(?: the| my| your| his| her| its| our| their| \w+'s)*"
_OPENINGS: Final[Mapping[str, Mapping[Kind, str]]] = {
    "english": {
        "place": rf"where(?:'s)?|{_WHICH} (?:city|town|country|street|village|place|address)",
        "person": r"who(?:'s)?|whose|whom",
        # what happened in the past has the time of its memory
        "time": rf"(?!.* (?:did|was|were) )(?:when(?:'s| \w+)|"
        rf"{_WHICH} (?:time(?! zone)|day|date|week|month|weekday|season))",
        "number": r"how (?:many|much|tall|far|heavy)|"
        rf"{_WHICH} (?:price|cost|rent|salary|wage|fee|budget|limit|age|height|weight|temperature|rate|deposit|dose)",
        "measure": r"how (?:old|long|often|big|large|high|deep|wide|fast)",
        "colour": rf"{_WHICH} colou?r",
    },
    "german": {
        "place": r"wo|woher|wohin|(?:welche|welcher|welchem) (?:stadt|straße|ort|adresse|land)",
        "time": r"(?!.* (?:habe|hast|hat|haben|bin|war|waren|wurde|wurden) )(?:wann|um wie viel uhr|um wieviel uhr|"
        r"(?:welcher|welchem|welchen) (?:tag|monat|wochentag))",
        "number": r"(?:wie viele?|wieviele?|wie (?:alt|hoch|weit|schwer))",
        "measure": r"wie (?:lange|lang|oft|groß|breit|tief|schnell)",
    },
    "spanish": {
        "place": r"dónde|adónde|(?:qué|cuál) (?:es la |es el )?(?:ciudad|calle|país|pueblo|dirección)",
        "person": r"quién|quiénes",
        "time": r"(?!.* (?:fue|fui|era|estaba|\w+(?:é|ó|aste|iste|aron|ieron))(?: |$))(?:cuándo|qué (?:día|mes|hora))",
        "number": r"(?:cuánt[oa]s?(?! tiempo| dura)|qué edad)",
        "measure": r"cuánto (?:tiempo|dura)|cada cuánto",
    },
    "french": {
        "place": r"où|(?:quelle?) (?:est l' ?|est la )?(?:ville|rue|pays|village|adresse)",
        "person": r"qui",
        "time": r"(?!.*\b(?:ai|as|a|ont|avons|avez|suis|était|étaient|fut)\b)"
        r"(?:quand|(?:quel|quelle) (?:jour|mois|heure))",
        "number": r"combien(?! de temps)|quel âge",
        "measure": r"combien de temps",
    },
}
"""Language -> kind -> pattern of the first words of a question for it."""
_BEFORE: Final = r"(?:(?:in|on|at|to|from|for|by|an|auf|aus|bei|von|zu|en|a|de|desde|à|dans|chez|depuis) )?"
_ASKING: Final = {
    language: {kind: re.compile(rf"{_BEFORE}(?:{words})(?!\w)") for kind, words in openings.items()}
    for language, openings in _OPENINGS.items()
}


_VALUES: Final = {
    language: re.compile(rf"{_BEFORE}(?:{words})(?!\w)")
    for language, words in {
        "english": r"(?:where|who|whose|whom|when|what|which|how(?! (?:many|much|about|is|are|was|were)(?!\w)))"
        r"(?:'s)?(?! about(?!\w))",
        "german": r"wo|woher|wohin|wer|wen|wem|wann|was|womit|welche[mnrs]?|wie(?! (?:viele?|geht|ist|sind|war)(?!\w))",
        "spanish": r"dónde|adónde|quién|quiénes|cuándo|qué|cuál|cuáles|cómo(?! (?:es|está|va)(?!\w))",
        "french": r"où|qui|quand|que|quoi|quel|quelle|quels|quelles|comment(?! va(?!\w))",
    }.items()
}
"""Language -> pattern of the first words of a question that a mere denial does not answer."""


def asked_kind(question: str, language: str) -> Kind | None:
    """Return the kind of answer that a question asks for; None for any other kind, and for other languages."""
    form = " ".join(text.words(question))
    return next((kind for kind, asking in _ASKING.get(language, {}).items() if asking.match(form)), None)


def asks_value(question: str, language: str) -> bool:
    """Return whether a question asks for a value: not "Do we deploy?", "Who did not come?", "What should I eat?"."""
    words = text.words(question)
    asking = _VALUES.get(language)
    is_open = asking is not None and bool(asking.match(" ".join(words))) and ADVICE.isdisjoint(words)
    return is_open and not _denies(words, language)


def _denies(words: Sequence[str], language: str) -> bool:
    return not DENIALS[language].isdisjoint(words)


def only_denies(content: str, language: str) -> bool:
    """Return whether a text in a language of `DENIALS` is one clause that denies, and says nothing more."""
    words = text.words(content)
    says_more = SECOND_CLAUSE.search(content) or _EXCEPTIONS[language].find(words)
    return _denies(words, language) and not says_more


def missing_kinds(content: str, details: Sequence[str]) -> list[Missing]:
    """Return the kinds of answer that a text does not give: none for a long text, a note, an end or another language.

    "Passport: top drawer" is a note, and "The wedding is off" answers every question about the wedding. A text lacks
    the value of what it denies in one clause: "We never deploy on Fridays", but not "We never deploy before noon".

    Args:
        content: the text.
        details: its `distinctions.details`.
    """
    words = text.words(content)
    if not 2 <= len(words) <= MAX_WORDS or _NOTE.search(content):
        return []
    language = any_language().language_of(content)
    is_read = language in _LANGUAGES and (language != text.ENGLISH or not text.ENGLISH_STOPWORDS.isdisjoint(words))
    if not is_read or _ENDED.find(words):  # a short text in another language may pass for English
        return []

    def has(name: str) -> bool:
        return not frozenset(words).isdisjoint(_LISTS.get(f"{language} {name}", ()))

    # German nouns look like names
    names = [] if language == "german" else [one[5:] for one in details if one.startswith("name:")]
    opens_with_name = language != text.ENGLISH and content[:1].isupper() and words[0] not in _DETERMINERS
    has_number = any(one.startswith("number:") for one in details)
    has_time = has_number or has("times") or any(one.startswith("date:") for one in details)
    has_amount = has_number or has("amounts")
    given: dict[Kind, bool] = {
        "place": has("places") or "/" in content or _names_place(words, names, language),
        "time": has_time,
        "person": has("people") or opens_with_name or bool(names) or _names_person(words),
        # "I have a brother" tells how many, and so does "Tom and Ann"
        "number": has_amount or "," in content or not _ARTICLES.isdisjoint(words),
        "measure": has_amount or has_time,
        "colour": has("colours"),
    }
    kinds: list[Missing] = [kind for kind in _OPENINGS[language] if not given[kind]]
    is_rule = " ".join(words).startswith(_RULES[language])
    return [*kinds, "value"] if only_denies(content, language) and not is_rule else kinds


def _names_person(words: Sequence[str]) -> bool:
    """Return whether a text has a word for a relative, a friend or an occupation."""
    return not CLOSE.isdisjoint(words) or any(map(_OCCUPATION.fullmatch, words))


def _names_place(words: Sequence[str], names: Sequence[str], language: str) -> bool:
    """Return whether a text has the name of a place, any name after its first word, or a phrase such as "in bed"."""
    if any(name in _PLACES or name.partition(" ")[0] != words[0] for name in names):
        return True
    for at, word in enumerate(words):
        if word in _LISTS[f"{language} prepositions"]:
            is_determined = words[at + 1 : at + 2] != [] and words[at + 1] in _DETERMINERS
            thing = "".join(words[at + 1 + is_determined : at + 2 + is_determined])
            is_place = thing != "" and thing not in _NO_PLACES[language] and not any(map(str.isdigit, thing))
            if is_place and (is_determined or word != "to"):
                return True
    return False
