"""Touches are queued, written together in order, retried after a failure, and flushed before counters are read."""

import subprocess
import sys
import threading
import weakref
from contextlib import closing
from datetime import timedelta

import pytest

import salience
from salience import access_log
from salience.access_log import AccessLog, flush_all
from salience.errors import BusyError, StoreError
from salience.loading import uncollected
from salience.ports import Touch
from salience.records import Scope
from salience.store.pins import Meta
from salience.store.sqlite import SQLiteStore
from tests.contract.doubles import PlantedEmbedder
from tests.contract.memories import DIMENSION, EVERYTHING, NOW, add, id_of, stored
from waiting import PATIENCE


class RecordingStore:
    """Records transactions, and fails for chosen tenants."""

    def __init__(self):
        self.transactions, self.errors, self.written = [], {}, threading.Event()

    def apply(self, changes, *, counted=False):
        error = self.errors.get(changes[0].scope.tenant)
        if error is not None:
            raise error
        self.transactions.append([(change.scope.tenant, *change.ids) for change in changes])
        self.written.set()
        return []


def touch(*names, tenant="default", **fields):
    return Touch(Scope(tenant, **fields), names, access_count=1)


@pytest.fixture
def store():
    return RecordingStore()


@pytest.fixture
def log(store, monkeypatch):
    """A log whose thread writes nothing."""
    monkeypatch.setattr(AccessLog, "_write_queue", lambda self: None)
    return AccessLog(store)


def test_each_tenants_touches_are_one_transaction_in_order(store, log):
    for name, tenant in [("a", "x"), ("b", "x"), ("c", "y"), ("a", "x")]:
        assert log.add(touch(name, tenant=tenant))
    assert store.transactions == []
    assert log.flush()
    assert store.transactions == [[("x", "a"), ("x", "b"), ("x", "a")], [("y", "c")]]
    assert len(log) == 0


def test_a_tenant_whose_touches_the_store_does_not_answer_keeps_no_other_waiting(store, log, monkeypatch):
    begun, over, apply = threading.Event(), threading.Event(), store.apply

    def answer(changes):
        if changes[0].scope.tenant == "sick":
            begun.set()
            over.wait(PATIENCE)
        return apply(changes)

    monkeypatch.setattr(store, "apply", answer)
    log.add(touch("a", tenant="sick"))
    log.add(touch("b", tenant="well"))
    writing = threading.Thread(target=log.flush)
    writing.start()
    assert begun.wait(PATIENCE)
    assert log.flush(tenant="well")
    assert store.transactions == [[("well", "b")]]
    over.set()
    writing.join()
    assert store.transactions == [[("well", "b")], [("sick", "a")]]
    assert len(log) == 0


def test_a_flush_for_columns_writes_only_if_a_touch_changes_one_of_them(store, log):
    log.add(touch("a"))
    assert log.flush({"importance", "accessed_at", "turns_since_activation"})
    assert len(log) == 1
    assert log.flush({"access_count"})
    assert len(log) == 0
    log.add(touch("a", session_id="s"))
    log.flush({"turns_since_activation"})
    assert len(log) == 0


def test_the_thread_writes_after_a_while(store):
    log = AccessLog(store, linger=0.0)
    for _ in range(2):
        log.add(touch("a"))
        assert store.written.wait(PATIENCE)
        store.written.clear()
    assert sum(map(len, store.transactions)) == 2


def test_a_full_batch_is_written_at_once(store, monkeypatch):
    monkeypatch.setattr(access_log, "BATCH", 3)
    log = AccessLog(store, linger=PATIENCE * 10)
    for name in "abc":
        log.add(touch(name))
    assert store.written.wait(PATIENCE)
    assert store.transactions == [[("default", "a"), ("default", "b"), ("default", "c")]]


def test_a_failed_touch_is_kept_and_retried(store, log):
    log.add(touch("a", tenant="x"))
    log.add(touch("b", tenant="y"))
    store.errors["x"] = BusyError("busy")
    assert not log.flush()
    assert store.transactions == [[("y", "b")]]
    assert not log.add(touch("c", tenant="x"))
    store.errors.clear()
    assert log.flush()
    assert store.transactions[1:] == [[("x", "a"), ("x", "c")]]
    assert log.add(touch("d"))


def test_failures_are_retried_by_the_thread(store, monkeypatch):
    monkeypatch.setattr(access_log, "RETRY", 0.01)
    store.errors["default"] = StoreError("full")
    log = AccessLog(store, linger=0.0)
    log.add(touch("a"))
    assert not log.flush()
    store.errors.clear()
    assert store.written.wait(PATIENCE)


def test_the_queue_is_bounded_after_failures(store, log, monkeypatch):
    monkeypatch.setattr(access_log, "LIMIT", 2)
    store.errors["default"] = StoreError("full")
    for name in "abc":
        log.add(touch(name))
    log.flush()
    store.errors.clear()
    log.flush()
    assert store.transactions == [[("default", "b"), ("default", "c")]]


def test_a_touch_is_written_at_once_if_no_thread_can_start(store, monkeypatch):
    def fail(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    AccessLog(store).add(touch("a"))
    assert store.transactions == [[("default", "a")]]


def test_close_writes_the_queue_and_takes_no_more(store, log):
    log.add(touch("a"))
    log.close()
    assert store.transactions == [[("default", "a")]]
    assert not log.add(touch("b"))
    assert len(log) == 0


def test_a_closed_store_leaves_neither_its_model_nor_a_thread(monkeypatch):
    """Whoever opens a store for each request would hold a model of 120 MB for each."""
    monkeypatch.setattr(access_log, "IDLE", 2 * PATIENCE)
    embedder, others = PlantedEmbedder(), set(threading.enumerate())
    model = weakref.ref(embedder)
    with uncollected():
        with salience.connect(":memory:", embedder=embedder) as memory:
            memory.remember("A model is large", user_id="u")
            memory.recall("a large model", user_id="u")
            started = {one for one in threading.enumerate() if one.name == "salience-access-log"} - others
        assert started
        for thread in started:
            thread.join(PATIENCE)
            assert not thread.is_alive()
        del memory, embedder
        assert model() is None


def sequence(store):
    with store._transaction() as reader:
        return Meta.read(reader).sequence


def test_touches_of_many_recalls_are_one_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(AccessLog, "_write_queue", lambda self: None)
    file = SQLiteStore.open(tmp_path / "memory.db", embedder="e", dimension=DIMENSION, language="none", busy_timeout=5)
    with closing(file):
        add(file, stored(1), stored(2))
        before, log = sequence(file), AccessLog(file)
        for at in range(20):
            hits = (id_of(1), id_of(2))
            log.add(Touch(Scope(), hits, access_count=1, at=NOW + timedelta(hours=at)))
        log.flush()
        assert sequence(file) == before + 1
        assert [one.memory.access_count for one in file.scan(EVERYTHING)] == [20, 20]


@pytest.fixture
def memory(tmp_path, monkeypatch):
    monkeypatch.setattr(AccessLog, "_write_queue", lambda self: None)
    with salience.connect(tmp_path / "memory.db", embedder=PlantedEmbedder({"text": 0.9})) as memory:
        yield memory


READS = {
    "get": lambda memory, id: memory.get(id).access_count,
    "list": lambda memory, id: memory.list().memories[0].access_count,
    "history": lambda memory, id: memory.history(id)[-1].memory.access_count,
    "update": lambda memory, id: memory.update(id, weight=0.5).memory.access_count,
}


@pytest.mark.parametrize("verb", READS)
def test_verbs_that_show_counters_flush_first(memory, verb):
    id = memory.remember("text").memory.id
    memory.recall("query")
    assert READS[verb](memory, id) == 1


def test_recalls_and_writes_of_new_memories_do_not_wait_for_the_log(memory):
    memory.remember("text")
    for _ in range(3):
        assert memory.recall("query")[0].memory.access_count == 0  # as last written
    memory.remember("another text")
    assert len(memory.services.access_log) == 3
    memory.recall("query", profile="zeromemory")  # ranks by counters
    assert len(memory.services.access_log) == 1


def test_a_new_memory_of_a_session_comes_after_its_recalls(memory):
    memory.remember("text")
    memory.recall("query", session_id="s")
    assert memory.remember("more", session_id="s").memory.turn == 2


PROGRAM = """
import os, sys
import salience
from tests.contract.doubles import PlantedEmbedder
memory = salience.connect(sys.argv[1], embedder=PlantedEmbedder({"text": 0.9}))
memory.remember("text")
memory.recall("query")
if sys.argv[2] == "fork":
    child = os.fork()
    if child == 0:
        from salience.access_log import flush_all
        os._exit(0 if flush_all() else 1)  # the parent writes its own queue
    assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["end", "fork"])
def test_a_process_that_ends_without_closing_loses_nothing(tmp_path, how):
    path = tmp_path / "memory.db"
    subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM, str(path), how], check=True, timeout=PATIENCE)
    with salience.connect(path, embedder=PlantedEmbedder({"text": 0.9})) as memory:
        assert [found.access_count for found in memory.list().memories] == [1]


def test_all_queues_of_a_process_are_flushed_together(log, store):
    other = RecordingStore()
    second = AccessLog(other)
    log.add(touch("a"))
    second.add(touch("a"))
    flush_all()
    assert store.transactions == other.transactions == [[("default", "a")]]


UNCLOSED = """
import os, sys
import salience
from tests.contract.doubles import PlantedEmbedder
memory = salience.connect(sys.argv[1], embedder=PlantedEmbedder())
memory.remember("one")
child = os.fork()
if child == 0:
    sys.exit(0)  # its end releases nothing of its parent's
os.waitpid(child, 0)
memory.remember("two")
memory.recall("one", min_score=0.0)
"""


@pytest.mark.slow
def test_a_store_that_nobody_closed_is_one_file_when_the_process_has_ended(tmp_path):
    subprocess.run([sys.executable, "-c", UNCLOSED, tmp_path / "agent.db"], check=True)
    assert [file.name for file in tmp_path.iterdir()] == ["agent.db"]
    with salience.connect(tmp_path / "agent.db", embedder=PlantedEmbedder()) as memory:
        assert [(one.content, one.access_count) for one in memory.list()] == [("one", 1), ("two", 1)]
        assert memory.doctor().healthy
