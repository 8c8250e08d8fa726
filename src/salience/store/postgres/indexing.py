"""The vector index: built concurrently, and swapped in for an older one when it is complete."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any, Final

import psycopg
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from salience.errors import BusyError, InputError, Words
from salience.ports import BuildProgress
from salience.records import Indexed, IndexState
from salience.store.postgres.connection import SCHEMA, driver, run
from salience.store.postgres.statements import HALF_INDEX, WHOLE_INDEX

NAMES: Final = {"vector": WHOLE_INDEX, "halfvec": HALF_INDEX}
"""Type of the numbers -> name of the index."""
LONGEST: Final = {"vector": 2_000, "halfvec": 4_000}
"""Type of the numbers -> maximum dimension that pgvector indexes."""
M: Final = 16
EF_CONSTRUCTION: Final = 64
_NEW: Final = "_new"
_OLD: Final = "_old"
MAKING: Final = 0x53414C49494458
"""Advisory lock of index builds."""
_POLL: Final = 0.5
"""Seconds between progress reports."""
_STATES: Final = """
    SELECT c.relname AS name, t.relname AS table, a.amname AS method, pg_relation_size(c.oid) AS bytes,
        coalesce(s.idx_scan, 0) AS uses, i.indisvalid AND i.indisready AS valid
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
    JOIN pg_am a ON a.oid = c.relam JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_stat_all_indexes s ON s.indexrelid = c.oid
    WHERE n.nspname = %s ORDER BY t.relname, c.relname"""
_VECTORS: Final = """
    SELECT c.relname AS name, pg_get_indexdef(c.oid) AS definition, c.reloptions AS options,
        i.indisvalid AND i.indisready AS valid, pg_relation_size(c.oid) AS bytes
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND a.amname = 'hnsw' ORDER BY c.relname"""
_DIMENSION: Final = re.compile(r"(?:vector|halfvec)\((\d+)\)")
_FAR: Final = """
    SELECT blocks_done AS done, blocks_total AS total FROM pg_stat_progress_create_index
    WHERE pid = %s AND phase LIKE 'building%%'"""


@dataclass(frozen=True, slots=True)
class Plan:
    """A vector index to build.

    Attributes:
        dimension: length of the vectors.
        is_half: whether the index holds half-precision numbers, which halves its size.
        m: links of a vector on each layer; None for the value of the existing index, or pgvector's default.
        ef_construction: breadth of the search during the build; None likewise.
        memory: `maintenance_work_mem` of the build; None for the server's setting.
    """

    dimension: int
    is_half: bool = False
    m: int | None = None
    ef_construction: int | None = None
    memory: str | None = None

    @property
    def type(self) -> str:
        """Type of the numbers."""
        return "halfvec" if self.is_half else "vector"

    @property
    def name(self) -> str:
        """Name of the index."""
        return NAMES[self.type]

    def statement(self, m: int, ef_construction: int) -> str:
        """Return the statement that builds the index under a temporary name."""
        return (
            f"CREATE INDEX CONCURRENTLY {self.name}{_NEW} ON {SCHEMA}.memories "
            f"USING hnsw ((vector::{self.type}({self.dimension})) {self.type}_ip_ops) "
            f"WITH (m = {m}, ef_construction = {ef_construction})"
        )


@dataclass(frozen=True, slots=True)
class VectorIndex:
    """An existing vector index."""

    name: str
    dimension: int
    m: int
    ef_construction: int
    valid: bool
    bytes: int

    @property
    def is_passing(self) -> bool:
        """Whether the index has a temporary name: it is being built or dropped, or was left behind."""
        return self.name not in NAMES.values()

    def fits(self, plan: Plan) -> bool:
        """Return whether the index is valid and as planned."""
        planned = (plan.dimension, plan.m or self.m, plan.ef_construction or self.ef_construction)
        return self.valid and planned == (self.dimension, self.m, self.ef_construction)


def is_of_vectors(name: str) -> bool:
    """Return whether a name is that of a vector index, temporary or not."""
    return name.removesuffix(_NEW).removesuffix(_OLD) in NAMES.values()


def states(connection: Connection) -> list[IndexState]:
    """Return the indexes of the store, by table and name."""
    return [IndexState(*row) for row in connection.exec_driver_sql(_STATES, (SCHEMA,))]


def vector_indexes(connection: Connection) -> list[VectorIndex]:
    """Return the existing vector indexes, by name."""
    return [_vector_index(row) for row in connection.exec_driver_sql(_VECTORS, (SCHEMA,))]


def _vector_index(row: Any) -> VectorIndex:
    options = dict(option.split("=", 1) for option in row.options or ())
    found = _DIMENSION.search(row.definition)
    m, ef_construction = int(options.get("m", M)), int(options.get("ef_construction", EF_CONSTRUCTION))
    return VectorIndex(row.name, int(found[1]) if found else 0, m, ef_construction, row.valid, row.bytes)


def check_plan(plan: Plan) -> None:
    """Raise `InputError` unless pgvector can index vectors of that length."""
    if plan.dimension <= LONGEST[plan.type]:
        return
    halved = not plan.is_half and plan.dimension <= LONGEST["halfvec"]
    remedy = "Give --halfvec." if halved else f"An index takes up to {LONGEST['halfvec']:,}; without one, all are read."
    vectors = f"vectors of {plan.dimension:,} numbers"
    raise InputError("index", Words(vectors), remedy, f"cannot hold {vectors}")


def make(connection: Connection, watching: Connection, plan: Plan, progress: BuildProgress | None) -> Indexed:
    """Build an index while others read and write, unless a fitting one exists; return the result.

    Args:
        connection: of the user who owns the tables, outside any transaction; not reusable afterwards.
        watching: another connection, which reads the progress.
        plan: the index to build.
        progress: called with the progress.

    Raises:
        InputError: pgvector has no such index, or an invalid `memory`.
        BusyError: another process builds or drops an index.
    """
    check_plan(plan)
    began = time.monotonic()
    with _locked(connection):
        before = next((index for index in vector_indexes(connection) if index.name == plan.name), None)
        if before is not None and before.fits(plan):
            return Indexed(plan.name, bytes=before.bytes)
        _drop(connection, [f"{plan.name}{_NEW}", f"{plan.name}{_OLD}"])
        statement = plan.statement(
            plan.m or (before.m if before else M),
            plan.ef_construction or (before.ef_construction if before else EF_CONSTRUCTION),
        )
        with _with_memory(connection, plan.memory), _notices(connection) as notices:
            try:
                with _watched(watching, driver(connection).info.backend_pid, progress):
                    connection.exec_driver_sql(statement)
            except BaseException:
                _drop(connection, [f"{plan.name}{_NEW}"])  # an incomplete index slows down every write
                raise
        _swap(connection, plan.name, before is not None)
        size = next(index.bytes for index in vector_indexes(connection) if index.name == plan.name)
    return Indexed(plan.name, True, (), size, time.monotonic() - began, " ".join(notices) or None)


def drop(connection: Connection, names: Iterable[str]) -> Indexed:
    """Drop indexes, and their temporary ones, while others read and write."""
    began = time.monotonic()
    with _locked(connection):
        known = {index.name for index in vector_indexes(connection)}
        gone = [name + end for name in names for end in ("", _NEW, _OLD) if name + end in known]
        _drop(connection, gone)
    return Indexed(None, dropped=tuple(gone), seconds=time.monotonic() - began)


def _drop(connection: Connection, names: Iterable[str]) -> None:
    for name in names:
        connection.exec_driver_sql(f"DROP INDEX CONCURRENTLY IF EXISTS {SCHEMA}.{name}")


def _swap(connection: Connection, name: str, replaces: bool) -> None:
    """Give the new index the name of the old one, without a wait for others, and drop the old one."""
    away = [f"ALTER INDEX {SCHEMA}.{name} RENAME TO {name}{_OLD}"] if replaces else []
    renamed = f"ALTER INDEX {SCHEMA}.{name}{_NEW} RENAME TO {name}"
    run(driver(connection), "; ".join(["BEGIN", *away, renamed, "COMMIT"]))
    _drop(connection, [f"{name}{_OLD}"])


@contextmanager
def _locked(connection: Connection) -> Iterator[None]:
    """Hold the lock of index builds.

    Raises:
        BusyError: another process holds it.
    """
    if not connection.exec_driver_sql(f"SELECT pg_try_advisory_lock({MAKING})").scalar():
        raise BusyError("index: another process makes or drops one. Try again when it is done.")
    try:
        yield
    finally:
        if not driver(connection).closed:
            connection.exec_driver_sql(f"SELECT pg_advisory_unlock({MAKING})")


@contextmanager
def _with_memory(connection: Connection, memory: str | None) -> Iterator[None]:
    if memory is not None:
        try:
            connection.exec_driver_sql("SELECT set_config('maintenance_work_mem', %s, false)", (memory,))
        except DBAPIError:
            raise InputError("memory", memory, "Give an amount such as 512MB or 2GB.") from None
    yield


@contextmanager
def _notices(connection: Connection) -> Iterator[list[str]]:
    """Yield a list to which the server's notices are added meanwhile."""
    notices: list[str] = []

    def add(notice: psycopg.errors.Diagnostic) -> None:
        notices.append(". ".join(filter(None, (notice.message_primary, notice.message_detail, notice.message_hint))))

    below = driver(connection)
    below.add_notice_handler(add)
    try:
        yield notices
    finally:
        below.remove_notice_handler(add)


@contextmanager
def _watched(connection: Connection, pid: int, progress: BuildProgress | None) -> Iterator[None]:
    """Report the progress of the server process `pid` meanwhile."""
    over = Event()

    def watch() -> None:
        while progress is not None and not over.wait(_POLL):
            row = connection.exec_driver_sql(_FAR, (pid,)).one_or_none()
            if row is not None and row.total:
                progress(min(row.done, row.total), row.total)

    thread = Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
