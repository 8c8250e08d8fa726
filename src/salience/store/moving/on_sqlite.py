"""An SQLite file, as a copy works on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final, Self

from sqlalchemy import Connection
from sqlalchemy.dialects.sqlite import Insert, insert

from salience.errors import InputError
from salience.ports import Distinguish
from salience.store import opening
from salience.store.meta import TRACES, Meta, keep, new_epoch
from salience.store.moving.side import Reading, T, Work
from salience.store.moving.tables import Moved, Row

_AFTER: Final = (
    "SELECT min(tenant) FROM (SELECT min(tenant) AS tenant FROM memories WHERE tenant > :last "
    "UNION ALL SELECT min(tenant) FROM sessions WHERE tenant > :last)"
)


class SQLiteSide:
    """The store in a file; made by `open`."""

    def __init__(self, path: str, writer: Connection, reader: Connection) -> None:
        self.where = path
        self._writer = writer
        self._reader = reader

    @classmethod
    def open(cls, path: Path, busy_timeout: float, distinguish: Distinguish | None, *, is_source: bool) -> Self:
        """Return the store in a file, brought to the revision of this code; a target is made if it is not there.

        Raises:
            InputError: a source that is not there.
            StoreError: as for any opening; see its subclasses.
        """
        if is_source and not path.exists():
            raise InputError("source", str(path), "Name a store that is there.", f"{str(path)!r} does not exist")
        opening.prepare(str(path))
        engine = opening.engine(str(path), busy_timeout)
        with opening.mapped(str(path)):
            side = cls(str(path), opening.writing(engine.connect()), engine.connect())
            try:
                opening.ready(side._writer, side._reader, str(path), busy_timeout, distinguish)
            except BaseException:
                side.close()
                raise
        return side

    @contextmanager
    def snapshot(self) -> Iterator[Reading]:
        """Return what reads the file as it stands at one instant, however long that takes."""

        def read(_: str | None, work: Work[T]) -> T:
            return work(self._reader)

        with opening.mapped(self.where), self._reader.begin():
            Meta.read(self._reader)  # a transaction sees the file as it stands at its first reading
            yield read

    def read(self, tenant: str | None, work: Work[T]) -> T:
        """Return what `work` does with a connection that reads the file as it stands now."""
        with opening.mapped(self.where), self._reader.begin():
            return work(self._reader)

    def write(self, tenant: str | None, work: Work[T], *, is_alone: bool = False) -> T:
        """Return what `work` does with a connection, once it is on disk; a file has one writer at a time."""
        with opening.mapped(self.where), self._writer.begin():
            return work(self._writer)

    def tenants(self, connection: Connection) -> list[str]:
        """Return the tenants that have memories, sorted."""
        found: list[str] = []
        while (tenant := connection.exec_driver_sql(_AFTER, {"last": found[-1] if found else ""}).scalar()) is not None:
            found.append(tenant)
        return found

    def sequence(self, connection: Connection, tenant: str) -> int:
        """Return the last change sequence, which all tenants share."""
        return Meta.read(connection).sequence

    def settle(self, connection: Connection, tenant: str, sequence: int) -> None:
        """Raise the change sequence to one at least, and make void what was computed from the rows."""
        latest = max(sequence, Meta.read(connection).sequence)
        keep(connection, {"sequence": str(latest), "epoch": new_epoch()})

    def insert(self, connection: Connection, moved: Moved, rows: Sequence[Row]) -> None:
        """Write rows of keys that are not there."""
        if rows:
            connection.execute(insert(moved.table), moved.values(rows))

    def replace(self, connection: Connection, moved: Moved, rows: Sequence[Row]) -> None:
        """Write rows in the place of those of the same keys, which may leave what they held in unused places."""
        if rows:
            connection.execute(_replacing(moved), moved.values(rows))
            keep(connection, {TRACES: "due"})

    def remove(self, connection: Connection, moved: Moved, rows: Sequence[Row]) -> None:
        """Delete the rows of the same keys, which may leave what they held in unused places."""
        if rows:
            connection.execute(moved.remove(), [moved.of_key(row) for row in rows])
            keep(connection, {TRACES: "due"})

    def finish(self) -> None:
        """Move the log into the file."""
        with opening.mapped(self.where):
            opening.empty_log(self._writer)

    def close(self) -> None:
        """Let go of the file."""
        self._writer.close()
        self._reader.close()


@cache
def _replacing(moved: Moved) -> Insert:
    """Return the statement that writes a row in the place of that of the same key."""
    key = [column.name for column in moved.table.primary_key]
    made = insert(moved.table)
    rest = {name: made.excluded[name] for name in moved.names if name not in key}
    return made.on_conflict_do_update(index_elements=key, set_=rest)
