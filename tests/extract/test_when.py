"""When a query is about: windows, orders, events; and what only looks like a time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from salience.extract import periods, when
from salience.extract.when import NUMBERS, asks_only_time, event, preferences, read
from salience.records import TimeCue

NOW = datetime(2023, 12, 1, 9, 30, tzinfo=UTC)  # a Friday


def instant(text: str) -> datetime | None:
    return datetime.fromisoformat(text).replace(tzinfo=UTC) if text else None


WINDOWS = [
    # counted from now
    ("What did I say yesterday?", "yesterday", "2023-11-30", "2023-12-01"),
    ("What is planned for today?", "today", "2023-12-01", "2023-12-02"),
    ("today's standup", "today", "2023-12-01", "2023-12-02"),
    ("What do we cook tonight?", "tonight", "2023-12-01T18:00", "2023-12-02T06:00"),
    ("What did I eat this morning?", "this morning", "2023-12-01T05:00", "2023-12-01T12:00"),
    ("Who called last night?", "last night", "2023-11-30T18:00", "2023-12-01T06:00"),
    ("the night before last", "the night before last", "2023-11-29", "2023-11-30"),
    ("the day before yesterday", "the day before yesterday", "2023-11-29", "2023-11-30"),
    ("What did I plan for tomorrow?", "tomorrow", "2023-12-02", "2023-12-03"),
    ("last week", "last week", "2023-11-20", "2023-11-27"),
    ("this week", "this week", "2023-11-27", "2023-12-04"),
    ("next week", "next week", "2023-12-04", "2023-12-11"),
    ("the week before last", "the week before last", "2023-11-13", "2023-11-20"),
    ("this past week", "this past week", "2023-11-24", "2023-12-02"),
    ("over the last year", "over the last year", "2022-12-01", "2023-12-02"),
    ("last month", "last month", "2023-11-01", "2023-12-01"),
    ("the current month", "the current month", "2023-12-01", "2024-01-01"),
    ("last quarter", "last quarter", "2023-07-01", "2023-10-01"),
    ("last year", "last year", "2022-01-01", "2023-01-01"),
    ("last weekend", "last weekend", "2023-11-25", "2023-11-27"),
    ("this weekend", "this weekend", "2023-12-02", "2023-12-04"),
    ("Who won over the weekend?", "over the weekend", "2023-11-25", "2023-11-27"),
    ("last summer", "last summer", "2023-06-01", "2023-09-01"),
    ("this winter", "this winter", "2023-12-01", "2024-03-01"),
    ("last winter", "last winter", "2022-12-01", "2023-03-01"),
    ("last Monday", "last Monday", "2023-11-27", "2023-11-28"),
    ("last Friday", "last Friday", "2023-11-24", "2023-11-25"),
    ("this past Monday", "this past Monday", "2023-11-27", "2023-11-28"),
    ("next Friday", "next Friday", "2023-12-08", "2023-12-09"),
    ("last May", "last May", "2023-05-01", "2023-06-01"),
    ("last December", "last December", "2022-12-01", "2023-01-01"),
    ("this December", "this December", "2023-12-01", "2024-01-01"),
    ("Tuesday of last week", "Tuesday of last week", "2023-11-21", "2023-11-22"),
    ("3 days ago", "3 days ago", "2023-11-28", "2023-11-29"),
    ("two weeks ago", "two weeks ago", "2023-11-13", "2023-11-20"),
    ("a couple of weeks ago", "a couple of weeks ago", "2023-11-13", "2023-11-20"),
    ("a fortnight ago", "a fortnight ago", "2023-11-13", "2023-11-20"),
    ("a few months ago", "a few months ago", "2023-08-01", "2023-11-01"),
    ("2-3 weeks ago", "2-3 weeks ago", "2023-11-06", "2023-11-20"),
    ("6 months ago", "6 months ago", "2023-06-01", "2023-07-01"),
    ("Where did she move from 4 years ago?", "4 years ago", "2019-01-01", "2020-01-01"),
    ("10 minutes ago", "10 minutes ago", "2023-12-01T09:00", "2023-12-01T10:00"),
    ("the past 3 months", "the past 3 months", "2023-09-01", "2023-12-02"),
    ("in the last few days", "in the last few days", "2023-11-27", "2023-12-02"),
    ("within the last 24 hours", "within the last 24 hours", "2023-11-30T09:00", "2023-12-01T10:00"),
    ("What did I eat earlier today?", "earlier today", "2023-12-01", "2023-12-02"),
    ("What did we decide yesterday afternoon?", "yesterday afternoon", "2023-11-30T12:00", "2023-11-30T18:00"),
    ("What did Ann say the other day?", "the other day", "2023-11-24", "2023-12-01"),
    ("late last year", "late last year", "2022-09-01", "2023-01-01"),
    ("at the end of last month", "the end of last month", "2023-11-21", "2023-12-01"),
    ("the first week of last month", "the first week of last month", "2023-11-01", "2023-11-08"),
    # the latest of its name
    ("What did I say on Monday?", "on Monday", "2023-11-27", "2023-11-28"),
    ("Which flight was on Tues?", "on Tues", "2023-11-28", "2023-11-29"),
    ("When did she camp in May?", "in May", "2023-05-01", "2023-06-01"),
    ("the deal we made in December", "in December", "2023-12-01", "2024-01-01"),
    ("May 8th", "May 8th", "2023-05-08", "2023-05-09"),
    ("on Dec 8", "on Dec 8", "2022-12-08", "2022-12-09"),
    ("the 8th of May", "the 8th of May", "2023-05-08", "2023-05-09"),
    ("29 February", "29 February", "2020-02-29", "2020-03-01"),
    ("Who left during the summer?", "during the summer", "2023-06-01", "2023-09-01"),
    ("What happened in Q3?", "in Q3", "2023-07-01", "2023-10-01"),
    ("What did we cook at Christmas?", "at Christmas", "2022-12-24", "2022-12-27"),
    ("How was Christmas?", "Christmas", "2022-12-24", "2022-12-27"),
    ("How was Christmas with the in-laws?", "Christmas", "2022-12-24", "2022-12-27"),
    ("Who stayed over Easter?", "over Easter", "2023-04-07", "2023-04-10"),
    ("What did we do on Good Friday?", "on Good Friday", "2023-04-07", "2023-04-08"),
    ("What did I get for Valentine's?", "for Valentine's", "2023-02-14", "2023-02-15"),
    ("What did we do at New Year?", "at New Year", "2023-01-01", "2023-01-02"),
    ("How was the Christmas break?", "the Christmas break", "2022-12-24", "2022-12-27"),
    ("What do we do next Christmas?", "next Christmas", "2023-12-24", "2023-12-27"),
    ("Who cooked last year at Christmas?", "last year at Christmas", "2022-12-24", "2022-12-27"),
    ("What did we plant last year in May?", "last year in May", "2022-05-01", "2022-06-01"),
    ("last Christmas", "last Christmas", "2022-12-24", "2022-12-27"),
    ("Who came on New Year’s Eve?", "on New Year’s Eve", "2022-12-31", "2023-01-01"),
    ("Who cooked during Thanksgiving?", "during Thanksgiving", "2023-11-23", "2023-11-24"),
    ("Who marched on Memorial Day?", "on Memorial Day", "2023-05-29", "2023-05-30"),
    (
        "Who fell ill in the second week of November?",
        "in the second week of November",
        "2023-11-08",
        "2023-11-15",
    ),
    ("It snowed several days before Christmas", "several days before Christmas", "2022-12-17", "2022-12-22"),
    ("What did we do on the 5th?", "on the 5th", "2023-11-05", "2023-11-06"),
    ("What did I say on the 31st about it?", "on the 31st", "2023-10-31", "2023-11-01"),
    ("What did we do on the 5th of last month?", "on the 5th of last month", "2023-11-05", "2023-11-06"),
    ("the first of May", "the first of May", "2023-05-01", "2023-05-02"),
    ("What did she buy on Tuesday morning?", "on Tuesday morning", "2023-11-28T05:00", "2023-11-28T12:00"),
    ("last Tuesday evening", "last Tuesday evening", "2023-11-28T17:00", "2023-11-29"),
    # without a verb, if the query asks for nothing else
    ("Tuesday morning", "Tuesday morning", "2023-11-28T05:00", "2023-11-28T12:00"),
    ("over the weekend", "over the weekend", "2023-11-25", "2023-11-27"),
    ("Tell me about the first half of June", "the first half of June", "2023-06-01", "2023-06-16"),
    # with their year
    ("8 May 2023 in the morning", "8 May 2023 in the morning", "2023-05-08T05:00", "2023-05-08T12:00"),
    ("the twenty-first of May 2022", "the twenty-first of May 2022", "2022-05-21", "2022-05-22"),
    ("in May 2023", "in May 2023", "2023-05-01", "2023-06-01"),
    ("May of last year", "May of last year", "2022-05-01", "2022-06-01"),
    ("in 2022", "in 2022", "2022-01-01", "2023-01-01"),
    ("the 2023 budget", "the 2023", "2023-01-01", "2024-01-01"),
    ("on 8 May 2023", "on 8 May 2023", "2023-05-08", "2023-05-09"),
    ("on May 8, 2023", "on May 8, 2023", "2023-05-08", "2023-05-09"),
    ("on December 1,2023 taken", "on December 1,2023", "2023-12-01", "2023-12-02"),
    ("Sept. 3, 2022", "Sept. 3, 2022", "2022-09-03", "2022-09-04"),
    ("on Friday, 12 May 2023", "on Friday, 12 May 2023", "2023-05-12", "2023-05-13"),
    ("on the evening of 7 July, 2023", "on the evening of 7 July, 2023", "2023-07-07T17:00", "2023-07-08"),
    ("2023-05-08", "2023-05-08", "2023-05-08", "2023-05-09"),
    ("2023-05-08T10:30:00Z", "2023-05-08", "2023-05-08", "2023-05-09"),
    ("2023/05/08", "2023/05/08", "2023-05-08", "2023-05-09"),
    ("What was in 2023-05?", "in 2023-05", "2023-05-01", "2023-06-01"),
    ("08/05/2023", "08/05/2023", "2023-05-08", "2023-05-09"),  # day first ...
    ("5/23/2023", "5/23/2023", "2023-05-23", "2023-05-24"),  # ... unless there is no such month
    ("8.5.2023", "8.5.2023", "2023-05-08", "2023-05-09"),
    ("08/05/23", "08/05/23", "2023-05-08", "2023-05-09"),
    ("early June 2023", "early June 2023", "2023-06-01", "2023-06-11"),
    ("mid-June 2023", "mid-June 2023", "2023-06-11", "2023-06-21"),
    ("late June 2023", "late June 2023", "2023-06-21", "2023-07-01"),
    ("in early 2023", "in early 2023", "2023-01-01", "2023-05-02"),
    ("the first half of September 2022", "the first half of September 2022", "2022-09-01", "2022-09-16"),
    ("in the beginning of November 2022", "in the beginning of November 2022", "2022-11-01", "2022-11-11"),
    ("in the summer of 2022", "in the summer of 2022", "2022-06-01", "2022-09-01"),
    ("in summer 2021", "in summer 2021", "2021-06-01", "2021-09-01"),
    ("Q3 2023", "Q3 2023", "2023-07-01", "2023-10-01"),
    ("the third quarter of 2023", "the third quarter of 2023", "2023-07-01", "2023-10-01"),
    ("New Year's Eve 2022", "New Year's Eve 2022", "2022-12-31", "2023-01-01"),
    ("Easter 2023", "Easter 2023", "2023-04-07", "2023-04-10"),
    ("the first Monday of May 2023", "the first Monday of May 2023", "2023-05-01", "2023-05-02"),
    ("the last week of May 2023", "the last week of May 2023", "2023-05-25", "2023-06-01"),
    ("during the weekend of 15 July, 2023", "during the weekend of 15 July, 2023", "2023-07-15", "2023-07-17"),
    ("the week of 15 May 2023", "the week of 15 May 2023", "2023-05-15", "2023-05-22"),
    ("the week before 9 June 2023", "the week before 9 June 2023", "2023-06-02", "2023-06-09"),
    ("a week before 9 June 2023", "a week before 9 June 2023", "2023-05-29", "2023-06-05"),
    ("two weekends before 17 July 2023", "two weekends before 17 July 2023", "2023-07-08", "2023-07-10"),
    ("the Sunday before October 25, 2022", "the Sunday before October 25, 2022", "2022-10-23", "2022-10-24"),
    ("the Monday after Easter 2023", "the Monday after Easter 2023", "2023-04-10", "2023-04-11"),
    ("two days after 8 May 2023", "two days after 8 May 2023", "2023-05-10", "2023-05-11"),
    # from one to another
    ("between June and August 2023", "between June and August 2023", "2023-06-01", "2023-09-01"),
    ("Where was she between April and June?", "between April and June", "2023-04-01", "2023-07-01"),
    ("from December to February 2023", "from December to February 2023", "2022-12-01", "2023-03-01"),
    ("Did it fail from 3 to 7 July?", "3 to 7 July", "2023-07-03", "2023-07-08"),
    ("July 3-7, 2023", "July 3-7, 2023", "2023-07-03", "2023-07-08"),
    ("between August 11 and August 15 2023", "between August 11 and August 15 2023", "2023-08-11", "2023-08-16"),
    ("between 3 July and 7 August 2023", "between 3 July and 7 August 2023", "2023-07-03", "2023-08-08"),
    ("between 2019 and 2021", "between 2019 and 2021", "2019-01-01", "2022-01-01"),
    ("in 2022-2023", "in 2022-2023", "2022-01-01", "2024-01-01"),
    ("from last month to next month", "from last month to next month", "2023-11-01", "2024-02-01"),
    ("in late June or early July 2023", "in late June or early July 2023", "2023-06-21", "2023-07-11"),
    # open on a side
    ("What changed since Monday?", "since Monday", "2023-11-27", ""),
    ("since Friday, 12 May 2023", "since Friday, 12 May 2023", "2023-05-12", ""),
    ("after 8 May 2023", "after 8 May 2023", "2023-05-09", ""),
    ("before May 2023", "before May 2023", "", "2023-05-01"),
    ("prior to last week", "prior to last week", "", "2023-11-20"),
    ("until last week", "until last week", "", "2023-11-27"),
    ("won by July 10, 2022", "by July 10, 2022", "", "2022-07-11"),
    # told on a day, of a time before it
    ("finish last Friday on 23 January, 2022", "last Friday on 23 January, 2022", "2022-01-21", "2022-01-24"),
    (
        "issue last week,as mentioned on November 6, 2023?",
        "last week,as mentioned on November 6, 2023",
        "2023-10-30",
        "2023-11-07",
    ),
]


def test_a_time_is_read_as_its_window() -> None:
    expected = {query: TimeCue((words,), instant(start), instant(end)) for query, words, start, end in WINDOWS}
    found = {query: read(query, NOW) for query in expected}
    assert {query: cue and replace(cue, told_from=None, told_until=None) for query, cue in found.items()} == expected


@pytest.mark.parametrize(
    ("query", "told_from", "told_until"),
    [
        ("What did we do at Christmas?", "2022-12-20", "2023-01-03"),
        ("What happens next Christmas?", "2023-12-20", "2024-01-03"),
        ("Christmas 2021", "2021-12-20", "2022-01-03"),
        ("What did we do during the Christmas holidays?", "2022-12-20", "2023-01-03"),
        ("Who stayed over Easter?", "2023-04-05", "2023-04-15"),
        ("What did we do on New Year's Eve?", "2022-12-31", "2023-01-03"),
        ("What did we do three days before Christmas?", "", ""),
        ("What have we bought since Christmas?", "", ""),
        ("What happened between Christmas and New Year's?", "", ""),
        ("What did we do on 25 December?", "", ""),
    ],
)
def test_people_tell_of_a_holiday_in_the_days_beside_it(query: str, told_from: str, told_until: str) -> None:
    cue = read(query, NOW)
    assert cue is not None
    assert (cue.told_from, cue.told_until) == (instant(told_from), instant(told_until))


def test_a_question_about_a_holiday_prefers_memories_that_name_it() -> None:
    for query, expected in {
        "What did we do at Christmas?": "christmas",
        "What did we decide during the Christmas holidays?": "decide christmas",
        "What did we do on 25 December?": "",
        "What did we decide at last week's meeting?": "decide meeting",
    }.items():
        cue = read(query, NOW)
        assert cue is not None
        assert asks_only_time(query, cue)
        assert preferences(query, cue).casefold() == expected


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("Christmas with the in-laws was loud", "2022-12-24"),
        ("The in-laws stayed over Christmas", "2022-12-24"),
        ("Thanksgiving dinner was at Ann's", "2023-11-23"),
        ("Valentine's Day was great", "2023-02-14"),
        ("The Christmas tree is in the attic", ""),
        ("There was an Easter egg in the code", ""),
        ("We put up the Christmas tree", ""),
        ("Every Christmas we went to Oslo", ""),
    ],
)
def test_a_text_that_names_a_holiday_states_its_time(text: str, start: str) -> None:
    found = event(text, instant("2023-12-01") or NOW)
    assert (found and found.start) == instant(start)


@pytest.mark.parametrize(
    ("query", "words", "order"),
    [
        ("What did I say the first time?", "the first time", "earliest"),
        ("What did she originally want?", "originally", "earliest"),
        ("What was the original plan?", "the original", "earliest"),
        ("What is the original rent?", "the original", "earliest"),
        ("What was Alice's original rent?", "original", "earliest"),
        ("Where did Alice move first?", "first", "earliest"),
        ("Which city did I visit last?", "last", "latest"),
        ("What did we buy last, and why?", "last", "latest"),
        ("Which of the cities did she live in first, and why?", "first", "earliest"),
        ("What did it cost at first?", "at first", "earliest"),
        ("When did Joanna first watch it?", "first", "earliest"),
        ("When we first met, where was it?", "first", "earliest"),
        ("When did Nate win his first tournament?", "first", "earliest"),
        ("What is the most recent decision?", "most recent", "latest"),
        ("What did she eat most recently?", "most recently", "latest"),
        ("What is the latest?", "latest", "latest"),
        ("Where did I go the last time?", "the last time", "latest"),
        ("When did I last see Bob?", "last", "latest"),
        ("What was the last book I read?", "last", "latest"),
        ("What is my current job?", "current", "latest"),
        ("What book is Jon currently reading?", "currently", "latest"),
        ("Where does she live now?", "now", "latest"),
        ("What do I like these days?", "these days", "latest"),
        ("What is his address as of today?", "as of today", "latest"),
    ],
)
def test_an_order_is_read_from_its_words(query: str, words: str, order: str) -> None:
    assert read(query, NOW) == TimeCue((words,), order=order)


@pytest.mark.parametrize("word", ["recently", "lately", "of late"])
def test_recently_is_a_fading_window_of_thirty_days(word: str) -> None:
    start = datetime(2023, 12, 1, tzinfo=UTC) - timedelta(days=when.RECENT_DAYS)
    assert read(f"What did she paint {word}?", NOW) == TimeCue((word,), start, instant("2023-12-02"), fades=True)


@pytest.mark.parametrize(
    ("query", "words", "sessions"),
    [
        ("What happened in our first chat?", "our first chat", (1, 1)),
        ("What did we discuss in the third session?", "the third session", (3, 3)),
        ("What was the 12th conversation about?", "the 12th conversation", (12, 12)),
        ("Summarise session 3", "session 3", (3, 3)),
        ("What was our last conversation about?", "our last conversation", (-1, -1)),
        ("What did we talk about last time?", "last time", (-1, -1)),
        ("What did I say the last time we talked?", "the last time", (-1, -1)),
        ("What happened two sessions ago?", "two sessions ago", (-2, -2)),
        ("the session before last", "the session before last", (-2, -2)),
        ("What did we do in the last three sessions?", "the last three sessions", (-3, -1)),
        ("the first two chats", "the first two chats", (1, 2)),
    ],
)
def test_sessions_are_counted(query: str, words: str, sessions: tuple[int, int]) -> None:
    assert read(query, NOW) == TimeCue((words,), sessions=sessions)


@pytest.mark.parametrize(
    "query",
    [
        "What did she say in her first session?",
        "What did we say in the first chat about the trip?",
        "What changed since our last session?",
        "How long is a session?",
        "Which model did the chat use?",
    ],
)
def test_a_session_of_something_else_is_not_counted(query: str) -> None:
    cue = read(query, NOW)
    assert cue is None or cue.sessions is None


def test_a_date_says_more_than_recently_or_now() -> None:
    june = ("on 3 June, 2023",), instant("2023-06-03"), instant("2023-06-04")
    assert read("What did Maria start recently, as mentioned on 3 June, 2023?", NOW) == TimeCue(*june)
    assert read("What is John currently doing on 3 June, 2023?", NOW) == TimeCue(*june)


def test_a_date_and_an_order_go_together() -> None:
    expected = TimeCue(("latest", "in July 2023"), instant("2023-07-01"), instant("2023-08-01"), "latest")
    assert read("What is in their latest project in July 2023?", NOW) == expected


@pytest.mark.parametrize(
    ("query", "words", "relation", "anchor"),
    [
        ("Where did she live before the move?", "before the move", "before", "the move"),
        ("Before the move, where did she live?", "Before the move", "before", "the move"),
        ("Before she moved what did she do?", "Before she moved", "before", "she moved"),
        ("What did Ann do after the wedding?", "after the wedding", "after", "the wedding"),
        ("What has she earned since she changed jobs?", "since she changed jobs", "after", "she changed jobs"),
        ("What changed since the last release?", "since the last release", "after", "the last release"),
        ("Where did she go after the show?", "after the show", "after", "the show"),
        ("Where did we live until the flood?", "until the flood", "before", "the flood"),
        ("What broke after v2.1 of the server?", "after v2.1 of the server", "after", "v2.1 of the server"),
        ("Who was there the day after the wedding?", "the day after the wedding", "after", "the wedding"),
    ],
)
def test_an_event_is_read_as_an_anchor(query: str, words: str, relation: str, anchor: str) -> None:
    assert read(query, NOW) == TimeCue((words,), relation=relation, anchor=anchor)


def test_the_date_of_an_event_bounds_what_is_after_or_before_it() -> None:
    after = read("When did he meet them after his trip in August 2023?", NOW)
    assert after == TimeCue(
        ("after his trip in August 2023",), instant("2023-08-01"), relation="after", anchor="his trip"
    )
    before = read("What did he pack before his trip last week?", NOW)
    assert before == TimeCue(
        ("before his trip last week",), end=instant("2023-11-27"), relation="before", anchor="his trip"
    )


def test_of_two_dates_the_one_counted_from_now_is_meant_else_the_first() -> None:
    result = read("What did we say about the 2022 budget last week?", NOW)
    assert result is not None
    assert result.words == ("last week",)
    two = read("Did we meet in May 2022, and why not in June 2023?", NOW)
    assert two is not None
    assert two.words == ("in May 2022",)


NO_TIMES = [
    "", "When did Caroline move?", "How long ago was the party?", "What month did Tim plan on going?",
    "May I see the notes?", "March on, soldiers", "Who won in March Madness?", "What did April say?",
    "What did I buy for April?", "Did April and June meet?", "Is June coming?", "What is her last name?",
    "Whose first name is Ann?", "Get me a second opinion", "She paints now and then", "Now, where does she live?",
    "I was 8 when I got 2 dogs", "Is the sun bright?", "How long did it last?",
    "How long did the trip to Rome last?", "How long did the battery last on the road?",
    "What is in my current account?", "What is the current directory?", "Who is the first lady?",
    "What should I do first?", "What do I have first?", "Who is first?", "the last line of the file",
    "at the latest", "last but not least", "Who looks after the dog?", "Who is she named after?",
    "after all, what is it?", "What does she do after work?", "What happened after that?",
    "Which one came after 2.0?", "since when do we use uv?", "What holds until now?", "in Spring Boot",
    "the fall of Rome", "Where is the Christmas tree?", "Who paid for the Christmas tree?",
    "Where did we hide the Easter egg in the code?", "What did we eat with the Sunday roast?", "every Monday",
    "What was my New Year's resolution?", "What did I do on my birthday?", "Which image has the tag :latest?",
    "on weekends", "employee of the month",
    "Which port, 2022 or 3000?", "room 1999", "v2023-05", "192.168.10.20", "on the 15th floor", "half a year ago",
    "2.5 years ago", "in her thirties",
    "on the 5th floor", "the first thing", "31 February 2023", "2023-13-45", "in 9999", "5000 years ago",
]  # fmt: skip
"""Queries with words that only look like a time."""


def test_words_that_only_look_like_a_time_are_none() -> None:
    assert [query for query in NO_TIMES if read(query, NOW) is not None] == []


def test_case_does_not_matter() -> None:
    assert read("LAST WEEK", NOW) == TimeCue(("LAST WEEK",), instant("2023-11-20"), instant("2023-11-27"))
    assert read("on may 8", NOW) == TimeCue(("on may 8",), instant("2023-05-08"), instant("2023-05-09"))


def test_on_a_monday_last_monday_is_a_week_ago_and_monday_is_today() -> None:
    monday = datetime(2023, 11, 27, 8, tzinfo=UTC)
    assert read("last Monday", monday) == TimeCue(("last Monday",), instant("2023-11-20"), instant("2023-11-21"))
    assert read("Who called on Monday?", monday) == TimeCue(
        ("on Monday",), instant("2023-11-27"), instant("2023-11-28")
    )


def test_a_query_is_read_to_a_bounded_length() -> None:
    assert read("word " * (when.MAX_LENGTH // 5) + "yesterday", NOW) is None
    assert read("yesterday " * 10_000, NOW) is not None


def test_at_the_edges_of_the_calendar_a_window_is_left_out() -> None:
    end, start = datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)
    assert read("What did she paint recently?", end) is None
    assert read("What did she paint recently?", start) is None
    assert read("today", end) is None
    assert read("yesterday", start) is None


def test_every_holiday_month_and_season_is_found_by_its_name() -> None:
    for name, rule in periods.HOLIDAYS.items():
        window, words = periods.named(name, 2022), f"on {name} 2022"
        told = periods.around(rule, window)
        expected = TimeCue((words,), *window, told_from=told.start, told_until=told.end)
        assert read(f"What did we do {words}?", NOW) == expected
    windows = {f"in {name}": periods.recurring(name, NOW, "latest") for name in (*periods.MONTHS, *periods.SEASONS)}
    for words, window in windows.items():
        assert read(f"What did we do {words}?", NOW) == TimeCue((words,), window.start, window.end)


@pytest.mark.parametrize("unit", periods.UNITS)
def test_every_number_of_every_unit_is_found(unit: str) -> None:
    for number, (low, high) in NUMBERS.items():
        cue = read(f"What was {number} {unit}s ago?", NOW)
        assert cue is not None
        window = periods.back(unit, NOW, low, high)
        assert (cue.words, cue.start, cue.end) == ((f"{number} {unit}s ago",), window.start, window.end)
