"""The graph of the MCP reference server, and the items of a LangGraph store, become memories."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pytest
from other_systems import read

from salience.errors import InputError
from salience.lines import as_draft
from salience.transfer.importers import langgraph
from salience.transfer.importers.records import Problem, Record

if TYPE_CHECKING:
    from pathlib import Path

    from salience.records import Draft

MAY = datetime(2026, 5, 1, 9, 30, tzinfo=UTC)
JOHN = {
    "type": "entity",
    "name": "John_Smith",
    "entityType": "person",
    "observations": ["Speaks Spanish", "John Smith runs"],
}
WORKS = {"type": "relation", "from": "John_Smith", "to": "Acme", "relationType": "works_at"}


def lines(*values: object) -> BytesIO:
    return BytesIO("\n".join(value if isinstance(value, str) else json.dumps(value) for value in values).encode())


def drafts(items: Any) -> list[Draft]:
    return [as_draft(item.draft) for item in items if isinstance(item, Record)]


def test_observations_and_relations_name_their_entities() -> None:
    records = read("mcp-server-memory", lines(JOHN, WORKS))
    first, second, relation = drafts(records)
    assert [one.content for one in (first, second, relation)] == [
        "John Smith: Speaks Spanish",
        "John Smith runs",
        "John Smith works at Acme",
    ]
    assert (first.tags, relation.tags) == (("person",), ("works_at",))
    assert [record.entities for record in records] == [("John Smith",), ("John Smith",), ("John Smith", "Acme")]
    assert first.metadata["original"] == {**JOHN, "observations": ("Speaks Spanish",)}
    assert relation.metadata["original"] == WORKS


def test_an_entity_without_observations_is_kept() -> None:
    (entity,) = drafts(read("mcp-server-memory", lines({**JOHN, "observations": []})))
    assert entity.content == "John Smith: person"


def test_the_answer_of_read_graph_is_read_as_the_file() -> None:
    bare = [{field: value for field, value in record.items() if field != "type"} for record in (JOHN, WORKS)]
    graph = lines({"entities": bare[:1], "relations": bare[1:]})
    keys = [draft.key for draft in drafts(read("mcp-server-memory", graph))]
    assert keys == [draft.key for draft in drafts(read("mcp-server-memory", lines(JOHN, WORKS)))]
    assert len(set(keys)) == 3


def test_broken_lines_of_the_graph_are_listed() -> None:
    broken = [{"type": "entity", "name": "A"}, {**WORKS, "to": None}, "{broken", {**JOHN, "observations": ["x", 7]}, 3]
    found = list(read("mcp-server-memory", lines(*broken)))
    assert [(item.number, isinstance(item, Problem)) for item in found] == [
        (1, True),
        (2, True),
        (3, True),
        (4, False),
        (4, True),
        (5, True),
    ]


def item(*namespace: str, key: str = "k", value: object = None, **more: object) -> dict[str, Any]:
    times = {"created_at": MAY.isoformat(), "updated_at": MAY.isoformat()}
    return {"namespace": list(namespace), "key": key, "value": value or {"text": "Likes tea"}, **times, **more}


@pytest.mark.parametrize(
    ("namespace", "expected"),
    [
        (("memories", "alice"), {"user_id": "alice"}),
        (("alice", "memories"), {"user_id": "alice"}),
        (("users", "alice", "agents", "cook"), {"user_id": "alice", "agent_id": "cook"}),
        (("project", "shop", "threads", "t1"), {"project": "shop", "session_id": "t1"}),
        (("acme", "alice", "memories"), {"user_id": "acme/alice"}),
        (("users", "alice", "recipes"), {"user_id": "alice/recipes"}),
        (("docs",), {}),
        (("users",), {}),
    ],
)
def test_a_namespace_becomes_a_scope(namespace: tuple[str, ...], expected: dict[str, str]) -> None:
    assert langgraph.scope(namespace) == expected


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ({"text": "Likes tea"}, "Likes tea"),
        ({"kind": "Memory", "content": {"content": "Likes tea"}}, "Likes tea"),
        ({"drink": "tea", "sizes": [1, 2], "none": None}, "drink: tea\nsizes: [1, 2]"),
        ({"data": {"drink": "tea"}}, "drink: tea"),
    ],
)
def test_the_text_of_a_value(value: object, content: str) -> None:
    (draft,) = drafts(read("langgraph", lines(item("users", "alice", value=value))))
    assert draft.content == content


def test_items_keep_their_key_time_and_original() -> None:
    record = item("users", "alice", key="drink")
    (draft,) = drafts(read("langgraph", lines(record)))
    assert (draft.key, draft.created_at) == ("langgraph:users:alice:drink", MAY)
    assert draft.metadata["original"]["namespace"] == ("users", "alice")
    assert draft.metadata["original"]["value"] == {"text": "Likes tea"}


@pytest.mark.parametrize("wrapped", [lambda one: [one, one], lambda one: {"items": [one, one]}])
def test_lists_and_answers_of_the_server_are_read(wrapped: Any) -> None:
    assert len(drafts(read("langgraph", lines(wrapped(item("users", "alice")))))) == 2


def test_broken_items_are_listed() -> None:
    broken = [
        item("a", value={"x": None}),
        {**item("a"), "key": ""},
        {**item("a"), "namespace": [1]},
        item("a", created_at="x"),
    ]
    found = list(read("langgraph", lines(*broken, "{broken", item("users", "alice"))))
    assert [(one.number, isinstance(one, Problem)) for one in found] == [(number, number < 6) for number in range(1, 7)]


def sqlite_store(path: Path) -> Path:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE TABLE store (prefix text NOT NULL, key text NOT NULL, value text NOT NULL, created_at TIMESTAMP, "
            "updated_at TIMESTAMP, expires_at TIMESTAMP, ttl_minutes REAL, PRIMARY KEY (prefix, key))"
        )
        rows = [
            ("users.alice", "drink", '{"text": "Likes tea"}', "2026-05-01 09:30:00", "2026-05-01 09:30:00", None, None),
            ("users.bob", "a", "{broken", "2026-05-01 09:30:00", "2026-05-01 09:30:00", None, None),
            ("users.bob", "b", '{"text": "Runs"}', "2026-05-01 09:30:00", "", "2026-05-01 10:30:00", 60),
        ]
        connection.executemany("INSERT INTO store VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    return path


@pytest.mark.parametrize("opened", [lambda path: path, lambda path: BytesIO(path.read_bytes())])
def test_the_file_of_a_sqlite_store_is_read(tmp_path: Path, opened: Any) -> None:
    found = list(read("langgraph", opened(sqlite_store(tmp_path / "store.db"))))
    first, broken, last = found
    assert as_draft(first.draft).created_at == MAY
    assert (first.draft["key"], first.draft["user_id"]) == ("langgraph:users:alice:drink", "alice")
    assert isinstance(broken, Problem)
    assert broken.reason == "value is not JSON"
    assert last.ended == datetime(2026, 5, 1, 10, 30, tzinfo=UTC)


def test_another_sqlite_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE notes (text)")
    with pytest.raises(InputError, match="has no table of a LangGraph store"):
        list(read("langgraph", path))
