"""Quantised vectors: how far they can be off, what the kernels make of them, and that the best stay the best."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from unittest.mock import patch

import numpy as np
import pytest

from computing import LIBRARIES, WAYS, computed_by
from salience.batch import cosines
from salience.ports import Near
from salience.rank.bound import pruning
from salience.rank.profile import parse
from salience.records import Scope
from salience.store import kernels, pruned
from salience.store.arena import Arena
from salience.store.distances import approximate, within
from salience.store.gather import Activations, gather
from salience.store.quantised import LARGEST, Quantised, off_by, quantised
from salience.store.rows import of_stored
from salience.store.sql import ARENA
from salience.store.view import view_of
from salience.testing.memories import need, stored

DIMENSIONS = (8, 64, 384, 1024, 1536)
ROWS, QUERIES = 1200, 100
NEAREST = parse('name = "x"\nsummary = "x"\ncombine = "sum"\nstages = ["score", "trim"]\n[signal.similarity]\n', "x")


def normal(random, count, dimension):
    return random.normal(size=(count, dimension))


def sparse(random, count, dimension):
    return normal(random, count, dimension) * (random.random((count, dimension)) < 3 / dimension)


def one_hot(random, count, dimension):
    return np.eye(dimension)[random.integers(dimension, size=count)] * random.choice([-1.0, 1.0], (count, 1))


def constant(random, count, dimension):
    return np.ones((count, dimension)) * random.choice([-1.0, 1.0], (count, dimension if count % 2 else 1))


def tiny_and_huge(random, count, dimension):
    return normal(random, count, dimension) * np.exp(8 * normal(random, count, dimension))


def halfway(random, count, dimension):
    """Numbers that lie between two steps, and one that makes the step: what rounding takes most from."""
    numbers = random.integers(-LARGEST, LARGEST, (count, dimension)) + 0.5
    numbers[:, 0] = LARGEST
    return numbers


def alike(random, count, dimension):
    return np.ones(dimension) + 0.05 * normal(random, count, dimension)


KINDS = (normal, sparse, one_hot, constant, tiny_and_huge, halfway, alike)


def units(kind, random, count, dimension):
    """Return unit vectors of a kind; a row of zeros where it gave none, as for a memory without a vector."""
    vectors = kind(random, count, dimension)
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(length > 0, length, 1)).astype(np.float32)


def products(numbers, number):
    return numbers.astype(np.float64) @ number.astype(np.float64)


@pytest.mark.parametrize("dimension", DIMENSIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_product_is_further_off_than_is_said(kind, dimension):
    """Over all kinds and dimensions: four million pairs, queries of the same kind and of any other."""
    random = np.random.default_rng(dimension)
    vectors = units(kind, random, ROWS, dimension)
    rows = Quantised.of(vectors)
    for other in (kind, normal):
        queries = units(other, random, QUERIES // 2, dimension)
        exact = vectors.astype(np.float64) @ queries.T.astype(np.float64)
        as_ranked = cosines(vectors, queries)  # in float32, which rounds
        for largest in (LARGEST,):
            made = [quantised(query, largest) for query in queries]
            numbers, steps, errors = (np.array(column) for column in zip(*made, strict=True))
            about = products(rows.numbers, numbers.T) * rows.steps[:, None] * steps
            bound = np.array([off_by(rows.error, error) for error in errors])
            assert (np.abs(about - exact) <= bound).all()
            assert (np.abs(about.astype(np.float32) - as_ranked) <= bound).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_is_no_further_from_what_stands_for_it_than_is_said(kind):
    vectors = units(kind, np.random.default_rng(1), ROWS, 64)
    rows = Quantised.of(vectors)
    distance = np.linalg.norm(rows.numbers * rows.steps[:, None].astype(np.float64) - vectors, axis=1)
    assert distance.max() <= rows.error + 1e-7
    assert rows.error <= distance.max() + 1e-7
    for vector, own in zip(vectors[:50], distance, strict=False):
        numbers, step, error = quantised(vector)
        assert abs(np.linalg.norm(numbers * step - vector) - error) <= 1e-6
        assert abs(error - own) <= 1e-6  # a query is quantised as a row is


def test_the_bound_is_tight_enough_to_be_of_use():
    """Of random vectors as embedders make them it is a hundredth or two: nearly all others are ruled out."""
    vectors = units(normal, np.random.default_rng(2), ROWS, 384)
    rows = Quantised.of(vectors).error
    assert off_by(rows, quantised(vectors[0])[2]) < 0.03


def test_a_vector_of_zeros_stands_for_itself():
    nothing = np.zeros((2, 8), np.float32)
    rows = Quantised.of(nothing)
    assert not rows.numbers.any()
    assert not rows.steps.any()
    assert rows.error == 0
    assert not quantised(nothing[0])[0].any()
    assert Quantised.of(nothing[:0]).error == 0


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("dimension", [1, 2, 8, 31, 384, 768, 1040, 1041, 1536, 4095, 4096])
def test_a_kernel_gives_whole_numbers(library, dimension):
    random = np.random.default_rng(dimension)
    signs = random.choice([-LARGEST, LARGEST], (40, dimension))
    table = np.concatenate(
        [
            np.full((1, dimension), LARGEST),
            np.full((1, dimension), -LARGEST),
            np.zeros((1, dimension), int),
            signs,
            random.integers(-LARGEST, LARGEST + 1, (200, dimension)),
        ]
    ).astype(np.int8)
    dots = kernels._by(import_module(library))
    for query in (table[0], table[1], table[2], table[3], table[50], -table[60]):
        exact = table.astype(np.int64) @ query.astype(np.int64)
        assert dots(table, query).tolist() == exact.tolist()
        assert dots(table[7:8], query).tolist() == exact[7:8].tolist()
        assert dots(table[5:200], query).tolist() == exact[5:200].tolist()


def test_the_first_library_that_is_there_is_taken():
    with computed_by(None):
        assert kernels.dots() is None
    for library in LIBRARIES:
        with computed_by(library):
            assert kernels.dots() is not None
    with patch.object(kernels, "_imported", lambda name: None), computed_by("numkong"):
        assert kernels.dots() is None


def arena_of(vectors):
    """Return an arena of memories that have these vectors, a row of zeros for none."""
    made = (stored(number, vector if vector.any() else None) for number, vector in enumerate(vectors))
    held = [{**of_stored(item, vectors.shape[1]), "seq": 1} for item in made]
    return Arena.empty(vectors.shape[1]).refresh([tuple(row[name] for name in ARENA) for row in held])


@pytest.mark.parametrize("library", WAYS)
def test_about_how_near_a_memory_is_holds_for_places_however_they_lie(library):
    random = np.random.default_rng(5)
    vectors = np.concatenate([units(kind, random, 40, 24) for kind in KINDS])
    with computed_by(library):
        arena = arena_of(vectors)
        assert arena.is_quantised == (library is not None)
        view = view_of(arena, Scope())
        everywhere = np.arange(len(view))
        for places in (everywhere, everywhere[3:90], everywhere[::-1], everywhere[::9], everywhere[70:71]):
            for query in vectors[::31]:
                about, off = approximate(view, query, places)
                assert (np.abs(about - cosines(vectors[places], query)) <= off).all()


@pytest.mark.parametrize("library", WAYS)
def test_about_how_near_no_memories_are(library):
    with computed_by(library):
        view = view_of(arena_of(units(normal, np.random.default_rng(6), 20, 24)), Scope())
        about, off = approximate(view, np.eye(24, dtype=np.float32)[0], np.empty(0, np.intp))
        assert (len(about), off) == (0, pytest.approx(0, abs=0.1))


@pytest.mark.parametrize("library", WAYS)
def test_the_nearest_are_those_of_a_look_at_all(library):
    """A million pairs for each library, ties by id: a third of the vectors come several times, some are zero."""
    random = np.random.default_rng(7)
    kinds = (normal, sparse, alike, halfway)
    vectors = np.concatenate([units(kind, random, 900, 32) for kind in kinds])
    again = random.integers(len(vectors), size=1200)
    vectors = np.concatenate([vectors, vectors[again]])[random.permutation(len(vectors) + len(again))]
    queries = np.concatenate([vectors[random.integers(len(vectors), size=100)], units(normal, random, 120, 32)])
    queries, brought = queries[queries.any(axis=1)], 0
    with computed_by(library), patch.object(pruned, "_WHOLE", 0):
        arena = arena_of(vectors)
        for number, query in enumerate(queries):
            asked = need(columns=frozenset({"cosine"}), vector=query, limit=(1, 5, 20)[number % 3])
            batch = gather(arena, replace(asked, pruning=pruning(NEAREST, asked)), Activations())
            kept = pruning(NEAREST, asked).keep
            truth = cosines(vectors, query)
            wanted = np.argsort(-truth, kind="stable")[:kept]
            found = [int(id, 16) for id in batch.ids]
            best = np.argsort(-batch["cosine"], kind="stable")[:kept]
            assert [found[place] for place in best] == wanted.tolist()
            assert batch["cosine"][best].tolist() == truth[wanted].tolist()
            brought += len(batch)
            without = np.ones(len(vectors), np.bool_)
            without[found] = False
            assert truth[without].max(initial=-1) < batch.floor
    assert brought < 0.1 * len(vectors) * len(queries)


@pytest.mark.parametrize("library", WAYS)
def test_what_is_within_reach_of_some_vectors_is_so_exactly(library):
    random = np.random.default_rng(8)
    vectors = np.concatenate([units(kind, random, 100, 16) for kind in KINDS])
    has = vectors.any(axis=1)
    with computed_by(library):
        arena = arena_of(vectors)
        view = view_of(arena, Scope())
        everywhere = np.arange(len(view))
        for count in (1, 3, 8, 9):
            others = units(alike if count % 2 else normal, random, count, 16)
            truth = cosines(vectors, others).max(axis=1)
            for above in (-1.0, 0.0, 0.4, 0.9, 1.0, *truth[::97]):
                found = within(view, everywhere, Near(others, float(above)))
                assert found.tolist() == (has & (truth > above)).tolist()
