"""A PostgreSQL database, as a copy works on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final, Self

from sqlalchemy import Connection, Engine
from sqlalchemy.dialects.postgresql import Insert, insert

from salience.errors import InputError, StoreError, Words
from salience.ports import Distinguish
from salience.store import rows as values
from salience.store.meta import new_epoch
from salience.store.moving.side import Reading, T, Work
from salience.store.moving.tables import MEMORIES, TABLES, Moved, Row
from salience.store.postgres import books, opening, standing, wire, words
from salience.store.postgres.keys import indexed
from salience.store.postgres.locks import alone, shared
from salience.store.postgres.opening import Rules
from salience.store.postgres.running import Runner
from salience.store.schema import SERVER, postings

_PATIENT: Final = (
    "SELECT set_config(name, '0', true) FROM pg_settings "
    "WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')"
)
"""A snapshot is held for as long as the copy takes; settings that a server does not know are left out."""
_SETTLE: Final = (
    "INSERT INTO tenants AS t (tenant, sequence, epoch) VALUES (%s, %s, %s) ON CONFLICT (tenant) "
    "DO UPDATE SET sequence = greatest(t.sequence, excluded.sequence), epoch = excluded.epoch"
)
_DERIVED: Final = tuple(column.name for column in MEMORIES.table.c if column.info == SERVER)
"""Columns of a memory that PostgreSQL alone has; `indexed` makes them."""
_TENANT, _ID = (MEMORIES.names.index(name) for name in ("tenant", "id"))
_ANALYZE: Final = f"ANALYZE {', '.join([*(moved.name for moved in TABLES), postings.name])}"
_SIZE: Final = 2
"""Connections of a copy: one holds the snapshot."""


class PostgresSide:
    """The store in a database; made by `open`."""

    def __init__(self, engine: Engine, where: str, rules: Rules, patience: float) -> None:
        self.where = where
        self._engine = engine
        self._rules = rules
        self._patience = patience
        self._runner = Runner(engine, where, rules, patience)

    @classmethod
    def open(
        cls, dsn: str, busy_timeout: float, distinguish: Distinguish | None, *, is_source: bool, prepares: bool = True
    ) -> Self:
        """Return the store in a database; a target without tables gets them.

        Raises:
            InputError: a DSN that is none, or a source without tables.
            StoreError: as for any opening; see its subclasses.
        """
        place = opening.place(dsn)
        where = opening.named(place)
        engine = opening.engine(place, _SIZE, busy_timeout, prepares=prepares)
        try:
            with opening.mapped(where):
                if is_source and not standing.looked(engine).has_tables:
                    raise InputError("source", Words(where), "Name one that is there.", f"{where} holds no store")
                found = standing.ready(engine, where, distinguish)
        except BaseException:
            engine.dispose()
            raise
        return cls(engine, where, found.rules(0), busy_timeout)

    @contextmanager
    def snapshot(self) -> Iterator[Reading]:
        """Return what reads the database as it stands at one instant, however long that takes."""
        begin = self._rules.begin("read", None, self._patience)
        with opening.mapped(self.where), opening.transaction(self._engine, begin) as connection:
            connection.exec_driver_sql(_PATIENT).all()
            yield partial(self._entered, connection)

    def read(self, tenant: str | None, work: Work[T]) -> T:
        """Return what `work` does with a connection that reads the database as it stands now."""
        return self._runner.read(tenant, work)

    def write(self, tenant: str | None, work: Work[T], *, is_alone: bool = False) -> T:
        """Return what `work` does with a connection, once it is committed; `is_alone`: with no other writer at work."""

        def locked(connection: Connection) -> T:
            (alone if is_alone else shared)(connection)
            return work(connection)

        return self._runner.write(tenant, locked, self._patience)

    def tenants(self, connection: Connection) -> list[str]:
        """Return the tenants that ever wrote, sorted."""
        return books.tenants(connection)

    def sequence(self, connection: Connection, tenant: str) -> int:
        """Return the last change sequence of a tenant."""
        row = connection.exec_driver_sql(books.READING, (tenant,)).one_or_none()
        return 0 if row is None else int(row[0])

    def settle(self, connection: Connection, tenant: str, sequence: int) -> None:
        """Raise the change sequence of a tenant to one at least, and make void what was computed from its rows."""
        connection.exec_driver_sql(_SETTLE, (tenant, sequence, new_epoch()))

    def insert(self, connection: Connection, moved: Moved, rows: Sequence[Row]) -> None:
        """Write rows of keys that are not there.

        COPY, which row-level security refuses, was measured to be no faster: what a memory is found by takes the time.
        """
        if rows:
            with _posted(connection, moved, rows, are_new=True):
                connection.execute(insert(moved.table), _parameters(moved, rows))

    def replace(self, connection: Connection, moved: Moved, rows: Sequence[Row]) -> None:
        """Write rows in the place of those of the same keys."""
        if rows:
            with _posted(connection, moved, rows):
                connection.execute(_replacing(moved), _parameters(moved, rows))

    def remove(self, connection: Connection, moved: Moved, rows: Sequence[Row]) -> None:
        """Delete the rows of the same keys."""
        if rows:
            with _posted(connection, moved, rows):
                connection.execute(moved.remove(), [moved.of_key(row) for row in rows])

    def finish(self) -> None:
        """Have the server count anew what it plans by, where the user may; it does so by itself after a while."""
        counting = Runner(self._engine, self.where, replace(self._rules, role=None), self._patience)
        with suppress(StoreError):  # the copy is whole without it
            counting.write("", lambda connection: connection.exec_driver_sql(_ANALYZE), self._patience)

    def close(self) -> None:
        """Let go of the database."""
        self._runner.close()

    def _entered(self, connection: Connection, tenant: str | None, work: Work[T]) -> T:
        """Return what `work` does within the snapshot, where row-level security lets it see a tenant alone, or all."""
        wire.run(opening.driver(connection), self._rules.enter(tenant))
        return work(connection)


@contextmanager
def _posted(connection: Connection, moved: Moved, rows: Sequence[Row], are_new: bool = False) -> Iterator[None]:
    """Post what rows of memories are found by, once they are written; nothing for rows of other tables."""
    if moved is not MEMORIES:
        yield
        return
    tenant, ids = rows[0][_TENANT], [row[_ID] for row in rows]
    before = frozenset() if are_new else words.due(connection, tenant, ids)
    yield
    words.repost(connection, tenant, ids, before)


def _names(moved: Moved) -> tuple[str, ...]:
    """Return the columns that are written."""
    return (*moved.names, *_DERIVED) if moved is MEMORIES else moved.names


def _whole(moved: Moved, rows: Sequence[Row]) -> list[Row]:
    """Return rows with the columns that PostgreSQL alone has.

    Raises:
        StoreError: a row that no memory can be read from.
    """
    if moved is not MEMORIES:
        return list(rows)
    return [(*row, *_derived(dict(zip(moved.names, row, strict=True)))) for row in rows]


def _derived(row: dict[str, Any]) -> Row:
    found = indexed(values.to_memory(row), values.to_terms(row["terms"]))
    return tuple(found[name] for name in _DERIVED)


def _parameters(moved: Moved, rows: Sequence[Row]) -> list[dict[str, Any]]:
    names = _names(moved)
    return [dict(zip(names, row, strict=True)) for row in _whole(moved, rows)]


@cache
def _replacing(moved: Moved) -> Insert:
    """Return the statement that writes a row in the place of that of the same key."""
    key = [column.name for column in moved.table.primary_key]
    made = insert(moved.table)
    rest = {name: made.excluded[name] for name in _names(moved) if name not in key}
    return made.on_conflict_do_update(index_elements=key, set_=rest)
