"""A sign that a write leaves in its own transaction, by which it is known to be done where its commit was cut off.

The number of a transaction is no such sign: after a crash, PostgreSQL gives the number of one that never reached the
disk to another, and says of the one what became of the other. So may a replica that takes over.
"""

from __future__ import annotations

import secrets
import time
from typing import Final

from sqlalchemy import Connection

KEPT: Final = 3 * 3600.0
"""Seconds that a sign is kept, at least: longer than a write is tried again for, and clocks are apart."""
SWEPT: Final = 256
"""Changes of a tenant, at most, between two times that its old signs are dropped."""
_SIGN: Final = "INSERT INTO commits (tenant, token) VALUES (%s, %s) ON CONFLICT (tenant, token) DO NOTHING"
_SWEEP: Final = "DELETE FROM commits WHERE tenant = %s AND token < %s"


def new() -> str:
    """Return a token that no other write has; they sort by the time of making, to the second."""
    return f"{int(time.time()):016x}{secrets.token_hex(8)}"


def sign(connection: Connection, tenant: str, token: str) -> bool:
    """Leave the token of a write, before all else; return False if the same write left it before, and is committed.

    Where it is not yet settled what becomes of that, since the server's process has not noticed that the connection is
    gone, this waits for it, as for any lock.
    """
    return connection.exec_driver_sql(_SIGN, (tenant, token)).rowcount == 1


def sweep(connection: Connection, tenant: str, sequence: int, steps: int = 1) -> None:
    """Drop the tokens that nobody asks for any more, now and then: as the sequence passes a multiple of `SWEPT`."""
    if sequence % SWEPT < steps:
        connection.exec_driver_sql(_SWEEP, (tenant, f"{int(time.time() - KEPT):016x}"))
