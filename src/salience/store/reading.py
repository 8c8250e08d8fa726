"""What the stores on SQL read row by row, inside the transaction of the store that calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Executable

from salience.errors import DamagedError
from salience.ports import Answered, Count, Stored
from salience.records import Filter, Memory, Scope
from salience.records.ids import SHORT
from salience.store import sql, sql_history, sql_requests
from salience.store.index import Activations
from salience.store.meta import LAID_BY, Meta
from salience.store.past import stood
from salience.store.pins import Handle
from salience.store.rows import RECORD, is_text, of_record, readable, to_memory, to_stored
from salience.store.schema import memories, versions
from salience.store.sqlite_file import Driver


def fetch(reader: Connection, scope: Scope, ids: Sequence[str], as_of: datetime | None) -> list[Memory]:
    """Return the live memories of these ids (whole or short) visible in `scope`, as asked; see `ports.Store`."""
    found = {memory.id: memory for memory in fetched(reader, scope, ids, as_of)}
    if are_whole(ids):
        return [found[asked] for asked in ids if asked in found]
    fits: dict[str, dict[str, Memory]] = {}
    for memory in found.values():
        for name in (memory.id, memory.short_id):
            fits.setdefault(name, {})[memory.id] = memory
    return [next(iter(fits[asked].values())) for asked in ids if len(fits.get(asked, ())) == 1]


def are_whole(ids: Sequence[str]) -> bool:
    """Return whether none of some ids is a short one."""
    return SHORT not in map(len, ids)


def in_order(ids: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[Memory]:
    """Return the memories in rows of `RECORD` in the order of their whole ids; those that are not there are left out.

    Raises:
        StoreError: a value that no memory has; the file is damaged.
    """
    found = {memory.id: memory for memory in map(of_record, rows)}
    return [found[asked] for asked in ids if asked in found]


def fetched(reader: Connection, scope: Scope, ids: Sequence[str], as_of: datetime | None) -> list[Memory]:
    """Return the live memories of these ids, whole or short, visible in `scope`, each as often as it is named."""
    if as_of is not None:
        return fetched_then(reader, scope, ids, as_of)
    rows = [row for chunk in sql.chunks(ids) for row in _found(reader, *sql.named(scope, chunk))]
    for chunk in sql.chunks(asked for asked in ids if len(asked) == SHORT):
        rows += _found(reader, *sql.named(scope, chunk, "short_id"))
    return [of_record(row) for row in rows]


def _found(reader: Connection, statement: Executable, values: Mapping[str, Any]) -> Iterable[Sequence[Any]]:
    """Return what a statement that is made once finds; SQLite's own driver is done before SQLAlchemy has asked."""
    if reader.dialect.name == "sqlite":
        return Driver(reader).rows(statement, values)
    return reader.execute(statement, values)


def fetched_then(reader: Connection, scope: Scope, ids: Sequence[str], as_of: datetime) -> list[Memory]:
    """Return the same as they stood at an instant."""
    whole = list(ids)
    for asked in ids:
        if len(asked) == SHORT:
            whole += reader.execute(sql_history.meant(scope, asked, short=True)).scalars()
    rows = [row for chunk in sql.chunks(whole) for row in stood(reader, scope.tenant, RECORD, as_of, chunk)]
    then = map(to_memory, rows)
    return [memory for memory in then if scope.sees(memory.scope) and memory.forgotten_at is None]


def keyed(reader: Connection, home: Scope, keys: Sequence[str]) -> list[Memory]:
    """Return the memories, forgotten ones too, that live at `home` under these idempotency keys."""
    return [
        to_memory(row)
        for chunk in sql.chunks(keys)
        for row in reader.execute(sql.of_keys(home.tenant, home.home_key, chunk)).mappings()
    ]


def answered(reader: Connection, home: Scope, key: str) -> Answered | None:
    """Return what was answered to a request from `home` under an idempotency key, if anything is kept of one."""
    row = reader.execute(sql_requests.under(home, key)).one_or_none()
    with readable():
        return None if row is None else sql_requests.to_answered(row, home, key)


def scan(
    reader: Connection,
    scope: Scope,
    after: str,
    limit: int,
    filter: Filter,
    *,
    forgotten: bool,
    versions: bool,
    passed: list[DamagedError] | None = None,
) -> list[Stored]:
    """Return a page of visible memories, with their older versions if they are wanted; see `ports.Store`."""
    found: list[Stored] = []
    left, rows = limit, None
    while rows is None or (passed and left and rows):
        rows = reader.execute(sql.page(scope, after, left, filter, forgotten)).mappings().all()
        ids = [row["id"] for row in rows]
        sound = [one for one in ids if is_text(one)]
        held = by_memory(reader, scope.tenant, sound)
        before = older(reader, scope.tenant, sound, passed) if versions else {}
        for row in rows:
            try:
                newest = to_stored(row, held.get(row["id"], {}))
            except DamagedError as error:
                if passed is None or error.id is None:  # without an id there is no place after it
                    raise
                passed.append(error)
            else:
                found += (*before.get(newest.memory.id, ()), newest)
                left -= 1
        after = ids[-1] if ids else after
    return found


def history(reader: Connection, scope: Scope, id: str) -> list[Stored]:
    """Return the versions of the memory, visible in `scope`, that an id means; see `ports.Store`."""
    found = set(reader.execute(sql_history.meant(scope, id, short=False)).scalars())
    found |= set(reader.execute(sql_history.meant(scope, id, short=True)).scalars())
    if len(found) != 1:
        return []
    (whole,) = found
    (row,) = reader.execute(sql.of_ids(scope.tenant, [whole])).mappings().all()
    held = by_memory(reader, scope.tenant, [whole])
    return [*older(reader, scope.tenant, [whole]).get(whole, ()), to_stored(row, held.get(whole, {}))]


def without_vector(
    meta: Meta, handle: Handle, after: tuple[str, str, int], limit: int, tenant: str | None = None
) -> list[sql_history.Asked]:
    """Return what finds the keys of the versions without a vector of the handle's model, after a key, in order.

    Raises:
        EmbedderError: whether the store's model is the handle's is not to be had.
    """
    pin, laid_by = meta.pin(), meta.pin(LAID_BY)
    if pin is None or handle.matches(pin):
        return sql_history.unembedded(after, limit, tenant)
    return sql_history.not_laid_by(after, limit, laid_by is not None and handle.matches(laid_by), tenant)


def unembedded(reader: Connection, asked: Sequence[sql_history.Asked], limit: int) -> list[Stored]:
    """Return the first versions that these statements find the keys of."""
    keys = sorted(tuple(row) for one in asked for row in reader.execute(*one))[:limit]
    return [version(reader, *key) for key in keys]


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


def older(
    reader: Connection, tenant: str, ids: Sequence[str], passed: list[DamagedError] | None = None
) -> dict[str, list[Stored]]:
    """Return the older versions of memories, oldest first, by id; damaged ones go into `passed` where it is given."""
    held: dict[str, list[Stored]] = {}
    rows: list[Any] = [row for chunk in sql.chunks(ids) for row in reader.execute(sql.older(tenant, chunk)).mappings()]
    for row in rows:
        try:
            held.setdefault(row["id"], []).append(to_stored(row, {}))
        except DamagedError as error:
            if passed is None:
                raise
            passed.append(error)
    return held


def tenants(reader: Connection) -> dict[str, int]:
    """Return the number of memories of each tenant that has some."""
    found = reader.exec_driver_sql("SELECT tenant, count(*) FROM memories GROUP BY tenant")
    return dict(map(tuple, found))


def counts_by(reader: Connection, scope: Scope) -> list[Count]:
    """Return the numbers of live memories visible in a scope; see `ports.Store.counts`."""
    return [Count(*row) for row in reader.execute(sql.counts_by(scope))]


def counts(connection: Connection, tenants: Sequence[str] | None = None) -> tuple[int, int]:
    """Return how many memories and how many older versions there are, in all or of some tenants."""
    held, older = connection.execute(sql_history.counts(tenants)).one()
    return held, older
