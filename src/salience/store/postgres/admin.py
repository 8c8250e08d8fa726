"""Administration of a PostgreSQL database: its state, migrations, row-level security, vector indexes and API keys."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Final, Self, TypeVar

import psycopg
from psycopg import sql as literals
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from salience.errors import BusyError, InputError, NotAStoreError, StoreError, VersionError, Words
from salience.ports import BuildProgress, Database
from salience.records import ApiKey, DatabaseState, Finding, Indexed, TableState, Upgraded
from salience.store.keyring import TableKeyring
from salience.store.pins import Meta
from salience.store.postgres import checking
from salience.store.postgres.checking import EF_CONSTRUCTION, INDEXES, MAKE_INDEX, NEW, OLD, M
from salience.store.postgres.connection import (
    APP,
    NO_OPERATOR,
    OPERATOR,
    SCHEMA,
    Address,
    Runner,
    Session,
    create_pool,
    driver,
    mapped,
    sqlstate,
    transaction,
)
from salience.store.rows import is_text
from salience.store.schema import HEAD, metadata, refusal

T = TypeVar("T")
LEAST_PGVECTOR: Final = (0, 7)
ITERATIVE_SCAN: Final = (0, 8)
"""The first pgvector that continues a search until it has found enough visible rows."""
LONGEST: Final = {"vector": 2_000, "halfvec": 4_000}
"""Type of the numbers -> maximum dimension that pgvector indexes."""
INDEXING: Final = 0x53414C49494458
"""Advisory lock of index builds."""
MANY: Final = 10_000
"""Deleted rows from which on a table gets a hint."""
SHARE: Final = 0.2
"""Share of deleted rows from which on a table gets a hint."""
POOL: Final = 4
"""Maximum connections of a keyring; finding a key is fast."""
HAS_KEYS: Final = "has_keys"
"""Name of the row in `meta` that exists once a key was added."""
_POLL: Final = 0.5
"""Seconds between progress reports."""
_MIGRATING: Final = 0x53414C494D4947
"""Advisory lock of migrations."""
_DENIED: Final = "42501"
_NO_TABLES: Final = "it has no tables yet. Run: salience db upgrade"
_NO_PGVECTOR: Final = (
    "the extension pgvector is not installed in it. Let a superuser run in it: CREATE EXTENSION vector"
)
_INSPECT: Final = f"""
    WITH tables AS (
        SELECT c.oid, c.relname, n.oid AS schema FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = %(schema)s AND c.relname IN ('alembic_version', 'memories')),
    operators AS (
        SELECT unnest(p.polroles) AS role FROM pg_policy p JOIN tables t ON t.oid = p.polrelid
        WHERE p.polname = '{checking.ALL_POLICY}')
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
                  FROM tables WHERE relname = 'memories'), false) AS may,
        EXISTS (SELECT 1 FROM operators WHERE role <> 0 AND pg_has_role(r.oid, role, 'USAGE')) AS sees_all
    FROM pg_roles r WHERE r.rolname IN (current_user, '{APP}', '{OPERATOR}')"""  # noqa: S608 - constants
_PLACE: Final = f"""
    SELECT EXISTS (SELECT 1 FROM pg_dist_partition WHERE logicalrelid = to_regclass('{SCHEMA}.memories')) AS is_spread,
        coalesce((SELECT groupid FROM pg_dist_local_group LIMIT 1), 0) <> 0 AS is_worker"""  # noqa: S608 - constants
"""Whether Citus has distributed the tables, and whether this server is a worker."""
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
_PROGRESS: Final = """
    SELECT blocks_done, blocks_total FROM pg_stat_progress_create_index
    WHERE pid = %s AND phase LIKE 'building%%' AND blocks_total > 0"""
_MAKE_ROLE: Final = """
DO $$ BEGIN
    CREATE ROLE {} NOLOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;  -- created for another database at the same time
END $$
"""


@dataclass(frozen=True, slots=True)
class Role:
    """A role of the server.

    Attributes:
        name: its name.
        above: whether it bypasses row-level security.
        may: whether it may read the tables.
        sees_all: whether it sees the rows of all tenants in a transaction without a tenant.
    """

    name: str
    above: bool
    may: bool
    sees_all: bool = False


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
        operator: the role `OPERATOR`, likewise.
        citus: whether the extension Citus is installed.
        is_spread: whether Citus has distributed the tables over its workers.
        is_worker: whether the server is a worker of a cluster.
    """

    version: str
    extension: str | None
    pgvector: tuple[int, ...]
    has_tables: bool
    revision: str | None
    user: Role
    app: Role | None
    operator: Role | None = None
    citus: bool = False
    is_spread: bool = False
    is_worker: bool = False

    @property
    def role(self) -> Role | None:
        """The role of statements; None if neither the user nor `APP` is usable.

        Citus connects to its workers as that role, and `APP` cannot log in.
        """
        roles = (self.user, None if self.is_spread else self.app)
        return next((role for role in roles if role is not None and role.may and not role.above), None)

    @property
    def path(self) -> tuple[str, ...]:
        """The schemas of the search path."""
        return tuple(dict.fromkeys((SCHEMA, self.extension or "public", "public")))

    @property
    def sees_all(self) -> Role | None:
        """The role of statements about all tenants; None if the user may not run any.

        A user above row-level security needs none, and takes `OPERATOR` where it can, as less may go wrong.
        """
        own = self.user.may and self.user.sees_all and not self.user.above
        roles = (self.user if own else None, None if self.is_spread else self.operator)
        found = next((role for role in roles if role is not None and role.may and role.sees_all), None)
        return found or (self.user if self.user.may and self.user.above else None)

    def session(self, statement_timeout: float) -> Session:
        """Return the settings of every transaction."""
        names = [None if role is None or role == self.user else role.name for role in (self.role, self.sees_all)]
        return Session(names[0], self.path, statement_timeout, self.citus, names[1], self.sees_all is not None)


def inspect(connection: Connection) -> Found:
    """Return the state of the database."""
    take = "SET" if driver(connection).info.server_version >= 160_000 else "MEMBER"
    rows = connection.exec_driver_sql(_INSPECT, {"schema": SCHEMA, "take": take}).all()
    row, revision = rows[0], None
    if row.readable:
        revision = connection.exec_driver_sql(f"SELECT version_num FROM {SCHEMA}.alembic_version").scalar()  # noqa: S608
    roles = {each.rolname: Role(each.rolname, each.above, each.may, each.sees_all) for each in rows if each.takes}
    user = next(roles[each.rolname] for each in rows if each.is_user)
    pgvector = tuple(map(int, row.pgvector.split("."))) if row.pgvector else ()
    named = (user, roles.get(APP), roles.get(OPERATOR))
    place = connection.exec_driver_sql(_PLACE).one() if row.citus else (False, False)
    return Found(row.version, row.extension, pgvector, row.has_tables, revision, *named, row.citus, *place)


def inspect_engine(engine: Engine) -> Found:
    """Return the state of the database, on a separate connection."""
    with engine.connect() as connection:
        return inspect(connection)


def connect(
    dsn: str,
    *,
    pool_size: int,
    busy_timeout: float,
    statement_timeout: float,
    node_timeout: float = 1.0,
    prepares: bool = True,
    create: bool = True,
) -> tuple[Runner, Found]:
    """Return a runner of transactions in a database, and the database's state. The arguments are those of the store.

    Raises:
        InputError: an invalid DSN.
        NotAStoreError, VersionError, StoreError: as `check_ready`; or the tables cannot or may not be created.
    """
    address = Address.parse(dsn)
    where, engine = address.name, create_pool(address, pool_size, busy_timeout, prepares=prepares)
    try:
        with mapped(where):
            found = inspect_engine(engine)
            if not found.has_tables and create:
                upgrade(engine, where)
                found = inspect_engine(engine)
        check_ready(found, where)
    except BaseException:
        engine.dispose()
        raise
    return Runner(engine, where, found.session(statement_timeout), busy_timeout, node_timeout), found


def check_ready(found: Found, where: str) -> None:
    """Check that an engine can use a database.

    Raises:
        NotAStoreError: pgvector is missing or too old.
        VersionError: its tables are of another revision.
        StoreError: it has no tables, or the user has no rights to them, or bypasses row-level security.
    """
    check_usable(found, where)
    if found.role is not None:
        return
    name = literals.Identifier(found.user.name).as_string()
    if not found.user.above:
        problem = f"the user {name} has no rights to its tables. Let an administrator run: GRANT {APP} TO {name}"
    elif found.is_spread:
        problem = f"its tables are spread by Citus, and the user {name} is above row-level security"
        problem += f". Connect as one who is not: CREATE ROLE name LOGIN PASSWORD '...' IN ROLE {APP}"
    else:
        problem = f"the user {name} is above row-level security, and has no role {APP} under it to work in"
        problem += ". As the user who owns the tables, run: salience db upgrade"
    raise StoreError(f"store: {where}: {problem}")


def check_usable(found: Found, where: str) -> None:
    """Raise `StoreError` if there are no tables, or as `check_tables`."""
    if not (found.has_tables or found.is_worker):
        raise StoreError(f"store: {where}: {_NO_TABLES}")
    check_tables(found, where)


def check_tables(found: Found, where: str) -> None:
    """Raise an error unless an engine can use such tables here.

    Raises:
        NotAStoreError: pgvector is missing or too old.
        VersionError: the tables are of another revision.
        StoreError: the server is a worker of a cluster.
    """
    if found.is_worker:
        raise StoreError(f"store: {where}: it is a worker of the cluster. Connect to the coordinator.")
    if found.extension is None:
        raise NotAStoreError(f"store: {where}: {_NO_PGVECTOR}")
    if found.pgvector < LEAST_PGVECTOR:
        version, least = (".".join(map(str, numbers)) for numbers in (found.pgvector, LEAST_PGVECTOR))
        raise NotAStoreError(f"store: {where}: pgvector is {version}, older than {least}. Install a newer one.")
    if found.revision and found.revision != HEAD:
        raise VersionError(f"store: {where}: {refusal(found.revision)}")


def upgrade(engine: Engine, where: str) -> Upgraded:
    """Migrate the database to the current revision, in one transaction.

    Raises:
        NotAStoreError: pgvector is missing, and this user may not install it.
        VersionError: the tables are newer than this version of Salience.
        StoreError: this user may not create or change tables.
    """
    begin = ("BEGIN", "SET LOCAL salience.tenant = ''", f"SELECT pg_advisory_xact_lock({_MIGRATING})")
    user, done = "who connects", list[str]()
    try:
        with transaction(engine, begin) as (connection, _):
            before = inspect(connection)
            user = literals.Identifier(before.user.name).as_string()
            if before.extension is None:
                done.append(_install_pgvector(connection, where))
            found = inspect(connection)
            check_tables(found, where)
            had = _roles(connection)
            _migrate(connection, found)
            steps, left = secure(connection)
            done += [f"made the role {role}" for role in sorted(_roles(connection) - had)]
    except (DBAPIError, psycopg.Error) as error:
        if sqlstate(error) != _DENIED:
            raise
        remedy = "As a user who may, such as the owner of the database, run: salience db upgrade"
        raise StoreError(f"store: {where}: the user {user} may not make its tables, or change them. {remedy}") from None
    return Upgraded(where, before.revision, HEAD, (*done, *steps), left)


def _install_pgvector(connection: Connection, where: str) -> str:
    """Install pgvector; return the step. Raise `NotAStoreError` if the server has none, or this user may not."""
    query = "SELECT default_version FROM pg_available_extensions WHERE name = 'vector'"
    version = connection.exec_driver_sql(query).scalar()
    if version is None:
        remedy = "Install it there; it may be a package named postgresql-NN-pgvector."
        raise NotAStoreError(f"store: {where}: the server has no extension pgvector. {remedy}")
    try:
        connection.exec_driver_sql("CREATE EXTENSION vector SCHEMA public")
    except DBAPIError:
        raise NotAStoreError(f"store: {where}: {_NO_PGVECTOR}") from None
    return f"installed pgvector {version}"


def _migrate(connection: Connection, found: Found) -> None:
    """Create the tables, or migrate them."""
    from alembic import command  # here, since the import is slow
    from alembic.config import Config

    known = connection.exec_driver_sql("SELECT 1 FROM pg_namespace WHERE nspname = %s", (SCHEMA,)).scalar()
    if not known:  # an existing schema needs no right to create one
        connection.exec_driver_sql(f"CREATE SCHEMA {SCHEMA}")
    connection.exec_driver_sql(f"SET LOCAL search_path = {_quoted(found.path)}")
    scripts = str(Path(__file__).parents[1] / "migrations").replace("%", "%%")
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", scripts)
    command.upgrade(config, "head")


def _quoted(path: Iterable[str]) -> str:
    return ", ".join(literals.Identifier(name).as_string() for name in path)


def secure(connection: Connection) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Make the roles, enable row-level security where it is missing, and grant rights; return the steps done and left.

    A role that this user may not make is left, and everything else is done.
    """
    done, left = list[str](), list[str]()
    may_make = "SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user"
    if connection.exec_driver_sql(may_make).scalar():
        for role in sorted({APP, OPERATOR} - _roles(connection)):
            connection.exec_driver_sql(_MAKE_ROLE.format(role))
    for _, step, statements in checking.security_faults(connection):
        for statement in statements:
            connection.exec_driver_sql(statement)
        done += [step] if step else []
    for role in (APP, OPERATOR):
        if role not in _roles(connection):
            whom = "users other than this one" if role == APP else "maintenance by users other than the owner"
            left.append(f"let a superuser run: CREATE ROLE {role} NOLOGIN; then run this again, for {whom}")
            continue
        connection.exec_driver_sql(f"GRANT USAGE ON SCHEMA {SCHEMA} TO {role}")
        connection.exec_driver_sql(f"GRANT SELECT ON {SCHEMA}.alembic_version TO {role}")
        for name in sorted(metadata.tables):
            rights = "SELECT, INSERT" if (role, name) == (APP, checking.PINS) else "SELECT, INSERT, UPDATE, DELETE"
            connection.exec_driver_sql(f"GRANT {rights} ON {SCHEMA}.{name} TO {role}")
        whom, roles = ("the application", APP) if role == APP else ("maintenance of all tenants", f"{APP}, {OPERATOR}")
        left.append(f"let in the user of {whom}: GRANT {roles} TO USER")
    return tuple(done), tuple(left)


def _roles(connection: Connection) -> set[str]:
    """Return which of `APP` and `OPERATOR` the server has."""
    query = "SELECT rolname::text FROM pg_roles WHERE rolname IN (%s, %s)"
    return set(connection.exec_driver_sql(query, (APP, OPERATOR)).scalars())


class PostgresDatabase(Database):
    """The database of a DSN.

    Args:
        dsn: as for the store.
        busy_timeout: seconds to wait for a lock or an unreachable server.
        statement_timeout: maximum seconds of a statement, except for those that read or index everything.
        exact_rows: memories of a tenant from which on searches need an index.
    """

    def __init__(self, dsn: str, *, busy_timeout: float, statement_timeout: float, exact_rows: int) -> None:
        address = Address.parse(dsn)
        self._where = address.name
        self._engine = create_pool(address, 3, busy_timeout, prepares=False)
        self._busy_timeout = busy_timeout
        self._statement_timeout = statement_timeout
        self._exact_rows = exact_rows

    def upgrade(self) -> Upgraded:
        """Migrate the database to the current revision; see `upgrade`."""
        with mapped(self._where):
            return upgrade(self._engine, self._where)

    def state(self) -> DatabaseState:
        """Return the state of the database; counts are estimates of the server."""
        with mapped(self._where):
            found = inspect_engine(self._engine)
            with self._engine.connect() as connection:
                tables = tuple(TableState(*row) for row in connection.exec_driver_sql(_TABLES, (SCHEMA,)))
                indexes = tuple(checking.indexes(connection))
                size = connection.exec_driver_sql("SELECT pg_database_size(current_database())").scalar_one()
                insecure = checking.security_faults(connection) if found.revision == HEAD else []
        faults = [problem for problem, _, _ in insecure]
        try:
            check_ready(found, self._where)
        except StoreError as error:
            faults.insert(0, str(error))
        faults += [checking.invalid(index.name) for index in indexes if not index.valid]
        has_index = any(index.method == "hnsw" and index.valid for index in indexes)
        meta = Meta({}) if found.role is None else self._runner(found).read("", Meta.read)
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
            bytes=size,
            tables=tables,
            indexes=indexes,
            faults=tuple(faults),
            hints=tuple(self._hints(found, tables, has_index)),
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
        """Build the vector index for the pinned model, while others read and write, unless a fitting one exists.

        Args:
            is_half: whether it holds half-precision numbers, which halves its size.
            m: links of a vector on each layer; None for the value of the existing index, or pgvector's default.
            ef_construction: breadth of the search during the build; None likewise.
            memory: `maintenance_work_mem` of the build; None for the server's setting.
            progress: called with the progress.

        Raises:
            InputError: the store has no model yet, pgvector has no such index, or an invalid `memory`.
            NotAStoreError, VersionError: as `check_tables`.
            StoreError: there are no tables, or the user does not own them.
            BusyError: another process builds or drops an index.
        """
        began, type_ = time.monotonic(), "halfvec" if is_half else "vector"
        name, notices = INDEXES[type_], list[str]()
        with self._indexing() as connection:
            check_usable(inspect(connection), self._where)
            pin = Meta.read(connection).pin()
            if pin is None:
                given, problem = (
                    Words("a store that is pinned to no model"),
                    "needs a model, and the store has none yet",
                )
                raise InputError("index", given, "Store a memory first: the index is made for its model.", problem)
            check_dimension(pin.dimension, is_half)
            _drop(connection, f"{name}{NEW}", f"{name}{OLD}")  # a build that was cut short may have left them
            before = {index.name: index for index in checking.vector_indexes(connection)}.get(name)
            m = m or (before.m if before else M)
            ef_construction = ef_construction or (before.ef_construction if before else EF_CONSTRUCTION)
            wanted = (True, pin.dimension, m, ef_construction)
            if before and (before.valid, before.dimension, before.m, before.ef_construction) == wanted:
                return Indexed(name, bytes=before.bytes)
            if memory is not None:
                try:
                    set_memory = "SELECT set_config('maintenance_work_mem', %s, false)"
                    connection.exec_driver_sql(set_memory, (memory,))
                except DBAPIError:
                    raise InputError("memory", memory, "Give an amount such as 512MB or 2GB.") from None
            driver(connection).add_notice_handler(
                lambda said: notices.append(
                    ". ".join(filter(None, (said.message_primary, said.message_detail, said.message_hint)))
                )
            )
            try:
                with self._watched(driver(connection).info.backend_pid, progress):
                    connection.exec_driver_sql(
                        f"CREATE INDEX CONCURRENTLY {name}{NEW} ON {SCHEMA}.memories "
                        f"USING hnsw ((vector::{type_}({pin.dimension})) {type_}_ip_ops) "
                        f"WITH (m = {m}, ef_construction = {ef_construction})"
                    )
                away = [f"ALTER INDEX {SCHEMA}.{name} RENAME TO {name}{OLD}"] if before else []
                renamed = f"ALTER INDEX {SCHEMA}.{name}{NEW} RENAME TO {name}"
                for statement in ("BEGIN", *away, renamed, "COMMIT"):  # one by one, which Citus requires
                    connection.exec_driver_sql(statement)
            except BaseException:
                with suppress(SQLAlchemyError):  # the first error is raised
                    connection.exec_driver_sql("ROLLBACK")
                    _drop(connection, f"{name}{NEW}")  # an unused index slows down every write
                raise
            warning = " ".join(notices) or None
            _drop(connection, f"{name}{OLD}")
            size = next(index.bytes for index in checking.vector_indexes(connection) if index.name == name)
        return Indexed(name, True, (), size, time.monotonic() - began, warning)

    def drop_index(self, *, is_half: bool = False) -> Indexed:
        """Drop the vector indexes, or only the half-precision one, while others read and write."""
        began, names = time.monotonic(), [INDEXES["halfvec"]] if is_half else INDEXES.values()
        with self._indexing() as connection:
            known = {index.name for index in checking.vector_indexes(connection)}
            gone = [name + end for name in names for end in ("", NEW, OLD) if name + end in known]
            _drop(connection, *gone)
        return Indexed(None, dropped=tuple(gone), seconds=time.monotonic() - began)

    @contextmanager
    def _indexing(self) -> Iterator[Connection]:
        """Yield a connection without timeouts that holds the lock of index builds; it is discarded afterwards.

        The owner of the tables may be a superuser, also on a cluster, where no engine may connect as one.

        Raises:
            StoreError: the user does not own the tables.
            BusyError: another process holds the lock.
        """
        with mapped(self._where), self._engine.connect() as connection:
            try:
                path = _quoted(inspect(connection).path)
                for setting in ("statement_timeout = 0", "lock_timeout = 0", f"search_path = {path}"):
                    connection.exec_driver_sql(f"SET {setting}")
                owner = connection.exec_driver_sql(_OWNER, (SCHEMA,)).scalar()
                if owner is not None:
                    problem = "only the owner of its tables may make and drop indexes"
                    raise StoreError(f"store: {self._where}: {problem}. Connect as {owner}.")
                if not connection.exec_driver_sql(f"SELECT pg_try_advisory_lock({INDEXING})").scalar():
                    raise BusyError("index: another process makes or drops one. Try again when it is done.")
                yield connection
            finally:
                with suppress(SQLAlchemyError):  # at once, since the server may notice the end of the connection later
                    connection.exec_driver_sql(f"SELECT pg_advisory_unlock({INDEXING})")
                connection.invalidate()

    @contextmanager
    def _watched(self, pid: int, progress: BuildProgress | None) -> Iterator[None]:
        """Report the progress of an index build by the server process `pid` meanwhile."""
        over = Event()

        def watch(connection: Connection) -> None:
            while progress is not None and not over.wait(_POLL):
                row = connection.exec_driver_sql(_PROGRESS, (pid,)).one_or_none()
                if row is not None:
                    progress(min(row), row.blocks_total)

        with self._engine.connect() as connection:
            thread = Thread(target=watch, args=(connection,), daemon=True)
            thread.start()
            try:
                yield
            finally:
                over.set()
                thread.join()

    def check(self, *, repair: bool = False) -> list[Finding]:
        """Return the problems of the tables of all tenants, repaired if `repair` is set; see `checking.check`."""
        with mapped(self._where):
            found = inspect_engine(self._engine)
        check_ready(found, self._where)
        return checking.check_all(self._runner(found), repair, self._busy_timeout)

    def _runner(self, found: Found) -> Runner:
        return Runner(self._engine, self._where, found.session(self._statement_timeout), self._busy_timeout)

    def _hints(self, found: Found, state_tables: Iterable[TableState], has_index: bool) -> Iterator[str]:
        """Yield hints for tables with many deleted rows, and for large tenants without a vector index."""
        tables = {table.name: table for table in state_tables}
        yield from bloated(tables.values())
        rows = tables["memories"].rows or 0 if "memories" in tables else 0
        if found.revision == HEAD and found.role is not None and found.sees_all is None:
            yield f"maintenance needs another user: this one {NO_OPERATOR}"
        if has_index or rows <= self._exact_rows or found.revision != HEAD or None in (found.role, found.sees_all):
            return
        large = self._runner(found).read(
            None, lambda connection: connection.exec_driver_sql(_LARGE, (self._exact_rows,)).scalar_one()
        )
        if large:
            few = f"{self._exact_rows:,} memories, and searches no index of vectors"
            yield f"{large:,} tenants have more than {few}. {MAKE_INDEX}"

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()


def check_dimension(dimension: int, is_half: bool) -> None:
    """Raise `InputError` unless pgvector can index vectors of that length."""
    if dimension > LONGEST["halfvec" if is_half else "vector"]:
        longest = LONGEST["halfvec"]
        remedy = f"An index takes up to {longest:,}; without one, all are read."
        remedy = "Give --halfvec." if not is_half and dimension <= longest else remedy
        vectors = f"vectors of {dimension:,} numbers"
        raise InputError("index", Words(vectors), remedy, f"cannot hold {vectors}")


def _drop(connection: Connection, *names: str) -> None:
    for name in names:
        connection.exec_driver_sql(f"DROP INDEX CONCURRENTLY IF EXISTS {SCHEMA}.{name}")


def bloated(tables: Iterable[TableState]) -> Iterator[str]:
    """Yield hints for tables with many deleted rows."""
    for table in tables:
        if table.dead and table.dead >= max(MANY, SHARE * (table.rows or 0)):
            problem = f"the table {table.name!r} holds {table.dead:,} deleted rows."
            yield f"{problem} Let autovacuum come sooner, or run: VACUUM (ANALYZE) {SCHEMA}.{table.name}"


class PostgresKeyring(TableKeyring):
    """API keys in a PostgreSQL database; created by `open`.

    A user who is no operator finds a key by its prefix, and lists the keys of a tenant, but not those of all. A row of
    `meta` says whether there ever was a key.
    """

    def __init__(self, runner: Runner, busy_timeout: float) -> None:
        self._runner = runner
        self._busy_timeout = busy_timeout

    @classmethod
    def open(cls, dsn: str, *, busy_timeout: float, statement_timeout: float, prepares: bool = True) -> Self:
        """Return the keys in a database; create missing tables. Arguments and errors are those of the store."""
        runner, _ = connect(
            dsn, pool_size=POOL, busy_timeout=busy_timeout, statement_timeout=statement_timeout, prepares=prepares
        )
        return cls(runner, busy_timeout)

    def add(self, key: ApiKey) -> None:
        """Store a key; `ConflictError` if another key has its prefix."""
        mark = "INSERT INTO meta (name, value) VALUES (%s, '1') ON CONFLICT (name) DO NOTHING"
        self._write(lambda writer: writer.exec_driver_sql(mark, (HAS_KEYS,)), "")
        super().add(key)

    def is_empty(self) -> bool:
        """Return whether no key was ever added; revoked and expired keys count."""
        query = f"SELECT 1 FROM meta WHERE name = '{HAS_KEYS}'"  # noqa: S608 - a constant
        if self._runner.read("", lambda reader: reader.exec_driver_sql(query).scalar()):
            return False
        return not self._runner.sees_all or super().is_empty()

    def _read(self, work: Callable[[Connection], T], tenant: str | None = None, prefix: str | None = None) -> T:
        if prefix is None:
            return self._runner.read(tenant, work, one_state=False)
        key = prefix if is_text(prefix) else ""
        return self._runner.read("", work, one_state=False, settings={"salience.key": key})

    def _write(self, work: Callable[[Connection], T], tenant: str) -> T:
        return self._runner.write(tenant, lambda connection, _: work(connection), self._busy_timeout)

    def close(self) -> None:
        """Close the connections; further calls raise `StoreError`."""
        self._runner.close()
