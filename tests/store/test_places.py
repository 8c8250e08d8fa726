"""Where vectors lie: answers are the same bit for bit, and a file of vectors is nobody else's and leaves nothing."""

import errno
import os
import stat

import numpy as np
import pytest

from salience import StoreError
from salience.batch import COLUMNS
from salience.records import Scope
from salience.store import places
from salience.store.places import InMemory, OnDisk
from salience.store.sqlite import SQLiteStore
from salience.testing.memories import DIMENSION, add, need, random_unit, stored

COUNT = 300


@pytest.fixture
def opened(tmp_path):
    stores = []

    def open_(arena):
        stores.append(
            SQLiteStore.open(
                tmp_path / "memory.db",
                embedder="e",
                dimension=DIMENSION,
                language="english",
                busy_timeout=5,
                arena=arena,
            )
        )
        return stores[-1]

    yield open_
    for store in stores:
        store.close()


def filling(number, **values):
    session = f"s{number % 7}" if number % 3 else None
    vector = None if number % 11 == 0 else random_unit(number)
    return stored(number, session_id=session, vector=vector, entities=("Ann",) * (number % 2), **values)


def answer(store):
    asked = need(vector=random_unit(9999), columns=frozenset(COLUMNS), terms=("memory",), vectors=True, windows=True)
    batch = store.gather(asked)
    vectors = batch.vectors.at(np.arange(len(batch)))
    return batch.ids.tolist(), {name: column.tobytes() for name, column in batch.columns.items()}, vectors.tobytes()


def test_answers_are_the_same_bit_for_bit(opened):
    kept, mapped = opened("memory"), opened("mapped")
    for first in range(0, COUNT, 100):  # filled, then grown past its room
        add(kept, *(filling(number) for number in range(first, first + 100)))
        assert answer(mapped) == answer(kept)


def test_an_array_on_disk_holds_what_is_written_after_it_settles(tmp_path):
    place = OnDisk(tmp_path)
    array = place.empty((100, DIMENSION), np.dtype(np.float32))
    array[:] = np.arange(100)[:, None]
    place.settle()
    assert (array == np.arange(100)[:, None]).all()


def test_its_file_has_no_name_and_is_for_its_owner_alone(tmp_path, monkeypatch):
    modes = []
    reserve = places._reserve
    monkeypatch.setattr(
        places, "_reserve", lambda file, size: (modes.append(os.fstat(file).st_mode), reserve(file, size))
    )
    array = OnDisk(tmp_path).empty((4, 4), np.dtype(np.float32))
    assert [stat.S_IMODE(mode) for mode in modes] == [0o600]
    assert list(tmp_path.iterdir()) == []
    assert array.flags.writeable


def test_a_full_disk_is_told_before_anything_is_written(tmp_path, monkeypatch):
    def full(file, size):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(places, "_reserve", full)
    with pytest.raises(StoreError, match=r"No space left.*SALIENCE_ARENA=memory"):
        OnDisk(tmp_path).empty((4, 4), np.dtype(np.float32))


@pytest.mark.parametrize("place", [InMemory, OnDisk])
def test_no_vectors_take_no_file(place, tmp_path):
    assert place(tmp_path).empty((0, 8), np.dtype(np.float32)).shape == (0, 8)


def test_an_erased_memory_leaves_the_place_of_vectors(opened):
    store = opened("mapped")
    add(store, *(filling(number) for number in range(5)))
    answer(store)
    store._wipe()
    assert len(store._arenas._place._mappings) == 0
    assert store.gather(need(scope=Scope())).ids.size == 5
