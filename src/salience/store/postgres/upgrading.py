"""Bringing a database to the revision of this code: pgvector, tables, row-level security and rights."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import psycopg
from psycopg import sql as literals
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from salience.errors import NotAStoreError, StoreError
from salience.ports import Distinguish
from salience.records import Upgraded
from salience.store.postgres import rights
from salience.store.postgres.opening import APP, SCHEMA, state, transaction
from salience.store.postgres.standing import check_database, check_revision, look
from salience.store.schema import HEAD, REVISIONS

_MIGRATING: Final = 0x53414C494D4947
"""Number of the lock that one process at a time migrates under."""
_DENIED: Final = "42501"


def upgrade(engine: Engine, where: str, distinguish: Distinguish | None = None) -> Upgraded:
    """Bring the database to the revision of this code, as one transaction; what is as it should be stays so.

    Raises:
        NotAStoreError: pgvector is not there, and this user may not install it.
        VersionError: the tables are newer than this code.
        StoreError: this user may not make or change them.
    """
    begin = ("BEGIN", "SET LOCAL salience.operator = 'on'", f"SELECT pg_advisory_xact_lock({_MIGRATING})")
    user = "who connects"
    try:
        with transaction(engine, begin) as connection:
            before = look(connection)
            user = literals.Identifier(before.user.name).as_string()
            if before.has_tables and before.revision not in REVISIONS:
                check_revision(before.revision or "", where)
            installed = () if before.extension else extension(connection, where)
            check_database(look(connection), where)
            had_role = rights.has_role(connection)
            lay_out(connection, distinguish)
            done, left = rights.secure(connection)
            roles = () if had_role or not rights.has_role(connection) else (f"made the role {APP}",)
    except (DBAPIError, psycopg.Error) as error:
        if state(error) != _DENIED:
            raise
        remedy = "As a user who may, such as the owner of the database, run: salience db upgrade"
        raise StoreError(f"store: {where}: the user {user} may not make its tables, or change them. {remedy}") from None
    return Upgraded(where, before.revision, HEAD, (*installed, *roles, *done), left)


def extension(connection: Connection, where: str) -> tuple[str, ...]:
    """Install pgvector, and say so.

    Raises:
        NotAStoreError: this user may not, or the server has none.
    """
    asked = "SELECT default_version FROM pg_available_extensions WHERE name = 'vector'"
    version = connection.exec_driver_sql(asked).scalar()
    if version is None:
        remedy = "Install it there; it may be a package named postgresql-NN-pgvector."
        raise NotAStoreError(f"store: {where}: the server has no extension pgvector. {remedy}")
    try:
        connection.exec_driver_sql("CREATE EXTENSION vector SCHEMA public")
    except DBAPIError:
        remedy = "Let a superuser run in it: CREATE EXTENSION vector"
        raise NotAStoreError(f"store: {where}: the extension pgvector is not installed in it. {remedy}") from None
    return (f"installed pgvector {version}",)


def lay_out(connection: Connection, distinguish: Distinguish | None) -> None:
    """Make the tables, or bring them up."""
    from alembic import command  # here, since the import is slow
    from alembic.config import Config

    known = connection.exec_driver_sql("SELECT 1 FROM pg_namespace WHERE nspname = %s", (SCHEMA,)).scalar()
    if not known:  # a schema that is there already needs no right to make one
        connection.exec_driver_sql(f"CREATE SCHEMA {SCHEMA}")
    path = ", ".join(dict.fromkeys((SCHEMA, *home_of_vector(connection), "public")))
    connection.exec_driver_sql(f"SET LOCAL search_path = {path}")
    scripts = str(Path(__file__).parents[1] / "migrations").replace("%", "%%")
    config = Config(attributes={"connection": connection, "distinguish": distinguish})
    config.set_main_option("script_location", scripts)
    command.upgrade(config, "head")


def home_of_vector(connection: Connection) -> tuple[str, ...]:
    """Return the schema that pgvector is in, quoted; none where it is not installed."""
    asked = (
        "SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace "
        "WHERE e.extname = 'vector'"
    )
    return tuple(connection.exec_driver_sql(asked).scalars())
