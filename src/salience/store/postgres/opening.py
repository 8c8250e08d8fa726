"""Opening a PostgreSQL database: connections and their transactions, its revision, and driver errors as our own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import psycopg
from psycopg import sql as literals
from sqlalchemy import URL, Connection, Engine, QueuePool, create_engine, make_url
from sqlalchemy import exc as sqlalchemy_errors
from sqlalchemy.exc import DBAPIError

from salience.errors import (
    BusyError,
    ConflictError,
    InputError,
    NotAStoreError,
    ReadOnlyError,
    StoreError,
    VersionError,
    Words,
)
from salience.ports import Distinguish
from salience.store.postgres import wire
from salience.store.schema import HEAD, REVISIONS

SCHEMA: Final = "salience"
"""The schema that the tables are in, so that they never meet others of the same names."""
APP: Final = "salience_app"
"""The role in which every statement runs where the user that connects is above row-level security."""
LEAST_PGVECTOR: Final = (0, 7)
_MIGRATING: Final = 0x53414C494D4947
"""Number of the lock that one process at a time migrates under."""
Access = Literal["read", "write"]
_BEGIN: Final[dict[Access, str]] = {
    "read": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    "write": "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
}
_AGAIN: Final = "Try again."
_ERRORS: Final[dict[str, tuple[type[StoreError], str]]] = {
    "55P03": (BusyError, "another transaction kept it locked. Try again, or raise SALIENCE_BUSY_TIMEOUT."),
    "57014": (BusyError, "a statement took longer than SALIENCE_STATEMENT_TIMEOUT. Try again, or raise it."),
    "40001": (BusyError, f"another transaction came between, again and again. {_AGAIN}"),
    "40P01": (BusyError, f"another transaction came between, again and again. {_AGAIN}"),
    "53300": (BusyError, "the server has no connection left. Lower SALIENCE_POOL_SIZE, or put a pooler before it."),
    "53100": (StoreError, "the server's disk is full; nothing was written. Free some space and try again."),
    "53200": (StoreError, f"the server is out of memory; nothing was written. {_AGAIN}"),
    "54000": (StoreError, "a value is too large for one of its indexes; nothing was written. Shorten the names in it."),
    "25006": (
        ReadOnlyError,
        "the server takes no writes: it is a replica, or set to read only. Connect to the primary.",
    ),
    "42501": (ReadOnlyError, f"the user may not do that. Run: GRANT {APP} TO the user; see salience db upgrade."),
    "28P01": (StoreError, "the password is wrong."),
    "28000": (StoreError, "the server refuses that user. Check pg_hba.conf and the user's name."),
    "3D000": (StoreError, "there is no such database. Make it: createdb NAME"),
}
_GONE: Final = ("08", "57P")
"""Beginnings of the states under which a connection is of no more use."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds for every transaction.

    Attributes:
        role: in which statements run; None: that of the connection.
        path: schemas in which names are looked up.
        statement_timeout: seconds that a statement may take.
    """

    role: str | None
    path: tuple[str, ...]
    statement_timeout: float

    def begin(self, access: Access, tenant: str | None, patience: float) -> str:
        """Return the statements that begin a transaction of a tenant, or, for None, of the operator of them all."""
        local = {
            "search_path": ", ".join(literals.Identifier(name).as_string() for name in self.path),
            "statement_timeout": str(int(self.statement_timeout * 1000)),
            "lock_timeout": str(int(patience * 1000)),
            "plan_cache_mode": "force_custom_plan",  # what fits one tenant is wrong for a larger one
            **self._whose(tenant),
        }
        role = [] if self.role is None else [f"SET LOCAL ROLE {literals.Identifier(self.role).as_string()}"]
        return "; ".join([_BEGIN[access], *role, *(f"SET LOCAL {name} = {value}" for name, value in local.items())])

    def enter(self, tenant: str) -> str:
        """Return the statement that lets a transaction go on with the rows of a tenant."""
        return "; ".join(f"SET LOCAL {name} = {value}" for name, value in self._whose(tenant).items())

    def _whose(self, tenant: str | None) -> dict[str, str]:
        return {"salience.operator": "'on'"} if tenant is None else {"salience.tenant": quoted(tenant)}


def quoted(text: str) -> str:
    """Return a text as a literal of a statement."""
    return literals.Literal(text).as_string()


def place(dsn: str) -> URL:
    """Return a `postgresql://` target in its parts.

    Raises:
        InputError: it is none.
    """
    try:
        url = make_url(dsn)
    except sqlalchemy_errors.ArgumentError:
        shown = Words(dsn.partition("://")[0] + "://...")  # what follows may hold a password
        raise InputError("target", shown, "Give postgresql://USER:PASSWORD@HOST:PORT/DATABASE.") from None
    return url.set(drivername="postgresql")


def named(url: URL) -> str:
    """Return how messages name a database: without its user's password, nor what else may be secret."""
    where = url.host or url.query.get("host") or "local socket"
    port = f":{url.port}" if url.port else ""
    return f"postgresql://{where}{port}/{url.database or ''}"


def engine(url: URL, size: int, patience: float) -> Engine:
    """Return an engine with a pool of up to `size` connections, for one of which it waits `patience` seconds."""
    conninfo = url.render_as_string(hide_password=False)

    def connect() -> psycopg.Connection[Any]:
        return wire.connect(conninfo, connect_timeout=max(2, int(patience)), application_name="salience")

    return create_engine(
        "postgresql+psycopg://",
        creator=connect,
        poolclass=QueuePool,
        pool_size=size,
        max_overflow=0,
        pool_timeout=patience,
        pool_use_lifo=True,  # so that those which a peak made are let go of after it
        isolation_level="AUTOCOMMIT",  # transactions begin with settings of ours, in the same turn
        hide_parameters=True,
    )


def driver(connection: Connection) -> psycopg.Connection[Any]:
    """Return the connection of the driver below."""
    below = connection.connection.driver_connection
    assert isinstance(below, psycopg.Connection)  # noqa: S101 - `engine` connects with nothing else
    return below


@contextmanager
def transaction(engine: Engine, statements: str) -> Iterator[Connection]:
    """Begin a transaction with some statements; commit it, or roll it back if an error leaves it."""
    with engine.connect() as connection:
        below = driver(connection)
        try:
            wire.run(below, statements)
            yield connection
            wire.run(below, "COMMIT")
        except BaseException as error:
            if is_gone(error) or below.closed:
                connection.invalidate()
            else:
                with suppress(psycopg.Error):
                    wire.run(below, "ROLLBACK")
            raise


def state(error: BaseException) -> str | None:
    """Return the SQLSTATE of an error of the driver; empty for one without, None for any other error."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    return (getattr(cause, "sqlstate", None) or "") if isinstance(cause, psycopg.Error) else None


def is_gone(error: BaseException) -> bool:
    """Return whether an error tells that the connection is lost, or that none is to be had at present."""
    code = state(error)
    cause = error.orig if isinstance(error, DBAPIError) else error
    return code is not None and (code.startswith(_GONE) or (not code and isinstance(cause, psycopg.OperationalError)))


def passes(error: BaseException) -> bool:
    """Return whether the same transaction may well succeed when it is tried again."""
    return state(error) in ("40001", "40P01") or is_gone(error)


@contextmanager
def mapped(where: str) -> Iterator[None]:
    """Raise errors of the driver as `StoreError`s that name the database; values of the statement are never shown."""
    try:
        yield
    except sqlalchemy_errors.TimeoutError:
        remedy = "Raise SALIENCE_POOL_SIZE, or ask less of it at once."
        raise BusyError(f"store: {where}: every connection of the pool is in use. {remedy}") from None
    except (DBAPIError, psycopg.Error) as error:
        raise as_store_error(where, error) from None


def as_store_error(where: str, error: DBAPIError | psycopg.Error) -> StoreError | ConflictError:
    """Return the error of our tree for an error of the driver."""
    code = state(error) or ""
    if code == "23505":  # the one such constraint that changes can meet is (tenant, home, key)
        return ConflictError("key: the idempotency key is taken by another memory there. Use a new key.")
    if code in _ERRORS:
        kind, remedy = _ERRORS[code]
        return kind(f"store: {where}: {remedy}")
    if is_gone(error):
        return StoreError(f"store: {where}: the server cannot be reached, or broke off. Check that it runs; try again.")
    return StoreError(f"store: {where}: PostgreSQL failed with SQLSTATE {code}. Look that up; check the database.")


@dataclass(frozen=True, slots=True)
class Found:
    """What a database is like.

    Attributes:
        revision: of its tables; None where there are none.
        extension: the schema that pgvector is in; None where it is not installed.
        pgvector: its version.
        above: whether the user that connects is above row-level security.
        has_app: whether the role `APP` is there and may be taken.
    """

    revision: str | None
    extension: str | None
    pgvector: tuple[int, ...]
    above: bool
    has_app: bool

    def rules(self, statement_timeout: float) -> Rules:
        """Return what holds for every transaction in it."""
        path = tuple(dict.fromkeys((SCHEMA, self.extension or "public", "public")))
        return Rules(APP if self.above and self.has_app else None, path, statement_timeout)


def look(engine: Engine) -> Found:
    """Return what the database is like."""
    with engine.connect() as connection:
        ask = connection.exec_driver_sql
        table = ask("SELECT to_regclass(%s)::text", (f"{SCHEMA}.alembic_version",)).scalar()
        revision = None if table is None else ask(f"SELECT version_num FROM {SCHEMA}.alembic_version").scalar()  # noqa: S608
        vector = ask(
            "SELECT n.nspname, e.extversion FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace "
            "WHERE e.extname = 'vector'"
        ).first()
        above = ask("SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user").scalar()
        has_app = ask(
            "SELECT pg_has_role(current_user, oid, 'member') FROM pg_roles WHERE rolname = %s", (APP,)
        ).scalar()
    extension, version = (None, ()) if vector is None else (vector[0], tuple(map(int, vector[1].split("."))))
    return Found(revision, extension, version, bool(above), bool(has_app))


def ready(engine: Engine, where: str, distinguish: Distinguish | None) -> Found:
    """Return what the database is like, its tables made if it has none.

    Raises:
        NotAStoreError: pgvector is missing or too old.
        VersionError: its tables are of another revision than this code's.
    """
    found = look(engine)
    if found.revision is None:
        upgrade(engine, where, distinguish)
        found = look(engine)
    check_pgvector(found, where)
    if found.revision in REVISIONS[:-1]:
        raise VersionError(f"store: {where}: its tables are of revision {found.revision!r}. Run: salience db upgrade")
    if found.revision != HEAD:
        raise VersionError(
            f"store: {where}: its tables are of revision {found.revision!r}, newer than {HEAD!r} of this version of "
            "Salience. Run: pip install --upgrade salience"
        )
    return found


def check_pgvector(found: Found, where: str) -> None:
    """Raise `NotAStoreError` unless pgvector is there, and new enough."""
    if found.extension is None:
        remedy = "Let a superuser run in it: CREATE EXTENSION vector"
        raise NotAStoreError(f"store: {where}: the extension pgvector is not installed in it. {remedy}")
    if found.pgvector < LEAST_PGVECTOR:
        version, least = (".".join(map(str, numbers)) for numbers in (found.pgvector, LEAST_PGVECTOR))
        raise NotAStoreError(f"store: {where}: pgvector is {version}, older than {least}. Install a newer one.")


def upgrade(engine: Engine, where: str, distinguish: Distinguish | None = None) -> str:
    """Bring the tables to the revision of this code, as one transaction, and return the one that they had before.

    Raises:
        NotAStoreError: pgvector is not there, and this user may not install it.
    """
    from alembic import command  # here, since most openings need no migration and the import is slow
    from alembic.config import Config

    scripts = str(Path(__file__).parents[1] / "migrations").replace("%", "%%")
    begin = f"BEGIN; SET LOCAL salience.operator = 'on'; SELECT pg_advisory_xact_lock({_MIGRATING})"
    with transaction(engine, begin) as connection:
        extension(connection, where)
        found = look(engine)
        connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        path = ", ".join(dict.fromkeys((SCHEMA, *home_of_vector(connection), "public")))
        connection.exec_driver_sql(f"SET LOCAL search_path = {path}")
        config = Config(attributes={"connection": connection, "distinguish": distinguish})
        config.set_main_option("script_location", scripts)
        command.upgrade(config, "head")
    return found.revision or ""


def extension(connection: Connection, where: str) -> None:
    """Install pgvector, where it is not.

    Raises:
        NotAStoreError: this user may not, or the server has none.
    """
    if home_of_vector(connection):
        return
    try:
        connection.exec_driver_sql("CREATE EXTENSION vector SCHEMA public")
    except DBAPIError:
        remedy = "Let a superuser run in it: CREATE EXTENSION vector"
        raise NotAStoreError(f"store: {where}: the extension pgvector is not installed in it. {remedy}") from None


def home_of_vector(connection: Connection) -> tuple[str, ...]:
    """Return the schema that pgvector is in, quoted; none where it is not installed."""
    asked = (
        "SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace "
        "WHERE e.extname = 'vector'"
    )
    return tuple(connection.exec_driver_sql(asked).scalars())
