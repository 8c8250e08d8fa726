"""Why two texts cannot both hold: one denies the other, or says another value of the same thing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from salience import text
from salience.extract import relation_words as lists
from salience.extract.numerals import MONTHS, RELATIVE
from salience.extract.opposites import opposites
from salience.extract.relation_reading import (
    EMPTY,
    NEGATORS,
    NUMERALS,
    Said,
    apart,
    has_figure,
    phrases,
    quoted,
    strangers,
    tells_an_event,
)

DENIED: Final = 0.75
"""Share of the content words of the text that denies which the other one must hold. Fitted on SICK train."""
ADDED: Final = 1
"""Words that one of two texts may add to the frame that they share; one more if they mean much the same."""
VALUES: Final = ("number", "date", "name")
"""Kinds of distinctions that are values."""
LONGEST_VALUE: Final = 4
"""Most words of a value."""
_MOVING: Final = frozenset({"yesterday", "today", "tomorrow", *RELATIVE})
"""Dates that depend on the day on which they are said."""
_TELLS_WHEN: Final = re.compile(r"(?:19|20)\d\d|rank \d+")
"""A year, or which of several times."""
_DAY: Final = re.compile(r"(1[0-2]|[1-9])-(\d{1,2})")
_MONTH: Final = re.compile(r"month (1[0-2]|[1-9])")
_ONE_AT_A_TIME: Final = frozenset(lists.SINGLE_VERBS)

Evidence = tuple[str, ...]
"""What gave a conflict away, as `kind: old -> new`; empty for none."""


def at_odds(mine: Said, theirs: Said, alike: bool) -> Evidence:
    """Return what shows that a new text and an older one cannot both hold; nothing if they can.

    Args:
        mine: the new text.
        theirs: the older one.
        alike: whether their cosine reaches the paraphrase threshold.
    """
    if swapped := _swapped(mine, theirs):
        return swapped
    if strangers(mine, theirs):
        return ()
    if mine.denies != theirs.denies:
        return _denied(mine, theirs)
    return _opposite(mine, theirs) or _other_number(mine, theirs, alike) or _other_value(mine, theirs)


def _swapped(mine: Said, theirs: Said) -> Evidence:
    """Return what changes places: names and a negation, or words on either side of one that has a direction."""
    new, old = mine.values("name", "claim"), theirs.values("name", "claim")
    if mine.denies and mine.stems == theirs.stems and new != old and sorted(new) == sorted(old):
        return (f"order: {quoted(' '.join(old))} -> {quoted(' '.join(new))}",)
    if sorted(mine.words) != sorted(theirs.words):
        return ()
    places = [at for at, (one, other) in enumerate(zip(mine.words, theirs.words, strict=True)) if one != other]
    if not places or lists.DIRECTED.isdisjoint(mine.words[places[0] : places[-1]]):
        return ()
    return (f"order: {quoted(theirs.words[places[0]])} -> {quoted(mine.words[places[0]])}",)


def _denied(mine: Said, theirs: Said) -> Evidence:
    """Return the negation by which one of two texts, which may say no more than the other, denies it."""
    no, yes = (mine, theirs) if mine.denies else (theirs, mine)
    if not no.stems or len(no.stems & yes.stems) < DENIED * len(no.stems):
        return ()
    if _lacking(no.values(*VALUES), yes.values(*VALUES)):
        return ()  # "not 60" leaves room for "30"
    denying, saying = apart(no, yes)
    if any(opposites((word for word in denying if word not in NEGATORS), saying)):
        return ()  # "not open" is "closed"
    return (f"negation: {next((word for word in no.words if word in NEGATORS), 'not')}",)


def _opposite(mine: Said, theirs: Said) -> Evidence:
    """Return the opposites of which each text holds one, in a frame that is otherwise the same."""
    if mine.is_indefinite or theirs.is_indefinite:
        return ()
    for new, old in opposites(*apart(mine, theirs)):
        if _is_said_of_one(mine, theirs, new, old):
            return (f"opposite: {old} -> {new}",)
    return ()


def _is_said_of_one(mine: Said, theirs: Said, new: str, old: str) -> bool:
    tells_which = _tells_which(mine, new) and _tells_which(theirs, old)
    return not tells_which and _framed(mine, theirs, (new, old), True)


def _tells_which(said: Said, word: str) -> bool:
    """Return whether a word of the subject only tells which thing is meant: "the upload limit is 20"."""
    after = said.after(word)
    return word not in lists.QUANTITIES and not lists.COPULAS.isdisjoint(after[1:]) and after[0] not in lists.COPULAS


def _framed(mine: Said, theirs: Said, values: Iterable[str], alike: bool) -> bool:
    """Return whether two texts are of the same thing: but for `values` at most one of them says more, and not much."""
    held = set(values)
    taken = {stem for stem, word in (*mine.terms, *theirs.terms) if word in held}
    left, right = mine.stems - theirs.stems - taken, theirs.stems - mine.stems - taken
    return bool(mine.stems & theirs.stems) and not (left and right) and len(left | right) <= ADDED + alike


def _other_number(mine: Said, theirs: Said, alike: bool) -> Evidence:
    """Return the number or date that the new text has in the place of another one."""
    if _tell_numbered_things(mine, theirs):
        return ()
    is_event = tells_an_event((*mine.words, *theirs.words)) and not mine.later
    for kind in ("number", "date"):
        new, old = _lacking(mine.values(kind), theirs.values(kind)), _lacking(theirs.values(kind), mine.values(kind))
        is_time = kind == "date" or all(map(_TELLS_WHEN.fullmatch, (*new, *old)))
        if new and old and not (is_event and is_time) and _framed(mine, theirs, (*new, *old), alike):
            return (f"{kind}: {_shown(old)} -> {_shown(new)}",)
    return ()


def _lacking(values: Sequence[str], others: Sequence[str]) -> list[str]:
    return [value for value in values if value not in others and value not in _MOVING]


def _shown(values: Sequence[str]) -> str:
    """Return the most telling of some numbers or dates: a day before its month, a number with its unit."""
    if day := next(filter(None, map(_DAY.fullmatch, values)), None):
        return f"{day[2]} {MONTHS[int(day[1]) - 1].title()}"
    if month := next(filter(None, map(_MONTH.fullmatch, values)), None):
        return MONTHS[int(month[1]) - 1].title()
    return quoted(next((value for value in values if value.startswith(f"{values[0]} ")), values[0]))


def _tell_numbered_things(mine: Said, theirs: Said) -> bool:
    """Return whether both texts open with a thing that has a number: "Ticket 42 is open", "Room 5 is free"."""
    return all(_opens_with_a_number(said.words) for said in (mine, theirs))


def _opens_with_a_number(words: Sequence[str]) -> bool:
    at = next((at for at, word in enumerate(words[:4]) if has_figure(word)), 0)
    if not at or at + 1 == len(words) or words[at - 1] in text.ENGLISH_STOPWORDS or words[at + 1] in NUMERALS:
        return False
    return words[at + 1] in text.ENGLISH_STOPWORDS or words[at + 1].endswith(("s", "ed"))


def _other_value(mine: Said, theirs: Said) -> Evidence:
    """Return what else the new text says of a thing that has one value at a time."""
    new, old = ([word for word in words if word not in EMPTY and word.isalpha()] for words in apart(mine, theirs))
    if mine.is_indefinite or theirs.is_indefinite or not mine.stems & theirs.stems:
        return ()
    if not _is_a_value(mine, new) or not _is_a_value(theirs, old):
        return ()
    if not any(rule(mine, theirs, new[0], old[0]) for rule in (_has_one, _is_for_use, _holds_now)):
        return ()
    names = {word for value in (*mine.values("name"), *theirs.values("name")) for word in text.words(value)}
    kind = "name" if names.issuperset((*new, *old)) else "value"
    return (f"{kind}: {quoted(' '.join(old))} -> {quoted(' '.join(new))}",)


def _is_a_value(said: Said, words: Sequence[str]) -> bool:
    """Return whether some words stand together, after others, and are few."""
    if not 0 < len(words) <= LONGEST_VALUE:
        return False
    first, last = said.words.index(words[0]), said.words.index(words[-1])
    return first > 0 and last - first < len(words) + 1


def _has_one(mine: Said, theirs: Said, new: str, old: str) -> bool:
    """Return whether what leads to both values has one at a time: the same noun, or the same verb."""
    both = (mine.before(new), theirs.before(old))
    if any(map(tells_an_event, both)):
        return False
    nouns, verbs = (lists.SINGLE_NOUNS.intersection(before) for before in both), map(_verbs, both)
    by_noun = bool(set.intersection(*map(set, nouns))) and all(map(_leads_to_a_value, both))
    return by_noun or (bool(set.intersection(*verbs)) and all(map(_ends_in_a_verb, both)))


def _verbs(words: Sequence[str]) -> set[str]:
    return set(phrases("SINGLE_VERBS", words))


def _leads_to_a_value(words: Sequence[str]) -> bool:
    """Return whether the last words are a copula or the noun itself, but for small words."""
    last = next((word for word in reversed(words) if word not in lists.BETWEEN or word in lists.CHANGED), "")
    return last in lists.COPULAS or last in lists.SINGLE_NOUNS or last in lists.CHANGED or last.endswith("'s")


def _ends_in_a_verb(words: Sequence[str]) -> bool:
    last = [word for word in words if word not in ("the", "a", "an", "our", "my")][-4:]
    return any(" ".join(last[start:]) in _ONE_AT_A_TIME for start in range(len(last)))


def _is_for_use(mine: Said, theirs: Said, new: str, old: str) -> bool:
    """Return whether both texts say what to use for the same: "use tabs for indentation"."""
    both = ((mine.before(new), mine.after(new)), (theirs.before(old), theirs.after(old)))
    return all(before == ("use",) and not lists.PURPOSES.isdisjoint(after) for before, after in both)


def _holds_now(mine: Said, theirs: Said, new: str, old: str) -> bool:
    """Return whether the same words lead to both values, and one such as "now" replaces the old by the new."""
    leads = [
        [word for word in before if word not in lists.ADVERBS] for before in (mine.before(new), theirs.before(old))
    ]
    is_said = leads[0] == leads[1] and len(leads[0]) > 1 and lists.ADDITIVE.isdisjoint(leads[0])
    return is_said and not lists.WEAK.issuperset(mine.later)  # also where `later` is empty
