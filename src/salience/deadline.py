"""Work that is not waited for longer than it is worth."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as OutOfTime
from contextvars import copy_context
from email.utils import parsedate_to_datetime
from typing import Final, TypeVar

__all__ = ["LATE", "RETRY_AFTER_LIMIT", "OutOfTime", "Rest", "asked_to_wait", "places", "within"]

LATE: Final = 64
"""How much work of a kind may go on at a time, some of it after its deadline."""
RETRY_AFTER_LIMIT: Final = 30.0
"""Longest wait, seconds, that a server's Retry-After may ask of us."""
Worked = TypeVar("Worked")


def places() -> threading.BoundedSemaphore:
    """Return the places for work of one kind, which may go on after its deadline."""
    return threading.BoundedSemaphore(LATE)


def within(seconds: float, work: Callable[[], Worked], places: threading.BoundedSemaphore) -> Worked:
    """Return what `work` returns if it does so within `seconds`.

    Work that is late goes on by itself, at most `LATE` of it at a time, and keeps no process from ending.

    Args:
        seconds: how long to wait.
        work: what is to be done.
        places: taken by work of its kind that is going on.

    Raises:
        TimeoutError: it was not done in time, or no place was free for so long.
    """
    deadline = time.monotonic() + seconds
    if seconds <= 0 or not places.acquire(timeout=seconds):
        raise OutOfTime
    done: Future[Worked] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)
        finally:
            places.release()

    context = copy_context()  # what is noted of the caller's request holds for the work too
    threading.Thread(target=context.run, args=(run,), name="salience-deadline", daemon=True).start()
    return done.result(timeout=max(0.0, deadline - time.monotonic()))


class Rest:
    """A while for which something that failed is left alone.

    Args:
        seconds: how long; 0 for not at all.
        clock: returns seconds that only go up.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._until: float | None = None

    def begin(self) -> None:
        """Begin the rest, or begin it anew."""
        self._until = self._clock() + self._seconds

    @property
    def is_on(self) -> bool:
        """Whether it lasts."""
        return self._until is not None and self._clock() < self._until


def asked_to_wait(headers: Mapping[str, str]) -> float:
    """Return the wait, 0 to `RETRY_AFTER_LIMIT` seconds, that the headers of an answer ask for.

    A date counts from the answer's own date.
    """
    asked = headers.get("Retry-After", "")
    try:
        seconds = float(asked)
    except ValueError:
        seconds = _seconds_between(headers.get("Date", ""), asked)
    return min(max(seconds, 0.0), RETRY_AFTER_LIMIT) if seconds == seconds else 0.0


def _seconds_between(start: str, end: str) -> float:
    try:
        return (parsedate_to_datetime(end) - parsedate_to_datetime(start)).total_seconds()
    except (ValueError, TypeError):  # no date, or only one with a zone
        return 0.0
