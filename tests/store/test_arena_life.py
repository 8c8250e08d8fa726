"""An arena over its life: filled, grown, touched and packed, it is the same as one that was made at once."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from salience.batch import COLUMNS, KINDS
from salience.errors import StoreError
from salience.ports import Revise, Touch
from salience.records import Scope
from salience.store import cached, filling, parsed, postings, sql, touched, words
from salience.store.arena import Arena
from salience.store.gather import Activations, gather
from salience.store.ids import Ids, held
from salience.store.ids import told as told_ids
from salience.store.places import InMemory, OnDisk
from salience.store.postings import Index, Numbering
from salience.store.roster import Roster
from salience.store.rows import of_stored
from salience.store.slots import Slots
from salience.store.sql import ARENA
from salience.store.sqlite import SQLiteStore
from salience.testing.memories import DIMENSION, NOW, add, id_of, memory, need, random_unit, stored

FEW = st.integers(0, 15)


def row(number, seq=1, **values):
    made = {**of_stored(stored(number, **values), DIMENSION), "seq": seq}
    return tuple(made[name] for name in ARENA)


def turn(number, version, seq):
    """A memory that says of itself whose it is; every third is of no session."""
    return row(
        number, seq, version=version, user_id=f"u{number % 3}", turn=number % 5, entities=("Ann", "Bob")[: number % 3],
        session_id=f"s{number % 4}" if number % 3 else None, vector=random_unit(100 * number + version),
        supersedes=id_of(number - 1) if number % 4 == 1 else None,
        terms=("memory", str(number), "x" * (number % 12 + 1)),
    )  # fmt: skip


CHANGED = st.lists(st.tuples(FEW, st.sampled_from(["write", "touch", "forget", "pack", "ask"])), max_size=25)


def walked(changes):
    """Return an arena after some changes, and the rows as they stand then."""
    arena, rows, versions = Arena.empty(DIMENSION), {}, {}
    for seq, (number, what) in enumerate(changes, 2):
        if what == "pack":
            arena = arena.packed()
        elif what == "ask":
            assert len(arena.by_session) <= len(rows)
        elif what == "write":
            versions[number] = versions.get(number, 0) + 1
            rows[number] = turn(number, versions[number], seq)
            arena = arena.refresh([rows[number]])
        elif number in rows and what == "touch":
            rows[number] = changed(rows[number], access_count=seq, importance=1 / seq, accessed_at=seq, seq=seq)
            arena = arena.refresh([rows[number]])
        elif number in rows:
            arena = arena.refresh([changed(rows.pop(number), forgotten_at=1, seq=seq)])
    return arena, rows


def changed(of, **values):
    return tuple({**dict(zip(ARENA, of, strict=True)), **values}.values())


def told(arena):
    """All that an arena tells, but for numbers that say no more than which are the same."""
    asked = need(
        vector=random_unit(7), terms=("memory", "3", "x"), windows=True, vectors=True, columns=frozenset(COLUMNS)
    )
    batch = gather(arena, asked, Activations())
    codes = dict(zip(batch["code"].tolist(), batch.ids.tolist(), strict=True))
    named = {name: [codes.get(code) for code in batch[name].tolist()] for name in ("code", "supersedes", "successor")}
    others = {name: batch[name].tolist() for name in COLUMNS if name not in (*named, "fact", "speaker")}
    held = [(rows.tolist(), frequency.tolist()) for rows, frequency in batch.windows.postings]
    return batch.ids.tolist(), named, others, held, batch.vectors.at(np.arange(len(batch))).tobytes()


@settings(deadline=None)
@given(CHANGED)
def test_what_an_arena_went_through_is_not_seen(changes):
    arena, rows = walked(changes)
    anew = Arena.empty(DIMENSION).refresh(list(rows.values()))
    assert told(arena) == told(anew)


@settings(deadline=None)
@given(CHANGED)
def test_sessions_are_kept_in_order(changes):
    arena, _ = walked(changes)
    found = arena.by_session
    assert sorted(found) == sorted(slot for slot in arena.order if arena.slots["session"][slot] > 0)
    sessions = arena.slots["session"][found].tolist()
    assert sessions == sorted(sessions)  # by which a place for another turn is found
    for session in set(sessions):
        slots = found[arena.slots["session"][found] == session]
        keys = [(arena.slots["created_at"][slot], arena.slots["turn"][slot], arena.rows[slot]) for slot in slots]
        assert keys == sorted(keys)


def test_a_touch_leaves_the_order_of_sessions_as_it_was_made():
    arena, rows = walked([(number, "write") for number in (1, 2, 4, 5)])
    made = arena.by_session
    assert arena.refresh([changed(rows[1], access_count=9, seq=9)]).by_session is made


@settings(deadline=None)
@given(CHANGED)
def test_rows_and_slots_tell_of_each_other(changes):
    arena, rows = walked(changes)
    assert arena.ids.tolist() == sorted(map(id_of, rows))
    assert arena.rows[arena.order].tolist() == list(range(len(rows)))
    assert np.count_nonzero(arena.rows >= 0) == len(rows)
    assert len(arena.rows) == arena.slots.length


@settings(deadline=None)
@given(st.lists(FEW, unique=True), st.data())
def test_memories_that_come_one_by_one_are_as_if_they_came_together(numbers, data):
    rows = [turn(number, 1, number + 1) for number in sorted(numbers)]
    arena = Arena.empty(DIMENSION)
    while rows:
        count = data.draw(st.integers(1, len(rows)))
        with patch.object(postings, "_LATE", data.draw(st.sampled_from([1, 6, 4096]))):
            arena, rows = arena.refresh(rows[:count]), rows[count:]
    together = Arena.empty(DIMENSION)._changed([turn(number, 1, number + 1) for number in sorted(numbers)] or [gone()])
    assert told(arena) == told(together)
    assert arena.error == pytest.approx(together.error)
    for slots, name in ((arena.order, "quantised"), (arena.order, "step")):
        if arena.is_quantised:
            assert arena.slots[name][slots].tobytes() == together.slots[name][together.order].tobytes()


def gone():
    return changed(turn(0, 1, 1), forgotten_at=1)


def test_a_memory_without_a_vector_has_one_of_zeros():
    arena = Arena.empty(DIMENSION).refresh([row(1, vector=None)])
    assert not arena.slots["vector"].any()
    assert not arena.slots["has_vector"].any()


def test_a_vector_of_another_length_is_told():
    broken = changed(row(1), vector=b"\0" * 4)
    with pytest.raises(StoreError, match="damaged"):
        Arena.empty(DIMENSION).refresh([broken])


def test_occurrences_that_come_late_are_found_before_and_after_they_are_put_in_order():
    early = Index().append(np.array([4, 7, 7]), np.array([0, 0, 1]))
    late = early.noting({7: 2, 9: 1}, 2).noting({}, 3).noting({7: 1}, 4)
    for index in (late, late.in_order()):
        found = {number: sorted(zip(*map(list, index.find(number)), strict=True)) for number in (4, 7, 8, 9)}
        assert found == {4: [(0, 1)], 7: [(0, 1), (1, 1), (2, 2), (4, 1)], 8: [], 9: [(2, 1)]}
    assert [len(index.late["slot"]) for index in (early, late, late.in_order())] == [0, 3, 0]
    assert sorted(late.moved(np.array([-1, 0, 1, 2, 3])).find(7)[0]) == [0, 1, 3]


IDS = st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1), unique=True)


@given(IDS)
def test_ids_as_bytes_sort_as_texts_and_are_told_as_they_were(ids):
    assert told_ids(np.sort(held(ids))).tolist() == sorted(ids)
    assert Ids(held(ids)).tolist() == list(Ids(held(ids))) == ids


def test_an_id_may_be_longer_than_those_that_are_there():
    roster = Roster.empty().followed("b").followed("cccc").changed(held(["bbbbbb"]), np.array([2]), 3)
    assert (roster.ids.tolist(), roster.order.tolist()) == (["b", "bbbbbb", "cccc"], [0, 2, 1])
    assert roster.changed(held(["ddddddddd"]), np.array([3]), 4).ids.tolist()[-1] == "ddddddddd"
    assert roster.find(["bbbbbb", "bbbbbbb"])[1].tolist() == [True, False]


def test_memories_are_laid_by_user_and_session():
    arena = Arena.empty(DIMENSION).refresh([turn(number, 1, 1) for number in range(40)])
    for name in ("home", "session"):
        runs = [tuple(pair) for pair in zip(arena.slots["home"].tolist(), arena.slots[name].tolist(), strict=True)]
        assert len(set(runs)) == 1 + sum(a != b for a, b in pairwise(runs))
    assert arena.packed().slots["id"].tolist() == arena.slots["id"].tolist()


def test_ids_that_come_last_copy_no_rows():
    roster = Roster.empty().changed(held(["b", "c"]), np.array([1, 0]), 2)
    roomy = roster.changed(held(["d"]), np.array([2]), 3)
    after = roomy.changed(held(["e"]), np.array([3]), 4)
    assert after.table.arrays["id"] is roomy.table.arrays["id"] or len(roomy.table.arrays["id"]) < 4
    assert after.ids.tolist() == ["b", "c", "d", "e"]
    assert after.order.tolist() == [1, 0, 2, 3]
    assert roster.ids.tolist() == ["b", "c"]


def test_touches_are_taken_into_the_table_once_they_are_many():
    table = Slots.of({name: np.zeros(4) for name in ("importance", "accessed_at", "access_count")}, 4)
    noted = touched.Touched().noting(table, np.array([2, 0]), {name: np.array([5.0, 7.0]) for name in table.arrays})
    again = noted.noting(table, np.array([0]), {name: np.array([9.0]) for name in table.arrays})
    every = np.arange(4)
    assert again.column(table, "importance", every).tolist() == [9, 0, 5, 0]
    assert noted.column(table, "importance", every).tolist() == [7, 0, 5, 0]
    with patch.object(touched, "_MANY", 1):
        left, settled = again.settled(table)
    assert (len(left.slots), settled["importance"].tolist(), table["importance"].tolist()) == (0, [9, 0, 5, 0], [0] * 4)


def test_a_counter_that_is_moved_later_than_others_is_that_of_the_table_until_then():
    table, every = Slots.of({"importance": np.array([0.1, 0.2, 0.3]), "access_count": np.zeros(3)}, 3), np.arange(3)
    counted = touched.Touched().noting(table, np.array([2, 1]), {"access_count": np.array([5.0, 6.0])})
    assert counted.column(table, "importance", every).tolist() == [0.1, 0.2, 0.3]
    raised = counted.noting(table, np.array([0, 1]), {"importance": np.array([0.7, 0.8])})
    assert raised.column(table, "importance", every).tolist() == [0.7, 0.8, 0.3]
    assert raised.column(table, "access_count", every).tolist() == [0, 6, 5]
    assert raised.all_in(table)["importance"].tolist() == [0.7, 0.8, 0.3]


TERMS = st.text(st.characters(exclude_characters=" \0", exclude_categories=["Cs", "Zs"]), min_size=1, max_size=12)


@settings(deadline=None)
@given(st.lists(st.lists(TERMS, max_size=6), max_size=12), st.integers(0, 12))
@example([["a"], ["y", "z"]], 1)  # all of the second part come after all that are known
def test_words_numbered_together_are_as_numbered_one_by_one(texts, first):
    one, together, earlier = Numbering(), Numbering(), words.Known()
    expected = [[one[term] for term in terms] for terms in texts]
    joined = [" ".join(terms) for terms in texts]
    with patch.object(words, "_MANY", 0):
        parts = [words.numbered(together, part, earlier) for part in (joined[:first], joined[first:])]
    counts, numbers = map(np.concatenate, zip(*parts, strict=True))
    known = {number: term for term, number in together.items()}
    names = {number: term for term, number in one.items()}
    assert counts.tolist() == [len(terms) for terms in texts]
    assert [known[number] for number in numbers.tolist()] == [names[number] for terms in expected for number in terms]


@pytest.fixture
def store(tmp_path):
    opened = SQLiteStore.open(tmp_path / "m.db", embedder="e", dimension=DIMENSION, language="none", busy_timeout=5)
    yield opened
    opened.close()


NAMES = st.none() | st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=4).filter(str.strip)
MEMORIES = st.lists(
    st.fixed_dictionaries(
        {
            "importance": st.floats(0, 1),
            "weight": st.floats(0.1, 9),
            "user_id": NAMES,
            "session_id": NAMES,
            "speaker": NAMES,
            "tags": NAMES.map(lambda name: (name,) if name else ()),
            "vector": st.none() | st.integers(0, 9).map(random_unit),
        }
    ),
    max_size=9,
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    path = tmp_path_factory.mktemp("filling") / "m.db"
    opened = SQLiteStore.open(path, embedder="e", dimension=DIMENSION, language="none", busy_timeout=5)
    yield opened
    opened.close()


TENANTS = map("tenant{}".format, itertools.count())


@settings(deadline=None, max_examples=40)
@given(MEMORIES, st.sets(st.integers(0, 8)), st.integers(1, 4), st.integers(1, 4))
def test_an_arena_that_is_filled_is_as_one_that_grew(shared, memories, forgotten, part, block):
    tenant = next(TENANTS)
    add(shared, *(stored(number, tenant=tenant, **values) for number, values in enumerate(memories)))
    for number in sorted(forgotten & set(range(len(memories)))):
        values = {name: value for name, value in memories[number].items() if name != "vector"}
        gone = memory(number, tenant=tenant, **values).changed("forget", NOW, forgotten_at=NOW)
        shared.apply([Revise(gone)])
    with (
        patch.object(filling, "PART", part),
        patch.object(filling, "BLOCK", block),
        shared._transaction(shared._reader, shared._reading),
    ):
        rows = shared._seen.rows(sql.newer(), {"tenant": tenant, "sequence": 0})
        last = max((row[ARENA.index("seq")] for row in rows), default=0)
        filled = filling.filled(shared._seen, tenant, DIMENSION, InMemory(Path()), last)
    assert told(filled) == told(Arena.empty(DIMENSION).refresh(rows))
    assert len(filled.ids) == len(memories) - len(forgotten & set(range(len(memories))))


@pytest.mark.parametrize("change", ["terms = x'ff'", "importance = 'x'", "tags = '{'", "vector = x'00'", "turn = 'q'"])
def test_a_value_that_no_memory_has_is_told_where_an_arena_is_filled(store, change):
    add(store, *(stored(number) for number in range(3)))
    with store._writes.alone(5) as writer:
        writer.exec_driver_sql(f"UPDATE memories SET {change} WHERE rowid = 2")  # noqa: S608 - of this list
    with pytest.raises(StoreError, match="damaged"):
        store.gather(need())


def loosen(store):
    """Leave more dead slots than live ones."""
    for version in range(4):
        for number in range(40):
            store.apply(
                [Revise(memory(number, content=f"{number} {version}", version=version + 1).changed("update", NOW))]
            )
        store.gather(need())


def test_a_loose_arena_is_packed_beside_its_readers_and_goes_on_from_what_changed_since(store):
    work = []
    add(store, *(stored(number) for number in range(40)))
    with patch.object(cached, "beside", lambda job: (work.append(job), list)[1]):
        loosen(store)
        before = store._arenas._cached["default"].arena
        assert before.is_loose
        work[0]()
        add(store, stored(77))
        batch = store.gather(need())
    arena = store._arenas._cached["default"].arena
    assert arena.slots.length < before.slots.length
    assert batch.ids.tolist() == [*map(id_of, range(40)), id_of(77)]


@pytest.mark.parametrize("is_counted", [False, True], ids=["uncounted", "counted"])
@pytest.mark.parametrize("is_changed", [False, True], ids=["as it was", "changed since"])
def test_what_recalls_touched_is_counted_once_where_an_arena_is_packed(store, is_changed, is_counted):
    work, looks = [], need() if is_counted else need(columns=frozenset({"weight"}))
    touch = Touch(Scope(), (id_of(3),), accessed_at=NOW, access_count=1, at=NOW)
    add(store, *(stored(number) for number in range(40)))
    with patch.object(cached, "beside", lambda job: (work.append(job), list)[1]):
        loosen(store)
        for _ in range(2):
            store.apply([touch])
            store.gather(looks)
        work[0]()
        if is_changed:
            add(store, stored(77))
            store.gather(looks)
        for _ in range(2):
            store.apply([touch])
            store.gather(looks)
        counts = store.gather(need()).columns["access_count"]
    assert counts.tolist() == [4 if number == 3 else 0 for number in range(len(counts))]


def test_what_was_packed_of_an_arena_that_is_gone_is_left(store):
    work = []
    add(store, *(stored(number) for number in range(40)))
    with patch.object(cached, "beside", lambda job: (work.append(job), list)[1]):
        loosen(store)
        store._wipe()
        work[0]()
        add(store, stored(78))
        assert store.gather(need()).ids.tolist() == [*map(id_of, range(40)), id_of(78)]


def test_an_arena_for_which_there_is_no_room_stays_loose(store):
    add(store, *(stored(number) for number in range(40)))
    with patch.object(Arena, "packed", side_effect=StoreError("no room")):
        loosen(store)
        store._arenas.clear()
    assert len(store.gather(need(scope=Scope()))) == 40


def test_parts_are_read_ahead_and_come_in_order():
    read, come = [], []
    with ThreadPoolExecutor(1) as reading:
        parts = filling._ahead(lambda part: read.append(part) or part, range(7), reading)
        assert next(parts) == 0
        reading.submit(int).result()  # by then, what was asked for before is read
        come = [*read]
        assert [*parts] == [*range(1, 7)]
    assert come == [*range(filling.AHEAD + 1)]


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.text())))
def test_many_distinctions_have_the_codes_that_each_has(told):
    texts = [f"{kind}:{text}" for kind, text in told]
    assert parsed.codes(texts).tolist() == [parsed.code(text) for text in texts]


def test_an_arena_on_disk_grows_and_is_packed_there(tmp_path):
    place = OnDisk(tmp_path)
    arena = Arena.empty(DIMENSION, place.empty).refresh([turn(number, 1, 1) for number in range(20)])
    assert told(arena.packed()) == told(Arena.empty(DIMENSION).refresh([turn(number, 1, 1) for number in range(20)]))
    assert len(place._mappings) >= 1
