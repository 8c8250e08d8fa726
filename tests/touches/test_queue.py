"""What waits is written in its order, together, by whoever comes first; what fails is kept, and told."""

import subprocess
import sys
import threading
from dataclasses import replace

import pytest

import salience
from salience.access_log import TouchedStore, Touches, queue, settle_all
from salience.access_log.queue import queue_of
from salience.errors import BusyError, StoreError
from salience.ports import Touch
from salience.records import Scope, recalled
from salience.store.memory import MemoryStore
from salience.testing.doubles import PlantedEmbedder
from salience.testing.memories import DIMENSION, EVERYTHING, NOW, add, id_of, stored

PATIENCE = 30.0
"""Seconds after which what does not come fails its test."""


class Written:
    """A store that notes what it is given, and refuses tenants; only what the queue needs of one."""

    def __init__(self):
        self.transactions, self.refuses, self.came = [], {}, threading.Event()

    def apply(self, changes, *, counted=False):
        refusal = self.refuses.get(changes[0].scope.tenant)
        if refusal is not None:
            raise refusal
        self.transactions.append([(change.scope.tenant, *change.ids) for change in changes])
        self.came.set()
        return []


def touch(*names, tenant="default"):
    return Touch(Scope(tenant), names, access_count=1)


@pytest.fixture
def started():
    return []


@pytest.fixture
def waiting(started):
    return Touches(started.append)


def test_all_that_waits_is_one_transaction_in_order_for_each_tenant(waiting):
    store = Written()
    for name, tenant in [("a", "x"), ("b", "x"), ("c", "y"), ("a", "x")]:
        waiting.add(store, touch(name, tenant=tenant))
    assert waiting.settle()
    assert store.transactions == [[("x", "a"), ("x", "b")], [("y", "c")], [("x", "a")]]
    assert len(waiting) == 0


def test_one_thread_is_started_at_the_first_touch(waiting, started):
    assert started == []
    for name in "abc":
        waiting.add(Written(), touch(name))
    assert len(started) == 1


def test_touches_are_written_in_the_background():
    store, waiting = Written(), Touches(linger=0.0)
    for _ in range(2):
        waiting.add(store, touch("a"))
        assert store.came.wait(PATIENCE)
        store.came.clear()
    assert sum(map(len, store.transactions)) == 2


def test_a_store_is_tidied_in_the_background_once_touches_are_written():
    class Tidied(Written):
        def tidy(self):
            tidied.append(len(self.transactions))
            done.set()

    tidied, done, store, waiting = [], threading.Event(), Tidied(), Touches(linger=0.0)
    waiting.add(store, touch("a"))
    assert done.wait(PATIENCE)
    assert tidied == [1]


def test_enough_touches_are_waited_for_no_longer(monkeypatch):
    monkeypatch.setattr(queue, "ENOUGH", 3)
    store, waiting = Written(), Touches(linger=PATIENCE * 10)
    for name in "abc":
        waiting.add(store, touch(name))
    assert store.came.wait(PATIENCE)
    assert store.transactions == [[("default", "a"), ("default", "b"), ("default", "c")]]


def test_what_fails_is_kept_told_once_and_written_later(waiting):
    store = Written()
    waiting.add(store, touch("a", tenant="x"))
    waiting.add(store, touch("b", tenant="y"))
    store.refuses["x"] = BusyError("busy")
    assert not waiting.settle()
    assert store.transactions == [[("y", "b")]]
    assert (waiting.failure(), waiting.failure()) == (store.refuses["x"], None)
    assert not waiting.settle()
    store.refuses.clear()
    waiting.add(store, touch("c", tenant="x"))
    assert waiting.settle()
    assert waiting.failure() is None  # nothing was lost in the end
    assert store.transactions[1:] == [[("x", "a"), ("x", "c")]]


def test_no_more_is_kept_than_fits(waiting, monkeypatch):
    monkeypatch.setattr(queue, "KEPT", 2)
    store = Written()
    store.refuses["default"] = StoreError("full")
    for name in "abc":
        waiting.add(store, touch(name))
    waiting.settle()
    assert [waiting.holds("default", name) for name in "abc"] == [False, True, True]


def test_a_recall_says_that_earlier_touches_could_not_be_written(waiting):
    plain = MemoryStore("e", DIMENSION)
    add(plain, stored(1))
    store, refusing = TouchedStore(plain, waiting), Written()
    refusing.refuses["default"] = StoreError("full")
    waiting.add(refusing, touch(id_of(1)))
    waiting.settle()
    with pytest.raises(StoreError, match="full"):
        store.apply([touch(id_of(1))])
    assert [found.access_count for found in store.fetch(EVERYTHING, [id_of(1)])] == [2]  # both are still to come
    refusing.refuses.clear()
    store.apply([touch(id_of(1))])
    assert store.settle()
    assert [one.memory.access_count for one in plain.scan(EVERYTHING)] == [2]


def test_a_memory_that_is_read_while_it_is_written_is_counted_once(waiting):
    """Whether the read sees the write or not."""
    plain = MemoryStore("e", DIMENSION)
    add(plain, stored(1))
    waiting.add(plain, touch(id_of(1)))

    def then_written():
        found = plain.fetch(EVERYTHING, [id_of(1)])
        waiting.settle()
        return found

    assert [found.access_count for found in waiting.shown(then_written)] == [1]


def test_where_no_thread_can_begin_the_touch_is_written_at_once():
    def never(_):
        raise RuntimeError("can't start new thread")

    store = Written()
    Touches(never).add(store, touch("a"))
    assert store.transactions == [[("default", "a")]]


def test_engines_on_one_file_share_a_queue(tmp_path):
    path = tmp_path / "memory.db"
    embedder = PlantedEmbedder({"text": 0.9})
    with salience.connect(path, embedder=embedder) as one, salience.connect(path, embedder=embedder) as other:
        stored = one.remember("text").memory
        one.recall("query")
        assert other.get(stored.id).access_count == 1
    assert queue_of(str(path)) is not queue_of(str(tmp_path / "other.db"))


PROGRAM = """
import os, sys
import salience
from salience.testing.doubles import PlantedEmbedder
memory = salience.connect(sys.argv[1], embedder=PlantedEmbedder({"text": 0.9}))
memory.remember("text")
memory.recall("query")
if sys.argv[2] == "fork":
    child = os.fork()
    if child == 0:
        from salience.access_log import settle_all
        os._exit(0 if settle_all() else 1)  # what waits is the parent's
    assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.parametrize("how", ["end", "fork"])
def test_a_process_that_ends_without_closing_loses_nothing(tmp_path, how):
    path = tmp_path / "memory.db"
    subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM, str(path), how], check=True, timeout=60)
    with salience.connect(path, embedder=PlantedEmbedder({"text": 0.9})) as memory:
        assert [found.access_count for found in memory.list().memories] == [1]


def test_all_queues_of_a_process_are_settled_together():
    stores = [Written(), Written()]
    held = [Touches(lambda _: None) for _ in stores]
    for waiting, store in zip(held, stores, strict=True):
        waiting.add(store, touch("a"))
    settle_all()  # whatever comes of those that other engines of this process left
    assert [len(waiting) for waiting in held] == [0, 0]
    assert [store.transactions for store in stores] == [[[("default", "a")]]] * 2


def test_a_memory_with_other_counters_is_all_else_that_it_was():
    memory = stored(1, tags=("a",), metadata={"b": 1}).memory
    others = {"access_count": 3, "importance": 0.7, "accessed_at": NOW}
    assert recalled(memory, **others) == replace(memory, **others)
    assert recalled(memory, **others).metadata == {"b": 1}
