"""Times as people write them after an option."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from salience.cli.options import instant
from salience.errors import InputError

NOW = datetime(2026, 5, 6, 1, 30, tzinfo=UTC)  # a Wednesday; in New York still the evening before


@pytest.fixture
def new_york(monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2026-05-01", "2026-05-01T04:00"),
        ("2026-05", "2026-05-01T04:00"),
        ("2026", "2026-01-01T05:00"),
        ("2026-05-01T09:30", "2026-05-01T13:30"),
        ("2026-05-01 09:30:15", "2026-05-01T13:30:15"),
        ("2026-05-01T09:30:00+02:00", "2026-05-01T07:30"),
        ("2026-05-01T09:30:00Z", "2026-05-01T09:30"),
        ("now", "2026-05-06T01:30"),
        ("today", "2026-05-05T04:00"),
        ("Yesterday", "2026-05-04T04:00"),
        ("this week", "2026-05-04T04:00"),
        (" last  week ", "2026-04-27T04:00"),
        ("this month", "2026-05-01T04:00"),
        ("last month", "2026-04-01T04:00"),
        ("this year", "2026-01-01T05:00"),
        ("last year", "2025-01-01T05:00"),
        ("2d", "2026-05-04T01:30"),
        ("12h", "2026-05-05T13:30"),
        ("90 m ago", "2026-05-06T00:00"),
        ("1.5h", "2026-05-06T00:00"),
        ("1w", "2026-04-29T01:30"),
    ],
)
def test_a_text_names_an_instant(new_york, text, meant):
    assert instant("since", text, NOW) == datetime.fromisoformat(meant).replace(tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "soon", "2dd", "5", "2026-13", "2026-05-32", "0000", "9999999999999d", "-2d"])
def test_another_text_is_refused_with_what_to_give(text):
    with pytest.raises(InputError, match=r"2026-05-01.*2d.*'last week'") as caught:
        instant("as_of", text, NOW)
    assert caught.value.field == "as_of"
