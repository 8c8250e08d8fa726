"""How threads of a process write to one SQLite file: in turn, and together where they wait for each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from sqlalchemy import Connection

from salience.deadline import OutOfTime
from salience.errors import BusyError
from salience.store import opening
from salience.store.direct import Direct
from salience.store.turns import Piece, Turns

Made = TypeVar("Made")


class Writer:
    """The connection that writes to a file, shared by all handles on a store.

    Args:
        path: of the file.
        connection: whose transactions take the write lock at once.
        check_open: raises where the file is not to be written to any more.
    """

    def __init__(self, path: str, connection: Connection, check_open: Callable[[], None]) -> None:
        self.connection = connection
        self.direct = Direct(connection)
        self.turns = Turns()
        self._path = path
        self._check_open = check_open

    @contextmanager
    def alone(self, patience: float) -> Iterator[Connection]:
        """Begin a write once no other is under way, in this process or another, within `patience` seconds."""
        with self._in_turn(), self.turns.within(patience), self._begun(patience):
            yield self.connection

    def together(self, work: Callable[[], Made], patience: float) -> Made:
        """Return what `work` returns, done in a transaction with what other threads wait to do in the meantime.

        Each piece of work fails alone; what undoes the transaction undoes, and is told to, all of them.
        """
        with self._in_turn():
            return self.turns.together(work, patience, self._lead)

    def _lead(self, pieces: Sequence[Piece]) -> None:
        """Do pieces of work in one transaction, and end each once it is on disk, or is not."""
        made: list[tuple[object, Exception | None]] = []
        try:
            with self._begun(pieces[0].patience):
                made += [self._done(piece, is_alone=len(pieces) == 1) for piece in pieces]
        except Exception as error:
            made = [(None, error) for _ in pieces]
        for piece, (result, failure) in zip(pieces, made, strict=True):
            piece.end(result, failure)

    def _done(self, piece: Piece, *, is_alone: bool) -> tuple[object, Exception | None]:
        """Return what came of a piece of work, which leaves nothing where it fails among others."""
        if is_alone:
            return piece.work(), None
        try:
            with self.direct.apart():
                return piece.work(), None
        except Exception as error:
            if not self.direct.is_begun:  # a full disk ends the transaction as a whole
                raise
            return None, error

    @contextmanager
    def _begun(self, patience: float) -> Iterator[None]:
        """Begin a write in the turn of this thread, once no other process is at one, within `patience` seconds."""
        self._check_open()
        self.direct.wait_at_most(patience)
        with self.direct.begun():
            yield

    @contextmanager
    def _in_turn(self) -> Iterator[None]:
        """Raise what goes wrong in a turn of writing, or while waiting for one, as errors of our own."""
        try:
            with opening.mapped(self._path):
                yield
        except OutOfTime:
            raise BusyError(f"store: {self._path}: another thread kept writing to it. Try again.") from None
