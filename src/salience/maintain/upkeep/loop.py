"""Upkeep again and again, until it is told to stop."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol

from salience.errors import SalienceError
from salience.maintain.upkeep.story import embedding_pass, whole_pass
from salience.ports import Services
from salience.records import UpkeepReport

FIRST_RETRY: Final = 1.0
"""Seconds after which an embedder that did not answer is asked again; twice as many after each further failure."""
LAST_RETRY: Final = 600.0
"""Most seconds between two tries."""


class Stop(Protocol):
    """What ends the loop: a `threading.Event`, or something that waits as one does."""

    def wait(self, timeout: float, /) -> bool:
        """Wait for `timeout` seconds; return, at once when it comes, whether to stop."""
        ...


@dataclass(frozen=True, slots=True)
class Pace:
    """When passes are due.

    Attributes:
        every: from the start of one pass to that of the next; one that takes longer skips those that it runs into.
        monotonic: seconds on a clock that is never set.
        jitter: a number from 0 to 1 by chance, so that many processes do not ask a provider all at once.
    """

    every: timedelta
    monotonic: Callable[[], float] = time.monotonic
    jitter: Callable[[], float] = random.random

    def after(self, due: float) -> float:
        """Return when the pass after the one that was due at `due` is: on the grid of the first one, not before now."""
        seconds = self.every.total_seconds()
        return due + seconds * (max(0.0, self.monotonic() - due) // seconds + 1)

    def retry(self, failures: int) -> float:
        """Return the seconds until the next try after some failures in a row: at least 1, at most 600."""
        doubled = FIRST_RETRY * 2.0 ** min(failures - 1, 16)
        return min(doubled * (1 + self.jitter() / 4), LAST_RETRY)


def keep(
    current: Callable[[], Services],
    pace: Pace,
    stop: Stop,
    on_report: Callable[[UpkeepReport], None],
    on_error: Callable[[SalienceError], None],
) -> None:
    """Do a pass at once and then at its pace, until `stop` says so.

    A pass that another process is at is left to it. While the embedder does not answer, what is pending is tried again
    between the passes: after 1 s, 2 s, and so on up to 10 minutes. No failure of the services ends the loop.

    Args:
        current: returns the ports as they are now.
        pace: when passes are due.
        stop: waits between passes.
        on_report: called with what each pass did.
        on_error: called with what kept a pass from being done, a `LeaseError` among them.
    """
    due, failures, pause = pace.monotonic(), 0, 0.0
    while not stop.wait(pause):
        whole = pace.monotonic() >= due
        try:
            passed = (whole_pass if whole else embedding_pass)(current())
            on_report(passed.report)
            failures = 0 if passed.answers else failures + 1
        except SalienceError as error:
            on_error(error)
        due = pace.after(due) if whole else due
        pause = max(0.0, due - pace.monotonic())
        pause = min(pause, pace.retry(failures)) if failures else pause
