"""Token vectors: stored with a memory, used by the shortlist, left out and added later."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

import salience

FACTS = [f"Number {number} on the list is about gardens" for number in range(50)]
ASKED = "who looks after the dog?"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "agent.db"


def pooled(detail):
    return (detail.similarity + detail.context_similarity) / 2


def test_a_hit_is_scored_by_tokens_and_its_detail_recomputes(file):
    with salience.connect(file) as memory:
        memory.remember_many([{"content": text} for text in (*FACTS, "Hedda walks our beagle at noon")])
        found = memory.recall(ASKED, min_score=0, dry_run=True)
        assert found.exact
        assert found[0].memory.content == "Hedda walks our beagle at noon"
        for hit in found:
            assert hit.score_detail.recompute() == pytest.approx(hit.score, abs=1e-9)
            assert hit.score_detail.late_interaction != pytest.approx(pooled(hit.score_detail), abs=1e-6)


def test_explain_names_the_shortlist(file):
    with salience.connect(file) as memory:
        receipts = memory.remember_many([{"content": text} for text in (*FACTS, "Hedda walks our beagle at noon")])
        outcomes = {memory.explain(ASKED, receipt.memory.id).stage for receipt in receipts}
        assert outcomes == {"returned", "outranked", "shortlist"}
        left_out = next(e for e in (memory.explain(ASKED, r.memory.id) for r in receipts) if e.stage == "shortlist")
        assert "not on the shortlist" in left_out.reason


def test_turns_are_scored_with_their_neighbours(tmp_path):
    turns = [("ann", "Who walks the dog?"), ("bob", "Hedda does."), ("ann", "Good.")]
    late = []
    for number, told in enumerate((turns, turns[1:2])):
        with salience.connect(tmp_path / f"{number}.db") as memory:
            memory.ingest([{"speaker": one, "content": text} for one, text in told], session_id="s")
            hits = memory.recall(ASKED, min_score=0)
            late += [hit.score_detail.late_interaction for hit in hits if hit.memory.content == "Hedda does."]
    together, alone = late
    assert together > alone


def test_the_setting_turns_them_off(file, monkeypatch):
    monkeypatch.setenv("SALIENCE_TOKEN_VECTORS", "off")
    with salience.connect(file) as memory:
        memory.remember("Hedda walks our beagle at noon")
        (hit,) = memory.recall(ASKED, min_score=0)
        assert hit.score_detail.late_interaction == pytest.approx(pooled(hit.score_detail), abs=1e-9)
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("SELECT count(tokens) FROM memories").fetchone() == (0,)


def test_reembed_adds_them_to_memories_of_an_earlier_release(file, monkeypatch):
    monkeypatch.setenv("SALIENCE_TOKEN_VECTORS", "off")
    with salience.connect(file) as memory:
        memory.remember("Hedda walks our beagle at noon")
    monkeypatch.delenv("SALIENCE_TOKEN_VECTORS")
    with salience.connect(file) as memory:
        before = memory.recall(ASKED, min_score=0, dry_run=True)[0].score_detail
        assert before.late_interaction == pytest.approx(pooled(before), abs=1e-9)
        memory.reembed("minilm")
        after = memory.recall(ASKED, min_score=0, dry_run=True)[0].score_detail
        assert after.late_interaction != pytest.approx(pooled(after), abs=1e-6)
        assert after.similarity == before.similarity
