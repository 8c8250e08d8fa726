"""Every number of ZeroMemory's page, through the public API."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest

RATES = {"working": math.log(1 / 0.6) / 24, "episodic": math.log(5) / 168, "semantic": math.log(100) / 720}


@pytest.mark.parametrize(
    ("tier", "hours", "recency"), [("working", 24, 0.6), ("episodic", 168, 0.2), ("semantic", 720, 0.01)]
)
def test_each_printed_age_holds_for_its_tier(planted, clock, tier, hours, recency):
    memory = planted({"text": 1.0}, profile="zeromemory")
    memory.remember("text", tier=tier, created_at=clock() - timedelta(hours=hours))
    assert memory.recall("query", dry_run=True)[0].score_detail.recency == pytest.approx(recency, abs=1e-12)


@pytest.mark.parametrize("tier", RATES)
def test_under_an_hour_recency_is_about_1(planted, clock, tier):
    memory = planted({"text": 1.0}, profile="zeromemory")
    memory.remember("text", tier=tier, created_at=clock() - timedelta(minutes=59))
    assert memory.recall("query", dry_run=True)[0].score_detail.recency > 0.97


def test_semantic_memory_decays_slowest(planted, clock):
    memory = planted(dict.fromkeys(RATES, 1.0), profile="zeromemory")
    for tier in RATES:
        memory.remember(tier, tier=tier, created_at=clock() - timedelta(hours=100))
    recency = {hit.memory.tier: hit.score_detail.recency for hit in memory.recall("query")}
    assert recency["working"] < recency["episodic"] < recency["semantic"]


def test_the_worked_example(planted, clock):
    rows = {
        "Alice prefers Python for backend": (0.92, 0.8, 0.9),
        "Alice mentioned Rust is interesting": (0.75, 0.4, 0.3),
        "Backend team uses Python and FastAPI": (0.70, 0.5, 0.7),
    }
    memory = planted({text: row[0] for text, row in rows.items()}, profile="zeromemory")
    for text, (_, importance, recency) in rows.items():
        age = timedelta(hours=-math.log(recency) / RATES["episodic"])
        memory.remember(text, importance=importance, created_at=clock() - age)
    hits = memory.recall("query: What programming language does Alice prefer?")
    first, second, third = rows
    assert [hit.memory.content for hit in hits] == [first, third, second]
    assert [round(hit.score, 3) for hit in hits] == [0.88, 0.64, 0.555]
    assert [part.weight for part in hits[0].score_detail.parts] == [0.5, 0.3, 0.2]


def test_a_recall_strengthens_what_it_returns(planted, clock):
    memory = planted({"text": 0.9, "other": 0.1}, profile="zeromemory")
    text = memory.remember("text", importance=0.9).memory
    other = memory.remember("other", importance=0.9).memory
    clock.advance(hours=100)
    assert memory.recall("query", limit=1)[0].memory.importance == 0.9
    after = memory.get(text.id)
    assert (after.access_count, after.importance, after.accessed_at) == (1, pytest.approx(0.95), clock())
    assert memory.get(other.id) == other
    for _ in range(3):
        memory.recall("query", limit=1)
    assert memory.get(text.id).importance == 1.0
    assert memory.get(text.id).access_count == 4
    assert memory.get(text.id).version == 1


def test_accessing_a_memory_resets_its_recency_clock(planted, clock):
    memory = planted({"text": 0.9}, profile="zeromemory")
    memory.remember("text")
    clock.advance(days=30)
    assert memory.recall("query")[0].score_detail.recency < 0.01
    assert memory.recall("query")[0].score_detail.recency == 1.0


def test_a_dry_run_has_no_side_effects(planted, clock):
    memory = planted({"text": 0.9}, profile="zeromemory")
    stored = memory.remember("text").memory
    clock.advance(hours=1)
    memory.recall("query", dry_run=True)
    assert memory.get(stored.id) == stored


def test_tags_filter_recall(planted):
    memory = planted({"tagged": 0.1, "untagged": 0.9}, profile="zeromemory")
    memory.remember("tagged", tags=["python"])
    memory.remember("untagged")
    assert [hit.memory.content for hit in memory.recall("query", tags=["python"])] == ["tagged"]


def test_a_memory_must_have_every_requested_tag(planted):
    memory = planted({"both": 0.1, "one": 0.9}, profile="zeromemory")
    memory.remember("both", tags=["python", "backend"])
    memory.remember("one", tags=["python"])
    assert [hit.memory.content for hit in memory.recall("query", tags=["backend", "python"])] == ["both"]
    assert [hit.memory.content for hit in memory.graph_recall("query", tags=["backend"])] == ["both"]


def test_the_tier_is_episodic_unless_the_caller_says_otherwise(planted):
    memory = planted({}, profile="zeromemory")
    assert memory.remember("text").memory.tier == "episodic"
    assert memory.remember("other", memory_type="semantic").memory.tier == "semantic"


def test_working_memory_becomes_episodic_when_its_session_ends(planted, clock):
    memory = planted({}, profile="zeromemory")
    mine = memory.remember("mine", tier="working", session_id="s", importance=0.4).memory
    other = memory.remember("other", tier="working", session_id="t").memory
    clock.advance(hours=1)
    report = memory.end_session("s")
    assert report.promoted == (mine.id,)
    after = memory.get(mine.id)
    assert (after.tier, after.tier_since, after.importance) == ("episodic", clock(), 0.4)
    assert memory.get(other.id) == other
    assert memory.end_session("s").promoted == ()


GRAPH = {
    "Alice leads the Atlas team": (0.10, ["Alice", "Atlas"]),
    "Atlas ships in May": (0.30, ["Atlas", "May release"]),
    "May release needs a changelog": (0.50, ["May release", "changelog"]),
    "The changelog is generated": (0.70, ["changelog"]),
    "Nothing to do with it": (0.20, []),
}


def graph(planted):
    memory = planted({text: cosine for text, (cosine, _) in GRAPH.items()}, profile="zeromemory")
    for text, (_, entities) in GRAPH.items():
        memory.remember(text, entities=entities)
    return memory


def test_graph_proximity_halves_with_each_hop_and_ends_after_two(planted):
    hits = graph(planted).graph_recall("query what does alice do?", limit=10)
    proximity = [hit.score_detail.graph_proximity for text in GRAPH for hit in hits if hit.memory.content == text]
    assert proximity == [1.0, 0.5, 0.25, 0.0, 0.0]


@pytest.mark.parametrize("graph_weight", [0.0, 0.3, 1.0])
def test_the_graph_formula(planted, graph_weight):
    hits = graph(planted).graph_recall("query Alice", graph_weight=graph_weight, limit=10)
    for hit in hits:
        cosine = GRAPH[hit.memory.content][0]
        expected = cosine * (1 - graph_weight) + hit.score_detail.graph_proximity * graph_weight
        assert hit.score == pytest.approx(expected, abs=1e-6)


def test_the_default_graph_weight_is_3_tenths(planted):
    first = graph(planted).graph_recall("query Alice", limit=1)[0]
    assert {part.signal: part.weight for part in first.score_detail.parts} == {
        "similarity": 0.7,
        "graph_proximity": 0.3,
    }


def test_max_hops_can_be_set(planted):
    hits = graph(planted).graph_recall("query Alice", max_hops=3, limit=10)
    proximity = {hit.memory.content: hit.score_detail.graph_proximity for hit in hits}
    assert proximity["The changelog is generated"] == 0.125


def test_a_query_without_a_known_entity_has_no_proximity(planted):
    hits = graph(planted).graph_recall("query Zebulon", limit=10)
    assert {hit.score_detail.graph_proximity for hit in hits} == {0.0}


def test_the_words_of_a_pending_memory_are_compared_with_those_of_all(planted):
    """Also with those of the memories that a recall leaves out for their low score."""
    notes = [f"note {number}" for number in range(300)]
    memory = planted(dict.fromkeys(notes, 0.3), profile="zeromemory", axes=dict.fromkeys(notes, 1))
    memory.remember_many([{"content": text} for text in (*notes, "the vault key is under the lamp")])
    embedder = memory.services.embedder._embedder
    embedder.embed = lambda texts: 1 / 0
    assert memory.remember("a vault", importance=1.0).status == "pending"
    del embedder.embed
    found = {hit.memory.content: hit for hit in memory.recall("query: vault key lamp", limit=20)}
    assert 0 < found["a vault"].score_detail.similarity < 0.5
