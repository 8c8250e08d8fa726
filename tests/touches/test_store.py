"""Within a process nobody can tell that touches wait; what is lost with a kill alone is what nobody could have seen."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from threading import Thread
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from salience.access_log import TouchedStore, Touches
from salience.errors import StoreError
from salience.ports import Revise, Touch
from salience.records import Scope
from salience.store import opening
from salience.store.memory import MemoryStore
from salience.store.sqlite import SQLiteStore
from salience.testing.comparing import shown
from salience.testing.memories import DIMENSION, EVERYTHING, NOW, add, id_of, memory, need, stored

IDS = tuple(map(id_of, range(1, 5)))
HOUR = timedelta(hours=1)


def never(_):
    """Nothing is written in the background."""


def in_memory(_):
    return MemoryStore("e", DIMENSION)


def in_a_file(folder):
    return SQLiteStore.open(folder / "memory.db", embedder="e", dimension=DIMENSION, language="none", busy_timeout=5)


touches = st.builds(
    lambda ids, at, count, importance, accessed, session, activate, tenant: Touch(
        Scope(tenant=tenant, session_id=session),
        tuple(ids),
        accessed_at=NOW + at * HOUR if accessed else None,
        access_count=count,
        importance=importance,
        activate=activate,
        at=NOW + at * HOUR,
    ),
    st.lists(st.sampled_from(IDS), max_size=5),
    st.integers(1, 6),
    st.integers(0, 2),
    st.sampled_from([0.0, 0.05, 0.3]),
    st.booleans(),
    st.sampled_from([None, "s", "t"]),
    st.booleans(),
    st.sampled_from(["default", "default", "other"]),
)
changes = st.one_of(
    st.builds(lambda touch: ("touch", touch), touches),
    st.builds(lambda touch: ("touch", touch), touches),
    st.tuples(st.sampled_from(["update", "raise", "forget"]), st.sampled_from([1, 2, 3, 4])),
    st.tuples(st.just("add"), st.sampled_from([None, "s", "t"])),
    st.tuples(st.just("again"), st.sampled_from([1, 2])),
    st.tuples(st.just("settle"), st.none()),
    st.tuples(st.just("read"), st.sampled_from(["fetch", "keyed", "scan", "history", "gather", "few", "then"])),
)


def read(store, how):
    """Return what a read shows, in a form that can be compared."""
    seen = replace(EVERYTHING, environment="default", session_id="s")
    return {
        "fetch": lambda: store.fetch(seen, IDS),
        "keyed": lambda: sorted(store.keyed(Scope(), ["k"]), key=lambda found: found.id),
        "scan": lambda: [(one.memory, dict(one.activations)) for one in store.scan(seen, forgotten=True)],
        "history": lambda: [one.memory for one in store.history(seen, IDS[0])],
        "gather": lambda: shown(store.gather(need(seen))),
        "few": lambda: shown(store.gather(need(seen, columns=frozenset({"importance", "weight"})))),
        "then": lambda: [store.fetch(seen, IDS, as_of=NOW + hours * HOUR) for hours in range(8)],
    }[how]()


def done(store, what, of, number):
    """Do one thing, and return what was told of it."""
    if what == "touch":
        return store.apply([of])
    if what == "settle":
        return None if isinstance(store, MemoryStore | SQLiteStore) else store.settle() and None
    if what == "add":
        return add(store, stored(number, session_id=of, changed_at=NOW))
    if what == "again":
        return add(store, stored(100 + of, content=f"memory {of}", key="k") if of == 1 else stored(of))
    if what == "read":
        return read(store, of)
    (current,) = [one.memory for one in store.history(EVERYTHING, id_of(of))[-1:]]
    fields = {"update": {"weight": 0.5}, "raise": {"importance": 0.9}, "forget": {"forgotten_at": NOW}}[what]
    return store.apply([Revise(current.changed("update", NOW + 2 * HOUR, **fields), sets_importance=what == "raise")])


def same(plain, waiting, script):
    """Hold what two stores tell of the same things against each other, and how they end."""
    for store in (plain, waiting):
        add(store, stored(1, key="k"), stored(2), stored(3, session_id="s"), stored(4, tenant="other"))
    script = [each for each in script if each[1] != 4 or each[0] not in ("update", "raise", "forget")]
    for number, (what, of) in enumerate(script, 10):
        assert done(plain, what, of, number) == done(waiting, what, of, number), (what, of)
    for how in ("fetch", "scan", "gather", "then"):
        assert read(plain, how) == read(waiting, how)


@given(st.lists(changes, max_size=20))
def test_nobody_can_tell_that_touches_wait(script):
    same(in_memory(None), TouchedStore(in_memory(None), Touches(never)), script)


@settings(max_examples=15, deadline=None)
@given(st.lists(changes, max_size=12))
def test_nobody_can_tell_on_a_file(tmp_path_factory, script):
    with (
        closing(in_a_file(tmp_path_factory.mktemp("plain"))) as plain,
        closing(TouchedStore(in_a_file(tmp_path_factory.mktemp("waiting")), Touches(never))) as waiting,
    ):
        same(plain, waiting, script)


@pytest.fixture
def file(tmp_path):
    with closing(in_a_file(tmp_path)) as plain:
        yield plain


def counts(store):
    return [one.memory.access_count for one in store.scan(EVERYTHING)]


def test_touches_of_many_recalls_are_one_transaction(file):
    add(file, stored(1), stored(2))
    statements = []
    file._writer.connection.driver_connection.set_trace_callback(statements.append)
    store = TouchedStore(file, Touches(never))
    for at in range(20):
        store.apply([Touch(Scope(), IDS[:2], access_count=1, at=NOW + at * HOUR)])
    assert statements == []
    assert counts(store) == [20, 20]
    assert statements.count("COMMIT") == 1


def test_a_read_of_what_no_touch_moves_writes_nothing(file):
    add(file, stored(1))
    store = TouchedStore(file, Touches(never))
    store.apply([Touch(Scope(), IDS[:1], access_count=1, at=NOW)])
    store.gather(need(columns=frozenset({"importance", "created_at"})))
    assert [found.access_count for found in store.fetch(EVERYTHING, IDS[:1])] == [1]
    add(store, stored(9))
    assert counts(file) == [0, 0]
    store.gather(need(columns=frozenset({"access_count"})))
    assert counts(file) == [1, 0]


def test_a_turn_waits_for_the_touches_of_its_own_session_alone(file):
    add(file, stored(1))
    store = TouchedStore(file, Touches(never))
    store.apply([Touch(Scope(), IDS[:1], access_count=1, at=NOW)])
    store.apply([Touch(Scope(session_id="t"), IDS[:1], access_count=1, at=NOW)])
    assert [receipt.memory.turn for receipt in add(store, stored(7, session_id="s"))] == [1]
    assert counts(file) == [0, 0]
    assert [receipt.memory.turn for receipt in add(store, stored(8, session_id="t"))] == [2]
    assert counts(file) == [2, 0, 0]


@pytest.fixture
def committed(file, monkeypatch):
    """Return a store, what has it write its touches with something done instead of the commit, and the commit."""
    add(file, stored(1))
    store, direct = TouchedStore(file, Touches(never)), file._writes.direct
    commit = direct._commit

    def written(instead):
        with monkeypatch.context() as patched:
            patched.setattr(direct, "_commit", instead)
            assert store.settle()

    return store, written, commit


def touched(store):
    store.apply([Touch(Scope(), IDS[:1], access_count=1, at=NOW)])


def count_of(store):
    return [found.access_count for found in store.fetch(EVERYTHING, IDS[:1])]


def test_a_read_waits_for_no_write_of_touches(committed):
    """Whoever writes holds the lock that a read would wait for, and would wait here for ever."""
    store, written, commit = committed
    seen = []

    def reading():
        seen.append(count_of(store))
        touched(store)
        seen.append(count_of(store))
        commit()
        seen.append(count_of(store))

    touched(store)
    written(reading)
    assert seen == [[1], [2], [2]]
    assert (count_of(store), counts(store)) == ([2], [2])


def test_a_read_that_meets_the_commit_counts_a_touch_once(committed):
    store, written, commit = committed
    seen, left = [], [commit]

    def read():
        found = store.store.fetch(EVERYTHING, IDS[:1])
        while left:
            left.pop()()
        return found

    touched(store)
    written(lambda: seen.extend(store._touches.shown(read)))
    assert [found.access_count for found in seen] == [1]


def test_what_the_log_holds_is_moved_into_the_file(file, tmp_path):
    add(file, stored(1))
    (path,) = tmp_path.glob("*.db")
    content = file.fetch(EVERYTHING, IDS[:1])[0].content.encode()
    assert content not in path.read_bytes()
    file.tidy()
    assert content in path.read_bytes()
    path.rename(tmp_path / "elsewhere")
    file.tidy()  # which fails without a word
    assert not path.exists()


def test_a_store_that_is_closed_is_one_file(tmp_path, monkeypatch):
    store = in_a_file(tmp_path)
    add(store, stored(1))
    connect, left = sqlite3.connect, []
    closing_it = Thread(target=lambda: left.extend([store.close(), *tmp_path.iterdir()][1:]))

    def connected(*place, **options):
        own = connect(*place, **options)
        own.execute("SELECT * FROM sqlite_master").fetchall()  # from now on it has the log open
        closing_it.start()
        closing_it.join(0.1)  # who closes meanwhile has to wait
        return own

    monkeypatch.setattr(opening, "sqlite3", SimpleNamespace(**{**vars(sqlite3), "connect": connected}))
    store.tidy()
    closing_it.join()
    assert [path.name for path in left] == ["memory.db"]


def test_closing_writes_what_waits(tmp_path):
    store = TouchedStore(in_a_file(tmp_path), Touches(never))
    add(store, stored(1))
    store.apply([Touch(Scope(), IDS[:1], access_count=1, at=NOW)])
    store.close()
    with pytest.raises(StoreError, match="is closed"):
        store.apply([Touch(Scope(), IDS[:1], access_count=1)])
    with closing(in_a_file(tmp_path)) as again:
        assert counts(again) == [1]


def test_handles_of_one_store_see_each_others_touches(file):
    add(file, stored(1))
    shared = Touches(never)
    one, other = TouchedStore(file, shared), TouchedStore(file, shared)
    one.apply([Touch(Scope(), IDS[:1], access_count=1, at=NOW)])
    assert [found.access_count for found in other.fetch(EVERYTHING, IDS[:1])] == [1]
    assert counts(other) == [1]


def test_what_a_store_has_beside_its_port_is_there(file):
    assert TouchedStore(file, Touches(never))._writer is file._writer


def test_a_revision_meets_what_was_touched_before_it(file):
    store = TouchedStore(file, Touches(never))
    add(store, stored(1, importance=0.5))
    store.apply([Touch(Scope(), IDS[:1], importance=0.2, at=NOW)])
    store.apply([Revise(memory(1, importance=0.5).changed("update", NOW, importance=0.1), sets_importance=True)])
    assert [one.memory.importance for one in store.history(EVERYTHING, IDS[0])] == [0.7, 0.1]
