"""Many rows are inserted part by part, beside the making of the next; whatever fails leaves nothing of any part."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from threading import Event

import pytest

from salience.errors import ConflictError, InputError, StoreError
from salience.ports import Add
from salience.store import direct, schema, write
from salience.store.sqlite import SQLiteStore
from salience.testing.memories import DIMENSION, id_of, listed, stored

PART = 4


@pytest.fixture
def store(tmp_path, monkeypatch) -> Iterator[SQLiteStore]:
    monkeypatch.setattr(direct, "AT_ONCE", PART)
    path = tmp_path / "memory.db"
    made = SQLiteStore.open(path, embedder="e", dimension=DIMENSION, language="english", busy_timeout=1)
    with closing(made) as opened:
        yield opened


def adds(*numbers: int, **values: object) -> list[Add]:
    return [Add(stored(number, **values)) for number in numbers]


@pytest.mark.parametrize("count", [0, 1, PART - 1, PART, PART + 1, 3 * PART, 3 * PART + 1])
def test_any_number_of_rows_is_stored_whole_and_in_order(store, count):
    given = adds(*range(1, count + 1))
    assert [receipt.memory.id for receipt in store.apply(given)] == [id_of(number) for number in range(1, count + 1)]
    held = store.scan(given[0].stored.memory.scope) if given else []
    assert [one.memory for one in held] == [add.stored.memory for add in given]
    assert [one.vector.tolist() for one in held] == [add.stored.vector.tolist() for add in given]
    assert [one.terms for one in held] == [add.stored.terms for add in given]


@pytest.mark.parametrize("bad", [1, PART, PART + 1, 2 * PART, 3 * PART])
def test_a_row_that_cannot_be_made_leaves_none(store, bad):
    given = adds(*range(1, 3 * PART + 1))
    given[bad - 1] = Add(stored(bad, vector=stored(1).vector[:-1]))
    with pytest.raises(InputError, match="dimension"):
        store.apply(given)
    assert listed(store) == []
    store.apply(adds(*range(1, 3 * PART + 1)))
    assert listed(store) == list(range(1, 3 * PART + 1))


def test_a_disk_that_fills_up_amid_the_parts_leaves_none(store):
    driver = store._writer.connection.driver_connection
    pages = driver.execute("PRAGMA page_count").fetchone()[0]
    driver.execute(f"PRAGMA max_page_count={pages + 20}")
    with pytest.raises(StoreError, match="the disk is full"):
        store.apply(adds(*range(1, 20 * PART), content="word " * 1000))
    assert not driver.in_transaction
    assert listed(store) == []
    driver.execute("PRAGMA max_page_count=1000000")
    store.apply(adds(1))
    assert listed(store) == [1]


def test_no_part_is_begun_after_one_that_failed(store):
    rows = [("a", str(number), number) for number in range(4 * PART)]
    rows[1] = rows[0]
    made: list[int] = []
    fresh = (made.append(number) or row for number, row in enumerate(rows))
    with store._writes.alone(1):
        with pytest.raises(sqlite3.IntegrityError):
            store._writes.direct.insert(schema.sessions, ("tenant", "session_key", "turns"), fresh)
        assert made == list(range(2 * PART))
        assert store._writes.direct.asked("SELECT count(*) FROM sessions") == [(0,)]


def test_a_key_that_is_taken_amid_the_parts_leaves_none(store):
    store.apply(adds(1, key="k"))
    with pytest.raises(ConflictError):
        store.apply([*adds(*range(2, 3 * PART)), *adds(100, key="k", content="something else")])
    assert listed(store) == [1]


@pytest.mark.parametrize("missing", [range(1, 3 * PART), range(1, PART + 1), [1], [PART], [2, PART + 2], []])
def test_what_is_null_in_some_rows_or_all_of_a_part_is_null_in_these_alone(store, missing):
    values = {number: {} if number in missing else {"speaker": "Ann", "key": f"k{number}"} for number in range(1, 13)}
    store.apply([Add(stored(number, **given)) for number, given in values.items()])
    held = [one.memory for one in store.scan(stored(1).memory.scope)]
    assert [(one.speaker, one.key) for one in held] == [
        (given.get("speaker"), given.get("key")) for given in values.values()
    ]


def test_a_column_that_may_be_left_out_is_null_then():
    names, rows = ("id", "speaker", "key", "sources"), [("a", None, None, None), ("b", None, "k", None)]
    given = direct._given(schema.memories, names, rows)
    assert given == {"id": ("a", "b"), "key": (None, "k"), "sources": (None, None)}
    columns = [column for table in schema.metadata.tables.values() for column in table.columns if column.nullable]
    assert columns
    assert not [column for column in columns if column.server_default is not None or column.default is not None]


def test_a_null_where_there_has_to_be_a_value_is_refused_and_not_made_up(store):
    rows = [("a", str(number), None) for number in range(2 * PART)]
    with store._writes.alone(1), pytest.raises(sqlite3.IntegrityError, match="NOT NULL"):
        store._writes.direct.insert(schema.sessions, ("tenant", "session_key", "turns"), rows)


def test_the_values_of_a_part_are_no_more_than_a_statement_takes():
    most_columns = max(len(table.columns) for table in schema.metadata.tables.values())
    assert direct.AT_ONCE * most_columns <= 32_766


def test_what_a_bulk_writes_is_moved_out_of_the_log_beside_its_caller(store, tmp_path, monkeypatch):
    monkeypatch.setattr(write, "BULK", 3)
    monkeypatch.setattr(direct, "_LONG", 1)
    asked, moved, move = Event(), Event(), store.tidy
    monkeypatch.setattr(store, "tidy", lambda: (asked.wait(), move(), moved.set()))
    (path,) = tmp_path.glob("*.db")
    store.apply(adds(1, 2, 3, content="said at once"))
    assert len(listed(store)) == 3
    assert b"said at once" not in path.read_bytes()
    asked.set()
    moved.wait()
    assert b"said at once" in path.read_bytes()


def test_a_commit_after_a_bulk_moves_the_log_itself(store, tmp_path, monkeypatch):
    monkeypatch.setattr(write, "BULK", 3)
    monkeypatch.setattr(direct, "_LONG", 1)
    monkeypatch.setattr(store, "tidy", lambda: None)
    (path,) = tmp_path.glob("*.db")
    store.apply(adds(1, 2, 3, content="said at once"))
    store.apply(adds(4, content="and later"))
    assert b"said at once" in path.read_bytes()
    assert b"and later" in path.read_bytes()
