"""Where the keys of a server are kept."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from salience.records import ApiKey


class Keyring(Protocol):
    """The keys of all tenants. `testing/keyring_laws.py` is the law that every keyring keeps.

    What one handle does, each other one on the same keys sees at once; it is safe to share between threads.
    """

    def add(self, key: ApiKey) -> None:
        """Keep a key. `ConflictError` if another one has its prefix."""
        ...

    def find(self, prefix: str) -> ApiKey | None:
        """Return the key of a prefix, live or not; None where there is none."""
        ...

    def list(self, tenant: str | None = None) -> Sequence[ApiKey]:
        """Return the keys of a tenant, or of all, live or not, by `created_at` and prefix."""
        ...

    def revoke(self, prefix: str, at: datetime) -> ApiKey:
        """Take a key back, and return it; one that was revoked before keeps the first instant.

        Raises:
            InputError: there is no key of that prefix.
        """
        ...

    def is_empty(self) -> bool:
        """Return whether no key was ever added; revoked and expired ones count."""
        ...

    def close(self) -> None:
        """Release the file or connection; further calls raise `StoreError`."""
        ...
