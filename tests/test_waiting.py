"""Work that is not waited for: as much as there are places for goes on at a time, late or not, and the rest waits."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from salience.waiting import LATE, OutOfTime, Turns, places, within


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


def test_so_much_goes_on_at_a_time_and_no_more():
    turns, under_way, most = Turns(2), [0], [0]
    noting, both = threading.Lock(), threading.Barrier(2)

    def work() -> None:
        with turns:
            with noting:
                under_way[0] += 1
                most[0] = max(most[0], under_way[0])
            both.wait(60)
            with noting:
                under_way[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == [2]
    assert under_way == [0]


def test_what_fails_leaves_its_turn():
    turns = Turns(1)
    for _ in range(2):
        with pytest.raises(ValueError, match="no"), turns:
            raise ValueError("no")
