"""Times as people write them after an option: `2026-05-01`, `2d`, `yesterday`, ISO 8601."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

from salience.errors import InputError

REMEDY: Final = (
    "Give a date (2026-05-01, 2026-05), a length of time before now (2d, 12h), today, yesterday, 'last week', "
    "or ISO 8601 (2026-05-01T09:30, with an offset or in local time)."
)
_AGO: Final = re.compile(r"(\d+(?:\.\d+)?) ?([smhdw])(?: ago)?", re.ASCII)
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_PERIOD: Final = re.compile(r"(\d{4})(?:-(\d{2}))?", re.ASCII)
_DAY: Final = timedelta(days=1)
_DAYS: Final[Mapping[str, Callable[[date], date]]] = {
    "today": lambda today: today,
    "yesterday": lambda today: today - _DAY,
    "this week": lambda today: today - today.weekday() * _DAY,
    "last week": lambda today: today - (today.weekday() + 7) * _DAY,
    "this month": lambda today: today.replace(day=1),
    "last month": lambda today: (today.replace(day=1) - _DAY).replace(day=1),
    "this year": lambda today: today.replace(month=1, day=1),
    "last year": lambda today: today.replace(year=today.year - 1, month=1, day=1),
}
"""Words for a period -> its first day; weeks begin on Monday."""


def instants(**written: str | None) -> dict[str, Any]:
    """Return the instants of the options that were given, by the names of the API.

    Raises:
        InputError: a text that is no time.
    """
    now = datetime.now(UTC)
    return {name: instant(name, text, now) for name, text in written.items() if text is not None}


def instant(field: str, text: str, now: datetime) -> datetime:
    """Return the instant that a text names, aware; a time without an offset is local.

    A day, a week, a month or a year stands for its first instant, and a length of time for the instant so long before
    `now`.

    Raises:
        InputError: a text that is no time; names the `field`.
    """
    words = " ".join(text.lower().split())
    try:
        if words == "now":
            return now
        if first := _DAYS.get(words):
            return datetime.combine(first(now.astimezone().date()), time.min).astimezone()
        if ago := _AGO.fullmatch(words):
            return now - timedelta(seconds=float(ago[1]) * _UNITS[ago[2]])
        if period := _PERIOD.fullmatch(words):
            return datetime(int(period[1]), int(period[2] or 1), 1).astimezone()
        found = datetime.fromisoformat(text.strip())
        return found if found.utcoffset() is not None else found.astimezone()
    except (ValueError, OverflowError):
        raise InputError(field, text, REMEDY) from None
