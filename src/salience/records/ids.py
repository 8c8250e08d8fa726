"""Identifiers of memories: 32 hexadecimal digits that sort by the time of storing."""

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
"""Length of a short id: the last digits of an id, which are random."""
ONCE = "once:"
"""Start of the idempotency keys that clients make for a single call: such a key is the call's, and is not told."""


class TimeOrderedIds:
    """Callable that returns a new id for an instant: 48 bits of milliseconds, 16 of sequence, 64 random.

    Ids made by one object always increase, also when the clock stands still or steps back, so a batch of memories
    sorts in the order in which it was given. The layout follows UUID version 7 (RFC 9562) without its version bits.
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
    """Return the cycles among links from an id to an id, each as its ids in order; an id that links to itself is one.

    Args:
        links: of each id the one that it links to.
    """
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
    """Return the short form of an id, for people to read: its last 8 characters."""
    return id[-SHORT:]
