"""Confidence, weak hits and unsure answers, as each surface tells of them."""

from __future__ import annotations

import math

import pytest

TEXTS = {"near": 0.95, "far": 0.3}
MINE = """
name = "mine"
summary = "Similarity, with a threshold."
combine = "sum"
weak_below = 0.5
stages = ["expired", "score", "trim"]
[signal.similarity]
"""


def test_recall_marks_weak_hits_and_says_whether_it_is_confident(planted):
    memory = planted(TEXTS)
    for text in TEXTS:
        memory.remember(text)
    found = memory.recall("query", dry_run=True)
    assert [(hit.memory.content, hit.weak) for hit in found] == [("near", False), ("far", True)]
    assert found.confident
    assert 1 > found[0].confidence > found[1].confidence > 0
    memory.forget(found[0].memory.id)
    assert not memory.recall("query", dry_run=True).confident


def test_each_of_several_recalls_speaks_for_itself(planted):
    memory = planted(TEXTS)
    memory.remember("far")
    memory.remember("near", project="p")
    sure, unsure = (memory.recall_many(["query"], project=project, dry_run=True)[0] for project in ("p", None))
    assert (sure.confident, unsure.confident) == (True, False)
    assert [hit.weak for hit in unsure] == [True]


@pytest.mark.parametrize("profile", ["mememory", "memlayer", "zeromemory", "memorysync", "cmm"])
def test_profiles_without_a_model_give_no_confidence_and_mark_nothing(planted, profile):
    memory = planted({"far": 0.9})
    memory.remember("far")
    found = memory.recall("query", profile=profile, dry_run=True)
    assert [(hit.weak, hit.confidence) for hit in found] == [(False, None)]
    assert found.confident


def test_a_profile_without_a_model_marks_scores_below_its_threshold(planted, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(MINE, "utf-8")
    memory = planted({"near": 0.6, "far": 0.3}, profile="salience")
    for text in ("near", "far"):
        memory.remember(text)
    found = memory.recall("query", profile=path, dry_run=True)
    assert [(hit.memory.content, hit.weak, hit.confidence) for hit in found] == [
        ("near", False, None),
        ("far", True, None),
    ]


def test_explain_shows_the_terms_of_the_confidence(planted):
    memory = planted(TEXTS)
    kept = memory.remember("near").memory
    memory.remember("far")
    hit, *_ = memory.recall("query", dry_run=True)
    found = memory.explain("query", kept.id)
    assert found.confidence == pytest.approx(hit.confidence, abs=1e-9)
    assert [part.signal for part in found.confidence_parts][:3] == ["intercept", "match", "rank"]
    total = sum(part.weight * part.raw for part in found.confidence_parts)
    assert found.confidence == pytest.approx(1 / (1 + math.exp(-total)), abs=1e-9)
    out = memory.explain("query", kept.id, limit=0)
    assert (out.confidence, out.confidence_parts) == (None, ())
