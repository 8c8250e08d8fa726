"""Numbers and instants as text, for templates."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from salience.records.answers import counted

_STEPS: Final = ((365.25, "year"), (30.44, "month"), (7, "week"), (1, "day"), (1 / 24, "hour"), (1 / 1440, "minute"))


def iso(at: datetime) -> str:
    """Return an instant for the `datetime` of a `<time>`."""
    return at.isoformat(timespec="seconds")


def instant(at: datetime) -> str:
    """Return an instant to the minute: `2026-05-01 09:30 UTC`."""
    return f"{at:%Y-%m-%d %H:%M} UTC"


def day(at: datetime) -> str:
    """Return a day: `2026-05-01`."""
    return f"{at:%Y-%m-%d}"


def ago(at: datetime, now: datetime) -> str:
    """Return the time since an instant, or until it: `3 days ago`, `in 2 hours`."""
    span = abs(now - at)
    for days, unit in _STEPS:
        count = int(span / timedelta(days=days))
        if count:
            text = counted(count, unit)
            return f"{text} ago" if at < now else f"in {text}"
    return "just now"


def number(value: float, digits: int = 2) -> str:
    """Return a number: whole ones with separators, others with `digits` decimals."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.{digits}f}"


def size(count: int) -> str:
    """Return a number of bytes: `812 B`, `2.4 MB`."""
    value, units = float(count), ("B", "kB", "MB", "GB", "TB")
    for unit in units:
        if value < 999.5 or unit == units[-1]:
            break
        value /= 1000
    return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
