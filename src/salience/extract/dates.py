"""Where an English text names a time, and the window that it names, counted from a given instant.

A time is found by its form, grows by the words that modify it, is linked with a second one ("from May to July"), and
takes in the small words that lead up to it; some of these open the window on a side ("since May"). The forms and
modifiers are tables, in `dateforms`.

Our own grammar over `dateutil`'s calendar arithmetic, and not `dateparser`: that gives an instant where a window is
asked for, knows no seasons, weekends, holidays, parts or ranges, reads "May I" and "the sun" as dates, and takes
up to a millisecond for one date.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from salience.extract import periods
from salience.extract.dateforms import (
    ALWAYS,
    CLAUSE_END,
    FORMS,
    MODIFIERS,
    OTHER_LEADS,
    PART_AFTER,
    TIME_LEADS,
    Kind,
    Modifier,
    held,
    one_of,
)
from salience.extract.patterns import Pattern
from salience.extract.periods import Window
from salience.extract.tense import Tense, signs, tense


@dataclass(frozen=True, slots=True)
class Mention:
    """A time that a text names.

    Attributes:
        at, until: its place in the text.
        start, end: its window, `start < end`; None is open.
        kind: what the window hangs on.
        needs: the lead words of which one has to stand before it; empty if it is a time by itself.
        tenses: where the words around it may say that it lies, for it to be the time that is meant.
    """

    at: int
    until: int
    start: datetime | None
    end: datetime | None
    kind: Kind
    needs: frozenset[str] = frozenset()
    tenses: frozenset[Tense] = ALWAYS

    @property
    def window(self) -> Window | None:
        """The window, if neither side is open."""
        return Window(self.start, self.end) if self.start and self.end else None


BOUNDS: Final[Mapping[str, tuple[str | None, str | None]]] = {
    "since": ("start", None),
    "after": ("end", None),
    "before": (None, "start"),
    "prior to": (None, "start"),
    "until": (None, "end"),
    "till": (None, "end"),
    "up to": (None, "end"),
    "by": (None, "end"),
}
"""Lead words that open a side: which edge of the window is the new start, and which the new end."""
_LEADS = one_of((TIME_LEADS | OTHER_LEADS | set(BOUNDS)) - {"the"})
_LEAD = Pattern(rf"(?<![\w-])(?:(?:ever|back|only|sometime)\s+)?(?P<lead>{_LEADS}(?:\s+the)?|the)\s+\Z")
_STRAY_LEADS: Final = OTHER_LEADS - {"between", "by", "the"}
_BLOCK = Pattern(r"\b(?:every|each|most|some|any)\s+\Z")
_STOP = Pattern(r"\A\s*(?:[?.!,;:]|\Z)")
_LINK = Pattern(r"\A\s*(?:(?:and|to|or|till|until|through|thru)\s+(?:the\s+|in\s+)?|[-–—]\s*)\Z")
_OPENING = Pattern(r"\b(?:from|between)\s+(?:the\s+)?\Z")
_NEAR: Final = 60
"""How many characters before a time can belong to it."""


def mentions(text: str, now: datetime) -> list[Mention]:
    """Return the times that `text` names, in order and apart from each other.

    Args:
        text: any text; times in other languages than English are not found.
        now: the aware instant in UTC that "yesterday" and a month without its year are counted from.
    """
    grown = [_grow(text, mention) for mention in _apart(_spot(text, now))]
    linked = _link(text, _unswallowed(grown))
    return [mention for mention in (_led(text, mention) for mention in linked) if mention]


def meant(text: str, found: list[Mention]) -> list[Mention]:
    """Return the mentions that the words around them leave their window: "Can we deploy on Friday?" has none."""
    if all(mention.tenses == ALWAYS for mention in found):
        return found
    told = signs(text)
    return [mention for mention in found if tense(told, mention.until) in mention.tenses]


def _spot(text: str, now: datetime) -> list[Mention]:
    found, words = [], held(text)
    for form in FORMS:
        if form.holds.isdisjoint(words):
            continue
        for match in form.pattern.compiled.finditer(text):
            try:
                window = form.read(match, now)
            except (ValueError, OverflowError):  # no such day, or beyond the calendar
                continue
            found.append(Mention(*match.span(), window.start, window.end, form.kind, form.needs, form.tenses))
    return found


def _apart(found: list[Mention]) -> list[Mention]:
    kept: list[Mention] = []
    for mention in sorted(found, key=lambda mention: (mention.at, -mention.until)):
        if not kept or mention.at >= kept[-1].until:
            kept.append(mention)
    return kept


def _grow(text: str, mention: Mention) -> Mention:
    """Return a mention with the words that modify it."""
    grown = _modified(PART_AFTER, text[mention.until : mention.until + _NEAR], mention, after=True) or mention
    while True:
        before = text[max(0, grown.at - _NEAR) : grown.at]
        more = next(filter(None, (_modified(modifier, before, grown) for modifier in MODIFIERS)), None)
        if more is None:
            return grown
        grown = more


def _modified(modifier: Modifier, beside: str, mention: Mention, *, after: bool = False) -> Mention | None:
    match = modifier.pattern.compiled.search(beside)
    try:
        window = modifier.apply(match, mention.window) if match and mention.window else None
    except (ValueError, OverflowError):
        return None
    if not match or not window:
        return None
    at, until = (mention.at, mention.until + match.end()) if after else (mention.at - len(match[0]), mention.until)
    return Mention(at, until, window.start, window.end, mention.kind, tenses=mention.tenses)


def _unswallowed(grown: list[Mention]) -> list[Mention]:
    """Return the mentions without those that a later one has taken in: in "June 2023", June."""
    kept: list[Mention] = []
    for mention in grown:
        while kept and kept[-1].until > mention.at:
            kept.pop()
        kept.append(mention)
    return kept


def _link(text: str, found: list[Mention]) -> list[Mention]:
    """Return the mentions with two that "and", "to" or a dash links made one; the first has the second's year."""
    linked: list[Mention] = []
    for mention in found:
        if linked and _LINK.compiled.search(text[linked[-1].until : mention.at]):
            linked.append(_span(text, linked.pop(), mention))
        else:
            linked.append(mention)
    return linked


def _span(text: str, left: Mention, right: Mention) -> Mention:
    if left.kind == "floating":
        left = recount(text, left, right)
    if not left.window or not right.window:
        return right
    window = periods.hull(left.window, right.window)
    opening = _OPENING.compiled.search(text[max(0, left.at - _NEAR) : left.at])
    at, needs = (left.at - len(opening[0]), frozenset[str]()) if opening else (left.at, left.needs)
    kind: Kind = "deictic" if right.kind == "deictic" else "fixed"  # each has found its year
    return Mention(at, right.until, window.start, window.end, kind, needs, left.tenses | right.tenses)


def recount(text: str, mention: Mention, reference: Mention) -> Mention:
    """Return a mention counted from the start of another one: in "last Friday, on 23 January", that Friday."""
    piece = text[mention.at : mention.until]
    found = _apart(_spot(piece, reference.start)) if reference.start else []
    same = [again for again in (_grow(piece, each) for each in found) if again.until == len(piece)]
    return replace(mention, start=same[0].start, end=same[0].end) if same else mention


def _led(text: str, mention: Mention) -> Mention | None:
    """Return a mention with its lead word, open where that opens it; None if it needs one and has none."""
    before, after = text[max(0, mention.at - _NEAR) : mention.at], text[mention.until : mention.until + _NEAR]
    match = _LEAD.compiled.search(before)
    lead = " ".join(match["lead"].casefold().split()) if match else ""
    words = {lead, lead.removesuffix(" the"), CLAUSE_END if _STOP.compiled.search(after) else ""}
    if _BLOCK.compiled.search(before) or (mention.needs and mention.needs.isdisjoint(words)):
        return None
    return _bounded(mention, lead.removesuffix(" the"), len(match[0]) if match else 0)


def _bounded(mention: Mention, lead: str, length: int) -> Mention:
    if lead in _STRAY_LEADS and not mention.needs:  # not always the time's own: "volunteer at last week"
        return mention
    led = replace(mention, at=mention.at - length)
    if lead not in BOUNDS:
        return led
    start, end = (getattr(mention, edge) if edge else None for edge in BOUNDS[lead])
    return replace(led, start=start, end=end)
