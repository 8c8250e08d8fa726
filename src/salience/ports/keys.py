"""Keyring: the API keys of a server."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from salience.records import ApiKey


class Keyring(Protocol):
    """The keys of all tenants. `testing/keyring_contract.py` holds the contract.

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
