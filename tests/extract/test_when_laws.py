"""Laws of the times in a query, on random texts, dates and instants; and on real questions."""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from salience.extract import periods
from salience.extract.when import EVENT, FLAGS, FORMS, ORDER_FORMS, RELATIONS, TURNS, read

NOW = datetime(2023, 12, 1, 9, 30, tzinfo=UTC)
QUERIES = {
    "What did I say yesterday?": "yesterday",
    "Who left a couple of weeks ago?": "a couple of weeks ago",
    "When did she camp last May?": "last May",
    "What did he eat on 24 December?": "on 24 December",
    "Where was he in the week before 16 November 2023?": "in the week before 16 November 2023",
    "Did it rain between August 11 and August 15 2023?": "between August 11 and August 15 2023",
    "What has changed since last summer?": "since last summer",
    "How many had he won by July 10, 2022?": "by July 10, 2022",
    "Who was there before the move?": "before the move",
    "What is it these days?": "these days",
}
"""Queries, and the words of their time."""
PIECES = st.sampled_from(
    [
        *"last this past next the a of in on by and to from between since before after until early late mid".split(),
        *"week weeks beginning other most time".split(),
        *"month year day days ago two 3 8 31 2023 may June summer Friday weekend christmas yesterday now first".split(),
        *"latest recently move name , - ? 's 1st quarter evening 9999 2023-05-08 05/06/2023 half end fall".split(),
    ]
)
ANY_TIME = st.datetimes(timezones=st.just(UTC))
ASKED = ANY_TIME.map(lambda instant: instant.replace(year=1800 + instant.year % 400, day=min(instant.day, 28)))


def check(query: str, now: datetime) -> None:
    cue = read(query, now)
    if cue is None:
        return
    assert cue.words
    assert all(words and words in query for words in cue.words)
    assert cue.start is None or cue.end is None or cue.start < cue.end
    assert (cue.relation is None) == (cue.anchor == "")
    assert cue.anchor in query
    assert read(query, now) == cue


@given(st.text(), ANY_TIME)
def test_no_text_is_too_odd(query: str, now: datetime) -> None:
    check(query, now)


@given(st.lists(PIECES, max_size=14).map(" ".join), ANY_TIME)
def test_no_heap_of_time_words_is_too_odd(query: str, now: datetime) -> None:
    check(query, now)


NAMES = [form for name in periods.HOLIDAYS for form in (name, re.sub(r"s\b", "'s", name, count=1))]
PHRASES = [
    *QUERIES, *periods.WEEKDAYS, *periods.MONTHS, *periods.SEASONS, *NAMES,
    *(form.format(unit) for form in ("the {} before last", "the last {}", "this past {}") for unit in periods.UNITS),
    *(form.format(unit) for form in ("3 {}s ago", "last two {}s", "next few {}s") for unit in periods.UNITS),
    *(f"{turn} {name}" for turn in TURNS for name in ("week", "Monday", "May 8", "Christmas", "Q3", "third quarter")),
    *(f"this {part}" for part in periods.DAY_PARTS),
    *(f"{word} {relation} the move" for word in ("right", "two weeks") for relation in RELATIONS),
    *"""
    2023-05-08; 2023/5/8; 8.5.2023; 8/5/23; in 2023; today; tonight; last night; tomorrow;
    the other day; this time last year; on the 5th; the quarter; q1 in Q2; for the very first time; originally;
    our initial plan; the original; the earliest; at first; to begin with; to start with; my very first car;
    did we first meet; did he say it first?; did she call us last?; the last time; most recently; the newest;
    the latest; Bob's last job; has he last seen it; just now; lately; of late; what is recent; currently; these days;
    at the moment; at present; as of today; as of now; right now; is it on now; our current plan; presently; nowadays
    """.split("; "),
]  # fmt: skip
"""What times, orders and relations look like, of each form one at least."""
PATTERNS = [*(form.pattern for form in (*FORMS, *ORDER_FORMS)), EVENT]


def test_a_phrase_is_found_by_each_pattern() -> None:
    assert [one for one in PATTERNS if not any(re.search(one, phrase, FLAGS) for phrase in PHRASES)] == []


@given(st.sampled_from([*QUERIES.items()]), ASKED)
def test_the_words_alone_say_the_same_as_the_query(row: tuple[str, str], now: datetime) -> None:
    query, words = row
    assert read(words, now) == read(query, now)


def spellings(day: date) -> list[str]:
    month, number = day.strftime("%B"), day.day
    end = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number not in (11, 12, 13) else 0, "th")
    return [
        f"{number} {month} {day.year}",
        f"{number}{end} of {month}, {day.year}",
        f"{month} {number}, {day.year}",
        f"{month[:3]} {number}{end} {day.year}",
        f"on {day.strftime('%A')}, {number} {month} {day.year}",
        day.isoformat(),
        day.strftime("%d/%m/%Y"),
        day.strftime("%Y/%m/%d"),
    ]


@given(st.dates(date(1900, 1, 1), date(2099, 12, 31)), st.integers(0, 7), ASKED)
def test_a_day_is_the_same_however_it_is_written(day: date, spelling: int, now: datetime) -> None:
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    cue = read(f"What was {spellings(day)[spelling]}?", now)
    assert cue is not None
    assert (cue.start, cue.end) == (start, start + timedelta(days=1))


@given(st.dates(date(1900, 1, 1), date(2099, 12, 31)), ASKED)
def test_a_month_and_a_year_hold_their_days(day: date, now: datetime) -> None:
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    for query in (f"in {day.strftime('%B %Y')}", f"in {day.year}"):
        cue = read(query, now)
        assert cue is not None
        assert cue.start is not None
        assert cue.end is not None
        assert cue.start <= start < cue.end


@given(ASKED, st.sampled_from([*periods.UNITS]), st.integers(1, 60))
def test_an_instant_ago_lies_in_its_window(now: datetime, unit: str, number: int) -> None:
    cue = read(f"{number} {unit}s ago", now)
    assert cue is not None
    assert cue.start is not None
    assert cue.end is not None
    moved = now - periods.UNITS[unit][0] * number
    assert unit == "weekend" or cue.start <= moved < cue.end


NAMED = [*periods.MONTHS, *periods.SEASONS, *periods.WEEKDAYS, *periods.HOLIDAYS, "29 feb", "q3"]


@given(ASKED, st.sampled_from(NAMED))
def test_recurring_periods_are_chosen_by_their_place_before_or_after_now(now: datetime, name: str) -> None:
    latest, last, upcoming = (periods.recurring(name, now, which) for which in ("latest", "last", "next"))
    assert last.end <= periods.floor("day", now)
    assert last.start <= latest.start <= now < upcoming.start
    if name in periods.WEEKDAYS:
        assert upcoming.start - latest.start == timedelta(weeks=1)
        return
    starts = [window.start for year in range(now.year - 8, now.year + 9) if (window := _named(name, year))]
    assert latest.start == max(start for start in starts if start <= now)
    assert upcoming.start == min(start for start in starts if start > now)


def _named(name: str, year: int) -> periods.Window | None:
    try:
        return periods.named(name, year)
    except ValueError:  # 29 February
        return None


@pytest.mark.data
def test_real_questions_hold_the_dates_that_they_name() -> None:
    folder = os.environ.get("SALIENCE_TEST_DATA")
    if not folder or not (Path(folder) / "locomo").is_dir():
        pytest.skip("SALIENCE_TEST_DATA names no folder with locomo/")
    files = sorted((Path(folder) / "locomo").glob("*.json"))
    questions = [row["question"] for file in files for row in json.loads(file.read_text())["qa"]]
    dated = [
        (question, datetime.strptime(f"{match[1]} {match[2]} {match[3]} +0000", "%d %B %Y %z"))
        for question in questions
        if (match := re.search(r"\bon (\d+) ([A-Z][a-z]+),? (\d{4})", question))
    ]
    assert len(dated) > 20
    for question, day in dated:
        cue = read(question, NOW)
        assert cue is not None
        assert cue.start is not None
        assert cue.end is not None
        assert cue.start <= day < cue.end
    assert not [question for question in questions if question.startswith("When did") and _names_none(question)]


def _names_none(question: str) -> bool:
    """Whether a question without any word of time in it was given a cue all the same."""
    words = r"\b(?:in|on|during|first|last|after|before|since|recently|ago|\d+)\b"
    return not re.search(words, question) and read(question, NOW) is not None
