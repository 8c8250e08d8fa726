"""All stores keep the contract: one in dictionaries, one in a file, and one on a server, in each way that it works."""

import tracemalloc
from typing import ClassVar

import pytest

from salience.ports import Revise, Touch
from salience.records import Scope
from salience.store.memory import MemoryStore
from salience.store.postgres import PostgresStore
from salience.store.sqlite import SQLiteStore
from salience.testing.memories import DIMENSION, NOW, add, id_of, memory, stored
from salience.testing.store_contract import StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self):
        store = MemoryStore("contract", DIMENSION)
        yield store
        store.close()

    @pytest.mark.parametrize(
        "write",
        [
            lambda store: add(store, stored(90_000, key="k", session_id="s")),
            lambda store: store.apply([Revise(memory(7).changed("update", NOW))]),
            lambda store: store.apply([Touch(Scope(session_id="s"), (id_of(7),), access_count=1, activate=True)]),
        ],
        ids=["add", "revise", "touch"],
    )
    def test_a_write_copies_what_it_changes_and_not_the_store(self, store, write):
        add(store, *(stored(n) for n in range(15_000)))
        tracemalloc.start()
        write(store)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 100_000


class TestSQLiteStore(StoreContract):
    options: ClassVar[dict[str, str]] = {}

    @pytest.fixture
    def store(self, tmp_path):
        store = SQLiteStore.open(
            tmp_path / "memory.db",
            embedder="contract",
            dimension=DIMENSION,
            language="english",
            busy_timeout=5,
            **self.options,
        )
        yield store
        store.close()


class TestSQLiteStoreMapped(TestSQLiteStore):
    """With the vectors that it searches on a disk."""

    options: ClassVar[dict[str, str]] = {"arena": "mapped"}


class _OnAServer(StoreContract):
    """The laws on PostgreSQL; subclasses say who connects, and how much is read into memory."""

    options: ClassVar[dict[str, int]] = {}

    @pytest.fixture
    def dsn(self, tables):
        return tables

    @pytest.fixture
    def store(self, dsn):
        store = PostgresStore.open(
            dsn, embedder="contract", dimension=DIMENSION, language="english", busy_timeout=5, **self.options
        )
        yield store
        store.close()


class TestPostgresStore(_OnAServer):
    """As a superuser, who works in the role of the application."""


class TestPostgresStoreAsAnApplication(_OnAServer):
    """As a user who owns nothing and is under row-level security by himself."""

    @pytest.fixture
    def dsn(self, as_application):
        return as_application


class TestPostgresStoreByIndexes(_OnAServer):
    """With nothing read into memory: every answer comes from the indexes."""

    options: ClassVar[dict[str, int]] = {"exact_rows": 0}
