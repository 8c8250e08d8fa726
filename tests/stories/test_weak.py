"""Weak hits and unsure answers, as each surface tells of them."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.every_store

TEXTS = {"near": 0.6, "far": 0.3}


def test_recall_marks_weak_hits_and_says_whether_it_is_confident(planted):
    memory = planted(TEXTS)
    for text in TEXTS:
        memory.remember(text)
    found = memory.recall("query", dry_run=True)
    assert [(hit.memory.content, hit.weak) for hit in found] == [("near", False), ("far", True)]
    assert found.confident
    memory.forget(found[0].memory.id)
    assert not memory.recall("query", dry_run=True).confident


def test_each_of_several_recalls_speaks_for_itself(planted):
    memory = planted(TEXTS)
    memory.remember("far")
    memory.remember("near", project="p")
    sure, unsure = (memory.recall_many(["query"], project=project, dry_run=True)[0] for project in ("p", None))
    assert (sure.confident, unsure.confident) == (True, False)
    assert [hit.weak for hit in unsure] == [True]


def test_profiles_without_a_threshold_mark_nothing(planted):
    memory = planted(TEXTS)
    memory.remember("far")
    found = memory.recall("query", profile="mememory", dry_run=True)
    assert [hit.weak for hit in found] == [False]
    assert found.confident
