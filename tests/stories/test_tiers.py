"""Tiers: what moves when a session ends, by the figures of ZeroMemory's page."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from salience.upkeep import earned_tier

HOUR = timedelta(hours=1)


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
def test_the_tier_that_a_memory_has_earned(planted, clock, tier, hours, importance, accesses, ended, earned):
    memory = planted().remember("text", tier=tier, importance=importance).memory
    memory = replace(memory, access_count=accesses)
    assert earned_tier(memory, clock() + hours * HOUR, ended) == earned


def test_the_wait_of_working_memory_counts_from_its_last_access(planted, clock):
    memory = planted().remember("text", tier="working").memory
    accessed = replace(memory, accessed_at=clock() + 3 * HOUR)
    assert earned_tier(accessed, clock() + 4 * HOUR, ended=False) == "working"


def test_the_end_of_a_session_moves_what_its_memories_have_earned(planted, clock):
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
