"""Database and Keyring: operations on a store that need no model, on its tables and on the API keys of a server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol, Self

from salience.records import ApiKey, DatabaseState, Finding, Indexed, Upgraded

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Keyring(Protocol):
    """The keys of all tenants. `tests/contract` holds the contract.

    Every handle sees changes of the others at once. Safe to share between threads.
    """

    def add(self, key: ApiKey) -> None:
        """Store a key. `ConflictError` if another key has its prefix."""
        ...

    def find(self, prefix: str) -> ApiKey | None:
        """Return the key of a prefix, live or not; None if there is none."""
        ...

    def list(self, tenant: str | None = None) -> Sequence[ApiKey]:
        """Return the keys of a tenant, or of all, live or not, by `created_at` and prefix."""
        ...

    def revoke(self, prefix: str, at: datetime) -> ApiKey:
        """Revoke a key and return it; a key that was revoked before keeps the first instant.

        Raises:
            InputError: there is no key of that prefix.
        """
        ...

    def is_empty(self) -> bool:
        """Return whether no key was ever added; revoked and expired keys count."""
        ...

    def close(self) -> None:
        """Release the file or connection; further calls raise `StoreError`."""
        ...
