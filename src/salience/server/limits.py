"""Rate limit per caller. Each worker process counts separately."""

from __future__ import annotations

import time
from collections.abc import Callable

import limits
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from salience.errors import InputError, LimitError


def rate_limiter(rate: str | None) -> Callable[[str], None]:
    """Return a function that takes the name of a caller and raises `LimitError` above the rate.

    The window is a moving one; rejected requests do not count.

    Args:
        rate: such as `600/minute`, `10/second` or `1000 per 5 minutes`; None for no limit.

    Raises:
        InputError: an invalid rate.
    """
    if rate is None:
        return lambda _: None
    try:
        found = limits.parse_many(rate)
    except ValueError:
        found = []
    if len(found) != 1 or found[0].amount < 1:
        raise InputError("server_rate", rate, "Write one number and a span: 600/minute, 10/second, 100 per 5 minutes.")
    limit, limiter = found[0], MovingWindowRateLimiter(MemoryStorage())

    def check(name: str) -> None:
        if not limiter.hit(limit, name):
            wait = max(0.0, limiter.get_window_stats(limit, name).reset_time - time.time())
            raise LimitError(f"rate: more than {rate} with one key. Retry in {wait:.1f} s.", wait)

    return check
