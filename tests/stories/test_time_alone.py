"""Questions that are only a time: they return the memories of that time."""

from __future__ import annotations

import os
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import salience
from bench.times import questions
from salience.evaluate.datasets import conversations
from tests.contract.doubles import PlantedEmbedder

DATA = os.environ.get("SALIENCE_TEST_DATA")


@pytest.mark.data
@pytest.mark.skipif(not DATA, reason="SALIENCE_TEST_DATA names no folder with locomo/")
def test_questions_about_a_time_alone_over_locomo():
    precisions = defaultdict(list)
    for file in sorted((Path(DATA) / "locomo").glob("conv-*.json"))[:1]:
        (conversation,) = conversations(file)
        turns = [(message, session.session_id) for session in conversation.sessions for message in session.messages]
        with salience.connect(":memory:", embedder=PlantedEmbedder()) as memory:
            memory.remember_many(
                {"content": turn.content, "speaker": turn.speaker, "session_id": home, "created_at": turn.timestamp}
                for turn, home in turns
            )
            for asked in questions(conversation):
                until = min(asked.end, asked.now)
                right = sum(asked.start <= turn.timestamp < until for turn, _ in turns)
                if right:
                    hits = memory.recall(asked.text, now=asked.now, limit=min(right, 1000), dry_run=True)
                    found = sum(asked.start <= hit.memory.created_at < until for hit in hits)
                    precisions[asked.kind].append(found / right)
    means = {kind: sum(values) / len(values) for kind, values in precisions.items()}
    assert sum(map(len, precisions.values())) > 250
    assert min(means.values()) >= 0.85, means


def story(memory, *sessions):
    """Store sessions of one day each: the name of a session, and its texts."""
    for day, (name, *texts) in enumerate(sessions):
        for minute, text in enumerate(texts):
            made = datetime(2026, 4, 10 + day, 9, minute, tzinfo=UTC)
            memory.remember(text, session_id=name, created_at=made)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("what was our first chat about?", {"one a", "one b"}),
        ("the second session", {"two"}),
        ("what happened in the last session?", {"three a", "three b"}),
        ("what happened two sessions ago?", {"two"}),
        ("the session before last", {"two"}),
        ("tell me about the first two sessions", {"one a", "one b", "two"}),
    ],
)
def test_sessions_are_counted_in_the_order_of_time(planted, asked, expected):
    memory = planted(dict.fromkeys(("one a", "one b", "two", "three a", "three b"), 0.0))
    story(memory, ("z", "one a", "one b"), ("y", "two"), ("x", "three a", "three b"))
    found = memory.recall(asked, now=datetime(2026, 4, 20, tzinfo=UTC), dry_run=True)
    assert found.intent.name == "period"
    assert {hit.memory.content for hit in found if not hit.weak} == expected


def test_sessions_after_the_question_and_the_callers_own_do_not_count(planted):
    memory = planted(dict.fromkeys(("one", "two", "three"), 0.0))
    story(memory, ("z", "one"), ("y", "two"), ("x", "three"))
    asked = "what did we talk about in the last session?"
    (best, *_) = memory.recall(asked, now=datetime(2026, 4, 11, 12, tzinfo=UTC), dry_run=True)
    assert best.memory.content == "two"
    (best, *_) = memory.recall(asked, session_id="x", now=datetime(2026, 4, 12, 12, tzinfo=UTC), dry_run=True)
    assert best.memory.content == "two"
    assert memory.recall("the fourth session", dry_run=True).intent.time is None


def test_important_memories_and_those_with_the_words_of_the_question_come_first(planted):
    texts = ("we decided on blue tiles", "chat about tiles", "the deposit is due", "decided long ago")
    memory = planted(dict.fromkeys(texts, 0.0))
    for text, day, importance in zip(texts, (7, 8, 9, 1), (0.5, 0.5, 0.9, 1.0), strict=True):
        memory.remember(text, created_at=datetime(2026, 4, day, tzinfo=UTC), importance=importance)
    now = datetime(2026, 4, 15, tzinfo=UTC)

    def found(asked):
        return [hit.memory.content for hit in memory.recall(asked, now=now, dry_run=True) if not hit.weak]

    assert found("what happened last week?")[0] == texts[2]
    assert set(found("what happened last week?")) == set(texts[:3])
    assert found("what did we decide last week?")[0] == texts[0]


def test_recently_fades(planted):
    memory = planted(dict.fromkeys(("old", "a month ago", "a week ago", "today"), 0.0))
    now = datetime(2026, 4, 15, 12, tzinfo=UTC)
    for text, days in (("old", 90), ("a month ago", 29), ("a week ago", 7), ("today", 0)):
        memory.remember(text, created_at=now - timedelta(days=days))
    hits = memory.recall("what's been going on lately?", now=now, dry_run=True, min_score=0)
    assert [hit.memory.content for hit in hits] == ["today", "a week ago", "a month ago", "old"]
    assert [hits[0].weak, hits[1].weak, hits[3].weak] == [False, False, True]  # the third is near the threshold
    assert hits[0].confidence > hits[1].confidence > hits[2].confidence > hits[3].confidence
    assert hits[0].score_detail.period > hits[1].score_detail.period > hits[2].score_detail.period >= 0.5


def test_the_window_counts_from_the_instant_of_the_question(planted):
    memory = planted({"beans": 0.0, "rent": 0.0})
    memory.remember("beans", created_at=datetime(2026, 4, 14, 9, tzinfo=UTC))
    memory.remember("rent", created_at=datetime(2026, 4, 15, 9, tzinfo=UTC))
    for now, content in (
        (datetime(2026, 4, 15, 8, tzinfo=UTC), "beans"),
        (datetime(2026, 4, 16, 8, tzinfo=UTC), "rent"),
    ):
        (best, *_) = memory.recall("what happened yesterday?", now=now, dry_run=True)
        assert (best.memory.content, best.weak) == (content, False)


@pytest.mark.parametrize(
    ("asked", "best"),
    [
        ("what did I do on Sunday?", "Yesterday I had dinner with Bob"),
        ("what happened on 3 May?", "On 3 May we meet the architect"),
        ("what's on Friday?", "Next Friday we fly to Rome"),
        ("what do I have next Friday?", "Next Friday we fly to Rome"),
    ],
)
def test_a_time_that_the_text_states_counts_too(planted, asked, best):
    made = {
        "Yesterday I had dinner with Bob": datetime(2026, 4, 13, 9, tzinfo=UTC),  # a Monday
        "Tea is good": datetime(2026, 4, 13, 10, tzinfo=UTC),
        "On 3 May we meet the architect": datetime(2026, 4, 14, 9, tzinfo=UTC),
        "Next Friday we fly to Rome": datetime(2026, 4, 14, 10, tzinfo=UTC),
        "Coffee is better": datetime(2026, 3, 1, tzinfo=UTC),
    }
    memory = planted(dict.fromkeys(made, 0.0))
    for text, moment in made.items():
        memory.remember(text, created_at=moment)
    now = datetime(2026, 5, 5, tzinfo=UTC) if "May" in asked else datetime(2026, 4, 14, 12, tzinfo=UTC)
    found = memory.recall(asked, now=now, dry_run=True)
    assert found[0].memory.content == best
    assert not found[0].weak
    assert found.exact


def test_a_stated_time_follows_the_text(planted):
    memory = planted({"We meet on 3 May": 0.0, "We meet on 4 May": 0.0})
    made = memory.remember("We meet on 3 May", created_at=datetime(2026, 4, 14, tzinfo=UTC)).memory
    memory.update(made.id, content="We meet on 4 May")
    (hit,) = memory.recall("what happens on 4 May?", now=datetime(2026, 4, 20, tzinfo=UTC), dry_run=True)
    assert hit.score_detail.period == 0.5
    assert hit.score_detail.recompute() == pytest.approx(hit.score)
    then = memory.recall("what happens on 3 May?", now=datetime(2026, 4, 20, tzinfo=UTC), dry_run=True, min_score=0)
    assert [hit.score_detail.period for hit in then] == [0.0]


def test_what_people_tell_around_a_holiday_counts_for_it(planted):
    made = {
        "The in-laws stayed over Christmas": datetime(2025, 12, 27, tzinfo=UTC),
        "Ann burnt the goose": datetime(2025, 12, 25, tzinfo=UTC),
        "New tyres fitted": datetime(2025, 12, 30, tzinfo=UTC),
        "Christmas with my sister was loud": datetime(2026, 2, 3, tzinfo=UTC),
        "Bought oat milk": datetime(2025, 11, 3, tzinfo=UTC),
        "The Christmas tree is in the attic": datetime(2026, 1, 20, tzinfo=UTC),
    }
    memory = planted(dict.fromkeys(made, 0.0))
    memory.remember_many({"content": text, "created_at": moment} for text, moment in made.items())
    found = memory.recall("What did we do at Christmas?", now=datetime(2026, 4, 1, tzinfo=UTC), limit=9, dry_run=True)
    sure = [hit.memory.content for hit in found if not hit.weak]
    assert set(sure) == set(list(made)[:4])
    assert set(sure[:2]) == {"The in-laws stayed over Christmas", "Ann burnt the goose"}


def test_a_period_without_memories_makes_an_ordinary_question(planted):
    asked = "What did I do on 3 March?"
    memory = planted({"I cleaned the garage": 0.9, "I had a cold": 0.2}, query="What")
    memory.remember("I cleaned the garage", created_at=datetime(2025, 6, 3, tzinfo=UTC), importance=0.1)
    memory.remember("I had a cold", created_at=datetime(2026, 3, 6, tzinfo=UTC), importance=1.0)
    now = datetime(2026, 4, 1, tzinfo=UTC)
    found = memory.recall(asked, now=now, dry_run=True)
    assert found.intent.name == "empty_period"
    assert found[0].memory.content == "I cleaned the garage"
    assert not found.confident
    assert [hit.score_detail.recompute() for hit in found] == pytest.approx([hit.score for hit in found])
    explained = memory.explain(asked, found[0].memory.id, now=now)
    assert explained.score_detail.final == found[0].score
    memory.remember("Bought a lamp", created_at=datetime(2026, 3, 3, tzinfo=UTC))
    found = memory.recall(asked, now=now, dry_run=True)
    assert (found.intent.name, found[0].memory.content, found.confident) == ("period", "Bought a lamp", True)


def test_the_memory_that_replaces_one_of_a_period_answers_for_it(planted):
    memory = planted(dict.fromkeys(("red paint", "blue paint"), 0.5), query="What")
    old = memory.remember("red paint", created_at=datetime(2026, 3, 3, tzinfo=UTC)).memory
    memory.remember("blue paint", created_at=datetime(2026, 3, 20, tzinfo=UTC), supersedes=old.id)
    found = memory.recall("What is on 3 March?", now=datetime(2026, 4, 1, tzinfo=UTC), dry_run=True)
    assert found.intent.name == "period"
    assert [hit.memory.content for hit in found] == ["blue paint"]


def test_the_latest_of_a_thing_is_the_latest_memory_about_it(planted):
    asked = "What is the latest build deployed?"
    texts = {"Deployed build 76 to prod": 0.82, "Deployed build 77 to prod": 0.8}
    others = {f"Note {number} about something else": 0.3 for number in range(20)}
    memory = planted({**texts, **others}, query="What")
    for day, text in enumerate([*texts, *others]):
        memory.remember(text, created_at=datetime(2026, 3, 2, tzinfo=UTC) + timedelta(days=day))
    found = memory.recall(asked, now=datetime(2026, 4, 15, tzinfo=UTC), limit=4, dry_run=True)
    assert [hit.memory.content for hit in found][:2] == ["Deployed build 77 to prod", "Deployed build 76 to prod"]
    assert [hit.score_detail.time for hit in found] == [1.0, 0.75, 0.75, 0.75]
