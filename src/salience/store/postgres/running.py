"""Work done in a transaction, tried again where that is safe, and never twice."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from sqlalchemy import Connection, Engine
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from salience.errors import StoreError
from salience.store.postgres import wire
from salience.store.postgres.opening import Rules, driver, is_gone, mapped, passes, transaction

T = TypeVar("T")
_WAIT: Final = wait_random_exponential(multiplier=0.02, max=1.0)
_COMMITTED: Final = "committed"
_ABORTED: Final = "aborted"


class Unsettled(Exception):  # noqa: N818 - it is no failure yet
    """The connection broke while a transaction was being committed.

    Attributes:
        number: of the transaction.
        result: of the work in it.
    """

    def __init__(self, number: str, result: object) -> None:
        super().__init__(number)
        self.number = number
        self.result = result


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
            return self._retrying(once)

    def write(self, tenant: str | None, work: Callable[[Connection], T], patience: float) -> T:
        """Return what `work` does with a connection, once it is committed; work that failed may be done again.

        Where the connection breaks during the commit, the server is asked afterwards what became of it, so that
        nothing is done twice, and nothing is said to be done that is not.

        Raises:
            StoreError: the store is closed, or the server failed for longer than the patience. Nothing was written,
                unless the message says that this is not known.
        """
        self.check_open()
        begin = self._rules.begin("write", tenant, patience)

        def once() -> T:
            try:
                return self._committed(begin, work)
            except Unsettled as unsettled:
                if self._settled(unsettled.number):
                    return unsettled.result  # type: ignore[return-value]  # what `work` returned
                raise ConnectionAbortedError from None

        with mapped(self._where):
            try:
                return self._retrying(once)
            except ConnectionAbortedError:
                lost = "the connection broke, and broke again; nothing was written. Try again."
                raise StoreError(f"store: {self._where}: {lost}") from None

    def enter(self, connection: Connection, tenant: str) -> None:
        """Let a write transaction go on with the rows of another tenant."""
        wire.run(driver(connection), self._rules.enter(tenant))

    def check_open(self) -> None:
        """Raise `StoreError` if the store is closed."""
        if self._closed:
            raise StoreError(f"store: {self._where} is closed. Connect again.")

    def close(self) -> None:
        """Close the pool; connections in use close when they are given back."""
        self._closed = True
        self._engine.dispose()

    def _committed(self, begin: str, work: Callable[[Connection], T]) -> T:
        done: list[tuple[str, T]] = []
        try:
            with transaction(self._engine, begin) as connection:
                result = work(connection)
                number = connection.exec_driver_sql("SELECT pg_current_xact_id()::text").scalar_one()
                done.append((number, result))
        except Exception as error:
            if done and is_gone(error):
                raise Unsettled(*done[0]) from None
            raise
        return done[0][1]

    def _settled(self, number: str) -> bool:
        """Return whether a transaction of which the connection broke was committed.

        Raises:
            StoreError: that is not to be had within the patience.
        """
        ends = time.monotonic() + self._patience
        while True:
            status = self._retrying(lambda: self._status(number))
            if status in (_COMMITTED, _ABORTED):
                return status == _COMMITTED
            if status is None or time.monotonic() > ends:
                raise StoreError(
                    f"store: {self._where}: the connection broke during a commit, and whether that was done is not to "
                    "be had. Write it again with the same key=, which stores nothing twice."
                )
            time.sleep(0.05)  # its server process has not noticed yet

    def _status(self, number: str) -> str | None:
        with transaction(self._engine, "BEGIN READ ONLY") as connection:
            status = connection.exec_driver_sql("SELECT pg_xact_status(%s::xid8)", (number,)).scalar()
            return None if status is None else str(status)

    def _retrying(self, once: Callable[[], T]) -> T:
        retries = Retrying(
            retry=retry_if_exception(_may_pass), stop=stop_after_delay(self._patience), wait=_WAIT, reraise=True
        )
        return retries(once)


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, ConnectionAbortedError) or passes(error)
