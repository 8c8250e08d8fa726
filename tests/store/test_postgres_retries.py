"""What passes is tried again, what does not ends with an error that says what to do; neither leaves half a write."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import psycopg
import pytest
from sqlalchemy import Engine as Database
from sqlalchemy import event

from bench.torture_postgres import opened
from salience.errors import BusyError, ReadOnlyError, StoreError
from salience.ports import Touch
from salience.records import Scope
from salience.store.postgres import PostgresStore
from salience.store.postgres import connection as connections
from tests.contract.memories import DIMENSION, id_of, stored
from tests.contract.memories import add as added

ROW = "SELECT 1 FROM salience.tenants WHERE tenant = %s FOR UPDATE"


def asked(dsn, statement, *values):
    with closing(psycopg.connect(dsn, autocommit=True)) as connection:
        return connection.execute(statement, values).fetchall()


def held(dsn):
    """How many memories each tenant has, and how many writes left a token."""
    counts = dict(asked(dsn, "SELECT tenant, count(*) FROM salience.memories GROUP BY tenant"))
    return counts, asked(dsn, "SELECT count(*) FROM salience.commits")[0][0]


@contextmanager
def locked(dsn, *tenants):
    """A transaction of somebody else that keeps tenants locked."""
    with closing(psycopg.connect(dsn)) as other:
        for tenant in tenants:
            assert other.execute(ROW, (tenant,)).rowcount == 1
        yield other
        other.rollback()


@contextmanager
def failing(statement, state, times, message="planned"):
    """The server itself raises `state` before a statement that begins so, so many times; yields how often it did."""
    raised = []

    def fail(connection, cursor, sent, parameters, context, executemany):
        if sent.startswith(statement) and len(raised) < times:
            raised.append(sent)
            cursor.execute(f"DO $$ BEGIN RAISE SQLSTATE '{state}' USING MESSAGE = '{message}'; END $$")

    event.listen(Database, "before_cursor_execute", fail)
    try:
        yield raised
    finally:
        event.remove(Database, "before_cursor_execute", fail)


@contextmanager
def node_down(tenant, blocked=None):
    """Citus says at each statement of a tenant that it cannot reach the worker; yields the tenants of all statements.

    `blocked` is called first, in the thread of the request.
    """
    sent, message = [], "connection to the remote node engine@10.1.2.3:5432 failed with: Connection refused"

    def refuse(connection, cursor, statement, parameters, context, executemany):
        known = [name for name in ("well", "sick") if name in str(parameters)]
        sent.extend(known)
        if tenant in known:
            if blocked:
                blocked()
            cursor.execute(f"DO $$ BEGIN RAISE SQLSTATE '08006' USING MESSAGE = '{message}'; END $$")

    event.listen(Database, "before_cursor_execute", refuse)
    try:
        yield sent
    finally:
        event.remove(Database, "before_cursor_execute", refuse)


DOWN = "a node of the database cluster is unavailable, and with it this tenant's memories. Try again later."


def test_a_tenant_whose_node_is_down_fails_fast_and_the_others_are_served(tables):
    with opened(tables, busy_timeout=600, node_timeout=0) as engine:
        well, sick = engine.of("well"), engine.of("sick")
        store, pool = engine.services.store, engine.services.store._runner._engine.pool
        for each in (well, sick):
            each.remember("anchor bridge candle")
        made = pool.checkedin()
        with node_down("sick") as sent:
            for ask in (lambda: sick.remember("another"), lambda: sick.stats()):
                with pytest.raises(StoreError) as told:
                    ask()
                assert str(told.value) == f"store: {store._runner.where}: {DOWN}"
            assert sent == ["sick"] * 3  # an attempt and one more, then one
            assert store.is_degraded
            well.remember("another")
            assert len(well.recall("anchor", min_score=0)) == 2
            assert "sick" not in sent[3:]
        assert pool.checkedin() == made  # the connection to the coordinator works, and stays
        assert sick.remember("another").status == "created"
        assert not store.is_degraded


def test_few_requests_wait_for_a_node_that_does_not_answer(tables):
    with opened(tables, busy_timeout=600, node_timeout=0, pool_size=8) as engine:
        well, sick = engine.of("well"), engine.of("sick")
        for each in (well, sick):
            each.remember("anchor bridge candle")
        waiting, answered = threading.Semaphore(0), threading.Event()

        def hang():
            waiting.release()
            answered.wait()

        with node_down("sick"), pytest.raises(StoreError, match=DOWN):
            sick.stats()
        with node_down("sick", hang) as sent, ThreadPoolExecutor(2) as pool:
            held = [pool.submit(sick.stats) for _ in range(2)]
            waiting.acquire(), waiting.acquire()
            for _ in range(20):
                with pytest.raises(StoreError, match=DOWN):
                    sick.remember("another")
            assert sent == ["sick"] * 2  # the others sent nothing
            well.remember("another")
            assert len(well.recall("anchor", min_score=0)) == 2
            answered.set()
            for each in held:
                with pytest.raises(StoreError, match=DOWN):
                    each.result()
        assert sick.stats().memories == 1


def test_a_node_that_comes_back_is_waited_for(make, tables):
    store = make()
    added(store, stored(1))
    with failing("INSERT INTO memories", "08006", 2) as raised:
        assert [receipt.status for receipt in added(store, stored(2))] == ["created"]
    assert len(raised) == 2
    assert held(tables) == ({"default": 2}, 2)


def test_a_cluster_whose_server_restarts_is_waited_for(make, tables):
    store = make()
    added(store, stored(1))
    with failing("INSERT INTO memories", "XX000", 2, "postmaster was shut down, exiting") as raised:
        assert [receipt.status for receipt in added(store, stored(2))] == ["created"]
    assert len(raised) == 2
    assert held(tables) == ({"default": 2}, 2)


def test_messages_of_libpq_are_shown_without_users_and_hosts():
    said = 'connection to server at "10.1.2.3" failed: FATAL:  no entry for host "10.1.2.3", user "u", database "d"'
    with pytest.raises(StoreError) as told, connections.mapped("there"):
        raise psycopg.OperationalError(said)
    assert '(FATAL:  no entry for host ..., user ..., database "d")' in str(told.value)


@pytest.fixture
def make(tables):
    """Opens stores that are closed in the end."""
    stores = []

    def make(**options):
        settings = {"embedder": "contract", "dimension": DIMENSION, "language": "english", "busy_timeout": 10}
        stores.append(PostgresStore.open(tables, **{**settings, **options}))
        return stores[-1]

    yield make
    for store in stores:
        store.close()


def of_tenant(number, tenant):
    return stored(number, tenant=tenant)


@pytest.mark.parametrize("state", ["40001", "40P01"])
def test_serialization_failures_and_deadlocks_are_tried_again(make, tables, state):
    store = make()
    added(store, stored(1))
    with failing("INSERT INTO memories", state, 3) as raised:
        assert [receipt.status for receipt in added(store, stored(2), stored(3))] == ["created", "created"]
    assert len(raised) == 3
    assert held(tables) == ({"default": 3}, 2)


def test_a_failure_that_does_not_pass_leaves_nothing(make, tables):
    store = make(busy_timeout=0.3)
    added(store, stored(1))
    before = held(tables)
    with failing("INSERT INTO memories", "40001", 10**6), pytest.raises(BusyError, match="again and again"):
        added(store, stored(2), stored(3))
    assert held(tables) == before
    assert [receipt.status for receipt in added(store, stored(2))] == ["created"]


def test_an_error_of_the_server_is_told_without_values(make, tables):
    store = make()
    added(store, stored(1))
    with failing("INSERT INTO memories", "P0001", 1), pytest.raises(StoreError, match="SQLSTATE P0001") as told:
        added(store, stored(2, content="a secret of somebody"))
    assert "secret" not in repr(told.value) + str(told.value.__cause__) + str(told.value.__context__ is None)
    assert held(tables)[0] == {"default": 1}


def test_a_commit_in_an_aborted_transaction_is_an_error(make, tables):
    """PostgreSQL answers it with ROLLBACK, and no error."""
    store = make()
    added(store, stored(1))
    swallowed = []

    def fail(connection, cursor, sent, parameters, context, executemany):
        if sent.startswith("INSERT INTO memories"):
            try:
                connection.connection.driver_connection.execute("SELECT 1/0")
            except psycopg.errors.DivisionByZero:
                swallowed.append(sent)

    event.listen(Database, "after_cursor_execute", fail)
    try:
        with pytest.raises(StoreError, match="25P02"):
            added(store, stored(2))
    finally:
        event.remove(Database, "after_cursor_execute", fail)
    assert len(swallowed) == 1
    assert held(tables)[0] == {"default": 1}


def test_a_tenant_that_is_locked_is_busy(make, tables):
    store = make(busy_timeout=0.3)
    added(store, of_tenant(1, "one"))
    added(store, of_tenant(2, "other"))
    before = held(tables)
    with locked(tables, "one"):
        with pytest.raises(BusyError, match="SALIENCE_BUSY_TIMEOUT"):
            added(store, of_tenant(3, "one"))
        assert held(tables) == before
        added(store, of_tenant(4, "other"))  # which waits for nobody
        assert store.scan(Scope("one"))[0].memory.id == id_of(1)  # nor do readers
    added(store, of_tenant(3, "one"))
    assert held(tables)[0] == {"one": 2, "other": 2}


def test_a_recall_does_not_wait_long_for_a_write(tables):
    with opened(tables, busy_timeout=60) as engine:
        engine.remember("anchor bridge candle")
        with locked(tables, "default"):
            assert len(engine.recall("anchor", min_score=0)) == 1
            engine.stats()  # writes what recalls have to note, or tries to
            assert engine.recall("anchor", min_score=0).degraded == ("touch",)
        engine.stats()
        assert engine.recall("anchor", min_score=0).degraded == ()


def test_a_statement_that_takes_too_long_is_ended(make, tables):
    store = make(statement_timeout=0.3)
    added(store, stored(1))
    before = held(tables)
    with locked(tables, "default"), pytest.raises(BusyError, match="SALIENCE_STATEMENT_TIMEOUT"):
        added(store, stored(2))
    assert held(tables) == before


def test_a_pool_that_is_in_use_is_busy(make, tables):
    store = make(pool_size=1, busy_timeout=0.3)
    added(store, of_tenant(1, "one"))
    patient = make(busy_timeout=30, pool_size=1)
    with locked(tables, "one") as other, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(added, patient, of_tenant(2, "one"))
        while not asked(tables, "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"):
            pass
        patient._runner._patience = 0.3  # of reads
        with pytest.raises(BusyError, match="SALIENCE_POOL_SIZE"):
            patient.scan(Scope("one"))
        other.rollback()
        assert [receipt.status for receipt in waiting.result()] == ["created"]
    assert held(tables)[0] == {"one": 2}


def test_writes_to_two_tenants_in_opposite_orders_do_not_meet(make, tables):
    store = make()
    for number, tenant in enumerate(("one", "other")):
        added(store, of_tenant(number, tenant))

    def both(first, second, numbers):
        for number in numbers:
            added(store, of_tenant(number, first), of_tenant(number + 1, second))

    with ThreadPoolExecutor(2) as pool:
        made = [
            pool.submit(both, "one", "other", range(10, 50, 2)),
            pool.submit(both, "other", "one", range(1010, 1050, 2)),
        ]
        for one in made:
            one.result()
    assert held(tables)[0] == {"one": 41, "other": 41}


def test_a_deadlock_with_somebody_else_ends_with_the_write_done_once(make, tables):
    store = make(busy_timeout=30)
    for number, tenant in enumerate(("one", "other")):
        added(store, of_tenant(number, tenant))
    with ThreadPoolExecutor(1) as pool, closing(psycopg.connect(tables)) as stranger:
        stranger.execute("SET deadlock_timeout = '1h'")  # the store's connection is the one that finds it
        stranger.execute(ROW, ("other",))
        writing = pool.submit(added, store, of_tenant(10, "one"), of_tenant(11, "other"))
        while not asked(tables, "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"):
            pass
        assert stranger.execute(ROW, ("one",)).rowcount == 1  # once the store has let go of it
        stranger.rollback()
        assert [receipt.status for receipt in writing.result()] == ["created", "created"]
    assert held(tables)[0] == {"one": 2, "other": 2}


def test_a_key_makes_a_retry_of_the_caller_safe(tables):
    with opened(tables, busy_timeout=0.3) as engine:
        engine.remember("the first one")
        with locked(tables, "default"), pytest.raises(BusyError):
            engine.remember("anchor bridge candle", key="k")
        assert [engine.remember("anchor bridge candle", key="k").status for _ in range(3)] == [
            "created",
            "unchanged",
            "unchanged",
        ]
    assert held(tables)[0] == {"default": 2}


def test_a_server_that_takes_no_writes_says_so(make, tables):
    store = make()
    added(store, stored(1))
    with failing("INSERT INTO memories", "25006", 1), pytest.raises(ReadOnlyError, match="primary"):
        added(store, stored(2))
    assert held(tables)[0] == {"default": 1}


def test_tokens_of_long_ago_are_dropped(make, tables, monkeypatch):
    monkeypatch.setattr(connections, "TOKENS_SWEPT_EVERY", 4)
    store = make()
    added(store, stored(1))
    old = f"{int(time.time() - connections.TOKEN_SECONDS - 1):016x}{'0' * 16}"
    asked(tables, "INSERT INTO salience.commits VALUES ('default', %s), ('other', %s) RETURNING token", old, old)
    for number in range(2, 10):
        added(store, stored(number))
    left = asked(tables, "SELECT tenant, token = %s, count(*) FROM salience.commits GROUP BY 1, 2 ORDER BY 1, 2", old)
    assert left == [("default", False, 9), ("other", True, 1)]


def test_touches_alone_are_written_once_too(make, tables):
    store = make()
    added(store, stored(1))
    with failing("UPDATE memories", "40001", 2) as raised:
        store.apply([Touch(Scope(), (id_of(1),), access_count=1)])
    assert len(raised) == 2
    assert store.fetch(Scope(), [id_of(1)])[0].access_count == 1


def test_many_threads_share_few_connections(tables):
    with opened(tables, pool_size=2) as engine:
        start = threading.Barrier(8)

        def write(number):
            start.wait()
            return engine.of(f"tenant {number % 3}").remember(f"memory {number}").status

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(write, range(8))) == ["created"] * 8
    assert sum(held(tables)[0].values()) == 8
