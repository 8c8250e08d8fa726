"""What a copy asks of a database, whichever it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from sqlalchemy import Connection

from salience.store.moving.tables import Moved, Row

T = TypeVar("T")
Work = Callable[[Connection], T]


class Reading(Protocol):
    """Runs work on the rows of a tenant, or of all for None, and returns what that returns."""

    def __call__(self, tenant: str | None, work: Work[T], /) -> T:
        """Return what `work` does with a connection."""


class Side(Protocol):
    """A store, below the verbs: its tables, and what its database has beside."""

    where: str
    """The store, as messages name it."""

    def snapshot(self) -> AbstractContextManager[Reading]:
        """Return what reads the store as it stands at one instant, however long that takes."""

    def read(self, tenant: str | None, work: Work[T]) -> T:
        """Return what `work` does with a connection that reads the store as it stands now."""

    def write(self, tenant: str | None, work: Work[T], *, is_alone: bool = False) -> T:
        """Return what `work` does with a connection, once it is on disk; `is_alone`: with no other writer at work."""

    def tenants(self, connection: Connection) -> list[str]:
        """Return the tenants that may have memories, sorted."""

    def sequence(self, connection: Connection, tenant: str) -> int:
        """Return the last change sequence of a tenant."""

    def settle(self, connection: Connection, tenant: str, sequence: int) -> None:
        """Raise the change sequence of a tenant to one at least, and make void what was computed from its rows."""

    def insert(self, connection: Connection, moved: Moved, rows: Sequence[Row]) -> None:
        """Write rows of keys that are not there."""

    def replace(self, connection: Connection, moved: Moved, rows: Sequence[Row]) -> None:
        """Write rows in the place of those of the same keys."""

    def remove(self, connection: Connection, moved: Moved, rows: Sequence[Row]) -> None:
        """Delete the rows of the same keys."""

    def finish(self) -> None:
        """See to what is best done once all rows are there."""

    def close(self) -> None:
        """Let go of the database."""
