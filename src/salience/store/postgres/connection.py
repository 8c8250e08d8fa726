"""Connections to PostgreSQL: the DSN, the pool, transactions of a tenant, retries, and driver errors as our own."""

from __future__ import annotations

import re
import secrets
import selectors
import struct
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle
from types import MappingProxyType
from typing import Any, Final, Literal, Self, TypeVar

import numpy as np
import psycopg
from psycopg import sql as literals
from psycopg.adapt import Buffer, Dumper
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Format
from sqlalchemy import Connection, Engine, QueuePool, create_engine, event
from sqlalchemy import exc as sqlalchemy_errors
from sqlalchemy.exc import DBAPIError
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from salience.errors import (
    BusyError,
    ConflictError,
    InputError,
    NotAStoreError,
    ReadOnlyError,
    StoreError,
    UnsettledError,
    Words,
)
from salience.store.schema import BinaryVector

T = TypeVar("T")
Access = Literal["read", "write"]
Statements = str | tuple[str, ...]
"""Statements without parameters: one text with semicolons, or several texts, each sent as a query of its own."""
SCHEMA: Final = "salience"
"""Schema of the tables."""
APP: Final = "salience_app"
"""Role in which statements run where the connected user bypasses row-level security."""
OPERATOR: Final = "salience_operator"
"""Role that sees the rows of all tenants, in transactions that set no tenant."""
STORE_LOCK: Final = 0x53414C49454E4345
"""Advisory lock: shared by every writer, exclusive for a change of the whole store."""
SHARED: Final = f"pg_advisory_xact_lock_shared({STORE_LOCK})"
EXCLUSIVE: Final = f"pg_advisory_xact_lock({STORE_LOCK})"
TOKEN_SECONDS: Final = 3 * 3600.0
"""Minimum seconds that the token of a write is kept; longer than a write is retried, with room for clock skew."""
TOKENS_SWEPT_EVERY: Final = 256
"""Maximum changes of a tenant between two deletions of its old tokens."""
_BEGIN: Final[dict[Access, str]] = {
    "read": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    "write": "BEGIN ISOLATION LEVEL READ COMMITTED",
}
_RECORD: Final = """
    WITH token AS (
        INSERT INTO commits (tenant, token) VALUES ({tenant}, '{token}')
        ON CONFLICT (tenant, token) DO NOTHING RETURNING token)"""
"""Records a write. Waits for an earlier attempt whose lost connection the server has not noticed yet."""
_ONLY_TOKEN: Final = f"{_RECORD} SELECT 0, count(*) FROM token"  # noqa: S608 - constants
_TOKEN_AND_SEQUENCE: Final = f"""{_RECORD}, moved AS (
        INSERT INTO tenants AS t (tenant, sequence, epoch) VALUES ({{tenant}}, {{steps}}, '')
        ON CONFLICT (tenant) DO UPDATE SET sequence = t.sequence + excluded.sequence RETURNING sequence)
    SELECT moved.sequence, (SELECT count(*) FROM token) FROM moved"""  # noqa: S608 - constants
"""The tenant's new change sequence, and whether the token is new; its other writers wait for the transaction's end."""
_SWEEP: Final = "DELETE FROM commits WHERE tenant = %s AND token < %s"
_WAIT: Final = wait_random_exponential(multiplier=0.02, max=1.0)
NO_OPERATOR: Final = (
    f"sees one at a time. Connect as the owner of the tables, or as another user after: GRANT {APP}, {OPERATOR} TO USER"
)
"""Predicate of a user that may not see the rows of all tenants."""
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
_CONNECTION_LOST: Final = ("08", "57P")
"""First characters of the SQLSTATEs after which a connection cannot be used; in an ERROR, that of Citus to a worker."""
_ENDS: Final = "postmaster was shut down"
"""Part of what Citus says, as an internal error, when its server ends while a request waits for a worker."""
NODE_MEMORY: Final = 60.0
"""Seconds after the last failure of a node for which the store counts as degraded."""
SILENT: Final = 1.0
"""Seconds without an answer after which a request counts as stuck, as when a node of a cluster hangs."""
PROBE: Final = 0.75
"""Seconds in which a server has to answer a small query of a tenant that has a request stuck."""
GRACE: Final = 5.0
"""Seconds beyond the statement timeout after which a server without an answer counts as gone."""
_LOOK: Final = 0.1
"""Seconds between two checks for silent tenants, while a request waits for a connection."""
_NODE_DOWN: Final = (
    "a node of the database cluster is unavailable, and with it this tenant's memories. Try again later."
)
_IS_SILENT: Final = (
    "the database does not answer this tenant at present; a node of it may be overloaded, or hang. Try again later."
)
_NAMED: Final = re.compile(r'\b(user|role|host|host name|address|server at) "[^"]*"')
"""Names in libpq's messages that are nobody else's business."""


@dataclass(frozen=True, slots=True)
class Address:
    """The libpq parameters of a DSN; they may include a password."""

    parameters: Mapping[str, str] = field(repr=False)

    @classmethod
    def parse(cls, dsn: str) -> Self:
        """Return the address of a `postgresql://` DSN.

        Raises:
            InputError: an invalid DSN.
        """
        try:
            parts = conninfo_to_dict(dsn)
        except psycopg.ProgrammingError:
            shown = Words(dsn.partition("://")[0] + "://...")  # the rest may hold a password
            remedy = "Give postgresql://USER:PASSWORD@HOST:PORT/DATABASE."
            raise InputError("target", shown, remedy, f"{shown} cannot be read") from None
        return cls({name: str(value) for name, value in parts.items() if value is not None})

    @property
    def name(self) -> str:
        """Name of the database in messages, without secrets."""
        known = self.parameters
        hosts = known.get("host", known.get("hostaddr", "")).split(",")
        ports = known.get("port", "").split(",")
        each = [f"{host}:{port}" if port else host for host, port in zip(hosts, cycle(ports), strict=False)]
        return f"postgresql://{','.join(each) or 'local socket'}/{known.get('dbname', '')}"

    def conninfo(self, patience: float) -> str:
        """Return the connection string, with `patience` seconds to connect."""
        defaults = {"connect_timeout": str(max(2, int(patience))), "application_name": "salience"}
        return make_conninfo("", **{**defaults, **self.parameters, "client_encoding": "utf8"})


def quoted(value: str) -> str:
    """Return a text as an SQL literal."""
    return literals.Literal(value).as_string()


@dataclass(frozen=True, slots=True)
class Session:
    """Settings of every transaction.

    Attributes:
        role: role of the statements; None for that of the connection.
        path: schemas of the search path.
        statement_timeout: maximum seconds of a statement.
        citus: whether the server has Citus. It passes no `set_config` on to its workers, and sends a worker the whole
            query that a SET is part of. So each setting that a worker has to know is a SET in a separate query.
        operator: role of statements about all tenants; None for that of the connection.
        sees_all: whether there is such a role.
    """

    role: str | None
    path: tuple[str, ...]
    statement_timeout: float
    citus: bool = False
    operator: str | None = None
    sees_all: bool = False

    def begin(
        self,
        access: Access,
        tenant: str | None,
        patience: float,
        settings: Mapping[str, object] = MappingProxyType({}),
        lock: str | None = None,
    ) -> tuple[str, ...]:
        """Return the statements that begin a transaction for a tenant, or, for None, for all tenants.

        An empty tenant has no rows: such a transaction is about the tables that belong to the whole database.

        `patience` is the time to wait for a lock, in seconds; `lock` calls the function that takes `STORE_LOCK`.
        """
        return (_BEGIN[access], *self.settings(access, tenant, patience, settings, lock))

    def settings(
        self,
        access: Access,
        tenant: str | None,
        patience: float,
        more: Mapping[str, object] = MappingProxyType({}),
        lock: str | None = None,
    ) -> tuple[str, ...]:
        """Return the statements of `begin` that follow the first one; all of them end with the transaction."""
        waits = {"lock_timeout": int(patience * 1000)}
        of_tenant = {**more, "salience.tenant": tenant or ""}
        own = {
            **self._role_of(tenant),
            **({"citus.propagate_set_commands": "local"} if self.citus else {}),  # passes each SET to the workers
            "search_path": ", ".join(literals.Identifier(name).as_string() for name in self.path),
            "statement_timeout": int(self.statement_timeout * 1000),
            "plan_cache_mode": "force_custom_plan",  # a plan for one tenant is wrong for a larger one
            **waits,
        }
        if not self.citus:
            return (_set({**own, **of_tenant}, lock),)
        passed = {**(waits if access == "write" else {}), **of_tenant}
        return (_set(own, lock), *(f"SET LOCAL {name} = {quoted(str(value))}" for name, value in passed.items()))

    def switch(self, tenant: str | None) -> tuple[str, ...]:
        """Return the statements that continue a transaction with the rows of another tenant, or of all."""
        role = {} if self.operator == self.role else self._role_of(tenant) or {"role": "none"}
        if not self.citus:
            return (_set({**role, "salience.tenant": tenant or ""}),)
        return (*([_set(role)] if role else ()), f"SET LOCAL salience.tenant = {quoted(tenant or '')}")

    def _role_of(self, tenant: str | None) -> dict[str, object]:
        role = self.operator if tenant is None else self.role
        return {} if role is None else {"role": role}


def _set(values: Mapping[str, object], *more: str | None) -> str:
    """Return the query that sets values until the end of the transaction, and calls further functions."""
    calls = [f"set_config({quoted(name)}, {quoted(str(value))}, true)" for name, value in values.items()]
    return f"SELECT {', '.join([*calls, *filter(None, more)])}"


class VectorDumper(Dumper):
    """Sends a vector in the binary format of pgvector; the statement casts it."""

    format = Format.BINARY

    def dump(self, obj: BinaryVector) -> Buffer:
        """Return the dimension, a reserved number and the numbers, big endian."""
        numbers = np.frombuffer(obj.data, "<f4")
        return struct.pack(">HH", len(numbers), 0) + numbers.astype(">f4").tobytes()


@dataclass(eq=False, slots=True)
class Flight:
    """A request that has a connection, or waits for one to be opened.

    Attributes:
        tenant: of the request.
        answered: tenant -> when the server answered it last, in seconds of the monotonic clock; of all flights.
        limit: maximum seconds of a wait for the server; None for any number.
        is_ignored: returns whether the server answers no request of a tenant that has waited since some time.
        since: since when the request waits for the server; None if it does not.
    """

    tenant: str | None
    answered: dict[str | None, float]
    limit: float | None
    is_ignored: Callable[[str | None, float], bool] = lambda *_: False
    since: float | None = field(default_factory=time.monotonic)

    def check(self) -> None:
        """Raise if the request has waited for too long.

        Raises:
            Ignored: the server does not answer the tenant.
            NoAnswer: the server did not answer within the limit.
        """
        since = time.monotonic() if self.since is None else self.since
        waited = time.monotonic() - since
        if self.limit is not None and waited > self.limit:
            raise NoAnswer("the server does not answer")
        if waited > SILENT and self.is_ignored(self.tenant, since):
            raise Ignored("the server does not answer this tenant")


class NoAnswer(psycopg.OperationalError):
    """The server did not answer in time."""


class Ignored(NoAnswer):
    """The server answers other tenants, and not even a small query of this one."""


class PostgresConnection(psycopg.Connection[Any]):
    """A connection of the driver that sends statements together with the next query, in one round trip.

    Attributes:
        first: statements to send before the next query; without parameters.
        last: statements to send after it.
        repeats: whether each query gets them: it is a transaction of its own.
        flight: the request that uses the connection.
    """

    first: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    repeats: bool = False
    flight: Flight | None = None

    def wait(self, gen: Any, *timing: Any, **options: Any) -> Any:
        """Consume a generator of the driver; raises as `Flight.check`."""
        flight = self.flight
        if flight is None:
            return super().wait(gen, *timing, **options)
        flight.since = time.monotonic()
        try:
            result = super().wait(_checked(gen, flight), *timing, **options)
        except NoAnswer:
            self.pgconn.finish()  # its answer may still come
            raise
        flight.since, flight.answered[flight.tenant] = None, time.monotonic()
        return result


def _checked(gen: Any, flight: Flight) -> Generator[Any, Any, Any]:
    """Pass a generator of the driver on, and check the flight ten times a second while it waits."""
    ready = None
    while True:
        try:
            wanted = gen.send(ready)
        except StopIteration as end:
            return end.value
        ready = yield wanted
        if not ready:
            flight.check()


class Numbered(str):
    """A statement without results whose parameters are `$1`, `$2` and so on.

    The driver would take longer to number thousands of parameters than the server to insert the rows.
    """


class BinaryCursor(psycopg.Cursor[Sequence[Any]]):
    """A cursor whose results come in binary."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.format = Format.BINARY

    def execute(self, *query: Any, **options: Any) -> Self:
        """Execute a query, with the statements of `PostgresConnection.first` and `last` around it."""
        connection = self.connection
        assert isinstance(connection, PostgresConnection)  # noqa: S101 - `connect` makes no other
        if isinstance(query[0], Numbered):
            psycopg.RawCursor(connection).execute(query[0].encode(), *query[1:])
            return self
        if not connection.first:
            return super().execute(*query, **options)
        others = psycopg.Cursor(connection)
        with connection.pipeline():
            for statement in connection.first:
                others.execute(statement, prepare=False)
            super().execute(*query, **options)
            for statement in connection.last:
                others.execute(statement, prepare=False)
        if not connection.repeats:
            connection.first = ()
        return self


class BinaryServerCursor(psycopg.ServerCursor[Sequence[Any]]):
    """A cursor of the server, which sends its results part by part, in binary; it needs a transaction."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.format = Format.BINARY

    def execute(self, *query: Any, **options: Any) -> Self:
        """Execute a query, after the statements of `PostgresConnection.first`."""
        connection = self.connection
        if isinstance(connection, PostgresConnection) and connection.first:
            run(connection, connection.first)
            connection.first = ()
        return super().execute(*query, **options)


def connect(conninfo: str, **settings: Any) -> PostgresConnection:
    """Return a connection in autocommit mode whose cursors are binary and which takes `BinaryVector`."""
    made = PostgresConnection.connect(conninfo, autocommit=True, cursor_factory=BinaryCursor, **settings)
    made.server_cursor_factory = BinaryServerCursor
    made.adapters.register_dumper(BinaryVector, VectorDumper)
    return made


def spare(size: int) -> int:
    """Return the connections that a pool may open beyond its size, in place of those that are stuck."""
    return size // 2 + 1


def create_pool(address: Address, size: int, patience: float, *, prepares: bool = True) -> Engine:
    """Return an engine with a pool of up to `size` connections, and `patience` seconds to wait for one.

    `prepares` enables prepared statements; some poolers lose them.
    """
    conninfo = address.conninfo(patience)
    threshold = {} if prepares else {"prepare_threshold": None}

    def open_connection() -> PostgresConnection:
        made = connect(conninfo, **threshold)
        encoding = made.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            made.close()
            remedy = "Make another: createdb --encoding=UTF8 --template=template0 NAME"
            raise NotAStoreError(f"store: {address.name}: its encoding is {encoding}, not UTF8. {remedy}")
        return made

    engine = create_engine(
        "postgresql+psycopg://",
        creator=open_connection,
        poolclass=QueuePool,
        pool_size=size,
        max_overflow=spare(size),
        pool_timeout=patience,
        pool_use_lifo=True,  # so that the extra connections of a peak stay unused
        isolation_level="AUTOCOMMIT",  # `transaction` begins its own, in one message with its settings
        hide_parameters=True,
    )
    event.listen(engine, "checkout", _refuse_ended)
    return engine


def _refuse_ended(connection: psycopg.Connection[Any], *_: object) -> None:
    """Let the pool drop its connections if the server closed an idle one; only then is there data to read."""
    if not connection.closed:
        with getattr(selectors, "PollSelector", selectors.SelectSelector)() as selector:
            selector.register(connection.fileno(), selectors.EVENT_READ)
            if not selector.select(0):
                return
    raise sqlalchemy_errors.InvalidatePoolError


def driver(connection: Connection) -> PostgresConnection:
    """Return the connection of the driver."""
    below = connection.connection.driver_connection
    assert isinstance(below, PostgresConnection)  # noqa: S101 - `create_pool` connects with nothing else
    return below


def run(connection: psycopg.Connection[Any], statements: Statements) -> psycopg.Cursor[Any]:
    """Run statements without parameters in one round trip; return a cursor on the result of the last one."""
    cursor = psycopg.Cursor(connection)  # in the simple protocol, one message may hold several statements
    if isinstance(statements, str):
        cursor.execute(statements, prepare=False)
    else:
        with connection.pipeline():
            for statement in statements:
                cursor.execute(statement, prepare=False)
    while cursor.nextset():
        pass
    return cursor


def send_with_next(
    connection: PostgresConnection, first: tuple[str, ...], last: tuple[str, ...], repeats: bool
) -> None:
    """Send statements together with the next query, or with each query; see `PostgresConnection`."""
    connection.first, connection.last, connection.repeats = first, last, repeats


@contextmanager
def lazily(
    engine: Engine,
    first: tuple[str, ...],
    last: tuple[str, ...] = (),
    *,
    repeats: bool = False,
    flight: Flight | None = None,
) -> Iterator[Connection]:
    """Begin a transaction with the first query; commit it, or roll it back on an error.

    If it `repeats`, each query is a transaction of its own, between the statements `first` and `last`. Without a BEGIN
    among them, the server ends it after them, since they are sent together.
    """
    with engine.connect() as connection:
        below = driver(connection)
        send_with_next(below, first, last, repeats)
        below.flight = flight
        try:
            yield connection
            if not below.first and run(below, "COMMIT").statusmessage != "COMMIT":  # an error had aborted it before
                raise psycopg.errors.InFailedSqlTransaction
        except BaseException as error:
            if not isinstance(error, Exception) or is_connection_lost(error) or not _rolled_back(below):
                connection.invalidate()
            raise
        finally:
            below.first, below.last, below.flight = (), (), None


@contextmanager
def transaction(
    engine: Engine, begin: Statements, flight: Flight | None = None
) -> Iterator[tuple[Connection, psycopg.Cursor[Any]]]:
    """Begin a transaction with some statements; commit it, or roll it back on an error.

    Yields the connection, and a cursor on the result of the last of the statements.
    """
    with lazily(engine, (), flight=flight) as connection:
        yield connection, run(driver(connection), begin)


def _rolled_back(connection: psycopg.Connection[Any]) -> bool:
    """Return whether the transaction is over, so that the connection can be used again."""
    with suppress(psycopg.Error):
        run(connection, "ROLLBACK")
        return True
    return False


class Runner:
    """Runs functions in transactions, with retries that never write twice.

    Args:
        engine: engine with a pool.
        where: name of the database in messages; also an attribute.
        session: settings of every transaction.
        patience: maximum seconds of retries of a read after transient failures.
        node_timeout: maximum seconds of retries while a node of a cluster is unavailable.
    """

    def __init__(
        self, engine: Engine, where: str, session: Session, patience: float, node_timeout: float = 1.0
    ) -> None:
        self._engine = engine
        self.where = where
        self._session = session
        self._patience = patience
        self._node_timeout = node_timeout
        self._closed = False
        self._size = engine.pool.size() if isinstance(engine.pool, QueuePool) else 1
        self._places = threading.BoundedSemaphore(max(1, self._size // 4))
        self._down: dict[str | None, float] = {}
        self._changed = threading.Condition()
        self._flights: set[Flight] = set()
        self._answered: dict[str | None, float] = {}
        self._silent: dict[str | None, float] = {}
        self._probing: set[str] = set()
        self._probes = engine.pool.recreate()
        self._refused = -NODE_MEMORY

    def read(
        self,
        tenant: str | None,
        work: Callable[[Connection], T],
        *,
        one_state: bool = True,
        settings: Mapping[str, object] = MappingProxyType({}),
    ) -> T:
        """Return the result of `work`, which reads the rows of one tenant, or of all for None.

        The tenant is empty for tables that belong to the whole database. With `one_state`, all queries see one state; a
        function with a single query needs no transaction.

        Raises:
            StoreError: the store is closed, or the server failed for longer than the patience.
        """
        self._check(tenant)
        begin, last = self._session.begin("read", tenant, self._patience, settings), tuple[str, ...]()
        if not one_state:
            begin, last = (begin, ("COMMIT",)) if self._session.citus else (begin[1:], ())

        def once(flight: Flight) -> T:
            with lazily(self._engine, begin, last, repeats=not one_state, flight=flight) as connection:
                return work(connection)

        with mapped(self.where):
            return self._attempts(tenant, once, self._patience)

    def write(
        self,
        tenant: str | None,
        work: Callable[[Connection, int], T],
        patience: float,
        *,
        steps: int = 0,
        lock: str | None = None,
    ) -> T:
        """Return the result of `work` after the commit; transient failures are retried for `patience` seconds.

        A write inserts a token in its transaction. If the connection breaks during the commit, the next attempt finds
        the token if the first one was committed, so that no write happens twice. (A transaction id would not do:
        after a crash, PostgreSQL may reuse it.)

        Args:
            tenant: tenant of the rows; None for all rows, empty for none. For an empty one, the work may run twice.
            work: called with the connection and the tenant's new change sequence (0 without `steps`).
            patience: seconds.
            steps: increase of the change sequence; the tenant's other writers wait until the transaction ends.
            lock: `SHARED` or `EXCLUSIVE`, for writes that change memories.

        Raises:
            UnsettledError: the connection broke during the commit, and its outcome is unknown.
            StoreError: the store is closed, or the server failed for longer than the patience; nothing was written.
        """
        self._check(tenant)
        token = f"{int(time.time()):016x}{secrets.token_hex(8)}"  # tokens sort by the time of making, to the second
        record = (_TOKEN_AND_SEQUENCE if steps else _ONLY_TOKEN).format(
            tenant=quoted(tenant or ""), token=token, steps=steps
        )
        first = "SELECT 0, 1" if tenant == "" else record
        statements = (*self._session.begin("write", tenant, patience, lock=lock), first)
        begin = statements if self._session.citus else "; ".join(statements)
        unsettled: list[T] = []

        def once(flight: Flight) -> T:
            nonlocal unsettled
            made: list[T] = []
            try:
                with transaction(self._engine, begin, flight) as (connection, begun):
                    sequence, is_first = begun.fetchone() or (0, 0)
                    if not is_first:
                        return unsettled[0]
                    unsettled = []  # the previous attempt was rolled back
                    if steps and sequence % TOKENS_SWEPT_EVERY < steps:
                        oldest = f"{int(time.time() - TOKEN_SECONDS):016x}"
                        connection.exec_driver_sql(_SWEEP, (tenant, oldest))
                    made.append(work(connection, sequence))
            except Exception as error:
                if made and (is_connection_lost(error) or is_node_down(error)):
                    unsettled = made
                raise
            return made[0]

        with mapped(self.where):
            try:
                return self._attempts(tenant, once, patience)
            except Exception:
                if unsettled:
                    raise UnsettledError(
                        f"store: {self.where}: the connection broke during a commit, and its outcome is "
                        "unknown. Write it again with the same key=, which stores nothing twice."
                    ) from None
                raise

    def switch(self, connection: Connection, tenant: str | None) -> None:
        """Continue a write transaction with the rows of another tenant, or of all for None; raises as `read`."""
        self._check(tenant)
        run(driver(connection), self._session.switch(tenant))

    def _check(self, tenant: str | None) -> None:
        """Raise `StoreError` if the store is closed, or the user may not see the rows of all tenants for None."""
        self.check_open()
        if tenant is None and not self._session.sees_all:
            raise StoreError(f"store: {self.where}: this concerns all tenants, and the user {NO_OPERATOR}")

    def _attempts(self, tenant: str | None, once: Callable[[Flight], T], patience: float) -> T:
        """Return the result of `once`, retried for `patience` seconds after transient failures.

        If a node of a cluster is down, it is retried for the node timeout at most, and by a quarter of the pool's
        connections at most: other requests of the affected tenants fail at once, and leave threads and connections to
        the tenants of the other nodes.
        """

        def attempt() -> T:
            with self._flight(tenant, patience) as flight:
                return once(flight)

        if tenant not in self._down:
            try:
                return _retry(attempt, patience)
            except Exception as error:
                if not is_node_down(error):
                    raise
                self._down[tenant] = time.monotonic()
        if not self._places.acquire(blocking=False):
            raise StoreError(f"store: {self.where}: {_NODE_DOWN}")
        try:
            result = _retry(attempt, min(patience, self._node_timeout), is_node_down)
        except Exception as error:
            if is_node_down(error):
                self._down[tenant] = time.monotonic()
            raise
        finally:
            self._places.release()
        self._down.pop(tenant, None)
        return result

    @contextmanager
    def _flight(self, tenant: str | None, patience: float) -> Iterator[Flight]:
        """Wait for `patience` seconds until there is a connection for a request.

        The stuck requests of a tenant leave their connections to others: the pool grows by `spare`. If the server
        answers other tenants meanwhile, further requests of that tenant fail after `SILENT` seconds. Once a probe got
        no answer either, they fail at once, except for one a second, which sends the next probe.

        Raises:
            BusyError: all connections are in use.
            StoreError: the server does not answer this tenant.
        """
        began, timeout = time.monotonic(), self._session.statement_timeout
        if self._is_silent(tenant) and tenant:
            is_recent = began - self._silent[tenant] < SILENT + PROBE
            if is_recent or not self._probe(tenant, False):
                raise StoreError(f"store: {self.where}: {_IS_SILENT}")
        with self._changed:
            while not self._has_room(tenant):
                waited = time.monotonic() - began
                if waited > SILENT and self._is_ignored(tenant):
                    self._refused = time.monotonic()
                    raise StoreError(f"store: {self.where}: {_IS_SILENT}")
                if waited > patience:
                    raise sqlalchemy_errors.TimeoutError
                self._changed.wait(_LOOK)
            flight = Flight(tenant, self._answered, timeout + GRACE if timeout else None, self._gets_no_answer)
            self._flights.add(flight)
        try:
            yield flight
        finally:
            with self._changed:
                self._flights.remove(flight)
                self._changed.notify_all()

    def _has_room(self, tenant: str | None) -> bool:
        own = [flight for flight in self._flights if flight.tenant == tenant]
        if self._is_ignored(tenant):
            return len(own) < max(2, self._size // 4) and len(self._flights) < self._size
        others = {flight.tenant for flight in self._flights} - {tenant}
        stuck = {other for other in others if self._stuck_since(other) is not None}
        left = sum(flight.tenant in stuck for flight in self._flights)
        more = (
            spare(self._size) if tenant == "" else min(left, spare(self._size))
        )  # a probe of the store is always let in
        return len(self._flights) < self._size + more

    def _stuck_since(self, tenant: str | None) -> float | None:
        """Return since when a request of a tenant is stuck, if none was answered since then; None otherwise."""
        answered, latest = self._answered.get(tenant, 0.0), time.monotonic() - SILENT
        waiting = [
            flight.since for flight in list(self._flights) if flight.tenant == tenant and flight.since is not None
        ]
        return min((since for since in waiting if answered < since < latest), default=None)

    def _is_ignored(self, tenant: str | None) -> bool:
        """Return whether a request of a tenant is stuck, while the server answers other tenants."""
        since = self._stuck_since(tenant)
        return since is not None and any(at > since for other, at in list(self._answered.items()) if other != tenant)

    def _is_silent(self, tenant: str | None) -> bool:
        """Return whether the server answered nothing of a tenant since a probe that it did not answer."""
        return self._answered.get(tenant, 0.0) < self._silent.get(tenant, 0.0)

    def _gets_no_answer(self, tenant: str | None, since: float) -> bool:
        """Return whether a request that waits since then gets no answer; a probe tells it from a slow statement."""
        if self._is_silent(tenant) and self._silent[tenant] >= since:
            return True
        return bool(tenant) and self._is_ignored(tenant) and not self._probe(tenant or "", True)

    def _probe(self, tenant: str, default: bool) -> bool:
        """Return whether the server answers a small query of a tenant; the default if another thread is asking."""
        with self._changed:
            if tenant in self._probing:
                return default
            self._probing.add(tenant)
        began = time.monotonic()
        try:
            if self._answers(tenant):
                self._answered[tenant] = time.monotonic()
                return True
            self._silent[tenant], self._refused = began, time.monotonic()
            return False
        finally:
            self._probing.discard(tenant)

    def _answers(self, tenant: str) -> bool:
        """Return whether the server answers a small query of a tenant within `PROBE`, on a connection of its own."""
        query = f"SELECT 1 FROM tenants WHERE tenant = {quoted(tenant)}"  # noqa: S608 - quoted
        try:
            connection = self._probes.connect()
        except psycopg.Error:
            return True  # an error is an answer, and that of the request will say more
        below = connection.driver_connection
        assert isinstance(below, PostgresConnection)  # noqa: S101 - `create_pool` connects with nothing else
        below.flight = Flight(tenant, {}, PROBE)
        try:
            run(below, (*self._session.begin("read", tenant, PROBE), query, "ROLLBACK"))
        except NoAnswer:
            return False
        except psycopg.Error:
            return True
        finally:
            connection.invalidate()
        return True

    @property
    def is_degraded(self) -> bool:
        """Whether a node of a cluster was unavailable to a tenant, or did not answer it, not long ago."""
        failed = [*self._down.values(), self._refused]
        tenants = {flight.tenant for flight in list(self._flights)}
        return any(time.monotonic() - at < NODE_MEMORY for at in failed) or any(map(self._is_ignored, tenants))

    @property
    def sees_all(self) -> bool:
        """Whether the user may see the rows of all tenants."""
        return self._session.sees_all

    def connections(self) -> dict[str, int]:
        """Return the number of connections of the pool by their state: `in_use`, `idle`."""
        pool = self._engine.pool
        return {"in_use": pool.checkedout(), "idle": pool.checkedin()} if isinstance(pool, QueuePool) else {}

    def check_open(self) -> None:
        """Raise `StoreError` if the store is closed."""
        if self._closed:
            raise StoreError(f"store: {self.where} is closed. Connect again.")

    def close(self) -> None:
        """Close the pool; connections in use close when they are returned."""
        self._closed = True
        self._engine.dispose()


def _retry(once: Callable[[], T], patience: float, more: Callable[[BaseException], bool] = lambda _: False) -> T:
    """Return the result of `once`, retried for `patience` seconds after transient failures, and those of `more`."""

    def is_transient(error: BaseException) -> bool:
        if isinstance(_cause(error), Ignored):
            return False
        return sqlstate(error) in ("40001", "40P01") or is_connection_lost(error) or more(error)

    retries = Retrying(
        retry=retry_if_exception(is_transient), stop=stop_after_delay(patience), wait=_WAIT, reraise=True
    )
    return retries(once)


def _cause(error: BaseException) -> BaseException | None:
    return error.orig if isinstance(error, DBAPIError) else error


def sqlstate(error: BaseException) -> str | None:
    """Return the SQLSTATE of an error of the driver; empty for one without, None for any other error."""
    cause = _cause(error)
    return (cause.sqlstate or "") if isinstance(cause, psycopg.Error) else None


def is_node_down(error: BaseException) -> bool:
    """Return whether the server says, on a connection that works, that it has none to another node of its cluster."""
    cause = _cause(error)
    if not isinstance(cause, psycopg.Error) or not (cause.sqlstate or "").startswith(_CONNECTION_LOST):
        return False
    return cause.diag.severity_nonlocalized == "ERROR"  # the server ends its own connection by FATAL


def is_connection_lost(error: BaseException) -> bool:
    """Return whether the connection is lost, or none can be made at present."""
    code = sqlstate(error)
    cause = _cause(error)
    if is_node_down(error):
        return False
    ends = code == "XX000" and _ENDS in str(cause)
    unanswered = code == "" and isinstance(cause, psycopg.OperationalError)
    return (code or "").startswith(_CONNECTION_LOST) or ends or unanswered


@contextmanager
def mapped(where: str) -> Iterator[None]:
    """Raise errors of the driver as `StoreError` or `ConflictError`, which name the database and show no values."""
    try:
        yield
    except sqlalchemy_errors.TimeoutError:
        remedy = "Raise SALIENCE_POOL_SIZE, or ask less of it at once."
        raise BusyError(f"store: {where}: every connection of the pool is in use. {remedy}") from None
    except (DBAPIError, psycopg.Error) as error:
        code = sqlstate(error) or ""
        if code == "23505":  # the one such constraint that changes can violate is (tenant, home, key)
            raise ConflictError("key: the idempotency key is taken by another memory there. Use a new key.") from None
        if code in _ERRORS:
            kind, problem = _ERRORS[code]
            raise kind(f"store: {where}: {problem}") from None
        if is_node_down(error):
            raise StoreError(f"store: {where}: {_NODE_DOWN}") from None
        if isinstance(_cause(error), Ignored):
            raise StoreError(f"store: {where}: {_IS_SILENT}") from None
        if is_connection_lost(error):
            lines = str(_cause(error)).strip().splitlines()
            message = lines[0].rpartition("failed: ")[2] if lines else ""  # libpq's message, without a password
            message = _NAMED.sub(r"\1 ...", message)
            cause = f" ({message.rstrip('.')})" if message else ""
            remedy = "Check the address, and that the server runs."
            raise StoreError(f"store: {where}: the server cannot be reached, or broke off{cause}. {remedy}") from None
        remedy = "Look up the code in the documentation of PostgreSQL."
        raise StoreError(f"store: {where}: PostgreSQL failed with SQLSTATE {code}. {remedy}") from None
