"""Times that an English query names: a window, an order, or an event that it is before or after. Times are in UTC.

`read` combines three kinds of cues. A *date* is a window relative to now or of its own year: `FORMS` finds it,
`MODIFIERS` ("the second week of") change it, a second date makes it a range ("from May to July"), and words such as
"since" open one side. An *order* is asked for by words such as "the first time" and "latest". A *relation* names an
event instead of a date: "before the move". *Sessions* are counted from the first or the last: "two sessions ago".

Ambiguous forms need a lead word: `May` can be a verb or a person, `2022` a number. A recurring time counts only if the
tense fits: "on Friday" is last Friday in "What did we say on Friday?", and no window in "Is the shop open on Friday?".
Word lists give the tense; a parser would cost more than a recall. `dateparser` was no alternative: it returns instants
instead of windows, knows no seasons, weekends, holidays or ranges, and reads "May I" as a date.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from operator import itemgetter
from typing import Final, Literal, NamedTuple

from dateutil.relativedelta import relativedelta

from salience.extract import periods
from salience.extract.periods import Window
from salience.extract.wordlists import load
from salience.records import TimeCue
from salience.text import ENGLISH_STOPWORDS, words

FLAGS: Final = re.ASCII | re.IGNORECASE
"""Flags of all patterns here; `re` compiles each pattern when it is first used."""
MAX_LENGTH: Final = 2000
"""Characters of a query that are read; a longer text is no question."""
RECENT_DAYS: Final = 30
"""Length of the window of "recently"."""
_WORDS: Final = re.compile("[a-z]+")
_LISTS: Final = load("time")
_ANYTHING: Final = ENGLISH_STOPWORDS.union(_LISTS["anything"])
"""Words that ask for anything at all."""
_PREFERENCES: Final = frozenset(_LISTS["preferences"])
"""Words that ask for anything of a kind."""

# --- Tense -----------------------------------------------------------------------------------------------------------

Tense = Literal["past", "coming", "unsaid"]
"""Direction of a time by the words around it; "unsaid" if no verb gives one."""
ALWAYS: Final = frozenset[Tense]({"past", "coming", "unsaid"})
LOOKING_BACK: Final = frozenset[Tense]({"past"})
"""A recurring time means the latest one only in the past tense: "on Friday", "in July", "at Christmas"."""
NOT_AHEAD: Final = frozenset[Tense]({"past", "unsaid"})
"""A day of a month means the latest one unless the words look ahead: "the minutes of 8 May"."""
PAST_FORMS: Final = frozenset(_LISTS["past_forms"])
NOT_PAST: Final = frozenset(_LISTS["not_past"])

_PAST_FORM = rf"(?:{'|'.join(sorted(PAST_FORMS))}|(?:did|was|were|had)n['’]t)\b"
_REGULAR = rf"(?!(?:{'|'.join(sorted(NOT_PAST))})\b)\w\w+(?<!e)ed\b"
_PARTICIPLE = rf"(?:{_PAST_FORM}|{_REGULAR})"
_DETERMINER = r"(?:the|an?|my|our|your|his|her|its|their|this|that)"
_BE = r"(?:\b(?:is|are|am|be|being|gets?)(?:n['’]t)?|\b(?:who|what|where|when|how|it|he|she|that)['’]s|['’](?:re|m))"
_NO_CLAUSE = r"(?!(?:who|what|which|that|where|when|how|why)\b)"  # "that is what happened" is no passive
_NO_AGENT = r"(?!(?:i|we|you|he|she|it|they)\b|(?-i:[A-Z]))"  # nor is "is the cake we baked"
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
_DIRECTION = rf"(?P<coming>{_PASSIVE}|{_AHEAD})|(?P<past>{_BACK}|\b{_PARTICIPLE})"


def directions(text: str) -> list[tuple[int, Tense]]:
    """Return the position and tense of the words in `text` that give a tense, in order."""
    found = re.finditer(_DIRECTION, text, FLAGS)
    return [(match.start(), "past" if match["past"] else "coming") for match in found]


def tense(found: Sequence[tuple[int, Tense]], until: int) -> Tense:
    """Return the tense of a time that ends at `until`: of the nearest direction before it, else the first after it."""
    before = bisect_left(found, until, key=itemgetter(0))
    return found[max(before - 1, 0)][1] if found else "unsaid"


# --- Forms of dates --------------------------------------------------------------------------------------------------

Groups = Mapping[str, str]
"""Groups of a match in lower case with single spaces; empty where a group did not match."""
Kind = Literal["fixed", "floating", "deictic"]
"""Fixed: has its year. Floating: the latest of its name. Deictic: relative to now."""


class Form(NamedTuple):
    """A form of dates.

    Attributes:
        pattern: regular expression of the form.
        read: (groups, now) -> window; a `ValueError` or `OverflowError` if there is no such day.
        kind: whether it depends on now.
        needs: lead words of which one must precede it; empty if it is a date by itself.
        tenses: tenses in which it counts.
        words: a text with the form contains at least one of these words; `DIGIT` stands for a digit.
    """

    pattern: str
    read: Callable[[Groups, datetime], Window]
    kind: Kind
    words: frozenset[str]
    needs: frozenset[str] = frozenset()
    tenses: frozenset[Tense] = ALWAYS


def one_of(names: Iterable[str]) -> str:
    """Return a pattern of alternatives, the longest first."""
    return f"(?:{'|'.join(sorted(names, key=len, reverse=True))})".replace(" ", r"\s+")


def _groups(match: re.Match[str]) -> Groups:
    return {name: " ".join((value or "").casefold().split()) for name, value in match.groupdict().items()}


NUMBERS: Final[Mapping[str, tuple[int, int]]] = {
    "a": (1, 1), "an": (1, 1), "one": (1, 1), "two": (2, 2), "three": (3, 3), "four": (4, 4), "five": (5, 5),
    "six": (6, 6), "seven": (7, 7), "eight": (8, 8), "nine": (9, 9), "ten": (10, 10), "eleven": (11, 11),
    "twelve": (12, 12), "a couple of": (2, 2), "a couple": (2, 2), "couple of": (2, 2), "couple": (2, 2),
    "few": (2, 4), "a few": (2, 4), "several": (3, 7),
}  # fmt: skip
"""Least and greatest meaning of a number."""
TURNS: Final[Mapping[str, tuple[int, Literal["last", "this", "next"]]]] = {
    "last": (1, "last"), "past": (1, "last"), "previous": (1, "last"), "this": (0, "this"), "current": (0, "this"),
    "next": (-1, "next"), "coming": (-1, "next"), "upcoming": (-1, "next"),
}  # fmt: skip
"""Units back, and the choice among recurring windows."""
DAYS: Final[Mapping[str, tuple[int, str]]] = {
    "today": (0, ""), "yesterday": (-1, ""), "tomorrow": (1, ""), "tonight": (0, "night"), "last night": (-1, "night"),
    "earlier today": (0, ""), "later today": (0, ""), **{f"this {part}": (0, part) for part in periods.DAY_PARTS},
}  # fmt: skip
"""Names of days relative to today: days from today, and the part of the day."""
CLAUSE_END: Final = "end of the clause"
"""Stands in for a lead word at the end of a clause."""
TIME_LEADS: Final = frozenset(
    {"in", "on", "during", "since", "until", "till", "before", "after", "over", "throughout", "within", "through"}
)
"""Words before a date, seldom before a person."""
OTHER_LEADS: Final = frozenset({"by", "of", "from", "between", "around", "at", "for", "the"})
"""Words before a date, and as often before other things."""

_FULL_DAYS = one_of(name for name in periods.WEEKDAYS if name.endswith("day"))
_SHORT_DAYS = one_of(name for name in periods.WEEKDAYS if not name.endswith(("day", "end")))
_PERSONS: Final = frozenset({"april", "may", "june", "march"})  # verbs and names as well as months
_SURE_MONTHS = one_of(name for name in periods.MONTHS if len(name) > 4 and name not in _PERSONS)
_MONTH = one_of(periods.MONTHS)
_ANY_UNIT = one_of(periods.UNITS)
_UNIT = one_of(set(periods.UNITS) - {"minute", "hour", "night"})
_LONG_UNIT = one_of(set(periods.UNITS) - {"minute", "hour", "night", "day"})
_ROLLING_UNIT = one_of(set(periods.UNITS) - {"night", "weekend"})
_LASTING_UNIT = one_of(set(periods.UNITS) - {"minute", "night", "day", "weekend"})  # "the last day" ends something
_NUMBER = rf"(?:\d{{1,3}}|{one_of(NUMBERS)})"
_ORDINAL = one_of(periods.ORDINALS)
_DAY = r"(?<![\w/.:$-])\d{1,2}(?:st|nd|rd|th)?(?![\w:/%]|\.\d)"
_DAYS = rf"{_DAY}(?:\s*(?:[-–]|to|and|or|through|until)\s*(?:the\s+)?(?:(?<=[-–])\d{{1,2}}\b|{_DAY}))?"
_DATED = rf"(?:{_DAYS}\s+(?:of\s+)?{_MONTH}|{_MONTH}\.?\s+(?:the\s+)?{_DAYS})"
_SEASON = one_of(periods.SEASONS)
_HOLIDAY = (
    one_of(re.sub(r"s\b", "['’]?s", name) for name in periods.HOLIDAYS)
    + rf"(?:[\s-]*{one_of(periods.HOLIDAY_SEASON)}\b)?(?!\s+(?:{'|'.join(_LISTS['holiday_things'])})\b)"
)
_QUARTER = r"(?:q[1-4]|(?:first|second|third|fourth|1st|2nd|3rd|4th)\s+quarter)"
_NAMED = rf"(?:{_DATED}|{_HOLIDAY}|{_SEASON}|{_QUARTER}|{_MONTH})"
_YEAR = r"(?:1[89]|20)\d\d"
_TURN = rf"(?:this\s+)?(?P<turn>{one_of(TURNS)})"
_LAST, _NEXT = r"(?:this\s+)?(?:last|past|previous)", r"(?:this\s+)?(?:next|coming|upcoming)"
_PART_OF_DAY = one_of(periods.DAY_PARTS)
_DAY_ORDINAL = rf"(?:\d{{1,2}}(?:st|nd|rd|th)|{one_of(periods.DAY_ORDINALS)})"
_AFTER_A_DAY = (  # "the 5th" of this month, but not "the 5th floor"
    rf"(?=\s*(?:[?.!,;]|\Z)|\s+(?:about|with|and|at|because|when|did|was|were|that|we|i|{_PART_OF_DAY}|in\s+the\s+{_PART_OF_DAY})\b)"
)
_NOT_OF_SUNDAYS = r"(?!\s+(?:roasts?|school|best|papers?|league)\b)"
_NOT_A_NAME = r"(?!['’]s\b|s\b|\s+(?!I\b)(?-i:[A-Z]))"  # "April's", "Mays", "Spring Boot"


def _number(words: str) -> tuple[int, int]:
    return NUMBERS[words] if words in NUMBERS else (int(words), int(words))


def _relative_day(groups: Groups, now: datetime) -> Window:
    days, part = DAYS[groups["day"]]
    day = periods.unit("day", now + timedelta(days=days))
    return periods.day_part(part, day.start) if part else day


def _date(groups: Groups, _: datetime) -> Window:
    """Read digits, with the day before the month unless the date is impossible that way: 5/23/2023."""
    year, month, day = int(groups["year"]), int(groups.get("month") or 1), int(groups.get("day") or 1)
    if year < 100:
        year += 2000 if year < 70 else 1900
    month, day = (day, month) if month > 12 and "swaps" in groups else (month, day)
    grain = "day" if groups.get("day") else "month" if groups.get("month") else "year"
    return periods.unit(grain, datetime(year, month, day, tzinfo=UTC))


def _day_of_month(groups: Groups, now: datetime) -> Window:
    """Return the latest day with this number in its month, up to today: "the 31st" in May is 31 March."""
    for months in range(3):
        try:
            day = (periods.floor("month", now) - relativedelta(months=months)).replace(day=_ordinal(groups["day"]))
        except ValueError:  # no such day in this month
            continue
        if day <= now:
            return periods.unit("day", day)
    raise ValueError("no such day near by")


def _ordinal(words: str) -> int:
    """Return the number of "5th" or "twenty-first"."""
    return periods.DAY_ORDINALS[words] if words in periods.DAY_ORDINALS else int(words[:-2])


def _other_day(_: Groups, now: datetime) -> Window:
    """Return the week before today."""
    today = periods.floor("day", now)
    return Window(today - timedelta(days=7), today)


def _ago(groups: Groups, now: datetime) -> Window:
    low, high = _number(groups["number"])
    return periods.back(groups["unit"], now, low, _number(groups["most"])[1] if groups["most"] else high)


def _unit_at_turn(groups: Groups, now: datetime) -> Window:
    steps, _ = TURNS[groups["turn"]]
    return periods.back(groups["unit"], now, steps, steps)


def _past(groups: Groups, now: datetime) -> Window:
    return periods.past(groups["unit"], _number(groups.get("number") or "one")[1], now)


def _latest(groups: Groups, now: datetime) -> Window:
    return periods.recurring(groups["name"], now, "latest")


DIGIT: Final = "0"
_DIGITS: Final = frozenset({DIGIT})
_TURNING: Final = frozenset(TURNS)
_DAY_WORDS: Final = _DIGITS.union(*(name.split("-") for name in periods.DAY_ORDINALS))
_HOLIDAY_WORDS: Final = frozenset(
    form for name in periods.HOLIDAYS for form in (name.split()[0], name.split()[0].removesuffix("s"))
)
_RECURRING: Final = frozenset(
    periods.WEEKDAYS.keys() | periods.MONTHS.keys() | periods.SEASONS.keys() | {"q", "quarter"}
)

FORMS: Final[Sequence[Form]] = (
    Form(
        r"(?<![\w./:-])(?P<year>\d{4})-(?P<month>\d\d)(?:-(?P<day>\d\d))?(?:(?=T\d)|(?![\w/-]|\.\d))",
        _date,
        "fixed",
        _DIGITS,
    ),
    Form(r"(?<![\w./:-])(?P<year>\d{4})/(?P<month>\d\d?)/(?P<day>\d\d?)(?![\w/-]|\.\d)", _date, "fixed", _DIGITS),
    Form(
        r"(?<![\w./:-])(?P<day>\d\d?)(?P<swaps>[/.])(?P<month>\d\d?)(?P=swaps)"
        r"(?P<year>\d{4}|(?<=/)\d\d)(?![\w/:-]|\.\d)",
        _date,
        "fixed",
        _DIGITS,
    ),
    Form(
        rf"(?:(?<![\w./:#$€£-])|(?<=\b\d{{4}}-))(?P<year>{_YEAR})(?![\w/:]|-(?!\d{{4}}\b)|[.,]\d)",
        _date,
        "fixed",
        _DIGITS,
        TIME_LEADS | OTHER_LEADS,
    ),
    Form(
        rf"(?<!as of )\b(?P<day>{one_of(DAYS)})\b",
        _relative_day,
        "deictic",
        frozenset(name.split()[-1] for name in DAYS),
    ),
    Form(r"\b(?:just\s+)?the\s+other\s+(?:day|night|week)\b", _other_day, "deictic", frozenset({"other"})),
    Form(
        rf"\b(?:on\s+)?the\s+(?P<day>{_DAY_ORDINAL}){_AFTER_A_DAY}",
        _day_of_month,
        "floating",
        _DAY_WORDS,
        tenses=NOT_AHEAD,
    ),
    Form(
        rf"\b(?:the\s+)?(?P<unit>{_UNIT}|night)\s+before\s+last\b",
        lambda groups, now: periods.back(groups["unit"], now, 2, 2),
        "deictic",
        frozenset({"before"}),
    ),
    Form(rf"\bthe\s+last\s+(?P<unit>{_LASTING_UNIT})\b", _past, "deictic", frozenset({"last"})),
    Form(rf"\b(?:this\s+)?past\s+(?P<unit>{_ROLLING_UNIT})\b", _past, "deictic", frozenset({"past"})),
    Form(rf"\b{_TURN}\s+(?P<unit>{_LONG_UNIT})\b", _unit_at_turn, "deictic", _TURNING),
    Form(
        rf"\b{_TURN}\s+(?P<name>{_FULL_DAYS}|{_SHORT_DAYS}|{_NAMED})\b",
        lambda groups, now: periods.recurring(groups["name"], now, TURNS[groups["turn"]][1]),
        "deictic",
        _TURNING,
    ),
    Form(rf"\b{_LAST}\s+(?P<number>{_NUMBER})\s+(?P<unit>{_ANY_UNIT})s?\b", _past, "deictic", _TURNING),
    Form(
        rf"\b{_NEXT}\s+(?P<number>{_NUMBER})\s+(?P<unit>{_ANY_UNIT})s?\b",
        lambda groups, now: periods.coming(groups["unit"], _number(groups["number"])[1], now),
        "deictic",
        _TURNING,
    ),
    Form(
        rf"(?<![\w.,-])(?<!half )(?P<number>{_NUMBER})(?:\s*(?:[-–]|or|to)\s*(?P<most>{_NUMBER}))?"
        rf"\s+(?P<unit>{_ANY_UNIT})s?\s+ago\b",
        _ago,
        "deictic",
        frozenset({"ago"}),
    ),
    Form(rf"\b(?P<name>{_DATED})\b", _latest, "floating", frozenset(periods.MONTHS), tenses=NOT_AHEAD),
    Form(
        rf"\b(?P<name>{_FULL_DAYS}|{_SURE_MONTHS})\b{_NOT_OF_SUNDAYS}",
        _latest,
        "floating",
        _RECURRING,
        tenses=LOOKING_BACK,
    ),
    Form(
        rf"\b(?P<name>{_MONTH}|{_SHORT_DAYS}|{_SEASON}|{_QUARTER}|weekend)\b{_NOT_A_NAME}",
        _latest,
        "floating",
        _RECURRING,
        TIME_LEADS | {"at"},  # "at the weekend"
        LOOKING_BACK,
    ),
    Form(
        rf"\b(?P<name>{_HOLIDAY})(?!\w)",
        _latest,
        "floating",
        _HOLIDAY_WORDS,
        (TIME_LEADS | OTHER_LEADS | {CLAUSE_END}) - {"the"},
        LOOKING_BACK,
    ),
)
"""Forms of dates. Of two overlapping dates, the one that starts first counts, then the longer one."""

# --- Modifiers -------------------------------------------------------------------------------------------------------


def _named_in_year(groups: Groups, window: Window) -> Window | None:
    return periods.named(groups["name"], window.start.year) if window == periods.unit("year", window.start) else None


def _of_day(groups: Groups, window: Window) -> Window | None:
    """Return the date of "Monday, 8 May", whatever weekday it was, and the evening of "the evening of 8 May"."""
    if window != periods.unit("day", window.start):
        return None
    return periods.day_part(groups["part"], window.start) if groups.get("part") else window


def _day_of_week(groups: Groups, window: Window) -> Window | None:
    return periods.nth(groups["unit"], window, 1) if window == periods.unit("week", window.start) else None


def _unit_around(groups: Groups, window: Window) -> Window | None:
    around = periods.unit(groups["unit"], window.start)
    return around if around.end >= window.end else None


def _day_of_the_month(groups: Groups, window: Window) -> Window | None:
    """Return the day of "the 5th of last month" or "the first of May"; None unless the window is a month."""
    is_month = window == periods.unit("month", window.start)
    return periods.unit("day", window.start.replace(day=_ordinal(groups["day"]))) if is_month else None


def _nth_inside(groups: Groups, window: Window) -> Window | None:
    inside = periods.nth(groups["unit"], window, periods.ORDINALS[groups["number"]])
    return inside if window.start <= inside.start and inside.end <= window.end else None


def _beside(groups: Groups, window: Window) -> Window:
    name, sign = groups["unit"], -1 if groups["side"][0] in "bp" else 1
    if not groups["number"]:
        return periods.beside(name, window, sign)
    low, high = _number(groups["number"])
    if name in periods.WEEKDAYS:
        return periods.hull(*(periods.beside(name, window, sign * number) for number in (low, high)))
    return periods.back(name, window.start, *sorted((-sign * low, -sign * high)))


MODIFIERS: Final[Sequence[tuple[str, Callable[[Groups, Window], Window | None]]]] = (
    (rf"(?<!\w)(?P<name>{_NAMED})(?:,\s*|\s+)(?:(?:of|in)\s+)?(?:the\s+year\s+(?:of\s+)?)?\Z", _named_in_year),
    (rf"\b(?:{_FULL_DAYS}|{_SHORT_DAYS}),?\s+(?:the\s+)?\Z", _of_day),
    (rf"\b(?P<unit>{_FULL_DAYS}|weekend)\s+(?:of\s+)?\Z", _day_of_week),
    (rf"\b(?:the\s+)?(?P<unit>{_UNIT})\s+(?:of|that\s+began\s+on)\s+(?:the\s+)?\Z", _unit_around),
    (
        rf"\b(?:the\s+)?(?:very\s+)?(?P<number>{_ORDINAL})\s+(?P<unit>{_UNIT}|{_FULL_DAYS})\s+(?:of|in)\s+(?:the\s+)?\Z",
        _nth_inside,
    ),
    (rf"\b(?:on\s+)?(?:the\s+)?(?P<day>{_DAY_ORDINAL})\s+of\s+(?:the\s+)?\Z", _day_of_the_month),
    (
        r"\b(?:the\s+)?(?P<part>early|mid|late|(?:first|second|last)\s+half(?=\s+of)|(?:beginning|start|middle|end)(?=\s+of))"
        r"(?:\s*-\s*|\s+(?:of\s+|in\s+)?)(?:the\s+)?\Z",
        lambda groups, window: periods.part(groups["part"], window),
    ),
    (
        rf"\b(?:(?P<number>{_NUMBER})\s+|(?:the|last|that)\s+)?(?P<unit>{_ANY_UNIT}|{_FULL_DAYS})s?"
        r"\s+(?P<side>before|prior\s+to|preceding|after|following)\s+(?:the\s+)?\Z",
        _beside,
    ),
    (rf"\b(?:the\s+)?(?P<part>{_PART_OF_DAY})\s+(?:of|on)\s+(?:the\s+)?\Z", _of_day),
)
"""Words before a date, and the window that they change it to (None if they do not fit); applied until none fits."""

# --- Dates in a text -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mention:
    """A date in a text.

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
    "since": ("start", None), "after": ("end", None), "before": (None, "start"), "prior to": (None, "start"),
    "until": (None, "end"), "till": (None, "end"), "up to": (None, "end"), "by": (None, "end"),
}  # fmt: skip
"""Lead words that open one side: the edges of the window that become start and end."""
_LEADS = one_of((TIME_LEADS | OTHER_LEADS | set(BOUNDS)) - {"the"})
_LEAD = rf"(?<![\w-])(?:(?:ever|back|only|sometime)\s+)?(?P<lead>{_LEADS}(?:\s+the)?|the)\s+\Z"
_STRAY_LEADS: Final = OTHER_LEADS - {"between", "by", "the"}
_BLOCK = r"\b(?:every|each|most|some|any)\s+\Z"
_STOP = r"\A\s*(?:[?.!,;:]|\Z)"
_ALONE = rf"\A\s+(?:{'|'.join(_LISTS['after_holidays'])})\b"
"""Words after a holiday that is no part of a name: "Christmas was", "Thanksgiving dinner", but not "the Easter egg"."""
_LINK = r"\A\s*(?:(?:and|to|or|till|until|through|thru)\s+(?:the\s+|in\s+)?|[-–—]\s*)\Z"
_OPENING = r"\b(?:from|between)\s+(?:the\s+)?\Z"
_PART_AFTER = rf"\s*(?:,\s*)?\s(?:in\s+the\s+|at\s+(?=night))?(?P<part>{_PART_OF_DAY})\b"
_NEAR: Final = 60
"""Most characters beside a date that can belong to it."""


def mentions(text: str, now: datetime) -> list[Mention]:
    """Return the dates that `text` names, in order, without overlaps.

    Args:
        text: any text; only English dates are found.
        now: the instant in UTC to which "yesterday" and a month without a year refer.
    """
    outer: list[Mention] = []
    for mention in _spot(text, now):
        while outer and outer[-1].until > mention.at:  # June in "June 2023" is part of the year's mention by now
            outer.pop()
        outer.append(mention)
    linked: list[Mention] = []
    for mention in outer:
        if linked and re.search(_LINK, text[linked[-1].until : mention.at], FLAGS):
            linked.append(_range(text, linked.pop(), mention))
        else:
            linked.append(mention)
    return [mention for mention in (_with_lead(text, mention) for mention in linked) if mention]


def _spot(text: str, now: datetime) -> list[Mention]:
    """Return the dates by their forms, each extended by the modifiers before it."""
    found: list[Mention] = []
    held = set(_WORDS.findall(text.casefold()))
    held |= _DIGITS if re.search(r"\d", text, FLAGS) else frozenset()
    for form in FORMS:
        if form.words.isdisjoint(held):
            continue  # a search for all patterns would take 0.3 ms
        for match in re.finditer(form.pattern, text, FLAGS):
            try:
                window = form.read(_groups(match), now)
            except (ValueError, OverflowError):  # no such day, or outside the calendar
                continue
            found.append(Mention(*match.span(), *window, form.kind, form.needs, form.tenses))
    apart: list[Mention] = []
    for mention in sorted(found, key=lambda mention: (mention.at, -mention.until)):
        if not apart or mention.at >= apart[-1].until:
            apart.append(mention)
    return [_with_part(text, _modified(text, mention)) for mention in apart]


def _with_part(text: str, mention: Mention) -> Mention:
    """Return the morning of "Tuesday morning" or "8 May in the morning"."""
    match = re.compile(_PART_AFTER, FLAGS).match(text, mention.until)
    if not match or not mention.window or mention.window != periods.unit("day", mention.window.start):
        return mention
    window = periods.day_part(_groups(match)["part"], mention.window.start)
    return replace(mention, until=match.end(), start=window.start, end=window.end)


def _modified(text: str, mention: Mention) -> Mention:
    before = text[max(0, mention.at - _NEAR) : mention.at]
    for pattern, modify in MODIFIERS:
        match = re.search(pattern, before, FLAGS)
        try:
            window = modify(_groups(match), mention.window) if match and mention.window else None
        except (ValueError, OverflowError):
            continue
        if match and window:
            at = mention.at - len(match[0])
            return _modified(text, replace(mention, at=at, start=window.start, end=window.end, needs=frozenset()))
    return mention


def _range(text: str, left: Mention, right: Mention) -> Mention:
    """Return the range from one date to another; a floating first date gets the year of the second."""
    if left.kind == "floating":
        left = _relative_to(text, left, right)
    if not left.window or not right.window:
        return right
    window = periods.hull(left.window, right.window)
    opening = re.search(_OPENING, text[max(0, left.at - _NEAR) : left.at], FLAGS)
    at, needs = (left.at - len(opening[0]), frozenset[str]()) if opening else (left.at, left.needs)
    kind: Kind = "deictic" if right.kind == "deictic" else "fixed"  # both have a year by now
    return Mention(at, right.until, *window, kind, needs, left.tenses | right.tenses)


def _relative_to(text: str, mention: Mention, reference: Mention) -> Mention:
    """Return a mention relative to the start of another one: the Friday in "last Friday, on 23 January"."""
    piece = text[mention.at : mention.until]
    found = _spot(piece, reference.start) if reference.start else []
    same = [again for again in found if again.until == len(piece)]
    return replace(mention, start=same[0].start, end=same[0].end) if same else mention


def _with_lead(text: str, mention: Mention) -> Mention | None:
    """Return a mention with its lead word, which can open one side; None if it needs one and has none."""
    before, after = text[max(0, mention.at - _NEAR) : mention.at], text[mention.until : mention.until + _NEAR]
    match = re.search(_LEAD, before, FLAGS)
    whole = _groups(match)["lead"] if match else ""
    lead = whole.removesuffix(" the")
    is_last = re.search(_STOP, after, FLAGS) or (CLAUSE_END in mention.needs and re.search(_ALONE, after, FLAGS))
    found = {whole, lead, CLAUSE_END if is_last else ""}
    if re.search(_BLOCK, before, FLAGS) or (mention.needs and mention.needs.isdisjoint(found)):
        return None
    if not match or (lead in _STRAY_LEADS and not mention.needs):  # it may belong to a verb: "volunteer at last week"
        return mention
    start, end = BOUNDS.get(lead, ("start", "end"))
    return replace(
        mention,
        at=mention.at - len(match[0]),
        start=getattr(mention, start) if start else None,
        end=getattr(mention, end) if end else None,
    )


# --- The time that a memory states ------------------------------------------------------------------------------------

_STATING: Final = frozenset(
    {"yesterday", "tomorrow", "ago", "last", "past", "next", "previous", "coming", "upcoming", "other", "year"}
    | {name for name in periods.WEEKDAYS if name.endswith(("day", "end"))}
    | (periods.MONTHS.keys() - {"may", "march", "mar"})
    | periods.SEASONS.keys()
    | {name for name in periods.HOLIDAYS if " " not in name}
    | {"valentine", "eve"}
)
"""A text that states a time contains one of these words, or matches `_STATING_DATE`; most texts do not."""
_STATING_DATE: Final = re.compile(rf"\b(?:May|Mar(?:ch)?)\b|\b{_YEAR}\b|\d(?:st|nd|rd|th)\b|\d[/.]\d")
_PRESENT = rf"(?:{_BE}|\bhappens)\b"
_TWO_DAYS: Final = timedelta(days=2)
_FAR: Final = 3
"""How many times as far away as the latest date the next one can be, and still be meant."""
_LATER: Final = (timedelta(days=7), timedelta(days=31), timedelta(days=366))
"""Steps to the next weekday, day of a month, and date."""


def event(text: str, created_at: datetime) -> Window | None:
    """Return the time that a memory's text states of what it tells, or None.

    "Yesterday I met Ann" states the day before `created_at`, "we meet on Friday" the next Friday. Of several times, the
    first one counts that does not contain `created_at`.

    Args:
        text: a text in English.
        created_at: the instant in UTC to which its times refer.
    """
    text = text[:MAX_LENGTH]
    if _STATING.isdisjoint(_WORDS.findall(text.casefold())) and not _STATING_DATE.search(text):
        return None  # reading a time takes 0.3 ms, which a bulk import would notice
    found = mentions(text, created_at)
    around = directions(text) if any(mention.kind == "floating" for mention in found) else []
    for mention in found:
        mention = _stated_date(text, mention, tense(around, mention.until), created_at)
        window = mention.window
        if window and not window.start <= created_at < window.end:
            return window
    return None


def _stated_date(text: str, mention: Mention, direction: Tense, now: datetime) -> Mention:
    """Return a weekday, month or date without a year as the one that a statement means.

    In the past tense, it is the latest one; else the next one, unless the latest one is much nearer.
    """
    if mention.kind != "floating" or direction == "past" or not mention.window or mention.window.end > now:
        return mention
    for step in _LATER:
        try:
            coming = _relative_to(text, mention, Mention(0, 0, now + step, now + step + step, "fixed"))
        except OverflowError:  # outside the calendar
            return mention
        if coming.window and coming.window.start > mention.window.start:
            is_near = coming.window.start - now <= _FAR * max(now - mention.window.end, timedelta())
            return coming if direction == "coming" or is_near else mention
    return mention


# --- Orders and events -----------------------------------------------------------------------------------------------

Relation = Literal["before", "after"]


class OrderForm(NamedTuple):
    """Words that ask for an order.

    Attributes:
        pattern: regular expression of the words; a group `cue` marks the words that name the order.
        order: the order; None for the window of "recently" only.
        is_vague: whether a date beside these words makes them redundant.
    """

    pattern: str
    order: Literal["earliest", "latest"] | None
    is_vague: bool = False


class Event(NamedTuple):
    """A reference to an event: its position, whether the query is about before or after it, and its words."""

    at: int
    until: int
    relation: Relation
    anchor: str


_WHOSE = r"\b(?:the|my|our|your|his|her|their|its|\w+['’]s)\s+"
_LINKS = "of|and|or|to|in|at|on|for|from|is|was|are|were|but|that"
_PLACES = (  # things that are first or last in a row, not in time
    "name|names|place|person|row|column|line|lines|page|item|element|character|letter|digits?|words?|chapter|paragraph"
    "|section|argument|parameter|step|steps"
)
_FIRST_THINGS = "aid|class|language|half|floor|lady|hand|grade|base|degree|responders?|thing|impression"
_LAST_THINGS = "resort|straw|minute|mile|chance|supper|stand|legs|laugh|ditch"
_CURRENT_THINGS = (
    "accounts?|affairs|events?|directory|folder|working|users?|line|row|page|file|thread|process|density|draw|sensor"
)
_SUBJECT = (  # with or without auxiliary: "did Joanna", "we"
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
    OrderForm(r"\bat\s+first\b(?!\s+(?:glance|sight|light|hand))", "earliest"),
    OrderForm(rf"{_WHOSE}(?:very\s+)?(?P<cue>first)\s+(?!(?:{_LINKS}|{_PLACES}|{_FIRST_THINGS})\b)\w", "earliest"),
    OrderForm(rf"{_SUBJECT}(?P<cue>first)\s+(?!(?:{_NO_VERB}|{_PLACES}|{_FIRST_THINGS})\b)[a-z]", "earliest"),
    OrderForm(r"\b(?:did|had)\s+(?:[\w'’.-]+\s+){1,8}?(?P<cue>first)(?=\s*(?:[?.!,;]|\Z))", "earliest"),
    OrderForm(r"(?<!how long )\b(?:did|had)\s+(?:[\w'’.-]+\s+){2,8}?(?P<cue>last)(?=\s*(?:[?.!,;]|\Z))", "latest"),
    OrderForm(r"\b(?:the\s+)?(?:very\s+)?last\s+time\b|\bmost\s+recent(?:ly)?\b|\bnewest\b", "latest"),
    OrderForm(r"(?<!\bat )(?<!\bat the )(?<![:/@'\"`_-])\blatest\b(?![/'\"`_])", "latest"),  # no name: "app:latest"
    OrderForm(rf"{_WHOSE}(?:very\s+)?(?P<cue>last)\s+(?!(?:{_LINKS}|{_PLACES}|{_LAST_THINGS})\b)\w", "latest"),
    OrderForm(rf"{_SUBJECT}(?P<cue>last)\s+(?!(?:{_NO_VERB}|{_PLACES}|{_LAST_THINGS})\b)[a-z]", "latest"),
    OrderForm(r"\brecent(?:ly)?\b|\blately\b|\bof\s+late\b", None, is_vague=True),
    OrderForm(
        r"\b(?:currently|presently|nowadays|these\s+days|right\s+now|at\s+(?:the\s+moment|present))\b"
        r"|\bas\s+of\s+(?:now|today)\b",
        "latest",
        is_vague=True,
    ),
    OrderForm(
        r"(?<=\w\s)(?<!\buntil )(?<!\btill )(?<!\bby )(?<!\bfrom )(?<!\bbefore )now\b"
        r"(?!,|\s+(?:and|or|then|that|on)\b)",
        "latest",
        is_vague=True,
    ),
    OrderForm(rf"{_WHOSE}(?P<cue>current)\s+(?!(?:{_LINKS}|{_CURRENT_THINGS})\b)\w", "latest", is_vague=True),
)
"""Words that ask for an order; of several in a query, the first one in this table counts."""

RELATIONS: Final[Mapping[str, Relation]] = {
    "before": "before", "prior to": "before", "until": "before", "till": "before", "after": "after", "since": "after",
}  # fmt: skip
_DAILY = r"(?:work|school|class|breakfast|lunch|dinner|bed|bedtime|midnight|noon|dark)"
"""Daily events, which are not looked up: "what does she do after work"."""
_OWN_AFTER = "".join(rf"(?<!\b{verb} )" for verb in "look looks looked looking running named chased".split())
"""Verbs that "after" belongs to."""
_AMOUNT = rf"(?:\d+|{one_of(NUMBERS)})"
EVENT = (
    rf"(?<![\w-])(?:(?:the|{_AMOUNT})\s+{_ANY_UNIT}s?\s+)?(?:(?:right|just|shortly|soon|immediately|ever)\s+)?"
    rf"{_OWN_AFTER}(?P<word>{one_of(RELATIONS)})\s+"
    rf"(?!(?:that|this|then|it|all|long|hours|now|you|and|or|what|which|who|whom|how|when|while|further|there|but|because|so|if)\b)"
    rf"(?!{_AMOUNT}\s+(?:more\s+)?{_ANY_UNIT}s?\b)(?!{_DAILY}\s*(?:[,.;:?!]|\Z))"
    r"(?P<anchor>(?=[^,;?!()\n—]*[a-z])(?:[^,.;:?!()\n—]|[.:](?=\w)){1,120}(?!\w))"
)
_CLAUSE = r"\s+(?:but|because|although|though|whereas)\b"
_QUESTION = r"\s+(?:what|where|who|which|how|why|when|did|does|do)\b"
_STATED = (  # text between a date and the day of its statement: "last week, as mentioned on 6 November"
    r"[\s,]*(?:(?:as|that|which|he|she|they|i|we|you|was|were)\s+)*"
    r"(?:(?:mentioned|said|told|shared|discussed|described|wrote)\s+)?"
)

# --- Sessions --------------------------------------------------------------------------------------------------------

_SESSION = r"(?:session|chat|conversation)"
_OUR = r"(?:(?:the|our|my|your)\s+)?"
_OF_ALL = r"(?!\s+(?:with|about|on|of|for)\s+\w)"  # "the first chat about the trip" is one of those about the trip
_FROM_THE_END: Final = {"last": -1, "latest": -1, "most recent": -1, "previous": -1, "penultimate": -2}
_NTH = rf"(?:{one_of((*periods.DAY_ORDINALS, *_FROM_THE_END))}|\d{{1,4}}(?:st|nd|rd|th))"
SESSION_FORMS: Final[Sequence[str]] = (
    rf"\b(?P<number>{_NUMBER})\s+{_SESSION}s?\s+ago\b",
    rf"\b{_OUR}{_SESSION}\s+before\s+(?P<before>(?:the\s+|our\s+)?last)(?:\s+(?:one|{_SESSION}))?\b",
    rf"\b{_OUR}(?P<side>first|last|past|previous)\s+(?P<number>{_NUMBER})\s+{_SESSION}s\b{_OF_ALL}",
    rf"(?<!\bhis )(?<!\bher )(?<!\btheir )\b{_OUR}(?:very\s+)?(?P<nth>{_NTH})\s+{_SESSION}\b{_OF_ALL}",
    rf"\b{_SESSION}\s+(?:number\s+|no\.?\s*|#\s*)?(?P<count>\d{{1,4}})\b(?!\s*(?:%|am|pm|h|hours|minutes)\b)",
    r"\b(?P<last>(?:the\s+)?last\s+time)\s+(?:that\s+)?(?:we|i|you)\s+(?:talked|spoke|chatted|discussed\s+\w+)\b",
    r"\b(?:talk|speak|chat|discuss|say|mention|tell)(?:\s+(?:about|to|me|you|each|other))*"
    r"\s+(?P<last>(?:the\s+)?last\s+time)(?=\s*(?:[?.!,;]|\Z))",
)
"""Words that count sessions; the first form that matches counts."""


def _sessions(text: str) -> tuple[int, int, tuple[int, int]] | None:
    """Return the position of words that count sessions, and the first and last of these; negative from the end."""
    for pattern in SESSION_FORMS:
        match = re.search(pattern, text, FLAGS)
        if match and not re.search(r"\b(?:since|before|after|until)\s+\Z", text[: match.start()], FLAGS):
            groups, (at, until) = _groups(match), match.span("last" if "last" in match.re.groupindex else 0)
            return at, until, _places(groups)
    return None


def _places(groups: Groups) -> tuple[int, int]:
    if "side" in groups:
        number = _number(groups["number"])[1]
        return (1, number) if groups["side"] == "first" else (-number, -1)
    if "number" in groups:
        low, high = _number(groups["number"])
        return -high, -low
    if "count" in groups:
        place = int(groups["count"])
    elif "nth" in groups:
        nth = groups["nth"]
        place = _FROM_THE_END[nth] if nth in _FROM_THE_END else _ordinal(nth)
    else:
        place = -2 if "before" in groups else -1
    return place, place


# --- Reading a query -------------------------------------------------------------------------------------------------

_TRIGGERS: Final = frozenset(
    {*"0123456789", *periods.WEEKDAYS, *periods.MONTHS, *periods.SEASONS, *periods.DAY_PARTS, *periods.UNITS}
    | {f"{unit}s" for unit in periods.UNITS}
    | {name for name in periods.HOLIDAYS if " " not in name}  # the others hold a weekday, a month, a day or a year
    | {"prior", "after", "before", "since", "until", "till", "years", "christmas", "valentine", "eve"}
    | set("today tonight yesterday tomorrow ago first last latest earliest newest recent recently lately late".split())
    | {"session", "sessions", "chat", "chats", "conversation", "conversations", "other"}
    | set("now currently current presently present moment these nowadays originally initially original initial".split())
)
"""Words and digits; a text that names a time contains at least one."""


def read(text: str, now: datetime) -> TimeCue | None:
    """Return the time that `text` is about, or None if it names none.

    Of several dates, one relative to now counts ("what did I say last week about the trip of May 2022?"), else the
    first. A question for a time ("when did ...") names none.

    Args:
        text: a query in English.
        now: the instant of the query in UTC.
    """
    text = text[:MAX_LENGTH]
    if _TRIGGERS.isdisjoint(re.findall(r"[a-z]+|\d", text.casefold())):
        return None  # most queries: a search for all patterns takes a quarter of a recall
    if counted := _sessions(text):
        at, until, places = counted
        return TimeCue((text[at:until].strip(),), sessions=places)
    found = mentions(text, now)
    around = directions(text) if any(mention.tenses != ALWAYS for mention in found) else []
    event = _event(text, found)
    directed = [one for one in found if tense(around, one.until) in one.tenses]
    if found and _is_light(text, [text[one.at : one.until] for one in found]):
        directed = _of_light_question(text, found, around, now) or directed
    date = _meant(text, directed, event)
    taken = [(piece.at, piece.until) for piece in (*found, event) if piece]
    order, ordered_at = _order(text, taken, is_dated=date is not None)
    start, end = (date.start, date.end) if date else (None, None)
    beside = _days_beside(text, date)
    fades = order is not None and order.order is None and not date
    if fades:
        try:
            start, end = periods.past("day", RECENT_DAYS, now)
        except (ValueError, OverflowError):  # outside the calendar
            return None
    runs: list[tuple[int, int]] = []
    for at, until in sorted([*((piece.at, piece.until) for piece in (date, event) if piece), *ordered_at]):
        joined = runs.pop()[0] if runs and at <= runs[-1][1] else at
        runs.append((joined, until))
    cue = TimeCue(
        tuple(text[at:until].strip() for at, until in runs),
        start,
        end,
        order.order if order else None,
        event.relation if event else None,
        event.anchor if event else "",
        fades=fades,
        told_from=beside.start if beside else None,
        told_until=beside.end if beside else None,
    )
    return cue if cue.start or cue.end or cue.order or cue.relation else None


def _of_light_question(
    text: str, found: Sequence[Mention], around: Sequence[tuple[int, Tense]], now: datetime
) -> list[Mention]:
    """Return the dates of a question about nothing but a time, in whatever tense; empty if they need a past tense.

    "Tuesday morning" and "Tell me about June" are the latest ones. "What do we do on Friday?" means the next one, and
    so does "What's on Friday?", unless the latest one is much nearer.
    """
    windows = [(one, one.window) for one in found if one.window]
    if around:
        coming = [one for one, _ in windows if tense(around, one.until) == "coming"]
        return [_stated_date(text, one, "coming", now) for one in coming]
    if re.search(_PRESENT, text, FLAGS):
        days = [one for one, window in windows if window.end - window.start <= _TWO_DAYS]
        return [_stated_date(text, one, "unsaid", now) for one in days]
    return [one for one in found if "past" in one.tenses]


def _meant(text: str, found: list[Mention], event: Event | None) -> Mention | None:
    """Return the date that the query is about."""
    for left, right in pairwise(found):
        if left.kind != "fixed" and right.kind == "fixed" and re.fullmatch(_STATED, text[left.until : right.at], FLAGS):
            left = _relative_to(text, left, right)
            if not left.window or not right.window:
                return right
            return Mention(left.at, right.until, *periods.hull(left.window, right.window), "fixed")
        if right.kind == "floating" and left.start and left.end and not text[left.until : right.at].strip():
            inner = _relative_to(text, right, replace(left, start=left.end - timedelta(days=1)))
            if left.window == periods.unit("year", left.start) and inner.start and inner.start >= left.start:
                return replace(inner, at=left.at, kind="fixed")  # "last year over Christmas"
    date = next((mention for mention in found if mention.kind == "deictic"), found[0] if found else None)
    if date and date.window and event and event.until == date.at:  # "after his trip in August" is since August
        return replace(date, end=None) if event.relation == "after" else replace(date, start=None)
    return date


def _days_beside(text: str, date: Mention | None) -> Window | None:
    """Return the days of a holiday and those beside it; None for other dates, and for a part or a side of a holiday."""
    name = re.search(rf"\b{_HOLIDAY}", text[date.at : date.until], FLAGS) if date else None
    rule = periods.holiday(name[0]) if name else None
    if not date or not date.window or not name or not rule:
        return None
    try:
        is_whole = date.window in (
            periods.named(name[0], year) for year in (date.window.start.year, date.window.end.year)
        )
        return periods.around(rule, date.window) if is_whole else None
    except (ValueError, OverflowError):  # outside the calendar
        return None


def _order(
    text: str, taken: Sequence[tuple[int, int]], *, is_dated: bool
) -> tuple[OrderForm | None, list[tuple[int, int]]]:
    """Return the first match of `ORDER_FORMS` that overlaps no other cue, and its position."""
    for form in ORDER_FORMS:
        if form.is_vague and is_dated:
            continue
        for match in re.finditer(form.pattern, text, FLAGS):
            at, until = match.span("cue" if "cue" in match.re.groupindex else 0)
            if not any(start < until and at < end for start, end in taken):
                return form, [(at, until)]
    return None, []


def _event(text: str, found: list[Mention]) -> Event | None:
    """Return the first event that the query refers to."""
    for match in re.finditer(EVENT, text, FLAGS):
        at, start = match.start("word"), match.start("anchor")
        if any(mention.at <= at < mention.until for mention in found):
            continue
        until = min([match.end(), *(mention.at for mention in found if mention.at >= start)])
        anchor = re.split(_CLAUSE, text[start:until], maxsplit=1, flags=FLAGS)[0]
        if not text[: match.start()].strip():  # the question follows the event
            anchor = re.split(_QUESTION, anchor, maxsplit=1, flags=FLAGS)[0]
        if anchor.strip():
            return Event(match.start(), start + len(anchor), RELATIONS[_groups(match)["word"]], anchor.strip())
    return None


def asks_only_time(text: str, cue: TimeCue, names: Iterable[str] = ()) -> bool:
    """Return whether `text` asks for anything from a window: "What did Ann and I decide in May?".

    Args:
        text: the query.
        cue: its time cue.
        names: names of speakers in normal form; the query can contain them.
    """
    is_window = cue.start is not None or cue.end is not None or cue.sessions is not None
    return is_window and cue.relation is None and _is_light(text, cue.words, names)


def _is_light(text: str, without: Iterable[str], names: Iterable[str] = ()) -> bool:
    """Return whether `text`, without some runs and names, has no word of content."""
    return set(words(_without(text, without))) <= _ANYTHING.union(_PREFERENCES, *map(words, names))


def _without(text: str, runs: Iterable[str]) -> str:
    for run in runs:  # with the end of "last week's meeting"
        text = re.sub(rf"{re.escape(run)}(?:['’]s\b)?", " ", text)
    return text


def preferences(text: str, cue: TimeCue) -> str:
    """Return the words of a question about a time alone that some memories of that time fit better: "decide".

    Those of a holiday include its name, since people who tell of the holiday often name it.
    """
    named = [name for run in cue.words if cue.told_from for name in re.findall(rf"\b{_HOLIDAY}", run, FLAGS)]
    found = words(" ".join([_without(text, cue.words), *named]))
    return " ".join(word for word in found if word not in _ANYTHING and word not in periods.HOLIDAY_SEASON)
