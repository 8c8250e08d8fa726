"""Row-level security of the tables, and the rights of the role `salience_app`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import Connection

from salience.store.postgres.connection import APP, SCHEMA
from salience.store.schema import metadata

OF_A_TENANT: Final = tuple(sorted(table.name for table in metadata.tables.values() if "tenant" in table.c))
"""Tables whose rows belong to tenants."""
OF_ALL: Final = tuple(sorted(set(metadata.tables) - set(OF_A_TENANT)))
"""Tables whose rows belong to the store as a whole."""
POLICY: Final = "own_tenant"
OWN: Final = (
    "tenant = nullif(current_setting('salience.tenant', true), '') OR current_setting('salience.operator', true) = 'on'"
)
"""Condition for the rows that a transaction may see and write."""
_MAKES_ROLES: Final = "SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user"
_ROW_SECURITY: Final = """
    SELECT c.relname AS name, c.relrowsecurity AS enabled, c.relforcerowsecurity AS forced
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %(schema)s AND c.relname = ANY(%(tables)s) ORDER BY c.relname"""
_POLICIES: Final = """
    SELECT tablename AS table, policyname AS name, permissive, cmd, roles::text[] AS roles, qual, with_check
    FROM pg_policies WHERE schemaname = %(schema)s ORDER BY tablename, policyname"""

_MAKE_APP: Final = f"""
DO $$ BEGIN
    CREATE ROLE {APP} NOLOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;  -- created for another database at the same time
END $$
"""


def secure(connection: Connection) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Enable row-level security where it is missing, and grant `APP` its rights; return the steps done and left."""
    done = tuple(_enable(connection))
    if not has_role(connection) and connection.exec_driver_sql(_MAKES_ROLES).scalar():
        connection.exec_driver_sql(_MAKE_APP)
    if not has_role(connection):
        make = f"CREATE ROLE {APP} NOLOGIN"
        return done, (f"let a superuser run: {make}; then run this again, for users other than this one",)
    tables = ", ".join(f"{SCHEMA}.{name}" for name in (*OF_A_TENANT, *OF_ALL))
    connection.exec_driver_sql(f"GRANT USAGE ON SCHEMA {SCHEMA} TO {APP}")
    connection.exec_driver_sql(f"GRANT SELECT ON {SCHEMA}.alembic_version TO {APP}")
    connection.exec_driver_sql(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {tables} TO {APP}")
    return done, (f"let in the user of the application: GRANT {APP} TO USER",)


def faults(connection: Connection) -> list[str]:
    """Return the faults of row-level security as sentences."""
    found = [
        f"row-level security of the table {row.name!r} is not {'forced' if row.enabled else 'enabled'}."
        for row in _unforced(connection)
    ]
    found += [
        f"the table {name!r} has no policy {POLICY!r} that keeps tenants apart." for name in _without_policy(connection)
    ]
    found += [
        f"the policy {row.name!r} of the table {row.table!r} lets in more than the tenant. Drop it."
        for row in _policies(connection)
        if row.name != POLICY and row.table in OF_A_TENANT and row.permissive == "PERMISSIVE"
    ]
    above = "SELECT 1 FROM pg_roles WHERE rolname = %s AND (rolsuper OR rolbypassrls)"
    if connection.exec_driver_sql(above, (APP,)).scalar():
        found.append(f"the role {APP} is above row-level security. Run: ALTER ROLE {APP} NOSUPERUSER NOBYPASSRLS")
    return found


def _enable(connection: Connection) -> Iterator[str]:
    for row in _unforced(connection):
        connection.exec_driver_sql(f"ALTER TABLE {SCHEMA}.{row.name} ENABLE ROW LEVEL SECURITY")
        connection.exec_driver_sql(f"ALTER TABLE {SCHEMA}.{row.name} FORCE ROW LEVEL SECURITY")
        yield f"forced row-level security of {row.name}"
    for name in _without_policy(connection):
        table = f"{SCHEMA}.{name}"
        connection.exec_driver_sql(f"DROP POLICY IF EXISTS {POLICY} ON {table}")
        connection.exec_driver_sql(f"CREATE POLICY {POLICY} ON {table} USING ({OWN}) WITH CHECK ({OWN})")
        yield f"made the policy of {name}"


def _unforced(connection: Connection) -> list[Any]:
    parameters = {"schema": SCHEMA, "tables": list(OF_A_TENANT)}
    return [row for row in connection.exec_driver_sql(_ROW_SECURITY, parameters) if not (row.enabled and row.forced)]


def _without_policy(connection: Connection) -> list[str]:
    """Return the tables without the right policy."""
    right = {row.table for row in _policies(connection) if row.name == POLICY and _is_right(row)}
    return [name for name in OF_A_TENANT if name not in right]


def _is_right(policy: Any) -> bool:
    same = all(_bare(condition or "") == _bare(OWN) for condition in (policy.qual, policy.with_check))
    return same and (policy.permissive, policy.cmd, policy.roles) == ("PERMISSIVE", "ALL", ["public"])


def _bare(condition: str) -> str:
    """Return a condition without the casts, spaces and parentheses that PostgreSQL adds or removes."""
    return re.sub(r"::text|[\s()]", "", condition).lower()


def _policies(connection: Connection) -> list[Any]:
    return list(connection.exec_driver_sql(_POLICIES, {"schema": SCHEMA}))


def has_role(connection: Connection) -> bool:
    """Return whether the server has the role `APP`."""
    return connection.exec_driver_sql("SELECT 1 FROM pg_roles WHERE rolname = %s", (APP,)).scalar() is not None
