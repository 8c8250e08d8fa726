"""Work that is not waited for: as much as there are places for goes on at a time, late or not, and the rest waits."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from salience.deadline import LATE, OutOfTime, places, within


def test_more_work_than_there_are_places_waits_its_turn():
    held = threading.BoundedSemaphore(2)
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda number: within(60, lambda: number, held), range(50)))
    assert done == list(range(50))


def test_nothing_is_begun_while_all_places_are_held_by_what_is_late_and_again_when_that_is_done():
    held, go, begun = places(), threading.Event(), []
    for _ in range(LATE):
        with pytest.raises(OutOfTime):
            within(0.001, lambda: go.wait(60), held)
    with pytest.raises(OutOfTime):
        within(0.001, lambda: begun.append(1), held)
    assert begun == []
    go.set()
    assert within(60, lambda: "done", held) == "done"


def test_what_the_work_raises_is_raised_and_without_time_none_is_begun():
    held, begun = places(), []
    with pytest.raises(ZeroDivisionError):
        within(60, lambda: 1 // 0, held)
    with pytest.raises(OutOfTime):
        within(0, lambda: begun.append(1), held)
    assert begun == []
