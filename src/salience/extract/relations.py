"""What a new text is to an older one that is much like it: the same, a later state, at odds with it, or only related.

A cosine says that two texts speak of the same; which of their words are others says whether both can hold. What the
words do not tell is `related`. The lists of words are English.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Final

from salience import text
from salience.extract import relation_words as lists
from salience.extract.facts import fact
from salience.extract.relation_conflicts import DENIED, Evidence, at_odds
from salience.extract.relation_reading import LONGEST, Said, main_clause, phrases, quoted, read, stems, strangers
from salience.ports import EDGE
from salience.records import Label

NEARER: Final = 0.7
"""How far from the paraphrase threshold to 1 a cosine must be for texts each of which has a word that the other lacks.

Fitted on SICK train: below it, texts with one word in the place of another more often mean different things.
"""
FARTHEST: Final = 0.5
"""Share of the paraphrase threshold below which two texts do not speak of one thing."""
ORDERED: Final = (("number",), ("date",), ("name", "claim"))
"""Kinds of distinctions that are compared in the order of the text, as `rank.stages.ORDERED` has them."""


@dataclass(frozen=True, slots=True)
class Relation:
    """What a new text is to an older one.

    Attributes:
        label: `duplicate`: they say the same; `update`: the new one says something else of the same thing, later;
            `contradiction`: both cannot hold, and nothing tells which is later; `related`: none of these.
        because: what gave the label away, such as `negation: not` or `number: 30 -> 40`, the older one first. It
            quotes the texts, so it is for who may read both.
    """

    label: Label
    because: tuple[str, ...] = ()


def relation(
    new: str,
    old: str,
    *,
    similarity: float,
    paraphrase: float,
    new_speaker: str | None = None,
    old_speaker: str | None = None,
) -> Relation:
    """Return what the text `new` is to the text `old`. A text is a duplicate of itself by the same speaker.

    Args:
        new: any text.
        old: any text, stored before.
        similarity: raw cosine of the two, [-1, 1].
        paraphrase: raw cosine from which the embedder takes two texts for the same.
        new_speaker: who said the new one; None if nobody is named.
        old_speaker: likewise.
    """
    speakers = _name(old_speaker), _name(new_speaker)
    is_one = speakers[0] == speakers[1]
    if is_one and text.normalise(new) == text.normalise(old):
        return Relation("duplicate", ("same words",))
    if is_one and (stated := _stated(new, old, new_speaker)):
        return stated
    if similarity < paraphrase * FARTHEST - EDGE:
        return Relation("related")
    mine, theirs = read(new), read(old)
    if not is_one and not lists.FIRST_PERSON.isdisjoint((*mine.words, *theirs.words)):
        return Relation("related", (f"speaker: {quoted(speakers[0])} -> {quoted(speakers[1])}",))
    if over := _over(mine, theirs) or _replaced(mine, theirs):
        return Relation("update", over)
    if reasons := _at_odds(mine, theirs, similarity >= paraphrase - EDGE):
        later = _later(mine, theirs)
        return Relation("update" if later else "contradiction", (*reasons, *later))
    is_whole = max(len(new), len(old)) <= LONGEST  # what was not read may be otherwise
    if is_one and is_whole and _says_the_same(mine, theirs, similarity, paraphrase):
        return Relation("duplicate", ("same meaning",))
    return Relation("related")


def _name(speaker: str | None) -> str:
    return text.normalise(speaker) if speaker else "nobody"


def _stated(new: str, old: str, speaker: str | None) -> Relation | None:
    """Return what two plain statements of one fact are to each other; None unless both are such."""
    mine = fact(new, speaker=speaker)
    theirs = fact(old, speaker=speaker) if mine else None
    if mine is None or theirs is None or mine.key != theirs.key:
        return None
    one, other = set(text.words(mine.value)), set(text.words(theirs.value))
    if one == other:
        return Relation("duplicate", (f"fact: {mine.key}", f"value: {quoted(mine.value)}"))
    if one < other or other < one:  # "Berlin" and "Berlin, Germany"
        return None
    return Relation("update", (f"fact: {mine.key}", f"value: {quoted(theirs.value)} -> {quoted(mine.value)}"))


def _over(mine: Said, theirs: Said) -> Evidence:
    """Return the phrase by which the new text says that what the older one tells is over."""
    if not mine.ended or theirs.ended or strangers(mine, theirs):
        return ()
    held = mine.stems & theirs.stems
    subject = {stem for stem, word in mine.terms if word in mine.opening}
    if len(held) < DENIED * len(mine.stems) or not held - subject:
        return ()
    if mine.ended == ("left",) and not phrases("SINGLE_VERBS", theirs.words):
        return ()  # one leaves an office in the evening, and a company once
    return (f"time: {mine.ended[0]}",)


def _replaced(mine: Said, theirs: Said) -> Evidence:
    """Return how the new text puts something in the place of what the older one tells: "from Vim to Emacs"."""
    if strangers(mine, theirs):
        return ()
    small = mine.content.lower()
    for name, form in _transitions().items():
        match = form.search(mine.content) if lists.HOLDING.get(name, "") in small else None
        gone = match and next(filter(None, match.groups()), None)
        if not gone or (name == "from" and not mine.later) or form.search(theirs.content):
            continue
        words = set(text.words(gone)) - text.ENGLISH_STOPWORDS
        if words and words.issubset(theirs.words) and not set(mine.words) <= set(theirs.words):
            return (f"{name}: {quoted(gone)}",)
    return ()


@cache
def _transitions() -> dict[str, re.Pattern[str]]:
    return {name: re.compile(form, re.IGNORECASE) for name, form in lists.TRANSITIONS.items()}


def _at_odds(mine: Said, theirs: Said, alike: bool) -> Evidence:
    """Return why two texts, or else their main clauses, cannot both hold."""
    reasons, clauses = at_odds(mine, theirs, alike), (main_clause(mine.content), main_clause(theirs.content))
    if reasons or clauses == (mine.content, theirs.content):
        return reasons
    return at_odds(read(clauses[0]), read(clauses[1]), alike)


def _later(mine: Said, theirs: Said) -> Evidence:
    """Return the phrase that says or implies that the new text tells of a later time."""
    phrase = (*mine.later, *phrases("FOR_NOW", theirs.words))[:1]
    return tuple(f"time: {found}" for found in phrase)


def _says_the_same(mine: Said, theirs: Said, similarity: float, paraphrase: float) -> bool:
    """Return whether two texts mean the same: near, nearer yet if each has a word of its own, and nothing differs."""
    ours, others = stems(mine.words), stems(theirs.words)
    both = set(ours) & set(others)
    each = len(both) < len(set(ours)) and len(both) < len(set(others))
    needed = paraphrase + NEARER * (1 - paraphrase) if each else paraphrase
    if similarity < needed - EDGE or not (_covers(mine, theirs) and _covers(theirs, mine)):
        return False
    turns = [len(lists.TURNS.intersection(said.words)) for said in (mine, theirs)]
    in_order = [stem for stem in ours if stem in both] == [stem for stem in others if stem in both]
    return in_order or turns[0] != turns[1]


def _covers(kept: Said, other: Said) -> bool:
    """Return whether the text kept makes the same claims and says all numbers, dates and names of the other in order.

    The rule of `rank.stages.covers`, on texts.
    """
    if kept.values("claim") != other.values("claim"):
        return False
    return all(_holds(kept.values(*kinds), other.values(*kinds)) for kinds in ORDERED)


def _holds(whole: Iterable[str], part: Iterable[str]) -> bool:
    """Return whether `part` comes out of `whole` by leaving some of it out."""
    rest = iter(whole)
    return all(value in rest for value in part)
