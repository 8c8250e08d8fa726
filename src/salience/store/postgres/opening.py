"""Connecting to a PostgreSQL database: its DSN, connections and their transactions, and driver errors as our own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any, Final, Literal

import psycopg
from psycopg import sql as literals
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy import Connection, Engine, QueuePool, create_engine, event
from sqlalchemy import exc as sqlalchemy_errors
from sqlalchemy.exc import DBAPIError

from salience.errors import (
    BusyError,
    ConflictError,
    InputError,
    NotAStoreError,
    ReadOnlyError,
    StoreError,
    Words,
)
from salience.store.postgres import wire

SCHEMA: Final = "salience"
"""The schema that the tables are in, so that they never meet others of the same names."""
APP: Final = "salience_app"
"""The role in which every statement runs where the user that connects is above row-level security."""
Access = Literal["read", "write"]
_BEGIN: Final[dict[Access, str]] = {
    "read": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    "write": "BEGIN ISOLATION LEVEL READ COMMITTED",
}
_AGAIN: Final = "Try again."
_UNPREPARED: Final = "Set SALIENCE_PREPARED_STATEMENTS=false, and connect again."
_ERRORS: Final[dict[str, tuple[type[StoreError], str]]] = {
    "55P03": (BusyError, "another transaction kept it locked. Try again, or raise SALIENCE_BUSY_TIMEOUT."),
    "57014": (BusyError, "a statement took longer than SALIENCE_STATEMENT_TIMEOUT. Try again, or raise it."),
    "40001": (BusyError, f"another transaction came between, again and again. {_AGAIN}"),
    "40P01": (BusyError, f"another transaction came between, again and again. {_AGAIN}"),
    "26000": (StoreError, f"a pooler lost a prepared statement. {_UNPREPARED}"),
    "42P05": (StoreError, f"a pooler mixed up prepared statements. {_UNPREPARED}"),
    "22000": (StoreError, "an index is of vectors of another length. As the tables' owner: salience db index --drop"),
    "53100": (StoreError, "the server's disk is full; nothing was written. Free some space and try again."),
    "53200": (StoreError, f"the server is out of memory; nothing was written. {_AGAIN}"),
    "54000": (StoreError, "a value is too large for one of its indexes; nothing was written. Shorten the names in it."),
    "25006": (
        ReadOnlyError,
        "the server takes no writes: it is a replica, or set to read only. Connect to the primary.",
    ),
    "42501": (ReadOnlyError, f"the user may not do that. Run: GRANT {APP} TO the user; see salience db upgrade."),
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
        citus: whether the server has Citus, which gives its workers, for a SET, the text of the whole query it is in.
    """

    role: str | None
    path: tuple[str, ...]
    statement_timeout: float
    citus: bool = False

    def begin(self, access: Access, tenant: str | None, patience: float) -> wire.Turn:
        """Return the statements that begin a transaction of a tenant, or, for None, of the operator of them all."""
        local = {
            **({"citus.propagate_set_commands": "'local'"} if self.citus else {}),  # first, for those behind it
            "search_path": ", ".join(literals.Identifier(name).as_string() for name in self.path),
            "statement_timeout": str(int(self.statement_timeout * 1000)),
            "lock_timeout": str(int(patience * 1000)),
            "plan_cache_mode": "force_custom_plan",  # what fits one tenant is wrong for a larger one
            **self._whose(tenant),
        }
        role = [] if self.role is None else [f"SET LOCAL ROLE {literals.Identifier(self.role).as_string()}"]
        turn = (_BEGIN[access], *role, *(f"SET LOCAL {name} = {value}" for name, value in local.items()))
        return turn if self.citus else "; ".join(turn)

    def enter(self, tenant: str | None) -> str:
        """Return the statement that lets a transaction go on with the rows of a tenant, or, for None, of them all."""
        return "; ".join(f"SET LOCAL {name} = {value}" for name, value in self._whose(tenant).items())

    def _whose(self, tenant: str | None) -> dict[str, str]:
        """Return both settings, so that none that the connection may have besides holds."""
        operator = "on" if tenant is None else "off"
        return {"salience.operator": quoted(operator), "salience.tenant": quoted(tenant or "")}


def quoted(text: str) -> str:
    """Return a text as a literal of a statement."""
    return literals.Literal(text).as_string()


@dataclass(frozen=True, slots=True)
class Place:
    """A database, as libpq reads its DSN.

    Attributes:
        parameters: keyword of libpq -> value; a password may be among them.
    """

    parameters: Mapping[str, str] = field(repr=False)

    def conninfo(self, patience: float) -> str:
        """Return what libpq connects with; a server that does not answer is waited for `patience` seconds."""
        ours = {"connect_timeout": str(max(2, int(patience))), "application_name": "salience"}
        return make_conninfo("", **{**ours, **self.parameters, "client_encoding": "utf8"})


def place(dsn: str) -> Place:
    """Return the database that a `postgresql://` target names.

    Raises:
        InputError: it is none.
    """
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        shown = Words(dsn.partition("://")[0] + "://...")  # what follows may hold a password
        raise InputError(
            "target", shown, "Give postgresql://USER:PASSWORD@HOST:PORT/DATABASE.", f"{shown} cannot be read"
        ) from None
    return Place({name: str(value) for name, value in parts.items() if value is not None})


def named(place: Place) -> str:
    """Return how messages name a database: without its user's password, nor what else may be secret."""
    known = place.parameters
    hosts = known.get("host", known.get("hostaddr", "")).split(",")
    ports = known.get("port", "").split(",")
    each = [f"{host}:{port}" if port else host for host, port in zip(hosts, cycle(ports), strict=False)]
    return f"postgresql://{','.join(each) or 'local socket'}/{known.get('dbname', '')}"


def place_name(dsn: str) -> str:
    """Return how messages name the database of a DSN."""
    return named(place(dsn))


def engine(place: Place, size: int, patience: float, *, prepares: bool = True) -> Engine:
    """Return an engine with a pool of up to `size` connections, for one of which it waits `patience` seconds.

    Args:
        place: the database.
        size: most connections.
        patience: seconds.
        prepares: whether the server keeps the statements that come again and again.
    """
    conninfo = place.conninfo(patience)
    threshold = {} if prepares else {"prepare_threshold": None}

    def connect() -> psycopg.Connection[Any]:
        made = wire.connect(conninfo, **threshold)
        encoding = made.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            made.close()
            remedy = "Make another: createdb --encoding=UTF8 --template=template0 NAME"
            raise NotAStoreError(f"store: {named(place)}: its encoding is {encoding}, not UTF8. {remedy}")
        return made

    made = create_engine(
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
    event.listen(made, "checkout", _refuse_ended)
    return made


def _refuse_ended(below: psycopg.Connection[Any], *_: object) -> None:
    """Have the pool let go of all that it holds, where the server ended a connection while nobody used it."""
    if wire.has_ended(below):
        raise sqlalchemy_errors.InvalidatePoolError


def driver(connection: Connection) -> psycopg.Connection[Any]:
    """Return the connection of the driver below."""
    below = connection.connection.driver_connection
    assert isinstance(below, psycopg.Connection)  # noqa: S101 - `engine` connects with nothing else
    return below


@contextmanager
def transaction(engine: Engine, statements: wire.Turn) -> Iterator[Connection]:
    """Begin a transaction with some statements; commit it, or roll it back if an error leaves it."""
    with engine.connect() as connection:
        below = driver(connection)
        try:
            wire.run(below, statements)
            yield connection
            if wire.run(below, "COMMIT") != "COMMIT":  # of a transaction that an error had ended, whoever caught it
                raise psycopg.errors.InFailedSqlTransaction
        except BaseException as error:
            if not _rolled_back(below, error):
                connection.invalidate()
            raise


def _rolled_back(below: psycopg.Connection[Any], error: BaseException) -> bool:
    """Return whether a transaction that an error left is over, so that the connection may be used again."""
    if not isinstance(error, Exception) or is_gone(error) or below.closed:
        return False
    try:
        wire.run(below, "ROLLBACK")
    except psycopg.Error:
        return False
    return True


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
        told = (
            f"the server cannot be reached, or broke off{_cause(error)}. Check that it runs, and what is asked of it."
        )
        return StoreError(f"store: {where}: {told}")
    return StoreError(f"store: {where}: PostgreSQL failed with SQLSTATE {code}. Look that up; check the database.")


def _cause(error: DBAPIError | psycopg.Error) -> str:
    """Return why there is no connection, in the words of libpq, which has no codes for it; they hold no password."""
    words = str(error.orig if isinstance(error, DBAPIError) else error).strip().splitlines()
    said = words[0].rpartition("failed: ")[2] if words else ""
    return f" ({said.rstrip('.')})" if said else ""
