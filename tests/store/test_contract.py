"""Both stores keep the contract."""

import pytest

from salience.store.memory import MemoryStore
from salience.store.sqlite import SQLiteStore
from salience.testing.store_contract import DIMENSION, StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self):
        store = MemoryStore("contract", DIMENSION)
        yield store
        store.close()


class TestSQLiteStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path):
        store = SQLiteStore.open(
            tmp_path / "memory.db", embedder="contract", dimension=DIMENSION, language="english", busy_timeout=5
        )
        yield store
        store.close()
