"""What a target and the settings become: a store on PostgreSQL, without its driver where none is asked for."""

from __future__ import annotations

import subprocess
import sys
from urllib.parse import quote

import pytest

import salience
from salience import compose, settings
from salience.errors import BusyError, InputError, ReadOnlyError, StoreError, pip_install
from salience.rank import profiles
from salience.store.postgres import PostgresStore
from salience.store.postgres.connection import Address
from tests.contract.doubles import HashedEmbedder, PlantedEmbedder
from waiting import PATIENCE

OTHER = HashedEmbedder("other", 24)
NO_DRIVER = """
import sys
import salience
from tests.contract.doubles import PlantedEmbedder
for target in (":memory:", sys.argv[1]):
    with salience.connect(target, embedder=PlantedEmbedder()) as memory:
        memory.remember("Alice prefers Python", user_id="alice")
        memory.recall("Alice", user_id="alice")
print([name for name in sys.modules if name.startswith("psycopg") or name.startswith("salience.store.postgres")])
sys.modules["psycopg"] = None  # as if it were not installed
try:
    salience.connect("postgresql://u:s3cret@h/db")
except salience.errors.MissingExtraError as error:
    print(error)
"""


def test_the_driver_is_loaded_for_a_server_alone_and_asked_for_where_it_is_missing(tmp_path):
    command = [sys.executable, "-c", NO_DRIVER, str(tmp_path / "a.db")]
    printed = subprocess.run(command, text=True, capture_output=True, timeout=PATIENCE, check=True).stdout
    assert printed.splitlines() == [
        "[]",
        f'a store on PostgreSQL needs an optional library. Install it with: {pip_install()}[postgres]"',
    ]


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_one_string_makes_it_a_server(tables, scheme, monkeypatch):
    target = f"{scheme}://{tables.partition('://')[2]}"
    monkeypatch.setenv("SALIENCE_URL", target)
    for given in (target, None):
        with salience.connect(given, embedder=PlantedEmbedder()) as memory:
            assert isinstance(memory.services.store, PostgresStore)
            assert memory.remember("Alice prefers Python", user_id="alice", key="k").memory.content
            assert len(memory.list(user_id="alice").memories) == 1


def test_a_socket_is_a_host(tables):
    parts = Address.parse(tables).parameters
    if not parts["host"].startswith("/"):
        pytest.skip("the server of SALIENCE_TEST_POSTGRES is reached over the network")
    target = f"postgresql:///{parts['dbname']}?host={quote(parts['host'], safe='')}&user={parts['user']}"
    with salience.connect(target, embedder=PlantedEmbedder()) as memory:
        assert memory.stats().memories == 0


def test_the_settings_reach_the_store(tables, monkeypatch):
    given = {"POOL_SIZE": "3", "EXACT_ROWS": "7", "CACHED_ROWS": "9", "STATEMENT_TIMEOUT": "2.5", "BUSY_TIMEOUT": "1.5"}
    for name, value in given.items():
        monkeypatch.setenv(f"SALIENCE_{name}", value)
    monkeypatch.setenv("SALIENCE_PREPARED_STATEMENTS", "false")
    seen = {}
    monkeypatch.setattr(PostgresStore, "open", lambda dsn, **options: seen.update(options, dsn=dsn))
    with pytest.raises(AttributeError):
        salience.connect(tables, embedder=PlantedEmbedder()).stats()
    told = {name: seen[name] for name in ("dsn", "pool_size", "exact_rows", "cached_rows", "prepares", "moving")}
    assert told == {
        "dsn": tables,
        "pool_size": 3,
        "exact_rows": 7,
        "cached_rows": 9,
        "prepares": False,
        "moving": False,
    }
    assert (seen["statement_timeout"], seen["busy_timeout"], seen["language"]) == (2.5, 1.5, None)


def test_a_statement_that_takes_too_long_is_ended(tables, monkeypatch):
    monkeypatch.setenv("SALIENCE_STATEMENT_TIMEOUT", "0.05")
    with salience.connect(tables, embedder=PlantedEmbedder()) as memory:
        runner = memory.services.store._runner
        with pytest.raises(BusyError, match="took longer than SALIENCE_STATEMENT_TIMEOUT"):
            runner.read("default", lambda connection: connection.exec_driver_sql("SELECT pg_sleep(5)"))


def test_a_server_that_takes_no_writes_answers_and_says_so(tables):
    with salience.connect(tables, embedder=PlantedEmbedder()) as memory:
        memory.remember("Alice prefers Python", user_id="alice")
    replica = f"{tables}{'&' if '?' in tables else '?'}options=-c%20default_transaction_read_only%3Don"
    with salience.connect(replica, embedder=PlantedEmbedder()) as reader:
        assert len(reader.recall("Alice", user_id="alice", min_score=0)) == 1
        with pytest.raises(ReadOnlyError, match="takes no writes: it is a replica, or set to read only"):
            reader.remember("Bob drinks tea", user_id="alice")


@pytest.mark.parametrize(
    ("name", "value"),
    [("pool_size", 0), ("pool_size", 1001), ("statement_timeout", 0), ("exact_rows", -1), ("cached_rows", -1)],
)
def test_settings_out_of_bounds_are_refused(name, value):
    with pytest.raises(InputError, match=rf"^{name} is {value}\. It should be "):
        settings.load(**{name: value})


def test_a_store_may_be_given_another_model_on_a_server(tables):
    with salience.connect(tables, embedder=PlantedEmbedder()) as memory:
        memory.remember("Alice prefers Python", user_id="alice")
    with pytest.raises(StoreError):
        salience.connect(tables, embedder=OTHER)
    with compose.moving(tables, embedder=OTHER) as memory:
        assert memory.reembed().new == "other"
    salience.connect(tables, embedder=OTHER).close()


def test_a_server_is_no_file(tables):
    with pytest.raises(InputError, match=r"^target is a database\. Name a file\."):
        compose.file_of(tables)
    with pytest.raises(InputError, match="Name a file"):
        compose.reinstate("backup.db", tables)
    compose.require_store(tables)


def test_a_target_of_another_kind_is_refused_with_the_kinds_there_are():
    with pytest.raises(InputError, match=r"Give a file, sqlite:///PATH, postgresql://HOST/DATABASE or :memory:"):
        salience.connect("mysql://u:s3cret@h/db")


def test_keywords_of_a_server_are_no_name_of_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"a list of keywords\. Give postgresql://USER@HOST/DATABASE"):
        salience.connect("host=db.example dbname=app password=secret")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["agent.db", "no/such/agent.db"])
def test_a_file_that_does_not_exist_is_made_unless_create_is_false(tmp_path, name):
    with pytest.raises(StoreError, match=r"agent\.db does not exist\. Check the path, or make a store"):
        salience.connect(tmp_path / name, embedder=PlantedEmbedder(), create=False)
    assert list(tmp_path.iterdir()) == []
    for create in (True, False):
        salience.connect(tmp_path / name, embedder=PlantedEmbedder(), create=create).close()
    with pytest.raises(InputError, match="create"):
        salience.connect(tmp_path / name, embedder=PlantedEmbedder(), create=1)
    salience.connect(":memory:", embedder=PlantedEmbedder(), create=False).close()


def test_nor_are_the_tables_of_a_database(database):
    with pytest.raises(StoreError, match=r"it has no tables yet\. Run: salience db upgrade"):
        salience.connect(database, embedder=PlantedEmbedder(), create=False)
    with salience.connect(database, embedder=PlantedEmbedder()):
        salience.connect(database, embedder=PlantedEmbedder(), create=False).close()


def test_a_tilde_is_the_home_directory_in_every_file(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "own.toml").write_text(profiles.source("cmm"), "utf-8")
    with salience.connect("~/a.db", embedder=PlantedEmbedder()) as memory:
        memory.remember("Alice likes tea")
        memory.export("~/a.jsonl")
        memory.backup("~/b.db")
        assert memory.import_("~/a.jsonl").unchanged == 1
        assert memory.recall("tea", profile="~/own.toml").profile == "cmm"
    assert {"a.db", "a.jsonl", "b.db"} <= {one.name for one in tmp_path.iterdir()}


@pytest.mark.parametrize("verb", ["export", "import_", "backup"])
def test_the_tilde_of_an_unknown_user_and_a_number_are_no_path(tmp_path, verb):
    with salience.connect(tmp_path / "a.db", embedder=PlantedEmbedder()) as memory:
        with pytest.raises(InputError, match="file '~no-such-user/a' starts with ~ and no user's name"):
            getattr(memory, verb)("~no-such-user/a")
        with pytest.raises(InputError, match="file has the type int"):
            getattr(memory, verb)(3)
    with pytest.raises(InputError, match="target '~no-such-user/a' starts with ~"):
        salience.connect("~no-such-user/a")
