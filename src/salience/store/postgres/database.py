"""Seeing to the database of a store from outside: its revision, its indexes and its state, with no model at hand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, Self

from sqlalchemy import Connection

from salience.errors import InputError, StoreError, Words
from salience.ports import BuildProgress, Distinguish
from salience.records import DatabaseState, Finding, Indexed, IndexState, TableState, Upgraded
from salience.store.meta import Meta
from salience.store.pins import Pin
from salience.store.postgres import checking, indexing, opening, rights, standing, wire
from salience.store.postgres.indexing import NAMES, Plan
from salience.store.postgres.opening import SCHEMA
from salience.store.postgres.running import Runner
from salience.store.postgres.standing import Found
from salience.store.postgres.upgrading import home_of_vector, upgrade
from salience.store.schema import HEAD

MANY: Final = 10_000
"""Deleted rows from which on they are worth a word."""
SHARE: Final = 0.2
"""Likewise, of the rows that are there."""
_TABLES: Final = """
    SELECT c.relname AS name, CASE WHEN c.reltuples < 0 THEN s.n_live_tup ELSE c.reltuples END::bigint AS rows,
        coalesce(s.n_dead_tup, 0) AS dead, pg_total_relation_size(c.oid) AS bytes
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_stat_all_tables s ON s.relid = c.oid
    WHERE n.nspname = %s AND c.relkind IN ('r', 'p') ORDER BY c.relname"""
_OWNER: Final = """
    SELECT quote_ident(pg_get_userbyid(c.relowner)) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = 'memories' AND NOT pg_has_role(current_user, c.relowner, 'USAGE')"""
"""Who owns the tables, unless it is the user or a role that this one is of."""
_LARGE: Final = (
    "SELECT count(*) FROM (SELECT 1 FROM memories WHERE forgotten_at IS NULL GROUP BY tenant HAVING count(*) > %s) AS t"
)


class PostgresDatabase:
    """The database that a target names.

    Args:
        dsn: as of the store.
        busy_timeout: seconds to wait for a lock, or a server that is away.
        statement_timeout: seconds that one statement may take, but for those that read or index everything.
        exact_rows: memories of a tenant from which on searches want an index.
        distinguish: gives memories of older revisions their distinctions.
    """

    def __init__(
        self,
        dsn: str,
        *,
        busy_timeout: float,
        statement_timeout: float,
        exact_rows: int,
        distinguish: Distinguish | None = None,
    ) -> None:
        place = opening.place(dsn)
        self._where = opening.named(place)
        self._engine = opening.engine(place, 3, busy_timeout, prepares=False)
        self._busy_timeout = busy_timeout
        self._statement_timeout = statement_timeout
        self._exact_rows = exact_rows
        self._distinguish = distinguish

    def upgrade(self) -> Upgraded:
        """Bring it to the revision of this code; see `upgrading.upgrade`."""
        with opening.mapped(self._where):
            return upgrade(self._engine, self._where, self._distinguish)

    def state(self) -> DatabaseState:
        """Return how it stands; counts are estimates of the server."""
        with opening.mapped(self._where):
            found = standing.looked(self._engine)
            with self._engine.connect() as connection:
                tables = tuple(TableState(*row) for row in connection.exec_driver_sql(_TABLES, (SCHEMA,)))
                indexes = tuple(indexing.states(connection))
                faults = tuple(rights.faults(connection)) if found.revision == HEAD else ()
        meta = Meta({}) if found.role is None else self._runner(found).read(None, Meta.read)
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
            tables=tables,
            indexes=indexes,
            faults=(*_unready(found, self._where), *faults, *_invalid(indexes)),
            hints=(*bloated(tables), *self._wanting(found, tables, indexes)),
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
        """Make the index of vectors, for the model that the store is pinned to; see `indexing.make`."""
        pin = self._pin()
        plan = Plan(pin.dimension, is_half, m, ef_construction, memory)
        with opening.mapped(self._where), self._unhurried() as connection, self._engine.connect() as watching:
            self._require_owner(connection)
            return indexing.make(connection, watching, plan, progress)

    def drop_index(self, *, is_half: bool = False) -> Indexed:
        """Take the index of vectors away, or the one of half the precision alone."""
        names = [NAMES["halfvec"]] if is_half else list(NAMES.values())
        with opening.mapped(self._where), self._unhurried() as connection:
            self._require_owner(connection)
            return indexing.drop(connection, names)

    def check(self, *, repair: bool = False) -> list[Finding]:
        """Return what is wrong with the tables of all tenants, mended where asked for; see `checking.check`."""
        runner = self._runner(self._ready())
        if repair:
            return runner.write(None, lambda connection: checking.check(connection, repair=True), self._busy_timeout)
        return runner.read(None, checking.check)

    def _ready(self) -> Found:
        """Return what the database is like, if an engine could work with it; no tables are made.

        Raises:
            StoreError: none could.
        """
        with opening.mapped(self._where):
            found = standing.looked(self._engine)
        for problem in _unready(found, self._where):
            raise StoreError(problem)
        return found

    def _runner(self, found: Found) -> Runner:
        return Runner(self._engine, self._where, found.rules(self._statement_timeout), self._busy_timeout)

    def _pin(self) -> Pin:
        pin = self._runner(self._ready()).read(None, Meta.read).pin()
        if pin is None:
            remedy = "Store a memory first: the index is made for its model."
            raise InputError(
                "index",
                Words("a store that is pinned to no model"),
                remedy,
                "needs a model, and the store has none yet",
            )
        return pin

    @contextmanager
    def _unhurried(self) -> Iterator[Connection]:
        """Yield a connection on which nothing is cut short, of use once."""
        with self._engine.connect() as connection:
            path = ", ".join(dict.fromkeys((SCHEMA, *home_of_vector(connection), "public")))
            settings = f"SET statement_timeout = 0; SET lock_timeout = 0; SET search_path = {path}"
            try:
                wire.run(opening.driver(connection), settings)
                yield connection
            finally:
                connection.invalidate()

    def _require_owner(self, connection: Connection) -> None:
        owner = connection.exec_driver_sql(_OWNER, (SCHEMA,)).scalar()
        if owner is not None:
            told = f"indexes are for the user to make who owns the tables. Connect as {owner}."
            raise StoreError(f"store: {self._where}: {told}")

    def _wanting(self, found: Found, tables: Iterable[TableState], indexes: Iterable[IndexState]) -> Iterator[str]:
        """Yield what to do about searches that have no index of vectors where they want one."""
        rows = next((table.rows or 0 for table in tables if table.name == "memories"), 0)
        has_one = any(index.method == "hnsw" and index.valid for index in indexes)
        if has_one or rows <= self._exact_rows or found.revision != HEAD or found.role is None:
            return
        asked = partial(_count, _LARGE, self._exact_rows)
        if large := self._runner(found).read(None, asked):
            told = f"{large:,} tenants have more than {self._exact_rows:,} memories, and searches no index of vectors."
            yield f"{told} Run: salience db index"

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _count(statement: str, value: int, connection: Connection) -> int:
    return int(connection.exec_driver_sql(statement, (value,)).scalar_one())


def _unready(found: Found, where: str) -> Iterator[str]:
    """Yield why no engine can work with a database."""
    try:
        if not found.has_tables:
            yield f"store: {where}: it has no tables yet. Run: salience db upgrade"
            return
        standing.check_database(found, where)
        if found.revision is not None:
            standing.check_revision(found.revision, where)
        standing.check_role(found, where)
    except StoreError as error:
        yield str(error)


def _invalid(indexes: Iterable[IndexState]) -> Iterator[str]:
    """Yield the indexes that no search may use."""
    for index in indexes:
        if not index.valid:
            yield checking.invalid(index.name)


def bloated(tables: Iterable[TableState]) -> Iterator[str]:
    """Yield what to do about tables with many deleted rows that are still there."""
    for table in tables:
        if table.dead and table.dead >= max(MANY, SHARE * (table.rows or 0)):
            told = f"the table {table.name!r} holds {table.dead:,} deleted rows."
            yield f"{told} Let autovacuum come sooner, or run: VACUUM (ANALYZE) {SCHEMA}.{table.name}"
