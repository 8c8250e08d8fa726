"""A score taken apart: its parts are made when somebody looks at them, and nobody can tell."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, fields, replace

import pytest

from salience.records import Part, ScoreDetail, Via, score_detail

PARTS = (Part("cosine", 0.5, 0.6, 0.3, "sum"), Part("weight", 0.25, 0.5, 0.5, "product"))
VIA = Via("a" * 32, 0.5, 0.5, 1, "neighbour")
ASKED = {
    "equality": lambda detail: detail == ScoreDetail(PARTS, 0.15, VIA),
    "hash": hash,
    "repr": repr,
    "parts": lambda detail: detail.parts,
    "label": lambda detail: (detail.cosine, detail.weight),
    "dictionary": ScoreDetail.as_dict,
    "arithmetic": lambda detail: replace(detail, via=None).recompute(),
    "pickle": lambda detail: pickle.loads(pickle.dumps(detail)),  # noqa: S301 - its own
    "copy": copy.deepcopy,
    "fields": lambda detail: [getattr(detail, field.name) for field in fields(detail)],
}


@pytest.fixture
def looked() -> list[int]:
    """Grows each time that the parts are made."""
    return []


@pytest.fixture
def later(looked: list[int]) -> ScoreDetail:
    """A score whose parts are still to be made."""

    def made() -> tuple[Part, ...]:
        looked.append(1)
        return PARTS

    return score_detail(made, 0.15, VIA)


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED.keys())
def test_it_is_as_one_whose_parts_are_there(later, asked):
    assert asked(later) == asked(ScoreDetail(PARTS, 0.15, VIA))


def test_parts_are_made_once_and_only_for_who_looks(later, looked):
    assert (later.final, later.via, looked) == (0.15, VIA, [])
    assert later.parts is later.parts
    assert later.cosine == 0.5
    assert looked == [1]


def test_it_is_frozen_and_has_no_other_names(later):
    with pytest.raises(FrozenInstanceError):
        later.final = 1.0
    with pytest.raises(FrozenInstanceError):
        later.parts = ()
    with pytest.raises(AttributeError, match="no part 'importance'"):
        _ = later.importance
