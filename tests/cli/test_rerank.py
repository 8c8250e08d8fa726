"""How the command line tells that a reranker was at work."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

from salience.models import registry

CHOSEN = {"SALIENCE_RERANKER": "backwards"}


@pytest.fixture(autouse=True)
def backwards(monkeypatch):
    made = SimpleNamespace(name="backwards", scores=lambda query, texts: np.arange(len(texts)))
    monkeypatch.setitem(registry.RERANKERS, "backwards", lambda _: made)


def test_a_recall_shows_the_order_and_scores_of_the_reranker(run, stored):
    plain = run("recall", "query", "--user", "alice", "--profile", "zeromemory").stdout.splitlines()
    found = run("recall", "query", "--user", "alice", "--profile", "zeromemory", env=CHOSEN).stdout.splitlines()
    assert "reranked by backwards" in found[0]
    assert "reranked" not in plain[0]
    assert [line.split("\t")[-1] for line in plain[2:]] == [line.split("\t")[-1] for line in found[:1:-1]]
    assert "rerank 1.000" in found[2]
    assert "rerank 0.000" in found[3]
    printed = run("recall", "query", "--user", "alice", "--profile", "zeromemory", "--json", env=CHOSEN).stdout
    assert json.loads(printed)["reranker"] == "backwards"
    assert [hit["rerank"] for hit in json.loads(printed)["hits"]] == [1.0, 0.0]
