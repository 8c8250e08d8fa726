"""Touches that wait to be written, in the order of their recalls, and the thread that writes them."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import groupby
from typing import Final
from weakref import WeakSet, WeakValueDictionary

from salience.errors import SalienceError
from salience.ports import Store, Touch
from salience.records import Memory, recalled

LINGER: Final = 0.05
"""Seconds for which the first touch waits for others to be written with it."""
ENOUGH: Final = 64
"""Touches that are waited for no longer."""
IDLE: Final = 5.0
"""Seconds without a touch after which the thread ends."""
REST: Final = 1.0
"""Seconds after which what could not be written is tried again."""
KEPT: Final = 10_000
"""Most touches that are kept to be tried again; the oldest give way."""
Start = Callable[[Callable[[], None]], None]
"""Begins to do something in the background."""


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """A touch, and the handle on the store that it is written through."""

    store: Store
    touch: Touch

    @property
    def tenant(self) -> str:
        """Whose memories it touches; those of one tenant are written together."""
        return self.touch.scope.tenant

    @property
    def columns(self) -> Iterator[str]:
        """The columns of a batch that it changes."""
        touch = self.touch
        moved = {
            "accessed_at": touch.accessed_at is not None,
            "access_count": touch.access_count != 0,
            "importance": touch.importance != 0,
            "turns_since_activation": touch.scope.session_key is not None,
        }
        return (name for name, is_moved in moved.items() if is_moved)


class Touches:
    """Touches of one store in this process. Safe to share between threads; a fork begins with none.

    Args:
        start: begins to write in the background; None for a thread that keeps no process from ending.
        linger: as `LINGER`.
    """

    def __init__(self, start: Start | None = None, linger: float = LINGER) -> None:
        self._start = _in_a_thread if start is None else start
        self._linger = linger
        self.forget()
        _QUEUES.add(self)

    def forget(self) -> None:
        """Let go of everything, as after a fork: what waits is the parent's to write, and so is its thread."""
        self._changed = threading.Condition(threading.Lock())
        self._writing = threading.Lock()
        self._is_watched = False
        self._waiting: list[Waiting] = []
        self._of: dict[tuple[str, str], list[Touch]] = {}
        self._columns: set[str] = set()
        self._moves = 0  # odd while some are being written
        self._failure: SalienceError | None = None
        self._is_resting = False

    def add(self, store: Store, touch: Touch) -> None:
        """Have a touch written soon, by the background or whoever settles before."""
        with self._changed:
            self._put(Waiting(store, touch))
            is_new, self._is_watched = not self._is_watched, True
            if not is_new and (len(self._waiting) == 1 or len(self._waiting) >= ENOUGH):
                self._changed.notify()
        if is_new:
            self._begin()

    def _begin(self) -> None:
        try:
            self._start(self._watch)
        except RuntimeError:  # no thread can begin any more: the process is about to end
            self._is_watched = False
            self.settle()

    def failure(self) -> SalienceError | None:
        """Return why touches that are still to be written could not be, once for each time that it was tried."""
        failure, self._failure = self._failure, None
        return failure

    def holds(self, tenant: str, id: str) -> bool:
        """Return whether a touch of a memory waits."""
        return (tenant, id) in self._of

    def moves(self, columns: Set[str]) -> bool:
        """Return whether a touch that waits changes one of some columns."""
        return not self._columns.isdisjoint(columns)

    def __len__(self) -> int:
        return len(self._waiting)

    def settle(self) -> bool:
        """Write all that waits, and return whether it is written; what is not stays, and `failure` tells of it."""
        if not self._waiting:
            return True
        with self._writing:
            with self._changed:
                due = list(self._waiting)
                self._moves += 1
            left = due
            try:
                left = [kept for run in _runs(due) for kept in self._written(run)]
            finally:
                self._replace(due, left)
        return not left

    def leave(self, store: Store) -> None:
        """Drop what could not be written through a handle that is to be closed."""
        with self._changed:
            self._refill([one for one in self._waiting if one.store is not store])

    def shown(self, read: Callable[[], Sequence[Memory]]) -> list[Memory]:
        """Return the memories that `read` returns with the touches that wait, each counted once.

        A write that goes on meanwhile may or may not be seen by `read`, which is then done again.
        """
        moves = self._moves
        if moves % 2 == 0:
            found, waiting = read(), self._of
            if self._moves == moves:
                return [_touched(memory, waiting) for memory in found] if waiting else list(found)
        with self._writing:
            return [_touched(memory, self._of) for memory in read()]

    def _watch(self) -> None:
        """Write what comes, until nothing has come for a while."""
        while self._is_due():
            self.settle()

    def _is_due(self) -> bool:
        """Wait until touches are to be written; False where none came for so long that nobody is to wait for them."""
        with self._changed:
            self._is_watched = self._changed.wait_for(lambda: bool(self._waiting), IDLE)
            if self._is_resting:
                self._changed.wait(REST)
            elif self._is_watched:
                self._changed.wait_for(lambda: len(self._waiting) >= ENOUGH, self._linger)
            return self._is_watched

    def _written(self, run: Sequence[Waiting]) -> Sequence[Waiting]:
        """Return those of a run, all of one handle and tenant, that could not be written: none of them, or all."""
        try:
            run[0].store.apply([one.touch for one in run])
        except SalienceError as error:
            self._failure = error
            return run
        return []

    def _replace(self, due: Sequence[Waiting], left: Sequence[Waiting]) -> None:
        """Put what is left in the place of what was due."""
        with self._changed:
            self._refill([*left, *self._waiting[len(due) :]][-KEPT:])
            self._is_resting = bool(left)
            self._failure = self._failure if left else None
            self._moves += 1

    def _refill(self, waiting: Sequence[Waiting]) -> None:
        self._waiting, self._of, self._columns = [], {}, set()
        for one in waiting:
            self._put(one)

    def _put(self, one: Waiting) -> None:
        self._waiting.append(one)
        self._columns.update(one.columns)
        for touched in dict.fromkeys(one.touch.ids):
            self._of.setdefault((one.tenant, touched), []).append(one.touch)


def _runs(waiting: Sequence[Waiting]) -> Iterator[list[Waiting]]:
    """Return what waits in its order, that of one handle and tenant that follows each other together."""
    for _, run in groupby(waiting, lambda one: (id(one.store), one.tenant)):
        yield list(run)


def _touched(memory: Memory, waiting: Mapping[tuple[str, str], Sequence[Touch]]) -> Memory:
    """Return a memory as it stands once the touches that wait for it are written; none is for a forgotten one."""
    touches = waiting.get((memory.scope.tenant, memory.id), ())
    if not touches or memory.forgotten_at is not None:
        return memory
    importance, moments = memory.importance, [memory.accessed_at, *(touch.accessed_at for touch in touches)]
    for touch in touches:  # one by one, so that it is the same sum
        importance = min(1.0, importance + touch.importance)
    count = memory.access_count + sum(touch.access_count for touch in touches)
    return recalled(memory, count, importance, max((moment for moment in moments if moment is not None), default=None))


def _in_a_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="salience-touches", daemon=True).start()


_QUEUES: Final[WeakSet[Touches]] = WeakSet()
_PLACES: Final[WeakValueDictionary[str, Touches]] = WeakValueDictionary()
_OPENING: Final = threading.Lock()


def queue_of(place: str) -> Touches:
    """Return the queue of a store that several engines of this process may have open, by where it is."""
    with _OPENING:
        found = _PLACES.get(place)
        if found is None:
            found = _PLACES[place] = Touches()
        return found


def settle_all() -> bool:
    """Write all that waits in this process, as is done before it ends, and return whether it is written."""
    written = [queue.settle() for queue in list(_QUEUES)]
    return all(written)


def _forget_all() -> None:
    for queue in list(_QUEUES):
        queue.forget()


atexit.register(settle_all)
os.register_at_fork(after_in_child=_forget_all)
