"""SQL in the role of the application, by hand, without a tenant or with another one's: what it sees and changes."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

import psycopg
from psycopg import sql

from salience.store.schema import metadata

TABLES: Final = tuple(sorted(name for name, table in metadata.tables.items() if "tenant" in table.c))
"""Tables whose rows belong to tenants."""
NOWHERE: Final = "a tenant that nobody is"
WAYS: Final[dict[str, tuple[str, ...]]] = {
    "no tenant": ("BEGIN",),
    "an empty tenant": ("BEGIN", "SET LOCAL salience.tenant = ''"),
    "a tenant that nobody is": ("BEGIN", f"SET LOCAL salience.tenant = '{NOWHERE}'"),
    "an operator that is off": ("BEGIN", "SET LOCAL salience.operator = 'true'"),
    "after a rollback": ("BEGIN", "SET LOCAL salience.tenant = {other}", "ROLLBACK", "BEGIN"),
    "after a commit": ("BEGIN", "SET LOCAL salience.tenant = {other}", "COMMIT", "BEGIN"),
    "after a savepoint": (
        "BEGIN",
        "SAVEPOINT before",
        "SET LOCAL salience.tenant = {other}",
        "ROLLBACK TO SAVEPOINT before",
    ),
    "after an operator": ("BEGIN", "SET LOCAL salience.operator = 'on'", "COMMIT", "BEGIN"),
}
"""Ways to have no tenant -> the statements that lead there; `other` is one that has rows."""
FORBIDDEN: Final = (
    "TRUNCATE salience.memories CASCADE",
    "ALTER TABLE salience.memories DISABLE ROW LEVEL SECURITY",
    "DROP POLICY own_tenant ON salience.memories",
    "CREATE POLICY all_of_it ON salience.memories USING (true)",
    "SET ROLE postgres",
    "SET LOCAL row_security = off; SELECT count(*) FROM salience.memories",
)
"""What the role may not do at all."""
_REACHED: Final = (psycopg.IntegrityError, psycopg.errors.DeadlockDetected)
"""A row was to be written and is there, or was waited for while its owner waited for another: rows were in reach."""


@dataclass(slots=True)
class Prowl:
    """What statements by hand came to.

    Attributes:
        tried: how many statements.
        seen, changed: rows of tenants that were seen, and changed.
        faults: in words.
    """

    tried: int = 0
    seen: int = 0
    changed: int = 0
    faults: Counter[str] = field(default_factory=Counter)

    def add(self, other: Prowl) -> None:
        """Add what another one found."""
        self.tried, self.seen, self.changed = (
            self.tried + other.tried,
            self.seen + other.seen,
            self.changed + other.changed,
        )
        self.faults += other.faults


def prowl(dsn: str, tenants: Sequence[str], choose: Random, stop: threading.Event) -> Prowl:
    """Return what the role of `dsn` saw and changed until told to stop; each pass takes every way and every table."""
    found = Prowl()
    with psycopg.connect(dsn, autocommit=True) as connection:
        while True:
            for way in WAYS:
                outside(connection, way, choose.choice(tenants), found)
            inside(connection, choose.choice(tenants), choose.choice(tenants), found)
            for statement in FORBIDDEN:
                refused(connection, statement, found)
            if stop.is_set():
                return found


def outside(connection: psycopg.Connection, way: str, other: str, found: Prowl) -> None:
    """Try every table without a tenant."""
    for table in TABLES:
        name, column = sql.Identifier("salience", table), sql.Identifier(_column(table))
        found.seen += _rows(connection, way, other, sql.SQL("SELECT * FROM {}").format(name), found)
        found.seen += _rows(connection, way, other, sql.SQL("SELECT tenant FROM {} FOR UPDATE").format(name), found)
        update = sql.SQL("UPDATE {} SET {} = {}").format(name, column, column)
        for changing in (update, sql.SQL("DELETE FROM {}").format(name)):
            found.changed += _rows(connection, way, other, changing, found)
        copied = sql.SQL("INSERT INTO {} SELECT * FROM {}").format(name, name)
        found.changed += _rows(connection, way, other, copied, found)
    for table in ("tenants", "commits"):
        found.changed += _rows(connection, way, other, _insert(table, other), found)


def inside(connection: psycopg.Connection, own: str, other: str, found: Prowl) -> None:
    """Try every table with a tenant set, and a WHERE that is forgotten, or names another."""
    if own == other:
        return
    for table in TABLES:
        try:
            _beside(connection, table, own, other, found)
        except _REACHED:
            found.changed += 1
    given = sql.SQL("BEGIN; SET LOCAL salience.tenant = {}; {}")
    refused(connection, given.format(sql.Literal(own), _insert("tenants", other)).as_string(), found)
    moved = sql.SQL("UPDATE salience.tenants SET tenant = {}").format(sql.Literal(f"{other} too"))
    refused(connection, given.format(sql.Literal(own), moved).as_string(), found, unless_empty=True)


def _beside(connection: psycopg.Connection, table: str, own: str, other: str, found: Prowl) -> None:
    """Try one table with a tenant set."""
    name = sql.Identifier("salience", table)
    with connection.transaction(force_rollback=True):
        connection.execute(sql.SQL("SET LOCAL salience.tenant = {}").format(sql.Literal(own)))
        strangers = sql.SQL("SELECT count(*) FROM {} WHERE tenant <> {}").format(name, sql.Literal(own))
        found.tried, found.seen = found.tried + 2, found.seen + _count(connection, strangers)
        update = sql.SQL("UPDATE {} SET {c} = {c} WHERE tenant = {}").format(
            name, sql.Literal(other), c=sql.Identifier(_column(table))
        )
        found.changed += connection.execute(update).rowcount


def refused(connection: psycopg.Connection, statement: str, found: Prowl, *, unless_empty: bool = False) -> None:
    """Run what the role may not do; that it is not refused is a fault, unless there is nothing that it could touch."""
    found.tried += 1
    try:
        with connection.transaction(force_rollback=True):
            done = connection.execute(statement.removeprefix("BEGIN; ").encode())
            if not (unless_empty and done.rowcount <= 0):
                found.faults[f"not refused: {statement.split()[0]} {statement.split()[1]}"] += 1
    except psycopg.errors.InsufficientPrivilege:
        return
    except _REACHED:
        found.faults[f"not refused: {statement.split()[0]}"] += 1


def _rows(connection: psycopg.Connection, way: str, other: str, statement: sql.Composed, found: Prowl) -> int:
    """Return how many rows a statement saw or changed where `way` leads; it is rolled back."""
    found.tried += 1
    try:
        for step in WAYS[way]:
            connection.execute(sql.SQL(step).format(other=sql.Literal(other)))
        rows = connection.execute(statement).rowcount
    except psycopg.errors.InsufficientPrivilege:  # an INSERT that the policy refuses
        return 0
    except _REACHED:
        rows = 1
    finally:
        connection.execute("ROLLBACK")
    if rows:
        found.faults[f"{rows} rows with {way}"] += 1
    return rows


def _count(connection: psycopg.Connection, statement: sql.Composed) -> int:
    ((count,),) = connection.execute(statement).fetchall()
    return int(count)


def _insert(table: str, tenant: str) -> sql.Composed:
    rest = {"tenants": "1, ''", "commits": "'by hand'"}[table]
    columns = {"tenants": "tenant, sequence, epoch", "commits": "tenant, token"}[table]
    text = f"INSERT INTO salience.{table} ({columns}) VALUES ({{}}, {rest})"  # noqa: S608 - of this module
    return sql.SQL(text).format(sql.Literal(tenant))


def _column(table: str) -> str:
    return next(column.name for column in metadata.tables[table].c if column.name != "tenant")
