"""Calendar periods as windows in UTC: units, weekdays, months, seasons, holidays, and parts of them.

Weeks begin on Monday (ISO 8601); a weekend is Saturday and Sunday. Seasons are the meteorological ones of the northern
hemisphere, three months each; a winter belongs to the year in which it begins. Outside the years 1 to 9999 Python
raises `ValueError` or `OverflowError`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, NamedTuple

from dateutil.easter import easter
from dateutil.relativedelta import FR, MO, SA, SU, TH, TU, WE, relativedelta


class Window(NamedTuple):
    """The time from `start` to before `end`; `start < end`."""

    start: datetime
    end: datetime


UNITS: Final[Mapping[str, tuple[Any, str]]] = {
    "minute": (relativedelta(minutes=1), "hour"),
    "hour": (relativedelta(hours=1), "hour"),
    "day": (relativedelta(days=1), "day"),
    "night": (relativedelta(days=1), "day"),
    "week": (relativedelta(weeks=1), "week"),
    "weekend": (relativedelta(weeks=1), "weekend"),
    "fortnight": (relativedelta(weeks=2), "week"),
    "month": (relativedelta(months=1), "month"),
    "quarter": (relativedelta(months=3), "quarter"),
    "year": (relativedelta(years=1), "year"),
}
"""Units of time: the length of one, and the calendar unit of a window such as "3 days ago"."""

WEEKDAYS: Final[Mapping[str, Any]] = {
    "monday": MO, "tuesday": TU, "wednesday": WE, "thursday": TH, "friday": FR, "saturday": SA, "sunday": SU,
    "mon": MO, "tue": TU, "tues": TU, "wed": WE, "thu": TH, "thur": TH, "thurs": TH, "fri": FR, "sat": SA, "sun": SU,
    "weekend": SA,
}  # fmt: skip
"""Names of weekdays; a weekend starts on Saturday and has two days."""

MONTHS: Final[Mapping[str, int]] = {
    "january": 1, "february": 2, "march": 3, "april": 4, "may": 5, "june": 6, "july": 7, "august": 8, "september": 9,
    "october": 10, "november": 11, "december": 12, "jan": 1, "feb": 2, "mar": 3, "apr": 4, "jun": 6, "jul": 7,
    "aug": 8, "sep": 9, "sept": 9, "oct": 10, "nov": 11, "dec": 12,
}  # fmt: skip
SEASONS: Final[Mapping[str, int]] = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
"""First month of each season."""

ORDINALS: Final[Mapping[str, int]] = {
    "first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "1st": 1, "2nd": 2, "3rd": 3, "4th": 4, "5th": 5,
    "last": -1, "final": -1,
}  # fmt: skip

_UNITS: Final = "first second third fourth fifth sixth seventh eighth ninth".split()
DAY_ORDINALS: Final[Mapping[str, int]] = {
    word: day
    for day, word in enumerate(
        [
            *_UNITS, "tenth", "eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth",
            "seventeenth", "eighteenth", "nineteenth", "twentieth", *(f"twenty-{word}" for word in _UNITS),
            "thirtieth", "thirty-first",
        ],
        start=1,
    )
}  # fmt: skip
"""Days of a month in words."""


class Holiday(NamedTuple):
    """A holiday.

    Attributes:
        step: from 1 January to its first day; from Easter Sunday if it `moves` with it.
        days: its length.
        before, after: days beside it in which people also tell of it: "The in-laws stayed over Christmas", 27 December.
        moves: whether it moves with Easter.
    """

    step: Any
    days: int = 1
    before: int = 0
    after: int = 2
    moves: bool = False


_CHRISTMAS = Holiday(relativedelta(month=12, day=24), 3, before=4, after=7)
_NEW_YEAR = Holiday(relativedelta(month=1, day=1), before=2, after=4)
_VALENTINE = Holiday(relativedelta(month=2, day=14))
_INDEPENDENCE_DAY = Holiday(relativedelta(month=7, day=4), before=1)
_LABOR_DAY = Holiday(relativedelta(month=9, day=1, weekday=MO(1)))
_THANKSGIVING = Holiday(relativedelta(month=11, day=1, weekday=TH(4)), before=2, after=4)

HOLIDAYS: Final[Mapping[str, Holiday]] = {
    "new years eve": Holiday(relativedelta(month=12, day=31)),
    "new years day": Holiday(relativedelta(month=1, day=1)),
    "new years": _NEW_YEAR, "new year": _NEW_YEAR,
    "valentines day": _VALENTINE, "valentines": _VALENTINE,
    "st patricks day": Holiday(relativedelta(month=3, day=17)),
    "mothers day": Holiday(relativedelta(month=5, day=1, weekday=SU(2))),
    "memorial day": Holiday(relativedelta(month=5, day=31, weekday=MO(-1))),
    "fathers day": Holiday(relativedelta(month=6, day=1, weekday=SU(3))),
    "fourth of july": _INDEPENDENCE_DAY, "independence day": _INDEPENDENCE_DAY,
    "labor day": _LABOR_DAY, "labour day": _LABOR_DAY,
    "halloween": Holiday(relativedelta(month=10, day=31), before=1),
    "thanksgiving day": _THANKSGIVING, "thanksgiving": _THANKSGIVING,
    "black friday": Holiday(relativedelta(month=11, day=1, weekday=TH(4), days=1)),
    "christmas eve": Holiday(relativedelta(month=12, day=24)),
    "christmas day": Holiday(relativedelta(month=12, day=25)),
    "christmas": _CHRISTMAS, "xmas": _CHRISTMAS,
    "boxing day": Holiday(relativedelta(month=12, day=26)),
    "ash wednesday": Holiday(timedelta(days=-46), moves=True),
    "palm sunday": Holiday(timedelta(days=-7), moves=True),
    "good friday": Holiday(timedelta(days=-2), moves=True),
    "easter sunday": Holiday(timedelta(days=0), moves=True),
    "easter monday": Holiday(timedelta(days=1), moves=True),
    "easter": Holiday(timedelta(days=-2), 3, before=2, after=5, moves=True),
    "pentecost": Holiday(timedelta(days=49), moves=True),
}  # fmt: skip
"""The Christian holidays and those of the United States by their names in lower case without apostrophes."""
HOLIDAY_SEASON: Final = ("time", "season", "break", "holiday", "holidays", "vacation")
"""Words after a holiday that mean the days of the holiday: "the Christmas holidays"."""

PARTS: Final[Mapping[str, tuple[float, float]]] = {
    "early": (0.0, 1 / 3), "beginning": (0.0, 1 / 3), "start": (0.0, 1 / 3), "mid": (1 / 3, 2 / 3),
    "middle": (1 / 3, 2 / 3), "late": (2 / 3, 1.0), "end": (2 / 3, 1.0), "first half": (0.0, 0.5),
    "second half": (0.5, 1.0), "last half": (0.5, 1.0),
}  # fmt: skip
"""Parts of a period as shares of it; early, mid and late are thirds."""

DAY_PARTS: Final[Mapping[str, tuple[int, int]]] = {
    "morning": (5, 12), "afternoon": (12, 18), "evening": (17, 24), "night": (18, 30),
}  # fmt: skip
"""Hours of the parts of a day; a night ends after midnight."""

_PIECE = re.compile(r"[a-z]+|\d+")


def floor(grain: str, at: datetime) -> datetime:
    """Return the start of the hour, day, week, weekend, month, quarter or year that contains an instant."""
    if grain == "hour":
        return at.replace(minute=0, second=0, microsecond=0)
    day = at.replace(hour=0, minute=0, second=0, microsecond=0)
    if grain in ("week", "weekend"):
        return day + timedelta(days=(5 if grain == "weekend" else 0) - day.weekday())
    if grain == "day":
        return day
    month = {"month": day.month, "quarter": day.month - (day.month - 1) % 3}.get(grain, 1)
    return day.replace(month=month, day=1)


def unit(name: str, instant: datetime) -> Window:
    """Return the calendar unit of `instant`; for minutes it is the hour, for a fortnight the week."""
    grain = UNITS[name][1]
    start = floor(grain, instant)
    return Window(start, start + (timedelta(days=2) if grain == "weekend" else UNITS[grain][0]))


def back(name: str, instant: datetime, low: int, high: int) -> Window:
    """Return the units from `high` to `low` steps before `instant`; negative steps are after it."""
    step = UNITS[name][0]
    return hull(unit(name, instant - step * high), unit(name, instant - step * low))


def past(name: str, number: int, now: datetime) -> Window:
    """Return the last `number` units up to now: to the end of today, or of this hour for hours and minutes."""
    small = "hour" if UNITS[name][1] == "hour" else "day"
    return Window(floor(small, now - UNITS[name][0] * number), unit(small, now).end)


def coming(name: str, number: int, now: datetime) -> Window:
    """Return the next `number` units from now on, to the end of the day."""
    return Window(now, unit("day", now + UNITS[name][0] * number).end)


def beside(name: str, window: Window, number: int) -> Window:
    """Return the `number`th unit after a window, or before it if negative.

    Weekdays and weekends are the nearest ones; other units are adjacent to the window.
    """
    if name in WEEKDAYS:
        return weekday(name, window.start - timedelta(days=1) if number < 0 else window.end, number)
    step = UNITS[name][0]
    if number < 0:
        return Window(window.start + step * number, window.start + step * (number + 1))
    return Window(window.end + step * (number - 1), window.end + step * number)


def nth(name: str, window: Window, number: int) -> Window:
    """Return the `number`th unit or weekday inside a window, from 1; -1 is the last. A week is seven days."""
    if name in WEEKDAYS:
        return weekday(name, window.start if number > 0 else window.end - timedelta(days=1), number)
    step = UNITS[name][0]
    start = window.start + step * (number - 1) if number > 0 else window.end + step * number
    return Window(start, start + step)


def weekday(name: str, instant: datetime, number: int) -> Window:
    """Return the `number`th such weekday or weekend on or after the day of `instant`; on or before it if negative."""
    start = floor("day", instant) + relativedelta(weekday=WEEKDAYS[name](number))
    return Window(start, start + timedelta(days=2 if name == "weekend" else 1))


def part(name: str, window: Window) -> Window:
    """Return a part of a window, in whole days if the window has at least three."""
    length = window.end - window.start
    start, end = (window.start + length * share for share in PARTS[name])
    return Window(start, end) if length < timedelta(days=3) else Window(floor("day", start), floor("day", end))


def day_part(name: str, day: datetime) -> Window:
    """Return the morning, afternoon, evening or night of the day that begins at `day`."""
    start, end = (day + timedelta(hours=hours) for hours in DAY_PARTS[name])
    return Window(start, end)


def hull(one: Window, other: Window) -> Window:
    """Return the smallest window that contains both."""
    return Window(min(one.start, other.start), max(one.end, other.end))


def named(words: str, year: int) -> Window:
    """Return the month, days, season, quarter or holiday with this name in a year.

    Args:
        words: such as `May`, `8th of May`, `July 3 to 7`, `summer`, `Q3`, `third quarter`, `New Year's Eve`.
        year: the year in which it begins.

    Raises:
        ValueError: there is no such day, or no such name.
    """
    pieces = _PIECE.findall(words.casefold().replace("'", "").replace("’", ""))
    first = datetime(year, 1, 1, tzinfo=UTC)
    if rule := holiday(words):
        sunday = first.replace(month=easter(year).month, day=easter(year).day) if rule.moves else first
        return Window(sunday + rule.step, sunday + rule.step + timedelta(days=rule.days))
    numbers = [int(piece) for piece in pieces if piece.isdigit()]
    for piece in pieces:
        if piece in SEASONS:
            start = first.replace(month=SEASONS[piece])
            return Window(start, start + relativedelta(months=3))
        if piece in ("q", "quarter"):
            return nth("quarter", Window(first, first), numbers[0] if numbers else ORDINALS[pieces[0]])
        if piece in MONTHS:
            month = first.replace(month=MONTHS[piece])
            if not numbers:
                return unit("month", month)
            window = Window(month.replace(day=numbers[0]), month.replace(day=numbers[-1]) + timedelta(days=1))
            if window.start < window.end:
                return window
    raise ValueError("no period of that name, or its days are in the wrong order")


def holiday(words: str) -> Holiday | None:
    """Return the holiday of a name such as `New Year's Eve` or `Christmas holidays`; None for other words."""
    pieces = _PIECE.findall(words.casefold().replace("'", "").replace("’", ""))
    name = " ".join(pieces[:-1] if pieces and pieces[-1] in HOLIDAY_SEASON else pieces)
    return HOLIDAYS.get(name)


def around(rule: Holiday, window: Window) -> Window:
    """Return the days of a holiday with those beside it in which people also tell of it."""
    return Window(window.start - timedelta(days=rule.before), window.end + timedelta(days=rule.after))


def recurring(words: str, now: datetime, which: Literal["latest", "last", "this", "next"]) -> Window:
    """Return one occurrence of a weekday, weekend or named period.

    Args:
        words: a name as in `named`, or a weekday.
        now: the instant in UTC.
        which: `latest`: it began by `now`; `last`: it ended before today; `this`: it contains `now`, else it is in this
            week (weekdays) or year; `next`: it begins after `now`.

    Raises:
        ValueError: no such occurrence within 8 years, which include a 29 February.
    """
    name, around = words.casefold(), list[Window]()
    if name in WEEKDAYS:
        around = [weekday(name, floor("week", now) + timedelta(weeks=weeks), 1) for weeks in (2, 1, 0, -1, -2)]
    for year in () if around else range(now.year + 8, now.year - 9, -1):
        try:
            around.append(named(words, year))
        except (ValueError, OverflowError):  # no such day in this year
            continue
    if which == "latest":
        found = [window for window in around if window.start <= now]
    elif which == "last":
        found = [window for window in around if window.end <= floor("day", now)]
    elif which == "next":
        found = [window for window in reversed(around) if window.start > now]
    else:
        frame = unit("week" if name in WEEKDAYS else "year", now)
        found = [window for window in around if window.start <= now < window.end]
        found += [window for window in around if frame.start <= window.start < frame.end]
    if not found:
        raise ValueError("no such period near by")
    return found[0]
