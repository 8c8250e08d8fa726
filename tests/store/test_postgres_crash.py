"""A write whose connection breaks is done once or not at all, and its caller is told which, or that nobody can say."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from random import Random

import psycopg
import pytest

import databases
from bench.torture_postgres import HARMS, broken, kill_server, opened
from salience.errors import StoreError, UnsettledError
from tests.postgres_proxy import Cutter
from tests.postgres_server import server

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ours():
    """A server that these tests may kill; what it wrote to its log stays in memory until a commit asks for it."""
    with server(settings={"wal_writer_delay": "10s"}) as ours:
        yield ours


@pytest.fixture(scope="module")
def laid(ours):
    with databases.laid_out(ours) as dsn:
        yield dsn


@pytest.fixture
def mine(ours, laid):
    """DSN of a database with a store's tables and nothing in them."""
    ours.start()
    databases.empty(laid)
    return laid


def rows(dsn, statement="SELECT content FROM salience.memories ORDER BY content"):
    with closing(psycopg.connect(dsn, autocommit=True)) as connection:
        return [row[0] for row in connection.execute(statement)]


@pytest.fixture
def cut(mine):
    """An engine whose connections go through a proxy, that proxy, and the list of its next cuts."""
    cuts = []

    def cut():
        chosen = cuts.pop(0) if cuts else None
        return chosen() if callable(chosen) else chosen

    with Cutter(mine, cut) as proxy, opened(proxy.dsn, busy_timeout=20) as engine:
        engine.remember("the first one pins the store")
        engine.recall("pins")
        engine.list()  # writes the access log, whose commit would take a cut meant for another
        yield engine, proxy, cuts


@pytest.mark.parametrize("when", ["before", "sent", "after"])
@pytest.mark.parametrize("times", [1, 3])
def test_a_commit_that_was_cut_off_is_done_once(cut, mine, when, times):
    engine, proxy, cuts = cut
    cuts += [when] * times
    receipt = engine.remember("anchor bridge candle")
    assert (receipt.status, proxy.cuts) == ("created", times)
    cuts += [when] * times
    assert engine.update(receipt.memory.id, content="desert ember").memory.version == 2
    assert rows(mine) == ["desert ember", "the first one pins the store"]
    assert rows(mine, "SELECT content FROM salience.versions") == ["anchor bridge candle"]


@pytest.mark.parametrize("when", ["before", "sent", "after"])
def test_memories_are_forgotten_and_erased_once_where_the_answer_is_cut_off(cut, mine, when):
    engine, _, cuts = cut
    ids = [receipt.memory.id for receipt in engine.remember_many([{"content": f"memory {n}"} for n in range(4)])]
    cuts.append(when)
    assert engine.forget(ids[0]).memory.version == 2
    cuts.append(when)
    assert engine.erase(ids[1:3]) == 2
    assert rows(mine) == ["memory 0", "memory 3", "the first one pins the store"]


def test_a_commit_whose_end_the_server_does_not_know_yet_is_waited_for(cut, mine):
    engine, proxy, cuts = cut
    cuts.append("held")
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    made = []
    writer = threading.Thread(target=lambda: made.append(engine.remember("anchor bridge candle", key="k")))
    writer.start()
    while rows(mine, waiting) == [0]:
        pass
    assert made == []
    proxy.release()
    writer.join()
    assert made[0].status == "created"
    assert rows(mine) == ["anchor bridge candle", "the first one pins the store"]


def test_what_cannot_be_settled_is_said_to_be_so(mine):
    cuts = []
    with Cutter(mine, lambda: cuts.pop(0) if cuts else None) as proxy, opened(proxy.dsn, busy_timeout=0.5) as engine:
        engine.remember("the first one pins the store")
        cuts.append("held")
        with pytest.raises(UnsettledError, match="same key=") as told:
            engine.remember("anchor bridge candle", key="k")
        assert "anchor" not in str(told.value)
        proxy.release()
        assert engine.remember("anchor bridge candle", key="k").status in ("created", "unchanged")
    assert rows(mine) == ["anchor bridge candle", "the first one pins the store"]


def spent(dsn, numbers):
    """Let others take the next numbers of transactions."""
    with closing(psycopg.connect(dsn, autocommit=True)) as connection:
        for _ in range(numbers):
            connection.execute("SELECT pg_current_xact_id()")
        connection.execute("CREATE TABLE IF NOT EXISTS public.others (number int)")


def test_a_write_that_a_crash_took_is_not_taken_for_anothers(cut, ours, mine):
    """PostgreSQL gives the number of a transaction that never reached its disk to another one, after a crash.

    Whoever asks by the number is told that it is committed, and it is: as another's.
    """
    engine, proxy, cuts = cut
    numbers = []

    def crash():
        numbers.append(rows(mine, "SELECT pg_snapshot_xmin(pg_current_snapshot())::text")[0])  # that of the write
        proxy.open.clear()
        ours.kill()
        ours.start()
        spent(mine, 20)
        proxy.open.set()
        return "before"

    cuts.append(crash)
    receipt = engine.remember("anchor bridge candle")
    assert rows(mine, f"SELECT pg_xact_status('{numbers[0]}')") == ["committed"]
    assert rows(mine) == ["anchor bridge candle", "the first one pins the store"]
    assert engine.get(receipt.memory.id).content == "anchor bridge candle"


@pytest.mark.parametrize("name", HARMS)
def test_an_engine_outlives_what_is_done_to_its_server(ours, mine, name):
    """Its idle connections die with it; neither a read nor a write after that fails, or has to be made again."""
    with opened(mine, pool_size=4) as engine, ThreadPoolExecutor(4) as pool:
        engine.remember("memory")
        list(pool.map(engine.recall, ["memory"] * 8))  # now all connections are open
        HARMS[name][0](ours, Random(1))
        texts = [f"memory {number}" for number in range(8)]
        list(pool.map(engine.remember, texts))
        assert sorted(item.content for item in engine.list().memories) == ["memory", *texts]
        assert engine.recall("memory").degraded == ()


def test_a_server_that_is_away_for_longer_is_an_error_and_no_more(ours, mine):
    with opened(mine, busy_timeout=0.5) as engine:
        kept = engine.remember("anchor bridge candle").memory
        ours.kill()
        for ask in (
            lambda: engine.remember("desert ember"),
            lambda: engine.recall("anchor"),
            lambda: engine.forget(kept.id),
        ):
            with pytest.raises(StoreError, match="cannot be reached") as told:
                ask()
            assert not isinstance(told.value, UnsettledError)
            assert "anchor" not in str(told.value) + str(told.value.__cause__)
        ours.start()
        assert engine.get(kept.id).version == 1
        engine.remember("desert ember")
    assert rows(mine) == ["anchor bridge candle", "desert ember"]


def test_acknowledged_writes_survive_killed_servers(ours, mine, tmp_path):
    done = kill_server(ours, mine, tmp_path, rounds=2, seed=1, threads=2, processes=1)
    assert done.faults == []
    assert sum(one.acknowledged for one in done.checked.values()) > 10
    assert done.errors == {}
    assert done.harms.total() == 2


def test_the_check_finds_a_lost_memory(ours, mine, tmp_path):
    done = kill_server(ours, mine, tmp_path, rounds=1, seed=2, threads=2, processes=1, plant=True)
    assert sum(one.lost for one in done.checked.values()) >= 1
    assert any("acknowledged version is lost" in fault for fault in done.faults)


HARM = {
    "DELETE FROM salience.versions WHERE version = 1": "lacks versions",
    "UPDATE salience.versions SET valid_to = valid_to + 1": "does not end where",
    "UPDATE salience.memories SET turn = 1": "same place",
    "UPDATE salience.tenants SET sequence = 0": "newer than the sequence",
    "UPDATE salience.memories SET weight = 1": "keeps its weight",
}


@pytest.mark.parametrize("statement", HARM)
def test_the_rules_see_harm(mine, statement):
    with opened(mine) as engine:
        old = engine.remember("anchor", session_id="s").memory
        engine.update(old.id, content="bridge")
        engine.remember("candle", supersedes=old.id, session_id="s")
    assert broken(mine) == []
    rows(mine, f"{statement} RETURNING tenant")
    assert any(HARM[statement] in wrong for wrong in broken(mine))
