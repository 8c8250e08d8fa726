"""What PostgreSQL says of one tenant: the number of its last change, and the epoch of what was computed of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from sqlalchemy import Connection
from sqlalchemy.sql.expression import TextClause, text

from salience.store.meta import Meta, new_epoch

READING: Final = (
    "SELECT sequence, epoch || ' ' || extract(epoch FROM pg_postmaster_start_time()) FROM tenants WHERE tenant = %s"
)
"""With when the server started: one that took over, or came up from a backup, may give its numbers a second time."""


@dataclass(frozen=True, slots=True)
class Books:
    """How far a tenant's rows have come.

    Attributes:
        sequence: number of its last change; a transaction that reads it sees all changes up to it.
        epoch: another text whenever something changed that no sequence tells, in the tenant, the store or the server.
    """

    sequence: int
    epoch: str

    @classmethod
    def read(cls, connection: Connection, meta: Meta, tenant: str) -> Books:
        """Return what is there; a tenant that never wrote is at 0."""
        row = connection.exec_driver_sql(READING, (tenant,)).one_or_none()
        sequence, epoch = (0, "") if row is None else row
        return cls(sequence, f"{meta.epoch} {epoch}")

    def is_void(self, later: Books) -> bool:
        """Return whether what was computed under these books is no more to be used under later ones."""
        return self.epoch != later.epoch


@cache
def _next() -> TextClause:
    return text(
        "INSERT INTO tenants AS t (tenant, sequence, epoch) VALUES (:tenant, :steps, '') "
        "ON CONFLICT (tenant) DO UPDATE SET sequence = t.sequence + excluded.sequence RETURNING sequence"
    )


def take(connection: Connection, tenant: str, steps: int = 1) -> int:
    """Return the next change sequence of a tenant, whose other writers wait from here on until the transaction ends.

    It is `steps` on from the last one: so many memories may come or go, at most, as the sequence moves.
    """
    sequence: int = connection.execute(_next(), {"tenant": tenant, "steps": steps}).scalar_one()
    return sequence


def tenants(connection: Connection) -> list[str]:
    """Return all that ever wrote, in order."""
    return list(connection.exec_driver_sql("SELECT tenant FROM tenants ORDER BY tenant").scalars())


def void(connection: Connection, tenant: str) -> None:
    """Make void what was computed from the rows of a tenant before."""
    renew = text("UPDATE tenants SET epoch = :epoch WHERE tenant = :tenant")
    connection.execute(renew, {"epoch": new_epoch(), "tenant": tenant})
