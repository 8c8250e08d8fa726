"""Models that help a write where they can, and never hold it up or make it fail."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from salience.deadline import within

PART: Final = 8
"""How much is asked at once, so that what comes in time is of use even if the rest is late."""
Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


def asked(
    items: Sequence[Asked],
    ask: Callable[[Sequence[Asked]], Sequence[Answer | None]],
    seconds: float,
    places: threading.BoundedSemaphore,
) -> list[Answer | None]:
    """Return an answer for each item, or None; all are None from the first part on that fails or is late.

    Never raises.

    Args:
        items: what is asked about.
        ask: returns an answer for each of some items; what it raises is a failure.
        seconds: how long to wait for all.
        places: for work of its kind that goes on after that.
    """
    until, answers = time.monotonic() + seconds, list[Answer | None]()
    for start in range(0, len(items), PART):
        part = items[start : start + PART]
        try:
            found = within(until - time.monotonic(), partial(ask, part), places)
            answers += [answer for _, answer in zip(part, found, strict=True)]
        except Exception:  # of whatever kind: the write goes on without it
            break
    return answers[: len(items)] + [None] * (len(items) - len(answers))
