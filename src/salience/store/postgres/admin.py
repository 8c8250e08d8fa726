"""Administration of a PostgreSQL database: inspection, migrations, state, indexes, repairs, API keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self, TypeVar

import psycopg
from psycopg import sql as literals
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from salience.errors import InputError, NotAStoreError, StoreError, VersionError, Words
from salience.ports import BuildProgress, Distinguish
from salience.records import DatabaseState, Finding, Indexed, IndexState, TableState, Upgraded
from salience.store.keyring import TableKeyring
from salience.store.pins import Meta, Pin
from salience.store.postgres import checking, indexing, security
from salience.store.postgres.connection import (
    APP,
    SCHEMA,
    Address,
    Runner,
    Session,
    create_pool,
    driver,
    mapped,
    run,
    sqlstate,
    transaction,
)
from salience.store.postgres.indexing import NAMES, Plan
from salience.store.schema import HEAD, REVISIONS

LEAST_PGVECTOR: Final = (0, 7)
ITERATIVE_SCAN: Final = (0, 8)
"""The first pgvector that continues a search until it has found enough visible rows."""


@dataclass(frozen=True, slots=True)
class Role:
    """A role of the server.

    Attributes:
        name: name of the role.
        above: whether the role bypasses row-level security.
        may: whether the role may read the tables.
    """

    name: str
    above: bool
    may: bool

    @property
    def is_usable(self) -> bool:
        """Whether statements may run in the role."""
        return self.may and not self.above


@dataclass(frozen=True, slots=True)
class Found:
    """The state of a database.

    Attributes:
        version: version of the server.
        extension: schema of pgvector; None if it is not installed.
        pgvector: version of pgvector.
        has_tables: whether there are tables.
        revision: revision of the tables; None if there are none, or the user may not read it.
        user: role of the connection.
        app: the role `APP`, if it exists and the user may take it.
        citus: whether the extension Citus is installed.
        is_spread: whether Citus has distributed the tables over its workers.
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
        """The role of statements; None if neither the user nor `APP` is usable.

        Citus connects to its workers as that role, and `APP` cannot log in.
        """
        roles = (self.user, None if self.is_spread else self.app)
        return next((role for role in roles if role is not None and role.is_usable), None)

    def session(self, statement_timeout: float) -> Session:
        """Return the settings of every transaction."""
        path = tuple(dict.fromkeys((SCHEMA, self.extension or "public", "public")))
        return Session(
            APP if self.role is not None and self.role == self.app else None, path, statement_timeout, self.citus
        )


_INSPECT: Final = """
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


def inspect(connection: Connection) -> Found:
    """Return the state of the database."""
    take = "SET" if driver(connection).info.server_version >= 160_000 else "MEMBER"
    rows = connection.exec_driver_sql(_INSPECT, {"schema": SCHEMA, "app": APP, "take": take}).all()
    row, revision = rows[0], None
    if row.readable:
        revision = connection.exec_driver_sql(f"SELECT version_num FROM {SCHEMA}.alembic_version").scalar()  # noqa: S608
    roles = {each.is_user: Role(each.rolname, each.above, each.may) for each in rows if each.takes}
    pgvector = numbers(row.pgvector) if row.pgvector else ()
    app = next((role for role in roles.values() if role.name == APP), None)
    known = (row.version, row.extension, pgvector, row.has_tables, revision, roles[True], app)
    return Found(*known, row.citus, row.citus and bool(connection.exec_driver_sql(_SPREAD).scalar()))


def inspect_engine(engine: Engine) -> Found:
    """Return the state of the database, on a separate connection."""
    with engine.connect() as connection:
        return inspect(connection)


def ready(engine: Engine, where: str, distinguish: Distinguish | None, *, create: bool = True) -> Found:
    """Return the state of the database, after creating missing tables if `create` is set.

    Raises:
        NotAStoreError: pgvector is missing or too old.
        VersionError: its tables are of another revision.
        StoreError: the user has no rights to the tables, or bypasses row-level security; or there are no tables and
            they cannot or may not be created.
    """
    found = inspect_engine(engine)
    if not found.has_tables and not create:
        raise StoreError(f"store: {where}: it has no tables yet. Run: salience db upgrade")
    if not found.has_tables:
        upgrade(engine, where, distinguish)
        found = inspect_engine(engine)
    check_database(found, where)
    if found.revision is not None:
        check_revision(found.revision, where)
    check_role(found, where)
    return found


def numbers(version: str) -> tuple[int, ...]:
    """Return a version as comparable numbers."""
    return tuple(map(int, version.split(".")))


def check_database(found: Found, where: str) -> None:
    """Raise `NotAStoreError` unless pgvector is installed, and new enough."""
    if found.extension is None:
        remedy = "Let a superuser run in it: CREATE EXTENSION vector"
        raise NotAStoreError(f"store: {where}: the extension pgvector is not installed in it. {remedy}")
    if found.pgvector < LEAST_PGVECTOR:
        version, least = (".".join(map(str, numbers)) for numbers in (found.pgvector, LEAST_PGVECTOR))
        raise NotAStoreError(f"store: {where}: pgvector is {version}, older than {least}. Install a newer one.")


def check_revision(revision: str, where: str) -> None:
    """Raise `VersionError` unless the tables are of the current revision."""
    if revision in REVISIONS[:-1]:
        remedy = "As the user who owns them, run: salience db upgrade"
        raise VersionError(f"store: {where}: its tables are of revision {revision!r}, older than {HEAD!r}. {remedy}")
    if revision != HEAD:
        raise VersionError(
            f"store: {where}: its tables are of revision {revision!r}, newer than {HEAD!r} of this version of "
            "Salience. Run: pip install --upgrade salience"
        )


def check_role(found: Found, where: str) -> None:
    """Raise `StoreError` unless statements can run in a role under row-level security."""
    if found.role is not None:
        return
    name = literals.Identifier(found.user.name).as_string()
    if found.user.above and found.is_spread:
        problem = f"its tables are spread by Citus, and the user {name} is above row-level security"
        remedy = f"Connect as one who is not: CREATE ROLE name LOGIN PASSWORD '...' IN ROLE {APP}"
        raise StoreError(f"store: {where}: {problem}. {remedy}")
    if found.user.above:
        problem = f"the user {name} is above row-level security, and has no role {APP} under it to work in"
        raise StoreError(f"store: {where}: {problem}. As the user who owns the tables, run: salience db upgrade")
    problem = f"the user {name} has no rights to its tables. Let an administrator run: GRANT {APP} TO {name}"
    raise StoreError(f"store: {where}: {problem}")


_MIGRATING: Final = 0x53414C494D4947
"""Advisory lock of migrations."""
_DENIED: Final = "42501"


def upgrade(engine: Engine, where: str, distinguish: Distinguish | None = None) -> Upgraded:
    """Migrate the database to the current revision, in one transaction.

    Raises:
        NotAStoreError: pgvector is missing, and this user may not install it.
        VersionError: the tables are newer than this version of Salience.
        StoreError: this user may not create or change tables.
    """
    begin = ("BEGIN", "SET LOCAL salience.operator = 'on'", f"SELECT pg_advisory_xact_lock({_MIGRATING})")
    user = "who connects"
    try:
        with transaction(engine, begin) as connection:
            before = inspect(connection)
            user = literals.Identifier(before.user.name).as_string()
            if before.has_tables and before.revision not in REVISIONS:
                check_revision(before.revision or "", where)
            installed = () if before.extension else _install_pgvector(connection, where)
            check_database(inspect(connection), where)
            had_role = security.has_role(connection)
            _migrate(connection, distinguish)
            done, left = security.secure(connection)
            roles = () if had_role or not security.has_role(connection) else (f"made the role {APP}",)
    except (DBAPIError, psycopg.Error) as error:
        if sqlstate(error) != _DENIED:
            raise
        remedy = "As a user who may, such as the owner of the database, run: salience db upgrade"
        raise StoreError(f"store: {where}: the user {user} may not make its tables, or change them. {remedy}") from None
    return Upgraded(where, before.revision, HEAD, (*installed, *roles, *done), left)


def _install_pgvector(connection: Connection, where: str) -> tuple[str, ...]:
    """Install pgvector; return the step.

    Raises:
        NotAStoreError: this user may not, or the server has no pgvector.
    """
    query = "SELECT default_version FROM pg_available_extensions WHERE name = 'vector'"
    version = connection.exec_driver_sql(query).scalar()
    if version is None:
        remedy = "Install it there; it may be a package named postgresql-NN-pgvector."
        raise NotAStoreError(f"store: {where}: the server has no extension pgvector. {remedy}")
    try:
        connection.exec_driver_sql("CREATE EXTENSION vector SCHEMA public")
    except DBAPIError:
        remedy = "Let a superuser run in it: CREATE EXTENSION vector"
        raise NotAStoreError(f"store: {where}: the extension pgvector is not installed in it. {remedy}") from None
    return (f"installed pgvector {version}",)


def _migrate(connection: Connection, distinguish: Distinguish | None) -> None:
    """Create the tables, or migrate them."""
    from alembic import command  # here, since the import is slow
    from alembic.config import Config

    known = connection.exec_driver_sql("SELECT 1 FROM pg_namespace WHERE nspname = %s", (SCHEMA,)).scalar()
    if not known:  # an existing schema needs no right to create one
        connection.exec_driver_sql(f"CREATE SCHEMA {SCHEMA}")
    path = ", ".join(dict.fromkeys((SCHEMA, *_pgvector_schema(connection), "public")))
    connection.exec_driver_sql(f"SET LOCAL search_path = {path}")
    scripts = str(Path(__file__).parents[1] / "migrations").replace("%", "%%")
    config = Config(attributes={"connection": connection, "distinguish": distinguish})
    config.set_main_option("script_location", scripts)
    command.upgrade(config, "head")


def _pgvector_schema(connection: Connection) -> tuple[str, ...]:
    """Return the quoted schema of pgvector; empty if it is not installed."""
    query = (
        "SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace "
        "WHERE e.extname = 'vector'"
    )
    return tuple(connection.exec_driver_sql(query).scalars())


MANY: Final = 10_000
"""Deleted rows from which on a table gets a hint."""
SHARE: Final = 0.2
"""Share of deleted rows from which on a table gets a hint."""
_TABLES: Final = """
    SELECT c.relname AS name, CASE WHEN c.reltuples < 0 THEN s.n_live_tup ELSE c.reltuples END::bigint AS rows,
        coalesce(s.n_dead_tup, 0) AS dead, pg_total_relation_size(c.oid) AS bytes
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_stat_all_tables s ON s.relid = c.oid
    WHERE n.nspname = %s AND c.relkind IN ('r', 'p') ORDER BY c.relname"""
_OWNER: Final = """
    SELECT quote_ident(pg_get_userbyid(c.relowner)) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = 'memories' AND NOT pg_has_role(current_user, c.relowner, 'USAGE')"""
"""Query for the owner of the tables, unless the user has that role."""
_LARGE: Final = (
    "SELECT count(*) FROM (SELECT 1 FROM memories WHERE forgotten_at IS NULL GROUP BY tenant HAVING count(*) > %s) AS t"
)


class PostgresDatabase:
    """The database of a DSN.

    Args:
        dsn: as for the store.
        busy_timeout: seconds to wait for a lock or an unreachable server.
        statement_timeout: maximum seconds of a statement, except for those that read or index everything.
        exact_rows: memories of a tenant from which on searches need an index.
        distinguish: returns the distinctions of memories of older revisions.
    """

    def __init__(
        self,
        dsn: str,
        *,
        busy_timeout: float,
        statement_timeout: float,
        exact_rows: int,
        distinguish: Distinguish | None = None,
    ) -> None:
        address = Address.parse(dsn)
        self._where = address.name
        self._engine = create_pool(address, 3, busy_timeout, prepares=False)
        self._busy_timeout = busy_timeout
        self._statement_timeout = statement_timeout
        self._exact_rows = exact_rows
        self._distinguish = distinguish

    def upgrade(self) -> Upgraded:
        """Migrate the database to the current revision; see `upgrade`."""
        with mapped(self._where):
            return upgrade(self._engine, self._where, self._distinguish)

    def state(self) -> DatabaseState:
        """Return the state of the database; counts are estimates of the server."""
        with mapped(self._where):
            found = inspect_engine(self._engine)
            with self._engine.connect() as connection:
                tables = tuple(TableState(*row) for row in connection.exec_driver_sql(_TABLES, (SCHEMA,)))
                indexes = tuple(indexing.states(connection))
                faults = tuple(security.faults(connection)) if found.revision == HEAD else ()
        meta = Meta({}) if found.role is None else self._runner(found).read(None, Meta.read)
        pin = meta.pin()
        return DatabaseState(
            store=self._where,
            server=f"PostgreSQL {found.version}",
            revision=found.revision,
            head=HEAD,
            pgvector=".".join(map(str, found.pgvector)) or None,
            embedder=None if pin is None else pin.name,
            dimension=None if pin is None else pin.dimension,
            language=meta.values.get("language"),
            user=found.user.name,
            role=None if found.role is None else found.role.name,
            tables=tables,
            indexes=indexes,
            faults=(
                *_unready(found, self._where),
                *faults,
                *(checking.invalid(index.name) for index in indexes if not index.valid),
            ),
            hints=(*bloated(tables), *self._index_hints(found, tables, indexes)),
        )

    def index(
        self,
        *,
        is_half: bool = False,
        m: int | None = None,
        ef_construction: int | None = None,
        memory: str | None = None,
        progress: BuildProgress | None = None,
    ) -> Indexed:
        """Build the vector index for the pinned model; see `indexing.make`."""
        pin = self._pin()
        plan = Plan(pin.dimension, is_half, m, ef_construction, memory)
        with mapped(self._where), self._without_timeouts() as connection, self._engine.connect() as watching:
            self._require_owner(connection)
            return indexing.make(connection, watching, plan, progress)

    def drop_index(self, *, is_half: bool = False) -> Indexed:
        """Drop the vector indexes, or only the half-precision one."""
        names = [NAMES["halfvec"]] if is_half else list(NAMES.values())
        with mapped(self._where), self._without_timeouts() as connection:
            self._require_owner(connection)
            return indexing.drop(connection, names)

    def check(self, *, repair: bool = False) -> list[Finding]:
        """Return the problems of the tables of all tenants, repaired if `repair` is set; see `checking.check`."""
        runner = self._runner(self._ready())
        if repair:
            return runner.write(None, lambda connection, _: checking.check(connection, repair=True), self._busy_timeout)
        return runner.read(None, checking.check)

    def _ready(self) -> Found:
        """Return the state of the database; create no tables.

        Raises:
            StoreError: the database is not ready for use.
        """
        with mapped(self._where):
            found = inspect_engine(self._engine)
        for problem in _unready(found, self._where):
            raise StoreError(problem)
        return found

    def _runner(self, found: Found) -> Runner:
        return Runner(self._engine, self._where, found.session(self._statement_timeout), self._busy_timeout)

    def _pin(self) -> Pin:
        pin = self._runner(self._ready()).read(None, Meta.read).pin()
        if pin is None:
            given, problem = Words("a store that is pinned to no model"), "needs a model, and the store has none yet"
            raise InputError("index", given, "Store a memory first: the index is made for its model.", problem)
        return pin

    @contextmanager
    def _without_timeouts(self) -> Iterator[Connection]:
        """Yield a connection without timeouts; it is discarded afterwards."""
        with self._engine.connect() as connection:
            path = ", ".join(dict.fromkeys((SCHEMA, *_pgvector_schema(connection), "public")))
            settings = f"SET statement_timeout = 0; SET lock_timeout = 0; SET search_path = {path}"
            try:
                run(driver(connection), settings)
                yield connection
            finally:
                connection.invalidate()

    def _require_owner(self, connection: Connection) -> None:
        owner = connection.exec_driver_sql(_OWNER, (SCHEMA,)).scalar()
        if owner is not None:
            problem = "indexes are for the user to make who owns the tables"
            raise StoreError(f"store: {self._where}: {problem}. Connect as {owner}.")

    def _index_hints(self, found: Found, tables: Iterable[TableState], indexes: Iterable[IndexState]) -> Iterator[str]:
        """Yield a hint if tenants are large enough for a vector index, and there is none."""
        rows = next((table.rows or 0 for table in tables if table.name == "memories"), 0)
        has_one = any(index.method == "hnsw" and index.valid for index in indexes)
        if has_one or rows <= self._exact_rows or found.revision != HEAD or found.role is None:
            return

        def count(connection: Connection) -> int:
            return int(connection.exec_driver_sql(_LARGE, (self._exact_rows,)).scalar_one())

        if large := self._runner(found).read(None, count):
            problem = (
                f"{large:,} tenants have more than {self._exact_rows:,} memories, and searches no index of vectors."
            )
            yield f"{problem} Run: salience db index"

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _unready(found: Found, where: str) -> Iterator[str]:
    """Yield the problem that keeps an engine from using a database, if any."""
    try:
        if not found.has_tables:
            yield f"store: {where}: it has no tables yet. Run: salience db upgrade"
            return
        check_database(found, where)
        if found.revision is not None:
            check_revision(found.revision, where)
        check_role(found, where)
    except StoreError as error:
        yield str(error)


def bloated(tables: Iterable[TableState]) -> Iterator[str]:
    """Yield hints for tables with many deleted rows."""
    for table in tables:
        if table.dead and table.dead >= max(MANY, SHARE * (table.rows or 0)):
            problem = f"the table {table.name!r} holds {table.dead:,} deleted rows."
            yield f"{problem} Let autovacuum come sooner, or run: VACUUM (ANALYZE) {SCHEMA}.{table.name}"


T = TypeVar("T")
POOL: Final = 4
"""Maximum connections; finding a key is fast."""


class PostgresKeyring(TableKeyring):
    """API keys in a PostgreSQL database; created by `open`. Each call sees the keys of all tenants."""

    def __init__(self, runner: Runner, busy_timeout: float) -> None:
        self._runner = runner
        self._busy_timeout = busy_timeout

    @classmethod
    def open(
        cls,
        dsn: str,
        *,
        busy_timeout: float,
        statement_timeout: float,
        prepares: bool = True,
        distinguish: Distinguish | None = None,
    ) -> Self:
        """Return the keys in a database; create missing tables. Arguments and errors are those of the store."""
        address = Address.parse(dsn)
        where, engine = address.name, create_pool(address, POOL, busy_timeout, prepares=prepares)
        try:
            with mapped(where):
                found = ready(engine, where, distinguish)
        except BaseException:
            engine.dispose()
            raise
        return cls(Runner(engine, where, found.session(statement_timeout), busy_timeout), busy_timeout)

    def _read(self, work: Callable[[Connection], T]) -> T:
        return self._runner.read(None, work)

    def _write(self, work: Callable[[Connection], T]) -> T:
        return self._runner.write(None, lambda connection, _: work(connection), self._busy_timeout)

    def close(self) -> None:
        """Close the connections; further calls raise `StoreError`."""
        self._runner.close()
