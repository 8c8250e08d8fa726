"""Clusters: laws that hold for any vectors, and the figures of small ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salience.batch import Ragged, Vectors32, cosines
from salience.errors import InputError
from salience.rank.clusters import Cluster, clusters, medoid

Case = tuple[Vectors32, list[list[int]], dict[str, float]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw rows around a few directions, some of them the same as others, what each is about, and the parameters."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows, dimension = draw(st.integers(0, 40)), draw(st.integers(2, 6))
    middles = random.normal(size=(4, dimension))
    made = middles[random.integers(0, 4, rows)] + random.normal(size=(rows, dimension)) * draw(st.floats(0, 0.8))
    made[: rows // 5] = made[rows // 5 : 2 * (rows // 5)]
    vectors = (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)
    about = [sorted(random.choice(5, size=random.integers(0, 4), replace=False).tolist()) for _ in range(rows)]
    least = draw(st.integers(2, 4))
    given = {"tightness": draw(st.floats(0.25, 1.0)), "share": draw(st.floats(0.05, 1.0)), "least": least}
    return vectors, about, {**given, "greatest": draw(st.integers(least, 12))}


def found(case: Case) -> list[Cluster]:
    vectors, about, given = case
    return clusters(vectors, Ragged.of(about), **given)


def sets(found: list[Cluster], names: np.ndarray) -> set[tuple[int, frozenset[int], int]]:
    return {(one.subject, frozenset(names[list(one.rows)].tolist()), int(names[one.centre])) for one in found}


@given(cases())
def test_a_row_is_in_one_cluster_at_most(case):
    rows = [row for cluster in found(case) for row in cluster.rows]
    assert len(rows) == len(set(rows))


@given(cases())
def test_a_cluster_is_tight_speaks_of_one_subject_and_has_its_size(case):
    vectors, about, given = case
    for cluster in found(case):
        assert list(cluster.rows) == sorted(cluster.rows)
        assert cluster.centre in cluster.rows
        assert (cosines(vectors[list(cluster.rows)], vectors[cluster.centre]) >= given["tightness"]).all()
        assert all(cluster.subject in about[row] for row in cluster.rows)
        assert given["least"] <= len(cluster.rows) <= given["greatest"]
        assert len(cluster.rows) >= given["share"] * sum(cluster.subject in codes for codes in about)


@given(cases())
def test_what_is_left_would_make_no_further_cluster(case):
    vectors, about, given = case
    taken = {row for cluster in found(case) for row in cluster.rows}
    free = [row for row in range(len(about)) if row not in taken]
    for row in free:
        for code in about[row]:
            near = [other for other in free if code in about[other]]
            near = [other for other in near if cosines(vectors[[other]], vectors[row])[0] >= given["tightness"]]
            held = min(len(near), given["greatest"])
            assert held < given["least"] or held < given["share"] * sum(code in codes for codes in about)


@given(cases())
def test_clusters_are_deterministic(case):
    assert found(case) == found(case)


@given(st.integers(0, 2**32 - 1), st.integers(0, 40), st.sampled_from([0.4, 0.7, 0.9]))
def test_the_order_of_the_rows_does_not_matter_where_no_two_tie(seed, rows, tightness):
    """Two alone always tie for the middle, so clusters of three and more; of rows that lie anyhow, no others do."""
    random = np.random.default_rng(seed)
    made = random.normal(size=(4, 6))[random.integers(0, 4, rows)] + random.normal(size=(rows, 6)) / 2
    vectors = (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)
    about = [sorted(random.choice(4, size=2, replace=False).tolist()) for _ in range(rows)]
    given = {"tightness": tightness, "share": 0.1, "least": 3, "greatest": 8}
    order = random.permutation(rows)
    shuffled = clusters(vectors[order], Ragged.of([about[row] for row in order]), **given)
    assert sets(shuffled, order) == sets(found((vectors, about, given)), np.arange(rows))


@given(cases(), st.integers(0, 40))
def test_a_row_of_another_subject_changes_nothing(case, place):
    vectors, about, given = case
    place = min(place, len(about))
    stranger = np.zeros((1, vectors.shape[1]), np.float32)
    stranger[0, 0] = 1.0
    names = np.insert(np.arange(len(about)), place, -1)
    more = np.insert(vectors, place, stranger, axis=0)
    wider = clusters(more, Ragged.of([*about[:place], [99], *about[place:]]), **given)
    assert sets(wider, names) == sets(found(case), np.arange(len(about)))


def fan(*degrees: float) -> Vectors32:
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


COS_10 = float(np.cos(np.radians(10))) - 1e-6


def fanned(*degrees: float, about: list[list[int]] | None = None, **given: float) -> list[tuple[int, tuple[int, ...]]]:
    codes = about or [[0]] * len(degrees)
    parameters = {"tightness": COS_10, "share": 0.05, "least": 2, "greatest": 9, **given}
    return [(one.centre, one.rows) for one in clusters(fan(*degrees), Ragged.of(codes), **parameters)]


def test_the_largest_neighbourhood_is_taken_first():
    assert fanned(0, 10, 20, 31, 80) == [(1, (0, 1, 2))]
    assert fanned(0, 5, 20, 28, 36, 60) == [(0, (0, 1)), (3, (2, 3, 4))]


def test_of_equal_ones_the_nearer_then_the_first_is_taken():
    assert fanned(0, 8, 50, 56) == [(0, (0, 1)), (2, (2, 3))]
    assert fanned(0, 9, 17) == [(1, (0, 1, 2))]
    assert fanned(0, 0, 0, greatest=2) == [(0, (0, 1))]


def test_the_nearest_to_the_middle_are_kept_where_there_are_too_many():
    assert fanned(0, 1, 5, 8, 11, greatest=3) == [(2, (1, 2, 3))]


def test_the_centre_is_near_all_rows_even_if_another_row_is_nearer_to_most():
    assert fanned(-10, 0, 9, 9.2, 9.4, 9.6, 9.8) == [(1, (0, 1, 2, 3, 4, 5, 6))]


def test_rows_of_two_subjects_go_to_the_larger_cluster_and_of_equal_ones_to_the_nearer():
    assert fanned(0, 5, 10, 12, 14, about=[[0], [0, 1], [0, 1], [1], [1]]) == [(2, (1, 2, 3, 4))]
    assert fanned(0, 8, 10, about=[[0], [0, 1], [1]]) == [(1, (1, 2))]


def test_near_rows_of_different_subjects_are_not_clustered():
    assert fanned(0, 1, 2, 3, about=[[0], [1], [0], [1]]) == [(0, (0, 2)), (1, (1, 3))]
    assert fanned(0, 1, 2, about=[[0], [1], []]) == []


def test_a_subject_that_is_strewn_makes_no_cluster():
    strewn = (0, 1, 2, 60, 120, 180)
    assert fanned(*strewn, share=0.5) == [(1, (0, 1, 2))]
    assert fanned(*strewn, share=0.6) == []


def test_a_subject_of_more_rows_than_a_cluster_may_hold_of_it_is_left_alone():
    assert [rows for _, rows in fanned(*range(8), greatest=4, share=0.5)] == [(0, 1, 6, 7), (2, 3, 4, 5)]
    assert fanned(*range(9), greatest=4, share=0.5) == []


def test_a_row_of_zeros_is_in_no_cluster():
    vectors = np.concatenate([fan(0, 1), np.zeros((2, 2), np.float32)])
    made = clusters(vectors, Ragged.of([[0]] * 4), tightness=0.5, share=0.05, least=2, greatest=9)
    assert [one.rows for one in made] == [(0, 1)]


def test_no_rows_make_no_clusters():
    nothing = np.empty((0, 4), np.float32)
    assert clusters(nothing, Ragged.of([]), tightness=0.5, share=0.5, least=2, greatest=9) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"tightness": 0.2}, {"tightness": 1.1}, {"share": 0.0}, {"share": 1.1}, {"least": 1}, {"least": 10},
        {"greatest": 1},
    ],
)  # fmt: skip
def test_numbers_out_of_range_are_refused(wrong):
    with pytest.raises(InputError, match=f"{next(iter(wrong))}|least"):
        fanned(0, 1, **wrong)


def test_the_medoid_is_the_middle_and_says_something():
    vectors = fan(0, 10, 20)
    assert medoid(vectors, np.ones(3)) == 1
    assert medoid(vectors, np.array([0.5, 0.1, 0.5])) == 0
    assert medoid(fan(0, 90, 90), np.ones(3)) == 1
