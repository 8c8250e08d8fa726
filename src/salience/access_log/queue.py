"""Touches that wait to be written, in the order of their recalls, and the thread that writes them."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Protocol, runtime_checkable
from weakref import WeakSet, WeakValueDictionary

from salience.errors import SalienceError
from salience.ports import Store, Touch, touched
from salience.records import Memory

LINGER: Final = 0.25
"""Seconds for which the first touch waits for others to be written with it."""
ENOUGH: Final = 64
"""Touches that are waited for no longer."""
IDLE: Final = 5.0
"""Seconds without a touch after which the thread ends."""
REST: Final = 1.0
"""Seconds after which what could not be written is tried again."""
KEPT: Final = 10_000
"""Most touches that are kept to be tried again; the oldest give way."""
TRIES: Final = 3
"""How often a read is done anew that met a commit, before it waits for its end."""
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
    def session(self) -> tuple[str, str | None]:
        """The session that it moves on by a turn, if any, of that tenant."""
        return self.tenant, self.touch.scope.session_key

    @property
    def columns(self) -> list[str]:
        """The columns of a batch that it changes."""
        touch = self.touch
        moved = (
            ("accessed_at", touch.accessed_at is not None),
            ("access_count", touch.access_count != 0),
            ("importance", touch.importance != 0),
            ("turns_since_activation", touch.scope.session_id is not None),
        )
        return [name for name, is_moved in moved if is_moved]


@runtime_checkable
class Tells(Protocol):
    """What a store may have beside its port: how far its writes are, by numbers that only go up."""

    def reached(self) -> int:
        """Return the number of the last write that a read from now on sees."""
        ...

    def noting(self) -> int:
        """Return the number of the touches that are being written, from before they are committed; else a former one.

        It is told of the handle that they are written through.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class _Passage:
    """Touches on their way to disk, all in one transaction.

    Attributes:
        store: tells where they are.
        before: the last write before them.
        count: how many of those that wait they are, from the first on.
    """

    store: Tells
    before: int
    count: int

    @classmethod
    def of(cls, due: Sequence[Waiting]) -> _Passage | None:
        """Return the passage of touches that are due; None where it is more than one, or the store tells nothing."""
        store: object = due[0].store if due else None
        if not isinstance(store, Tells) or len(list(_runs(due))) > 1:
            return None
        try:
            return cls(store, store.reached(), len(due))
        except SalienceError:  # a store that is closed says so where they are written
            return None

    def read(self, read: Callable[[], Sequence[Memory]]) -> tuple[Sequence[Memory], bool | None]:
        """Return what `read` returns, and whether it saw the touches; None where they were committed meanwhile."""
        first = self.store.reached() if self.store.noting() > self.before else self.before
        found, own = read(), self.store.noting()
        if own <= self.before or self.store.reached() < own:
            return found, False
        return found, True if first >= own else None


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
        self._sessions: set[tuple[str, str | None]] = set()
        self._moves = 0  # odd while some are being written
        self._passage: _Passage | None = None
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

    def moves_on(self, tenant: str, session_key: str) -> bool:
        """Return whether a touch that waits is of a session, which it moves on by a turn."""
        return (tenant, session_key) in self._sessions

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
            due = list(self._waiting)
            passage = _Passage.of(due)
            with self._changed:
                self._passage = passage
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

        While some are being written, `read` may or may not see them. Where the store tells which, nobody waits; else
        it is done once they are written.
        """
        for _ in range(TRIES):
            shown = self._shown(read)
            if shown is not None:
                return shown
        with self._writing:
            return _counted(read(), self._of)

    def _shown(self, read: Callable[[], Sequence[Memory]]) -> list[Memory] | None:
        """Return the same without waiting; None where it is not known which touches `read` has seen."""
        moves, passage, touches = self._moves, self._passage, self._of
        if moves % 2 == 0:
            found = read()
        elif passage is None:
            return None
        else:
            found, sees = passage.read(read)
            if sees is None:
                return None
            touches = self._after(passage) if sees else touches
        return _counted(found, touches) if self._moves == moves else None

    def _after(self, passage: _Passage) -> dict[tuple[str, str], list[Touch]]:
        """Return the touches that came after those of a passage, by what they touch."""
        touches: dict[tuple[str, str], list[Touch]] = {}
        for one in self._waiting[passage.count :]:
            _index(touches, one)
        return touches

    def _watch(self) -> None:
        """Write what comes, until nothing has come for a while."""
        while self._is_due():
            stores = {id(one.store): one.store for one in list(self._waiting)}
            self.settle()
            for store in stores.values():
                _tidied(store)

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
        """Have others wait; who asks meanwhile what does is told of those from before, or of these, never of none."""
        of: dict[tuple[str, str], list[Touch]] = {}
        for one in waiting:
            _index(of, one)
        self._columns = {name for one in waiting for name in one.columns}
        self._sessions = {one.session for one in waiting}
        self._waiting, self._of = list(waiting), of

    def _put(self, one: Waiting) -> None:
        self._waiting.append(one)
        self._columns.update(one.columns)
        self._sessions.add(one.session)
        _index(self._of, one)


def _index(touches: dict[tuple[str, str], list[Touch]], one: Waiting) -> None:
    """Put a touch under each memory that it touches."""
    for met in dict.fromkeys(one.touch.ids):
        touches.setdefault((one.tenant, met), []).append(one.touch)


def _runs(waiting: Sequence[Waiting]) -> Iterator[list[Waiting]]:
    """Return what waits in its order, that of one handle and tenant that follows each other together."""
    for _, run in groupby(waiting, lambda one: (id(one.store), one.tenant)):
        yield list(run)


def _counted(found: Sequence[Memory], waiting: Mapping[tuple[str, str], Sequence[Touch]]) -> list[Memory]:
    """Return memories as they stand once the touches that wait for them are written."""
    return [_touched(memory, waiting) for memory in found] if waiting else list(found)


def _touched(memory: Memory, waiting: Mapping[tuple[str, str], Sequence[Touch]]) -> Memory:
    """Return a memory as it stands once the touches that wait for it are written; none is for a forgotten one."""
    touches = waiting.get((memory.scope.tenant, memory.id), ())
    return touched(memory, touches) if touches and memory.forgotten_at is None else memory


def _tidied(store: Store) -> None:
    """Let a store do beside its callers what a commit would have had to do else, if it has anything of the kind."""
    tidy: Callable[[], None] = getattr(store, "tidy", _nothing)
    tidy()


def _nothing() -> None:
    pass


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
