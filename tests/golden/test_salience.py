"""The default profile: a convex fusion of cosine and BM25, each a share of the best hit's, times the confidence."""

from __future__ import annotations

import math

import pytest

DENSE, LEXICAL = 0.4, 0.6
K1, B = 0.9, 0.4
DATE = 3  # terms of "1 May 2026", which every memory stored at the stopped clock is indexed with


def bm25(frequencies, length, average, documents, held):
    """Return the sum over query terms of idf x tf / (tf + k1 (1 - b + b length / average)), written out."""
    total = 0.0
    for term, frequency in frequencies.items():
        idf = math.log(1 + (documents - held[term] + 0.5) / (held[term] + 0.5))
        total += idf * frequency / (frequency + K1 * (1 - B + B * length / average))
    return total


COSINES = {"vault key": 0.4, "vault vault lamp door": 0.8, "key chain holder board wall": 0.2, "lamp": 0.6}


def plant(planted):
    memory = planted(COSINES)
    for text in COSINES:
        memory.remember(text)
    return memory


def test_the_fusion_of_planted_cosines_and_known_bm25(planted):
    lengths = [2 + DATE, 4 + DATE, 5 + DATE, 1 + DATE]
    average = sum(lengths) / 4
    held = {"vault": 2, "key": 2}
    rows = [{"vault": 1, "key": 1}, {"vault": 2}, {"key": 1}, {}]
    lexical = [bm25(row, length, average, 4, held) for row, length in zip(rows, lengths, strict=True)]
    assert average == 6.0
    assert lexical == pytest.approx([math.log(2) * share for share in (2 / 1.84, 2 / 2.96, 1 / 2.02, 0)], abs=1e-12)
    best = max(lexical)
    expected = {
        text: DENSE * cosine / 0.8 + LEXICAL * score / best
        for (text, cosine), score in zip(COSINES.items(), lexical, strict=True)
    }
    hits = plant(planted).recall("query: the vault key")
    assert {hit.memory.content: hit.score for hit in hits} == pytest.approx(expected, abs=1e-6)
    assert [hit.memory.content for hit in hits] == sorted(expected, key=expected.__getitem__, reverse=True)
    parts = {hit.memory.content: hit.score_detail for hit in hits}
    for (text, cosine), score in zip(COSINES.items(), lexical, strict=True):
        assert parts[text].dense == pytest.approx(cosine / 0.8, abs=1e-6)
        assert parts[text].lexical == pytest.approx(score / best, abs=1e-6)
    weights = {part.signal: (part.weight, part.combine) for part in hits[0].score_detail.parts}
    assert weights == {"dense": (DENSE, "sum"), "lexical": (LEXICAL, "sum"), "weight": (1.0, "product")}


def test_dense_is_scaled_from_0_and_not_from_the_least_similar_memory(planted):
    memory = planted({"best": 0.8, "half": 0.4, "opposite": -0.5})
    for text in ("best", "half", "opposite"):
        memory.remember(text)
    dense = {hit.memory.content: hit.score_detail.dense for hit in memory.recall("query", dry_run=True)}
    assert dense == {"best": 1.0, "half": pytest.approx(0.5, abs=1e-6), "opposite": 0.0}
    memory.remember("random, and so unrelated")
    assert dense.items() <= {hit.memory.content: hit.score_detail.dense for hit in memory.recall("query")}.items()


def test_the_best_hit_of_a_channel_that_finds_something_has_1_there_also_when_it_is_alone(planted):
    memory = planted({"vault": 0.3})
    memory.remember("vault")
    hit = memory.recall("query: elsewhere", dry_run=True)[0]
    assert (hit.score_detail.dense, hit.score_detail.lexical) == (1.0, 0.0)
    assert hit.score == pytest.approx(DENSE, abs=1e-9)
    hit = memory.recall("query: vault")[0]
    assert (hit.score_detail.dense, hit.score_detail.lexical) == (1.0, 1.0)
    assert hit.score == pytest.approx(DENSE + LEXICAL, abs=1e-9)


def test_an_exact_term_that_the_cosine_misses_is_found(planted):
    texts = {f"error while paying, case {number}": 0.5 - number / 100 for number in range(12)}
    memory = planted({**texts, "ERR-4711 appeared": 0.0})
    for text in (*texts, "ERR-4711 appeared"):
        memory.remember(text)
    hits = memory.recall("query: what does 4711 mean?")
    found = {hit.memory.content: hit for hit in hits}["ERR-4711 appeared"]
    assert (found.score_detail.dense, found.score_detail.lexical) == (0.0, 1.0)
    assert found.score == pytest.approx(LEXICAL, abs=1e-9)
    assert hits.exact


def test_a_paraphrase_without_a_common_term_is_found(planted):
    texts = [f"the vault {number} is somewhere" for number in range(3)]
    memory = planted({**dict.fromkeys(texts, 0.1), "where the safe stands": 0.9})
    for text in (*texts, "where the safe stands"):
        memory.remember(text)
    assert "where the safe stands" in [hit.memory.content for hit in memory.recall("query: vault", limit=4)]


def test_the_weight_is_a_factor(planted):
    memory = planted({"sure": 0.8, "unsure": 0.8})
    memory.remember("sure")
    memory.remember("unsure", weight=0.3)
    scores = {hit.memory.content: hit.score for hit in memory.recall("query")}
    assert scores == {"sure": pytest.approx(DENSE, abs=1e-6), "unsure": pytest.approx(DENSE * 0.3, abs=1e-6)}


def test_only_the_newest_belief_is_shown(planted):
    memory = planted({"first": 0.9, "second": 0.5})
    first = memory.remember("first").memory
    memory.remember("second", supersedes=first.id)
    hits = memory.recall("query")
    assert [hit.memory.content for hit in hits] == ["second"]
    assert hits[0].score_detail.dense == 1.0  # what fell does not stretch the scale
    assert memory.get(first.id).weight == 0.1


def test_of_one_fact_only_the_newest_is_shown(planted, clock):
    memory = planted({"dark": 0.9, "light": 0.5})
    memory.remember("dark", fact_key="user.theme")
    clock.advance(days=1)
    memory.remember("light", fact_key="user.theme")
    assert [hit.memory.content for hit in memory.recall("query")] == ["light"]


def test_time_and_importance_do_not_move_the_score(planted, clock):
    memory = planted({"text": 0.8})
    memory.remember("text", importance=0.0)
    clock.advance(days=1000)
    assert memory.recall("query")[0].score == pytest.approx(DENSE, abs=1e-9)


def test_expired_memories_are_gone(planted, clock):
    memory = planted({"gone": 0.9, "there": 0.5})
    memory.remember("gone", ttl="1h")
    memory.remember("there")
    clock.advance(hours=1)
    assert [hit.memory.content for hit in memory.recall("query")] == ["there"]


def test_equal_scores_come_in_the_order_of_storing(planted):
    texts = [f"text {number}" for number in range(6)]
    memory = planted(dict.fromkeys(texts, 0.5), axes=dict.fromkeys(texts, 1))
    for text in reversed(texts):
        memory.remember(text)
    assert [hit.memory.content for hit in memory.recall("query")] == texts[:0:-1]  # five of the six


def test_a_recall_counts_and_resets_the_clock(planted, clock):
    memory = planted({"text": 0.9})
    stored = memory.remember("text", importance=0.5).memory
    clock.advance(days=1)
    memory.recall("query")
    after = memory.get(stored.id)
    assert (after.access_count, after.accessed_at, after.importance) == (1, clock(), 0.5)


def test_contradictions_are_reported_above_75_per_cent(planted):
    memory = planted({"at": 0.75, "above": 0.7501, "query new": 1.0})
    for text in ("at", "above"):
        memory.remember(text)
    assert [rival.memory.content for rival in memory.remember("query new").contradictions] == ["above"]
