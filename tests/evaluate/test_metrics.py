"""Metrics against figures worked out by hand, and intervals against what they have to be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salience.errors import InputError
from salience.evaluate.metrics import (
    METRICS,
    Metric,
    all_at,
    estimate,
    hit_at,
    ndcg_at,
    paired,
    precision,
    recall_at,
    reciprocal_rank,
)


@pytest.mark.parametrize(
    ("places", "total", "k", "recall", "every", "some"),
    [
        ((1, 4, 12), 4, 5, 0.5, 0, 1),
        ((1, 4, 12), 4, 20, 0.75, 0, 1),
        ((2, 3), 2, 3, 1.0, 1, 1),
        ((2, 3), 2, 2, 0.5, 0, 1),
        ((6,), 1, 5, 0.0, 0, 0),
        ((), 3, 10, 0.0, 0, 0),
    ],
)
def test_recall_all_and_hit(places, total, k, recall, every, some):
    assert recall_at(places, total, k) == recall
    assert all_at(places, total, k) == every
    assert hit_at(places, total, k) == some


@pytest.mark.parametrize(
    ("places", "k", "expected"), [((1,), 10, 1.0), ((4, 5), 10, 0.25), ((11,), 10, 0.0), ((), 10, 0.0)]
)
def test_reciprocal_rank(places, k, expected):
    assert reciprocal_rank(places, 2, k) == expected


def test_ndcg_as_worked_out_by_hand():
    # Evidence at ranks 1 and 4 of two: (1 + 1/log2 5) / (1 + 1/log2 3).
    assert ndcg_at((1, 4), 2, 10) == pytest.approx((1 + 0.430677) / (1 + 0.630930), abs=1e-6)
    # Three pieces, two in the first two ranks, looked at to depth 2: the best that depth 2 allows.
    assert ndcg_at((1, 2), 3, 2) == 1.0
    assert ndcg_at((3,), 1, 2) == 0.0


def test_precision_is_the_share_of_what_was_returned():
    assert (precision(2, 8), precision(0, 5), precision(0, 0)) == (0.25, 0.0, 0.0)


@given(
    places=st.sets(st.integers(1, 60), max_size=8).map(sorted),
    missing=st.integers(0, 4),
    k=st.integers(1, 50),
    name=st.sampled_from(sorted(METRICS)),
)
def test_every_metric_is_a_share_that_never_falls_with_more_visible(places, missing, k, name):
    total = len(places) + missing
    if total:
        value = METRICS[name](places, total, k)
        assert 0.0 <= value <= 1.0 + 1e-12
        if name in ("recall", "hit", "all", "mrr"):
            assert METRICS[name](places, total, k + 1) >= value


def test_a_metric_has_a_name():
    assert Metric.named(" Recall@10 ") == Metric("recall", 10)
    assert str(Metric("ndcg", 5)) == "ndcg@5"
    assert Metric("mrr", 10).of((2,), 1) == 0.5
    for wrong in ("recall", "recall@0", "recall@", "map@10", "@5", "recall@ten"):
        with pytest.raises(InputError, match=r"such as recall@10"):
            Metric.named(wrong)


def test_an_estimate_holds_the_mean_and_repeats_with_the_seed():
    values = [0.0, 1.0] * 50
    found = estimate(values, seed=1)
    assert (found.mean, found.n) == (0.5, 100)
    assert found == estimate(values, seed=1)
    uneven = np.random.default_rng(0).random(30)
    assert estimate(uneven, seed=1).low != estimate(uneven, seed=2).low
    # The standard error of a share of one half of 100 is 0.05, so that 95 % lie within about 0.098 of it.
    assert found.low == pytest.approx(0.5 - 1.96 * 0.05, abs=0.015)
    assert found.high == pytest.approx(0.5 + 1.96 * 0.05, abs=0.015)


def test_questions_that_resemble_each_other_within_a_conversation_make_it_wider():
    values = [1.0] * 40 + [0.0] * 40 + [1.0] * 40 + [0.0] * 40
    groups = ["a"] * 40 + ["b"] * 40 + ["c"] * 40 + ["d"] * 40
    alone, together = estimate(values, 0), estimate(values, 0, groups)
    assert together.mean == alone.mean == 0.5
    assert together.high - together.low > 3 * (alone.high - alone.low)


def test_the_mean_of_conversations_of_unlike_size_is_that_of_their_questions():
    found = estimate([1.0, 1.0, 1.0, 0.0], 0, ["a", "a", "a", "b"])
    assert found.mean == 0.75
    assert (found.low, found.high) == (0.0, 1.0)


def test_a_paired_difference_sees_what_two_intervals_hide():
    base = np.random.default_rng(3).random(200)
    better = np.minimum(base + 0.05, 1.0)
    difference = paired(better, base, seed=0)
    one, other = estimate(better, 0), estimate(base, 0)
    assert difference.low > 0
    assert one.low < other.high
    assert difference.mean == pytest.approx(one.mean - other.mean)
    swapped = paired(base, better, seed=0)
    assert swapped.mean == pytest.approx(-difference.mean)
