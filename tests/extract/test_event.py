"""The time that a memory's text states, relative to its creation."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from salience.extract.when import event

MADE = datetime(2023, 4, 12, 9, 30, tzinfo=UTC)  # a Wednesday


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("Yesterday I had dinner with Ann.", "2023-04-11", "2023-04-12"),
        ("See you tomorrow at 5", "2023-04-13", "2023-04-14"),
        ("On 3 May we meet the architect.", "2023-05-03", "2023-05-04"),
        ("On 10 April we met the architect.", "2023-04-10", "2023-04-11"),
        ("We were in Rome on 5 June", "2022-06-05", "2022-06-06"),
        ("My birthday is on 5 June", "2023-06-05", "2023-06-06"),
        ("Next Friday we fly to Rome", "2023-04-14", "2023-04-15"),
        ("We meet on Friday", "2023-04-14", "2023-04-15"),
        ("On Friday I will meet Ann", "2023-04-14", "2023-04-15"),
        ("I met Ann on Friday", "2023-04-07", "2023-04-08"),
        ("The deploy is on the 20th.", "2023-04-20", "2023-04-21"),
        ("Last week I painted a lot", "2023-04-03", "2023-04-10"),
        ("I was in Paris two weeks ago", "2023-03-27", "2023-04-03"),
        ("I moved here in 2019", "2019-01-01", "2020-01-01"),
        ("Over the summer I want to travel", "2023-06-01", "2023-09-01"),
        ("The contract ended in March", "2023-03-01", "2023-04-01"),
        ("Today is busy, but we fly on 2023-05-08", "2023-05-08", "2023-05-09"),
    ],
)
def test_a_stated_time_is_read(text: str, start: str, end: str) -> None:
    expected = tuple(datetime.fromisoformat(day).replace(tzinfo=UTC) for day in (start, end))
    assert event(text, MADE) == expected


@pytest.mark.parametrize(
    "text",
    [
        "I love May",
        "I may paint",
        "I work every Monday",
        "The shop is closed on Mondays",
        "The port is 2022",
        "Today is a great day",
        "We have lived here since 2019",
        "The last name is Smith",
        "",
    ],
)
def test_other_texts_state_no_time(text: str) -> None:
    assert event(text, MADE) is None


@given(st.text(max_size=60), st.sampled_from(["on Friday", "yesterday", "in May", "on the 31st", "last year"]))
def test_a_stated_time_is_an_interval_without_the_creation(text: str, words: str) -> None:
    for made in (MADE, datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)):
        found = event(f"{text} we met {words}", made)
        assert found is None or (found.start < found.end and not found.start <= made < found.end)


@given(st.integers(-100_000, 100_000).map(lambda hours: MADE + timedelta(hours=hours)))
def test_a_weekday_to_come_is_within_a_week(made: datetime) -> None:
    for name in ("Monday", "Thursday", "Sunday"):
        found = event(f"We will meet on {name}", made)
        assert found is None or timedelta() < found.start - made <= timedelta(days=7)
        assert found is not None or made.strftime("%A") == name
