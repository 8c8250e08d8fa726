"""The state between two stages: another one each time, and the same where a stage changes nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from salience.batch import Batch
from salience.rank import profiles
from salience.rank.stages import ALIVE, NOBODY, State
from tests.contract.memories import criteria


@pytest.fixture
def state() -> State:
    batch = Batch(np.array(["a", "b", "c"], object))
    asked = criteria(now=datetime(2026, 5, 1, tzinfo=UTC))
    return State.start(profiles.load("salience"), batch, asked)


def test_what_drops_nothing_changes_nothing(state):
    assert state.keep_where(np.array([True, True, True])) is state
    assert state.drop({}) is state


def test_what_falls_is_noted_with_the_stage_and_the_row_because_of_which_it_fell(state):
    kept = replace(state, step=4).keep_where(np.array([True, False, True]))
    left = replace(kept, step=5).drop({0: 2})
    assert kept.rows.tolist() == [0, 2]
    assert left.rows.tolist() == [2]
    assert left.dropped_at.tolist() == [5, 4, ALIVE]
    assert left.by.tolist() == [2, NOBODY, NOBODY]
    assert state.dropped_at.tolist() == [ALIVE] * 3
