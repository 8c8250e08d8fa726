"""Work that is not waited for: what is on time takes no place from what is late."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from salience.waiting import LATE, OutOfTime, places, within


def test_work_that_is_on_time_takes_no_place_however_much_goes_on_at_once():
    many, held = 3 * LATE, places()
    together = threading.Barrier(many)
    with ThreadPoolExecutor(many) as pool:
        done = list(pool.map(lambda number: within(60, lambda: (together.wait(60), number)[1], held), range(many)))
    assert done == list(range(many))


def test_no_more_is_begun_while_so_much_is_late_and_again_when_it_is_done():
    held, go = places(), threading.Event()
    for _ in range(LATE):
        with pytest.raises(OutOfTime):
            within(0.001, lambda: go.wait(60), held)
    begun = []
    with pytest.raises(OutOfTime):
        within(60, lambda: begun.append(1), held)
    assert begun == []
    go.set()
    for thread in threading.enumerate():
        if thread.name == "salience-deadline":
            thread.join(60)
    assert within(60, lambda: "done", held) == "done"


def test_what_it_raises_is_raised_and_without_time_nothing_is_begun():
    held, begun = places(), []
    with pytest.raises(ZeroDivisionError):
        within(60, lambda: 1 // 0, held)
    with pytest.raises(OutOfTime):
        within(0, lambda: begun.append(1), held)
    assert begun == []
