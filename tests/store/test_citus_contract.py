"""The contract where Citus spreads the tables, and what is said to it.

A server without Citus stands for a cluster, so that each statement is read, and each path but Citus itself is gone. On
a real cluster the same runs where `SALIENCE_TEST_CITUS` names one.
"""

from typing import ClassVar

import pytest

from on_citus.cluster import emptied
from on_citus.fixtures import DSN, on_a_cluster, real_cluster, stub_cluster
from on_citus.recording import recording
from salience.store.postgres import PostgresStore
from tests.contract.history_contract import HistoryContract
from tests.contract.log_contract import LogContract
from tests.contract.memories import DIMENSION
from tests.contract.model_contract import ModelContract
from tests.contract.read_contract import ReadContract
from tests.contract.store_contract import StoreContract
from tests.contract.token_contract import TokenContract
from tests.contract.write_contract import WriteContract

pytestmark = pytest.mark.slow

__all__ = ["real_cluster", "stub_cluster"]  # fixtures


class _OnCitus:
    options: ClassVar[dict[str, int]] = {}

    @pytest.fixture
    def store(self, cluster):
        emptied(cluster)
        with recording() as record:
            store = PostgresStore.open(
                cluster.engine, embedder="contract", dimension=DIMENSION, language="english", busy_timeout=5,
                **self.options,
            )  # fmt: skip
            yield store
            store.close()
        assert record.faults() == []


class TestAgainstAStub(_OnCitus, WriteContract, HistoryContract, ModelContract, TokenContract, LogContract):
    @pytest.fixture
    def cluster(self, stub_cluster):
        return stub_cluster


class TestAgainstAStubByIndexes(_OnCitus, ReadContract):
    options: ClassVar[dict[str, int]] = {"exact_rows": 0}

    @pytest.fixture
    def cluster(self, stub_cluster):
        return stub_cluster


@on_a_cluster
def test_the_tables_on_the_cluster_are_in_order(real_cluster):
    assert (real_cluster.spread.findings, real_cluster.spread.shards) == ((), 4)


class TestOnACluster(_OnCitus, StoreContract):
    __test__ = bool(DSN)

    @pytest.fixture
    def cluster(self, real_cluster):
        return real_cluster


class TestOnAClusterByIndexes(_OnCitus, ReadContract):
    __test__ = bool(DSN)
    options: ClassVar[dict[str, int]] = {"exact_rows": 0}

    @pytest.fixture
    def cluster(self, real_cluster):
        return real_cluster
