"""All stores keep the contract: the reference store, SQLite in a file, PostgreSQL in each of its ways."""

from typing import ClassVar

import pytest

from reference import ReferenceStore
from salience.store.sqlite import SQLiteStore
from tests.contract.history_contract import HistoryContract
from tests.contract.memories import DIMENSION
from tests.contract.read_contract import ReadContract
from tests.contract.store_contract import StoreContract


class TestReferenceStore(StoreContract):
    @pytest.fixture
    def store(self):
        store = ReferenceStore("contract", DIMENSION)
        yield store
        store.close()


class TestSQLiteStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path):
        store = SQLiteStore.open(
            tmp_path / "memory.db",
            embedder="contract",
            dimension=DIMENSION,
            language="english",
            busy_timeout=5,
        )
        yield store
        store.close()


class _OnAServer:
    """The contract on PostgreSQL; subclasses choose how many rows are read into memory.

    The user owns nothing, and sees all tenants in transactions that set none.
    """

    options: ClassVar[dict[str, int]] = {}

    @pytest.fixture
    def store(self, as_caretaker):
        from salience.store.postgres import PostgresStore

        store = PostgresStore.open(
            as_caretaker, embedder="contract", dimension=DIMENSION, language="english", busy_timeout=5, **self.options
        )
        yield store
        store.close()


class TestPostgresStore(_OnAServer, StoreContract):
    """With every answer from memory."""


class TestPostgresStoreByIndexes(_OnAServer, ReadContract, HistoryContract):
    """With nothing read into memory: every answer comes from the indexes."""

    options: ClassVar[dict[str, int]] = {"exact_rows": 0}
