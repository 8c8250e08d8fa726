"""Checks of an SQLite file and its tables, and repairs; PostgreSQL shares some of them.

Findings show ids, counts and columns, but no text of a memory.
"""

from __future__ import annotations

import base64
import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, RowMapping, text
from sqlalchemy.exc import DBAPIError

from salience import temporary
from salience.errors import DamagedError
from salience.records import Finding
from salience.store import keyring
from salience.store.pins import ERASE_PENDING, MEND, PINNED, SET_ASIDE, Meta, invalidate, write_meta
from salience.store.rows import RECORD, is_text, to_memory

MOST: Final = 100
"""Maximum findings of one kind."""
_VERSIONED: Final = ("memories", "versions")
_DERIVED: Final = ("terms", "distinctions")
"""Columns that are derived from a memory's text, and can be computed again."""
_EVENT: Final = ("event_start", "event_end")
"""Columns of the time that a text states, derived likewise."""
_BACKUP: Final = "Put a backup in its place: salience reinstate FILE"
_MENDED: Final = f"To mend it: {MEND}"
_ASIDE: Final = ".damaged.jsonl"
"""Suffix of the file that unreadable rows are moved to."""
_MAIN_FILE: Final = "SELECT file FROM pragma_database_list WHERE name = 'main'"
_PLACE: Final = f"a file beside the store, whose name ends in {_ASIDE}"
Repair = Callable[[Connection], None]
Found = tuple[Finding, Repair | None]
"""A problem and its repair; None where there is none, and the finding says what to do."""
Check = Callable[[Connection], Iterable[Found]]


@dataclass(frozen=True, slots=True)
class Query:
    """A check that finds one problem in each row of a query.

    Attributes:
        check: name of the check.
        query: query; a column `id` is the memory's id in the finding, and a `count` of 0 is no problem.
        problem: problem in words, with the columns of the row in braces.
        repairs: statements that repair all of them; none if there is no repair.
    """

    check: str
    query: str
    problem: str
    repairs: tuple[str, ...] = ()

    def __call__(self, connection: Connection) -> Iterator[Found]:
        """Yield a finding for each row of the query."""
        for row in connection.exec_driver_sql(self.query).mappings():
            if row.get("count") != 0:
                finding = Finding(self.check, row.get("id"), self.problem.format(**row))
                yield finding, self.repair if self.repairs else None

    def repair(self, connection: Connection) -> None:
        """Repair all problems."""
        for statement in self.repairs:
            connection.exec_driver_sql(statement)


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
    found = run(connection, _CHECKS, repair, MOST)
    for finding, mend in found:
        remedy = "" if mend is None or finding.repaired else f" {_MENDED}"
        if mend is _move_aside:
            done = f" Moved to {_PLACE}."
            remedy = done if finding.repaired else f" To move it to {_PLACE}: salience doctor --repair"
        damage.append(replace(finding, problem=finding.problem + remedy))
    return damage


def run(connection: Connection, checks: Sequence[Check], repair: bool, most: int | None = None) -> list[Found]:
    """Return the problems that checks find, at most some of each check, and repair them if `repair` is set.

    `repaired` is set on the findings that are gone after the repairs.
    """

    def findings() -> list[Found]:
        return [found for check in checks for found in islice(check(connection), most)]

    found = findings()
    mends = dict.fromkeys(mend for _, mend in found if mend is not None)
    if not repair or not mends:
        return found
    for mend in mends:
        mend(connection)
    invalidate(connection)
    left = {finding for finding, _ in findings()}
    return [(replace(finding, repaired=finding not in left), mend) for finding, mend in found]


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


def pins(connection: Connection) -> Iterator[Found]:
    """Yield missing or unreadable pins of a store that holds memories."""
    meta = Meta.read(connection)
    values = meta.values
    if connection.exec_driver_sql("SELECT 1 FROM memories LIMIT 1").first() is None:
        return
    if not values.get("embedder") or not is_number(values.get("dimension", "")):
        problem = "the store is pinned to no model. Give every memory a vector of the one you use: salience reembed"
        yield Finding("pins", None, problem), None
    elif (pin := meta.pin()) is not None and not pin.is_sound:
        problem = "the fingerprint of its model is damaged. Without one, the next vector that is written sets it anew."
        yield Finding("pins", None, problem), _clear_fingerprint
    if not values.get("language"):
        problem = "the store is pinned to no language; the next write pins it to SALIENCE_LANGUAGE, else to english."
        yield Finding("pins", None, problem), None


def _clear_fingerprint(connection: Connection) -> None:
    write_meta(connection, {PINNED[2]: ""})


def laid_by(connection: Connection) -> Iterator[Found]:
    """Yield prepared vectors of an unknown model."""
    values = Meta.read(connection).values
    if not (values.get(SET_ASIDE[0]) and is_number(values.get(SET_ASIDE[1], ""))):
        yield from _LAID_BY(connection)


def keys(connection: Connection) -> Iterator[Found]:
    """Yield unreadable API keys; they grant nothing."""
    for prefix in keyring.damaged(connection):
        problem = f"the key {prefix!r} cannot be read, and grants nothing."
        yield Finding("keys", None, problem), keyring.drop_damaged


def leftovers(connection: Connection) -> Iterator[Found]:
    """Yield the temporary files of killed processes beside the file."""
    for path in temporary.leftovers(_folder(connection)):
        problem = f"{path} was left by a process that was killed, and may hold erased memories."
        yield Finding("temporary files", None, problem), _clear_leftovers


def _clear_leftovers(connection: Connection) -> None:
    temporary.clear(_folder(connection))


def _folder(connection: Connection) -> list[Path]:
    file = str(connection.exec_driver_sql(_MAIN_FILE).scalar_one())
    return [Path(file).parent] if file else []  # the database may be in memory


def is_number(value: str) -> bool:
    """Return whether a value of `meta` consists of ASCII digits."""
    return value.isascii() and value.isdigit()


def lengths(table: str, size: str, unit: str, units: int, misfit: str, connection: Connection) -> Iterator[Found]:
    """Yield the vectors of a table whose length is not that of the pinned model.

    Args:
        table: name of the table.
        size: SQL expression for the size of a vector.
        unit: unit of sizes, in the plural.
        units: size of one number of a vector.
        misfit: SQL condition for a vector whose size is not `{due}`.
        connection: in a transaction.
    """
    dimension = Meta.read(connection).values.get(PINNED[1], "")
    if is_number(dimension):
        due = units * int(dimension)
        misfit = misfit.format(due=due)
        query = f"SELECT id, version, {size} AS size FROM {table} WHERE {misfit}"  # noqa: S608 - SQL of ours
        problem = f"version {{version}} has a vector of {{size}} {unit}, not {due}."
        repair = f"UPDATE {table} SET vector = NULL, tokens = NULL WHERE {misfit}"  # noqa: S608 - SQL of ours
        yield from Query("vectors", query, problem, (repair,))(connection)


def token_vectors(connection: Connection) -> Iterator[Found]:
    """Yield the token vectors whose size is not a multiple of that of one token."""
    for _, row in _misfit_tokens(connection):
        problem = f"version {row['version']} has token vectors of {row['size']} bytes, which are not whole."
        yield Finding("token vectors", row["id"], problem), _clear_tokens


_PAGED: Final = {"yield_per": 2_000}


def _misfit_tokens(connection: Connection) -> Iterator[tuple[str, RowMapping]]:
    """Yield table and row of the token vectors that `batch.unpacked` cannot read."""
    for table in (*_VERSIONED, "laid_by"):
        query = "SELECT tenant, id, version, length(tokens) AS size, substr(tokens, 1, 2) AS head"
        rows = connection.execute(text(f"{query} FROM {table} WHERE tokens IS NOT NULL"), execution_options=_PAGED)
        for row in rows.mappings():
            head = row["head"]
            length = int.from_bytes(head, "little") if isinstance(head, bytes) and len(head) == 2 else 0
            if not length or (row["size"] - 2) % length:
                yield table, row


def _clear_tokens(connection: Connection) -> None:
    for table, row in list(_misfit_tokens(connection)):
        where = "tenant = :tenant AND id = :id AND version = :version"
        values = {name: row[name] for name in ("tenant", "id", "version")}
        connection.execute(text(f"UPDATE {table} SET tokens = NULL WHERE {where}"), values)  # noqa: S608 - names of ours


def _orphans(table: str, column: str = "id") -> Query:
    """Return the check for rows of missing memories; all but versions can be deleted."""
    of_memory = f"SELECT 1 FROM memories AS m WHERE m.tenant = t.tenant AND m.id = t.{column}"  # noqa: S608 - SQL of ours
    stray = f"FROM {table} AS t WHERE NOT EXISTS ({of_memory})"
    problem = f"{{count}} rows of {table!r} belong to a memory that is not there."
    if table == "versions":
        return Query("rows", f"SELECT count(*) AS count {stray}", f"{problem} {_BACKUP}")
    return Query("rows", f"SELECT count(*) AS count {stray}", problem, (f"DELETE {stray}",))


def _unreadable(connection: Connection) -> Iterator[Found]:
    """Yield the rows that cannot be read."""
    for _, found, which, column, mend in _damaged(connection):
        yield Finding("rows", found, f"{which} cannot be read: its column {column!r} is damaged."), mend


def _damaged(connection: Connection) -> Iterator[tuple[tuple[str, int], str | None, str, str, Repair]]:
    """Yield unreadable rows: table and row id, the memory's id, the name in messages, the column, the repair."""
    for table in _VERSIONED:
        names = ", ".join((*RECORD, *_DERIVED, *_EVENT))
        for row in connection.exec_driver_sql(f"SELECT rowid, {names} FROM {table}").mappings():  # noqa: S608
            column = next((name for name in _DERIVED if not isinstance(row[name], str)), None)
            if {type(row[name]) for name in _EVENT} not in ({int}, {type(None)}):
                column = _EVENT[0]
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
        wrong = "typeof(event_start) NOT IN ('integer', 'null') OR typeof(event_start) <> typeof(event_end)"
        connection.exec_driver_sql(f"UPDATE {table} SET event_start = NULL, event_end = NULL WHERE {wrong}")  # noqa: S608
        for name in _DERIVED:
            connection.exec_driver_sql(f"UPDATE {table} SET {name} = '' WHERE typeof({name}) <> 'text'")  # noqa: S608


def _move_aside(connection: Connection) -> None:
    """Move the rows that cannot be read, and the older versions of such memories, to a file beside the store.

    The file is on disk before the rows are deleted.
    """
    rows = [place for place, _, _, _, mend in _damaged(connection) if mend is _move_aside]
    aside = str(connection.exec_driver_sql(_MAIN_FILE).scalar_one()) + _ASIDE
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
    _TOUCHES.repair(connection)
    requests.repair(connection)


def _as_json(value: Any) -> Any:
    """Return a value of a row as JSON; bytes, and text that is not UTF-8, in base64."""
    if isinstance(value, str) and not is_text(value):
        value = value.encode("utf-8", "surrogateescape")
    return {"base64": base64.b64encode(value).decode("ascii")} if isinstance(value, bytes) else value


# in SQL as in `Memory.short_id` and `Scope.home_key`
_SHORT_ID: Final = "substr(id, -8)"
_HOME: Final = (
    "environment || char(31) || coalesce(project, '') || char(31) || coalesce(user_id, '') || char(31) || "
    "coalesce(agent_id, '')"
)
_LATEST: Final = (
    "SELECT max(coalesce((SELECT max(seq) FROM memories WHERE typeof(seq) = 'integer'), 0), "
    "coalesce((SELECT max(seq) FROM touches WHERE typeof(seq) = 'integer'), 0))"
)
_UNORDERED: Final = "FROM memories WHERE typeof(seq) <> 'integer'"
_SET_SEQUENCE: Final = (
    f"INSERT INTO meta (name, value) VALUES ('sequence', ({_LATEST})) "  # noqa: S608 - constants, as all below
    "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)
_ENDS: Final = """
    WITH each AS (
        SELECT tenant, id, version, changed_at FROM versions UNION ALL
        SELECT tenant, id, version, changed_at FROM memories)
    SELECT one.tenant, one.id, one.version, next.changed_at AS due FROM versions AS one JOIN each AS next
    ON one.tenant = next.tenant AND one.id = next.id AND next.version = one.version + 1
    WHERE one.valid_to <> next.changed_at"""
ends: Final = Query(
    "versions",
    _ENDS,
    "version {version} does not end when the next one begins.",
    (
        f"UPDATE versions AS v SET valid_to = e.due FROM ({_ENDS}) AS e "  # noqa: S608
        "WHERE v.tenant = e.tenant AND v.id = e.id AND v.version = e.version",
    ),
)
_FOLLOWING: Final = """
    WITH each AS (
        SELECT tenant, id, version, changed_at FROM versions UNION ALL
        SELECT tenant, id, version, changed_at FROM memories),
    following AS (
        SELECT id, version, changed_at, lag(version) OVER history AS before, lag(changed_at) OVER history AS earlier
        FROM each WINDOW history AS (PARTITION BY tenant, id ORDER BY version))
    SELECT id, version, before FROM following"""


def in_order(remedy: str) -> tuple[Query, Query]:
    """Return the checks for gaps and disorder in the versions of a memory; upkeep may have dropped the oldest ones."""
    gap = f"version {{version}} follows on version {{before}}: the ones between are gone. {remedy}"
    return (
        Query("versions", f"{_FOLLOWING} WHERE version <> before + 1 ORDER BY id, version", gap),
        Query(
            "versions",
            f"{_FOLLOWING} WHERE changed_at < earlier ORDER BY id, version",
            f"version {{version}} is older than version {{before}}. {remedy}",
        ),
    )


_STRAY: Final = (
    "FROM requests AS r WHERE NOT EXISTS (SELECT 1 FROM memories AS m WHERE m.tenant = r.tenant AND m.id = r.id)"
)
requests: Final = Query(
    "requests",
    f"SELECT count(*) AS count {_STRAY}",
    "{count:,} requests are noted of memories that are not there.",
    (f"DELETE {_STRAY}",),
)
_LAID_BY: Final = Query(
    "set aside",
    "SELECT count(*) AS count FROM laid_by",
    "{count} vectors are set aside for a model that is not known.",
    ("DELETE FROM laid_by",),
)
_TOUCHES: Final = _orphans("touches")  # no foreign key covers them
_MISFIT: Final = "vector IS NOT NULL AND (typeof(vector) <> 'blob' OR length(vector) <> {due})"
_CHECKS: Final[tuple[Check, ...]] = (
    _unreadable,
    _orphans("activations", "memory_id"),
    _orphans("laid_by"),
    _TOUCHES,
    _orphans("versions"),
    pins,
    Query(
        "sequence",
        f"SELECT count(*) AS count {_UNORDERED}",
        "{count} rows of 'memories' have no number in the change sequence.",
        # the next number, so that every process reads them again
        (f"UPDATE memories SET seq = ({_LATEST}) + 1 WHERE typeof(seq) <> 'integer'", _SET_SEQUENCE),  # noqa: S608
    ),
    # a row ahead of the sequence would hide the next writes from other processes
    Query(
        "sequence",
        f"SELECT known, latest FROM (SELECT ({_LATEST}) AS latest, "  # noqa: S608
        "coalesce((SELECT value FROM meta WHERE name = 'sequence'), '0') AS known) "
        "WHERE (known = '' OR known GLOB '*[^0-9]*' OR CAST(known AS INTEGER) < latest) "
        f"AND NOT EXISTS (SELECT 1 {_UNORDERED})",
        "the change sequence stands at {known}, and a row at {latest}.",
        (_SET_SEQUENCE,),
    ),
    Query(
        "sequence",
        "SELECT value FROM meta WHERE name = 'pruned' AND (value = '' OR value GLOB '*[^0-9]*')",
        "the change sequence of dropped touches stands at {value}.",
        # every index of an earlier state is built again
        (f"UPDATE meta SET value = ({_LATEST}) WHERE name = 'pruned'",),  # noqa: S608
    ),
    Query(
        "sessions",
        "SELECT count(*) AS count FROM sessions WHERE typeof(turns) <> 'integer'",
        "the turns of {count} sessions are no number.",
        (
            "UPDATE sessions AS s SET turns = coalesce((SELECT max(turn) FROM activations AS a WHERE "
            "a.tenant = s.tenant AND a.session_key = s.session_key AND typeof(turn) = 'integer'), 0) "
            "WHERE typeof(turns) <> 'integer'",
        ),
    ),
    Query(
        "activations",
        "SELECT count(*) AS count FROM activations WHERE typeof(turn) <> 'integer'",
        "{count} activations have no turn.",
        ("DELETE FROM activations WHERE typeof(turn) <> 'integer'",),
    ),
    Query(
        "leases",
        "SELECT count(*) AS count FROM leases WHERE typeof(until) <> 'integer'",
        "{count} leases of upkeep have no end.",
        ("DELETE FROM leases WHERE typeof(until) <> 'integer'",),
    ),
    Query(
        "names",
        f"SELECT id, 'its short id is not that of its id.' AS problem FROM memories WHERE short_id <> {_SHORT_ID} "  # noqa: S608
        "UNION ALL SELECT id, 'its home in ''memories'' is not that of its scope.' "
        f"FROM memories WHERE home <> {_HOME} "
        "UNION ALL SELECT id, 'its home in ''versions'' is not that of its scope.' "
        f"FROM versions WHERE home <> {_HOME}",
        "{problem}",
        (  # a home where another memory has the key stays
            f"UPDATE memories SET short_id = {_SHORT_ID} WHERE short_id <> {_SHORT_ID}",  # noqa: S608
            f"UPDATE OR IGNORE memories SET home = {_HOME} WHERE home <> {_HOME}",  # noqa: S608
            f"UPDATE versions SET home = {_HOME} WHERE home <> {_HOME}",  # noqa: S608
        ),
    ),
    ends,
    *in_order(_BACKUP),
    laid_by,
    requests,
    keys,
    Query(
        "erasure",
        f"SELECT value FROM meta WHERE name = '{ERASE_PENDING}' AND value <> ''",  # noqa: S608
        "bytes of erased memories may be left in the file or its log. To remove them: salience upkeep",
    ),
    leftovers,
    *(partial(lengths, table, "length(vector)", "bytes", 4, _MISFIT) for table in _VERSIONED),
    token_vectors,
)
"""The checks, in this order."""
