"""Time cues: the window, order or event that an English query names. Times are in UTC.

`read` combines three kinds of cues. *Dates* are `dates.mentions`; of several, one relative to now counts ("what did I
say last week about the trip of May 2022?"), else the first. *Orders* are words such as "the first time" and "latest".
*Relations* name an event instead of a date: "before the move". A question for a time ("when did ...") names none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from salience.extract import periods
from salience.extract.dates import BOUNDS, FLAGS, NUMBERS, Mention, meant, mentions, one_of, recount
from salience.extract.wordlists import load
from salience.records import TimeCue
from salience.text import ENGLISH_STOPWORDS, words

Order = Literal["earliest", "latest"]
Relation = Literal["before", "after"]


@dataclass(frozen=True, slots=True)
class OrderForm:
    """Words that ask for an order.

    Attributes:
        pattern: regular expression of the words; a group `cue` marks the words that name the order.
        order: the order; None for a window only.
        days: length of the window of "recently"; None for no window.
        is_vague: whether a date beside these words makes them redundant.
    """

    pattern: str
    order: Order | None
    days: int | None = None
    is_vague: bool = False


class Event(NamedTuple):
    """A reference to an event: its position, whether the query is about before or after it, and its words."""

    at: int
    until: int
    relation: Relation
    anchor: str


class Ordering(NamedTuple):
    """Words that ask for an order: their position, the order, and the days of a window."""

    at: int
    until: int
    order: Order | None
    days: int | None


Placed = Mention | Event | Ordering


RECENT_DAYS: Final = 30
"""Length of the window of "recently"."""

_WHOSE = r"\b(?:the|my|our|your|his|her|their|its|\w+['’]s)\s+"
_LINKS = "of|and|or|to|in|at|on|for|from|is|was|are|were|but|that"
_PLACES = (
    "name|names|place|person|row|column|line|lines|page|item|element|character|letter|digits?|words?|chapter|paragraph"
    "|section|argument|parameter|step|steps"
)
"""Things that are first or last in a row, not in time."""
_FIRST_THINGS = "aid|class|language|half|floor|lady|hand|grade|base|degree|responders?|thing|impression"
_LAST_THINGS = "resort|straw|minute|mile|chance|supper|stand|legs|laugh|ditch"
_CURRENT_THINGS = (
    "accounts?|affairs|events?|directory|folder|working|users?|line|row|page|file|thread|process|density|draw|sensor"
)
_ASKED = (  # a subject with or without auxiliary: "did Joanna", "we"
    r"(?:\b(?:i|we|you|he|she|they)\s+|\b(?:did|do|does|has|have|had|was|were)\s+(?:\w[\w'’.-]*\s+){0,3}?"
    rf"(?!(?:the|an?|my|our|your|his|her|their|its|very|with|{_LINKS})\b)\w[\w-]*\s+)"
)
_NO_VERB = (
    rf"{_LINKS}|longer|long|until|till|forever|all|through|an?|the|about|over|under|than|more|less|only|after|before"
    r"|as|with|during|when|while|if|\d+|one|two|three|several|many|much"
)

ORDER_FORMS: Final[Sequence[OrderForm]] = (
    OrderForm(r"\b(?:for\s+)?(?:the\s+)?(?:very\s+)?first(?:\s+ever)?\s+time\b", "earliest"),
    OrderForm(r"\boriginally\b|\binitially\b|\bthe\s+(?:original|initial)\b", "earliest"),
    OrderForm(rf"{_WHOSE}(?P<cue>original|initial)\s+\w", "earliest"),
    OrderForm(r"(?<!\bat )(?<!\bat the )\bearliest\b", "earliest"),
    OrderForm(r"\bat\s+first\b(?!\s+(?:glance|sight|light|hand))|\bto\s+(?:begin|start)\s+with\b", "earliest"),
    OrderForm(rf"{_WHOSE}(?:very\s+)?(?P<cue>first)\s+(?!(?:{_LINKS}|{_PLACES}|{_FIRST_THINGS})\b)\w", "earliest"),
    OrderForm(rf"{_ASKED}(?P<cue>first)\s+(?!(?:{_NO_VERB}|{_PLACES}|{_FIRST_THINGS})\b)[a-z]", "earliest"),
    OrderForm(r"\b(?:did|had)\s+(?:[\w'’.-]+\s+){1,8}?(?P<cue>first)(?=\s*(?:[?.!,;]|\Z))", "earliest"),
    OrderForm(r"(?<!how long )\b(?:did|had)\s+(?:[\w'’.-]+\s+){2,8}?(?P<cue>last)(?=\s*(?:[?.!,;]|\Z))", "latest"),
    OrderForm(r"\b(?:the\s+)?(?:very\s+)?last\s+time\b|\bmost\s+recent(?:ly)?\b|\bnewest\b", "latest"),
    OrderForm(r"(?<!\bat )(?<!\bat the )\blatest\b", "latest"),
    OrderForm(rf"{_WHOSE}(?:very\s+)?(?P<cue>last)\s+(?!(?:{_LINKS}|{_PLACES}|{_LAST_THINGS})\b)\w", "latest"),
    OrderForm(rf"{_ASKED}(?P<cue>last)\s+(?!(?:{_NO_VERB}|{_PLACES}|{_LAST_THINGS})\b)[a-z]", "latest"),
    OrderForm(r"\bjust\s+now\b", "latest", days=1, is_vague=True),
    OrderForm(r"\brecent(?:ly)?\b|\blately\b|\bof\s+late\b", None, days=RECENT_DAYS, is_vague=True),
    OrderForm(r"\bcurrently\b|\bpresently\b|\bnowadays\b|\bthese\s+days\b", "latest", is_vague=True),
    OrderForm(r"\bat\s+(?:the\s+moment|present)\b|\bas\s+of\s+(?:now|today)\b", "latest", is_vague=True),
    OrderForm(
        (
            r"\bright\s+now\b|(?<=\w\s)(?<!\buntil )(?<!\btill )(?<!\bby )(?<!\bfrom )(?<!\bbefore )"
            r"now\b(?!,|\s+(?:and|or|then|that|on)\b)"
        ),
        "latest",
        is_vague=True,
    ),
    OrderForm(rf"{_WHOSE}(?P<cue>current)\s+(?!(?:{_LINKS}|{_CURRENT_THINGS})\b)\w", "latest", is_vague=True),
)
"""Words that ask for an order; of several in a query, the first one in this table counts."""

RELATIONS: Final[Mapping[str, Relation]] = {
    "before": "before", "prior to": "before", "until": "before", "till": "before", "after": "after", "since": "after",
}  # fmt: skip
_UNIT = one_of(periods.UNITS)
_NUMBER = rf"(?:\d+|{one_of(NUMBERS)})"
_DAILY = r"(?:work|school|class|breakfast|lunch|dinner|bed|bedtime|midnight|noon|dark)"
"""Daily events, which are not looked up: "what does she do after work"."""
_OWN_AFTER = "".join(rf"(?<!\b{verb} )" for verb in "look looks looked looking running named chased".split())
"""Verbs that "after" belongs to."""
EVENT = (
    rf"(?<![\w-])(?:(?:the|{_NUMBER})\s+{_UNIT}s?\s+)?(?:(?:right|just|shortly|soon|immediately|ever)\s+)?"
    rf"{_OWN_AFTER}(?P<word>{one_of(RELATIONS)})\s+"
    rf"(?!(?:that|this|then|it|all|long|hours|now|you|and|or|what|which|who|whom|how|when|while|further|there|but|because|so|if)\b)"
    rf"(?!{_NUMBER}\s+(?:more\s+)?{_UNIT}s?\b)(?!{_DAILY}\s*(?:[,.;:?!]|\Z))"
    r"(?P<anchor>(?=[^,;?!()\n—]*[a-z])(?:[^,.;:?!()\n—]|[.:](?=\w)){1,120}(?!\w))"
)
_CLAUSE = r"\s+(?:but|because|although|though|whereas)\b"
_QUESTION = r"\s+(?:what|where|who|which|how|why|when|did|does|do)\b"
_SAID = (
    r"[\s,]*(?:(?:as|that|which|he|she|they|i|we|you|was|were)\s+)*"
    r"(?:(?:mentioned|said|told|shared|discussed|described|wrote)\s+)?"
)
"""Text between a time and the day of its statement: "last week, as mentioned on 6 November"."""

_ANYTHING: Final = ENGLISH_STOPWORDS.union(load("time")["anything"])
"""Words that ask for anything at all."""

MAX_LENGTH: Final = 2000
"""Characters of a query that are read; a longer text is no question."""
_TRIGGERS: Final = frozenset(
    {*"0123456789", *periods.WEEKDAYS, *periods.MONTHS, *periods.SEASONS, *periods.DAY_PARTS}
    | {form for unit in periods.UNITS for form in (unit, f"{unit}s")}
    | {name.split()[0] for name in periods.HOLIDAYS if "day" not in name} - {"new"}  # "New Year" is covered by "year"
    | {word for name in BOUNDS for word in name.split()} - {"to", "by", "up"}
    | set(
        """
        easter valentine today tonight yesterday tomorrow ago first last latest earliest newest recent recently lately
        late now currently current presently present moment these nowadays originally initially original initial begin
        start
        """.split()
    )
)
"""Words and digits; a text that names a time contains at least one."""
_TRIGGER_SHAPE = re.compile(r"[a-z]+|\d")


def read(text: str, now: datetime) -> TimeCue | None:
    """Return the time that `text` is about, or None if it names none.

    Args:
        text: a query in English.
        now: the instant of the query in UTC.
    """
    text = text[:MAX_LENGTH]
    if _TRIGGERS.isdisjoint(_TRIGGER_SHAPE.findall(text.casefold())):
        return None  # most queries
    found = mentions(text, now)
    event = _event(text, found)
    date = _date(text, meant(text, found), event)
    taken: list[Placed] = [*found, *filter(None, [event])]
    ordering = _ordering(text, taken, is_dated=date is not None)
    cue = TimeCue(
        _runs(text, [piece for piece in (date, event, ordering) if piece]),
        date.start if date else _recent(ordering, now),
        date.end if date else None,
        ordering.order if ordering else None,
        event.relation if event else None,
        event.anchor if event else "",
    )
    return cue if cue.start or cue.end or cue.order or cue.relation else None


def asks_only_time(text: str, cue: TimeCue, now: datetime, names: Iterable[str]) -> bool:
    """Return whether `text` asks for anything from a window of the past: "What did Ann and I talk about in May?".

    Args:
        text: the query.
        cue: its time cue.
        now: the instant of the query.
        names: names of speakers in normal form; the query can contain them.
    """
    if (cue.start is None and cue.end is None) or cue.relation or (cue.start is not None and cue.start > now):
        return False
    for run in cue.words:
        text = text.replace(run, " ")
    return set(words(text)) <= _ANYTHING.union(*map(words, names))


def _runs(text: str, pieces: Iterable[Placed]) -> tuple[str, ...]:
    """Return the text of the pieces in order, adjacent pieces joined."""
    runs: list[tuple[int, int]] = []
    for at, until in sorted((piece.at, piece.until) for piece in pieces):
        joined = runs.pop()[0] if runs and at <= runs[-1][1] else at
        runs.append((joined, until))
    return tuple(text[at:until].strip() for at, until in runs)


def _recent(ordering: Ordering | None, now: datetime) -> datetime | None:
    try:
        return periods.past("day", ordering.days, now).start if ordering and ordering.days else None
    except (ValueError, OverflowError):  # outside the calendar
        return None


def _date(text: str, found: list[Mention], event: Event | None) -> Mention | None:
    """Return the time that the query is about."""
    for left, right in pairwise(found):
        if left.kind != "fixed" and right.kind == "fixed" and re.fullmatch(_SAID, text[left.until : right.at], FLAGS):
            return _told(text, left, right)
    date = next((mention for mention in found if mention.kind == "deictic"), found[0] if found else None)
    if date and date.window and event and event.until == date.at:  # "after his trip in August" is since August
        return replace(date, end=None) if event.relation == "after" else replace(date, start=None)
    return date


def _told(text: str, left: Mention, right: Mention) -> Mention:
    """Return a time and the day of its statement as one window; the time is relative to that day."""
    left = recount(text, left, right)
    if not left.window or not right.window:
        return right
    window = periods.hull(left.window, right.window)
    return Mention(left.at, right.until, window.start, window.end, "fixed")


def _ordering(text: str, taken: Sequence[Placed], *, is_dated: bool) -> Ordering | None:
    """Return the first match of `ORDER_FORMS`, in the order of the table, that overlaps no other cue."""
    for form in ORDER_FORMS:
        if form.is_vague and is_dated:
            continue
        for match in re.finditer(form.pattern, text, FLAGS):
            at, until = match.span("cue" if "cue" in match.re.groupindex else 0)
            if not any(piece.at < until and at < piece.until for piece in taken):
                return Ordering(at, until, form.order, form.days)
    return None


def _event(text: str, found: list[Mention]) -> Event | None:
    """Return the first event that the query refers to."""
    for match in re.finditer(EVENT, text, FLAGS):
        at = match.start("word")
        if any(mention.at <= at < mention.until for mention in found):
            continue
        until = min([match.end(), *(mention.at for mention in found if mention.at >= match.start("anchor"))])
        anchor = re.split(_CLAUSE, text[match.start("anchor") : until], maxsplit=1, flags=FLAGS)[0]
        if not text[: match.start()].strip():  # the question follows the event
            anchor = re.split(_QUESTION, anchor, maxsplit=1, flags=FLAGS)[0]
        if anchor.strip():
            relation = RELATIONS[" ".join(match["word"].casefold().split())]
            return Event(match.start(), match.start("anchor") + len(anchor), relation, anchor.strip())
    return None
