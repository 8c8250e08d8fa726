"""Database: operations on the tables of a store that need no model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, Self

from salience.records import DatabaseState, Finding, Indexed, Upgraded

BuildProgress = Callable[[int, int], None]
"""Called with the amount read so far, and the total."""


class Database(Protocol):
    """The database or file of a store, for its operator."""

    def upgrade(self) -> Upgraded:
        """Migrate the tables to the revision of this version of Salience, in one transaction."""
        ...

    def state(self) -> DatabaseState:
        """Return the state of the database, with faults that a quick look finds; changes nothing."""
        ...

    def index(
        self,
        *,
        is_half: bool = False,
        m: int | None = None,
        ef_construction: int | None = None,
        memory: str | None = None,
        progress: BuildProgress | None = None,
    ) -> Indexed:
        """Create the vector index, or one of half precision, while others read and write."""
        ...

    def drop_index(self, *, is_half: bool = False) -> Indexed:
        """Drop the vector index, or only the one of half precision."""
        ...

    def check(self, *, repair: bool = False) -> list[Finding]:
        """Return the faults in the tables of all tenants, repaired if `repair` is set and it is possible."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...
