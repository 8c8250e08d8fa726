"""Whether an SQLite file and its tables are in order, and how they are put in order.

What the tables say of themselves is held against itself here: no text is read, and none is told.
"""

from __future__ import annotations

import base64
import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Final

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from salience.errors import InputError
from salience.records import Finding, Scope
from salience.records.ids import short_id
from salience.store import keyring, statements
from salience.store.pins import LAID_BY, PINNED, keep, new_epoch
from salience.store.rows import RECORD, fault, is_text

MOST: Final = 100
"""Problems of one kind that are told; a file with more of them is beyond telling."""
_VERSIONED: Final = ("memories", "versions")
_COORDINATES: Final = ("environment", "project", "user_id", "agent_id")
_DERIVED: Final = ("terms", "distinctions")
"""Columns that are read from a memory's text, and can be made anew."""
_BACKUP: Final = "Put a backup in its place: salience reinstate FILE"
_MENDED: Final = "To mend it: salience doctor --repair"
_ASIDE: Final = ".damaged.jsonl"
"""What the file's name is followed by where rows that cannot be read are moved to."""
_PLACE: Final = f"a file beside the store, whose name ends in {_ASIDE}"
_TOUCHES_OF_NONE: Final = (  # which no foreign key sees to
    "FROM touches AS t WHERE NOT EXISTS (SELECT 1 FROM memories AS m WHERE m.tenant = t.tenant AND m.id = t.id)"
)
Mend = Callable[[Connection], None]
Found = tuple[Finding, Mend | None]
"""Something wrong, and what mends it; None where nothing does, and the finding says what to do."""


def check(connection: Connection, *, repair: bool = False) -> list[Finding]:
    """Return what is wrong with the file, its tables and their numbers, mended where `repair` asks for it.

    Where the file itself is damaged, nothing else is looked at: what its tables say would not be worth much.
    """
    damage = _damage(connection)
    if damage and repair and _reindexed(connection):
        left = set(_damage(connection))
        damage = [finding if finding in left else replace(finding, repaired=True) for finding in damage]
    if not all(finding.repaired for finding in damage):
        return damage
    found = [each for look in _LOOKS for each in look(connection)]
    for mend in dict.fromkeys(mend for _, mend in found if mend is not None and repair):
        mend(connection)
    if repair and any(mend for _, mend in found):
        keep(connection, {"epoch": new_epoch()})  # what other processes have computed from the rows is void
    left = {finding for look in _LOOKS for finding, _ in look(connection)} if repair else set()
    return [*damage, *(_told(*each, repaired=repair and each[0] not in left) for each in found)]


def _told(finding: Finding, mend: Mend | None, repaired: bool) -> Finding:
    """Return a finding with what to do about it, if anything is left to be done."""
    if mend is _move_aside:
        what = f"Moved to {_PLACE}." if repaired else f"To move it to {_PLACE}: salience doctor --repair"
        return replace(finding, problem=f"{finding.problem} {what}", repaired=repaired)
    if repaired:
        return replace(finding, repaired=True)
    return finding if mend is None else replace(finding, problem=f"{finding.problem} {_MENDED}")


def _damage(connection: Connection) -> list[Finding]:
    """Return what SQLite finds wrong with the file; its words name tables, indexes and pages, and no values."""
    try:
        told = connection.exec_driver_sql(f"PRAGMA integrity_check({MOST})").scalars().all()
    except (DBAPIError, sqlite3.Error, UnicodeDecodeError) as error:
        cause = getattr(error, "orig", error)
        told = [getattr(cause, "sqlite_errorname", type(cause).__name__)]
    texts = [str(text).encode(errors="replace").decode() for text in told]
    lines = [line for text in texts for line in text.splitlines() if line != "ok" and not line.startswith("***")]
    return [Finding("integrity", None, f"{line.rstrip('.')}. {_BACKUP}") for line in lines]


def _reindexed(connection: Connection) -> bool:
    """Make every index anew from its table; return whether that could be done."""
    try:
        with connection.begin_nested():
            connection.exec_driver_sql("REINDEX")
    except (DBAPIError, sqlite3.Error):
        return False
    return True


def _orphans(connection: Connection) -> list[Found]:
    """Return the rows that belong to a memory that is not there: all but versions may go."""
    counts: dict[str, int] = {}
    for table, *_ in connection.exec_driver_sql("PRAGMA foreign_key_check"):
        counts[table] = counts.get(table, 0) + 1
    touched = connection.exec_driver_sql(f"SELECT count(*) {_TOUCHES_OF_NONE}").scalar_one()
    counts |= {"touches": touched} if touched else {}
    found: list[Found] = []
    for table, count in sorted(counts.items()):
        told = f"{count} rows of {table!r} belong to a memory that is not there."
        if table == "versions":
            found.append((Finding("rows", None, f"{told} {_BACKUP}"), None))
        else:
            found.append((Finding("rows", None, told), partial(_drop, table)))
    return found


def _drop(table: str, connection: Connection) -> None:
    """Delete the rows of a table that belong to no memory."""
    name = "memory_id" if table == "activations" else "id"
    connection.exec_driver_sql(
        f"DELETE FROM {table} WHERE NOT EXISTS (SELECT 1 FROM memories AS m "  # noqa: S608 - names of ours
        f"WHERE m.tenant = {table}.tenant AND m.id = {table}.{name})"
    )


def _pins(connection: Connection) -> list[Found]:
    """Return what is missing or unreadable of the pins of a store that holds memories."""
    held = _values(connection)
    if connection.exec_driver_sql("SELECT 1 FROM memories LIMIT 1").first() is None:
        return []
    found: list[Found] = []
    if not held.get("embedder") or not _is_number(held.get("dimension", "")):
        told = "the store is pinned to no model. Give every memory a vector of the one you use: salience reembed"
        found.append((Finding("pins", None, told), None))
    if not held.get("language"):
        told = "the store is pinned to no language; the next write pins it to the one of SALIENCE_LANGUAGE."
        found.append((Finding("pins", None, told), None))
    return found


_UNORDERED: Final = "typeof(seq) <> 'integer'"


def _sequence(connection: Connection) -> list[Found]:
    """Return whether rows are ahead of the change sequence, which would hide the next writes from other processes."""
    asked = f"SELECT count(*) FROM memories WHERE {_UNORDERED}"  # noqa: S608 - a condition of ours
    unordered: int = connection.exec_driver_sql(asked).scalar_one()
    if unordered:
        told = f"{unordered} rows of 'memories' have no number in the change sequence."
        return [(Finding("sequence", None, told), _order)]
    known = _values(connection).get("sequence", "0")
    latest = _latest(connection)
    if _is_number(known) and int(known) >= latest:
        return []
    told = f"the change sequence stands at {known}, and a row at {latest}."
    return [(Finding("sequence", None, told), _raise_sequence)]


def _latest(connection: Connection) -> int:
    asked = (
        "SELECT max(coalesce((SELECT max(seq) FROM memories WHERE typeof(seq) = 'integer'), 0), "
        "coalesce((SELECT max(seq) FROM touches WHERE typeof(seq) = 'integer'), 0))"
    )
    return int(connection.exec_driver_sql(asked).scalar_one())


def _order(connection: Connection) -> None:
    """Give the rows without a number the next one, so that every process reads them anew."""
    connection.exec_driver_sql(f"UPDATE memories SET seq = ? WHERE {_UNORDERED}", (_latest(connection) + 1,))  # noqa: S608
    _raise_sequence(connection)


def _raise_sequence(connection: Connection) -> None:
    keep(connection, {"sequence": str(_latest(connection))})


def _names(connection: Connection) -> list[Found]:
    """Return the rows whose short id or home is not the one that their id and coordinates make."""
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
    """Return the home that a row's coordinates make; None where they are none that a memory can have."""
    try:
        return Scope(row.tenant, *(getattr(row, name) for name in _COORDINATES)).home_key
    except InputError:
        return None


def _rename(connection: Connection) -> None:
    """Write every short id and home anew, but for a home where another memory has the key."""
    for row in _misnamed(connection):
        _set(connection, "memories", "short_id", short_id(row.id), row)
    for table in _VERSIONED:
        for row in _misplaced(connection, table):
            _set(connection, table, "home", _home(row) or row.home, row)


def _set(connection: Connection, table: str, column: str, value: str, row: Any) -> None:
    statement = text(f"UPDATE OR IGNORE {table} SET {column} = :value WHERE tenant = :tenant AND id = :id")  # noqa: S608
    connection.execute(statement, {"value": value, "tenant": row.tenant, "id": row.id})


_ENDS: Final = """
    WITH each AS (
        SELECT tenant, id, version, changed_at FROM versions UNION ALL
        SELECT tenant, id, version, changed_at FROM memories)
    SELECT one.tenant, one.id, one.version, next.changed_at AS due FROM versions AS one JOIN each AS next
    ON one.tenant = next.tenant AND one.id = next.id AND next.version = one.version + 1
    WHERE one.valid_to <> next.changed_at"""


def _ends(connection: Connection) -> list[Found]:
    """Return the versions that do not end when the next one begins."""
    return [
        (Finding("versions", row.id, f"version {row.version} does not end when the next one begins."), _set_ends)
        for row in connection.exec_driver_sql(f"{_ENDS} LIMIT {MOST}")
    ]


def _set_ends(connection: Connection) -> None:
    statement = text("UPDATE versions SET valid_to = :due WHERE tenant = :tenant AND id = :id AND version = :version")
    rows = [dict(row) for row in connection.exec_driver_sql(_ENDS).mappings()]
    if rows:
        connection.execute(statement, rows)


def _laid_by(connection: Connection) -> list[Found]:
    """Return whether vectors are laid by for no model that is known."""
    held = _values(connection)
    count = connection.exec_driver_sql("SELECT count(*) FROM laid_by").scalar_one()
    if not count or (held.get(LAID_BY[0]) and _is_number(held.get(LAID_BY[1], ""))):
        return []
    told = f"{count} vectors are laid by for a model that is not known."
    return [(Finding("laid by", None, told), _drop_laid_by)]


def _drop_laid_by(connection: Connection) -> None:
    connection.execute(statements.drop_laid_by())


def _requests(connection: Connection) -> list[Found]:
    """Return whether requests are noted that no memory answers any more."""
    count = connection.execute(statements.stray_answers()).scalar_one()
    told = f"{count} requests are noted of memories that are not there."
    return [(Finding("requests", None, told), _drop_strays)] if count else []


def _drop_strays(connection: Connection) -> None:
    connection.execute(statements.drop_stray_answers())


def _keys(connection: Connection) -> list[Found]:
    """Return the keys of a server that cannot be read, and so grant nothing."""
    return [
        (Finding("keys", None, f"the key {prefix!r} cannot be read, and grants nothing."), keyring.drop_damaged)
        for prefix in keyring.damaged(connection)
    ]


def _lengths(connection: Connection) -> list[Found]:
    """Return the vectors that cannot be of the model that the store is pinned to, by their length."""
    dimension = _values(connection).get(PINNED[1], "")
    if not _is_number(dimension):
        return []
    found: list[Found] = []
    for table in _VERSIONED:
        asked = f"SELECT id, version, length(vector) AS size FROM {table} WHERE {_MISFIT} LIMIT {MOST}"  # noqa: S608
        for row in connection.execute(text(asked), {"size": 4 * int(dimension)}):
            problem = f"version {row.version} has a vector of {row.size} bytes, not {4 * int(dimension)}."
            found.append((Finding("vectors", row.id, problem), _drop_misfits))
    return found


_MISFIT: Final = "vector IS NOT NULL AND (typeof(vector) <> 'blob' OR length(vector) <> :size)"


def _drop_misfits(connection: Connection) -> None:
    size = 4 * int(_values(connection)[PINNED[1]])
    for table in _VERSIONED:
        connection.execute(text(f"UPDATE {table} SET vector = NULL WHERE {_MISFIT}"), {"size": size})  # noqa: S608


def _unreadable(connection: Connection) -> list[Found]:
    """Return the rows with a value that no memory has, which nothing can read."""
    return [
        (Finding("rows", found, f"{which} cannot be read: its column {column!r} is damaged."), mend)
        for _, found, which, column, mend in islice(_damaged(connection), MOST)
    ]


def _damaged(connection: Connection) -> Iterator[tuple[tuple[str, int], str | None, str, str, Mend]]:
    """Yield the rows that cannot be read: table and row id, the memory's id, what to call it, the column, the mend."""
    for table in _VERSIONED:
        names = ", ".join((*RECORD, *_DERIVED))
        for rowid, *values in connection.exec_driver_sql(f"SELECT rowid, {names} FROM {table}"):  # noqa: S608
            derived = zip(_DERIVED, values[len(RECORD) :], strict=True)
            column = fault(values)
            blank = next((name for name, value in derived if not isinstance(value, str)), None)
            if column is None and blank is None:
                continue
            row = dict(zip(RECORD, values, strict=False))
            named = is_text(row["id"]) and isinstance(row["version"], int)
            which = f"version {row['version']}" if named else f"row {rowid} of {table!r}"
            mend: Mend = _blank if column is None else _move_aside
            yield (table, rowid), row["id"] if named else None, which, column or str(blank), mend


def _blank(connection: Connection) -> None:
    """Empty what is derived from a text and cannot be read, so that it is made anew."""
    for table in _VERSIONED:
        for name in _DERIVED:
            connection.exec_driver_sql(f"UPDATE {table} SET {name} = '' WHERE typeof({name}) <> 'text'")  # noqa: S608


def _move_aside(connection: Connection) -> None:
    """Move the rows that cannot be read, and the older versions of such memories, to a file beside the store.

    They are on disk there before they are deleted here. A memory's newest version takes the older ones along.
    """
    rows = [place for place, _, _, _, mend in _damaged(connection) if mend is _move_aside]
    with open(aside(connection), "a", encoding="ascii", opener=_private) as file:
        for table, rowid in rows:
            of_memory = "(tenant, id) IN (SELECT tenant, id FROM memories WHERE rowid = :rowid)"
            asked = {table: "rowid = :rowid"} | ({"versions": of_memory} if table == "memories" else {})
            for name, where in asked.items():
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


def aside(connection: Connection) -> str:
    """Return the file that rows which cannot be read are moved to."""
    asked = "SELECT file FROM pragma_database_list WHERE name = 'main'"
    return str(connection.exec_driver_sql(asked).scalar_one()) + _ASIDE


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _as_json(value: Any) -> Any:
    """Return a value of a row as JSON; bytes, and text that is not UTF-8, in base64."""
    if isinstance(value, str) and not is_text(value):
        value = value.encode("utf-8", "surrogateescape")
    return {"base64": base64.b64encode(value).decode("ascii")} if isinstance(value, bytes) else value


def _values(connection: Connection) -> dict[str, str]:
    return {row.name: row.value for row in connection.exec_driver_sql("SELECT name, value FROM meta")}


def _is_number(value: str) -> bool:
    return value.isascii() and value.isdigit()


_LOOKS: Final[tuple[Callable[[Connection], list[Found]], ...]] = (
    _unreadable, _orphans, _pins, _sequence, _names, _ends, _laid_by, _requests, _keys, _lengths,
)  # fmt: skip
"""What is looked at, in this order."""
