"""Score details: values by label, arithmetic, and that they are plain frozen values."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, replace

import pytest

from salience.records import Part, ScoreDetail, Via

PARTS = (Part("cosine", 0.5, 0.6, 0.3, "sum"), Part("weight", 0.25, 0.5, 0.5, "product"))
DETAIL = ScoreDetail(PARTS, 0.15, Via("a" * 32, 0.5, 0.5, 1, "neighbour"))


def test_labels_are_attributes():
    assert (DETAIL.cosine, DETAIL.weight) == (0.5, 0.25)
    with pytest.raises(AttributeError, match="no part 'importance'"):
        _ = DETAIL.importance


def test_the_score_recomputes_from_the_parts_or_from_the_parent():
    assert replace(DETAIL, via=None).recompute() == pytest.approx(0.15)
    assert DETAIL.recompute() == 0.25


def test_it_is_frozen_and_can_be_copied_and_pickled():
    with pytest.raises(FrozenInstanceError):
        DETAIL.final = 1.0
    assert pickle.loads(pickle.dumps(DETAIL)) == copy.deepcopy(DETAIL) == DETAIL  # noqa: S301 - its own
    assert hash(DETAIL) == hash(copy.copy(DETAIL))
