"""What a database is like, and whether an engine can work with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from psycopg import sql as literals
from sqlalchemy import Connection, Engine

from salience.errors import NotAStoreError, StoreError, VersionError
from salience.ports import Distinguish
from salience.store.postgres.opening import APP, SCHEMA, Rules, driver
from salience.store.schema import HEAD, REVISIONS

LEAST_PGVECTOR: Final = (0, 7)
GOING_ON: Final = (0, 8)
"""The first that goes on with a search until it found as many as asked for, past those that others' scopes hide."""


@dataclass(frozen=True, slots=True)
class Role:
    """A role of the server.

    Attributes:
        name: its name.
        above: whether it is above row-level security.
        may: whether it may read the tables.
    """

    name: str
    above: bool
    may: bool

    @property
    def is_apt(self) -> bool:
        """Whether statements may run in it."""
        return self.may and not self.above


@dataclass(frozen=True, slots=True)
class Found:
    """What a database is like.

    Attributes:
        version: of the server.
        extension: the schema that pgvector is in; None where it is not installed.
        pgvector: its version.
        has_tables: whether there are tables.
        revision: of the tables; None where there are none, or the user may not read it.
        user: who connects.
        app: the role `APP`, if it is there and the user may take it.
        citus: whether the extension Citus is installed.
        is_spread: whether Citus has spread the tables over its workers.
    """

    version: str
    extension: str | None
    pgvector: tuple[int, ...]
    has_tables: bool
    revision: str | None
    user: Role
    app: Role | None
    citus: bool = False
    is_spread: bool = False

    @property
    def role(self) -> Role | None:
        """In which role statements run; None: neither the user nor `APP` is apt.

        Citus connects to its workers as that role, and `APP` is none that logs in.
        """
        roles = (self.user, None if self.is_spread else self.app)
        return next((role for role in roles if role is not None and role.is_apt), None)

    def rules(self, statement_timeout: float) -> Rules:
        """Return what holds for every transaction in it."""
        path = tuple(dict.fromkeys((SCHEMA, self.extension or "public", "public")))
        return Rules(
            APP if self.role is not None and self.role == self.app else None, path, statement_timeout, self.citus
        )


_LOOK: Final = """
    WITH tables AS (
        SELECT c.oid, c.relname, n.oid AS schema FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = %(schema)s AND c.relname IN ('alembic_version', 'memories'))
    SELECT current_setting('server_version') AS version,
        (SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
         WHERE e.extname = 'vector') AS extension,
        (SELECT extversion FROM pg_extension WHERE extname = 'vector') AS pgvector,
        EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'citus') AS citus,
        EXISTS (SELECT 1 FROM tables WHERE relname = 'alembic_version') AS has_tables,
        (SELECT has_schema_privilege(schema, 'USAGE') AND has_table_privilege(oid, 'SELECT') FROM tables
         WHERE relname = 'alembic_version') AS readable,
        r.rolname, r.rolsuper OR r.rolbypassrls AS above, r.rolname = current_user AS is_user,
        r.rolname = current_user OR pg_has_role(current_user, r.oid, %(take)s) AS takes,
        coalesce((SELECT has_schema_privilege(r.oid, schema, 'USAGE') AND has_table_privilege(r.oid, oid, 'SELECT')
                  FROM tables WHERE relname = 'memories'), false) AS may
    FROM pg_roles r WHERE r.rolname IN (current_user, %(app)s)"""


_SPREAD: Final = f"SELECT 1 FROM pg_dist_partition WHERE logicalrelid = to_regclass('{SCHEMA}.memories')"  # noqa: S608


def look(connection: Connection) -> Found:
    """Return what the database is like."""
    take = "SET" if driver(connection).info.server_version >= 160_000 else "MEMBER"
    rows = connection.exec_driver_sql(_LOOK, {"schema": SCHEMA, "app": APP, "take": take}).all()
    row, revision = rows[0], None
    if row.readable:
        revision = connection.exec_driver_sql(f"SELECT version_num FROM {SCHEMA}.alembic_version").scalar()  # noqa: S608
    roles = {each.is_user: Role(each.rolname, each.above, each.may) for each in rows if each.takes}
    pgvector = numbers(row.pgvector) if row.pgvector else ()
    app = next((role for role in roles.values() if role.name == APP), None)
    known = (row.version, row.extension, pgvector, row.has_tables, revision, roles[True], app)
    return Found(*known, row.citus, row.citus and bool(connection.exec_driver_sql(_SPREAD).scalar()))


def looked(engine: Engine) -> Found:
    """Return what the database is like, on a connection of its own."""
    with engine.connect() as connection:
        return look(connection)


def ready(engine: Engine, where: str, distinguish: Distinguish | None, *, create: bool = True) -> Found:
    """Return what the database is like, its tables made if it has none and `create` is true.

    Raises:
        NotAStoreError: pgvector is missing or too old.
        VersionError: its tables are of another revision than this code's.
        StoreError: the user has no rights to the tables, or is above row-level security; or they cannot be made, or
            are not to be.
    """
    found = looked(engine)
    if not found.has_tables and not create:
        raise StoreError(f"store: {where}: it has no tables yet. Run: salience db upgrade")
    if not found.has_tables:
        from salience.store.postgres.upgrading import upgrade  # here, since most openings need none

        upgrade(engine, where, distinguish)
        found = looked(engine)
    check_database(found, where)
    if found.revision is not None:
        check_revision(found.revision, where)
    check_role(found, where)
    return found


def numbers(version: str) -> tuple[int, ...]:
    """Return a version as numbers that compare."""
    return tuple(map(int, version.split(".")))


def check_database(found: Found, where: str) -> None:
    """Raise `NotAStoreError` unless pgvector is there, and new enough."""
    if found.extension is None:
        remedy = "Let a superuser run in it: CREATE EXTENSION vector"
        raise NotAStoreError(f"store: {where}: the extension pgvector is not installed in it. {remedy}")
    if found.pgvector < LEAST_PGVECTOR:
        version, least = (".".join(map(str, numbers)) for numbers in (found.pgvector, LEAST_PGVECTOR))
        raise NotAStoreError(f"store: {where}: pgvector is {version}, older than {least}. Install a newer one.")


def check_revision(revision: str, where: str) -> None:
    """Raise `VersionError` unless tables are of the revision of this code."""
    if revision in REVISIONS[:-1]:
        remedy = "As the user who owns them, run: salience db upgrade"
        raise VersionError(f"store: {where}: its tables are of revision {revision!r}, older than {HEAD!r}. {remedy}")
    if revision != HEAD:
        raise VersionError(
            f"store: {where}: its tables are of revision {revision!r}, newer than {HEAD!r} of this version of "
            "Salience. Run: pip install --upgrade salience"
        )


def check_role(found: Found, where: str) -> None:
    """Raise `StoreError` unless there is a role for statements to run in that row-level security holds for."""
    if found.role is not None:
        return
    name = literals.Identifier(found.user.name).as_string()
    if found.user.above and found.is_spread:
        told = f"its tables are spread by Citus, and the user {name} is above row-level security"
        remedy = f"Connect as one who is not: CREATE ROLE name LOGIN PASSWORD '...' IN ROLE {APP}"
        raise StoreError(f"store: {where}: {told}. {remedy}")
    if found.user.above:
        told = f"the user {name} is above row-level security, and has no role {APP} under it to work in"
        raise StoreError(f"store: {where}: {told}. As the user who owns the tables, run: salience db upgrade")
    told = f"the user {name} has no rights to its tables. Let an administrator run: GRANT {APP} TO {name}"
    raise StoreError(f"store: {where}: {told}")
