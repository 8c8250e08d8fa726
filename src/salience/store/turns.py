"""Threads that write take turns; those that wait have their work done together, by the one whose turn it is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Self, TypeVar

from salience.deadline import OutOfTime

MOST: Final = 256
"""Most pieces of work that are done together."""
Made = TypeVar("Made")


@dataclass(eq=False, slots=True)
class Piece:
    """Work of one thread that may be done together with that of others.

    Attributes:
        work: does it.
        patience: seconds that its thread waits for a turn; only work of one patience is done together.
        done: holds what came of it, once it is done: what `work` returned, or an error.
    """

    work: Callable[[], Any]
    patience: float
    done: list[tuple[Any, BaseException | None]] = field(default_factory=list)

    def end(self, made: object = None, error: BaseException | None = None) -> None:
        """Keep what came of it."""
        self.done.append((made, error))

    def result(self) -> Any:
        """Return what the work returned, or raise what came of it last."""
        made, error = self.done[-1]
        if error is not None:
            raise error
        return made


Lead = Callable[[Sequence[Piece]], None]
"""Does some pieces of work, and ends each."""


class Turns:
    """Whose turn it is. Used as a lock, it gives a turn of one's own: nobody's work is done in it but that within."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._is_taken = False
        self._waiting: list[Piece] = []

    def __enter__(self) -> Self:
        self._take(None)
        return self

    def __exit__(self, *_: object) -> None:
        self._give_back([])

    def __len__(self) -> int:
        """Return how many pieces of work wait for a turn."""
        return len(self._waiting)

    def locked(self) -> bool:
        """Return whether it is anybody's turn."""
        return self._is_taken

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Take a turn of one's own, or raise `TimeoutError` if none came within so many seconds."""
        self._take(seconds)
        try:
            yield
        finally:
            self._give_back([])

    def together(self, work: Callable[[], Made], patience: float, lead: Lead) -> Made:
        """Return what `work` returns, once it was done in a turn: this thread's, or that of another.

        Args:
            work: what is to be done.
            patience: seconds to wait for a turn; what is being done already is waited for.
            lead: does the work of all who wait as patiently, this one's among them, where it is this thread's turn.

        Raises:
            TimeoutError: no turn came in time.
        """
        piece = Piece(work, patience)
        led = self._join(piece)
        if led:
            try:
                lead(led)
            finally:
                self._give_back(led)
        made: Made = piece.result()
        return made

    def _take(self, seconds: float | None) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: not self._is_taken, seconds):
                raise OutOfTime
            self._is_taken = True

    def _give_back(self, led: Sequence[Piece]) -> None:
        with self._changed:
            for piece in led:
                if not piece.done:  # the leader was interrupted
                    piece.end(error=OutOfTime())
            self._is_taken = False
            self._changed.notify_all()

    def _join(self, piece: Piece) -> list[Piece]:
        """Wait until a piece is done, and return none; or until it is its thread's turn, and return whose work is due.

        Raises:
            TimeoutError: neither came in time.
        """
        with self._changed:
            self._waiting.append(piece)
            if not self._changed.wait_for(lambda: piece.done or not self._is_taken, piece.patience):
                if piece in self._waiting:
                    self._waiting.remove(piece)
                    raise OutOfTime
                self._changed.wait_for(lambda: piece.done)
            if piece.done:
                return []
            self._is_taken = True
            rest = [other for other in self._waiting if other is not piece]
            led = [piece, *(other for other in rest if other.patience == piece.patience)][:MOST]
            self._waiting = [other for other in rest if other not in led]
            return led
