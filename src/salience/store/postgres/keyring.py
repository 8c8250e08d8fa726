"""The keys in a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Self, TypeVar

from sqlalchemy import Connection

from salience.ports import Distinguish
from salience.store.keyring import TableKeyring
from salience.store.postgres import opening, standing
from salience.store.postgres.running import Runner

T = TypeVar("T")
POOL: Final = 4
"""Most connections at a time: a key is found in a moment."""


class PostgresKeyring(TableKeyring):
    """Made by `open`. A key is found before it is known whose it is, so that each call is the operator's."""

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
        """Return the keys in a database, whose tables are made if it has none.

        Args:
            dsn: of the database.
            busy_timeout: seconds to wait for a lock, or a server that is away.
            statement_timeout: seconds that one statement may take.
            prepares: whether the server keeps statements that come again.
            distinguish: gives memories of older revisions their distinctions.

        Raises:
            InputError: a DSN that is none.
            VersionError: the tables are of another revision than this code's.
            StoreError: it cannot be reached, or is none that an engine could work with.
        """
        place = opening.place(dsn)
        where = opening.named(place)
        engine = opening.engine(place, POOL, busy_timeout, prepares=prepares)
        try:
            with opening.mapped(where):
                found = standing.ready(engine, where, distinguish)
        except BaseException:
            engine.dispose()
            raise
        return cls(Runner(engine, where, found.rules(statement_timeout), busy_timeout), busy_timeout)

    def _read(self, work: Callable[[Connection], T]) -> T:
        return self._runner.read(None, work)

    def _write(self, work: Callable[[Connection], T]) -> T:
        return self._runner.write(None, work, self._busy_timeout)

    def close(self) -> None:
        """Close the connections; further calls raise `StoreError`."""
        self._runner.close()
