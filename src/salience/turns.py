"""Turns at what Python's lock has threads do one after the other: a few at a time get more done than all at once."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Final

PATIENCE: Final = 0.05
"""Seconds of waiting after which a thread is handed the next turn."""
MOST: Final = 4
"""Turns at a time at most, on however many processors: more than half of a recall needs Python's lock."""


@dataclass(slots=True, eq=False)
class _Waiting:
    """A thread that waits.

    Attributes:
        since: the instant from which on it does.
        sleep: a lock that it waits for; it is let go of to wake the thread.
        is_handed: whether a turn is its own already.
    """

    since: float
    sleep: threading.Lock = field(default_factory=threading.Lock)
    is_handed: bool = False

    def __post_init__(self) -> None:
        self.sleep.acquire()

    def wake(self) -> None:
        """Wake the thread, unless it was woken and has not looked yet."""
        if self.sleep.locked():
            self.sleep.release()


class Turns:
    """A context manager that so many threads are in at a time; it tells each whether it had to wait.

    Whoever leaves may come again at once, before those who wait. A thread that waits has to be woken first, which takes
    a while in which its processor would have nothing to do: to hand each turn on costs a fifth of what is done. So
    that nobody waits for long, a thread that has waited for its `patience` is handed the next turn.

    Args:
        count: how many.
        patience: seconds.
        clock: returns seconds that only go up.
    """

    def __init__(self, count: int, patience: float = PATIENCE, clock: Callable[[], float] = time.monotonic) -> None:
        self._count = count
        self._patience = patience
        self._clock = clock
        self.forget()

    def forget(self) -> None:
        """Begin anew, as after a fork: who waits or has a turn is a thread of the parent."""
        self._looking = threading.Lock()
        self._free = self._count
        self._waiting: deque[_Waiting] = deque()

    def __enter__(self) -> bool:
        """Return whether it was waited for."""
        with self._looking:
            if self._free:
                self._free -= 1
                return False
            own = _Waiting(self._clock())
            self._waiting.append(own)
        try:
            while not self._has_turn(own):
                own.sleep.acquire()
        except BaseException:
            self._give_up(own)
            raise
        return True

    def __exit__(self, *_: object) -> None:
        with self._looking:
            if self._waiting and self._clock() - self._waiting[0].since >= self._patience:
                first = self._waiting.popleft()
                first.is_handed = True
                first.wake()
            else:
                self._free += 1
                self._wake_first()

    def _has_turn(self, own: _Waiting) -> bool:
        with self._looking:
            if not own.is_handed and self._free:
                self._free -= 1
                self._waiting.remove(own)
                own.is_handed = True
                self._wake_first()
            return own.is_handed

    def _wake_first(self) -> None:
        """Wake who has waited longest where a turn is free; whoever takes one sees to the next."""
        if self._free and self._waiting:
            self._waiting[0].wake()

    def _give_up(self, own: _Waiting) -> None:
        """Let go of the turn of a thread that was interrupted, or of its place among those who wait."""
        with self._looking:
            if not own.is_handed:
                self._waiting.remove(own)
                self._wake_first()
                return
        self.__exit__()


@cache
def turns() -> Turns:
    """Return the turns of this process at what uses up a processor: as many as it may use, `MOST` at most."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    made = Turns(min(usable, MOST))
    os.register_at_fork(after_in_child=made.forget)
    return made
