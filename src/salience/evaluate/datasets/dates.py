"""Dates as the formats write them. None of them names a zone, so UTC stands for it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from salience.evaluate.datasets.reading import Place

_MONTHS: Final = "january february march april may june july august september october november december".split()
_CLOCK: Final = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}))?"
_NAMED: Final = r"(?P<month>[A-Za-z]{3,9})"

DAY_AFTER_CLOCK: Final = re.compile(
    rf"{_CLOCK}\s*(?P<half>[ap]m) on (?P<day>\d{{1,2}}) {_NAMED},? (?P<year>\d{{4}})", re.IGNORECASE
)
"""LoCoMo: 1:56 pm on 8 May, 2023."""
DAY_FIRST: Final = re.compile(rf"(?P<day>\d{{1,2}})\.(?P<month>\d{{1,2}})\.(?P<year>\d{{4}})(?:,? +{_CLOCK})?")
"""REALTALK: 29.12.2023, 11:23:21."""
YEAR_FIRST: Final = re.compile(
    rf"(?P<year>\d{{4}})[-/](?P<month>\d{{1,2}})[-/](?P<day>\d{{1,2}})(?: \([A-Za-z]+\))?(?:[ T]{_CLOCK})?"
)
"""LongMemEval: 2023/05/30 (Tue) 23:40."""
MONTH_FIRST: Final = re.compile(rf"{_NAMED}[- ](?P<day>\d{{1,2}}),?[- ](?P<year>\d{{4}})")
"""BEAM: March-15-2024."""


def instant(place: Place, pattern: re.Pattern[str], example: str) -> datetime | None:
    """Return the instant that a file gives in one form; None where it gives none.

    Raises:
        InputError: something else; shows the example.
    """
    if place.value is None:
        return None
    found = read(place.text(), pattern)
    if found is None:
        raise place.refused(f"a time such as '{example}'")
    return found


def read(written: str, *patterns: re.Pattern[str]) -> datetime | None:
    """Return the instant that a text gives in one of some forms, whole; None where it gives none."""
    for pattern in patterns:
        if match := pattern.fullmatch(written.strip()):
            return _instant(match.groupdict())
    return None


def _instant(parts: dict[str, str | None]) -> datetime | None:
    numbers = {name: int(parts.get(name) or 0) for name in ("year", "day", "hour", "minute", "second")}
    if half := parts.get("half"):
        numbers["hour"] = numbers["hour"] % 12 + (12 if half.lower() == "pm" else 0)
    try:
        return datetime(month=_month(parts["month"] or ""), tzinfo=UTC, **numbers)
    except ValueError:
        return None


def _month(written: str) -> int:
    """Return the number of a month, given as such or by its name or the start of it; 0 for none."""
    if written.isdigit():
        return int(written)
    return next((number for number, name in enumerate(_MONTHS, 1) if name.startswith(written.lower())), 0)
