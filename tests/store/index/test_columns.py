"""An index after any changes is the index of the rows that are left; an older snapshot stays as it was."""

from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels import KERNELS, computed_by
from salience.batch import COLUMNS, cosines, int8_products
from salience.errors import StoreError
from salience.records import Scope
from salience.store.index import Activations, Index, columns, gather
from salience.store.index.columns import LARGEST, Table, quantised
from salience.store.index.postings import Postings
from salience.store.index.search import Search
from salience.store.index.view import view_of
from salience.store.rows import of_stored
from salience.store.statements import INDEXED
from tests.contract.memories import DIMENSION, NOW, id_of, need, numbers, random_unit, shown, stored, unit

FEW = st.integers(0, 15)


def row(number, seq=1, **values):
    made = {**of_stored(stored(number, **values), DIMENSION), "seq": seq}
    return tuple(made[name] for name in INDEXED)


def changed(of, **values):
    return tuple({**dict(zip(INDEXED, of, strict=True)), **values}.values())


def turn(number, version, seq):
    """A memory with values of its own in every column; every third has no session, every fifth no vector."""
    return row(
        number, seq, version=version, user_id=f"u{number % 3}", turn=number % 5, entities=("Ann", "Bob")[: number % 3],
        session_id=f"s{number % 4}" if number % 3 else None,
        vector=random_unit(100 * number + version) if number % 5 else None,
        supersedes=id_of(number - 1) if number % 4 == 1 else None, tags=("x",) * (number % 2),
        fact_key="f" if number % 6 == 0 else None, speaker="Ann" if number % 4 == 0 else None,
        terms=("memory", str(number), "x" * (number % 12 + 1)), distinctions=(f"text:{number}", "number:1"),
    )  # fmt: skip


def answer(index):
    """All that a search shows, but for numbers that only say which values are equal."""
    asked = need(
        vector=unit(1, 2), terms=("memory", "3", "x"), windows=True, names=("ann", "bob"), entities=True, vectors=True,
        speakers=("ann",), distinctions=True, columns=frozenset(COLUMNS),
    )  # fmt: skip
    return shown(gather(index, asked, Activations()))


CHANGES = st.lists(st.tuples(FEW, st.sampled_from(["write", "write", "touch", "forget", "ask"])), max_size=25)


@given(CHANGES, st.sampled_from([-1000, 0, 64]), st.sampled_from([0, 32]))
def test_a_refreshed_index_is_the_index_of_the_rows(changes, least_dead, few):
    index, rows, versions = Index.empty(DIMENSION), {}, {}
    with patch.object(columns, "_LEAST_DEAD", least_dead), patch.object(columns, "_FEW", few):
        for seq, (number, what) in enumerate(changes, 2):
            if what == "ask":
                answer(index)
            elif what == "write":
                versions[number] = versions.get(number, 0) + 1
                rows[number] = turn(number, versions[number], seq)
                index = index.refreshed([rows[number]])
            elif number in rows and what == "touch":
                rows[number] = changed(rows[number], access_count=seq, importance=1 / seq, accessed_at=seq, seq=seq)
                index = index.refreshed([rows[number]])
            elif number in rows:
                index = index.refreshed([changed(rows.pop(number), forgotten_at=1, seq=seq)])
        assert answer(index) == answer(Index.empty(DIMENSION).refreshed(list(rows.values())))
        assert len(index) == len(rows)
        assert answer(index.compacted()) == answer(index)
        sessions = [
            tuple(index.slots[name][slot].item() for name in ("session", "created_at", "turn", "row"))
            for slot in index.by_session
        ]
        assert sessions == sorted(sessions)
        assert len(sessions) == np.count_nonzero((index.slots["row"] >= 0) & (index.slots["session"] > 0))


@given(st.lists(FEW, unique=True), st.data())
def test_rows_may_come_in_any_parts_and_any_order(numbers, data):
    rows = [turn(number, 1, 2) for number in numbers]
    index, left = Index.empty(DIMENSION, room=data.draw(FEW)), rows
    while left:
        count = data.draw(st.integers(1, len(left)))
        index, left = index.refreshed(left[:count]), left[count:]
    assert answer(index) == answer(Index.empty(DIMENSION).refreshed(rows))


def filled(count=20):
    return Index.empty(DIMENSION).refreshed([turn(number, 1, 1) for number in range(count)])


REFRESHES = {
    "add": lambda: [row(107, seq=2), row(3, seq=2, version=2, terms=("x",), entities=("Bob",))],
    "touch": lambda: [changed(turn(n, 1, 2), importance=0.9, access_count=3, accessed_at=5) for n in (1, 2)],
    "forget": lambda: [row(n, seq=2, version=2, forgotten_at=NOW) for n in range(0, 20, 3)],
    "all": lambda: [row(n, seq=2, version=2, content=f"x {n}", entities=("Bob", "Ann")) for n in range(20)],
}


@pytest.mark.parametrize("change", REFRESHES.values(), ids=REFRESHES)
def test_an_older_snapshot_stays_as_it_was(change):
    before = filled()
    expected = answer(before)
    after = before.refreshed(change())
    assert answer(before) == expected
    assert answer(after) != expected
    grown = before.refreshed([row(60, entities=("Ann", "Bob"), terms=("x",))])  # both write behind the same end
    assert answer(grown) != expected
    assert answer(before) == expected
    assert answer(after) == answer(filled().refreshed(change()))


def test_a_touch_copies_counters_alone_and_keeps_the_views():
    before = filled()
    view = view_of(before, Scope())
    after = before.refreshed([changed(turn(1, 1, 2), access_count=9)])
    different = {name for name, array in after.slots.arrays.items() if array is not before.slots.arrays[name]}
    assert different == set(columns.COUNTERS)
    assert view_of(after, Scope()) is view
    assert gather(after, need(), Activations())["access_count"].max() == 9


def test_growth_uses_the_spare_room():
    index = filled().refreshed([row(50)])
    assert index.refreshed([row(51)]).slots.arrays["vector"] is index.slots.arrays["vector"]


def test_an_index_stays_small_while_its_memories_are_revised():
    index = Index.empty(DIMENSION).refreshed([row(n) for n in range(100)])
    for version in range(2, 8):
        index = index.refreshed([row(n, seq=version, version=version) for n in range(100)])
        assert index.slots.length <= 2 * 100 + 64
    assert numbers(gather(index, need(), Activations())) == list(range(100))


def test_a_change_sequence_may_pass_without_rows():
    index = filled()
    assert index.refreshed([], 9).sequence == 9
    assert index.refreshed([], 9).refreshed([row(0, seq=4)]).sequence == 9


def test_a_table_that_grows_twice_from_one_snapshot_is_copied():
    table = Table.of({"a": np.arange(4)}, 2)
    one, other = table.appended({"a": [7]}, 1), table.appended({"a": [8]}, 1)
    assert (table["a"].tolist(), one["a"].tolist(), other["a"].tolist()) == ([0, 1], [0, 1, 7], [0, 1, 8])


@given(st.lists(st.lists(st.integers(0, 3), max_size=6), max_size=12))
def test_postings_find_what_was_appended_in_many_parts(texts):
    postings = Postings()
    for slot, text in enumerate(texts):
        postings = postings.appended(np.array(text, np.int32), np.full(len(text), slot))
    place = np.array([slot if slot % 3 else -1 for slot in range(len(texts))], np.intp)

    def found(held, wanted):
        return sorted(zip(*(column.tolist() for column in held.find(wanted)), strict=True))

    for wanted in ([], [0], [4, 2, 0, -1, 2]):
        expected = [
            (at, slot, text.count(number))
            for at, number in enumerate(wanted)
            for slot, text in enumerate(texts)
            if number in text
        ]
        assert found(postings, wanted) == expected
        assert found(postings.moved(place), wanted) == [one for one in expected if one[1] % 3]


@pytest.mark.parametrize(
    "damage",
    [{"vector": bytes(8)}, {"tags": "{"}, {"tags": "[1]"}, {"created_at": "soon"}, {"tier": "x"}, {"turn": b""}],
)
def test_a_value_that_no_memory_has_is_an_error(damage):
    with pytest.raises(StoreError):
        filled().refreshed([changed(row(40), **damage)])


def test_the_vectors_that_are_handed_out_cannot_be_written():
    batch = gather(filled(), need(vectors=True), Activations())
    with pytest.raises(ValueError, match="read-only"):
        batch.vectors.matrix[0] = 0


def test_a_view_ends_when_a_memory_expires():
    index = filled().refreshed([row(30, expires_at=NOW)])
    late = int(NOW.timestamp() * 1e6)
    before, after = view_of(index, Scope(), late - 1), view_of(index, Scope(), late)
    assert (before.valid.all(), after.valid.all()) == (True, False)
    assert view_of(index, Scope(), late + 5) is after


def normal(random, count, dimension):
    return random.normal(size=(count, dimension))


def sparse(random, count, dimension):
    return normal(random, count, dimension) * (random.random((count, dimension)) < 0.1)


def constant(random, count, dimension):
    return np.ones((count, dimension)) * random.choice([-1.0, 1.0], (count, dimension if count % 2 else 1))


def tiny_and_huge(random, count, dimension):
    return normal(random, count, dimension) * np.exp(8 * normal(random, count, dimension))


def halfway(random, count, dimension):
    """Numbers between two steps: what rounding changes most."""
    made = random.integers(-LARGEST, LARGEST, (count, dimension)) + 0.5
    made[:, 0] = LARGEST
    return made


KINDS = (normal, sparse, constant, tiny_and_huge, halfway)


def units(kind, random, count, dimension):
    vectors = kind(random, count, dimension)
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(length > 0, length, 1)).astype(np.float32)


@contextmanager
def searching(vectors, kernel):
    """Yield the search of an index of memories with these vectors, a row of zeros for none."""
    made = (stored(number, vector if vector.any() else None) for number, vector in enumerate(vectors))
    held = [{**of_stored(item, vectors.shape[1]), "seq": 1} for item in made]
    with computed_by(kernel):
        index = Index.empty(vectors.shape[1]).refreshed([tuple(one[name] for name in INDEXED) for one in held])
        assert ("quantised" in index.slots.arrays) == (kernel == "numkong")
        yield Search(index, view_of(index, Scope()), need(), Activations())


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dimension", [1, 8, 384])
@pytest.mark.parametrize("kind", KINDS)
def test_no_product_is_further_off_than_the_bound(kind, dimension, kernel):
    random = np.random.default_rng(dimension)
    vectors, queries = units(kind, random, 500, dimension), units(normal, random, 40, dimension)
    with searching(vectors, kernel) as search:
        everywhere = np.arange(len(vectors))
        for places in (
            everywhere,
            everywhere[3:90],
            everywhere[::-1],
            everywhere[::9],
            everywhere[70:71],
            everywhere[:0],
        ):
            about, off = search._products(places, queries)
            assert (np.abs(about - cosines(vectors[places], queries)) <= off).all()
            assert off < 0.03 or kind is not normal or dimension < 384


def test_a_quantised_vector_is_no_further_from_the_vector_than_its_error():
    random = np.random.default_rng(1)
    for kind in KINDS:
        vectors = units(kind, random, 300, 64)
        numbers, steps, errors = quantised(vectors)
        distance = np.linalg.norm(numbers * steps[:, None].astype(np.float64) - vectors, axis=1)
        assert np.abs(distance - errors).max() <= 1e-6
    zeros = quantised(np.zeros((2, 8), np.float32))
    assert not any(column.any() for column in zeros)


@pytest.mark.parametrize("dimension", [1, 31, 384, 1041, 4096])
def test_the_kernel_is_exact_but_for_the_rounding_to_float32(dimension):
    random = np.random.default_rng(dimension)
    table = random.integers(-LARGEST, LARGEST + 1, (200, dimension)).astype(np.int8)
    table[:2] = [[LARGEST], [-LARGEST]]
    with computed_by("numkong"):
        found = [int8_products()(table, table[:queries]) for queries in (1, 3)]
    for products in found:
        exact = table.astype(np.int64) @ table[: products.shape[1]].T.astype(np.int64)
        assert products.tolist() == exact.astype(np.float32).tolist()
    with computed_by("numpy"):
        assert int8_products() is None
