"""Fixtures: a database that is spread over a real cluster, or that says so of itself."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from on_citus import stub
from on_citus.cluster import GIVEN, Cluster, prepared
from tests.postgres_server import Elsewhere, Server, fresh

DSN = os.environ.get(GIVEN)
on_a_cluster = pytest.mark.skipif(not DSN, reason=f"needs a Citus cluster: set {GIVEN} to the DSN of a superuser")


@pytest.fixture(scope="session")
def real_cluster() -> Cluster:
    assert DSN is not None
    return prepared(DSN)


@pytest.fixture(scope="session")
def stub_cluster(postgres: Server | Elsewhere) -> Iterator[Cluster]:
    with fresh(postgres) as dsn:
        stub.install(dsn)
        yield prepared(dsn)


@pytest.fixture
def plain(postgres: Server | Elsewhere) -> Iterator[str]:
    """DSN of an empty database that has what stands for Citus, and no tables of a store."""
    with fresh(postgres) as dsn:
        stub.install(dsn)
        yield dsn
