"""A server, or one node of a cluster, that takes what it is sent and answers nothing."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import psycopg
import pytest

from salience.errors import StoreError, UnsettledError
from salience.records import Scope
from salience.store.postgres import PostgresStore
from salience.store.postgres import connection as connections
from tests.contract.memories import DIMENSION, id_of, stored
from tests.contract.memories import add as added
from tests.postgres_proxy import Silent

SICK = [f"sick{number}" for number in range(3)]
WELL = ["well", "fine"]
CLIENTS = 20


@pytest.fixture
def silent(tables):
    with Silent(tables) as proxy:
        yield proxy


def store_on(proxy, **settings):
    options = {"embedder": "e", "dimension": DIMENSION, "language": "none", "busy_timeout": 5.0, "pool_size": 4}
    return PostgresStore.open(proxy.dsn, **{**options, **settings})


def read(store, tenant):
    return [found.id for found in store.fetch(Scope(tenant), [id_of(1)])]


def fell_silent(store):
    """Wait until a request counts as stuck."""
    wait_until(lambda: any(store._runner._stuck_since(tenant) for tenant in SICK))


def wait_until(holds):
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


def test_requests_of_a_tenant_that_gets_no_answer_fail_soon_and_all_others_are_served(silent):
    """There are more of them than the pool has connections, and none of them has ended yet."""
    with closing(store_on(silent)) as store, ThreadPoolExecutor(CLIENTS) as threads:
        for tenant in (*SICK, *WELL):
            added(store, stored(1, tenant=tenant))
        silent.words = {tenant.encode() for tenant in SICK}
        stuck = [threads.submit(read, store, SICK[number % len(SICK)]) for number in range(store._runner._size)]
        fell_silent(store)
        for tenant in WELL * 3:
            assert threads.submit(read, store, tenant).result(30) == [id_of(1)]
        assert store.is_degraded
        more = [threads.submit(read, store, SICK[number % len(SICK)]) for number in range(CLIENTS - len(stuck))]
        while not all(future.done() for future in (*stuck, *more)):
            assert read(store, "well") == [id_of(1)]
            assert store.connections()["in_use"] <= 4 + connections.spare(4)
        for future in (*stuck, *more):
            with pytest.raises(StoreError, match="does not answer this tenant"):
                future.result()
        assert read(store, "well") == [id_of(1)]
        with pytest.raises(StoreError, match="does not answer this tenant"):
            read(store, SICK[0])  # at once, or after another probe
        silent.words = set()

        def is_back():
            with suppress(StoreError):
                return read(store, SICK[0]) == [id_of(1)]

        wait_until(is_back)


def test_a_commit_that_gets_no_answer_is_unsettled(silent):
    """While the server answers others; the error comes long before the statement timeout."""
    with closing(store_on(silent, busy_timeout=60.0)) as store, ThreadPoolExecutor(1) as threads:
        added(store, stored(1, tenant="well"), stored(1, tenant=SICK[0]))

        def write_and_fall_silent():  # a read of a single query has no COMMIT
            return store._runner.write(SICK[0], lambda *_: silent.words.update((b"COMMIT", SICK[0].encode())), 60.0)

        writing = threads.submit(write_and_fall_silent)
        while not writing.done():
            assert read(store, "well") == [id_of(1)]
        with pytest.raises(UnsettledError, match="outcome is unknown"):
            writing.result()


def test_a_lone_slow_statement_keeps_no_other_request_of_its_tenant_waiting(tables, monkeypatch):
    monkeypatch.setattr(connections, "SILENT", 0.0)
    slow, begun = "SELECT pg_advisory_xact_lock(1) IS NULL", threading.Event()

    def read_slowly(reader):
        begun.set()
        return reader.exec_driver_sql(slow).scalar()

    with (
        closing(PostgresStore.open(tables, embedder="e", dimension=DIMENSION, language="none")) as store,
        closing(psycopg.connect(tables)) as other,
        ThreadPoolExecutor(1) as threads,
    ):
        added(store, stored(1, tenant="well"), stored(1, tenant="fine"))
        other.execute(slow)
        waiting = threads.submit(store._runner.read, "well", read_slowly)
        assert begun.wait(30)
        for _ in range(20):
            assert read(store, "fine") == read(store, "well") == [id_of(1)]
        assert not waiting.done()
        other.rollback()
        assert waiting.result(60) is False


def test_a_server_that_answers_nobody_is_given_up_after_the_statement_timeout(silent, monkeypatch):
    monkeypatch.setattr(connections, "GRACE", 0.2)
    with closing(store_on(silent, statement_timeout=0.3, busy_timeout=0.2)) as store:
        added(store, stored(1, tenant="well"))
        silent.words = {b""}
        with pytest.raises(StoreError, match="does not answer"):
            read(store, "well")
        silent.words = set()
        assert read(store, "well") == [id_of(1)]


def test_a_probe_of_the_server_is_answered_while_every_connection_is_stuck(silent):
    with closing(store_on(silent)) as store, ThreadPoolExecutor(CLIENTS) as threads:
        added(store, *(stored(1, tenant=tenant) for tenant in (*SICK, *WELL)))
        silent.words = {tenant.encode() for tenant in SICK}
        stuck = [threads.submit(read, store, SICK[number % len(SICK)]) for number in range(store._runner._size)]
        wait_until(lambda: store.connections()["in_use"] == store._runner._size)
        assert store.pinned() is not None
        silent.close()
        assert all(isinstance(future.exception(timeout=60), StoreError) for future in stuck)
