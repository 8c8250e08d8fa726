"""A file of the first edition opens with today's code, and everything in it is found; see `fixtures/`."""

import json
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

import salience
from salience.compose import keyring
from salience.store import schema

FIXTURES = Path(__file__).parent / "fixtures"
sys.path.insert(0, str(FIXTURES))

from make_first_edition import LATER, TOKEN_PREFIX, Clock, HashEmbedder, answers, exported  # noqa: E402

EXPECTED = json.loads((FIXTURES / "first_edition.json").read_text("utf-8"))


@pytest.fixture
def path(tmp_path):
    return shutil.copy(FIXTURES / "first_edition.db", tmp_path / "agent.db")


@pytest.fixture
def engine(path):
    with salience.connect(path, embedder=HashEmbedder(), clock=Clock(LATER)) as engine:
        yield engine


def test_every_memory_is_there_with_its_versions_counters_and_vectors(engine):
    assert exported(engine) == EXPECTED["memories"]
    assert [memory.content for memory in engine.of("other").list().memories] == ["A memory of another tenant"]


def test_recalls_bring_what_the_first_edition_brought(engine):
    # `precise` with a least score has the formula that `salience` had then
    assert answers(engine, profile="precise", min_score=0.01) == EXPECTED["answers"]


def test_the_counters_are_in_the_rows(engine, path):
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == (schema.HEAD,)
        assert connection.execute("SELECT name FROM sqlite_master WHERE name = 'counters'").fetchall() == []
        counted = connection.execute("SELECT sum(access_count) FROM memories WHERE tenant = 'default'").fetchone()
    expected = [line["memory"] for line in EXPECTED["memories"][1:]]
    latest = {memory["id"]: memory["access_count"] for memory in expected}
    assert counted == (sum(latest.values()),)
    assert counted > (5,)


def test_the_file_is_healthy_and_can_be_written_on(engine):
    assert engine.doctor().findings == ()
    assert engine.remember("Written by this edition").status == "created"
    pending = engine.recall("Stored while the embedder was down")[0]
    assert pending.memory.content == "Stored while the embedder was down"


def test_requests_and_keys_are_known(engine, path):
    raised = next(line["memory"] for line in EXPECTED["memories"][1:] if line["memory"]["reason"] == "raised")
    again = engine.update(
        raised["id"], content="The API rate limit is 90 requests per minute", reason="raised", key="raise-1"
    )
    assert again.memory.version == raised["version"]
    with closing(keyring(path)) as keys:
        assert keys.find(TOKEN_PREFIX).note == "fixture"
