"""The arena: snapshots that nothing disturbs, and as little copied as can be."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from salience.batch import COLUMNS, cosines
from salience.ports import Near
from salience.records import Scope
from salience.store import distances
from salience.store.arena import Arena
from salience.store.distances import nearest, within
from salience.store.gather import Activations, gather
from salience.store.postings import Index
from salience.store.rows import of_stored
from salience.store.slots import Slots
from salience.store.sql import ARENA
from salience.store.view import view_of
from salience.testing.memories import DIMENSION, NOW, id_of, need, numbers, random_unit, stored, unit


def row(number, seq=1, **values):
    made = {**of_stored(stored(number, **values), DIMENSION), "seq": seq}
    return tuple(made[name] for name in ARENA)


def answer(arena):
    """All that a gather says, in a form that compares."""
    asked = need(vector=unit(1, 2), terms=("memory", "0", "x"), names=("ann", "bob"), entities=True, vectors=True)
    batch = gather(arena, replace(asked, distinctions=True), Activations())
    postings = [(rows.tolist(), frequency.tolist()) for rows, frequency in batch.lexicon.postings]
    lists = batch.entities.of_row
    return (
        batch.ids.tolist(), {name: column.tolist() for name, column in batch.columns.items()}, postings,
        batch.lexicon.average_length, batch.vectors.at(np.arange(len(batch))).tobytes(), lists.offsets.tolist(),
        lists.values.tolist(), batch.entities.of_query.tolist(),
        [batch.distinctions.of_row(place) for place in range(len(batch))],
    )  # fmt: skip


def filled(count=20):
    return Arena.empty(DIMENSION).refresh([filling(n) for n in range(count)])


def filling(number):
    told = (f"text:{number}", *["number:30"] * (number % 3))
    return row(number, entities=("Ann",) * (number % 2), tags=("t",), distinctions=told)


def numbers_of(arena, counter):
    return arena.counter(counter, arena.order).tolist()


CHANGES = {
    "add": lambda: [row(107, seq=2), row(3, seq=2, version=2, terms=("x",), entities=("Bob",))],
    "touch": lambda: [row(n, seq=2, importance=0.9, access_count=3, accessed_at=NOW) for n in (1, 2)],
    "forget": lambda: [row(n, seq=2, version=2, forgotten_at=NOW) for n in range(0, 20, 3)],
    "all": lambda: [
        row(n, seq=2, version=2, content=f"x {n}", entities=("Bob", "Ann"), distinctions=("name:bob", f"text:x {n}"))
        for n in range(20)
    ],
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_snapshot_stays_as_it_was(change):
    before = filled()
    expected = answer(before)
    after = before.refresh(change())
    assert answer(before) == expected
    assert answer(after) != expected


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_two_snapshots_made_from_one_do_not_disturb_each_other(change):
    parent = filled().refresh([row(50)])  # grown once, so that there is spare room
    one = parent.refresh([row(60, entities=("Ann", "Bob"), terms=("x",))])
    expected = answer(one)
    parent.refresh(change())
    assert answer(one) == expected


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_compaction_changes_no_answer(change):
    kept = filled().refresh(change())
    packed = filled().refresh(change()).packed()
    assert packed.slots.length == len(packed.order) == len(packed.ids)
    assert answer(packed) == answer(kept)
    more = [row(200, entities=("Bob",)), row(1, version=3, terms=("x", "x"))]
    assert answer(packed.refresh(more)) == answer(kept.refresh(more))


def test_an_arena_is_loose_once_more_than_half_of_its_slots_are_dead():
    arena = filled(100)
    for version in range(2, 8):
        arena = arena.refresh([row(n, seq=version, version=version) for n in range(100)])
        arena = arena.packed() if arena.is_loose else arena
        assert arena.slots.length <= 2 * 100 + 64
    assert numbers(gather(arena, need(), Activations())) == list(range(100))


def test_an_arena_is_loose_once_more_than_half_of_its_slots_came_since_they_were_laid():
    arena = filled(100)
    grown = arena.refresh([row(n, seq=2) for n in range(100, 264)])
    assert not grown.is_loose
    assert grown.refresh([row(264, seq=3)]).is_loose
    assert not grown.refresh([row(264, seq=3)]).packed().is_loose


def test_a_touch_copies_counters_alone():
    before = filled()
    after = before.refresh(CHANGES["touch"]())
    assert after.slots is before.slots
    assert after.terms is before.terms
    assert after.roster is before.roster
    assert after.slots.arrays is before.slots.arrays
    assert numbers_of(after, "access_count") == [3 if n in (1, 2) else 0 for n in range(20)]
    assert numbers_of(before, "access_count") == [0] * 20


def test_growth_uses_the_spare_room():
    grown = filled().refresh([row(100)])
    again = grown.refresh([row(101)])
    assert again.slots.arrays["vector"] is grown.slots.arrays["vector"]
    assert again.slots.length == grown.slots.length + 1


def test_the_order_of_changed_rows_does_not_matter():
    rows = [row(n, seq=40 - n) for n in range(20)]
    arena = Arena.empty(DIMENSION).refresh(rows[::-1])
    assert numbers(gather(arena, need(), Activations())) == list(range(20))
    assert arena.sequence == 40


def test_a_row_read_twice_changes_nothing():
    arena = filled()
    assert answer(arena.refresh([filling(n) for n in range(20)])) == answer(arena)


def test_every_column_has_a_reader():
    batch = gather(filled(), need(columns=frozenset(COLUMNS)), Activations())
    assert {name: column.dtype for name, column in batch.columns.items()} == {
        name: np.dtype(spec.dtype) for name, spec in COLUMNS.items()
    }


def test_an_index_finds_what_was_appended_in_many_parts():
    rng = np.random.default_rng(3)
    index, truth = Index(), []
    for slot in range(300):
        held = rng.integers(0, 20, rng.integers(0, 6))
        index = index.append(held, np.full(len(held), slot))
        truth.append(held.tolist())
    assert len(index.segments) < 12
    for number in range(21):
        slots, counts = index.find(number)
        assert dict(zip(slots.tolist(), counts.tolist(), strict=True)) == {
            slot: held.count(number) for slot, held in enumerate(truth) if number in held
        }


def test_an_index_of_nothing_does_not_grow():
    nothing = np.empty(0, np.int64)
    index = Index().append(nothing, nothing).append(nothing, nothing)
    assert index.segments == ()
    assert index.find(1)[0].tolist() == []


def test_the_matrix_that_is_handed_out_cannot_be_written():
    vectors = gather(filled(), need(vectors=True), Activations()).vectors
    with pytest.raises(ValueError, match="read-only"):
        vectors.matrix[0] = 0


def test_a_table_of_slots_copies_when_its_room_is_taken():
    table = Slots.of({"x": np.arange(3)}, 3).append({"x": np.array([3])}, 1)
    left, right = table.append({"x": np.array([4])}, 1), table.append({"x": np.array([5])}, 1)
    assert (left["x"].tolist(), right["x"].tolist()) == ([0, 1, 2, 3, 4], [0, 1, 2, 3, 5])


def test_the_nearest_are_those_of_a_stable_sort():
    rng = np.random.default_rng(4)
    for size in range(12):
        cosine = rng.choice([0.0, 0.5, 0.5, 1.0], size)
        for count in range(14):
            expected = sorted(np.argsort(-cosine, kind="stable")[:count].tolist())
            assert sorted(nearest(cosine, count).tolist()) == expected


@pytest.mark.parametrize("products", [1, 64, 1 << 21])
@pytest.mark.parametrize("wanted", [slice(None), slice(None, None, 7)], ids=["as they lie", "scattered"])
def test_near_comes_block_by_block_to_the_same(products, wanted):
    arena = Arena.empty(DIMENSION).refresh([row(n, vector=None if n % 5 == 0 else random_unit(n)) for n in range(100)])
    rows = np.arange(100)[wanted]
    vectors = np.stack([random_unit(1000 + n) for n in range(20)])
    own = np.stack([np.zeros(DIMENSION, np.float32) if n % 5 == 0 else random_unit(n) for n in rows])
    cosine = np.where(rows % 5 == 0, -np.inf, cosines(own, vectors).max(axis=1))
    view = view_of(arena, Scope())
    with patch.object(distances, "_PRODUCTS", products):
        for above in (-2.0, -1.0, 0.0, 0.7, 1.0, *np.unique(cosine[cosine > -1])):
            assert within(view, rows, Near(vectors, float(above))).tolist() == (cosine > above).tolist()


def test_many_vectors_do_not_walk_the_matrix_one_by_one():
    arena = Arena.empty(DIMENSION).refresh([row(n, vector=random_unit(n)) for n in range(500)])
    vectors = np.stack([random_unit(1000 + n) for n in range(100)])
    seen = []

    def counted(matrix, query):
        seen.append(len(matrix))
        return cosines(matrix, query)

    with patch.object(distances, "cosines", counted):
        gather(arena, need(columns=frozenset(), near=Near(vectors, 0.95)), Activations())
    assert sum(seen) < 50


def test_turns_are_read_from_what_was_recalled():
    arena = filled(6)
    activations = Activations(9, {id_of(4): 7, id_of(77): 3, id_of(1): 9})
    batch = gather(arena, need(ids=tuple(map(id_of, (1, 2, 4)))), activations)
    assert batch["turns_since_activation"].tolist() == [0.0, np.inf, 2.0]


def test_a_number_is_looked_up_between_two_slots():
    index = Index()
    for first in range(0, 40, 10):
        index = index.append(np.array([1, 2, 1]), np.array([first, first + 1, first + 2]))
    everywhere = sorted(index.find(1)[0].tolist())
    assert everywhere == [0, 2, 10, 12, 20, 22, 30, 32]
    for first in range(-1, 35):
        for last in range(first - 1, 35):
            slots, counts = index.find(1, (first, last))
            assert sorted(slots.tolist()) == [slot for slot in everywhere if first <= slot <= last]
            assert counts.tolist() == [1] * len(slots)
