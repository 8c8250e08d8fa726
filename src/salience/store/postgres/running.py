"""Work done in a transaction, tried again where that is safe, and never twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Generic, TypeVar

from sqlalchemy import Connection, Engine, QueuePool
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from salience.errors import StoreError, UnsettledError
from salience.store.postgres import tokens, wire
from salience.store.postgres.opening import Rules, driver, is_gone, mapped, passes, transaction

T = TypeVar("T")
_WAIT: Final = wait_random_exponential(multiplier=0.02, max=1.0)


class Runner:
    """Runs work in transactions of an engine.

    Args:
        engine: with a pool.
        where: the database, as messages name it.
        rules: what holds for every transaction.
        patience: seconds for which work is tried again after failures that may pass.
    """

    def __init__(self, engine: Engine, where: str, rules: Rules, patience: float) -> None:
        self._engine = engine
        self._where = where
        self._rules = rules
        self._patience = patience
        self._closed = False

    def read(self, tenant: str | None, work: Callable[[Connection], T]) -> T:
        """Return what `work` does with a connection that sees one tenant's rows as of one instant; None: all rows.

        Raises:
            StoreError: the store is closed, or the server failed for longer than the patience.
        """
        self.check_open()
        begin = self._rules.begin("read", tenant, self._patience)

        def once() -> T:
            with transaction(self._engine, begin) as connection:
                return work(connection)

        with mapped(self._where):
            return retrying(once, self._patience)

    def write(self, tenant: str | None, work: Callable[[Connection], T], patience: float) -> T:
        """Return what `work` does with a connection, once it is committed; work that failed may be done again.

        Where the connection breaks during the commit, the next try finds out what became of it, so that nothing is
        done twice, and nothing is said to be done that is not. Work that is of no tenant (an empty one) is such that
        it may be done twice.

        Raises:
            UnsettledError: the connection broke during the commit, and whether that was done is not to be had.
            StoreError: the store is closed, or the server failed for longer than the patience; nothing was written.
        """
        self.check_open()
        begin = self._rules.begin("write", tenant, patience)
        attempts = _Attempts(self._engine, begin, tenant, work)
        with mapped(self._where):
            try:
                return retrying(attempts.once, patience)
            except Exception:
                if attempts.unsettled:
                    raise self._unknown() from None
                raise

    def enter(self, connection: Connection, tenant: str) -> None:
        """Let a write transaction go on with the rows of another tenant."""
        wire.run(driver(connection), self._rules.enter(tenant))

    @contextmanager
    def operating(self, connection: Connection) -> Iterator[None]:
        """Let what is done in it be about the rows of all tenants, in a write transaction of one."""
        wire.run(driver(connection), "SET LOCAL salience.operator = 'on'")
        yield
        wire.run(driver(connection), "SET LOCAL salience.operator = 'off'")

    def connections(self) -> dict[str, int]:
        """Return how many connections of the pool stand, by their state: `in_use`, `idle`."""
        pool = self._engine.pool
        return {"in_use": pool.checkedout(), "idle": pool.checkedin()} if isinstance(pool, QueuePool) else {}

    def check_open(self) -> None:
        """Raise `StoreError` if the store is closed."""
        if self._closed:
            raise StoreError(f"store: {self._where} is closed. Connect again.")

    def close(self) -> None:
        """Close the pool; connections in use close when they are given back."""
        self._closed = True
        self._engine.dispose()

    def _unknown(self) -> UnsettledError:
        return UnsettledError(
            f"store: {self._where}: the connection broke during a commit, and whether that was done is not to be had. "
            "Write it again with the same key=, which stores nothing twice."
        )


class _Attempts(Generic[T]):
    """A write that is tried until it is done once.

    Attributes:
        unsettled: what was made by the try whose commit broke off, while it is not known what became of it.
    """

    def __init__(self, engine: Engine, begin: wire.Turn, tenant: str | None, work: Callable[[Connection], T]) -> None:
        self.unsettled: list[T] = []
        self._engine = engine
        self._begin = begin
        self._tenant = tenant
        self._work = work
        self._token = tokens.new()

    def once(self) -> T:
        """Return what the work made, now or at a try before that turns out to be committed."""
        made: list[T] = []
        try:
            with transaction(self._engine, self._begin) as connection:
                if not self._is_first(connection):
                    return self.unsettled[0]
                self.unsettled.clear()  # what was tried before is undone
                made.append(self._work(connection))
        except Exception as error:
            if made and is_gone(error):
                self.unsettled = made
            raise
        return made[0]

    def _is_first(self, connection: Connection) -> bool:
        return self._tenant == "" or tokens.sign(connection, self._tenant or "", self._token)


def retrying(once: Callable[[], T], patience: float) -> T:
    """Return what `once` does, tried again for `patience` seconds after failures that may pass."""
    retries = Retrying(retry=retry_if_exception(passes), stop=stop_after_delay(patience), wait=_WAIT, reraise=True)
    return retries(once)
