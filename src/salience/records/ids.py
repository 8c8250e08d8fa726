"""Ids of memories: 32 hexadecimal digits that sort by the time of storing."""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Mapping
from datetime import datetime
from typing import Final

ID: Final = re.compile("[0-9a-f]{32}")
"""A whole id."""
SHORT = 8
"""Length of a short id: the last, random digits of an id."""
WHOLE_OR_SHORT_ID: Final = re.compile(f"[0-9a-f]{{32}}|[0-9a-f]{{{SHORT}}}")
ONCE = "once:"
"""Prefix of idempotency keys that a client generates for a single call."""


class TimeOrderedIds:
    """Callable that returns a new id for an instant: 48 bits of milliseconds, 16 of sequence, 64 random.

    The ids of one object always increase, even if the clock steps back, so the memories of a call keep their order. The
    layout is that of UUID version 7 (RFC 9562) without the version bits.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def __call__(self, now: datetime) -> str:
        """Return the next id for the aware instant `now`."""
        with self._lock:
            self._last = max(int(now.timestamp() * 1000) << 16, self._last + 1)
            return f"{self._last:016x}{secrets.token_hex(8)}"


def cycles(links: Mapping[str, str]) -> list[list[str]]:
    """Return the cycles in a mapping from id to linked id, each as its ids in order."""
    found: list[list[str]] = []
    seen: set[str] = set()
    for start in links:
        path: dict[str, int] = {}
        one = start
        while one in links and one not in seen:
            seen.add(one)
            path[one] = len(path)
            one = links[one]
        if one in path:
            found.append(list(path)[path[one] :])
    return found


def short_id(id: str) -> str:
    """Return the last 8 characters of an id."""
    return id[-SHORT:]
