"""The file of a store, for its operator: its revision and state, without an embedding model."""

from __future__ import annotations

import sqlite3
from typing import Any, Final

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from salience.errors import InputError, StoreError, VersionError, Words
from salience.ports import Database
from salience.records import DatabaseState, Finding, Indexed, IndexState, TableState, Upgraded
from salience.store import integrity, sqlite_file
from salience.store.pins import Meta
from salience.store.schema import HEAD

_OBJECTS: Final = (
    "SELECT type, name, tbl_name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY tbl_name, name"
)


class SQLiteDatabase(Database):
    """The existing file of a store.

    Args:
        path: of the file.
        busy_timeout: seconds to wait for another process.
    """

    def __init__(self, path: str, *, busy_timeout: float) -> None:
        self._path = path
        self._busy_timeout = busy_timeout
        self._engine = sqlite_file.engine(path, busy_timeout)

    def upgrade(self) -> Upgraded:
        """Create missing tables, as each opening does.

        Raises:
            NotAStoreError: the file is something else.
            VersionError: its tables are of another revision.
            ReadOnlyError: it cannot be written.
        """
        sqlite_file.prepare(self._path)
        with sqlite_file.mapped(self._path), self._engine.connect() as writer, self._engine.connect() as reader:
            with reader.begin():
                before = sqlite_file.revision_of(reader, self._path)
            sqlite_file.ready(sqlite_file.writing(writer), reader, self._path, self._busy_timeout)
        return Upgraded(self._path, before, HEAD)

    def state(self) -> DatabaseState:
        """Return the revision, model, tables and indexes; counts every row."""
        with sqlite_file.mapped(self._path), self._engine.connect() as connection, connection.begin():
            revision, faults = self._revision(connection)
            meta = Meta.read(connection) if revision else Meta({})
            objects = connection.exec_driver_sql(_OBJECTS).all()
            counts = {
                row.name: connection.exec_driver_sql(f'SELECT count(*) FROM "{row.name}"').scalar_one()  # noqa: S608
                for row in objects
                if row.type == "table"
            }
            sizes, whole = _sizes(connection), connection.exec_driver_sql(sqlite_file.SIZE).scalar_one()
        own = {row.name: sizes.get(row.name) for row in objects}
        of_tables = {
            name: sum(own[row.name] or 0 for row in objects if row.tbl_name == name) if sizes else None
            for name in counts
        }
        pin = meta.pin()
        return DatabaseState(
            store=self._path,
            server=f"SQLite {sqlite3.sqlite_version}",
            revision=revision,
            head=HEAD,
            embedder=None if pin is None else pin.name,
            dimension=None if pin is None else pin.dimension,
            language=meta.values.get("language"),
            is_exact=True,
            bytes=whole,
            tables=tuple(TableState(name, rows, bytes=of_tables[name]) for name, rows in counts.items()),
            indexes=tuple(
                IndexState(row.name, row.tbl_name, "btree", own[row.name]) for row in objects if row.type == "index"
            ),
            faults=faults,
        )

    def index(self, **_: Any) -> Indexed:
        """Raise `InputError`: each process keeps the index of a file in memory."""
        raise InputError("index", Words("a file"), "Leave it out: a file needs none.", "is for PostgreSQL")

    drop_index = index

    def check(self, *, repair: bool = False) -> list[Finding]:
        """Return the problems of the file and its tables, repaired if `repair` is set; see `integrity.check`."""
        with sqlite_file.mapped(self._path), self._engine.connect() as connection:
            with connection.begin():
                _, faults = self._revision(connection)
            if faults:
                raise StoreError(faults[0])
            with (sqlite_file.writing(connection) if repair else connection).begin():
                return integrity.check(connection, repair=repair)

    def close(self) -> None:
        """Close the file."""
        self._engine.dispose()

    def _revision(self, connection: Connection) -> tuple[str | None, tuple[str, ...]]:
        """Return the revision of the tables, and why this code cannot work with them, if it cannot."""
        try:
            found = sqlite_file.revision_of(connection, self._path)
        except VersionError as error:
            revision = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar_one()
            return str(revision), (str(error),)
        if found == HEAD:
            return found, ()
        return None, (f"store: {self._path}: it has no tables yet. Run: salience db upgrade",)


def _sizes(connection: Connection) -> dict[str, int]:
    """Return the bytes of each table and index; none if this SQLite cannot tell."""
    try:
        return dict(
            map(tuple, connection.exec_driver_sql("SELECT name, pgsize FROM dbstat WHERE aggregate = TRUE").all())
        )
    except DBAPIError:  # built without dbstat
        return {}
