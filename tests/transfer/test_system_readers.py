"""What held once is history: ended and superseded records of other systems, and the databases of MemPalace."""

from __future__ import annotations

import io
import json
import sqlite3
from contextlib import closing

import pytest
from other_systems import SAMPLES, WordEmbedder, fact, question

import salience


@pytest.fixture
def memory():
    with salience.connect(":memory:", embedder=WordEmbedder()) as engine:
        yield engine


def contents(recall):
    return [hit.memory.content for hit in recall]


def test_an_invalid_edge_of_graphiti_is_found_as_of_its_time(memory, tmp_path):
    memory.import_(SAMPLES["graphiti"](tmp_path, 20).path, source="graphiti", on_error="skip")
    assert fact(7) not in contents(memory.recall(question(7)))
    before = memory.recall(question(7), as_of="2023-06-01T00:00:00+00:00")
    assert contents(before) == [fact(7)]
    assert before[0].memory.created_at.isoformat() == "2024-03-01T16:30:00+00:00"
    assert before[0].memory.entities == ("Person7",)


def test_lines_of_apoc_are_edges_and_nodes(memory):
    lines = [
        {
            "type": "node",
            "labels": ["Entity"],
            "properties": {"uuid": "n", "name": "Ann", "summary": "plays the cello"},
        },
        {"type": "relationship", "label": "RELATES_TO", "properties": {"uuid": "e", "fact": "Ann owns a cello"}},
        {"type": "relationship", "label": "MENTIONS", "properties": {"uuid": "m", "group_id": "", "created_at": "x"}},
    ]
    file = io.BytesIO("\n".join(map(json.dumps, lines)).encode())
    assert memory.import_(file, source="graphiti").kinds == {"context": 1, "fact": 1}


def test_a_superseded_memory_of_mcp_memory_service_is_history(memory, tmp_path):
    memory.import_(SAMPLES["mcp-memory-service"](tmp_path, 20).path, source="mcp-memory-service", on_error="skip")
    assert fact(8) not in contents(memory.recall(question(8)))
    newer = next(hit.memory for hit in memory.recall(question(9)) if hit.memory.content == fact(9))
    assert memory.get(newer.supersedes).content == fact(8)
    assert fact(8) in contents(memory.recall(question(8), as_of="2024-03-01T18:00:00+00:00"))


def test_the_json_of_mcp_memory_service(memory, tmp_path):
    old = {"content": "Ann likes tea", "content_hash": "a", "tags": ["t"], "memory_type": "note", "created_at": 1.7e9}
    new = {**old, "content": "Ann likes coffee", "content_hash": "b", "created_at": 1.71e9, "metadata": {}}
    (tmp_path / "all.json").write_text(
        json.dumps({"export_metadata": {}, "memories": [{**old, "metadata": {"superseded_by": "b"}}, new]})
    )
    assert memory.import_(tmp_path / "all.json", source="mcp-memory-service").kinds == {"note": 2}
    assert contents(memory.recall("What does Ann like?")) == ["Ann likes coffee"]


def test_the_triples_of_a_palace_have_their_validity(memory, tmp_path):
    path = tmp_path / "knowledge_graph.sqlite3"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE entities (id TEXT, name TEXT)")
        connection.execute(
            "CREATE TABLE triples (id TEXT, subject TEXT, predicate TEXT, object TEXT, valid_from TEXT, valid_to TEXT,"
            " confidence REAL, extracted_at TEXT)"
        )
        connection.executemany("INSERT INTO entities VALUES (?, ?)", [("max", "Max"), ("swim", "swimming")])
        row = ("t1", "max", "does_sport", "swim", "2023-01-01", "2024-01-01", 0.8, "2025-01-01 10:00:00")
        connection.execute("INSERT INTO triples VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    assert memory.import_(path, source="mempalace").written == 1
    assert contents(memory.recall("Max does sport")) == []
    found = memory.recall("Max does sport", as_of="2023-06-01T00:00:00+00:00")[0].memory
    assert (found.content, found.weight, found.entities) == ("Max does sport swimming", 0.8, ("Max", "swimming"))


def test_the_drawers_of_a_palace_on_chroma(memory, tmp_path):
    path = tmp_path / "chroma.sqlite3"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript("""
            CREATE TABLE collections (id TEXT, name TEXT);
            CREATE TABLE segments (id TEXT, collection TEXT);
            CREATE TABLE embeddings (id INTEGER, segment_id TEXT, embedding_id TEXT);
            CREATE TABLE embedding_metadata
                (id INTEGER, key TEXT, string_value TEXT, int_value INTEGER, float_value REAL, bool_value INTEGER);
            INSERT INTO collections VALUES ('c', 'mempalace_drawers'), ('d', 'mempalace_closets');
            INSERT INTO segments VALUES ('s', 'c'), ('t', 'd');
            INSERT INTO embeddings VALUES (1, 's', 'drawer_1'), (2, 't', 'closet_1');
            INSERT INTO embedding_metadata VALUES
                (1, 'chroma:document', 'Ann chose SQLite.', NULL, NULL, NULL), (1, 'wing', 'app', NULL, NULL, NULL),
                (1, 'room', 'storage', NULL, NULL, NULL), (1, 'filed_at', '2026-01-02T03:04:05', NULL, NULL, NULL),
                (1, 'chunk_index', NULL, 4, NULL, NULL), (2, 'chroma:document', 'index', NULL, NULL, NULL);
        """)
    assert memory.import_(path, source="mempalace").written == 1
    found = memory.recall("What did Ann choose?")[0].memory
    assert (found.content, found.tags) == ("Ann chose SQLite.", ("app", "storage"))
    assert found.created_at.isoformat() == "2026-01-02T03:04:05+00:00"
    assert found.metadata["original"]["chunk_index"] == 4
    with path.open("rb") as file:
        assert memory.import_(file, source="mempalace").unchanged == 1


def test_another_database_is_refused(memory, tmp_path):
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE t (x)")
    for source in ("mempalace", "mcp-memory-service"):
        with pytest.raises(salience.InputError, match=r"^file has no "):
            memory.import_(path, source=source)


def test_an_older_agent_file_and_passages_of_letta(memory, tmp_path):
    agent = {
        "name": "helper",
        "core_memory": [{"label": "human", "value": "Ann is a pilot.", "created_at": "2025-01-01T00:00:00"}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "I fly to Rome."}], "created_at": None}],
    }
    (tmp_path / "old.af").write_text(json.dumps(agent))
    assert memory.import_(tmp_path / "old.af", source="letta").kinds == {"context": 1, "turn": 1}
    passages = [{"id": "p", "text": "Ann has a dog.", "tags": ["pets"], "created_at": "2025-01-01T00:00:00Z"}]
    (tmp_path / "passages.json").write_text(json.dumps(passages))
    assert memory.import_(tmp_path / "passages.json", source="letta").kinds == {"fact": 1}
