"""Leases on maintenance that one process does at a time."""

from __future__ import annotations

import os
import platform
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

from salience.errors import ConflictError, StoreError
from salience.ports import Lease, Services


@contextmanager
def leased(services: Services, name: str, held: timedelta, tenant: str = "") -> Iterator[Callable[[], Lease]]:
    """Hold a lease, and yield a function that returns the change which renews it.

    Args:
        services: the ports.
        name: of the work.
        held: how long the lease lasts without a renewal: the wait after a process that was killed.
        tenant: of the work; empty for work on the whole store.

    Raises:
        LeaseError: another process holds the lease; the renewal raises it if one has taken it over.
    """
    holder = f"process {os.getpid()} on {platform.node()} ({secrets.token_hex(3)})"

    def renewal() -> Lease:
        now = services.clock()
        return Lease(name, holder, now, now + held, tenant)

    services.store.apply([renewal()])
    try:
        yield renewal
    finally:
        with suppress(ConflictError, StoreError):  # another process holds it by now, or it ends by itself
            services.store.apply([Lease.given_back(name, holder, services.clock(), tenant)])
