"""Files of older revisions: they open, keep everything, and get what later revisions keep beside it."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine

import salience
from salience.extract.distinctions import distinctions
from salience.ports import Revise
from salience.store import rows, schema
from salience.store.sqlite import SQLiteStore
from salience.testing.doubles import PlantedEmbedder
from salience.testing.memories import DIMENSION, EVERYTHING, NOW, add, id_of, listed, memory, need, only, stored

TEXTS = {
    1: ("The limit is 30 seconds", None),
    2: ("Alice does not like tea", "Bob"),
    3: ("İstanbul 🙂 'quoted'\nsecond line", "Zoë"),
}


def migrate(path, to, revision):
    """Bring a file to a revision with `to`, Alembic's `upgrade` or `downgrade`."""
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", str(Path(schema.__file__).parent / "migrations"))
        to(config, revision)
        connection.exec_driver_sql(f"PRAGMA application_id={schema.APPLICATION_ID}")
    engine.dispose()


def insert(path, table, values):
    names = ", ".join(f'"{name}"' for name in values)
    with closing(sqlite3.connect(path)) as connection:
        marks = ", ".join("?" * len(values))
        connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(values.values()))  # noqa: S608
        connection.commit()


def as_written_by_0001(item):
    values = {**rows.of_stored(item, DIMENSION), "seq": 1, "short_id": item.memory.short_id}
    del values["distinctions"]
    return values


@pytest.fixture
def old(tmp_path):
    """A file of revision 0001 with memories, an older version and a forgotten one."""
    path = tmp_path / "old.db"
    migrate(path, command.upgrade, "0001")
    for number, (content, speaker) in TEXTS.items():
        gone = NOW if number == 3 else None
        item = stored(number, content=content, speaker=speaker, version=2, forgotten_at=gone, tags=("t",))
        insert(path, "memories", as_written_by_0001(item))
    older = as_written_by_0001(stored(1, content="The limit is 20 seconds"))
    del older["seq"], older["short_id"]
    insert(path, "versions", {**older, "valid_to": 0})
    for name, value in {"embedder": "e", "dimension": DIMENSION, "language": "none", "sequence": 1}.items():
        insert(path, "meta", {"name": name, "value": str(value)})
    return path


@pytest.fixture
def opened():
    stores = []

    def opened(path, distinguish=distinctions):
        pins = {"embedder": "e", "dimension": DIMENSION, "language": "none"}
        stores.append(SQLiteStore.open(path, **pins, busy_timeout=0.05, distinguish=distinguish))
        return stores[-1]

    yield opened
    for store in stores:
        store.close()


def test_an_older_file_keeps_everything_and_gets_distinctions(opened, old):
    found = opened(old).scan(EVERYTHING, forgotten=True, versions=True)
    texts = [("The limit is 20 seconds", None), *TEXTS.values()]
    assert [(item.memory.content, item.memory.speaker) for item in found] == texts
    assert [item.memory.version for item in found] == [1, 2, 2, 2]
    assert found[3].memory.forgotten_at == NOW
    assert [item.vector.tobytes() for item in found] == [stored(n).vector.tobytes() for n in (1, 1, 2, 3)]
    assert [item.distinctions for item in found] == [distinctions(*text) for text in texts]
    assert len({item.distinctions for item in found}) == 4


def test_an_older_file_is_read_once(opened, old):
    opened(old).close()
    assert only(opened(old, distinguish=None), 1).distinctions == distinctions(*TEXTS[1])


def test_an_older_file_is_written_on(opened, old):
    store = opened(old)
    add(store, stored(4, distinctions=("text:4",)))
    store.apply([Revise(memory(2, version=2).changed("update", NOW), distinctions=("text:2",))])
    assert [item.distinctions for item in opened(old).scan(EVERYTHING)][1:] == [("text:2",), ("text:4",)]
    versions = store.scan(EVERYTHING, id_of(1), 1, versions=True)
    assert [item.distinctions for item in versions] == [distinctions(*TEXTS[2]), ("text:2",)]


def test_without_a_reader_of_texts_nothing_is_known(opened, old):
    store = opened(old, distinguish=None)
    assert [item.distinctions for item in store.scan(EVERYTHING, forgotten=True, versions=True)] == [()] * 4
    assert store.gather(need(distinctions=True)).distinctions.values.tolist() == []


def test_more_memories_than_a_page_are_all_read(opened, old):
    rows_of = [as_written_by_0001(stored(n, content=f"number {n}", tenant=f"t{n % 3}")) for n in range(10, 2510)]
    names = ", ".join(f'"{name}"' for name in rows_of[0])
    with closing(sqlite3.connect(old)) as connection:
        marks = ", ".join("?" * len(rows_of[0]))
        values = [list(row.values()) for row in rows_of]
        connection.executemany(f"INSERT INTO memories ({names}) VALUES ({marks})", values)  # noqa: S608
        connection.commit()
    store = opened(old, distinguish=lambda content, speaker: (f"text:{content}",))
    for tenant in ("t0", "t1", "t2"):
        found = store.scan(replace(EVERYTHING, tenant=tenant), limit=5000)
        assert len(found) >= 833
        assert [item.distinctions for item in found] == [(f"text:{item.memory.content}",) for item in found]


def test_a_process_of_before_the_upgrade_can_write_on(opened, old):
    store = opened(old)
    insert(old, "memories", as_written_by_0001(stored(5)) | {"seq": 2})
    assert listed(store) == [1, 2, 5]
    assert only(store, 5).distinctions == ()
    assert store.gather(need(distinctions=True)).distinctions.of_row(2) == []


def test_a_failed_reading_leaves_the_older_file_as_it_was(opened, old):
    def fail(content, speaker):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        opened(old, distinguish=fail)
    with closing(sqlite3.connect(old)) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == ("0001",)
        assert "distinctions" not in {row[1] for row in connection.execute("PRAGMA table_info(memories)")}
    assert only(opened(old), 1).distinctions == distinctions(*TEXTS[1])


def test_the_engine_reads_an_older_file(old):
    with closing(sqlite3.connect(old)) as connection:
        connection.execute("DELETE FROM meta")  # so that any embedder may open it
        connection.commit()
    with salience.connect(old, embedder=PlantedEmbedder(dimension=DIMENSION)) as engine:
        assert only(engine.world.store, 1).distinctions == distinctions(*TEXTS[1])


@pytest.mark.parametrize("table", ["memories", "versions"])
def test_the_new_column_goes_when_a_file_is_taken_back(old, opened, table):
    opened(old).close()
    migrate(old, command.downgrade, "0001")
    with closing(sqlite3.connect(old)) as connection:
        assert "distinctions" not in {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] > 0  # noqa: S608
