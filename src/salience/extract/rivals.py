"""Rivals: the words by which a question says which of several things it asks about, and the words of the others.

"My right knee hurts" says nothing of the left one. To an embedding such words are as near as synonyms ("the door code",
"the entry code"), so `words/rivals.txt` lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from typing import Final

from salience import text
from salience.extract.answers import ADVICE
from salience.extract.distinctions import CAPITALISED, CLOSED, ORDINALS, numerals
from salience.extract.owners import CLOSE, LISTS
from salience.extract.wordlists import MONTHS, WEEKDAYS, load

Members = tuple[tuple[str, ...], ...]
"""The members of a class, each with the words or the distinctions that mean it."""


@dataclass(frozen=True, slots=True)
class Rivals:
    """A word of a question that says which of several things is meant.

    Attributes:
        kinds: terms of the words beside it: of "treats" and "knee" in "Which doctor treats my left knee?".
        members: the terms of each member of its class, the word's own first; a time, an ordinal or a year is a
            distinction, such as `date:monday`.
    """

    kinds: tuple[str, ...]
    members: Members


_TIMES: Final[tuple[Members, ...]] = (
    tuple((f"date:{day}", "date:weekend" if day[0] == "s" else "date:weekday", "date:every day") for day in WEEKDAYS),
    tuple((f"date:month {month}", "date:every month") for month in range(1, len(MONTHS) + 1)),
    (("date:morning",), ("date:afternoon",), ("date:evening", "date:night")),
    (("date:summer",), ("date:autumn",), ("date:winter",)),
)
_RANKS: Final[Members] = tuple((f"number:rank {rank}",) for rank in ORDINALS.values())
_YEARS: Final[Members] = tuple((f"number:{year}",) for year in range(2000, 2040))
_DETERMINERS: Final = frozenset("the this that my your his her its our their".split())
_NAMES: Final = frozenset("black blue brown gold gray green grey orange pink red silver white".split())
"""Colours that are part of a name if capitalised."""
_AMBIGUOUS: Final = frozenset({"back", "left", "right", "us"})
"""Words that say which thing is meant after a determiner, unlike in "How many days are left?"."""
_ONE: Final = frozenset({"one", "ones"})
_FOR: Final = frozenset({"for", "für", "para", "pour"})
_POSSESSIVES: Final = (LISTS["possessives"] & LISTS["selves"]) | {"user's"}
_PRONOUNS: Final = frozenset("i i'm i've we we're we've user ich wir je nous j'ai yo nosotros".split())
_AFTER_VERB: Final = frozenset("ich wir".split())
_JOINT: Final = frozenset("we we're we've our ours wir unser unsere unseren nous notre nos nuestro nuestra".split())
_NOT_OF_SELF: Final = CLOSE | ADVICE
"""Words of a question about somebody else, or for advice."""
_WHICH: Final = frozenset("which what how welche welcher welches quel quelle qué cuál".split())
_WHO: Final = frozenset("who who's whom whose wer wem qui quién quiénes".split())


@cache
def _classes(language: str) -> Mapping[str, Sequence[Members]]:
    """Return word or distinction -> the classes that tell things apart by it; of words, those of one language."""
    listed = [" ".join(words) for name, words in load("rivals").items() if name.split()[0] == language]
    found: dict[str, list[Members]] = {}
    for members in (
        *(tuple(tuple(member.split()) for member in words.split("|")) for words in listed),
        *(_TIMES if language == text.ENGLISH else ()),
        _RANKS,
        _YEARS,
    ):
        for word in {word for member in members for word in member}:
            if sum(word in member for member in members) == 1:
                found.setdefault(word, []).append(members)
    return found


def rivals(
    question: str,
    details: Sequence[str],
    language: str,
    terms: Callable[[str], Sequence[str]],
    *,
    searched: Sequence[str],
    has_window: bool,
) -> tuple[Rivals, ...]:
    """Return the words of a question that say which of several things it asks about.

    A word that can be the value that the question asks for says nothing of the kind: at the end of a question for yes
    or no ("Is the car red?", "Are the keys in the left drawer?") or of an aside ("When did I move, in 2020?"). Nor do
    two words of a class.

    Args:
        question: the question.
        details: its `distinctions.details`.
        language: its language.
        terms: returns the terms of a word in that language, none for a stop word.
        searched: the terms of the question that are searched.
        has_window: whether its time is the one in which the answer lies; a year in "the budget for 2025" and "the 2025
            budget" names the thing in any case.
    """
    known, read = _classes(language), [(part, word) for part in question.split() for word in text.words(part)]
    words = [word.removesuffix("'s") for _, word in read]
    if known.keys().isdisjoint((*words, *details)):
        return ()
    forms = [_forms(part, word, at == 0, details) for at, ((part, _), word) in enumerate(zip(read, words, strict=True))]
    classes = [[members for form in each for members in known.get(form, ())] for each in forms]
    is_content = [bool(terms(word)) and word not in _ONE for word in words]
    is_other = [content and not each for content, each in zip(is_content, classes, strict=True)]
    names_day = has_window or any(detail.startswith("date:") and "-" in detail for detail in details)
    found = []
    for at in (at for at, each in enumerate(classes) if each):
        before = next((place for place in range(at - 1, -1, -1) if is_content[place]), at)
        after = at + 1 if is_content[at + 1 : at + 2] == [True] else at
        kinds = tuple([word for place in {before, after} - {at} for word in terms(words[place]) if word in searched])
        is_last = not any(is_other[after + 1 :])
        is_aside = any(part.endswith(",") for part, _ in read[before:at])
        if not kinds or (is_last and (words[0] in CLOSED or is_aside)):
            continue
        is_determined = at > 0 and (words[at - 1] in _DETERMINERS or read[at - 1][1].endswith("'s"))
        for members in classes[at]:
            if members in _TIMES:
                is_name = not names_day
            elif members in (_RANKS, _YEARS):
                is_name = (is_determined and after > at) or (members == _YEARS and words[at - 1] in _FOR)
            else:
                is_name = is_determined or at == 0 or read[at][0].rstrip(".,;:!?") not in _AMBIGUOUS
            if is_name and sum(members in each for each in classes) == 1:
                own = next(member for member in members if not forms[at].isdisjoint(member))
                ordered = (own, *[member for member in members if member is not own])
                found.append(Rivals(kinds, tuple([_terms(member, terms) for member in ordered])))
    return tuple([one for one in found if one.members[0]])


def of_self(question: str, terms: Callable[[str], Sequence[str]], *, searched: Sequence[str]) -> tuple[Rivals, ...]:
    """Return the rivals of a question about oneself: what a memory tells of a relative is of another thing.

    The kinds of "What is my dog called?" and "Which car do I drive?" are "dog", "car" and "drive". "What should I
    cook?" asks for advice, and "Which dog bit me?" is not about me. "Who feeds my cat?" and "Where is our table?" can
    ask for what a relative does, but not for what belongs to one.

    Args:
        question: the question.
        terms: as for `rivals`.
        searched: as for `rivals`.
    """
    words = text.words(question)
    if not _NOT_OF_SELF.isdisjoint(words):
        return ()
    kinds = list[str]()
    for at, word in enumerate(words):
        if word in _POSSESSIVES:
            kinds += _phrase(words[at + 1 :], terms)
        elif word in _PRONOUNS:
            asked = words[1 : at - 1] if words[0] in _WHICH else ()
            verb = words[at - 1 : at] if word in _AFTER_VERB else words[at + 1 :]  # "wohne ich"
            kinds += [*_phrase(asked, terms), *_phrase(verb, terms)[:1]]
    kinds = [kind for kind in dict.fromkeys(kinds) if kind in searched]
    if not kinds:
        return ()
    is_joint = words[0] in _WHO or not _JOINT.isdisjoint(words)
    others = ("owner:relative's",) if is_joint else ("owner:relative's", "owner:relative")
    return (Rivals(tuple(kinds), ((), others)),)


def _phrase(words: Sequence[str], terms: Callable[[str], Sequence[str]]) -> list[str]:
    """Return the terms of the words before the first one without any."""
    return [term for word in takewhile(terms, words) for term in terms(word)]


def _forms(part: str, word: str, is_first: bool, details: Sequence[str]) -> set[str]:
    """Return a word of a question and its values; none for "May I" and "Mrs Green"."""
    is_capitalised = part[0].isupper() and not part.isupper()
    if word in (CAPITALISED if is_first else _NAMES if is_capitalised else ()):
        return set()
    return {word, *set(numerals(part)).intersection(details)}


def _terms(member: Sequence[str], terms: Callable[[str], Sequence[str]]) -> tuple[str, ...]:
    """Return the terms of the words of a member; a distinction stays as it is."""
    return tuple([term for word in member for term in ((word,) if ":" in word else terms(word))])
