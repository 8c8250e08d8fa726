"""The access log: writes the changes that recalls make, in batches after the answers.

A recall queues a `Touch`, and a `LogRecall` if the recall log is on. One background thread per engine writes the queue
in one transaction, up to `LINGER` seconds or `BATCH` entries later, so that no recall waits for the disk. Entries that
cannot be written are retried.

Verbs that show or change counters (`get`, `list`, `history`, `export`, `explain`, `update`, ...), recalls whose profile
ranks by a queued counter, and recalls `as_of` an instant flush the queue first. Other recalls show counters as last
written. A process that is killed loses the touches of its last `LINGER` seconds, and no memories; `close` and the end
of the interpreter flush the queue. A forked child starts with an empty queue, since its parent writes the entries.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Set
from typing import Final
from weakref import WeakSet

from salience.errors import SalienceError
from salience.ports import LogRecall, Store, Touch

LINGER: Final = 0.25
"""Seconds that the first touch in the queue waits for others."""
BATCH: Final = 64
"""Touches that are written without waiting any longer."""
IDLE: Final = 5.0
"""Seconds without a touch after which the thread ends."""
RETRY: Final = 1.0
"""Seconds between attempts after a failure."""
LIMIT: Final = 10_000
"""Maximum touches queued after a failure; the oldest are dropped."""


class AccessLog:
    """A queue of touches and the thread that writes them. Safe to share between threads.

    Args:
        store: the store that gets the touches.
        linger: as `LINGER`.
    """

    def __init__(self, store: Store, linger: float = LINGER) -> None:
        self._store = store
        self._linger = linger
        self._reset()
        _LOGS.add(self)

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._writing: dict[str, threading.Lock] = {}  # by tenant: one that the store does not answer stops no other
        self._queue: list[Touch | LogRecall] = []
        self._columns: set[str] = set()
        self._has_thread = False
        self._failed: set[str] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, touch: Touch | LogRecall) -> bool:
        """Queue a change; return False if the last attempt to write earlier ones failed."""
        with self._changed:
            if self._closed:
                return False
            self._queue.append(touch)
            self._columns |= touch.columns
            starts, self._has_thread = not self._has_thread, True
            if len(self._queue) in (1, BATCH):
                self._changed.notify()
        if starts:
            try:
                threading.Thread(target=self._write_queue, name="salience-access-log", daemon=True).start()
            except RuntimeError:  # the interpreter is shutting down
                self._has_thread = False
                self.flush()
        return not self._failed

    def flush(self, columns: Set[str] | None = None, tenant: str | None = None) -> bool:
        """Write the queue, or that of a tenant, if any touch in it changes one of `columns` (None: any column).

        Returns False if some touches could not be written. They stay in the queue.
        """
        if not self._queue or (columns is not None and self._columns.isdisjoint(columns)):
            return True
        queued = dict.fromkeys(touch.scope.tenant for touch in list(self._queue))
        written = [self._write(name) for name in queued if tenant in (None, name)]
        return all(written)

    def _write(self, tenant: str) -> bool:
        """Write the touches of a tenant; return False if the store could not."""
        with self._changed:
            writing = self._writing.setdefault(tenant, threading.Lock())
        with writing:
            touches = [touch for touch in list(self._queue) if touch.scope.tenant == tenant]
            if not touches:  # another thread wrote them
                return tenant not in self._failed
            written: set[int] = set()
            try:
                self._store.apply(touches)
                written = set(map(id, touches))
            except SalienceError:
                pass
            with self._changed:
                self._queue = [touch for touch in self._queue if id(touch) not in written][-LIMIT:]
                self._columns = set().union(*(touch.columns for touch in self._queue))
                (self._failed.discard if written else self._failed.add)(tenant)
        return tenant not in self._failed

    def close(self) -> None:
        """Write the queue, drop the touches that cannot be written, and end the thread, which holds the store."""
        self.flush()
        with self._changed:
            self._closed = True
            self._queue.clear()
            self._changed.notify_all()

    def _write_queue(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or bool(self._queue), IDLE)
                self._has_thread = bool(self._queue)
                if not self._has_thread:
                    return
                self._changed.wait_for(
                    lambda: self._closed or (not self._failed and len(self._queue) >= BATCH),
                    RETRY if self._failed else self._linger,
                )
            self.flush()


_LOGS: Final[WeakSet[AccessLog]] = WeakSet()


def flush_all() -> bool:
    """Write the queues of all engines of this process; return False if some touches could not be written."""
    written = [log.flush() for log in list(_LOGS)]
    return all(written)


def _reset_all() -> None:
    for log in list(_LOGS):
        log._reset()


atexit.register(flush_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_all)
