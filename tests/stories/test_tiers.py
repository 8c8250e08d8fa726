"""Tiers: what moves when a session ends and when memories are consolidated, by the figures of ZeroMemory's page."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest

import salience
from salience.errors import StoreError
from salience.maintain.tiers import promotion

pytestmark = pytest.mark.every_store

HOUR = timedelta(hours=1)


def earned_tier(memory, now, ended):
    step = promotion(memory, now, ended)
    return memory.tier if step is None else step.tier


@pytest.mark.parametrize(
    ("tier", "hours", "importance", "accesses", "ended", "earned"),
    [
        ("working", 0, 0.5, 0, True, "episodic"),
        ("working", 3.99, 0.5, 0, False, "working"),
        ("working", 4, 0.5, 0, False, "episodic"),
        ("working", 2, 0.71, 0, False, "episodic"),
        ("working", 2, 0.7, 0, False, "working"),
        ("working", 2, 0.5, 3, False, "episodic"),
        ("working", 1.99, 0.9, 9, False, "working"),
        ("episodic", 24, 0.5, 3, True, "semantic"),
        ("episodic", 23.9, 0.5, 3, True, "episodic"),
        ("episodic", 24, 0.5, 2, True, "episodic"),
        ("episodic", 12, 0.71, 3, False, "semantic"),
        ("episodic", 11.9, 0.71, 3, False, "episodic"),
        ("semantic", 9999, 1.0, 9, True, "semantic"),
    ],
)
def test_promotion(planted, clock, tier, hours, importance, accesses, ended, earned):
    memory = planted().remember("text", tier=tier, importance=importance).memory
    memory = replace(memory, access_count=accesses)
    assert earned_tier(memory, clock() + hours * HOUR, ended) == earned


def test_working_memory_is_promoted_by_its_last_access(planted, clock):
    memory = planted().remember("text", tier="working").memory
    accessed = replace(memory, accessed_at=clock() + 3 * HOUR)
    assert earned_tier(accessed, clock() + 4 * HOUR, ended=False) == "working"


def test_end_session_promotes_what_its_memories_earned(planted, clock):
    memory = planted({"used": 0.9}, profile="zeromemory")
    used = memory.remember("used", session_id="s", importance=0.4).memory
    plain = memory.remember("plain", session_id="s").memory
    for _ in range(3):
        memory.recall("query", limit=1)
    clock.advance(hours=24)
    assert memory.end_session("s").promoted == (used.id,)
    moved = memory.get(used.id)
    assert (moved.tier, moved.tier_since, moved.change) == ("semantic", clock(), "promote")
    assert moved.importance == pytest.approx(0.55)
    assert memory.get(plain.id) == plain


def test_consolidate_promotes_and_says_why(planted, clock):
    memory = planted({"used": 0.9}, profile="zeromemory")
    used = memory.remember("used", importance=0.4).memory
    idle = memory.remember("idle", tier="working", importance=0.5).memory
    weighty = memory.remember("weighty", tier="working", importance=0.9).memory
    for _ in range(3):
        memory.recall("query", limit=1)
    clock.advance(hours=2)
    assert memory.consolidate().promoted == {"episodic": (weighty.id,), "semantic": ()}
    clock.advance(hours=22)
    report = memory.consolidate()
    assert (report.examined, report.dry_run) == (3, False)
    assert report.promoted == {"episodic": (idle.id,), "semantic": (used.id,)}
    changes = {found.content: (found.change, found.changed_by, found.reason) for found in memory.list().memories}
    assert changes == {
        "weighty": ("promote", "upkeep", "idle for 2 hours and of importance 0.90"),
        "idle": ("promote", "upkeep", "idle for 24 hours"),
        "used": ("promote", "upkeep", "recalled 3 times and 24 hours in its tier"),
    }


def test_a_working_memory_that_is_recalled_often_waits_half_as_long(planted, clock):
    memory = planted({"used": 0.9}, profile="zeromemory")
    memory.remember("used", tier="working", importance=0.1)
    for _ in range(3):
        memory.recall("query", limit=1)
    clock.advance(hours=1, minutes=59)
    assert memory.consolidate().promoted["episodic"] == ()
    clock.advance(minutes=1)
    memory.consolidate()
    (moved,) = memory.list().memories
    assert (moved.tier, moved.reason) == ("episodic", "idle for 2 hours and recalled 3 times")


def test_a_second_consolidation_changes_nothing(planted, clock):
    memory = planted()
    made = [memory.remember(f"text {number}", tier="working", importance=0.4).memory for number in range(20)]
    clock.advance(hours=4)
    assert len(memory.consolidate().promoted["episodic"]) == 20
    assert memory.consolidate().promoted == {"episodic": (), "semantic": ()}
    held = memory.list().memories
    assert [found.id for found in held] == [found.id for found in made]
    assert {found.version for found in held} == {2}
    assert {found.importance for found in held} == {0.4}


def test_a_dry_run_reports_what_the_next_run_does(planted, clock):
    memory = planted()
    memory.remember("text", tier="working")
    clock.advance(hours=5)
    before = memory.list().memories
    plan = memory.consolidate(dry_run=True)
    assert (plan.dry_run, memory.list().memories) == (True, before)
    assert memory.consolidate().promoted == plan.promoted != {"episodic": (), "semantic": ()}


def test_consolidate_changes_only_visible_memories(planted, clock):
    memory = planted()
    memory.remember("of Ann", tier="working", user_id="ann")
    memory.remember("of Bob", tier="working", user_id="bob")
    clock.advance(hours=5)
    assert memory.consolidate().examined == 0
    assert len(memory.consolidate(user_id="ann").promoted["episodic"]) == 1
    assert memory.list(user_id="bob").memories[0].tier == "working"
    assert len(memory.consolidate(user_id=salience.ANY).promoted["episodic"]) == 1


def test_expired_and_forgotten_memories_are_not_promoted(planted, clock):
    memory = planted()
    memory.remember("brief", tier="working", ttl="1h", session_id="s")
    memory.forget(memory.remember("gone", tier="working", session_id="s").memory.id)
    clock.advance(hours=5)
    assert memory.consolidate().examined == 0
    assert memory.end_session("s").promoted == ()


def test_end_session_names_the_caller_and_promotes_working_memories(planted, clock):
    memory = planted()
    made = memory.remember("text", tier="working", session_id="s", user_id="ann").memory
    memory.remember("elsewhere", tier="working", session_id="t", user_id="ann")
    assert memory.end_session("s", user_id="ann", agent_id="coder").promoted == (made.id,)
    moved = memory.get(made.id, user_id="ann")
    assert (moved.tier, moved.changed_by, moved.reason) == ("episodic", "agent:coder", "its session ended")
    assert memory.end_session("s", user_id="ann").promoted == ()


def test_a_recall_during_the_pass_is_kept_and_an_update_makes_it_retry(planted, clock, monkeypatch):
    memory = planted({"text": 0.9}, profile="zeromemory")
    made = memory.remember("text", tier="working").memory
    clock.advance(hours=5)
    store, apply = memory.services.store, memory.services.store.apply
    raced = []

    def race(changes, **options):
        if not raced and changes:
            raced.append(True)
            memory.update(made.id, importance=0.2)
            memory.recall("query")
            memory.services.access_log.flush()
        return apply(changes, **options)

    monkeypatch.setattr(store, "apply", race)
    memory.consolidate()
    moved = memory.get(made.id)
    assert (moved.version, moved.access_count) == (2, 1)  # recalled just now: it stays where it is
    assert moved.tier == "working"
    clock.advance(hours=5)
    memory.consolidate()
    assert memory.get(made.id).tier == "episodic"


def lose_a_row(memory, target, monkeypatch):
    """Have the store lose a memory whenever another one is promoted."""
    trigger = (
        "CREATE TRIGGER lossy AFTER UPDATE ON memories BEGIN "
        "DELETE FROM memories WHERE id = (SELECT min(id) FROM memories); END"
    )
    if target == ":memory:":
        memory.services.store._writer.connection.driver_connection.execute(trigger)
    else:
        with closing(sqlite3.connect(target)) as file, file:
            file.execute(trigger)


@pytest.mark.local("the trigger that loses a row is SQLite's")
def test_a_consolidation_that_would_lose_a_memory_writes_nothing(planted, target, clock, monkeypatch):
    memory = planted()
    for number in range(3):
        memory.remember(f"text {number}", tier="working", session_id="s", ttl="6h")
    clock.advance(hours=5)
    before = memory.list().memories
    with monkeypatch.context() as patched:
        lose_a_row(memory, target, patched)
        for verb in (memory.consolidate, lambda: memory.end_session("s")):
            with pytest.raises(StoreError, match="nothing was written"):
                verb()
        assert memory.list().memories == before
        clock.advance(hours=1)
        report = memory.upkeep()
        assert report.expired == ()
        assert report.warning.startswith("expire: store: ")
        assert "where 3 and 3 are due; nothing was written" in report.warning
    assert [len(memory.history(one.id)) for one in before] == [1, 1, 1]
