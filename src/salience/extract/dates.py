"""Dates: the times that an English text names, as windows relative to a given instant.

A time is found by its form (`FORMS`), extended by the words that modify it (`MODIFIERS`, such as "the second week of"),
joined with a second one ("from May to July"), and opened on one side by words such as "since". An ambiguous form needs
a lead word: `May` can be a verb or a person, `2022` a number. A recurring time counts only if the tense fits: "on
Friday" is last Friday in "What did we say on Friday?", and no window in "Is the shop open on Friday?". Word lists give
the tense; a parser would cost more than a recall.

This is a grammar of its own over `dateutil`, since `dateparser` returns instants instead of windows, knows no seasons,
weekends, holidays, parts or ranges, reads "May I" and "the sun" as dates, and takes up to a millisecond per date.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Final, Literal, NamedTuple

from salience.extract import periods
from salience.extract.periods import Window
from salience.extract.wordlists import load

FLAGS: Final = re.ASCII | re.IGNORECASE
"""Flags of all patterns here; `re` compiles each pattern when it is first used."""
_LISTS: Final = load("time")
Tense = Literal["past", "coming", "unsaid"]
"""Direction of a time by the words around it; "unsaid" if no verb gives one."""

PAST_FORMS: Final = frozenset(_LISTS["past_forms"])
NOT_PAST: Final = frozenset(_LISTS["not_past"])

_PAST_FORM = rf"(?:{'|'.join(sorted(PAST_FORMS))}|(?:did|was|were|had)n['’]t)\b"
_REGULAR = rf"(?!(?:{'|'.join(sorted(NOT_PAST))})\b)\w\w+(?<!e)ed\b"
_PARTICIPLE = rf"(?:{_PAST_FORM}|{_REGULAR})"
_DETERMINER = r"(?:the|an?|my|our|your|his|her|its|their|this|that)"
_BE = r"(?:\b(?:is|are|am|be|being|gets?)(?:n['’]t)?|\b(?:who|what|where|when|how|it|he|she|that)['’]s|['’](?:re|m))"
_NO_CLAUSE = r"(?!(?:who|what|which|that|where|when|how|why)\b)"
"""Words that begin a clause: "that is what happened" is no passive."""
_NO_AGENT = r"(?!(?:i|we|you|he|she|it|they)\b|(?-i:[A-Z]))"
"""An agent: "is the cake we baked" is no passive, "is the coffee shop closed" is one."""
_PASSIVE = (  # "is closed", "is the shop closed", "isn't Bob invited": a state with a participle
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
_WEEKDAY = "|".join(name for name in periods.WEEKDAYS if name.endswith("day"))
_DIRECTION = rf"(?P<coming>{_PASSIVE}|{_AHEAD})|(?P<past>{_BACK}|\b{_PARTICIPLE})"
_OCCASION = rf"\b(?:on|from|in|at|during)\s+(?:{_WEEKDAY})['’]s\s+\w"
"""An occasion of the past: "decisions from Friday's call", but not "agenda for Friday's call"."""


class Direction(NamedTuple):
    """Position of words that give a tense, and the tense."""

    at: int
    tense: Tense


def directions(text: str) -> list[Direction]:
    """Return the words in `text` that give a tense, in order; occasions count only without such verbs."""
    found = [
        Direction(match.start(), "past" if match["past"] else "coming")
        for match in re.finditer(_DIRECTION, text, FLAGS)
    ]
    return found or [Direction(match.start(), "past") for match in re.finditer(_OCCASION, text, FLAGS)]


def tense(found: Sequence[Direction], until: int) -> Tense:
    """Return the tense of a time that ends at `until`: of the nearest direction before it, else the first after it."""
    before = bisect_left(found, until, key=attrgetter("at"))
    return found[max(before - 1, 0)].tense if found else "unsaid"


Kind = Literal["fixed", "floating", "deictic"]
"""Fixed: has its year. Floating: the latest of its name. Deictic: relative to now."""
ALWAYS: Final = frozenset[Tense]({"past", "coming", "unsaid"})
LOOKING_BACK: Final = frozenset[Tense]({"past"})
"""A recurring time means the latest one only in the past tense: "on Friday", "in July", "at Christmas"."""
NOT_AHEAD: Final = frozenset[Tense]({"past", "unsaid"})
"""A day of a month means the latest one unless the words look ahead: "the minutes of 8 May"."""


@dataclass(frozen=True, slots=True)
class Form:
    """A form of times.

    Attributes:
        pattern: regular expression of the form.
        read: (match, now) -> window.
        kind: whether it depends on now.
        needs: lead words of which one must precede it; empty if it is a time by itself.
        tenses: tenses in which it counts.
    """

    pattern: str
    read: Callable[[re.Match[str], datetime], Window]
    kind: Kind
    needs: frozenset[str] = frozenset()
    tenses: frozenset[Tense] = ALWAYS


@dataclass(frozen=True, slots=True)
class Modifier:
    """Words beside a time, and the window that they change it to; None if they do not fit the window."""

    pattern: str
    apply: Callable[[re.Match[str], Window], Window | None]


def one_of(names: Iterable[str]) -> str:
    """Return a pattern of alternatives, the longest first."""
    return f"(?:{'|'.join(sorted(names, key=len, reverse=True))})".replace(" ", r"\s+")


NUMBERS: Final[Mapping[str, tuple[int, int]]] = {
    "a": (1, 1), "an": (1, 1), "one": (1, 1), "two": (2, 2), "three": (3, 3), "four": (4, 4), "five": (5, 5),
    "six": (6, 6), "seven": (7, 7), "eight": (8, 8), "nine": (9, 9), "ten": (10, 10), "eleven": (11, 11),
    "twelve": (12, 12), "a couple of": (2, 2), "a couple": (2, 2), "couple of": (2, 2), "couple": (2, 2),
    "few": (2, 4), "a few": (2, 4), "several": (3, 7),
}  # fmt: skip
"""Least and greatest meaning of a number."""

TURNS: Final[Mapping[str, tuple[int, Callable[[str, datetime], Window]]]] = {
    "last": (1, periods.last), "past": (1, periods.last), "previous": (1, periods.last),
    "this": (0, periods.this), "current": (0, periods.this),
    "next": (-1, periods.upcoming), "coming": (-1, periods.upcoming), "upcoming": (-1, periods.upcoming),
}  # fmt: skip
"""Units back, and the choice among recurring windows."""

_FULL_DAYS = one_of(name for name in periods.WEEKDAYS if name.endswith("day"))
_SHORT_DAYS = one_of(name for name in periods.WEEKDAYS if not name.endswith(("day", "end")))
_PERSONS: Final = frozenset({"april", "may", "june", "march"})  # verbs and names as well as months
_SURE_MONTHS = one_of(name for name in periods.MONTHS if len(name) > 4 and name not in _PERSONS)
_MONTH = one_of(periods.MONTHS)
_UNIT = one_of(set(periods.UNITS) - {"minute", "hour", "night"})
_LONG_UNIT = one_of(set(periods.UNITS) - {"minute", "hour", "night", "day"})
_ROLLING_UNIT = one_of(set(periods.UNITS) - {"night", "weekend"})
_LASTING_UNIT = one_of(set(periods.UNITS) - {"minute", "night", "day", "weekend"})  # "the last day" ends something
_COUNTED = one_of(periods.UNITS)
_NUMBER = rf"(?:\d{{1,3}}|{one_of(NUMBERS)})"
_ORDINAL = one_of(periods.ORDINALS)
_DAY = r"(?<![\w/.:$-])\d{1,2}(?:st|nd|rd|th)?(?![\w:/%]|\.\d)"
_DAYS = rf"{_DAY}(?:\s*(?:[-–]|to|and|or|through|until)\s*(?:the\s+)?(?:(?<=[-–])\d{{1,2}}\b|{_DAY}))?"
_DATED = rf"(?:{_DAYS}\s+(?:of\s+)?{_MONTH}|{_MONTH}\.?\s+(?:the\s+)?{_DAYS})"
_SEASON = one_of(periods.SEASONS)
_HOLIDAY = one_of(re.sub(r"s\b", "['’]?s", name) for name in (*periods.HOLIDAYS, periods.EASTER))
_QUARTER = r"(?:q[1-4]|(?:first|second|third|fourth|1st|2nd|3rd|4th)\s+quarter)"
_NAMED = rf"(?:{_DATED}|{_HOLIDAY}|{_SEASON}|{_QUARTER}|{_MONTH})"
_YEAR = r"(?:1[89]|20)\d\d"
_RECURRING = rf"(?:{_FULL_DAYS}|{_SHORT_DAYS}|{_NAMED})"
_TURN = rf"(?:this\s+)?(?P<turn>{one_of(TURNS)})"
_LAST = r"(?:this\s+)?(?:last|past|previous)"
_NEXT = r"(?:this\s+)?(?:next|coming|upcoming)"
_PART_OF_DAY = one_of(periods.DAY_PARTS)
_NOT_A_NAME = r"(?!['’]s\b|s\b|\s+(?-i:[A-Z]))"  # "April's", "Mays", "Spring Boot"


def _number(text: str) -> tuple[int, int]:
    words = " ".join(text.casefold().split())
    return NUMBERS[words] if words in NUMBERS else (int(words), int(words))


def _day(shift: int, part: str = "") -> Callable[[re.Match[str], datetime], Window]:
    def read(_: re.Match[str], now: datetime) -> Window:
        day = periods.unit("day", now + timedelta(days=shift))
        return periods.day_part(part, day.start) if part else day

    return read


def _iso(match: re.Match[str], _: datetime) -> Window:
    start = datetime(int(match["year"]), int(match["month"]), int(match["day"] or 1), tzinfo=UTC)
    return periods.unit("day" if match["day"] else "month", start)


def _numeric(match: re.Match[str], _: datetime) -> Window:
    """Read a date with the day first, or with the month first if the day is impossible: 5/23/2023."""
    one, two, year = int(match["one"]), int(match["two"]), int(match["year"])
    day, month = (two, one) if two > 12 else (one, two)
    century = 0 if year > 99 else 2000 if year < 70 else 1900
    return periods.unit("day", datetime(century + year, month, day, tzinfo=UTC))


def _decade(match: re.Match[str], _: datetime) -> Window:
    century = match["century"] or ("20" if match["tens"] in "012" else "19")
    return periods.unit("decade", datetime(int(f"{century}{match['tens']}0"), 1, 1, tzinfo=UTC))


def _ago(match: re.Match[str], now: datetime) -> Window:
    low, high = _number(match["number"])
    return periods.back(match["unit"].casefold(), now, low, _number(match["most"])[1] if match["most"] else high)


def _unit_at_turn(match: re.Match[str], now: datetime) -> Window:
    steps, _ = TURNS[match["turn"].casefold()]
    return periods.back(match["unit"].casefold(), now, steps, steps)


def _name_at_turn(match: re.Match[str], now: datetime) -> Window:
    _, choose = TURNS[match["turn"].casefold()]
    return choose(match["name"], now)


def _run(direction: Callable[[str, int, datetime], Window]) -> Callable[[re.Match[str], datetime], Window]:
    return lambda match, now: direction(match["unit"].casefold(), _number(match["number"] or "one")[1], now)


def _latest(match: re.Match[str], now: datetime) -> Window:
    return periods.latest(match["name"], now)


def _this_time(match: re.Match[str], now: datetime) -> Window:
    finer = {"year": "month", "month": "week", "week": "day"}
    return periods.unit(finer[match["unit"].casefold()], now - periods.UNITS[match["unit"].casefold()][0])


CLAUSE_END: Final = "end of the clause"
"""A need that is met at the end of a clause."""
TIME_LEADS: Final = frozenset(
    {"in", "on", "during", "since", "until", "till", "before", "after", "over", "throughout", "within", "through"}
)
"""Words before a time, seldom before a person."""
OTHER_LEADS: Final = frozenset({"by", "of", "from", "between", "around", "at", "for", "the"})
"""Words before a time, and as often before other things."""

FORMS: Final[Sequence[Form]] = (
    Form(r"(?<![\w./:-])(?P<year>\d{4})-(?P<month>\d\d)(?:-(?P<day>\d\d))?(?:(?=T\d)|(?![\w/-]|\.\d))", _iso, "fixed"),
    Form(r"(?<![\w./:-])(?P<year>\d{4})/(?P<month>\d\d?)/(?P<day>\d\d?)(?![\w/-]|\.\d)", _iso, "fixed"),
    Form(
        r"(?<![\w./:-])(?P<one>\d\d?)([/.])(?P<two>\d\d?)\2(?P<year>\d{4}|(?<=/)\d\d)(?![\w/:-]|\.\d)",
        _numeric,
        "fixed",
    ),
    Form(
        rf"(?:(?<![\w./:#$€£-])|(?<=\b\d{{4}}-))(?P<year>{_YEAR})(?![\w/:]|-(?!\d{{4}}\b)|[.,]\d)",
        lambda match, _: periods.unit("year", datetime(int(match["year"]), 1, 1, tzinfo=UTC)),
        "fixed",
        TIME_LEADS | OTHER_LEADS,
    ),
    Form(r"\b(?:(?:the\s+)?(?P<century>19|20)|the\s+['’]?)(?P<tens>\d)0s\b", _decade, "fixed"),
    Form(r"(?<!as of )\btoday\b", _day(0), "deictic"),
    Form(r"\btonight\b", _day(0, "night"), "deictic"),
    Form(r"\byesterday\b", _day(-1), "deictic"),
    Form(r"\blast\s+night\b", _day(-1, "night"), "deictic"),
    Form(r"\btomorrow\b", _day(1), "deictic"),
    Form(r"\bthe\s+other\s+day\b", lambda _, now: periods.past("day", 14, now), "deictic"),
    Form(
        rf"\bthis\s+(?P<part>{_PART_OF_DAY})\b",
        lambda match, now: periods.day_part(match["part"].casefold(), periods.midnight(now)),
        "deictic",
    ),
    Form(
        rf"\b(?:the\s+)?(?P<unit>{_UNIT}|night)\s+before\s+last\b",
        lambda match, now: periods.back(match["unit"].casefold(), now, 2, 2),
        "deictic",
    ),
    Form(rf"\bthe\s+last\s+(?P<number>)(?P<unit>{_LASTING_UNIT})\b", _run(periods.past), "deictic"),
    Form(rf"\b(?:this\s+)?past\s+(?P<number>)(?P<unit>{_ROLLING_UNIT})\b", _run(periods.past), "deictic"),
    Form(rf"\b{_TURN}\s+(?P<unit>{_LONG_UNIT})\b", _unit_at_turn, "deictic"),
    Form(rf"\b{_TURN}\s+(?P<name>{_RECURRING})\b", _name_at_turn, "deictic"),
    Form(rf"\b{_LAST}\s+(?P<number>{_NUMBER})\s+(?P<unit>{_COUNTED})s?\b", _run(periods.past), "deictic"),
    Form(rf"\b{_NEXT}\s+(?P<number>{_NUMBER})\s+(?P<unit>{_COUNTED})s?\b", _run(periods.coming), "deictic"),
    Form(
        (
            rf"(?<![\w.,-])(?<!half )(?P<number>{_NUMBER})(?:\s*(?:[-–]|or|to)\s*(?P<most>{_NUMBER}))?"
            rf"\s+(?P<unit>{_COUNTED})s?\s+ago\b"
        ),
        _ago,
        "deictic",
    ),
    Form(r"\bthis\s+time\s+last\s+(?P<unit>year|month|week)\b", _this_time, "deictic"),
    Form(rf"\b(?P<name>{_DATED})\b", _latest, "floating", tenses=NOT_AHEAD),
    Form(rf"\b(?P<name>{_FULL_DAYS}|{_SURE_MONTHS})\b", _latest, "floating", tenses=LOOKING_BACK),
    Form(
        rf"\b(?P<name>{_MONTH}|{_SHORT_DAYS}|{_SEASON}|{_QUARTER}|weekend)\b{_NOT_A_NAME}",
        _latest,
        "floating",
        TIME_LEADS,
        LOOKING_BACK,
    ),
    Form(
        rf"\b(?P<name>{_HOLIDAY})(?!\w)",
        _latest,
        "floating",
        (TIME_LEADS | OTHER_LEADS | {CLAUSE_END}) - {"the"},
        LOOKING_BACK,
    ),
    Form(
        r"\bon\s+the\s+(?P<day>\d\d?)(?:st|nd|rd|th)(?=\s*(?:[?.!,;]|\Z))",
        lambda match, now: periods.day_of_month(int(match["day"]), now),
        "floating",
        tenses=NOT_AHEAD,
    ),
    Form(
        r"\bthe\s+(?P<unit>week|month|quarter|year)\b",
        lambda match, now: periods.unit(match["unit"].casefold(), now),
        "deictic",
        frozenset({"a part of it"}),
    ),
)
"""Forms of times. Of two overlapping times, the one that starts first counts, then the longer one."""


def _named_in_year(match: re.Match[str], window: Window) -> Window | None:
    year = periods.unit("year", window.start)
    return periods.named(match["name"], year.start.year) if window == year else None


def _same_day(_: re.Match[str], window: Window) -> Window | None:
    """Return the date of "Monday, 8 May", whatever weekday it was."""
    return window if window == periods.unit("day", window.start) else None


def _day_of_week(match: re.Match[str], window: Window) -> Window | None:
    is_week = window == periods.unit("week", window.start)
    return periods.nth(match["unit"].casefold(), window, 1) if is_week else None


def _unit_around(match: re.Match[str], window: Window) -> Window | None:
    around = periods.unit(match["unit"].casefold(), window.start)
    return around if around.end >= window.end else None


def _nth_inside(match: re.Match[str], window: Window) -> Window | None:
    inside = periods.nth(match["unit"].casefold(), window, periods.ORDINALS[match["number"].casefold()])
    return inside if window.start <= inside.start and inside.end <= window.end else None


def _part(match: re.Match[str], window: Window) -> Window:
    return periods.part(" ".join(match["part"].casefold().split()), window)


def _beside(match: re.Match[str], window: Window) -> Window:
    name, sign = match["unit"].casefold(), -1 if match["side"][0] in "bpBP" else 1
    if not match["number"]:
        return periods.beside(name, window, sign)
    low, high = _number(match["number"])
    if name in periods.WEEKDAYS:
        return periods.hull(*(periods.beside(name, window, sign * number) for number in (low, high)))
    return periods.back(name, window.start, *sorted((-sign * low, -sign * high)))


def _day_part(match: re.Match[str], window: Window) -> Window | None:
    is_day = window == periods.unit("day", window.start)
    return periods.day_part(match["part"].casefold(), window.start) if is_day else None


MODIFIERS: Final[Sequence[Modifier]] = (
    Modifier(rf"(?<!\w)(?P<name>{_NAMED})(?:,\s*|\s+)(?:(?:of|in)\s+)?(?:the\s+year\s+(?:of\s+)?)?\Z", _named_in_year),
    Modifier(rf"\b(?:{_FULL_DAYS}|{_SHORT_DAYS}),?\s+(?:the\s+)?\Z", _same_day),
    Modifier(rf"\b(?P<unit>{_FULL_DAYS}|weekend)\s+(?:of\s+)?\Z", _day_of_week),
    Modifier(rf"\b(?:the\s+)?(?P<unit>{_UNIT})\s+(?:of|that\s+began\s+on)\s+(?:the\s+)?\Z", _unit_around),
    Modifier(
        rf"\b(?:the\s+)?(?:very\s+)?(?P<number>{_ORDINAL})\s+(?P<unit>{_UNIT}|{_FULL_DAYS})\s+(?:of|in)\s+(?:the\s+)?\Z",
        _nth_inside,
    ),
    Modifier(
        (
            r"\b(?:the\s+)?(?P<part>early|mid|late|(?:first|second|last)\s+half(?=\s+of)|(?:beginning|start|middle|end)(?=\s+of))"
            r"(?:\s*-\s*|\s+(?:of\s+|in\s+)?)(?:the\s+)?\Z"
        ),
        _part,
    ),
    Modifier(
        (
            rf"\b(?:(?P<number>{_NUMBER})\s+|(?:the|last|that)\s+)?(?P<unit>{_COUNTED}|{_FULL_DAYS})s?"
            r"\s+(?P<side>before|prior\s+to|preceding|after|following)\s+(?:the\s+)?\Z"
        ),
        _beside,
    ),
    Modifier(rf"\b(?:the\s+)?(?P<part>{_PART_OF_DAY})\s+(?:of|on)\s+(?:the\s+)?\Z", _day_part),
)
"""Words before a time that change its window; they apply repeatedly until none fits."""
PART_AFTER: Final = Modifier(rf"\A\s+(?P<part>{_PART_OF_DAY})\b", _day_part)
"""A part of a day after the day: "yesterday morning"."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A time in a text.

    Attributes:
        at, until: its position in the text.
        start, end: its window, `start < end`; None if open.
        kind, needs, tenses: as in `Form`.
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
        """The window if neither side is open."""
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
"""Lead words that open one side: the edges of the window that become start and end."""
_LEADS = one_of((TIME_LEADS | OTHER_LEADS | set(BOUNDS)) - {"the"})
_LEAD = rf"(?<![\w-])(?:(?:ever|back|only|sometime)\s+)?(?P<lead>{_LEADS}(?:\s+the)?|the)\s+\Z"
_STRAY_LEADS: Final = OTHER_LEADS - {"between", "by", "the"}
_BLOCK = r"\b(?:every|each|most|some|any)\s+\Z"
_STOP = r"\A\s*(?:[?.!,;:]|\Z)"
_LINK = r"\A\s*(?:(?:and|to|or|till|until|through|thru)\s+(?:the\s+|in\s+)?|[-–—]\s*)\Z"
_OPENING = r"\b(?:from|between)\s+(?:the\s+)?\Z"
_NEAR: Final = 60
"""Most characters beside a time that can belong to it."""


def mentions(text: str, now: datetime) -> list[Mention]:
    """Return the times that `text` names, in order, without overlaps.

    Args:
        text: any text; only English times are found.
        now: the instant in UTC to which "yesterday" and a month without a year refer.
    """
    grown = [_grow(text, mention) for mention in _apart(_spot(text, now))]
    linked = _link(text, _unswallowed(grown))
    return [mention for mention in (_led(text, mention) for mention in linked) if mention]


def meant(text: str, found: list[Mention]) -> list[Mention]:
    """Return the mentions whose tense fits the words around them; "Can we deploy on Friday?" has none."""
    if all(mention.tenses == ALWAYS for mention in found):
        return found
    around = directions(text)
    return [mention for mention in found if tense(around, mention.until) in mention.tenses]


def _spot(text: str, now: datetime) -> list[Mention]:
    found = []
    for form in FORMS:
        for match in re.finditer(form.pattern, text, FLAGS):
            try:
                window = form.read(match, now)
            except (ValueError, OverflowError):  # no such day, or outside the calendar
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
    """Return a mention extended by the words that modify it."""
    grown = _modified(PART_AFTER, text[mention.until : mention.until + _NEAR], mention, after=True) or mention
    while True:
        before = text[max(0, grown.at - _NEAR) : grown.at]
        more = next(filter(None, (_modified(modifier, before, grown) for modifier in MODIFIERS)), None)
        if more is None:
            return grown
        grown = more


def _modified(modifier: Modifier, beside: str, mention: Mention, *, after: bool = False) -> Mention | None:
    match = re.search(modifier.pattern, beside, FLAGS)
    try:
        window = modifier.apply(match, mention.window) if match and mention.window else None
    except (ValueError, OverflowError):
        return None
    if not match or not window:
        return None
    at, until = (mention.at, mention.until + match.end()) if after else (mention.at - len(match[0]), mention.until)
    return Mention(at, until, window.start, window.end, mention.kind, tenses=mention.tenses)


def _unswallowed(grown: list[Mention]) -> list[Mention]:
    """Return the mentions except those inside a later one, such as June in "June 2023"."""
    kept: list[Mention] = []
    for mention in grown:
        while kept and kept[-1].until > mention.at:
            kept.pop()
        kept.append(mention)
    return kept


def _link(text: str, found: list[Mention]) -> list[Mention]:
    """Return the mentions with ranges joined: two linked by "and", "to" or a dash; the first gets the second's year."""
    linked: list[Mention] = []
    for mention in found:
        if linked and re.search(_LINK, text[linked[-1].until : mention.at], FLAGS):
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
    opening = re.search(_OPENING, text[max(0, left.at - _NEAR) : left.at], FLAGS)
    at, needs = (left.at - len(opening[0]), frozenset[str]()) if opening else (left.at, left.needs)
    kind: Kind = "deictic" if right.kind == "deictic" else "fixed"  # both have a year by now
    return Mention(at, right.until, window.start, window.end, kind, needs, left.tenses | right.tenses)


def recount(text: str, mention: Mention, reference: Mention) -> Mention:
    """Return a mention relative to the start of another one: the Friday in "last Friday, on 23 January"."""
    piece = text[mention.at : mention.until]
    found = _apart(_spot(piece, reference.start)) if reference.start else []
    same = [again for again in (_grow(piece, each) for each in found) if again.until == len(piece)]
    return replace(mention, start=same[0].start, end=same[0].end) if same else mention


def _led(text: str, mention: Mention) -> Mention | None:
    """Return a mention with its lead word, which can open one side; None if it needs one and has none."""
    before, after = text[max(0, mention.at - _NEAR) : mention.at], text[mention.until : mention.until + _NEAR]
    match = re.search(_LEAD, before, FLAGS)
    lead = " ".join(match["lead"].casefold().split()) if match else ""
    words = {lead, lead.removesuffix(" the"), CLAUSE_END if re.search(_STOP, after, FLAGS) else ""}
    if re.search(_BLOCK, before, FLAGS) or (mention.needs and mention.needs.isdisjoint(words)):
        return None
    return _bounded(mention, lead.removesuffix(" the"), len(match[0]) if match else 0)


def _bounded(mention: Mention, lead: str, length: int) -> Mention:
    if lead in _STRAY_LEADS and not mention.needs:  # may belong to another word: "volunteer at last week"
        return mention
    led = replace(mention, at=mention.at - length)
    if lead not in BOUNDS:
        return led
    start, end = (getattr(mention, edge) if edge else None for edge in BOUNDS[lead])
    return replace(led, start=start, end=end)
