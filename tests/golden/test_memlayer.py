"""Every number of MemLayer's page, through the public API."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest


def test_the_formula_on_the_printed_components(planted, clock):
    days = -30 * math.log2(0.634)
    memory = planted({"billing": 0.912}, profile="memlayer")
    memory.remember("billing", importance=0.8, created_at=clock() - timedelta(days=days))
    detail = memory.recall("query")[0].score_detail
    assert (round(detail.cosine, 3), round(detail.recency, 3), round(detail.importance, 3)) == (0.912, 0.634, 0.800)
    assert round(detail.final, 4) == 0.8452  # the page prints 0.771, which its formula does not give
    assert [part.weight for part in detail.parts] == [0.70, 0.20, 0.10]


def test_a_memory_stored_now_has_recency_1_and_halves_in_30_days(planted, clock):
    memory = planted({"now": 1.0, "month": 1.0}, profile="memlayer")
    memory.remember("now")
    memory.remember("month", created_at=clock() - timedelta(days=30))
    assert [hit.score_detail.recency for hit in memory.recall("query")] == [1.0, pytest.approx(0.5)]


def test_recency_counts_from_storage_also_after_an_update(planted, clock):
    memory = planted({"text": 1.0}, profile="memlayer")
    stored = memory.remember("text").memory
    clock.advance(days=30)
    memory.update(stored.id, importance=0.9)
    assert memory.recall("query")[0].score_detail.recency == pytest.approx(0.5)


def test_importance_defaults_to_one_half(planted):
    memory = planted({"User viewed the pricing page.": 1.0}, profile="memlayer")
    memory.remember("User viewed the pricing page.", user_id="user_abc", agent_id="sales_agent", memory_type="episodic")
    hit = memory.recall("query", user_id="user_abc", agent_id="sales_agent")[0]
    assert hit.score_detail.importance == 0.5
    assert hit.memory.tier == "episodic"


def test_a_cosine_below_min_score_is_out_before_scoring(planted):
    memory = planted({"at": 0.70, "below": 0.6999}, profile="memlayer")
    for text in ("at", "below"):
        memory.remember(text, importance=1.0)
    assert [hit.memory.content for hit in memory.recall("query")] == ["at"]


def test_a_final_score_below_min_score_is_out_after_scoring(planted, clock):
    memory = planted({"old": 0.80, "new": 0.80}, profile="memlayer")
    memory.remember("old", importance=0.5, created_at=clock() - timedelta(days=300))
    memory.remember("new", importance=0.5)
    assert [hit.memory.content for hit in memory.recall("query")] == ["new"]
    assert round(memory.recall("query", min_score=0.6)[1].score, 3) == 0.610


@pytest.mark.parametrize(("min_score", "count"), [(0.70, 2), (0.85, 1), (0.0, 3)])
def test_min_score_as_the_page_uses_it(planted, min_score, count):
    memory = planted({"strong": 0.95, "fair": 0.72, "noise": 0.05}, profile="memlayer")
    for text in ("strong", "fair", "noise"):
        memory.remember(text)
    assert len(memory.recall("query", min_score=min_score)) == count


def test_the_default_min_score_is_70_per_cent(planted):
    memory = planted({"fair": 0.69}, profile="memlayer")
    memory.remember("fair")
    assert len(memory.recall("query")) == 0


def test_a_recall_changes_nothing(planted):
    memory = planted({"text": 0.9}, profile="memlayer")
    stored = memory.remember("text").memory
    memory.recall("query")
    assert memory.get(stored.id) == stored


def test_a_context_is_held_to_min_score_too(planted):
    memory = planted({"strong": 0.95, "noise": 0.05}, profile="memlayer")
    for text in ("strong", "noise"):
        memory.remember(text, user_id="u", agent_id="a")
    where = {"user_id": "u", "agent_id": "a"}
    assert [hit.memory.content for hit in memory.context("query", **where).hits] == ["strong"]
    assert len(memory.context("query", min_score=0.0, **where).hits) == 2
