"""What the SQLite store reads row by row, inside the transaction of the store that calls."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from salience.ids import SHORT
from salience.ports import Stored
from salience.records import Memory, Scope
from salience.store import sql, sql_history
from salience.store.gather import Activations
from salience.store.past import stood
from salience.store.rows import RECORD, to_memory, to_stored
from salience.store.schema import memories, versions


def fetched(reader: Connection, scope: Scope, ids: Sequence[str], as_of: datetime | None) -> list[Memory]:
    """Return the live memories of these ids, whole or short, visible in `scope`, each as often as it is named."""
    if as_of is not None:
        return fetched_then(reader, scope, ids, as_of)
    rows = [row for chunk in sql.chunks(ids) for row in reader.execute(sql.named(scope, chunk)).mappings()]
    for chunk in sql.chunks(asked for asked in ids if len(asked) == SHORT):
        rows += reader.execute(sql.named_short(scope, chunk)).mappings()
    return [to_memory(row) for row in rows]


def fetched_then(reader: Connection, scope: Scope, ids: Sequence[str], as_of: datetime) -> list[Memory]:
    """Return the same as they stood at an instant."""
    whole = list(ids)
    for asked in ids:
        if len(asked) == SHORT:
            whole += reader.execute(sql_history.meant(scope, asked, short=True)).scalars()
    rows = [row for chunk in sql.chunks(whole) for row in stood(reader, scope.tenant, RECORD, as_of, chunk)]
    then = map(to_memory, rows)
    return [memory for memory in then if scope.sees(memory.scope) and memory.forgotten_at is None]


def version(reader: Connection, tenant: str, id: str, version: int) -> Stored:
    """Return one version, current or older."""
    for table in (memories, versions):
        found = reader.execute(sql_history.version_of(table, tenant, id, version)).mappings().one_or_none()
        if found is not None:
            is_current = table is memories
            return to_stored(found, by_memory(reader, tenant, [id]).get(id, {}) if is_current else {})
    raise AssertionError("a version went away within a transaction")


def activations(reader: Connection, tenant: str, session_key: str) -> Activations:
    """Return what a session recalled."""
    clock = sum(row.turns for row in reader.execute(sql.clocks(tenant, [session_key])))
    return Activations(
        clock, {row.memory_id: row.turn for row in reader.execute(sql.activations_in(tenant, session_key))}
    )


def by_memory(reader: Connection, tenant: str, ids: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return the activations of memories: id -> session key -> turn."""
    held: dict[str, dict[str, int]] = {}
    for chunk in sql.chunks(ids):
        for memory_id, session_key, turn in reader.execute(sql.activations_of(tenant, chunk)):
            held.setdefault(memory_id, {})[session_key] = turn
    return held


def older(reader: Connection, tenant: str, ids: Sequence[str]) -> dict[str, list[Stored]]:
    """Return the older versions of memories, oldest first, by id."""
    held: dict[str, list[Stored]] = {}
    rows: list[Any] = [row for chunk in sql.chunks(ids) for row in reader.execute(sql.older(tenant, chunk)).mappings()]
    for row in rows:
        held.setdefault(row["id"], []).append(to_stored(row, {}))
    return held


def counts(connection: Connection) -> tuple[int, int]:
    """Return how many memories and how many older versions there are."""
    held, older = connection.execute(sql_history.counts()).one()
    return held, older
