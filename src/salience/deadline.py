"""Deadlines: calls with a time limit, pauses after failures, and `Retry-After`."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextvars import copy_context
from email.utils import parsedate_to_datetime
from typing import Final, TypeVar

SLOTS: Final = 64
"""Maximum concurrent calls of one kind, including late ones."""
RETRY_AFTER_LIMIT: Final = 30.0
"""Longest accepted wait of a Retry-After header, seconds."""
LAST_WAIT: Final = 5.0
"""Longest wait for late calls at the end of the process, seconds."""
_THREAD: Final = "salience-deadline"
Result = TypeVar("Result")


def slots() -> threading.BoundedSemaphore:
    """Return the slots for calls of one kind."""
    return threading.BoundedSemaphore(SLOTS)


def within(seconds: float, work: Callable[[], Result], slots: threading.BoundedSemaphore) -> Result:
    """Return the result of `work`, which runs in a daemon thread, if it is done within `seconds`.

    A late call continues in its thread and occupies its slot.

    Args:
        seconds: time limit; at 0 or less, `work` is not called.
        work: the call.
        slots: the slots for calls of this kind.

    Raises:
        TimeoutError: the call is late, or no slot was free in time.
    """
    deadline = time.monotonic() + seconds
    if seconds <= 0 or not slots.acquire(timeout=seconds):
        raise TimeoutError
    done: Future[Result] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)
        finally:
            slots.release()

    context = copy_context()  # the request's log context applies to the call too
    threading.Thread(target=context.run, args=(run,), name=_THREAD, daemon=True).start()
    return done.result(timeout=max(0.0, deadline - time.monotonic()))


def _finish_late_calls() -> None:
    """Wait for late calls, since the process aborts if it ends while one of them is in native code of a model."""
    end = time.monotonic() + LAST_WAIT
    for thread in threading.enumerate():
        if thread.name == _THREAD:
            thread.join(max(0.0, end - time.monotonic()))


atexit.register(_finish_late_calls)


class Pause:
    """A pause after a failure, during which the caller does not try again.

    Args:
        seconds: length of the pause; 0 for none.
        clock: returns monotonic seconds.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._until: float | None = None

    def begin(self) -> None:
        """Begin or restart the pause."""
        self._until = self._clock() + self._seconds

    @property
    def is_on(self) -> bool:
        """Whether the pause is on."""
        return self._until is not None and self._clock() < self._until


def retry_after(headers: Mapping[str, str]) -> float:
    """Return the wait, 0 to `RETRY_AFTER_LIMIT` seconds, of the Retry-After header of a response; 0 without one.

    A date counts from the response's own Date.
    """
    value = headers.get("Retry-After", "")
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(value) - parsedate_to_datetime(headers.get("Date", ""))).total_seconds()
        except (ValueError, TypeError):  # no date, or one of them without a zone
            seconds = 0.0
    return min(max(seconds, 0.0), RETRY_AFTER_LIMIT) if seconds == seconds else 0.0
