"""Questions about a thing that a number or a name tells from others of its kind."""

from __future__ import annotations

import pytest

import salience

OTHERS = ("The office closes at six", "Mira is allergic to walnuts", "My passport is in the desk", "Rex is the dog")
SIBLINGS = [
    ("PR 89 is blocked by CI", "PR 88 was merged", "Was PR 89 merged?"),
    ("The invoice 1044 is still open", "The invoice 1043 was paid on 3 May", "Is invoice 1044 paid?"),
    ("Room 14 has a leak in the ceiling", "Room 12 is free on Friday", "Is room 14 free?"),
    ("db-04 is down since noon", "db-03 replicates to the backup", "Does db-04 replicate?"),
    ("Version 2.2 is planned for June", "Version 2.1 was released in March", "When was version 2.2 released?"),
    ("Flight BA117 leaves from gate 9", "Flight BA112 was delayed by an hour", "Is flight BA117 delayed?"),
    ("Apartment 4B got new windows", "Apartment 3B has a balcony", "Does apartment 4B have a balcony?"),
    ("Issue #77 is about fonts", "Issue #76 was fixed by Tom", "Who fixed issue #77?"),
]
NAMES = [
    ("Alice likes tea very much", "Does Bob like tea?"),
    ("Dora flies to Oslo often", "Does Carl fly to Oslo?"),
]
ANSWERS = [
    ("Room 12 and room 14 are free on Friday", "Is room 14 free?"),
    ("PR 90 reverts PR 89", "Was PR 89 reverted?"),
    ("Chapter seven is finished", "Is chapter 7 finished?"),
    ("The API limit is 900 requests a minute", "Is the API limit 500?"),
    ("I weigh 72 kg", "Do I weigh more than 70 kg?"),
    ("The train leaves at 9:40 from platform 3", "Which platform does the 9:40 train leave from?"),
    ("Bob likes tea and Alice likes coffee", "Does Bob like tea?"),
]


def asked(question, *texts):
    with salience.connect(":memory:") as memory:
        for text in (*OTHERS, *texts):
            memory.remember(text, user_id="u")
        return memory.recall(question, user_id="u", limit=3)


@pytest.mark.parametrize(("right", "other", "question"), SIBLINGS)
@pytest.mark.parametrize("newest_first", [False, True])
def test_the_thing_that_the_question_names_comes_first(right, other, question, newest_first):
    found = asked(question, *((other, right) if newest_first else (right, other)))
    assert found[0].memory.content == right


@pytest.mark.parametrize(("other", "question"), [*((other, question) for _, other, question in SIBLINGS), *NAMES])
def test_another_thing_is_no_sure_answer(other, question):
    assert asked(question, other).verdict != "answers"


@pytest.mark.parametrize(("text", "question"), ANSWERS)
def test_a_memory_of_the_thing_answers(text, question):
    found = asked(question, text)
    assert (found[0].memory.content, found.verdict) == (text, "answers")


def test_the_score_says_so():
    found = asked("Was PR 89 merged?", "PR 88 was merged")
    detail = found[0].score_detail
    assert detail.same_thing == 0.5
    assert found[0].score == pytest.approx(detail.recompute(), abs=1e-9)
