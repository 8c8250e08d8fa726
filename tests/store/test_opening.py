"""Opening a file, and what is said when it cannot be opened, read or written."""

import os
import sqlite3
import stat
import subprocess
import sys
import traceback
from contextlib import closing

import numpy as np
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import UniqueConstraint

from salience.errors import (
    BusyError,
    ConflictError,
    MovedError,
    NotAStoreError,
    PinnedError,
    ReadOnlyError,
    StoreError,
    VersionError,
)
from salience.ports import Answered, Derive, Prune, Revise, Touch
from salience.records import Filter, Scope
from salience.records.ids import SHORT
from salience.store import schema, sqlite_file
from salience.store.sqlite import SQLiteStore
from tests.contract.memories import DIMENSION, NOW, add, id_of, listed, memory, need, stored, unit

pytestmark = pytest.mark.slow


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.db"


@pytest.fixture
def opened(path):
    """Open the file, with pins of choice, as often as wanted; all are closed afterwards."""
    stores = []

    def opened(where=path, **pins):
        values = {"embedder": "e", "dimension": DIMENSION, "language": "english", "busy_timeout": 0.05, **pins}
        stores.append(SQLiteStore.open(where, **values))
        return stores[-1]

    yield opened
    for store in stores:
        store.close()


def test_what_was_stored_is_there_after_reopening(opened):
    store = opened()
    add(store, stored(1))
    store.close()
    assert listed(opened()) == [1]


def test_a_missing_folder_is_made(opened, tmp_path):
    opened(tmp_path / "a" / "b c%d" / "ü.db")
    assert (tmp_path / "a" / "b c%d" / "ü.db").is_file()


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_a_new_file_and_its_journals_are_for_their_owner_alone(opened, path):
    before = os.umask(0)
    try:
        add(opened(), stored(1))
    finally:
        os.umask(before)
    assert {file.name: mode(file) for file in path.parent.iterdir()} == {
        "memory.db": 0o600, "memory.db-wal": 0o600, "memory.db-shm": 0o600,
    }  # fmt: skip


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_the_mode_of_a_file_that_is_there_is_left_alone(opened, path):
    path.touch()
    path.chmod(0o640)
    add(opened(), stored(1))
    opened().close()
    assert mode(path) == 0o640


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_a_new_file_behind_a_link_is_for_its_owner_alone(opened, path, tmp_path):
    path.symlink_to(tmp_path / "target.db")
    opened()
    assert mode(tmp_path / "target.db") == 0o600


def test_opening_a_file_again_leaves_the_locks_of_its_connections(opened, path):
    add(opened(), stored(1))
    opened()
    program = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT * FROM meta'); c.close()"
    subprocess.run([sys.executable, "-c", program, str(path)], check=True)
    assert path.with_name("memory.db-wal").exists()  # the last connection to a file, as it sees itself, deletes it


def test_a_file_that_cannot_be_made_is_refused(opened, tmp_path):
    with pytest.raises(StoreError, match=r"it cannot be made \(File name too long\)"):
        opened(tmp_path / ("x" * 300))


def test_a_commit_is_flushed_to_disk_and_readers_do_not_wait(opened):
    store = opened()
    pragmas = {"synchronous": 2, "journal_mode": "wal", "foreign_keys": 1}
    for connection in (store._writer, store._reader):
        with connection.begin():
            assert {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in pragmas} == pragmas


def made_file(path, *statements):
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.write_text("something else"),
        lambda path: path.write_bytes(b"\0" * 5000),
        lambda path: made_file(path, "CREATE TABLE notes (text)"),
        lambda path: made_file(path, "CREATE TABLE alembic_version (version_num)", "PRAGMA application_id=7"),
        lambda path: made_file(path, "PRAGMA application_id=7"),
    ],
    ids=["text", "zeros", "tables", "alembic", "mark"],
)
def test_a_file_of_something_else_is_refused_and_left_alone(opened, path, make):
    make(path)
    before = path.read_bytes()
    with pytest.raises(NotAStoreError, match=r"Name another file\."):
        opened()
    assert path.read_bytes() == before


def test_a_folder_in_place_of_the_file_is_refused(opened, tmp_path):
    with pytest.raises(NotAStoreError, match="it is a folder"):
        opened(tmp_path)


def test_a_file_in_place_of_the_folder_is_refused(opened, path):
    path.write_text("")
    with pytest.raises(StoreError, match="its folder cannot be made"):
        opened(path / "memory.db")


@pytest.mark.parametrize("locked", ["file", "folder"])
def test_a_place_that_cannot_be_written_is_refused(opened, path, monkeypatch, locked):
    opened().close()
    place = path if locked == "file" else path.parent
    monkeypatch.setattr(os, "access", lambda asked, mode: asked != place)
    with pytest.raises(ReadOnlyError, match="Make it writable"):
        opened()


NOBODY = 65_534


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # newer Pythons warn of it beside threads
@pytest.mark.parametrize("locked", ["file", "folder"])
def test_a_file_of_somebody_else_is_refused_for_real(opened, tmp_path, locked):
    """In a child process without root's rights, which no mode binds."""
    folder = tmp_path / "shared"
    folder.mkdir()
    path = folder / "memory.db"
    opened(path).close()
    path.chmod(0o444 if locked == "file" else 0o666)
    folder.chmod(0o777 if locked == "file" else 0o555)
    told, says = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.chdir(folder)
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            SQLiteStore.open("memory.db", embedder="e", dimension=DIMENSION, language="none", busy_timeout=1)
            os.write(says, b"opened")
        except Exception as error:  # told to the parent
            os.write(says, type(error).__name__.encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(told, 100) == b"ReadOnlyError"
    os.close(told)
    os.close(says)
    folder.chmod(0o700)


def test_a_folder_that_cannot_be_made_is_read_only(opened, path, monkeypatch):
    def refuse(*arguments, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.mkdir", refuse)
    with pytest.raises(ReadOnlyError, match="its folder cannot be made"):
        opened()


def test_a_write_that_sqlite_refuses_as_read_only_says_so(opened):
    store = opened()
    store._writer.connection.driver_connection.execute("PRAGMA query_only=ON")
    with pytest.raises(ReadOnlyError, match="Make the file and its folder writable"):
        add(store, stored(1))


@pytest.mark.parametrize("size", [sqlite_file.PAGE_SIZE, 4096])
def test_a_new_file_has_our_pages_and_one_that_is_there_keeps_its_own(opened, path, size):
    if size != sqlite_file.PAGE_SIZE:
        with closing(sqlite3.connect(path)) as older:
            older.execute(f"PRAGMA page_size={size}")
            older.execute("VACUUM")
    store = opened()
    add(store, stored(1))
    assert store._writer.connection.driver_connection.execute("PRAGMA page_size").fetchone() == (size,)
    assert listed(store) == [1]


def test_a_full_disk_says_so_and_nothing_is_half_written(opened):
    store = opened()
    driver = store._writer.connection.driver_connection
    pages = driver.execute("PRAGMA page_count").fetchone()[0]
    driver.execute(f"PRAGMA max_page_count={pages + 2}")
    with pytest.raises(StoreError, match="the disk is full"):
        add(store, *(stored(n, content="secret " * 1000) for n in range(10)))
    assert listed(store) == []
    driver.execute("PRAGMA max_page_count=1000000")
    add(store, stored(1))
    assert listed(store) == [1]


def test_a_lock_held_past_the_timeout_says_so_and_the_store_goes_on(opened, path):
    store = opened()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(BusyError, match="SALIENCE_BUSY_TIMEOUT"):
            add(store, stored(1))
        assert len(store.gather(need())) == 0
        other.execute("ROLLBACK")
    add(store, stored(1))
    assert listed(store) == [1]


def test_nothing_to_do_waits_for_no_lock(opened, path):
    store = opened()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert store.apply([]) == []


def test_a_new_file_locked_by_another_says_so(opened, path):
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(BusyError):
            opened()
    opened()


@pytest.mark.parametrize(
    ("revision", "remedy"),
    [
        ("9999", "newer than .* pip install --upgrade salience"),
        ("0014", "before the first release.* salience --store NEW import"),
    ],
)
def test_a_file_of_another_revision_says_what_helps_and_stays(opened, path, revision, remedy):
    opened().close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    before = path.read_bytes()
    with pytest.raises(VersionError, match=f"'{revision}'.*{remedy}"):
        opened()
    assert path.read_bytes() == before


@pytest.mark.parametrize("pins", [{"embedder": "other"}, {"dimension": 3}, {"embedder": "other", "dimension": 3}])
def test_a_store_pinned_to_another_model_is_refused(opened, path, pins):
    """The message names both models, how to open it, and the command that changes it; nothing is written."""
    add(opened(), stored(1))
    with pytest.raises(PinnedError) as caught:
        opened(**pins)
    asked = {"embedder": "e", "dimension": DIMENSION, **pins}
    assert str(caught.value) == (
        f"store: {path} was written with embedder 'e' ({DIMENSION} dimensions), not with embedder "
        f"{asked['embedder']!r} ({asked['dimension']} dimensions). Open it with that embedder, or embed all anew: "
        f"salience --store {path} --embedder NAME reembed"
    )
    assert opened(**pins, moving=True).pinned().name == "e"
    assert listed(opened()) == [1]


def test_a_store_of_another_language_is_refused(opened, path):
    add(opened(), stored(1))
    for moving in (False, True):
        with pytest.raises(PinnedError) as caught:
            opened(language="german", moving=moving)
        assert str(caught.value) == (
            f"store: {path} was written for the language 'english', not for 'german'. "
            "Set SALIENCE_LANGUAGE=english, or name a new file."
        )


def test_without_a_language_a_store_keeps_its_own(opened, path, tmp_path):
    assert opened(tmp_path / "new.db", language=None).language == "auto"
    add(opened(), stored(1))
    assert opened(language=None).language == "english"
    with pytest.raises(PinnedError, match="SALIENCE_LANGUAGE=english"):
        opened(language="auto")


def test_a_store_without_a_pinned_language_is_english(opened, path):
    add(opened(), stored(1))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM meta WHERE name = 'language'")
    assert opened(language=None).language == "english"
    assert opened(language="german").language == "german"


def test_the_first_write_pins_the_language(opened):
    first, second = opened(language="auto"), opened(language="german")
    add(first, stored(1))
    add(second, stored(2))
    assert opened(language=None).language == "auto"


@pytest.mark.parametrize("pins", [{"embedder": "other"}, {"dimension": 3}])
def test_the_first_write_pins_the_store_for_those_who_opened_it_before(opened, pins):
    """What they bring of another model is refused; words are served, whatever they had read of the empty file."""
    first, second = opened(), opened(**pins)
    vector = np.eye(pins.get("dimension", DIMENSION), dtype=np.float32)[0]
    assert len(second.gather(need(vector=vector))) == 0
    add(first, stored(1))
    for verb in (lambda: add(second, stored(2, vector)), lambda: second.gather(need(vector=vector))):
        with pytest.raises(MovedError, match="has vectors of embedder 'e' "):
            verb()
    assert listed(first) == listed(second) == [1]
    assert second.gather(need(terms=("memory",), vectors=True)).lexicon.documents == 1
    add(second, stored(2, None))
    assert first.gather(need(vector=unit(1)))["embedded"].tolist() == [True, False]


def test_a_key_that_a_revision_takes_from_another_is_a_conflict(opened):
    store = opened()
    add(store, stored(1, key="k"), stored(2))
    with pytest.raises(ConflictError, match=r"^key: "):
        store.apply([Revise(memory(2).changed("update", NOW, key="k"))])


def test_no_error_shows_what_a_memory_says(opened):
    store = opened()
    add(store, stored(1, key="k", content="secret"))
    store._writer.connection.driver_connection.execute("PRAGMA query_only=ON")
    for values in ({"content": "secret more"}, {"content": "secret more", "key": "k"}):
        with pytest.raises((StoreError, ConflictError)) as caught:
            add(store, stored(2, **values))
        assert "secret" not in "".join(traceback.format_exception(caught.value))


def test_the_code_reads_the_revision_that_the_migrations_make():
    folder = os.path.join(os.path.dirname(schema.__file__), "migrations")  # noqa: PTH118, PTH120 - as Alembic takes it
    config = Config()
    config.set_main_option("script_location", folder)
    assert ScriptDirectory.from_config(config).get_heads() == [schema.HEAD]


def test_every_key_begins_with_the_tenant():
    for table in set(schema.metadata.tables.values()) - {
        schema.meta,
        schema.leases,
        schema.api_keys,
    }:  # of the whole file
        keys = [c for c in table.constraints if isinstance(c, UniqueConstraint)] + [table.primary_key]
        assert {next(iter(key.columns)).name for key in keys} == {"tenant"}
        assert {next(iter(index.columns)).name for index in table.indexes} <= {"tenant", "search_keys"}


def test_an_up_to_date_file_is_opened_without_loading_the_migrations(opened, path):
    opened().close()
    program = (
        "import sys; from salience.store.sqlite import SQLiteStore as S\n"
        f"S.open(sys.argv[1], embedder='e', dimension={DIMENSION}, language='english', busy_timeout=1).close()\n"
        "assert 'alembic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=True)


def planned(store, work):
    """Text of each statement that `work` runs -> the steps of SQLite's plan for it."""
    texts = []
    drivers = {connection.connection.driver_connection for connection in (store._writer, store._reader)}
    for driver in drivers:
        driver.set_trace_callback(texts.append)
    work(store)
    for driver in drivers:
        driver.set_trace_callback(None)
    plans = {}
    with store._transaction() as reader:
        for text in texts:
            if text.startswith(("SELECT", "UPDATE", "DELETE", "INSERT")) and " FROM meta" not in text:
                steps = reader.connection.driver_connection.execute(f"EXPLAIN QUERY PLAN {text}")
                plans[text] = [step for *_, step in steps if step.startswith(("SEARCH", "SCAN"))]
    return plans


HOME = Scope()
IN_SESSION = Scope(session_id="s")
WORK = {
    "fetch": lambda store: store.fetch(Scope(user_id="u"), [id_of(1), id_of(2)[-SHORT:]]),
    "keyed": lambda store: store.find_by_key(HOME, ["k"]),
    "answered": lambda store: store.answered(HOME, "k"),
    "scan": lambda store: store.scan(HOME, id_of(1), 5, Filter(kinds=["x"]), versions=True),
    "history": lambda store: [store.history(HOME, name) for name in (id_of(1), id_of(1)[-SHORT:])],
    "gather": lambda store: store.gather(need(IN_SESSION, columns=frozenset({"turns_since_activation"}))),
    "add": lambda store: add(store, stored(1, key="k", session_id="s")),
    "revise": lambda store: store.apply([Revise(memory(2, version=2))]),
    "touch": lambda store: store.apply([Touch(IN_SESSION, (id_of(1),), access_count=1, activate=True, at=NOW)]),
    "answer": lambda store: store.apply([Answered(HOME, "k", "update", id_of(1), 1, NOW)]),
    "derive": lambda store: store.apply([Derive("default", id_of(1), 1, memory(1).content_hash, terms=("a",))]),
    "prune": lambda store: store.apply([Prune("default", ((id_of(1), 1),), NOW, NOW)]),
}


@pytest.mark.parametrize("name", WORK)
def test_no_statement_reads_all_of_a_tenant(opened, name):
    store = opened()
    add(store, *(stored(number, key="k" if number == 1 else None, session_id="s") for number in (1, 2, 3)))
    store.gather(need())
    add(store, stored(4))
    plans = planned(store, WORK[name])
    assert plans
    for text, steps in plans.items():
        read = [step for step in steps if "json_each" not in step]  # the list of ids in the parameter
        assert text.startswith("SELECT max(") or all(" AND " in step for step in read), (text, steps)


@pytest.mark.parametrize(
    ("work", "indexes"),
    [
        (lambda store: store.scan(HOME, "a", 5, Filter(fact_keys=["x"])), ["ix_memories_tenant_fact_key"]),
        (lambda store: store.unembedded(("t", "a", 1), 5), ["ix_memories_unembedded", "ix_versions_unembedded"]),
        (lambda store: store.unembedded(("", "", 0), 5), ["ix_memories_unembedded", "ix_versions_unembedded"]),
        (lambda store: store.fetch(HOME, [id_of(1)], as_of=NOW), ["ix_touches_tenant_at"]),
    ],
    ids=["of a fact", "unembedded", "all unembedded", "touched"],
)
def test_the_few_are_read_by_their_index(opened, work, indexes):
    store = opened()
    add(store, stored(1, None))
    plans = planned(store, work)
    for index in indexes:
        assert any(f"INDEX {index} " in steps[0] for steps in plans.values() if steps), plans


def test_an_unknown_failure_of_sqlite_names_its_code(path):
    error = sqlite3.OperationalError("near secret")
    error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_NOMEM, "SQLITE_NOMEM"
    found = sqlite_file.as_store_error(str(path), error)
    assert type(found) is StoreError
    assert "SQLITE_NOMEM" in str(found)
    assert "secret" not in str(found)
