"""Files of older revisions: they open, keep everything, and get what later revisions keep beside it."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine

import salience
from salience.errors import PinnedError
from salience.extract.distinctions import distinctions, distinguish
from salience.extract.when import event
from salience.ports import Answered, Derive, Erase, Lease, Revise, Touch
from salience.records import Filter, Scope
from salience.store import rows, schema
from salience.store.keyring import SQLiteKeyring
from salience.store.sqlite import SQLiteStore
from salience.store.values import microseconds
from salience.testing.doubles import PlantedEmbedder
from salience.testing.keyring_contract import key
from salience.testing.memories import (
    DIMENSION,
    EVERYTHING,
    NOW,
    add,
    id_of,
    listed,
    memory,
    need,
    numbers,
    only,
    random_tokens,
    stored,
    unit,
)

pytestmark = pytest.mark.slow

HOUR = timedelta(hours=1)
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


LATER = {
    "0001": ("distinctions",),
    "0002": ("changed_by", "reason", "follows", "sources", "reflection"),
    "0007": ("tokens",),
    "0008": ("event_start", "event_end"),
}
"""Columns that came after a revision."""


def as_written_by(revision, item):
    """The row of a memory as code of that revision wrote it."""
    values = {**rows.of_stored(item, DIMENSION), "seq": 1, "short_id": item.memory.short_id}
    gone = {name for later, names in LATER.items() if later >= revision for name in names}
    return {name: value for name, value in values.items() if name not in gone}


def as_written_by_0001(item):
    return as_written_by("0001", item)


def columns(path, table):
    with closing(sqlite3.connect(path)) as connection:
        return {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}


def tables(path):
    with closing(sqlite3.connect(path)) as connection:
        return {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


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
def second(tmp_path):
    """A file of revision 0002 with a memory of two versions, one without a vector, and a session."""
    path = tmp_path / "second.db"
    migrate(path, command.upgrade, "0002")
    now = {"version": 2, "changed_at": NOW + HOUR, "change": "update"}
    held = stored(1, content="new", distinctions=("text:new",), session_id="s", turn=1, access_count=3, key="k", **now)
    insert(path, "memories", as_written_by("0002", held))
    older = as_written_by("0002", stored(1, content="old", session_id="s", turn=1, key="k"))
    del older["seq"], older["short_id"]
    insert(path, "versions", {**older, "valid_to": microseconds(NOW + HOUR)})
    insert(path, "memories", as_written_by("0002", stored(2, None, fact_key="f")))
    key = Scope(session_id="s").session_key
    insert(path, "sessions", {"tenant": "default", "session_key": key, "turns": 4})
    insert(path, "activations", {"tenant": "default", "session_key": key, "memory_id": id_of(2), "turn": 3})
    for name, value in {"embedder": "e", "dimension": DIMENSION, "language": "none", "sequence": 1}.items():
        insert(path, "meta", {"name": name, "value": str(value)})
    return path


@pytest.fixture
def opened():
    stores = []

    def opened(path, distinguish=distinguish, **more):
        pins = {"embedder": "e", "dimension": DIMENSION, "language": "none", **more}
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
    store = opened(old, distinguish=lambda content, *_: ((f"text:{content}",), None))
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
    def fail(content, speaker, created_at):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        opened(old, distinguish=fail)
    with closing(sqlite3.connect(old)) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == ("0001",)
    assert "distinctions" not in columns(old, "memories")
    assert only(opened(old), 1).distinctions == distinctions(*TEXTS[1])


def test_the_engine_reads_an_older_file(old):
    with closing(sqlite3.connect(old)) as connection:
        connection.execute("DELETE FROM meta")  # so that any embedder may open it
        connection.commit()
    with salience.connect(old, embedder=PlantedEmbedder(dimension=DIMENSION)) as engine:
        assert only(engine.services.store, 1).distinctions == distinctions(*TEXTS[1])


@pytest.mark.parametrize("table", ["memories", "versions"])
def test_the_new_column_goes_when_a_file_is_taken_back(old, opened, table):
    opened(old).close()
    migrate(old, command.downgrade, "0001")
    assert "distinctions" not in columns(old, table)
    with closing(sqlite3.connect(old)) as connection:
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] > 0  # noqa: S608


def test_an_older_file_gets_the_times_that_its_texts_state(opened, tmp_path):
    path = tmp_path / "eighth.db"
    migrate(path, command.upgrade, "0008")
    texts = {1: "I met Ann yesterday", 2: "Tea is good"}
    for number, content in texts.items():
        insert(path, "memories", as_written_by("0008", stored(number, content=content, version=2)))
    older = as_written_by("0008", stored(1, content="I met Ann last week"))
    del older["seq"], older["short_id"]
    insert(path, "versions", {**older, "valid_to": 0})
    for name, value in {"embedder": "e", "dimension": DIMENSION, "language": "none", "sequence": 1}.items():
        insert(path, "meta", {"name": name, "value": str(value)})
    store = opened(path)
    held = store.scan(EVERYTHING, versions=True)
    assert [item.event for item in held] == [event(item.memory.content, item.memory.created_at) for item in held]
    assert [item.event is None for item in held] == [False, False, True]
    columns = store.gather(need()).columns
    assert columns["event_end"].tolist() == [held[1].event[1].timestamp(), float("-inf")]
    store.close()
    migrate(path, command.downgrade, "0008")
    assert [item.event for item in opened(path).scan(EVERYTHING, versions=True)] == [item.event for item in held]


def test_a_file_of_0002_keeps_everything_and_knows_no_more(opened, second):
    store = opened(second)
    now = {"version": 2, "changed_at": NOW + HOUR, "change": "update"}
    scope = {"session_id": "s", "turn": 1, "key": "k"}
    assert [item.memory for item in store.scan(EVERYTHING, versions=True)] == [
        memory(1, content="old", **scope), memory(1, content="new", access_count=3, **scope, **now),
        memory(2, fact_key="f"),
    ]  # fmt: skip
    assert only(store, 1).distinctions == ("text:new",)
    names = ("changed_by", "reason", "follows", "sources", "reflection")
    told = [[getattr(item.memory, name) for name in names] for item in store.history(EVERYTHING, id_of(1))]
    assert told == [[None, None, None, (), None]] * 2
    assert dict(only(store, 2).activations) == {Scope(session_id="s").session_key: 3}
    assert store.check() == []


def test_the_past_of_a_file_of_0002_can_be_asked(opened, second):
    """Its versions are there; of its counters only the present ones are known."""
    store = opened(second)
    assert [found.content for found in store.fetch(EVERYTHING, [id_of(1)], as_of=NOW)] == ["old"]
    assert numbers(store.gather(need(as_of=NOW, terms=("old",)))) == [1, 2]
    assert store.gather(need(as_of=NOW + HOUR))["access_count"].tolist() == [3, 0]
    store.apply([Touch(Scope(), (id_of(1),), access_count=1, at=NOW + 3 * HOUR)])
    assert store.gather(need(as_of=NOW + 2 * HOUR))["access_count"].tolist() == [3, 0]


def test_a_file_of_0002_gets_its_fingerprint_with_its_next_vector(opened, second):
    store = opened(second, fingerprint=lambda: unit(1))
    assert [item.memory.id for item in store.unembedded()] == [id_of(2)]
    assert opened(second, fingerprint=lambda: unit(0, 1)).gather(need(vector=unit(1)))["cosine"].shape == (2,)
    derived = Derive("default", id_of(2), 1, only(store, 2).memory.content_hash, unit(1))
    store.apply([derived])
    assert store.unembedded() == []
    with pytest.raises(PinnedError, match="another model"):
        opened(second, fingerprint=lambda: unit(0, 1)).gather(need(vector=unit(1)))


def test_a_file_of_0002_is_written_on(opened, second):
    """All that came with 0003 works on it: leases, erasing with versions and activations, facts."""
    store = opened(second)
    store.apply([Lease("upkeep", "me", NOW, NOW + HOUR), Erase("default", (id_of(2),))])
    store.apply([Revise(replace(only(store, 1).memory, version=3, changed_by="me"), unembeds=True)])
    assert [item.memory.changed_by for item in store.history(EVERYTHING, id_of(1))] == [None, None, "me"]
    assert listed(store, filter=Filter(fact_keys=["f"])) == []


def test_what_0003_brought_goes_when_a_file_is_taken_back(opened, second):
    """And nothing else; the file opens again, and has it anew."""
    before = {table: columns(second, table) for table in ("memories", "versions")}
    were = tables(second)
    store = opened(second)
    store.apply([Revise(replace(only(store, 1).memory, version=3, changed_by="me", sources=(id_of(9),)))])
    store.apply([Touch(Scope(), (id_of(1),), access_count=1, at=NOW)])
    store.close()
    migrate(second, command.downgrade, "0002")
    assert {table: columns(second, table) for table in before} == before
    assert tables(second) == were
    again = opened(second)
    assert [item.memory.version for item in again.scan(EVERYTHING, versions=True)] == [1, 2, 3, 1]
    assert (only(again, 1).memory.changed_by, only(again, 1).memory.access_count) == (None, 4)


def test_a_process_of_0002_can_write_on(opened, second):
    """It had the file open when it was upgraded, and knows nothing of the new columns."""
    store = opened(second)
    insert(second, "memories", as_written_by("0002", stored(5)) | {"seq": 2})
    assert listed(store) == numbers(store.gather(need())) == [1, 2, 5]
    assert only(store, 5).memory == memory(5)


def test_a_file_of_0004_keeps_what_it_holds_and_gets_keys_and_requests(opened, second):
    """Both go when it is taken back, and nothing else."""
    migrate(second, command.upgrade, "0004")
    were = tables(second)
    store = opened(second)
    assert tables(second) - were == {"api_keys", "requests", "recalls"}
    answered = Answered(Scope(), "k", "update", id_of(1), 2, NOW)
    store.apply([answered])
    with closing(SQLiteKeyring.open(str(second), busy_timeout=5)) as keyring:
        keyring.add(key(1))
        assert keyring.find(key(1).prefix) == key(1)
    assert store.answered(Scope(), "k") == answered
    store.close()
    migrate(second, command.downgrade, "0004")
    assert tables(second) == were
    again = opened(second)
    assert listed(again) == [1, 2]
    assert again.answered(Scope(), "k") is None


def test_a_file_of_0005_keeps_what_recalls_have_touched(opened, second):
    """Counters go back into the rows when it is taken back."""
    migrate(second, command.upgrade, "0005")
    touched = {"tenant": "default", "id": id_of(1), "version": 2, "seq": 1, "at": microseconds(NOW + 2 * HOUR)}
    insert(second, "touches", {**touched, "accessed_at": None, "access_count": 2, "importance": 0.5})
    store = opened(second)

    def counts(store, *hours):
        found = [store.fetch(EVERYTHING, [id_of(1)], as_of=NOW + hour * HOUR)[0] for hour in hours]
        return [memory.access_count for memory in [*found, only(store, 1).memory]]

    assert counts(store, 1, 2) == [2, 3, 3]
    store.apply([Touch(Scope(), (id_of(1),), accessed_at=NOW + 3 * HOUR, access_count=1, at=NOW + 3 * HOUR)])
    assert counts(store, 1, 2, 3) == [2, 3, 4, 4]
    store.close()
    migrate(second, command.downgrade, "0005")
    with closing(sqlite3.connect(second)) as connection:
        rows = connection.execute("SELECT access_count, accessed_at FROM memories ORDER BY id").fetchall()
    assert rows == [(4, microseconds(NOW + 3 * HOUR)), (0, None)]
    again = opened(second)
    assert counts(again, 1, 2, 3) == [2, 3, 4, 4]
    assert again.check() == []


def test_a_file_of_0007_gets_token_vectors_in_its_last_columns(opened, second):
    migrate(second, command.upgrade, "0007")
    were = {table: columns(second, table) for table in ("memories", "versions", "laid_by")}
    store = opened(second)
    with closing(sqlite3.connect(second)) as connection:
        names = [[row[1] for row in connection.execute(f"PRAGMA table_info({table})")] for table in were]
    assert ["tokens" in own[-3:] for own in names] == [True] * 3  # the stated times come after them
    ids = [id_of(1), id_of(2)]
    assert list(store.token_vectors(EVERYTHING, ids)) == [None, None]
    store.apply([Derive("default", id_of(1), 2, only(store, 1).memory.content_hash, tokens=random_tokens(1))])
    assert [found is not None for found in store.token_vectors(EVERYTHING, ids)] == [True, False]
    assert store.check() == []
    store.close()
    migrate(second, command.downgrade, "0007")
    assert {table: columns(second, table) for table in were} == were
    assert list(opened(second).token_vectors(EVERYTHING, ids)) == [None, None]


def test_a_keyring_alone_brings_an_older_file_up(second):
    with closing(SQLiteKeyring.open(str(second), busy_timeout=5, distinguish=distinguish)) as keyring:
        assert keyring.is_empty()
    assert "requests" in tables(second)
