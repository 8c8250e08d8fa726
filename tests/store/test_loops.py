"""What is written in C gives what NumPy, or a plain loop, gives; and refuses columns that do not fit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from computing import LOOPS, WAYS, computed_by
from salience.batch import OWN
from salience.ports import Calibration
from salience.store import occurrences as numpy_ways
from salience.store.candidates import _Met
from salience.store.loops import Dense, built
from salience.store.quantised import finest_for, quantised

pytestmark = pytest.mark.skipif(LOOPS not in WAYS, reason="the module in C was not built")
SEEDS = st.integers(0, 2**32 - 1)


@pytest.fixture(scope="module")
def loops():
    with computed_by(LOOPS):
        found = built()
    assert found is not None
    return found


def a_line(random, count, width=4):
    """Return int32[count, width], neighbours as a session has them: who is beside somebody has that one beside it."""
    order, around = random.permutation(count), np.full((count, width), -1, np.int32)
    for place in range(count - 1):
        if random.random() < 0.7:
            around[order[place], 1], around[order[place + 1], 0] = order[place + 1], order[place]
    for column, nearer in enumerate((0, 1), start=2):
        beyond = around[:, nearer]
        around[:, column] = np.where(beyond >= 0, around[beyond, nearer], -1)
    return around


def some_terms(random, count, terms=3):
    """Return how many texts hold each of some terms, the places of these, -1 for one unseen, and how often."""
    held = [random.permutation(count)[: random.integers(0, count + 1)] for _ in range(terms)]
    places = np.concatenate(held).astype(np.int64)
    places[random.random(len(places)) < 0.1] = -1
    return [len(one) for one in held], places, random.integers(1, 9, len(places)).astype(np.float32)


@given(seed=SEEDS, count=st.integers(1, 200))
def test_occurrences_are_those_of_numpy(loops, seed, count):
    random = np.random.default_rng(seed)
    around, (lengths, places, counts) = a_line(random, count), some_terms(random, count)
    with computed_by(LOOPS):
        mine = numpy_ways.occurrences(lengths, places, counts, around)
    yours = numpy_ways._occurrences(lengths, places, counts, around)
    for one, other in zip(mine, yours, strict=True):
        assert one.texts == other.texts
        for name in ("places", "own", "windows"):
            mine_of, yours_of = getattr(one, name), getattr(other, name)
            assert (mine_of.dtype, mine_of.tolist()) == (yours_of.dtype, yours_of.tolist())
    first = lengths[0]
    own = {int(place): count for place, count in zip(places[:first], counts[:first], strict=True) if place >= 0}
    windows = [OWN * own.get(place, 0) + sum(own.get(int(near), 0) for near in around[place]) for place in range(count)]
    assert mine[0].places.tolist() == [place for place in range(count) if windows[place]]
    assert mine[0].windows.tolist() == [window for window in windows if window]


@given(seed=SEEDS, k1=st.floats(0.1, 3), b=st.floats(0, 1))
def test_impacts_and_sums_have_the_bits_of_numpy(loops, seed, k1, b):
    random = np.random.default_rng(seed)
    count = random.integers(1, 300)
    places = np.flatnonzero(random.random(count) < 0.5).astype(np.int32)
    frequency, length = random.integers(0, 5, len(places)).astype(np.float32), random.integers(1, 90, count) * 1.0
    found, sums = [], []
    for way in (None, LOOPS):
        with computed_by(way):
            found.append(numpy_ways._impact(frequency, places, length, k1, b, float(length.mean())))
    assert found[0].tobytes() == found[1].tobytes()
    weight = float(random.random())
    sums = np.linspace(0, 1, count, dtype=np.float32)
    expected = sums.copy()
    expected[places] += np.float32(weight) * found[0]
    loops.add(sums, [(places, found[0], weight)])
    assert sums.tobytes() == expected.tobytes()


@given(seed=SEEDS, dimension=st.sampled_from([1, 7, 64, 384, 1041]))
def test_a_scan_has_the_bits_of_whole_numbers_times_their_steps(loops, seed, dimension):
    random = np.random.default_rng(seed)
    rows = random.integers(-127, 128, (random.integers(1, 60), dimension)).astype(np.int8)
    query, steps = random.normal(size=dimension).astype(np.float32), random.random(len(rows)).astype(np.float32)
    numbers, step, error = quantised(query, finest_for(dimension))
    expected = (rows.astype(np.int64) @ numbers.astype(np.int64)).astype(np.float32) * steps * np.float32(step)
    found, off = loops.scan(rows, None, steps, query, finest_for(dimension))
    assert found.tobytes() == expected.tobytes()
    assert off == pytest.approx(error, abs=1e-6)
    slots = random.integers(0, len(rows), 20)
    assert loops.scan(rows, slots, steps, query, finest_for(dimension))[0].tobytes() == expected[slots].tobytes()


@pytest.mark.parametrize("dimension", [1, 384, 4096])
def test_the_largest_sum_of_a_scan_is_held(loops, dimension):
    rows, query = np.full((1, dimension), -127, np.int8), np.full(dimension, finest_for(dimension), np.float32)
    found, off = loops.scan(rows, None, np.ones(1, np.float32), query, finest_for(dimension))
    assert (found[0], off) == (np.float32(-127 * finest_for(dimension) * dimension), 0)


def some_places(random, count):
    """Return about how near each is, what words give it, who is named, and who stands; None for nobody and all."""
    about, words = random.uniform(-1, 1, count).astype(np.float32), random.random(count).astype(np.float32)
    words[random.random(count) < 0.5] = 0
    named, standing = (None if random.random() < 0.3 else random.random(count) < 0.3 for _ in range(2))
    return about, words, named, standing


@given(seed=SEEDS, count=st.integers(1, 400), wanted=st.integers(0, 40))
def test_the_largest_are_those_of_a_sort(loops, seed, count, wanted):
    random = np.random.default_rng(seed)
    about, words, named, standing = some_places(random, count)
    found = loops.largest(about, words, named, standing, 0.7, 0.2, wanted)
    estimate = np.float32(0.7) * about + words + np.where(named if named is not None else False, np.float32(0.2), 0)
    to_choose = np.arange(count) if standing is None else np.flatnonzero(standing)
    expected = np.sort(estimate[to_choose])[::-1][:wanted]
    assert len(set(found.tolist())) == len(found)
    assert set(found.tolist()) <= set(to_choose.tolist())
    assert np.sort(estimate[found])[::-1] == pytest.approx(expected, abs=1e-6)


KNOTS = Calibration((0.1, 0.4, 0.9), (0.0, 0.5, 1.0), 0.95, "test").knots
MANY_KNOTS = np.linspace(-0.2, 1.1, 400), np.linspace(0.0, 1.0, 400) ** 2


def a_dense(random, about, knots):
    around = a_line(random, len(about))
    embedded = None if random.random() < 0.5 else random.random(len(about)) < 0.8
    return Dense(about, around[:, 0].copy(), around[:, 1].copy(), 0.02, embedded, 0.6, random.choice([0.0, 0.3]), knots)


def bound(dense, place, off):
    """Return what the dense channels make of a memory, by a plain look."""
    related = (lambda x: float(np.interp(x, *dense.knots))) if dense.knots else (lambda x: x)
    means = lambda cosine: related(min(max(cosine, 0.0), 1.0))  # noqa: E731
    own, beside = float(dense.about[place]), [dense.before[place], dense.after[place]]
    near = [
        own,
        *(float(dense.about[at]) for at in beside if at >= 0 and (dense.embedded is None or dense.embedded[at])),
    ]
    context = dense.context * means(sum(near) / len(near) + off) if dense.context else 0.0
    return dense.similarity * means(own + off) + context


@given(
    seed=SEEDS, count=st.integers(1, 300), knots=st.sampled_from([None, KNOTS, MANY_KNOTS]), least=st.floats(-0.2, 1.6)
)
def test_what_may_reach_a_score_is_what_a_plain_look_says(loops, seed, count, knots, least):
    random = np.random.default_rng(seed)
    about, words, named, standing = some_places(random, count)
    dense, speaker = a_dense(random, about, knots), 0.0 if named is None else 0.25
    every = np.arange(count)
    bounds = np.array([bound(dense, place, dense.off) for place in every])
    assert loops.bounds(dense, dense.off, every) == pytest.approx(bounds, abs=1e-12)
    assert loops.bounds(dense, -0.02, every) == pytest.approx([bound(dense, at, -0.02) for at in every], abs=1e-12)
    sums = words + (0 if named is None else speaker * named) + bounds
    cut = lambda score: -np.inf if score <= 0 else least_about(dense, score)  # noqa: E731
    most = max(bound(dense, place, dense.off) for place in [int(about.argmax())]) + dense.context
    found = loops.reaching(
        dense, words, named, standing, speaker, least, (cut(least), cut(least - speaker)), least - most
    ).tolist()
    sure = (np.abs(sums - least) > 1e-6) | (dense.embedded is not None and ~dense.embedded)
    reach = (sums >= least) | (dense.embedded is not None and ~dense.embedded)
    reach &= True if standing is None else standing
    assert found == sorted(found)
    assert [place for place in found if sure[place]] == [place for place in every if reach[place] and sure[place]]


def least_about(dense, score):
    """Return a cosine, about, below which neither a memory nor one that it is beside makes so much."""
    tried = np.linspace(-1.05, 1.05, 4201)
    makes = [
        (dense.similarity + dense.context) * (np.interp(c, *dense.knots) if dense.knots else c)
        for c in tried.clip(0, 1)
    ]
    enough = [cosine for cosine, made in zip(tried, makes, strict=True) if made >= score]
    return enough[0] - dense.off - 0.001 if enough else np.inf


@given(seed=SEEDS, count=st.integers(1, 200))
def test_where_terms_stand_in_some_memories_is_what_numpy_says(loops, seed, count):
    random = np.random.default_rng(seed)
    lengths, places, counts = some_terms(random, count)
    terms = numpy_ways._occurrences(lengths, places, counts, a_line(random, count))
    some = random.permutation(count)[: random.integers(0, count + 1)]
    yours = _Met.of_each(terms, some, count)
    mine = _Met(*loops.met(some, [(term.places, term.own, term.windows) for term in terms]))
    for name in ("rows", "own", "windows", "offsets"):
        assert getattr(mine, name).tolist() == getattr(yours, name).tolist()


FLOATS, PLACES = np.zeros(3, np.float32), np.arange(3, dtype=np.int32)


@pytest.mark.parametrize(
    ("name", "arguments", "error", "says"),
    [
        ("add", (), TypeError, "too few"),
        ("add", (FLOATS, PLACES, FLOATS), TypeError, "groups of 3"),
        ("bounds", (FLOATS,), TypeError, "too few"),
        ("impacts", (FLOATS, PLACES, np.ones(3), 1.2, 0.7, 1.0, FLOATS, 1.0), TypeError, "too many"),
        ("add", (FLOATS, PLACES, FLOATS, "one"), TypeError, "real number"),
        ("add", (FLOATS.astype(float), PLACES, FLOATS, 1.0), TypeError, "argument 0: .*'f'"),
        ("add", (FLOATS, PLACES.astype(np.int64), FLOATS, 1.0), TypeError, "argument 0: .*'i'"),
        ("add", (FLOATS, PLACES, FLOATS[:2], 1.0), ValueError, "argument 1: .* 3"),
        (
            "met",
            (np.arange(2), np.zeros(1, np.int64), *[np.zeros(2)] * 2, np.zeros(2, np.int64), PLACES, *[FLOATS] * 2),
            ValueError,
            "argument 1",
        ),
        ("add", (FLOATS, PLACES + 1, FLOATS, 1.0), IndexError, "not in"),
        ("add", (FLOATS, PLACES - 1, FLOATS, 1.0), IndexError, "not in"),
        ("add", (FLOATS[::2], PLACES, FLOATS, 1.0), (BufferError, ValueError), "contiguous"),
        ("add", (None, PLACES, FLOATS, 1.0), TypeError, "bytes-like"),
        ("impacts", (FLOATS, PLACES + 1, np.ones(3), 1.2, 0.7, 1.0, FLOATS), IndexError, "not in"),
        (
            "scan",
            (np.zeros((2, 3), np.int8), np.array([2]), FLOATS, FLOATS, 1.0, FLOATS[:1]),
            IndexError,
            "2",
        ),
        (
            "scan",
            (np.zeros((2, 3), np.int8), None, FLOATS, FLOATS, 1.0, FLOATS),
            ValueError,
            "argument 0",
        ),
        ("largest", (FLOATS, FLOATS[:2], None, None, 1.0, 1.0, np.zeros(1, np.int64)), ValueError, "argument 1"),
    ],
)
def test_columns_that_do_not_fit_are_refused(loops, name, arguments, error, says):
    with pytest.raises(error, match=says):
        getattr(loops.module, name)(*arguments)


@pytest.mark.parametrize("place", [-2, 3])
def test_a_place_that_is_none_is_refused(loops, place):
    around = np.full((3, 2), -1, np.int32)
    with pytest.raises(IndexError, match=str(place)):
        loops.occurrences([1], np.array([place]), np.ones(1, np.float32), around)


def test_a_column_that_cannot_be_written_to_is_refused(loops):
    sums = FLOATS.copy()
    sums.flags.writeable = False
    with pytest.raises((BufferError, ValueError), match=r"read-only|writ"):
        loops.add(sums, [(PLACES, FLOATS, 1.0)])


def test_without_the_module_numpy_does_it():
    with computed_by(None):
        assert built() is None
        (found,) = numpy_ways.occurrences([1], np.array([0]), np.ones(1, np.float32), np.full((1, 2), -1, np.int32))
    assert (found.places.tolist(), found.windows.tolist()) == ([0], [OWN])
