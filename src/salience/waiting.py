"""Work that is not waited for longer than it is worth."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as OutOfTime
from typing import Final, TypeVar

__all__ = ["LATE", "OutOfTime", "places", "within"]

LATE: Final = 8
"""How much work of a kind may go on after its deadline."""
Worked = TypeVar("Worked")


def places() -> threading.BoundedSemaphore:
    """Return the places for work of one kind that goes on after its deadline."""
    return threading.BoundedSemaphore(LATE)


def within(seconds: float, work: Callable[[], Worked], places: threading.BoundedSemaphore) -> Worked:
    """Return what `work` returns if it does so within `seconds`.

    Work that is late goes on by itself, at most `LATE` of it at a time, and keeps no process from ending.

    Args:
        seconds: how long to wait.
        work: what is to be done.
        places: taken by work of its kind that is going on.

    Raises:
        TimeoutError: it was not done in time, or too much is late already.
    """
    if seconds <= 0 or not places.acquire(blocking=False):
        raise OutOfTime
    done: Future[Worked] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)
        finally:
            places.release()

    threading.Thread(target=run, name="salience-deadline", daemon=True).start()
    return done.result(timeout=seconds)
