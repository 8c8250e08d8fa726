"""Calls with a time limit: at most so many of a kind run at a time, late or not, and others wait for a slot."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from salience.deadline import SLOTS, slots, within


def test_calls_wait_for_a_free_slot():
    two = threading.BoundedSemaphore(2)
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda number: within(60, lambda: number, two), range(50)))
    assert done == list(range(50))


def test_no_call_begins_while_late_calls_hold_all_slots():
    held, go, begun = slots(), threading.Event(), []
    for _ in range(SLOTS):
        with pytest.raises(TimeoutError):
            within(0.001, lambda: go.wait(60), held)
    with pytest.raises(TimeoutError):
        within(0.001, lambda: begun.append(1), held)
    assert begun == []
    go.set()
    assert within(60, lambda: "done", held) == "done"


def test_errors_of_the_call_are_raised_and_without_time_it_does_not_begin():
    held, begun = slots(), []
    with pytest.raises(ZeroDivisionError):
        within(60, lambda: 1 // 0, held)
    with pytest.raises(TimeoutError):
        within(0, lambda: begun.append(1), held)
    assert begun == []
