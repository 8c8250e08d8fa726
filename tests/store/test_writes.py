"""Writes to a file: whole or not at all, one at a time, many in one commit."""

import threading

import pytest

from salience.errors import BusyError, ConflictError
from salience.store.pins import Meta
from salience.store.sqlite import SQLiteStore
from tests.contract.memories import DIMENSION, EVERYTHING, add, id_of, listed, random_unit, stored


@pytest.fixture
def store(tmp_path):
    store = SQLiteStore.open(tmp_path / "a.db", embedder="e", dimension=DIMENSION, language="none", busy_timeout=0.2)
    yield store
    store.close()


@pytest.mark.parametrize("count", [1, 2, 399, 1001])
def test_any_number_of_rows_is_stored_whole_and_in_order(store, count):
    receipts = add(store, *(stored(number, random_unit(number)) for number in range(count)))
    assert [receipt.memory.id for receipt in receipts] == [id_of(number) for number in range(count)]
    assert len(store.scan(EVERYTHING, limit=2000)) == count


def test_a_key_that_is_taken_amid_many_leaves_none(store):
    rows = [stored(number, key="same" if number in (3, 700) else None) for number in range(900)]
    with pytest.raises(ConflictError):
        add(store, *rows)
    assert listed(store) == []


def sequence(store):
    with store._transaction() as reader:
        return Meta.read(reader).sequence


def test_one_write_of_many_memories_is_one_commit(store, tmp_path):
    other = SQLiteStore.open(tmp_path / "a.db", embedder="e", dimension=DIMENSION, language="none", busy_timeout=1)
    before = sequence(other)
    add(store, *(stored(number) for number in range(50)))
    assert sequence(other) == before + 1
    other.close()


def test_a_write_that_waits_too_long_for_another_thread_is_refused(store):
    began, end = threading.Event(), threading.Event()

    def work():
        with store._write(5):
            began.set()
            end.wait()

    thread = threading.Thread(target=work)
    thread.start()
    began.wait()
    with pytest.raises(BusyError, match="another thread kept writing"):
        add(store, stored(1))
    end.set()
    thread.join()
    assert listed(store) == []
    add(store, stored(1))


def test_threads_that_write_at_once_each_write_all(tmp_path):
    store = SQLiteStore.open(tmp_path / "b.db", embedder="e", dimension=DIMENSION, language="none", busy_timeout=30)
    threads = [threading.Thread(target=add, args=(store, stored(number))) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert listed(store) == list(range(12))
    store.close()
