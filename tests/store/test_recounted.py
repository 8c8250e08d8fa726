"""Counters that touches of this process move are those of the rows, though the rows are not read again for them."""

from dataclasses import replace
from datetime import timedelta
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from salience.errors import StoreError
from salience.ports import Need, Touch
from salience.records import Scope
from salience.store import filling
from salience.store.recounted import recounted
from salience.store.sqlite import SQLiteStore
from salience.testing.memories import DIMENSION, EVERYTHING, NOW, add, id_of, stored

COUNTERS = frozenset({"access_count", "accessed_at", "importance"})
TENANTS = ("default", "other")


def opened(path):
    return SQLiteStore.open(path, embedder="e", dimension=DIMENSION, language="english", busy_timeout=5.0)


@pytest.fixture
def file(tmp_path):
    store = opened(tmp_path / "a.db")
    yield store
    store.close()


def batch_of(store, tenant="default"):
    return store.gather(Need(scope=replace(EVERYTHING, tenant=tenant), now=NOW, columns=COUNTERS))


def counters(store, tenant="default"):
    batch = batch_of(store, tenant)
    return {name: batch.columns[name].tolist() for name in sorted(COUNTERS)}


def touch(*numbers, seconds=1, count=1, tenant="default", **more):
    return Touch(
        Scope(tenant),
        tuple(map(id_of, numbers)),
        accessed_at=NOW + timedelta(seconds=seconds),
        access_count=count,
        at=NOW,
        **more,
    )


touches = st.lists(
    st.builds(
        touch,
        st.integers(1, 4),
        st.integers(1, 6),
        seconds=st.integers(-5, 20),
        count=st.integers(0, 3),
        tenant=st.sampled_from(TENANTS),
        importance=st.sampled_from([0.0, 0.0, 0.25]),
    ),
    min_size=1,
    max_size=6,
)


def look(store, tenant="default"):
    """Read the arena for something that no touch moves."""
    return store.gather(Need(scope=replace(EVERYTHING, tenant=tenant), now=NOW, columns=frozenset({"weight"})))


@settings(deadline=None, max_examples=120)
@given(
    runs=st.lists(st.tuples(touches, st.sampled_from(["looked at", "counted", "written beside"])), max_size=8),
    most=st.sampled_from([0, 3, 1024]),
)
def test_counters_are_those_of_the_rows(tmp_path_factory, runs, most):
    path = tmp_path_factory.mktemp("files") / "a.db"
    store, other = opened(path), opened(path)
    for tenant in TENANTS:
        for number in range(1, 5):
            add(store, stored(number, scope=Scope(tenant)))
        look(store, tenant)
    with patch("salience.store.cached.LATE", most):
        for number, (run, then) in enumerate(runs, 5):
            store.apply(run)
            for tenant in TENANTS:
                look(store, tenant)
                if then == "counted":
                    assert counters(store, tenant) == counters(other, tenant)
                elif then == "written beside":
                    add(other, stored(number, scope=Scope(tenant)))
        for tenant in TENANTS:
            assert counters(store, tenant) == counters(other, tenant)
    store.close(), other.close()


@pytest.fixture
def read(file, monkeypatch):
    """Return what is noted of each time that rows are read again."""
    for number in (1, 2):
        add(file, stored(number))
    counters(file)
    times, refreshed = [], filling.refreshed
    monkeypatch.setattr(filling, "refreshed", lambda *given: times.append(given) or refreshed(*given))
    return times


def test_no_row_is_read_again_for_own_touches(file, read):
    for seconds in range(3):
        file.apply([touch(1, seconds=seconds), touch(1, 2, seconds=seconds)])
    assert counters(file)["access_count"] == [6, 3]
    assert read == []


def test_counters_are_counted_when_they_are_asked_for(file, read, monkeypatch):
    times = []
    monkeypatch.setattr("salience.store.cached.recounted", lambda *given: times.append(given) or recounted(*given))
    for _ in range(3):
        file.apply([touch(1)])
        look(file)
    assert times == []
    assert counters(file)["access_count"] == [3, 0]
    assert len(times) == 1
    assert counters(file)["access_count"] == [3, 0]
    assert len(times) == 1
    assert read == []


def test_touches_that_wait_to_be_counted_are_bounded(file, monkeypatch):
    add(file, stored(1)), look(file)
    monkeypatch.setattr("salience.store.cached.LATE", 5)
    for _ in range(20):
        file.apply([touch(1)])
        look(file)
        assert len(file._arenas._cached["default"].late) <= 5
    assert counters(file)["access_count"] == [20]


def test_what_another_one_wrote_between_is_read(file, read, tmp_path):
    other = opened(tmp_path / "a.db")
    file.apply([touch(1)])
    add(other, stored(3))
    file.apply([touch(1)])
    assert counters(file)["access_count"] == [2, 0, 0]
    assert len(read) == 1
    other.close()


def test_touches_that_came_to_nothing_are_not_counted(file, read, monkeypatch):
    direct = file._writes.direct

    def fail():
        raise StoreError("full")

    with monkeypatch.context() as patched:
        patched.setattr(direct, "_commit", fail)
        with pytest.raises(StoreError, match="full"):
            file.apply([touch(1)])
    file.apply([touch(2)])
    assert counters(file)["access_count"] == [0, 1]
    np.testing.assert_array_equal(batch_of(file).ids, [id_of(1), id_of(2)])
