"""Several handles on one database: who waits for whom, and what none of them keeps from the others."""

import shutil
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import timedelta
from unittest.mock import Mock

import psycopg
import pytest
from sqlalchemy import event

import databases
from salience.errors import BusyError, PinnedError, StaleError, StoreError
from salience.ports import Add, Adopt, Derive, Erase, Lease, Model, Near, Revise, Touch
from salience.records import ANY, Scope
from salience.store.postgres import PostgresStore, cache
from salience.store.postgres.search import index_of
from tests.contract.memories import (
    DIMENSION,
    EVERYTHING,
    NOW,
    add,
    id_of,
    listed,
    memory,
    need,
    numbers,
    random_unit,
    stored,
    unit,
)
from tests.postgres_server import fresh, server
from waiting import PATIENCE

MODEL = Model("e", DIMENSION, lambda: unit(1))
OF_OTHERS = Scope(tenant="other", environment=ANY, project=ANY, user_id=ANY, agent_id=ANY)


@pytest.fixture
def opened(tables):
    stores = []

    def opened(model=MODEL, dsn=tables, **options):
        settings = {"embedder": model.name, "dimension": model.dimension, "fingerprint": model.fingerprint}
        stores.append(PostgresStore.open(dsn, **settings, language="none", **{"busy_timeout": 5, **options}))
        return stores[-1]

    yield opened
    for store in stores:
        store.close()


@pytest.fixture
def two(opened):
    """Two handles that have both read three memories."""
    first, second = opened(), opened()
    add(first, *(stored(number) for number in (1, 2, 3)))
    for store in (first, second):
        assert numbers(store.gather(need())) == [1, 2, 3]
    return first, second


@contextmanager
def a_writer_of(dsn, tenant):
    """Somebody else who has written to a tenant, and is not done."""
    with closing(psycopg.connect(dsn)) as other:
        other.execute("UPDATE salience.tenants SET sequence = sequence + 1 WHERE tenant = %s", (tenant,))
        yield other
        other.rollback()


def touch(number=1, **values):
    return Touch(Scope(), (id_of(number),), NOW, access_count=1, **values)


def counted(store):
    return store.gather(need())["access_count"].tolist()


def test_what_a_recall_leaves_is_seen_by_all_at_once(two):
    """Though it moves no row's number: the memory's, its importance's and its session's."""
    first, second = two
    first.apply([touch(importance=0.25, at=NOW)])
    first.apply([touch(2)])
    batch = second.gather(need())
    assert (counted(second), batch["importance"].tolist()) == ([1, 1, 0], [0.75, 0.5, 0.5])
    assert batch["accessed_at"].tolist() == [NOW.timestamp()] * 3
    first.apply([Touch(Scope(session_id="s"), (id_of(3),), activate=True)])
    assert second.gather(need(Scope(session_id="s")))["turns_since_activation"].tolist()[2] == 0


def test_an_id_that_comes_twice_in_one_write_is_stored_once(two):
    """Also where another change stands between the two."""
    first, second = two
    receipts = first.apply([Add(stored(9)), touch(1), Add(stored(9))])
    assert [receipt.status for receipt in receipts] == ["created", "unchanged"]
    assert len(second.fetch(EVERYTHING, [id_of(9)])) == 1


def test_a_touch_and_a_revision_of_two_handles_lose_nothing(two):
    first, second = two
    for turn in range(3):
        first.apply([touch(at=NOW + timedelta(minutes=turn))])
        (old,) = second.fetch(EVERYTHING, [id_of(1)])
        second.apply([Revise(old.changed("update", NOW, weight=0.5))])
    (now,) = first.fetch(EVERYTHING, [id_of(1)])
    assert (now.version, now.access_count) == (4, 3)
    assert counted(first) == counted(second) == [3, 0, 0]


def test_each_scope_has_a_cache_of_its_own_and_all_are_fresh(opened):
    """Also where no more than one of them is kept at a time."""
    homes = [{}, {"user_id": "u"}, {"user_id": "v"}, {"project": "p"}, {"tenant": "other"}]
    first, second = opened(), opened(cached_rows=1)
    for number in range(20):
        add(first, stored(number, **homes[number % 5]))
        for home in homes:
            for store in (first, second):
                scope = Scope(**home)
                assert numbers(store.gather(need(scope))) == listed(store, scope)
    assert numbers(second.gather(need())) == [n for n in range(20) if n % 5 != 4]
    assert len(second._indexes._entries) == 1


def test_one_index_of_a_tenant_replaces_those_of_its_scopes_before_they_hold_more(opened, monkeypatch):
    monkeypatch.setattr("salience.store.postgres.cache.FEW_ROWS", 0)
    store, writer = opened(), opened()
    people = ("u", "v", "w")
    add(writer, *(stored(number, user_id=[None, *people][number % 4]) for number in range(40)))
    add(writer, stored(50, tenant="other", user_id="u"))
    for number, person in enumerate(people * 2):
        for tenant in ("default", "other"):
            scope = Scope(tenant, user_id=person)
            assert numbers(store.gather(need(scope))) == listed(writer, scope)
        add(writer, stored(60 + number, user_id=person))
    assert numbers(store.gather(need())) == listed(writer)
    held = {scope.tenant: (scope.user_id, len(each.index)) for scope, each in store._indexes._entries.items()}
    assert held["default"] == (ANY, 46)
    assert [scope.tenant for scope in store._indexes._entries].count("default") == 1


def test_a_large_scope_displaces_none_that_is_in_use(opened, monkeypatch):
    """Else two scopes that take turns would each be read anew for every recall."""
    monkeypatch.setattr("salience.store.postgres.cache.FEW_ROWS", 3)
    first, second = Scope(user_id="u"), Scope("other", user_id="u")
    store = opened(cached_rows=30)
    add(store, *(stored(number, user_id="u") for number in range(20)))
    add(store, *(stored(number, user_id="u", tenant="other") for number in range(10)))
    for scope, is_read in ((first, True), (second, False), (first, True)):
        assert numbers(store.gather(need(scope))) == listed(store, scope)
        assert store._indexes.was_large(scope) is not is_read
    monkeypatch.setattr("salience.store.postgres.cache.IDLE", -1.0)
    for entry in store._indexes._entries.values():
        entry.until = 0.0
    assert numbers(store.gather(need(second))) == listed(store, second)
    assert not store._indexes.was_large(second)


def test_a_write_alone_reads_no_large_scope(opened, monkeypatch):
    monkeypatch.setattr("salience.store.postgres.cache.FEW_ROWS", 3)
    store = opened()
    add(store, *(stored(number, random_unit(number)) for number in range(10)))
    looked = need(near=Near(random_unit(4)[None], 0.9), reach=5)
    for is_read in (False, True):
        assert numbers(store.gather(looked)) == [4]
        assert store._indexes.was_large(EVERYTHING) is not is_read
        assert numbers(store.gather(need())) == list(range(10))
    assert not store._indexes.was_large(EVERYTHING)


def loaders():
    return [thread for thread in threading.enumerate() if thread.name == cache.THREAD]


def test_a_large_scope_is_answered_by_candidates_until_a_thread_has_read_it(opened, monkeypatch):
    monkeypatch.setattr(cache, "AT_ONCE", 3)
    store, writer = opened(), opened()
    add(writer, *(stored(number, random_unit(number)) for number in range(20)))
    nearest = need(vector=random_unit(7), reach=5)
    assert not store.gather(nearest).complete
    for thread in loaders():
        thread.join(PATIENCE)
    add(writer, stored(20))
    found = store.gather(nearest)
    assert found.complete
    assert numbers(found) == [*range(21)]


def test_an_index_that_cannot_be_read_in_a_thread_is_tried_again(opened, monkeypatch):
    monkeypatch.setattr(cache, "AT_ONCE", 3)
    store = opened()
    add(store, *(stored(number, random_unit(number)) for number in range(20)))
    with monkeypatch.context() as broken:
        broken.setattr(cache, "index_of", Mock(side_effect=StoreError("store: gone")))
        assert numbers(store.gather(need())) == [*range(20)]
        for thread in loaders():
            thread.join(PATIENCE)
    assert store._indexes.was_large(EVERYTHING)
    monkeypatch.setattr(cache, "IDLE", -1.0)
    for entry in store._indexes._entries.values():
        entry.until = 0.0
    store.gather(need())
    for thread in loaders():
        thread.join(PATIENCE)
    assert not store._indexes.was_large(EVERYTHING)


def test_close_ends_the_thread_that_reads_an_index(opened, monkeypatch):
    started = threading.Event()

    def read(*given, is_wanted):
        started.set()
        while is_wanted():
            pass
        return index_of(*given)

    monkeypatch.setattr(cache, "AT_ONCE", 3)
    monkeypatch.setattr(cache, "index_of", read)
    store = opened()
    add(store, *(stored(number) for number in range(20)))
    store.gather(need())
    assert started.wait(PATIENCE)
    (thread,) = loaders()
    store.close()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_a_reader_that_waited_for_another_misses_no_change(opened, monkeypatch):
    """The other one read the scope in an earlier state."""
    store, writer = opened(), opened()
    add(writer, stored(1))
    threads, reached, later = ThreadPoolExecutor(2), threading.Event(), []
    read_scope = store._indexes._read

    def signal(*given):
        if later:
            reached.set()
        return read_scope(*given)

    def read(*given):
        index = index_of(*given)
        if not later:
            add(writer, stored(2))
            later.append(None)
            later[0] = threads.submit(store.gather, need())
            reached.wait(PATIENCE)
        return index

    monkeypatch.setattr("salience.store.postgres.cache.index_of", read)
    monkeypatch.setattr(store._indexes, "_read", signal)
    with threads:
        assert numbers(threads.submit(store.gather, need()).result(30)) == [1]
        assert numbers(later[0].result(30)) == [1, 2]


@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_no_change_of_overlapping_transactions_is_missed(two, tables, ends):
    """The tenant's row is locked from the advance of its sequence to the commit, so sequences commit in order."""
    first, _ = two
    with a_writer_of(tables, "default") as other:
        changed = (
            "UPDATE salience.memories SET importance = 1, version = version + 1, "
            "seq = (SELECT sequence FROM salience.tenants WHERE tenant = memories.tenant) WHERE id = %s"
        )
        other.execute(changed, (id_of(2),))
        waiting = threading.Thread(target=add, args=(first, stored(4)))
        waiting.start()
        while not other.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()[0]:
            pass
        for store in two:
            assert store.gather(need())["importance"].tolist() == [0.5] * 3
        getattr(other, ends)()
        waiting.join(PATIENCE)
    for store in two:
        batch = store.gather(need())
        assert numbers(batch) == [1, 2, 3, 4]
        assert batch["importance"].tolist() == [0.5, 1.0 if ends == "commit" else 0.5, 0.5, 0.5]


def test_a_scope_that_outgrows_what_is_read_into_memory_stays_fresh(opened):
    """From all in memory to indexes alone and back, as others write."""
    first, second = opened(), opened(exact_rows=10)
    for number in range(25):
        add(first, stored(number))
        assert len(second.gather(need())) == number + 1
    first.apply([Erase("default", tuple(id_of(number) for number in range(5, 25)))])
    assert numbers(second.gather(need())) == [0, 1, 2, 3, 4]
    add(first, stored(30))
    assert numbers(second.gather(need())) == [0, 1, 2, 3, 4, 30]


def test_writers_of_one_tenant_wait_and_those_of_others_do_not(two, tables):
    first, second = two
    add(first, stored(1, tenant="other"))
    with a_writer_of(tables, "default"):
        second._busy_timeout = 0.05
        with pytest.raises(BusyError, match=r"locked.*SALIENCE_BUSY_TIMEOUT"):
            add(second, stored(4))
        add(second, stored(2, tenant="other"))
        assert listed(second) == listed(first) == [1, 2, 3]
        assert numbers(second.gather(need())) == [1, 2, 3]
    add(second, stored(4))
    assert listed(second) == [1, 2, 3, 4]
    assert listed(second, OF_OTHERS) == [1, 2]


def test_a_touch_gives_up_early_and_a_write_does_not(two, tables):
    first, _ = two
    first._busy_timeout = 30
    ends = {}
    with a_writer_of(tables, "default") as other:
        with pytest.raises(BusyError):
            first.apply([touch(at=NOW)])
        waiting = threading.Thread(target=lambda: ends.update(receipts=add(first, stored(4))))
        waiting.start()
        while not other.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()[0]:
            pass
        other.rollback()
        waiting.join(PATIENCE)
    assert ends["receipts"][0].status == "created"
    assert counted(first) == [0, 0, 0, 0]


def test_readers_wait_for_nobody(two, tables):
    first, _ = two
    with closing(psycopg.connect(tables)) as other:
        other.execute("UPDATE salience.memories SET content = 'half-written'")
        other.execute("DELETE FROM salience.meta")
        assert [item.memory.content for item in first.scan(EVERYTHING)] == ["memory 1", "memory 2", "memory 3"]
        assert numbers(first.gather(need(vector=unit(1)))) == [1, 2, 3]
        other.rollback()


@pytest.mark.parametrize(
    "verb",
    [
        lambda store: store.apply([Add(stored(7))]),
        lambda store: store.apply([Derive("default", id_of(1), 1, "x", unit(1))]),
        lambda store: store.apply([Adopt()]),
        lambda store: store.gather(need(vector=unit(1))),
        lambda store: store.unembedded(),
    ],
    ids=["add", "derive", "adopt", "gather", "unembedded"],
)
def test_nobody_waits_while_a_provider_is_asked_for_a_fingerprint(two, opened, tables, verb):
    first, _ = two
    seen = []

    def fingerprint():
        with psycopg.connect(tables, autocommit=True) as other:
            ask = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in %'"
            seen.append(other.execute(ask).fetchone()[0])
        return unit(1)

    store = opened(Model("e", DIMENSION, fingerprint))
    verb(store)
    verb(store)
    assert seen == [0]
    assert listed(first)[:3] == [1, 2, 3]


@pytest.mark.parametrize(
    ("when", "table", "does", "changes"),
    [
        ("AFTER INSERT", "memories", "DELETE FROM salience.memories WHERE id = new.id", [Add(stored(9))]),
        ("AFTER INSERT", "versions", "DELETE FROM salience.versions WHERE id = new.id",
         [Revise(memory(2).changed("update", NOW))]),
        ("AFTER UPDATE", "memories", "DELETE FROM salience.memories WHERE id = new.id", [touch(2)]),
        ("AFTER DELETE", "memories", "DELETE FROM salience.memories", [Erase("default", (id_of(2),))]),
    ],
    ids=["add", "revise", "touch", "erase"],
)  # fmt: skip
def test_a_count_that_is_not_right_undoes_all(postgres, tables, when, table, does, changes):
    """Where the database itself loses rows, nothing is written, and the error says how many would be left."""
    name = tables.partition("?")[0].rpartition("/")[2]
    databases.end_others(tables)
    with fresh(postgres, template=name) as dsn:
        store = PostgresStore.open(dsn, embedder="e", dimension=DIMENSION, language="none")
        with closing(store):
            add(store, *(stored(number) for number in (1, 2, 3)))
            with psycopg.connect(dsn) as superuser:
                superuser.execute(
                    f"CREATE FUNCTION loses() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN {does}; RETURN NULL; END'"
                )
                superuser.execute(
                    f"CREATE TRIGGER loses {when} ON salience.{table} FOR EACH ROW EXECUTE FUNCTION loses()"
                )
            before = [item.memory for item in store.scan(EVERYTHING, versions=True)]
            with pytest.raises(StoreError, match=r"^store: \d memories and \d older versions .* nothing was written"):
                store.apply(changes, counted=True)
            assert [item.memory for item in store.scan(EVERYTHING, versions=True)] == before
            assert numbers(store.gather(need())) == [1, 2, 3]


def test_one_of_several_first_writers_pins_the_store(opened):
    """All at once, under models of their own; those of the others are refused, and write nothing."""
    models = [Model(f"model {n}", DIMENSION, lambda n=n: random_unit(n)) for n in range(6)]
    stores = [opened(model) for model in models]
    together = threading.Barrier(6)

    def write(number):
        together.wait(PATIENCE)
        try:
            add(stores[number], stored(number))
        except PinnedError:
            return None
        return number

    with ThreadPoolExecutor(6) as threads:
        wrote = [number for number in threads.map(write, range(6)) if number is not None]
    assert len(wrote) == 1
    assert listed(stores[0]) == wrote
    assert {store.pinned().name for store in stores} == {f"model {wrote[0]}"}


def test_threads_of_many_tenants_share_a_pool(opened):
    """Two connections, eight threads: each reads what it wrote, and its own alone."""
    store = opened(pool_size=2, busy_timeout=30)

    def write(tenant):
        scope = Scope(tenant=f"t{tenant}")
        for number in range(10):
            add(store, stored(number, tenant=scope.tenant, content=scope.tenant))
            assert numbers(store.gather(need(scope))) == list(range(number + 1))
        return {item.memory.content for item in store.scan(scope)}

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(write, range(8))) == [{f"t{tenant}"} for tenant in range(8)]


def test_changes_of_several_tenants_are_one_transaction(two):
    """All of them or none, whatever the order in which they are named."""
    first, second = two
    changes = [Add(stored(5, tenant=tenant)) for tenant in ("z", "default", "a", "z")]
    assert [receipt.status for receipt in first.apply(changes)] == ["created", "created", "created", "unchanged"]
    for tenant in ("z", "default", "a"):
        assert 5 in listed(second, Scope(tenant=tenant))
    with pytest.raises(StaleError):
        second.apply([Add(stored(6, tenant="z")), Erase("a", (id_of(9),))])
    assert listed(first, Scope(tenant="z")) == [5]


def test_a_lease_is_held_while_another_takes_one(two, tables):
    first, second = two
    until = NOW + timedelta(hours=1)
    with a_writer_of(tables, "default"):  # leases are nobody's
        first.apply([Lease("upkeep", "first", NOW, until)])
        second.apply([Lease("reembed", "second", NOW, until)])


def test_a_read_sees_one_instant(two):
    """Though another writes between its statements: numbers, rows and statistics are of one state."""
    first, second = two
    writes = iter(range(10, 100))

    def between(connection, *_):
        add(first, stored(next(writes)))

    engine = second._runner._engine
    event.listen(engine, "before_cursor_execute", between)
    try:
        batch = second.gather(need(terms=("memory",)))
    finally:
        event.remove(engine, "before_cursor_execute", between)
    assert len(batch) == batch.lexicon.documents == len(batch.lexicon.postings.rows)
    assert numbers(second.gather(need())) == listed(first)


def test_a_server_that_came_up_from_a_backup_is_read_anew(opened):
    """Its change numbers come a second time, for other changes."""
    with server() as running, databases.laid_out(running) as dsn:
        store = opened(dsn=dsn)
        add(store, stored(1), stored(2))
        data, copy = running.folder / "data", running.folder / "backup"
        running.stop()
        subprocess.run(["cp", "-a", data, copy], check=True)
        running.start()
        add(store, stored(3))
        assert numbers(store.gather(need())) == [1, 2, 3]
        running.stop()
        shutil.rmtree(data)
        copy.rename(data)
        running.start()
        add(store, stored(4))
        assert numbers(store.gather(need())) == [1, 2, 4]
