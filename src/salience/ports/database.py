"""What the operator of a store asks of its database: nothing that needs a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, Self

from salience.records import DatabaseState, Finding, Indexed, Upgraded

BuildProgress = Callable[[int, int], None]
"""Called with how much was read, and how much there is."""


class Database(Protocol):
    """The database, or file, that a target names."""

    def upgrade(self) -> Upgraded:
        """Bring its tables to the revision of this version, in one transaction; what is as it should be stays so."""
        ...

    def state(self) -> DatabaseState:
        """Return how it stands, and what is wrong with it as far as that is seen at once; nothing is changed."""
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
        """Make the index of vectors, or one of half the precision, while others read and write."""
        ...

    def drop_index(self, *, is_half: bool = False) -> Indexed:
        """Take the index of vectors away, or the one of half the precision alone."""
        ...

    def check(self, *, repair: bool = False) -> list[Finding]:
        """Return what is wrong with the tables of all tenants, mended where `repair` asks for it and it can be done."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...
