"""A write whose connection breaks is done once or not at all, and its caller is told which, or that nobody can say."""

import threading
from contextlib import closing

import psycopg
import pytest

from salience.errors import UnsettledError
from salience.lab.torture_postgres.cutting import Cutter
from salience.lab.torture_postgres.housing import opened
from salience.testing.postgres import fresh, server


@pytest.fixture(scope="module")
def ours():
    """A server that these tests may kill."""
    with server() as ours:
        yield ours


@pytest.fixture
def mine(ours):
    with fresh(ours) as dsn:
        yield dsn
        ours.start()


def rows(dsn, statement="SELECT content FROM salience.memories ORDER BY content"):
    with closing(psycopg.connect(dsn, autocommit=True)) as connection:
        return [row[0] for row in connection.execute(statement)]


@pytest.fixture
def cut(mine):
    """An engine whose connections go through a proxy, that proxy, and the list of its next cuts."""
    cuts = []
    with Cutter(mine, lambda: cuts.pop(0) if cuts else None) as proxy, opened(proxy.dsn, busy_timeout=5) as engine:
        engine.remember("the first one pins the store")
        engine.recall("pins")
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
    while rows(mine, waiting) != [1]:
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


def test_the_number_of_a_lost_transaction_says_nothing(ours, mine):
    """Why writes carry tokens: PostgreSQL gives the number of a lost transaction to another, which it says is done."""
    with psycopg.connect(mine, autocommit=True) as connection:
        connection.execute("CREATE TABLE numbers (value int)")
        connection.execute("CHECKPOINT")
    lost = psycopg.connect(mine, autocommit=True)
    lost.execute("BEGIN; INSERT INTO numbers VALUES (1)")
    number = lost.execute("SELECT pg_current_xact_id()::text").fetchone()[0]
    ours.kill()
    ours.start()
    with pytest.raises(psycopg.OperationalError):
        lost.execute("COMMIT")
    lost.close()
    with psycopg.connect(mine, autocommit=True) as connection:
        for value in (2, 3):
            connection.execute("INSERT INTO numbers VALUES (%s)", (value,))
        told = connection.execute("SELECT pg_xact_status(%s::xid8)", (number,)).fetchone()
        assert connection.execute("SELECT value FROM numbers ORDER BY value").fetchall() == [(2,), (3,)]
    assert told == ("committed",)
