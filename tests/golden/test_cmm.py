"""Every number of CMM's page, through the public API, with the readings where it is silent."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest

from salience.rank import profiles
from salience.rank.profile import parse

GRACE = 1_209_600
LAMBDA = math.log(2) / 5_184_000


def decay_of(memory, **options):
    return memory.recall("query", dry_run=True, min_score=0.0, **options)[0].score_detail.decay


@pytest.mark.parametrize(
    ("seconds", "decay"),
    [(0, 1.0), (GRACE, 1.0), (GRACE + 1, math.exp(-LAMBDA * (GRACE + 1))), (5_184_000, 0.5), (10_368_000, 0.25)],
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
        ("ACTUALLY, it is on Wednesday", 2.0),
        ("I always prefer window seats", 2.0),
        ("Hello, I prefer aisle seats", 1.5),
        ("Thanks, never again", 2.0),
        ("Nevertheless the build took four minutes", 1.0),
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


def test_a_recall_is_a_turn_and_activates_only_what_it_returns(planted):
    memory = planted({"first": 0.9, "second": 0.8}, profile="cmm")
    for text in ("first", "second"):
        memory.remember(text, importance=0.5, entities=[])

    def priming():
        hits = memory.recall("query", session_id="s", dry_run=True)
        return {hit.memory.content: hit.score_detail.priming for hit in hits}

    memory.recall("query", session_id="s", limit=1)
    assert priming() == {"first": pytest.approx(1.3), "second": 1.0}
    memory.recall("query", session_id="s", limit=0)
    assert priming() == {"first": pytest.approx(1 + 0.3 * math.exp(-0.5)), "second": 1.0}


def test_a_recall_counts_and_resets_the_clock(planted, clock):
    memory = planted({"text": 0.9}, profile="cmm")
    stored = memory.remember("text", importance=0.5).memory
    clock.advance(days=1)
    memory.recall("query")
    after = memory.get(stored.id)
    assert (after.access_count, after.accessed_at, after.importance) == (1, clock(), 0.5)


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


def plant_around(planted, others, **shared):
    """Return an engine with a seed, five memories close to it in the vectors, and `others`: text -> (cosine, axis)."""
    decoys = {f"decoy {number}": 0.02 for number in range(5)}
    cosines = {"seed": 0.8, **decoys, **{text: cosine for text, (cosine, _) in others.items()}}
    axes = {"seed": 1, **dict.fromkeys(decoys, 1), **{text: axis for text, (_, axis) in others.items()}}
    memory = planted(cosines, profile="cmm", axes=axes)
    for text in cosines:
        importance = 1.0 if text == "seed" else 0.5
        memory.remember(text, importance=importance, entities=shared.get(text.split()[0], []))
    return memory


def test_activation_spreads_one_hop_and_further_only_where_a_profile_says_so(planted):
    chain = {"middle": (0.02, 2), "end": (0.02, 3)}
    memory = plant_around(planted, chain, seed=["Atlas"], middle=["Atlas", "Borealis"], end=["Borealis"])
    hits = {hit.memory.content: hit for hit in memory.recall("query", limit=10, dry_run=True)}
    assert hits["middle"].score == pytest.approx(0.8, abs=1e-6)
    assert "end" not in hits
    further = parse(profiles.source("cmm").replace("hops = 1", "hops = 2"), "two hops")
    end = {hit.memory.content: hit for hit in memory.recall("query", limit=10, profile=further)}["end"]
    assert end.score == pytest.approx(0.8 * 2 * 0.5 * 0.5, abs=1e-6)
    assert (end.via.id, end.via.hops, end.via.link) == (hits["seed"].memory.id, 2, "entity")


def test_the_five_nearest_neighbours_are_fetched(planted):
    near = {f"near {number}": 0.05 + number / 50 for number in range(8)}
    memory = planted({"seed": 0.8, **near}, profile="cmm", axes=dict.fromkeys(("seed", *near), 1))
    for text in ("seed", *near):
        memory.remember(text, importance=0.5, entities=[])
    hits = memory.recall("query", limit=20)
    assert {hit.memory.content for hit in hits} == {"seed", *(f"near {number}" for number in range(3, 8))}
    assert {hit.via.link for hit in hits[1:]} == {"neighbour"}


def test_the_five_nearest_entity_links_are_fetched(planted):
    linked = {f"linked {number}": (0.05 + number / 50, 2) for number in range(8)}
    memory = plant_around(planted, linked, seed=["Atlas"], linked=["Atlas"])
    hits = memory.recall("query", limit=20)
    found = {hit.memory.content for hit in hits if hit.via is not None and hit.via.link == "entity"}
    assert found == {f"linked {number}" for number in range(3, 8)}
    assert len(hits) == 1 + 5 + 5


def test_a_memory_that_is_near_and_shares_a_name_was_reached_by_the_name(planted):
    memory = planted({"seed": 0.9, "both": 0.1}, profile="cmm")
    for text in ("seed", "both"):
        memory.remember(text, importance=0.5, entities=["Atlas"])
    assert memory.recall("query")[1].via.link == "entity"


def test_each_seed_spreads(planted):
    children = {f"child {number}": (0.02, 2) for number in range(2)}
    memory = plant_around(planted, {"second": (0.7, 2), **children})
    hits = {hit.memory.content: hit for hit in memory.recall("query", limit=20)}
    for child in children:
        assert hits[child].score == pytest.approx(0.35, abs=1e-6)
        assert hits[child].via.id == hits["second"].memory.id
    assert hits["decoy 0"].via.id == hits["seed"].memory.id


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
