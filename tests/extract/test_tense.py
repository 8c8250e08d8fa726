"""What comes round - a weekday, a month, a holiday - is a time of the past only where the words look back."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from salience.extract import periods
from salience.extract.when import NOT_PAST, PAST_FORMS, directions, read, tense
from salience.records import TimeCue

NOW = datetime(2023, 12, 1, 9, 30, tzinfo=UTC)  # a Friday
NAMES = [*periods.WEEKDAYS, *periods.MONTHS, *periods.SEASONS, "Christmas", "Easter", "Thanksgiving", "New Year's Eve"]


NOT_BACK = [
    "Can we deploy on Friday?", "Don't deploy on Friday", "What is our rule for Friday deploys?",
    "Who comes to dinner on Saturday?", "What's for dinner on Saturday?", "plans for Saturday", "the Sunday roast",
    "Is the shop open on Mondays?", "every Friday", "Do we need milk on Saturday?", "What do we do at Christmas?",
    "What must be done before Friday?", "What do we do after Christmas?", "Where are we between April and June?",
    "Is it hot in July?", "What do they love during Thanksgiving?",
    "On Friday, what will we do?", "Will we meet on 8 May?",
    "Will Bob be on Friday's call?", "agenda for Friday's meeting", "What are we going to do in July?",
    "Is the shop closed on Monday?", "Is the coffee shop closed on Monday?", "When is the office closed in August?",
    "What isn't done on Friday?", "Is Bob invited on Saturday?", "Who's invited on Saturday?",
    "What was planned for Saturday?", "What have we planned for Christmas?",
    "What did Alice say she will do on Saturday?",
]  # fmt: skip
"""Queries that do not look back, so a weekday, month or holiday in them names no time of the past."""


def test_a_query_that_does_not_look_back_has_no_window_of_the_past() -> None:
    today = NOW.replace(hour=0, minute=0)
    cues = {query: read(query, NOW) for query in NOT_BACK}
    assert [query for query, cue in cues.items() if cue and not (cue.start and cue.start >= today)] == []


@pytest.mark.parametrize(
    ("query", "start"),
    [
        ("What do I have on Saturday?", "2023-12-02"),
        ("What's on Monday?", "2023-12-04"),
        ("What do we do at Christmas?", "2023-12-24"),
        ("Where are we between April and June?", None),
    ],
)
def test_a_question_about_nothing_but_a_time_to_come_means_the_next_one(query: str, start: str | None) -> None:
    cue = read(query, NOW)
    assert (cue and cue.start) == (start and datetime.fromisoformat(start).replace(tzinfo=UTC))


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("What did we do on Friday?", "on Friday"),
        ("On Friday, what did we do?", "On Friday"),
        ("Didn't we meet on Friday?", "on Friday"),
        ("Weren’t you there on Sunday?", "on Sunday"),
        ("Where have we been on Sunday?", "on Sunday"),
        ("What has Alice painted in May?", "in May"),
        ("Who went hiking in July?", "in July"),
        ("the place we visited in July", "in July"),
        ("What is the name of the place Alice visited in July?", "in July"),
        ("What is the place we visited in July?", "in July"),
        ("What is the dish Alice cooked in July?", "in July"),
        ("That is what happened on Friday", "on Friday"),
        ("Where is the file I sent on Friday?", "on Friday"),
        ("Can you tell me what we did on Friday?", "on Friday"),
        ("What did we do after Christmas?", "after Christmas"),
        ("Is the server down since Friday?", "since Friday"),
        ("back in May", "back in May"),
        ("What was said on Friday's call?", "on Friday"),
        ("minutes of 8 May", "8 May"),
    ],
)
def test_a_query_that_looks_back_means_the_latest_one(query: str, words: str) -> None:
    cue = read(query, NOW)
    assert cue is not None
    assert cue.words == (words,)
    assert cue.relation is None


@pytest.mark.parametrize("turn", ["last", "this", "next", "previous", "coming"])
def test_a_turn_says_which_one_whatever_the_verb(turn: str) -> None:
    cue = read(f"What do we do {turn} Friday?", NOW)
    assert cue is not None
    assert cue == read(f"What did we do {turn} Friday?", NOW)
    assert cue.start is not None
    assert (cue.start > NOW) == (turn in ("next", "coming"))


def test_a_year_says_which_one_whatever_the_verb() -> None:
    may = TimeCue(("in May 2024",), datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 6, 1, tzinfo=UTC))
    assert read("Is it hot in May 2024?", NOW) == read("Was it hot in May 2024?", NOW) == may


def test_a_time_that_is_not_meant_leaves_the_one_that_is() -> None:
    cue = read("What do we do on Friday about the outage of last week?", NOW)
    assert cue is not None
    assert cue.words == ("last week",)


def test_the_nearest_sign_before_counts_else_the_first_after() -> None:
    found = [(10, "past"), (20, "coming")]
    assert [tense(found, until) for until in (5, 15, 25)] == ["past", "past", "coming"]
    assert tense([], 5) == "unsaid"


def test_every_past_form_is_found_and_other_words_with_its_ending_are_not() -> None:
    assert [form for form in PAST_FORMS if directions(f"we {form} it") != [(3, "past")]] == []
    assert [word for word in (*NOT_PAST, "need", "speed", "red") if directions(f"a {word} thing")] == []


@given(st.sampled_from(NAMES))
def test_whatever_comes_round_waits_for_a_verb(name: str) -> None:
    assert read(f"cakes on {name}", NOW) is None
    assert read(f"Who called on {name}?", NOW) is not None
    assert read(f"on {name}", NOW) is not None  # a question of nothing but a time looks back


@given(st.text(max_size=50), st.integers(0, 60))
def test_any_text_is_read(text: str, until: int) -> None:
    found = directions(text)
    assert [at for at, _ in found] == sorted({at for at, _ in found})
    assert tense(found, until) in ("past", "coming", "unsaid")
