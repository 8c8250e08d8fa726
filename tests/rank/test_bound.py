"""Whether an answer from the nearest memories alone is exact."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from salience import profiles
from salience.batch import Batch
from salience.ports import Calibration, Need
from salience.rank.bound import ceiling, exact
from salience.rank.profile import parse
from salience.rank.run import rank
from salience.records import Scope
from salience.testing.memories import NOW

MEMEMORY = profiles.load("mememory")


def batch_of(cosine, weight=None, complete=False):
    count = len(cosine)
    return Batch(
        np.array([f"{row:032x}" for row in range(count)], object),
        {
            "cosine": np.array(cosine, float),
            "weight": np.ones(count) if weight is None else np.array(weight, float),
            "updated_at": np.full(count, NOW.timestamp()),
            "expires_at": np.full(count, np.inf),
            "is_global": np.zeros(count, bool),
            "code": np.arange(count),
            "supersedes": np.full(count, -1),
        },
        complete=complete,
        beyond=min(cosine, default=1.0),
    )


def is_exact(batch, limit=2, profile=MEMEMORY, **values):
    need = Need(scope=Scope(), now=NOW, limit=limit, **values)
    return exact(profile, batch, need, rank(profile, batch, need))


def test_all_candidates_are_always_exact():
    assert is_exact(batch_of([0.1, 0.2], complete=True), limit=5)
    assert is_exact(batch_of([0.1, 0.2]), limit=0)


def test_the_last_hit_must_be_out_of_reach():
    assert is_exact(batch_of([0.9, 0.8, 0.5]))
    assert not is_exact(batch_of([0.9, 0.8, 0.5], weight=[1, 0.4, 1]))  # the second scores 0.5 itself
    assert not is_exact(batch_of([0.9, 0.8, 0.8]))  # one outside may tie


def test_an_answer_that_is_not_full_is_exact_only_above_the_least_score():
    assert not is_exact(batch_of([0.9, 0.8, 0.5]), limit=4)
    assert is_exact(batch_of([0.9, 0.8, 0.5]), limit=4, min_score=0.6)


def test_a_stage_that_lifts_scores_leaves_no_bound():
    lifting = parse(
        'name = "x"\nsummary = "x"\ncombine = "sum"\nstages = ["score", "spread", "trim"]\n[signal.similarity]\n', "x"
    )
    assert not is_exact(batch_of([0.9, 0.8, 0.1]), profile=lifting)


def test_a_calibrated_similarity_is_bounded_on_its_scale():
    calibration = Calibration((0.0, 0.5, 1.0), (0.0, 0.9, 1.0), 0.9, "test")
    need = Need(scope=Scope(), now=NOW, calibration=calibration, calibrated=True)
    assert ceiling(MEMEMORY, need, 0.5) == 0.9
    assert ceiling(profiles.load("memlayer"), need, 0.5) == 0.7 * 0.9 + 0.2 + 0.1


@given(
    inside=st.lists(st.tuples(st.floats(0.3, 1), st.floats(0.1, 1)), min_size=3, max_size=8),
    outside=st.lists(st.tuples(st.floats(-1, 0.3), st.floats(0.1, 1)), max_size=8),
)
@settings(max_examples=300)
def test_an_exact_answer_is_that_of_all_memories(inside, outside):
    cosine, weight = zip(*inside, *outside, strict=True)
    candidates = batch_of(cosine[: len(inside)], weight[: len(inside)])
    everyone = batch_of(cosine, weight, complete=True)
    need = Need(scope=Scope(), now=NOW, limit=2)
    found = rank(MEMEMORY, candidates, need)
    if exact(MEMEMORY, candidates, need, found):
        assert rank(MEMEMORY, everyone, need).rows.tolist() == found.rows.tolist()
