"""Whether an answer from the nearest memories alone is exact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from salience.batch import Batch
from salience.ports import Calibration
from salience.rank import bounds, profiles
from salience.rank.bounds import ceiling, pruning
from salience.rank.profile import parse
from salience.rank.run import rank
from salience.rank.signals import SIGNALS
from salience.records import Intent
from tests.contract.memories import NOW, criteria

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
    asked = criteria(now=NOW, limit=limit, **values)
    return bounds.is_exact(rank(profile, batch, asked), None)


def test_all_candidates_are_always_exact():
    assert is_exact(batch_of([0.1, 0.2], complete=True), limit=5)
    assert is_exact(batch_of([0.1, 0.2]), limit=0)


def test_the_last_hit_must_be_out_of_reach():
    assert is_exact(batch_of([0.9, 0.8, 0.5]))
    assert not is_exact(batch_of([0.9, 0.8, 0.5], weight=[1, 0.4, 1]))  # the second scores 0.5 itself
    assert not is_exact(batch_of([0.9, 0.8, 0.8]))  # one outside may tie


def test_candidates_out_of_an_approximate_index_prove_nothing():
    batch = replace(batch_of([0.9, 0.8, 0.5]), approximate=True)
    assert bounds.is_settled(rank(MEMEMORY, batch, criteria(now=NOW, limit=2)), None)
    assert not is_exact(batch)
    assert not is_exact(replace(batch_of([0.9, 0.8, 0.5]), approximate=True), limit=4, min_score=0.6)
    assert is_exact(batch, limit=0)


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
    asked = criteria(now=NOW, scale=calibration)
    assert ceiling(MEMEMORY, asked, 0.5) == 0.9
    assert ceiling(profiles.load("memlayer"), asked, 0.5) == 0.7 * 0.9 + 0.2 + 0.1


@given(
    inside=st.lists(st.tuples(st.floats(0.3, 1), st.floats(0.1, 1)), min_size=3, max_size=8),
    outside=st.lists(st.tuples(st.floats(-1, 0.3), st.floats(0.1, 1)), max_size=8),
)
@settings(max_examples=300)
def test_an_exact_answer_is_that_of_all_memories(inside, outside):
    cosine, weight = zip(*inside, *outside, strict=True)
    candidates = batch_of(cosine[: len(inside)], weight[: len(inside)])
    everyone = batch_of(cosine, weight, complete=True)
    asked = criteria(now=NOW, limit=2)
    found = rank(MEMEMORY, candidates, asked)
    if bounds.is_exact(found, None):
        assert rank(MEMEMORY, everyone, asked).rows.tolist() == found.rows.tolist()


def summed(stages, signals="[signal.similarity]\n"):
    head = 'name = "x"\nsummary = "x"\ncombine = "sum"\n'
    return parse(f"{head}stages = {stages.split()!r}\n{signals}", "x")


def pruned(profile, **values):
    return pruning(profile, criteria(now=NOW, vector=np.ones(1, np.float32), **values))


def test_what_is_found_of_a_profile_once_holds_for_its_weights_and_intent_alone():
    head = 'name = "x"\nsummary = "x"\ncombine = "sum"\nstages = ["score", "trim"]\n'
    tables = '[signal.similarity]\n[intent.time]\nwords = ["when"]\nweights = { similarity = 0.25 }\n'
    profile = parse(head + tables, "x")
    when = Intent("time", ("when",))
    assert [pruned(profile).similarity for _ in range(2)] == [1.0, 1.0]
    assert pruned(profile, intent=when).similarity == 0.25
    assert pruned(profile.with_weights({"similarity": 0.5})).similarity == 0.5
    assert pruned(profile.with_weights({"similarity": 0.5}), intent=when).similarity == 0.5
    assert pruned(profile).similarity == 1.0


def test_the_shipped_profiles_that_add_up_are_pruned():
    assert {name for name in profiles.NAMES if pruned(profiles.load(name)) is not None} == {
        "salience",
        "precise",
        "zeromemory",
        "memlayer",
    }


@pytest.mark.parametrize(
    "stages",
    [
        "score near_duplicate threshold trim",  # a hit would absorb what falls later
        "score near_duplicate cut_off trim",
        "score same_statement threshold trim",
        "score nonzero cut_off trim",  # what has a chance is counted before
        "score near_duplicate replaced trim",  # what has collapsed would take over no score
        "superseded score trim",
        "same_fact score trim",
        "importance_floor score trim",
        "similarity_floor score cut_off trim",
        "score spread trim",
    ],
)
def test_a_profile_in_which_each_memory_has_a_say_is_not_pruned(stages):
    assert pruned(summed(stages)) is None


def test_a_need_in_which_each_memory_has_a_say_is_not_pruned():
    profile = profiles.load("salience")
    assert pruned(replace(profile, candidates=(1, 10))) is None
    assert pruned(profile, limit=0) is None
    assert pruned(profile, terms=("move",), anchor=("move",)) is None
    assert pruned(profile) is not None


def test_signals_of_which_no_bound_is_known_are_not_pruned():
    assert pruned(summed("score trim", "[signal.weight]\n")) is None
    assert pruned(summed("score trim", "[signal.similarity]\n[signal.graph_proximity]\n")) is None
    factor = '[signal.similarity]\n[signal.lexical]\ncombine = "product"\n'
    assert pruned(summed("score trim", factor)) is not None


def test_the_rest_and_the_factors_are_at_the_top_of_their_range():
    signals = """
[signal.similarity]
weight = 0.5
[signal.importance]
weight = 0.2
[signal.recency]
weight = 0.1
half_life_days = 30
[signal.weight]
weight = 0.4
[signal.importance_multiplier]
weight = 3
combine = "product"
[signal.priming]
combine = "product"
"""
    found = pruned(summed("expired score replaced trim", signals), limit=3)
    assert (found.similarity, found.context_similarity) == (0.5, 0)
    assert [(bound.column, bound.most.max()) for bound in found.by_column] == [
        ("importance", pytest.approx(0.2)),
        ("updated_at", pytest.approx(0.1)),
    ]
    assert found.rest == pytest.approx(0.4)
    assert found.most == pytest.approx(2**3 * 2 * 1.01**2)
    assert found.drops == {"expired"}
    assert found.heirs
    assert not pruned(summed("expired score trim", signals), limit=3).heirs
    assert found.keep >= 3


@pytest.mark.parametrize(
    ("signal", "column", "tiers"),
    [
        ("[signal.importance]\nweight = 0.3\nfloor = 0.2", "importance", 1),
        ('[signal.recency]\nclock = "accessed_at"\nhalf_life_days = 0.5', "accessed_at", 1),
        ("[signal.recency]\nrate_per_hour = { working = 0.5, episodic = 0.01, semantic = 0.0 }", "updated_at", 3),
    ],
)
@given(data=st.data())
def test_a_bound_by_column_is_never_below_the_value(signal, column, tiers, data):
    profile = summed("score trim", "[signal.similarity]\n" + signal)
    bound = pruned(profile).by_column[0]
    assert (bound.column, len(bound.most)) == (column, tiers)
    low, high = (0.0, 1.0) if column == "importance" else (NOW.timestamp() - 2e8, NOW.timestamp() + 1e6)
    value, tier = data.draw(st.floats(low, high)), data.draw(st.integers(0, 2))
    term = profile.terms[1]
    batch = Batch(np.array(["a"], object), {column: np.array([value]), "tier": np.array([tier])})
    exact = term.weight * SIGNALS[term.signal].formula(batch, criteria(now=NOW), **term.parameters)[0]
    step = int(np.clip((value - bound.low) / bound.width, 0, bound.most.shape[1] - 1))
    assert bound.most[tier if tiers > 1 else 0, step] >= exact - 1e-9


def beside(cosine, floor, participants=1000, **values):
    """Return a batch of the best alone, and the criteria of its ranking: each other scores less than `floor`."""
    batch = replace(batch_of(cosine), floor=floor, participants=participants)
    return batch, criteria(now=NOW, vector=np.ones(1, np.float32), **values)


def settled(profile, cosine, floor, **values):
    batch, asked = beside(cosine, floor, **values)
    return bounds.is_exact(rank(profile, batch, asked), pruning(profile, asked))


def test_the_best_alone_are_exact_if_what_is_left_out_scores_less_than_the_last_hit():
    profile = summed("score trim")
    assert settled(profile, [0.9, 0.8, 0.5], floor=0.8, limit=2)
    assert not settled(profile, [0.9, 0.8, 0.5], floor=0.81, limit=2)
    assert not settled(profile, [0.9, 0.8, 0.5], floor=0.1, limit=4)
    assert settled(profile, [0.9, 0.8, 0.5], floor=-np.inf, limit=4)


def test_a_pruned_answer_that_is_not_full_is_exact_only_above_the_minimum():
    least = summed("score threshold trim")
    assert settled(least, [0.9, 0.8], floor=0.5, limit=4, min_score=0.6)
    assert not settled(least, [0.9, 0.8], floor=0.7, limit=4, min_score=0.6)
    assert not settled(summed("score trim"), [0.9, 0.8], floor=0.5, limit=4, min_score=0.6)
    rule = "[signal.similarity]\n[stage.cut_off]\nalone = 0.3\ngrowth = 0.0\nshare = 0.5\n"
    cut = summed("score cut_off trim", rule)
    assert settled(cut, [0.9, 0.8], floor=0.44, limit=4)  # half of the best is asked for
    assert not settled(cut, [0.9, 0.8], floor=0.46, limit=4)
    assert settled(cut, [0.4, 0.35], floor=0.29, limit=4)  # more than chance is asked for
    assert not settled(cut, [0.4, 0.35], floor=0.31, limit=4)
