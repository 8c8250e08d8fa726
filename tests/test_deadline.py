"""Calls with a time limit: at most so many of a kind run at a time, late or not, and others wait for a slot."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from salience.deadline import SLOTS, slots, within
from waiting import PATIENCE


def test_calls_wait_for_a_free_slot():
    two = threading.BoundedSemaphore(2)
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda number: within(60, lambda: number, two), range(50)))
    assert done == list(range(50))


def test_no_call_begins_while_late_calls_hold_all_slots():
    held, go, begun = slots(), threading.Event(), []
    for _ in range(SLOTS):
        with pytest.raises(TimeoutError):
            within(0.001, lambda: go.wait(PATIENCE), held)
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


def test_the_process_ends_after_its_late_calls():
    code = (
        "import threading, time\n"
        "from salience.deadline import slots, within\n"
        "def work():\n"
        "    time.sleep(0.2)\n"
        "    print('done', flush=True)\n"
        "try:\n"
        "    within(0.001, work, slots())\n"
        "except TimeoutError:\n"
        "    print('late', flush=True)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert result.stdout.split() == ["late", "done"]
