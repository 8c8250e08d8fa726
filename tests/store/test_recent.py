"""What is fetched again is what its row holds, whoever wrote to it, and is read no more often than it has to be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from salience.errors import StoreError
from salience.ports import Erase, Need, Revise, Touch
from salience.records import ANY, Scope
from salience.store import cached, recent
from salience.store.recent import Recent
from salience.store.sqlite import SQLiteStore
from salience.testing.memories import DIMENSION, EVERYTHING, NOW, add, id_of, stored

COUNT = 4
IDS = [id_of(number) for number in range(1, COUNT + 1)]
TENANTS = ("default", "other")
Change = tuple[str, int, int]


def opened(path: Path) -> SQLiteStore:
    return SQLiteStore.open(path, embedder="e", dimension=DIMENSION, language="english", busy_timeout=5.0)


def look(store: SQLiteStore, tenant: str = "default") -> None:
    """Have the store read what was written, as a recall does before it fetches."""
    store.gather(Need(scope=replace(EVERYTHING, tenant=tenant), now=NOW, columns=frozenset({"importance"})))


def touched(*numbers: int, tenant: str = "default", seconds: int = 1, **more: Any) -> Touch:
    moment = {"accessed_at": NOW + timedelta(seconds=seconds), "access_count": 1, "at": NOW}
    return Touch(Scope(tenant), tuple(map(id_of, numbers)), **{**moment, **more})


@pytest.fixture
def file(tmp_path: Path) -> Iterator[SQLiteStore]:
    store = opened(tmp_path / "a.db")
    for number in range(1, COUNT + 1):
        add(store, stored(number))
    look(store)
    yield store
    store.close()


@pytest.fixture
def read(file: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """Return the ids that are read from the file, by each statement."""
    times, really = list[Sequence[str]](), file._arenas._read
    monkeypatch.setattr(file._arenas, "_read", lambda scope, ids: times.append(ids) or really(scope, ids))
    return times


def test_what_was_fetched_is_not_read_again(file, read):
    first = file.fetch(EVERYTHING, IDS)
    assert file.fetch(EVERYTHING, [IDS[2], IDS[0], IDS[2]]) == [first[2], first[0], first[2]]
    assert read == [IDS]


def test_only_what_is_not_at_hand_is_read(file, read):
    file.fetch(EVERYTHING, IDS[:2])
    assert [memory.id for memory in file.fetch(EVERYTHING, [IDS[3], IDS[0], "f" * 32])] == [IDS[3], IDS[0]]
    assert read == [IDS[:2], [IDS[3], "f" * 32]]


def test_no_row_is_read_again_for_own_touches(file, read):
    (before,) = file.fetch(EVERYTHING, IDS[:1])
    for seconds in (1, 3, 5):
        file.apply([touched(1, 2, seconds=seconds), touched(1, tenant="other")])
        look(file)
    assert file.fetch(EVERYTHING, IDS[:1]) == [
        replace(before, access_count=3, accessed_at=NOW + timedelta(seconds=5)),
    ]
    assert read == [IDS[:1]]


def test_what_is_at_hand_is_for_those_who_see_it(tmp_path, file, read):
    add(file, stored(7, user_id="alice"))
    look(file)
    alice = file.fetch(Scope(user_id="alice"), [id_of(7)])
    assert len(alice) == 1
    assert file.fetch(Scope(user_id="bob"), [id_of(7)]) == []
    assert file.fetch(Scope("other", user_id=ANY), [id_of(7)]) == []
    assert read == [[id_of(7)], [id_of(7)]]  # of the other tenant, nothing is at hand


def test_what_was_written_meanwhile_is_of_one_state_with_the_rest(tmp_path, file, monkeypatch):
    file.fetch(EVERYTHING, IDS[:1])
    other, really, written = opened(tmp_path / "a.db"), file._arenas._read, list[str]()

    def read(scope: Scope, ids: Sequence[str]) -> Any:
        if not written:
            written.append("once")
            other.apply([touched(1, 2)])
        return really(scope, ids)

    monkeypatch.setattr(file._arenas, "_read", read)
    assert [memory.access_count for memory in file.fetch(EVERYTHING, IDS[:2])] == [1, 1]
    look(file)
    assert [memory.access_count for memory in file.fetch(EVERYTHING, IDS[:2])] == [1, 1]
    other.close()


def test_what_was_erased_is_not_at_hand(file):
    file.fetch(EVERYTHING, IDS)
    held = file._arenas._cached["default"].recent
    file.apply([Erase("default", (IDS[0],))])
    assert file._arenas._cached == {}
    look(file)
    assert file._arenas._cached["default"].recent is not held
    assert [memory.id for memory in file.fetch(EVERYTHING, IDS)] == IDS[1:]


@pytest.mark.parametrize("most", [0, 1, 3])
def test_those_that_were_asked_for_last_are_kept(monkeypatch, most):
    monkeypatch.setattr(recent, "MOST", most)
    held = Recent()
    held.keep(stored(number).memory for number in (1, 2, 3))
    held.of([IDS[0]])
    held.keep([stored(4).memory])
    assert list(held.of(IDS)) == [IDS[place] for place in (0, 2, 3)][3 - most :]


def test_long_ones_are_not_kept(monkeypatch):
    monkeypatch.setattr(recent, "LONGEST", 3)
    held = Recent()
    held.keep([stored(1, content="four").memory, stored(2, content="two").memory])
    assert list(held.of(IDS)) == [IDS[1]]


def test_a_memory_read_anew_has_its_touches_already():
    held = Recent()
    held.keep([stored(1).memory])
    held.touched([touched(1)])
    held.keep([stored(1, access_count=1).memory])
    assert held.of(IDS[:1])[IDS[0]].access_count == 1


changes = st.tuples(
    st.sampled_from(["touch", "early", "raise", "other tenant", "revise", "add", "forget"]),
    st.integers(0, 1),
    st.integers(1, COUNT),
)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(changes, st.booleans(), st.lists(st.sampled_from(IDS), max_size=5)), max_size=12))
def test_what_is_fetched_is_what_a_store_reads_that_has_nothing_at_hand(tmp_path_factory, steps):
    path = tmp_path_factory.mktemp("files") / "a.db"
    stores, plain = (opened(path), opened(path)), opened(path)
    for tenant in TENANTS:
        for number in range(1, COUNT + 1):
            add(plain, stored(number, scope=Scope(tenant)))
    for (what, by, number), looks, ids in steps:
        _change(stores[by], plain, what, number)
        for store in stores:
            if looks:
                look(store)
            for tenant in TENANTS:
                scope = replace(EVERYTHING, tenant=tenant)
                assert store.fetch(scope, ids) == plain.fetch(scope, ids)
    for store in (*stores, plain):
        store.close()


def _change(store: SQLiteStore, plain: SQLiteStore, what: str, number: int) -> None:
    if what == "touch":
        store.apply([touched(number, 1, seconds=number), touched(number, seconds=9)])
    elif what == "early":
        store.apply([touched(number, seconds=-number)])
    elif what == "raise":
        store.apply([touched(number, importance=0.1)])
    elif what == "other tenant":
        store.apply([touched(number, tenant="other"), touched(number)])
    elif what == "add":
        add(store, stored(10 + number))
    else:
        for memory in plain.fetch(EVERYTHING, [id_of(number)]):
            gone = {"forgotten_at": NOW} if what == "forget" else {"content": f"{what} {memory.version}"}
            store.apply([Revise(memory.changed("update", NOW, **gone))])


def test_what_is_known_of_touches_is_bounded(file):
    for _ in range(cached.TOLD + 3):
        file.apply([touched(1)])
    look(file)
    assert [memory.access_count for memory in file.fetch(EVERYTHING, IDS[:1])] == [cached.TOLD + 3]


def test_how_far_the_writes_are_is_read_again_once_something_was_written(tmp_path, file):
    other, seen = opened(tmp_path / "a.db"), [file.reached(), file.reached()]
    for store in (file, other):
        store.apply([touched(1)])
        seen.append(file.reached())
    assert seen == [seen[0], seen[0], seen[0] + 1, seen[0] + 2]
    other.close()


def test_what_is_at_hand_of_a_file_that_was_moved_is_not_shown(tmp_path, file):
    file.fetch(EVERYTHING, IDS)
    (tmp_path / "a.db").rename(tmp_path / "elsewhere")
    for verb in (lambda: file.fetch(EVERYTHING, IDS), lambda: look(file), lambda: file.apply([touched(1)])):
        with pytest.raises(StoreError, match="was moved"):
            verb()
