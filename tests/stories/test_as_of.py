"""The services as it stood: what a recall and an explanation as of an earlier instant go by, one thing at a time."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

import salience
from salience import InputError, NotFoundError
from salience.rank import profiles

pytestmark = pytest.mark.every_store

EASY = {"profile": "zeromemory", "min_score": 0.0}


def contents(memory, **arguments):
    return [hit.memory.content for hit in memory.recall("query", **{**EASY, **arguments})]


def test_content_and_vector_are_those_at_that_instant(planted, clock):
    memory = planted({"first text": 0.9, "second text": 0.2})
    id = memory.remember("first text").memory.id
    then = clock()
    clock.advance(hours=1)
    memory.update(id, content="second text")
    [hit] = memory.recall("query first", as_of=then, **EASY)
    assert (hit.memory.content, hit.memory.version) == ("first text", 1)
    assert hit.score_detail.similarity == pytest.approx(0.9)
    assert memory.recall("query", **EASY)[0].score_detail.similarity == pytest.approx(0.2)


MIDNIGHT = datetime(2026, 5, 2, tzinfo=UTC)


@pytest.mark.every_surface
@pytest.mark.parametrize(
    "written",
    [
        MIDNIGHT, MIDNIGHT.replace(tzinfo=None), MIDNIGHT.astimezone(timezone(timedelta(hours=-7))), MIDNIGHT.date(),
        "2026-05-02", "2026-05-02T00:00", "2026-05-02 02:00:00+02:00", "20260502",
    ],
    ids=str,
)  # fmt: skip
def test_an_instant_is_a_datetime_a_date_or_text(planted, clock, written):
    memory = planted({"first text": 0.9, "second text": 0.2})
    id = memory.remember("first text", created_at=written).memory.id
    assert memory.get(id).created_at == MIDNIGHT
    clock.advance(days=3)
    memory.update(id, content="second text")
    assert contents(memory, as_of=written, since=written) == ["first text"]
    assert contents(memory, now=date(2026, 5, 5)) == ["second text"]
    assert contents(memory, until=written) == []
    assert [one.id for one in memory.list(since=written)] == [id]
    assert memory.explain("query", id, as_of="2026-05-01").stage == "not_stored"


def test_words_name_instants_by_the_clock_of_the_engine(clock):
    with salience.connect(":memory:", clock=clock) as memory:  # 2026-05-01 12:00
        memory.remember("Tea is at four", created_at="2d")
        memory.remember("Tea is at five", created_at="yesterday")
        assert [f"{one.created_at:%d %H}" for one in memory.list()] == ["29 12", "30 00"]
        assert [one.content for one in memory.list(since="this week", until="36h")] == ["Tea is at four"]


def test_words_match_the_text_at_that_instant(planted, clock):
    memory = planted({"old wording": 0.5, "new wording": 0.5})
    id = memory.remember("old wording").memory.id
    memory.remember("old")
    then = clock()
    clock.advance(hours=1)
    memory.update(id, content="new wording")
    for profile in profiles.NAMES:
        [*now] = memory.recall("query new", profile=profile, min_score=0.0, dry_run=True)
        [*before] = memory.recall("query new", profile=profile, min_score=0.0, as_of=then)
        assert "new wording" not in [hit.memory.content for hit in before]
        assert "old wording" not in [hit.memory.content for hit in now]


def test_importance_and_counters_are_those_at_that_instant(planted, clock):
    memory = planted({"text": 0.9}, profile="zeromemory")
    memory.remember("text", importance=0.5)
    seen = []
    for _ in range(4):
        clock.advance(hours=1)
        memory.recall("query")
        seen.append((clock(), memory.recall("query", dry_run=True)[0].memory))
    assert [round(stood.importance, 2) for _, stood in seen] == [0.55, 0.6, 0.65, 0.7]
    for instant, stood in seen:
        [hit] = memory.recall("query", as_of=instant)
        assert hit.memory == stood
    [hit] = memory.recall("query", as_of=seen[0][0] - timedelta(microseconds=1))
    assert (hit.memory.importance, hit.memory.access_count, hit.memory.accessed_at) == (0.5, 0, None)
    assert memory.recall("query", dry_run=True)[0].memory == seen[-1][1]


def test_weight_and_supersession_are_those_at_that_instant(planted, clock):
    memory = planted({"older": 0.9, "newer": 0.8})
    old = memory.remember("older").memory.id
    then = clock()
    clock.advance(hours=1)
    new = memory.remember("newer", supersedes=old).memory.id
    [hit] = memory.recall("query", profile="mememory", as_of=then)
    assert (hit.memory.id, hit.memory.weight, hit.score_detail.weight) == (old, 1.0, 1.0)
    assert [hit.memory.id for hit in memory.recall("query", profile="mememory")] == [new]
    assert memory.explain("query", old, profile="mememory").stage == "superseded"
    assert memory.explain("query", old, profile="mememory", as_of=then).stage == "returned"


def test_a_fact_that_is_outdated_now_held_then(planted, clock):
    memory = planted({"I live in Lyon": 0.9, "I live in Oslo": 0.8})
    old = memory.remember("I live in Lyon", fact_key="user.residence", user_id="u").memory.id
    then = clock()
    clock.advance(days=1)
    new = memory.remember("I live in Oslo", fact_key="user.residence", user_id="u").memory.id
    for profile, stage in (("salience", "replaced"), ("memorysync", "same_fact")):
        arguments = {"profile": profile, "min_score": 0.0, "user_id": "u"}
        assert [hit.memory.id for hit in memory.recall("query", **arguments)] == [new]
        assert [hit.memory.id for hit in memory.recall("query", as_of=then, **arguments)] == [old]
        found = memory.explain("query", old, **arguments)
        assert (found.stage, found.by) == (stage, new)
        assert memory.explain("query", old, as_of=then, **arguments).stage == "returned"
        assert memory.explain("query", new, as_of=then, **arguments).stage == "not_stored"


def test_a_memory_that_expired_since_was_live(planted, clock):
    memory = planted({"text": 0.9})
    id = memory.remember("text", ttl="2h").memory.id
    clock.advance(hours=1)
    then = clock()
    clock.advance(hours=2)
    assert contents(memory) == []
    assert contents(memory, as_of=then) == ["text"]
    assert contents(memory, as_of=then, now=clock()) == []  # the state of `then`, ranked as of now
    assert memory.explain("query", id, as_of=then, **EASY).stage == "returned"
    assert memory.explain("query", id, **EASY).stage == "expired"


def test_what_was_forgotten_since_is_there_and_what_came_later_is_not(planted, clock):
    memory = planted({"first": 0.9, "second": 0.8})
    first = memory.remember("first").memory
    clock.advance(hours=1)
    then = clock()
    clock.advance(hours=1)
    second = memory.remember("second", created_at=first.created_at).memory  # said before, stored later
    memory.forget(first.id)
    gone = clock()
    clock.advance(hours=1)
    memory.restore(first.id)
    assert contents(memory, as_of=first.created_at - timedelta(seconds=1)) == []
    assert contents(memory, as_of=then) == ["first"]
    assert contents(memory, as_of=gone) == ["second"]
    assert contents(memory) == ["first", "second"]
    assert memory.explain("query", first.short_id, as_of=gone, **EASY).stage == "forgotten"
    found = memory.explain("query", second.short_id, as_of=then, **EASY)
    assert (found.stage, found.score_detail, found.path[0].outcome) == ("not_stored", None, "fell")
    assert found.reason == "It was stored on 2026-05-01T14:00:00+00:00, after the requested instant."


def test_tiers_and_tags_are_those_at_that_instant(planted, clock):
    memory = planted({"text": 0.9})
    id = memory.remember("text", tier="working", tags=["red"], session_id="s").memory.id
    then = clock()
    clock.advance(hours=1)
    memory.end_session("s")
    memory.update(id, tags=["blue"])
    assert contents(memory, tiers=["working"], tags=["red"], as_of=then) == ["text"]
    assert contents(memory, tiers=["episodic"], as_of=then) == contents(memory, tags=["blue"], as_of=then) == []
    assert contents(memory, tiers=["episodic"], tags=["blue"]) == ["text"]
    assert memory.explain("query", id, tags=["blue"], as_of=then, **EASY).stage == "filtered"
    assert memory.explain("query", id, tags=["red"], **EASY).stage == "filtered"


def test_the_conversation_around_a_turn_is_that_of_then(planted, clock):
    memory = planted({"we sail": 0.3, "the boat leaks": 0.9, "the boat is sold": 0.1})
    memory.ingest([{"speaker": "Bo", "content": "we sail"}], session_id="s")
    alone = clock()
    clock.advance(hours=1)
    [second] = memory.ingest([{"speaker": "Bo", "content": "the boat leaks"}], session_id="s")
    both = clock()
    clock.advance(hours=1)
    memory.update(second.memory.id, content="the boat is sold")

    def around(**arguments):
        hits = memory.recall("query", profile="salience", min_score=0.0, dry_run=True, **arguments)
        return next(hit.score_detail.context_similarity for hit in hits if hit.memory.content == "we sail")

    found = [around(as_of=alone), around(as_of=both), around()]
    assert found == pytest.approx([0.3, (0.3 + 0.9) / 2, (0.3 + 0.1) / 2])


def test_a_speaker_is_known_from_when_something_of_hers_is_stored(planted, clock):
    memory = planted()
    memory.ingest([{"speaker": "Bo", "content": "hello there"}], session_id="s")
    then = clock()
    before = memory.recall("What does Ann drink", min_score=0.0, dry_run=True)
    clock.advance(hours=1)
    memory.ingest([{"speaker": "Ann", "content": "I drink tea"}], session_id="s")
    after = memory.recall("What does Ann drink", min_score=0.0, as_of=then)
    assert [hit.memory.speaker for hit in after] == ["Bo"]
    assert after[0].score_detail == before[0].score_detail  # asked in nobody's voice
    assert memory.recall("What does Ann drink", min_score=0.0)[0].memory.speaker == "Ann"


def test_it_touches_nothing(planted, clock):
    memory = planted({"text": 0.9}, profile="zeromemory")
    id = memory.remember("text").memory.id
    then = clock()
    clock.advance(hours=1)
    memory.recall("query", as_of=then, session_id="s")
    assert memory.get(id).access_count == 0
    assert "touch" not in memory.recall("query", as_of=then).timings


def test_priming_is_left_out(planted, clock):
    memory = planted({"text": 0.9}, profile="cmm")
    memory.remember("text", session_id="s")
    memory.recall("query", session_id="s")
    [now] = memory.recall("query", session_id="s", dry_run=True)
    [then] = memory.recall("query", session_id="s", as_of=clock())
    assert (now.score_detail.priming, then.score_detail.priming) == (pytest.approx(1.3), 1.0)


def test_a_state_of_the_future_is_refused(planted, clock):
    memory = planted({"text": 0.9})
    id = memory.remember("text").memory.id
    for read in (memory.recall, lambda query, **how: memory.explain(query, id, **how)):
        with pytest.raises(
            InputError, match=r"^as_of 2026-05-01T12:00:01\+00:00 is in the future\. Give an instant of the past"
        ):
            read("query", as_of=clock() + timedelta(seconds=1))
        read("query", as_of=clock())


def test_the_past_of_another_user_is_invisible(planted, clock):
    memory = planted({"text": 0.9})
    id = memory.remember("text", user_id="u").memory.id
    then = clock()
    clock.advance(hours=1)
    memory.forget(id, user_id="u")
    assert contents(memory, user_id="v", as_of=then) == []
    assert contents(memory, user_id="u", as_of=then) == ["text"]
    with pytest.raises(NotFoundError):
        memory.explain("query", id, user_id="v", as_of=then)


def test_a_memory_of_another_project_was_out_of_scope(planted, clock):
    memory = planted({"text": 0.9})
    id = memory.remember("text", user_id="u", project="p").memory.id
    then = clock()
    clock.advance(hours=1)
    memory.forget(id, user_id="u", project="p")
    found = memory.explain("query", id, user_id="u", as_of=then, **EASY)
    assert (found.stage, found.counterfactual) == ("out_of_scope", "Asking with project='p' would put it at rank 1.")


@pytest.mark.local("the contract of a store's history holds on every store")
@pytest.mark.parametrize("profile", profiles.NAMES)
def test_explain_tells_of_every_memory_what_recall_does(planted, clock, profile):
    texts = {f"text {number}": 0.95 - 0.05 * number for number in range(12)}
    memory = planted(texts)
    ids = [memory.remember(text, importance=0.5, kind="bootstrap").memory.id for text in texts]  # replace nothing
    then = clock()
    before = memory.recall("query", profile=profile, dry_run=True, limit=4)
    result = [memory.explain("query", id, profile=profile, limit=4) for id in ids]
    clock.advance(days=2)
    memory.forget(ids[0])
    memory.update(ids[1], content="text 11", importance=0.9)
    memory.update(ids[2], weight=0.1)
    memory.recall("query", profile="zeromemory", limit=12)
    after = memory.recall("query", profile=profile, limit=4, as_of=then)
    assert [hit.memory.id for hit in after] == [hit.memory.id for hit in before]
    for id, old in zip(ids, result, strict=True):
        found = memory.explain("query", id, profile=profile, limit=4, as_of=then)
        assert (found.stage, found.rank, found.by, found.path) == (old.stage, old.rank, old.by, old.path)
        assert found.counterfactual == old.counterfactual
        assert found.score_detail.final == pytest.approx(old.score_detail.final)
