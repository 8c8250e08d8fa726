"""What the times that an English text names look like, and the windows that they stand for.

Two tables: `FORMS` says what a time looks like by itself, `MODIFIERS` what the words before it make of it ("early",
"the second week of", "two days before"). What is doubtful by itself - `May` may be a verb or a person, `2022` a
number - says which lead words it needs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from salience.extract import periods
from salience.extract.patterns import Pattern
from salience.extract.periods import Window
from salience.extract.tense import Tense

Kind = Literal["fixed", "floating", "deictic"]
"""Whether a time has its year, is the latest of its name, or is counted from now."""
_RUN = re.compile(r"[A-Za-z]+|[0-9]")
ALWAYS: Final = frozenset[Tense]({"past", "coming", "unsaid"})
LOOKING_BACK: Final = frozenset[Tense]({"past"})
"""What comes round is the latest one only where the words speak of the past: "on Friday", "in July", "at Christmas"."""
NOT_AHEAD: Final = frozenset[Tense]({"past", "unsaid"})
"""A day of a month is one day, and the latest one unless the words look ahead: "the minutes of 8 May"."""


@dataclass(frozen=True, slots=True)
class Form:
    """What a time looks like, and how it is read.

    Attributes:
        pattern: what it looks like.
        read: from a match to its window.
        kind: what it hangs on.
        holds: words and digits of which every text that it is in holds one; see `held`.
        needs: the lead words of which it needs one.
        tenses: the tenses that it is meant in.
    """

    pattern: Pattern
    read: Callable[[re.Match[str], datetime], Window]
    kind: Kind
    holds: frozenset[str]
    needs: frozenset[str] = frozenset()
    tenses: frozenset[Tense] = ALWAYS


@dataclass(frozen=True, slots=True)
class Modifier:
    """What the words before a time make of its window; None where they do not go with such a window."""

    pattern: Pattern
    apply: Callable[[re.Match[str], Window], Window | None]


def held(text: str) -> frozenset[str]:
    """Return the runs of ASCII letters in `text`, in small letters, and its digits.

    A pattern that has a word whole is in no text without it: so most patterns need not be tried.
    """
    return frozenset(map(str.lower, _RUN.findall(text)))


def one_of(names: Iterable[str]) -> str:
    """Return a pattern for any of some names, the longest first."""
    return f"(?:{'|'.join(sorted(names, key=len, reverse=True))})".replace(" ", r"\s+")


NUMBERS: Final[Mapping[str, tuple[int, int]]] = {
    "a": (1, 1), "an": (1, 1), "one": (1, 1), "two": (2, 2), "three": (3, 3), "four": (4, 4), "five": (5, 5),
    "six": (6, 6), "seven": (7, 7), "eight": (8, 8), "nine": (9, 9), "ten": (10, 10), "eleven": (11, 11),
    "twelve": (12, 12), "a couple of": (2, 2), "a couple": (2, 2), "couple of": (2, 2), "couple": (2, 2),
    "few": (2, 4), "a few": (2, 4), "several": (3, 7),
}  # fmt: skip
"""Least and most of what a number may mean."""

TURNS: Final[Mapping[str, tuple[int, Callable[[str, datetime], Window]]]] = {
    "last": (1, periods.last), "past": (1, periods.last), "previous": (1, periods.last),
    "this": (0, periods.this), "current": (0, periods.this),
    "next": (-1, periods.upcoming), "coming": (-1, periods.upcoming), "upcoming": (-1, periods.upcoming),
}  # fmt: skip
"""How many units back each points, and which of the windows that come round it means."""

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
_DIGITS: Final = frozenset("0123456789")
_AGAIN: Final = frozenset({"last", "past", "previous"})
_COMING: Final = frozenset({"next", "coming", "upcoming"})
_HOLIDAYS_BEGIN: Final = frozenset(
    form
    for name in (*periods.HOLIDAYS, periods.EASTER)
    for form in (name.split()[0], name.split()[0].removesuffix("s"))
)
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
    """Day first, as most of the world writes; month first where the day would be none: 5/23/2023."""
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
"""A need that is met where nothing but a stop follows."""
TIME_LEADS: Final = frozenset(
    {"in", "on", "during", "since", "until", "till", "before", "after", "over", "throughout", "within", "through"}
)
"""What leads up to a time, and seldom to a person."""
OTHER_LEADS: Final = frozenset({"by", "of", "from", "between", "around", "at", "for", "the"})
"""What leads up to a time, and as often to other things."""

FORMS: Final[Sequence[Form]] = (
    Form(
        Pattern(r"(?<![\w./:-])(?P<year>\d{4})-(?P<month>\d\d)(?:-(?P<day>\d\d))?(?:(?=T\d)|(?![\w/-]|\.\d))"),
        _iso,
        "fixed",
        _DIGITS,
    ),
    Form(
        Pattern(r"(?<![\w./:-])(?P<year>\d{4})/(?P<month>\d\d?)/(?P<day>\d\d?)(?![\w/-]|\.\d)"), _iso, "fixed", _DIGITS
    ),
    Form(
        Pattern(r"(?<![\w./:-])(?P<one>\d\d?)([/.])(?P<two>\d\d?)\2(?P<year>\d{4}|(?<=/)\d\d)(?![\w/:-]|\.\d)"),
        _numeric,
        "fixed",
        _DIGITS,
    ),
    Form(
        Pattern(rf"(?:(?<![\w./:#$€£-])|(?<=\b\d{{4}}-))(?P<year>{_YEAR})(?![\w/:]|-(?!\d{{4}}\b)|[.,]\d)"),
        lambda match, _: periods.unit("year", datetime(int(match["year"]), 1, 1, tzinfo=UTC)),
        "fixed",
        _DIGITS,
        TIME_LEADS | OTHER_LEADS,
    ),
    Form(Pattern(r"\b(?:(?:the\s+)?(?P<century>19|20)|the\s+['’]?)(?P<tens>\d)0s\b"), _decade, "fixed", _DIGITS),
    Form(Pattern(r"(?<!as of )\btoday\b"), _day(0), "deictic", frozenset({"today"})),
    Form(Pattern(r"\btonight\b"), _day(0, "night"), "deictic", frozenset({"tonight"})),
    Form(Pattern(r"\byesterday\b"), _day(-1), "deictic", frozenset({"yesterday"})),
    Form(Pattern(r"\blast\s+night\b"), _day(-1, "night"), "deictic", frozenset({"night"})),
    Form(Pattern(r"\btomorrow\b"), _day(1), "deictic", frozenset({"tomorrow"})),
    Form(
        Pattern(r"\bthe\s+other\s+day\b"),
        lambda _, now: periods.past("day", 14, now),
        "deictic",
        frozenset({"other"}),
    ),
    Form(
        Pattern(rf"\bthis\s+(?P<part>{_PART_OF_DAY})\b"),
        lambda match, now: periods.day_part(match["part"].casefold(), periods.midnight(now)),
        "deictic",
        frozenset(periods.DAY_PARTS),
    ),
    Form(
        Pattern(rf"\b(?:the\s+)?(?P<unit>{_UNIT}|night)\s+before\s+last\b"),
        lambda match, now: periods.back(match["unit"].casefold(), now, 2, 2),
        "deictic",
        _AGAIN,
    ),
    Form(Pattern(rf"\bthe\s+last\s+(?P<number>)(?P<unit>{_LASTING_UNIT})\b"), _run(periods.past), "deictic", _AGAIN),
    Form(
        Pattern(rf"\b(?:this\s+)?past\s+(?P<number>)(?P<unit>{_ROLLING_UNIT})\b"), _run(periods.past), "deictic", _AGAIN
    ),
    Form(Pattern(rf"\b{_TURN}\s+(?P<unit>{_LONG_UNIT})\b"), _unit_at_turn, "deictic", frozenset(TURNS)),
    Form(Pattern(rf"\b{_TURN}\s+(?P<name>{_RECURRING})\b"), _name_at_turn, "deictic", frozenset(TURNS)),
    Form(
        Pattern(rf"\b{_LAST}\s+(?P<number>{_NUMBER})\s+(?P<unit>{_COUNTED})s?\b"), _run(periods.past), "deictic", _AGAIN
    ),
    Form(
        Pattern(rf"\b{_NEXT}\s+(?P<number>{_NUMBER})\s+(?P<unit>{_COUNTED})s?\b"),
        _run(periods.coming),
        "deictic",
        _COMING,
    ),
    Form(
        Pattern(
            rf"(?<![\w.,-])(?<!half )(?P<number>{_NUMBER})(?:\s*(?:[-–]|or|to)\s*(?P<most>{_NUMBER}))?"
            rf"\s+(?P<unit>{_COUNTED})s?\s+ago\b"
        ),
        _ago,
        "deictic",
        frozenset({"ago"}),
    ),
    Form(Pattern(r"\bthis\s+time\s+last\s+(?P<unit>year|month|week)\b"), _this_time, "deictic", _AGAIN),
    Form(Pattern(rf"\b(?P<name>{_DATED})\b"), _latest, "floating", _DIGITS, tenses=NOT_AHEAD),
    Form(
        Pattern(rf"\b(?P<name>{_FULL_DAYS}|{_SURE_MONTHS})\b"),
        _latest,
        "floating",
        frozenset({*periods.WEEKDAYS, *periods.MONTHS}),
        tenses=LOOKING_BACK,
    ),
    Form(
        Pattern(rf"\b(?P<name>{_MONTH}|{_SHORT_DAYS}|{_SEASON}|{_QUARTER}|weekend)\b{_NOT_A_NAME}"),
        _latest,
        "floating",
        frozenset({*periods.WEEKDAYS, *periods.MONTHS, *periods.SEASONS, "q", "quarter"}),
        TIME_LEADS,
        LOOKING_BACK,
    ),
    Form(
        Pattern(rf"\b(?P<name>{_HOLIDAY})(?!\w)"),
        _latest,
        "floating",
        _HOLIDAYS_BEGIN,
        (TIME_LEADS | OTHER_LEADS | {CLAUSE_END}) - {"the"},
        LOOKING_BACK,
    ),
    Form(
        Pattern(r"\bon\s+the\s+(?P<day>\d\d?)(?:st|nd|rd|th)(?=\s*(?:[?.!,;]|\Z))"),
        lambda match, now: periods.day_of_month(int(match["day"]), now),
        "floating",
        _DIGITS,
        tenses=NOT_AHEAD,
    ),
    Form(
        Pattern(r"\bthe\s+(?P<unit>week|month|quarter|year)\b"),
        lambda match, now: periods.unit(match["unit"].casefold(), now),
        "deictic",
        frozenset({"week", "month", "quarter", "year"}),
        frozenset({"a part of it"}),
    ),
)
"""What times look like by themselves. Of two that overlap, the one that starts first counts, then the longer."""


def _named_in_year(match: re.Match[str], window: Window) -> Window | None:
    year = periods.unit("year", window.start)
    return periods.named(match["name"], year.start.year) if window == year else None


def _same_day(_: re.Match[str], window: Window) -> Window | None:
    """Of "Monday, 8 May" the date counts, whatever weekday it was."""
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
    Modifier(
        Pattern(rf"(?<!\w)(?P<name>{_NAMED})(?:,\s*|\s+)(?:(?:of|in)\s+)?(?:the\s+year\s+(?:of\s+)?)?\Z"),
        _named_in_year,
    ),
    Modifier(Pattern(rf"\b(?:{_FULL_DAYS}|{_SHORT_DAYS}),?\s+(?:the\s+)?\Z"), _same_day),
    Modifier(Pattern(rf"\b(?P<unit>{_FULL_DAYS}|weekend)\s+(?:of\s+)?\Z"), _day_of_week),
    Modifier(Pattern(rf"\b(?:the\s+)?(?P<unit>{_UNIT})\s+(?:of|that\s+began\s+on)\s+(?:the\s+)?\Z"), _unit_around),
    Modifier(
        Pattern(
            rf"\b(?:the\s+)?(?:very\s+)?(?P<number>{_ORDINAL})\s+(?P<unit>{_UNIT}|{_FULL_DAYS})\s+(?:of|in)\s+(?:the\s+)?\Z"
        ),
        _nth_inside,
    ),
    Modifier(
        Pattern(
            r"\b(?:the\s+)?(?P<part>early|mid|late|(?:first|second|last)\s+half(?=\s+of)|(?:beginning|start|middle|end)(?=\s+of))"
            r"(?:\s*-\s*|\s+(?:of\s+|in\s+)?)(?:the\s+)?\Z"
        ),
        _part,
    ),
    Modifier(
        Pattern(
            rf"\b(?:(?P<number>{_NUMBER})\s+|(?:the|last|that)\s+)?(?P<unit>{_COUNTED}|{_FULL_DAYS})s?"
            r"\s+(?P<side>before|prior\s+to|preceding|after|following)\s+(?:the\s+)?\Z"
        ),
        _beside,
    ),
    Modifier(Pattern(rf"\b(?:the\s+)?(?P<part>{_PART_OF_DAY})\s+(?:of|on)\s+(?:the\s+)?\Z"), _day_part),
)
"""What the words before a time make of it; they apply to what they give, until none fits any more."""
PART_AFTER: Final = Modifier(Pattern(rf"\A\s+(?P<part>{_PART_OF_DAY})\b"), _day_part)
"""The part of a day, said after the day: "yesterday morning"."""
