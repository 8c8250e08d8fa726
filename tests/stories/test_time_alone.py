"""Questions that are only a time, over real conversations: they return what lies in that time."""

from __future__ import annotations

import os
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import salience
from salience.evaluate.datasets import conversations
from salience.testing.doubles import PlantedEmbedder

DAY = timedelta(days=1)
DATA = os.environ.get("SALIENCE_TEST_DATA")


def midnight(moment):
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def asked_about(moment, speaker):
    """Yield kind, question, the instant at which it is asked, and the window that it means, for a day of a session."""
    day, after = midnight(moment), midnight(moment) + timedelta(hours=12)
    month = day.replace(day=1)
    following = (month + 31 * DAY).replace(day=1)
    monday = day - day.weekday() * DAY
    yield "date", f"What happened on {day:%-d %B %Y}?", after + 90 * DAY, (day, day + DAY)
    yield "date and speaker", f"What did {speaker} talk about on {day:%B %-d, %Y}?", after + 90 * DAY, (day, day + DAY)
    yield "month", f"What did we talk about in {month:%B %Y}?", after + 90 * DAY, (month, following)
    span = f"What was going on between {day:%-d %B %Y} and {day + 9 * DAY:%-d %B %Y}?"
    yield "span", span, after + 90 * DAY, (day, day + 10 * DAY)
    yield "yesterday", "what did we do yesterday?", after + DAY, (day, day + DAY)
    yield "today", "What did we discuss today?", after.replace(hour=23, minute=59), (day, day + DAY)
    yield "last week", "Tell me what happened last week", monday + 9 * DAY, (monday, monday + 7 * DAY)
    yield "days ago", "what happened 3 days ago?", after + 3 * DAY, (day, day + DAY)


@pytest.mark.data
@pytest.mark.skipif(not DATA, reason="SALIENCE_TEST_DATA names no folder with locomo/")
def test_questions_about_a_time_alone_over_locomo():
    precisions = defaultdict(list)
    for file in sorted((Path(DATA) / "locomo").glob("conv-*.json")):
        (conversation,) = conversations(file)
        turns = [(message, session.session_id) for session in conversation.sessions for message in session.messages]
        speaker = turns[0][0].speaker
        with salience.connect(":memory:", embedder=PlantedEmbedder()) as memory:
            memory.remember_many(
                {"content": turn.content, "speaker": turn.speaker, "session_id": home, "created_at": turn.timestamp}
                for turn, home in turns
            )
            days = sorted({midnight(turn.timestamp.astimezone(UTC)) for turn, _ in turns})
            for day in days:
                for kind, question, now, (start, end) in asked_about(day, speaker):
                    meant = [
                        turn
                        for turn, _ in turns
                        if start <= turn.timestamp < end and (kind != "date and speaker" or turn.speaker == speaker)
                    ]
                    if not meant:
                        continue
                    hits = memory.recall(question, now=now, limit=min(len(meant), 1000), dry_run=True)
                    found = [
                        start <= hit.memory.created_at < end
                        and (kind != "date and speaker" or hit.memory.speaker == speaker)
                        for hit in hits
                    ]
                    precisions[kind].append(sum(found) / len(meant))
    means = {kind: sum(values) / len(values) for kind, values in precisions.items()}
    queries = sum(map(len, precisions.values()))
    assert queries > 500
    assert sum(map(sum, precisions.values())) / queries >= 0.5
    assert min(means.values()) >= 0.5, means


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
