"""Writers that wait share a commit: each fails alone, and what undoes the commit is told to all of them."""

import os
import threading
import time
from contextlib import closing
from unittest.mock import patch

import pytest

import salience
from salience.deadline import OutOfTime
from salience.errors import BusyError, ConflictError, StaleError, StoreError
from salience.ports import Add, Adopt, Answered, Derive, Erase, Lease, Prune, Revise, Touch
from salience.records import Scope
from salience.store import turns
from salience.store.sqlite import SQLiteStore
from salience.store.turns import Turns
from salience.store.write import shareable
from salience.testing.doubles import PlantedEmbedder
from salience.testing.memories import DIMENSION, EVERYTHING, NOW, add, id_of, listed, memory, stored

PATIENCE = 30.0
"""Seconds after which what does not come fails its test."""


def together(waits, works):
    """Return what came of some works, each of a thread of its own, that were all waiting before the first was done."""
    came = [None] * len(works)

    def run(place, work):
        try:
            came[place] = work()
        except Exception as error:
            came[place] = error

    threads = [threading.Thread(target=run, args=each) for each in enumerate(works)]
    end = time.monotonic() + PATIENCE
    with waits:
        for thread in threads:
            thread.start()
        while len(waits) < len(works) and time.monotonic() < end:
            os.sched_yield()
    for thread in threads:
        thread.join(PATIENCE)
    return came


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "memory.db"
    with closing(
        SQLiteStore.open(path, embedder="e", dimension=DIMENSION, language="none", busy_timeout=PATIENCE)
    ) as store:
        add(store, stored(1))
        yield store


@pytest.fixture
def commits(store):
    """The commits of the writer from now on."""
    seen = []
    driver = store._writer.connection.driver_connection
    driver.set_trace_callback(lambda statement: statement == "COMMIT" and seen.append(statement))
    yield seen
    driver.set_trace_callback(None)


def test_those_that_wait_share_a_commit(store, commits):
    came = together(store._writing, [lambda n=n: add(store, stored(n)) for n in range(10, 18)])
    assert [receipt.memory for (receipt,) in came] == [memory(n) for n in range(10, 18)]
    assert len(commits) == 1
    assert listed(store) == [1, *range(10, 18)]


def test_one_that_fails_fails_alone(store, commits):
    works = [
        lambda: add(store, stored(10)),
        lambda: add(store, stored(20), stored(1, content="another text")),
        lambda: store.apply([Revise(memory(1, version=7).changed("update", NOW))]),
        lambda: store.apply([Revise(memory(1).changed("update", NOW, weight=0.5))]),
        lambda: add(store, stored(11)),
    ]
    first, conflict, late, revised, last = together(store._writing, works)
    assert isinstance(conflict, ConflictError)
    assert isinstance(late, StaleError)
    assert [receipts[0].status for receipts in (first, revised, last)] == ["created", "updated", "created"]
    assert len(commits) == 1
    assert listed(store) == [1, 10, 11]
    assert store.fetch(EVERYTHING, [id_of(1)])[0].weight == 0.5


def test_each_sees_what_those_before_it_have_done(store):
    came = together(store._writing, [lambda n=n: add(store, stored(n, session_id="s")) for n in range(10, 20)])
    assert sorted(receipts[0].memory.turn for receipts in came) == list(range(1, 11))
    receipts = together(store._writing, [lambda: add(store, stored(30, key="k"))] * 4)
    assert sorted(receipt.status for (receipt,) in receipts) == ["created", "unchanged", "unchanged", "unchanged"]


def test_what_undoes_the_commit_is_told_to_all(store):
    driver = store._writer.connection.driver_connection
    driver.execute(f"PRAGMA max_page_count={driver.execute('PRAGMA page_count').fetchone()[0] + 2}")
    works = [lambda n=n: add(store, stored(n, content="secret " * 2000)) for n in range(10, 14)]
    came = together(store._writing, works)
    assert all(isinstance(error, StoreError) and "the disk is full" in str(error) for error in came)
    driver.execute("PRAGMA max_page_count=1000000")
    assert listed(store) == [1]
    add(store, stored(20))
    assert listed(store) == [1, 20]


def test_counts_are_held_within_a_shared_commit(store):
    works = [lambda n=n: store.apply([Add(stored(n))], counted=True) for n in range(10, 14)]
    assert [receipts[0].status for receipts in together(store._writing, works)] == ["created"] * 4


@pytest.mark.parametrize(
    ("change", "is_shared"),
    [
        (Add(stored(1)), True),
        (Revise(memory(1)), True),
        (Touch(Scope(), ()), True),
        (Answered(Scope(), "k", "update", id_of(1), 1, NOW), True),
        (Erase("default", ()), False),
        (Adopt(), False),
        (Derive("default", id_of(1), 1, "x"), False),
        (Prune("default"), False),
        (Lease("upkeep", "a", NOW, NOW), False),
    ],
)
def test_what_is_about_more_than_its_own_memories_is_done_alone(change, is_shared):
    assert shareable([Add(stored(2)), change]) == is_shared


def test_who_waits_too_long_is_told_and_writes_nothing(store):
    with store._writing, patch.object(store, "_busy_timeout", 0.01), pytest.raises(BusyError, match="another thread"):
        add(store, stored(2))
    assert listed(store) == [1]
    assert len(store._writing) == 0


def test_only_the_equally_patient_are_done_together():
    waits, led = Turns(), []

    def lead(pieces):
        led.append(sorted(piece.patience for piece in pieces))
        for piece in pieces:
            piece.end(piece.work())

    works = [lambda seconds=seconds: waits.together(int, seconds, lead) for seconds in (10.0, 20.0, 10.0, 20.0)]
    assert together(waits, works) == [0] * 4
    assert sorted(led) == [[10.0, 10.0], [20.0, 20.0]]


def test_no_more_than_so_many_are_done_together(monkeypatch):
    monkeypatch.setattr(turns, "MOST", 2)
    waits, led = Turns(), []

    def lead(pieces):
        led.append(len(pieces))
        for piece in pieces:
            piece.end(piece.work())

    assert together(waits, [lambda: waits.together(int, PATIENCE, lead)] * 5) == [0] * 5
    assert sorted(led) == [1, 2, 2]


def test_a_leader_that_is_interrupted_leaves_nobody_waiting():
    waits = Turns()

    def lead(pieces):
        raise KeyboardInterrupt

    def interrupted():
        try:
            return waits.together(int, PATIENCE, lead)
        except KeyboardInterrupt:
            return "interrupted"

    first, second = sorted(map(repr, together(waits, [interrupted] * 2)))
    assert first == "'interrupted'"
    assert second in (repr(OutOfTime()), "'interrupted'")
    assert not waits.locked()


def test_one_write_of_many_memories_is_one_commit(tmp_path):
    with salience.connect(tmp_path / "memory.db", embedder=PlantedEmbedder()) as engine:
        engine.remember("the first one pins the store")
        seen = []
        driver = engine.services.store._writer.connection.driver_connection
        driver.set_trace_callback(lambda statement: statement == "COMMIT" and seen.append(statement))
        engine.remember("a fact that stands alone")
        assert len(seen) == 1
        engine.remember_many([{"content": f"memory {n}"} for n in range(50)])
        assert len(seen) == 2
        engine.ingest([{"role": "user", "content": f"turn {n}"} for n in range(20)], session_id="s")
        assert len(seen) == 3
