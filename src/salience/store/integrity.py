"""Checks of an SQLite file and its tables, and repairs; PostgreSQL shares some of them.

Findings show ids, counts and columns, but no text of a memory.
"""

from __future__ import annotations

import base64
import json
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Final

from sqlalchemy import Connection, delete, exists, func, select, text
from sqlalchemy.exc import DBAPIError

from salience.errors import DamagedError, InputError
from salience.records import Finding, Scope
from salience.records.ids import short_id
from salience.store import keyring, schema
from salience.store.pins import PINNED, SET_ASIDE, Meta, invalidate, write_meta
from salience.store.rows import RECORD, is_text, to_memory

MOST: Final = 100
"""Maximum findings of one kind."""
_VERSIONED: Final = ("memories", "versions")
_COORDINATES: Final = ("environment", "project", "user_id", "agent_id")
_DERIVED: Final = ("terms", "distinctions")
"""Columns that are derived from a memory's text, and can be computed again."""
_BACKUP: Final = "Put a backup in its place: salience reinstate FILE"
_MENDED: Final = "To mend it: salience doctor --repair"
_ASIDE: Final = ".damaged.jsonl"
"""Suffix of the file that unreadable rows are moved to."""
_PLACE: Final = f"a file beside the store, whose name ends in {_ASIDE}"
Repair = Callable[[Connection], None]
Found = tuple[Finding, Repair | None]
"""A problem and its repair; None where there is none, and the finding says what to do."""


def check(connection: Connection, *, repair: bool = False) -> list[Finding]:
    """Return the problems of the file and its tables, repaired if `repair` is set and there is a repair.

    If the file itself is damaged, the tables are not checked: their contents cannot be trusted.
    """
    damage = _damage(connection)
    if damage and repair:
        with suppress(DBAPIError, sqlite3.Error), connection.begin_nested():
            connection.exec_driver_sql("REINDEX")  # builds every index again from its table
        left = set(_damage(connection))
        damage = [finding if finding in left else replace(finding, repaired=True) for finding in damage]
    if not all(finding.repaired for finding in damage):
        return damage
    found = [each for check in _CHECKS for each in check(connection)]
    if not repair:
        return [*damage, *(_with_remedy(*each, repaired=False) for each in found)]
    repairs = dict.fromkeys(mend for _, mend in found if mend is not None)
    for mend in repairs:
        mend(connection)
    if repairs:
        invalidate(connection)
    left = {finding for check in _CHECKS for finding, _ in check(connection)}
    return [*damage, *(_with_remedy(*each, repaired=each[0] not in left) for each in found)]


def _with_remedy(finding: Finding, mend: Repair | None, *, repaired: bool) -> Finding:
    """Return a finding with the next step of the operator, if one is left."""
    if mend is _move_aside:
        what = f"Moved to {_PLACE}." if repaired else f"To move it to {_PLACE}: salience doctor --repair"
        return replace(finding, problem=f"{finding.problem} {what}", repaired=repaired)
    if repaired:
        return replace(finding, repaired=True)
    return finding if mend is None else replace(finding, problem=f"{finding.problem} {_MENDED}")


def _damage(connection: Connection) -> list[Finding]:
    """Return the findings of SQLite's own check; they name tables, indexes and pages, and no values."""
    try:
        lines = connection.exec_driver_sql(f"PRAGMA integrity_check({MOST})").scalars().all()
    except (DBAPIError, sqlite3.Error, UnicodeDecodeError) as error:
        cause = getattr(error, "orig", error)
        lines = [getattr(cause, "sqlite_errorname", type(cause).__name__)]
    text = "\n".join(map(str, lines)).encode(errors="replace").decode()
    problems = [line for line in text.splitlines() if line != "ok" and not line.startswith("***")]
    return [Finding("integrity", None, f"{line.rstrip('.')}. {_BACKUP}") for line in problems]


def _orphans(connection: Connection) -> list[Found]:
    """Return the rows of missing memories; all but versions can be deleted."""
    counts = Counter(table for table, *_ in connection.exec_driver_sql("PRAGMA foreign_key_check"))
    counts["touches"] = connection.exec_driver_sql(  # no foreign key covers them
        "SELECT count(*) FROM touches AS t "
        "WHERE NOT EXISTS (SELECT 1 FROM memories AS m WHERE m.tenant = t.tenant AND m.id = t.id)"
    ).scalar_one()
    found: list[Found] = []
    for table, count in sorted((+counts).items()):
        problem = f"{count} rows of {table!r} belong to a memory that is not there."
        if table == "versions":
            found.append((Finding("rows", None, f"{problem} {_BACKUP}"), None))
        else:
            found.append((Finding("rows", None, problem), partial(_drop, table)))
    return found


def _drop(table: str, connection: Connection) -> None:
    """Delete the rows of missing memories from a table."""
    name = "memory_id" if table == "activations" else "id"
    connection.exec_driver_sql(
        f"DELETE FROM {table} WHERE NOT EXISTS (SELECT 1 FROM memories AS m "  # noqa: S608 - names of ours
        f"WHERE m.tenant = {table}.tenant AND m.id = {table}.{name})"
    )


def pins(connection: Connection) -> Iterator[Found]:
    """Yield missing or unreadable pins of a store that holds memories."""
    values = Meta.read(connection).values
    if connection.exec_driver_sql("SELECT 1 FROM memories LIMIT 1").first() is None:
        return
    if not values.get("embedder") or not is_number(values.get("dimension", "")):
        problem = "the store is pinned to no model. Give every memory a vector of the one you use: salience reembed"
        yield Finding("pins", None, problem), None
    if not values.get("language"):
        problem = "the store is pinned to no language; the next write pins it to the one of SALIENCE_LANGUAGE."
        yield Finding("pins", None, problem), None


_UNORDERED: Final = "typeof(seq) <> 'integer'"


def _sequence(connection: Connection) -> list[Found]:
    """Return whether rows are ahead of the change sequence, which would hide the next writes from other processes."""
    count = f"SELECT count(*) FROM memories WHERE {_UNORDERED}"  # noqa: S608 - a constant condition
    unordered: int = connection.exec_driver_sql(count).scalar_one()
    if unordered:
        problem = f"{unordered} rows of 'memories' have no number in the change sequence."
        return [(Finding("sequence", None, problem), _order)]
    known = Meta.read(connection).values.get("sequence", "0")
    latest = _latest(connection)
    if is_number(known) and int(known) >= latest:
        return []
    problem = f"the change sequence stands at {known}, and a row at {latest}."
    return [(Finding("sequence", None, problem), _raise_sequence)]


def _latest(connection: Connection) -> int:
    latest = (
        "SELECT max(coalesce((SELECT max(seq) FROM memories WHERE typeof(seq) = 'integer'), 0), "
        "coalesce((SELECT max(seq) FROM touches WHERE typeof(seq) = 'integer'), 0))"
    )
    return int(connection.exec_driver_sql(latest).scalar_one())


def _order(connection: Connection) -> None:
    """Give the rows without a number the next one, so that every process reads them again."""
    connection.exec_driver_sql(f"UPDATE memories SET seq = ? WHERE {_UNORDERED}", (_latest(connection) + 1,))  # noqa: S608
    _raise_sequence(connection)


def _raise_sequence(connection: Connection) -> None:
    write_meta(connection, {"sequence": str(_latest(connection))})


def _names(connection: Connection) -> list[Found]:
    """Return the rows whose short id or home does not follow from their id and coordinates."""
    found = [Finding("names", row.id, "its short id is not that of its id.") for row in _misnamed(connection)]
    found += [
        Finding("names", row.id, f"its home in {table!r} is not that of its scope.")
        for table in _VERSIONED
        for row in _misplaced(connection, table)
    ]
    return [(finding, _rename) for finding in found[:MOST]]


def _misnamed(connection: Connection) -> list[Any]:
    rows = connection.exec_driver_sql("SELECT tenant, id, short_id FROM memories")
    return [row for row in rows if row.short_id != short_id(row.id)]


def _misplaced(connection: Connection, table: str) -> list[Any]:
    rows = connection.exec_driver_sql(f"SELECT tenant, id, home, {', '.join(_COORDINATES)} FROM {table}")  # noqa: S608
    return [row for row in rows if row.home != _home(row)]


def _home(row: Any) -> str | None:
    """Return the home of a row's coordinates; None if they are invalid."""
    try:
        return Scope(row.tenant, *(getattr(row, name) for name in _COORDINATES)).home_key
    except InputError:
        return None


def _rename(connection: Connection) -> None:
    """Correct every short id and home, except where another memory has the key at that home."""
    for row in _misnamed(connection):
        _set(connection, "memories", "short_id", short_id(row.id), row)
    for table in _VERSIONED:
        for row in _misplaced(connection, table):
            _set(connection, table, "home", _home(row) or row.home, row)


def _set(connection: Connection, table: str, column: str, value: str, row: Any) -> None:
    statement = text(f"UPDATE OR IGNORE {table} SET {column} = :value WHERE tenant = :tenant AND id = :id")  # noqa: S608
    connection.execute(statement, {"value": value, "tenant": row.tenant, "id": row.id})


ENDS: Final = """
    WITH each AS (
        SELECT tenant, id, version, changed_at FROM versions UNION ALL
        SELECT tenant, id, version, changed_at FROM memories)
    SELECT one.tenant, one.id, one.version, next.changed_at AS due FROM versions AS one JOIN each AS next
    ON one.tenant = next.tenant AND one.id = next.id AND next.version = one.version + 1
    WHERE one.valid_to <> next.changed_at"""
"""Versions that do not end when the next one begins, with the right end as `due`."""


def _ends(connection: Connection) -> list[Found]:
    """Return the versions that do not end when the next one begins."""
    return [
        (Finding("versions", row.id, f"version {row.version} does not end when the next one begins."), _set_ends)
        for row in connection.exec_driver_sql(f"{ENDS} LIMIT {MOST}")
    ]


def _set_ends(connection: Connection) -> None:
    statement = text("UPDATE versions SET valid_to = :due WHERE tenant = :tenant AND id = :id AND version = :version")
    rows = [dict(row) for row in connection.exec_driver_sql(ENDS).mappings()]
    if rows:
        connection.execute(statement, rows)


def laid_by(connection: Connection) -> Iterator[Found]:
    """Yield prepared vectors of an unknown model."""
    values = Meta.read(connection).values
    count = connection.exec_driver_sql("SELECT count(*) FROM laid_by").scalar_one()
    if count and not (values.get(SET_ASIDE[0]) and is_number(values.get(SET_ASIDE[1], ""))):
        yield (
            Finding("set aside", None, f"{count} vectors are set aside for a model that is not known."),
            _drop_set_aside,
        )


def _drop_set_aside(connection: Connection) -> None:
    connection.execute(delete(schema.laid_by))


_IS_STRAY: Final = ~exists(
    select(1).where(schema.memories.c.tenant == schema.requests.c.tenant, schema.memories.c.id == schema.requests.c.id)
)


def requests(connection: Connection) -> Iterator[Found]:
    """Yield recorded requests about missing memories."""
    count = connection.execute(select(func.count()).select_from(schema.requests).where(_IS_STRAY)).scalar_one()
    if count:
        yield Finding("requests", None, f"{count:,} requests are noted of memories that are not there."), _drop_strays


def _drop_strays(connection: Connection) -> None:
    connection.execute(delete(schema.requests).where(_IS_STRAY))


def keys(connection: Connection) -> Iterator[Found]:
    """Yield unreadable API keys; they grant nothing."""
    for prefix in keyring.damaged(connection):
        problem = f"the key {prefix!r} cannot be read, and grants nothing."
        yield Finding("keys", None, problem), keyring.drop_damaged


def is_number(value: str) -> bool:
    """Return whether a value of `meta` consists of ASCII digits."""
    return value.isascii() and value.isdigit()


def _lengths(connection: Connection) -> list[Found]:
    """Return the vectors whose length is not that of the pinned model."""
    dimension = Meta.read(connection).values.get(PINNED[1], "")
    if not is_number(dimension):
        return []
    found: list[Found] = []
    for table in _VERSIONED:
        query = f"SELECT id, version, length(vector) AS size FROM {table} WHERE {_MISFIT} LIMIT {MOST}"  # noqa: S608
        for row in connection.execute(text(query), {"size": 4 * int(dimension)}):
            problem = f"version {row.version} has a vector of {row.size} bytes, not {4 * int(dimension)}."
            found.append((Finding("vectors", row.id, problem), _drop_misfits))
    return found


_MISFIT: Final = "vector IS NOT NULL AND (typeof(vector) <> 'blob' OR length(vector) <> :size)"


def _drop_misfits(connection: Connection) -> None:
    size = 4 * int(Meta.read(connection).values[PINNED[1]])
    for table in _VERSIONED:
        connection.execute(text(f"UPDATE {table} SET vector = NULL WHERE {_MISFIT}"), {"size": size})  # noqa: S608


def _unreadable(connection: Connection) -> list[Found]:
    """Return the rows that cannot be read."""
    return [
        (Finding("rows", found, f"{which} cannot be read: its column {column!r} is damaged."), mend)
        for _, found, which, column, mend in islice(_damaged(connection), MOST)
    ]


def _damaged(connection: Connection) -> Iterator[tuple[tuple[str, int], str | None, str, str, Repair]]:
    """Yield unreadable rows: table and row id, the memory's id, the name in messages, the column, the repair."""
    for table in _VERSIONED:
        names = ", ".join((*RECORD, *_DERIVED))
        for row in connection.exec_driver_sql(f"SELECT rowid, {names} FROM {table}").mappings():  # noqa: S608
            column = next((name for name in _DERIVED if not isinstance(row[name], str)), None)
            mend: Repair = _blank
            try:
                to_memory(row)
            except DamagedError as error:
                column, mend = error.column, _move_aside
            if column is not None:
                named = is_text(row["id"]) and isinstance(row["version"], int)
                which = f"version {row['version']}" if named else f"row {row['rowid']} of {table!r}"
                yield (table, row["rowid"]), row["id"] if named else None, which, column, mend


def _blank(connection: Connection) -> None:
    """Empty unreadable derived columns, so that they are computed again."""
    for table in _VERSIONED:
        for name in _DERIVED:
            connection.exec_driver_sql(f"UPDATE {table} SET {name} = '' WHERE typeof({name}) <> 'text'")  # noqa: S608


def _move_aside(connection: Connection) -> None:
    """Move the rows that cannot be read, and the older versions of such memories, to a file beside the store.

    The file is on disk before the rows are deleted.
    """
    rows = [place for place, _, _, _, mend in _damaged(connection) if mend is _move_aside]
    main = "SELECT file FROM pragma_database_list WHERE name = 'main'"
    aside = str(connection.exec_driver_sql(main).scalar_one()) + _ASIDE
    with open(aside, "a", encoding="ascii", opener=partial(os.open, mode=0o600)) as file:
        for table, rowid in rows:
            of_memory = "(tenant, id) IN (SELECT tenant, id FROM memories WHERE rowid = :rowid)"
            conditions = {table: "rowid = :rowid"} | ({"versions": of_memory} if table == "memories" else {})
            for name, where in conditions.items():
                statement = text(f"SELECT * FROM {name} WHERE {where}")  # noqa: S608 - names of ours
                for row in connection.execute(statement, {"rowid": rowid}).mappings():
                    values = {column: _as_json(value) for column, value in row.items()}
                    file.write(json.dumps({"table": name, "row": values}) + "\n")
        file.flush()
        os.fsync(file.fileno())
    for table, rowid in rows:
        connection.execute(text(f"DELETE FROM {table} WHERE rowid = :rowid"), {"rowid": rowid})  # noqa: S608
    _drop("touches", connection)
    _drop_strays(connection)


def _as_json(value: Any) -> Any:
    """Return a value of a row as JSON; bytes, and text that is not UTF-8, in base64."""
    if isinstance(value, str) and not is_text(value):
        value = value.encode("utf-8", "surrogateescape")
    return {"base64": base64.b64encode(value).decode("ascii")} if isinstance(value, bytes) else value


_CHECKS: Final[tuple[Callable[[Connection], Iterable[Found]], ...]] = (
    _unreadable, _orphans, pins, _sequence, _names, _ends, laid_by, requests, keys, _lengths,
)  # fmt: skip
"""The checks, in this order."""
