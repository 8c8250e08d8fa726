"""Who may write to a store at the same time: many, or one that changes what holds for all of it."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection

_STORE: Final = 0x53414C49454E4345
"""Number of the lock: every writer shares it until its transaction ends."""


def shared(connection: Connection) -> None:
    """Wait until nobody has the store alone, and keep it so until the transaction ends."""
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock_shared({_STORE})")


def alone(connection: Connection) -> None:
    """Wait until nobody else writes, and keep it so until the transaction ends."""
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_STORE})")
