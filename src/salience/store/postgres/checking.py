"""Whether the tables of a PostgreSQL store are in order."""

from __future__ import annotations

from sqlalchemy import Connection

from salience.records import Finding


def check(connection: Connection, *, repair: bool = False) -> list[Finding]:
    """Return what is wrong with the tables."""
    return []
