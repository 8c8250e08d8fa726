"""How often a caller may ask. It is counted in this process: each worker lets through as much."""

from __future__ import annotations

import time
from collections.abc import Callable

import limits
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from salience.errors import InputError, LimitError


def admission(rate: str | None) -> Callable[[str], None]:
    """Return what is called with the name of each caller, and raises `LimitError` where one asks too often.

    A window moves along: of any span as long as the rate's, no more than its number of requests is let through. What is
    turned away does not count.

    Args:
        rate: such as `600/minute`, `10/second`, `1000 per 5 minutes`; None: as often as they like.

    Raises:
        InputError: a rate that is none.
    """
    if rate is None:
        return lambda _: None
    most, limiter = _read(rate), MovingWindowRateLimiter(MemoryStorage())

    def admit(name: str) -> None:
        if limiter.hit(most, name):
            return
        wait = max(0.0, limiter.get_window_stats(most, name).reset_time - time.time())
        raise LimitError(f"rate: more than {rate} of one key. Ask again in {wait:.1f} s.", wait)

    return admit


def _read(rate: str) -> limits.RateLimitItem:
    try:
        found = limits.parse_many(rate)
    except ValueError:
        found = []
    if len(found) != 1 or found[0].amount < 1:
        raise InputError("server_rate", rate, "Write one number and a span: 600/minute, 10/second, 100 per 5 minutes.")
    return found[0]
