"""Every number of CMM's page, through the public API, with the readings where it is silent."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest

GRACE = 1_209_600
LAMBDA = math.log(2) / 5_184_000


def decay_of(memory, **options):
    return memory.recall("query", dry_run=True, min_score=0.0, **options)[0].score_detail.decay


@pytest.mark.parametrize(
    ("seconds", "decay"),
    [(0, 1.0), (GRACE, 1.0), (GRACE + 60, math.exp(-LAMBDA * (GRACE + 60))), (5_184_000, 0.5), (10_368_000, 0.25)],
)
def test_decay_starts_after_two_weeks_and_halves_in_60_days(planted, clock, seconds, decay):
    memory = planted({"text": 1.0}, profile="cmm")
    memory.remember("text", created_at=clock() - timedelta(seconds=seconds))
    assert decay_of(memory) == pytest.approx(decay, abs=1e-12)


def test_age_is_counted_from_the_last_access(planted, clock):
    memory = planted({"text": 1.0}, profile="cmm")
    memory.remember("text", importance=1.0)
    clock.advance(days=60)
    assert memory.recall("query")[0].score_detail.decay == pytest.approx(0.5)
    clock.advance(days=10)
    assert decay_of(memory) == 1.0


def test_half_an_access_a_week_locks_a_memory(planted, clock):
    memory = planted({"text": 1.0}, profile="cmm")
    memory.remember("text", importance=1.0)
    for _ in range(10):
        memory.recall("query")
    clock.advance(weeks=20)
    assert decay_of(memory) == 1.0
    clock.advance(seconds=1)
    assert decay_of(memory) < 1.0


def test_rehearsed_memories_decay_slower(planted, clock):
    memory = planted({"text": 1.0}, profile="cmm")
    memory.remember("text", importance=1.0)
    for _ in range(4):
        memory.recall("query")
    clock.advance(weeks=10)
    rate = LAMBDA / (1 + 1.0 * 4 / 10)
    assert decay_of(memory) == pytest.approx(math.exp(-rate * 10 * 604_800), abs=1e-12)


def test_frequency_counts_over_at_least_a_week(planted, clock):
    memory = planted({"text": 1.0}, profile="cmm")
    memory.remember("text", importance=1.0)
    memory.recall("query")
    clock.advance(days=15)
    expected = math.exp(-LAMBDA / (1 + 1 / (15 / 7)) * 15 * 86_400)
    assert decay_of(memory) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "multiplier"),
    [
        ("Actually, the meeting is on Tuesday", 2.0),
        ("I was wrong about the port", 2.0),
        ("Always run the linter first", 2.0),
        ("Never deploy on Fridays", 2.0),
        ("Remember the milk", 2.0),
        ("I prefer window seats", 1.5),
        ("The build took four minutes", 1.0),
        ("hello", 0.5),
        ("Thanks!", 0.5),
    ],
)
def test_importance_is_scored_on_storage(planted, text, multiplier):
    memory = planted({text: 1.0}, profile="cmm")
    stored = memory.remember(text).memory
    assert stored.importance == multiplier / 2
    assert memory.recall("query")[0].score_detail.importance == multiplier


def test_priming_fades_with_the_turns_of_the_session(planted):
    memory = planted({"text": 1.0}, profile="cmm")
    memory.remember("text")

    def priming(session):
        return memory.recall("query", session_id=session, dry_run=True)[0].score_detail.priming

    assert priming("s") == 1.0
    memory.recall("query", session_id="s")
    assert priming("s") == pytest.approx(1.3)
    assert priming("other") == 1.0
    for turn in range(1, 11):
        memory.ingest([{"role": "user", "content": f"turn {turn}"}], session_id="s")
        assert priming("s") == pytest.approx(1 + 0.3 * math.exp(-0.5 * turn))
    assert priming("s") == pytest.approx(1.0, abs=0.003)


def test_the_product(planted, clock):
    memory = planted({"text": 0.8}, profile="cmm")
    memory.remember("text", importance=0.75)
    memory.recall("query", session_id="s")
    clock.advance(days=60)
    hit = memory.recall("query", session_id="s", min_score=0.0)[0]
    frequency = 1 / (60 / 7)
    decay = math.exp(-LAMBDA / (1 + frequency) * 60 * 86_400)
    assert hit.score == pytest.approx(0.8 * decay * 1.5 * 1.3, abs=1e-6)


def test_below_3_tenths_nothing_is_surfaced(planted):
    memory = planted({"at": 0.3, "below": 0.2999}, profile="cmm")
    for text in ("at", "below"):
        memory.remember(text, importance=0.5, entities=[])
    assert [hit.memory.content for hit in memory.recall("query")] == ["at"]


def test_a_neighbour_gets_half_of_its_parents_score(planted):
    memory = planted({"seed": 0.9, "neighbour": 0.1}, profile="cmm")
    seed = memory.remember("seed", importance=0.5, entities=[]).memory
    memory.remember("neighbour", importance=0.5, entities=[])
    hits = memory.recall("query")
    assert [hit.memory.content for hit in hits] == ["seed", "neighbour"]
    assert hits[1].score == pytest.approx(0.45, abs=1e-6)
    assert (hits[1].via.id, hits[1].via.hops, hits[1].via.link) == (seed.id, 1, "neighbour")
    assert hits[0].via is None


def test_entity_links_spread_too(planted):
    cosines = {"seed": 0.9, **{f"near {n}": 0.8 for n in range(5)}, "linked": 0.01}
    memory = planted(
        cosines, profile="cmm", axes=dict.fromkeys([t for t in cosines if t != "linked"], 1) | {"linked": 2}
    )
    memory.remember("seed", importance=0.5, entities=["Atlas"])
    for number in range(5):
        memory.remember(f"near {number}", importance=0.5, entities=[])
    memory.remember("linked", importance=0.5, entities=["Atlas"])
    hit = {hit.memory.content: hit for hit in memory.recall("query", limit=7)}["linked"]
    assert hit.via.link == "entity"
    assert hit.score == pytest.approx(0.45, abs=1e-6)


def test_the_larger_score_is_kept(planted):
    memory = planted({"seed": 0.9, "own": 0.6}, profile="cmm")
    for text in ("seed", "own"):
        memory.remember(text, importance=0.5, entities=[])
    hit = memory.recall("query")[1]
    assert hit.score == pytest.approx(0.6, abs=1e-6)
    assert hit.via is None


def test_a_neighbour_below_the_threshold_is_not_surfaced(planted):
    memory = planted({"seed": 0.5, "neighbour": 0.1}, profile="cmm")
    for text in ("seed", "neighbour"):
        memory.remember(text, importance=0.5, entities=[])
    assert [hit.memory.content for hit in memory.recall("query")] == ["seed"]


def test_a_zero_in_any_factor_removes_the_memory(planted):
    memory = planted({"seed": 0.9, "unrelated": -0.1, "worthless": 0.9}, profile="cmm")
    memory.remember("seed", importance=1.0, entities=["Atlas"])
    memory.remember("unrelated", importance=1.0, entities=["Atlas"])
    memory.remember("worthless", importance=0.0, entities=["Atlas"])
    assert [hit.memory.content for hit in memory.recall("query", min_score=0.0)] == ["seed"]
