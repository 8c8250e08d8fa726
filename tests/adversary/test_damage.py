"""Files with rows that hold what was never written: a clear error, no text of anybody, and `doctor` names the row."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import salience
from salience import StoreError
from salience.engine import Engine
from tests.contract.doubles import PlantedEmbedder

DAMAGE = {
    "tier": "UPDATE memories SET tier = 'zebra'",
    "list": "UPDATE memories SET tags = '[\"zebra'",
    "metadata": "UPDATE memories SET metadata = '{\"zebra'",
    "instant": "UPDATE memories SET changed_at = 9000000000000000000",
    "no instant": "UPDATE memories SET created_at = 'zebra'",
    "importance": "UPDATE memories SET importance = 'zebra'",
    "vector": "UPDATE memories SET vector = x'00'",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with salience.connect(str(tmp_path / "agent.db"), embedder=PlantedEmbedder({"a zebra": 0.9})) as engine:
        engine.remember("a zebra")
    return tmp_path / "agent.db"


def damaged(path: Path, statement: str) -> Engine:
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()
    return salience.connect(str(path), embedder=PlantedEmbedder({"a zebra": 0.9}))


@pytest.mark.parametrize("what", DAMAGE)
def test_a_recall_of_a_damaged_row_fails_with_our_own_error(path, what):
    with damaged(path, DAMAGE[what]) as engine, pytest.raises(StoreError, match=r"salience doctor$") as caught:
        engine.recall("query", min_score=0.0)
    assert "zebra" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("what", DAMAGE)
def test_doctor_finds_the_row_and_tells_no_text(path, what):
    with damaged(path, DAMAGE[what]) as engine:
        report = engine.doctor()
    assert any(finding.id for finding in report.findings if finding.check in ("rows", "vectors"))
    assert not any("zebra" in finding.problem for finding in report.findings)


@pytest.mark.parametrize("value", [7, -1, "zebra"])
def test_doctor_finds_an_importance_that_no_memory_has(path, value):
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE memories SET importance = ?", (value,))
    connection.close()
    with salience.connect(str(path), embedder=PlantedEmbedder()) as engine:
        assert "its column 'importance' is damaged" in engine.doctor().findings[0].problem


def test_a_file_without_its_revision_is_damaged_and_said_to_be(path):
    with pytest.raises(StoreError, match="it is damaged"):
        damaged(path, "DELETE FROM alembic_version")


@pytest.mark.parametrize(
    ("statement", "verb", "given"),
    [
        ("UPDATE meta SET value = 'AACAPw==' WHERE name = 'fingerprint'", "recall", {"query": "query"}),
        ("UPDATE meta SET value = 'AACAPw==' WHERE name = 'fingerprint'", "remember", {"content": "a zebra"}),
        ("INSERT INTO sessions VALUES ('default', 'default\x1f\x1fs', 'x')", "remember",
         {"content": "a lion", "session_id": "s"}),
        ("INSERT INTO leases VALUES ('upkeep:default', 'somebody', 'x')", "upkeep", {}),
    ],
)  # fmt: skip
def test_a_verb_that_reads_a_damaged_value_fails_with_our_own_error(path, statement, verb, given):
    with damaged(path, statement) as engine:
        with pytest.raises(StoreError, match="salience doctor"):
            getattr(engine, verb)(**given)
        assert not engine.doctor().healthy
        assert engine.doctor(repair=True).healthy
        getattr(engine, verb)(**given)
