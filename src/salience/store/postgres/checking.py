"""Checks of a PostgreSQL store's tables, and repairs.

Foreign keys and whatever else the server checks itself are left to it. No text of a memory is shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from sqlalchemy import Connection, RowMapping, Table, bindparam, literal, select, text, tuple_, update
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import IntegrityError
from sqlalchemy.schema import CreateIndex

from salience.errors import DamagedError
from salience.records import Finding
from salience.records.ids import short_id
from salience.store import keyring
from salience.store import statements as shared
from salience.store.pins import LAID_BY, PINNED, Meta, void
from salience.store.postgres import indexing, security, statements
from salience.store.postgres.connection import EXCLUSIVE, SCHEMA
from salience.store.postgres.statements import indexed
from salience.store.rows import RECORD, to_memory, to_terms
from salience.store.schema import memories, metadata, versions

MOST: Final = 100
"""Problems of one kind that are told one by one."""
_MENDED: Final = "To mend it: salience db doctor --repair"
_UPGRADE: Final = "As the user who owns the tables, run: salience db upgrade"
Mend = Callable[[Connection], None]
Found = tuple[Finding, Mend | None]
"""Something wrong, and what mends it; None where nothing here does, and the finding says what to do."""


def check(connection: Connection, *, repair: bool = False) -> list[Finding]:
    """Return what is wrong with the tables and their numbers, for all tenants, mended where `repair` asks for it.

    The transaction has to be the operator's. While something is mended, nobody else writes.
    """
    connection.exec_driver_sql("SET LOCAL statement_timeout = 0")  # every row is read, however many there are
    if repair:
        connection.exec_driver_sql(EXCLUSIVE)
    found, rows = _looked(connection), list(wrong_rows(connection))
    mends = list(dict.fromkeys(mend for _, mend in found if mend is not None))
    if any(row.right for row in rows):
        mends = [partial(mend_rows, rows=rows), *mends, _post]
    left = {finding for finding, _ in found} | {finding for row in rows for finding in row.findings()}
    if repair and mends:
        for mend in mends:
            mend(connection)
        void(connection)  # what other processes have computed from the rows
        left = {finding for finding, _ in _looked(connection)}
        left |= {finding for row in wrong_rows(connection, rows) for finding in row.findings()}
    told = [_told(finding, mend is not None, finding not in left) for finding, mend in found]
    told += [_told(finding, finding.check != "rows", finding not in left) for row in rows for finding in row.findings()]
    return _few(told)


def _told(finding: Finding, can_be_mended: bool, is_gone: bool) -> Finding:
    """Return a finding with what to do about it, if anything is left to be done."""
    if is_gone:
        return replace(finding, repaired=True)
    return replace(finding, problem=f"{finding.problem} {_MENDED}") if can_be_mended else finding


def _few(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings, up to `MOST` of a kind and one for the others of it."""
    told: list[Finding] = []
    more: Counter[tuple[str, bool]] = Counter()
    for finding in findings:
        kind = (finding.check, finding.repaired)
        more[kind] += 1
        if more[kind] <= MOST:
            told.append(finding)
    over = {kind: count - MOST for kind, count in more.items() if count > MOST}
    return [*told, *(Finding(check, None, f"{count:,} more.", done) for (check, done), count in over.items())]


def _fences(connection: Connection) -> Iterator[Found]:
    """Yield what does not keep tenants apart as it should."""
    for problem in security.faults(connection):
        yield Finding("row-level security", None, problem if "Run:" in problem else f"{problem} {_UPGRADE}"), None


def _indexes(connection: Connection) -> Iterator[Found]:
    """Yield the indexes that are missing, that no search may use, or that are of another model."""
    held = {state.name: state.valid for state in indexing.states(connection)}
    for name in (name for name, valid in held.items() if not valid):
        yield Finding("indexes", None, invalid(name)), None
    for index in (index for table in metadata.tables.values() for index in table.indexes):
        if index.name not in held:
            made = str(CreateIndex(index).compile(dialect=postgresql.dialect()))  # type: ignore[no-untyped-call]
            told = f"the index {index.name} is not there. In the schema {SCHEMA}, run: {' '.join(made.split())}"
            yield Finding("indexes", None, told), None
    pinned = Meta.read(connection).values.get(PINNED[1], "")
    for each in indexing.vector_indexes(connection):
        if pinned and str(each.dimension) != pinned and not each.is_passing:
            told = f"the index {each.name} is of vectors of {each.dimension} numbers, not {pinned}."
            yield Finding("indexes", None, f"{told} Run: salience db index"), None


def invalid(name: str) -> str:
    """Return what is told of an index that no search may use."""
    again = f"REINDEX INDEX CONCURRENTLY {SCHEMA}.{name}"
    remedy = "salience db index" if indexing.is_of_vectors(name) else f"{again}, as the user who owns the tables"
    return f"the index {name} is not valid: it is being made, or that was cut short. If so, run: {remedy}"


def _pins(connection: Connection) -> Iterator[Found]:
    """Yield what is missing or unreadable of the pins of a store that holds memories."""
    held = Meta.read(connection).values
    if connection.exec_driver_sql("SELECT 1 FROM memories LIMIT 1").first() is None:
        return
    if not held.get("embedder") or not _is_number(held.get("dimension", "")):
        told = "the store is pinned to no model. Give every memory a vector of the one you use: salience reembed"
        yield Finding("pins", None, told), None
    if not held.get("language"):
        told = "the store is pinned to no language; the next write pins it to the one of SALIENCE_LANGUAGE."
        yield Finding("pins", None, told), None


_BEHIND: Final = """
    SELECT w.tenant, w.latest, coalesce(t.sequence, 0) AS sequence FROM (
        SELECT each.tenant, max(each.seq) AS latest FROM (
            SELECT tenant, seq FROM memories UNION ALL SELECT tenant, seq FROM touches) AS each
        GROUP BY each.tenant) AS w
    LEFT JOIN tenants AS t ON t.tenant = w.tenant WHERE coalesce(t.sequence, -1) < w.latest ORDER BY w.tenant"""


def _sequences(connection: Connection) -> Iterator[Found]:
    """Yield the tenants with rows ahead of their change sequence, which would hide writes from other processes."""
    for row in connection.exec_driver_sql(_BEHIND):
        told = f"the change sequence of {row.tenant!r} stands at {row.sequence}, and a row at {row.latest}."
        yield Finding("sequence", None, told), _raise_sequences


def _raise_sequences(connection: Connection) -> None:
    raised = text(
        "INSERT INTO tenants (tenant, sequence, epoch) VALUES (:tenant, :latest, '') "
        "ON CONFLICT (tenant) DO UPDATE SET sequence = excluded.sequence"
    )
    for row in connection.exec_driver_sql(_BEHIND).all():
        connection.execute(raised, {"tenant": row.tenant, "latest": row.latest})


_ENDS: Final = """
    WITH each AS (
        SELECT tenant, id, version, changed_at FROM versions UNION ALL
        SELECT tenant, id, version, changed_at FROM memories)
    SELECT one.tenant, one.id, one.version, next.changed_at AS due FROM versions AS one JOIN each AS next
    ON one.tenant = next.tenant AND one.id = next.id AND next.version = one.version + 1
    WHERE one.valid_to <> next.changed_at"""


def _ends(connection: Connection) -> Iterator[Found]:
    """Yield the versions that do not end when the next one begins."""
    for row in connection.exec_driver_sql(_ENDS):
        yield Finding("versions", row.id, f"version {row.version} does not end when the next one begins."), _set_ends


def _set_ends(connection: Connection) -> None:
    connection.exec_driver_sql(
        f"UPDATE versions AS v SET valid_to = e.due FROM ({_ENDS}) AS e "  # noqa: S608 - text of ours
        "WHERE v.tenant = e.tenant AND v.id = e.id AND v.version = e.version"
    )


_GAPS: Final = """
    WITH each AS (
        SELECT tenant, id, version FROM versions UNION ALL SELECT tenant, id, version FROM memories),
    following AS (
        SELECT id, version, lag(version) OVER (PARTITION BY tenant, id ORDER BY version) AS before FROM each)
    SELECT id, version, before FROM following WHERE version <> before + 1 ORDER BY id, version"""


def _gaps(connection: Connection) -> Iterator[Found]:
    """Yield the versions that do not follow on the one before; the oldest may have been dropped by upkeep."""
    for row in connection.exec_driver_sql(_GAPS):
        told = f"version {row.version} follows on version {row.before}: what was between is gone."
        yield Finding("versions", row.id, f"{told} Bring the database back from a backup of the server."), None


def _laid_by(connection: Connection) -> Iterator[Found]:
    """Yield whether vectors are laid by for no model that is known."""
    held = Meta.read(connection).values
    count = connection.exec_driver_sql("SELECT count(*) FROM laid_by").scalar_one()
    if count and not (held.get(LAID_BY[0]) and _is_number(held.get(LAID_BY[1], ""))):
        yield Finding("laid by", None, f"{count} vectors are laid by for a model that is not known."), _drop_laid_by


def _drop_laid_by(connection: Connection) -> None:
    connection.execute(shared.drop_laid_by())


def _requests(connection: Connection) -> Iterator[Found]:
    """Yield whether requests are noted that no memory answers any more."""
    count = connection.execute(shared.stray_answers()).scalar_one()
    if count:
        yield Finding("requests", None, f"{count:,} requests are noted of memories that are not there."), _drop_strays


def _drop_strays(connection: Connection) -> None:
    connection.execute(shared.drop_stray_answers())


def _keys(connection: Connection) -> Iterator[Found]:
    """Yield the keys of a server that cannot be read, and so grant nothing."""
    for prefix in keyring.damaged(connection):
        problem = f"the key {prefix!r} cannot be read, and grants nothing."
        yield Finding("keys", None, problem), keyring.drop_damaged


def _lengths(connection: Connection) -> Iterator[Found]:
    """Yield the vectors that cannot be of the model that the store is pinned to, by their length."""
    dimension = _dimension(connection)
    for table in ROW_TABLES if dimension else ():
        asked = f"SELECT id, version, vector_dims(vector) AS size FROM {table.name} WHERE vector_dims(vector) <> %s"  # noqa: S608
        for row in connection.exec_driver_sql(asked, (dimension,)):
            told = f"version {row.version} has a vector of {row.size} numbers, not {dimension}."
            yield Finding("vectors", row.id, told), _drop_misfits


def _drop_misfits(connection: Connection) -> None:
    for table in ROW_TABLES:
        asked = f"UPDATE {table.name} SET vector = NULL WHERE vector_dims(vector) <> %s"  # noqa: S608
        connection.exec_driver_sql(asked, (_dimension(connection),))


_STRAY: Final = """
    FROM postings AS p WHERE NOT EXISTS (
        SELECT 1 FROM memories AS m WHERE m.tenant = p.tenant AND m.number = p.number AND m.forgotten_at IS NULL
        AND p.key = ANY (m.search_keys) AND p.environment IS NOT DISTINCT FROM hashtext(m.environment)
        AND p.project IS NOT DISTINCT FROM hashtext(m.project) AND p.user_id IS NOT DISTINCT FROM hashtext(m.user_id)
        AND p.agent_id IS NOT DISTINCT FROM hashtext(m.agent_id))"""
_UNPOSTED: Final = """
    FROM memories AS p, unnest(p.search_keys) AS k (key) WHERE p.forgotten_at IS NULL AND NOT EXISTS (
        SELECT 1 FROM postings AS o WHERE o.tenant = p.tenant AND o.key = k.key AND o.number = p.number)"""
_POSTINGS: Final = {_STRAY: "of no memory that has them there", _UNPOSTED: "missing"}
"""What is counted of the posting table -> what is told of it."""


def _postings(connection: Connection) -> Iterator[Found]:
    """Yield the tenants of which the posting table does not hold what their rows do."""
    for wrong, told in _POSTINGS.items():
        asked = f"SELECT p.tenant, count(*) AS count {wrong} GROUP BY p.tenant ORDER BY p.tenant"
        for row in connection.exec_driver_sql(asked):
            yield Finding("postings", None, f"{row.count:,} postings of {row.tenant!r} are {told}."), _post


def _post(connection: Connection) -> None:
    """Make the posting table hold what the rows do."""
    connection.exec_driver_sql(f"DELETE {_STRAY}")
    for tenant in connection.exec_driver_sql(f"SELECT DISTINCT p.tenant {_UNPOSTED} ORDER BY p.tenant").scalars().all():
        statements.post_all(connection, tenant)


def _dimension(connection: Connection) -> int:
    """Return the length of the vectors that the store is pinned to; 0 where that is not known."""
    known = Meta.read(connection).values.get(PINNED[1], "")
    return int(known) if _is_number(known) else 0


def _is_number(value: str) -> bool:
    return value.isascii() and value.isdigit()


def _looked(connection: Connection) -> list[Found]:
    return [each for look in _LOOKS for each in look(connection)]


_LOOKS: Final[tuple[Callable[[Connection], Iterator[Found]], ...]] = (
    _fences, _indexes, _pins, _sequences, _ends, _gaps, _laid_by, _requests, _keys, _lengths, _postings,
)  # fmt: skip
"""What is looked at, in this order."""


PAGE: Final = 2_000
"""Rows that are read at a time."""
ROW_TABLES: Final = (memories, versions)
_ROW_CHECKS: Final = {
    "home": ("names", "its home is not that of its scope."),
    "short_id": ("names", "its short id is not that of its id."),
    "search_keys": ("search keys", "its search keys are not those of its row."),
    "number": ("search keys", "the number by which they name it is not that of its id."),
    "length": ("search keys", "its length in terms is not that of its row."),
}
"""Column -> what is looked at, and what is told where it is not what the other columns make of it."""
_RESTORE: Final = "Bring the database back from a backup of the server."


@dataclass(frozen=True, slots=True)
class Wrong:
    """A row with something wrong.

    Attributes:
        table: its table.
        key: its primary key.
        version: its version.
        right: columns that do not hold what the other columns make -> what they should hold.
        problem: what else is wrong, which nothing here mends; None where nothing is.
    """

    table: Table
    key: tuple[Any, ...]
    version: int
    right: Mapping[str, Any]
    problem: str | None

    def findings(self) -> Iterator[Finding]:
        """Return what is told of it."""
        for column in self.right:
            check, told = _ROW_CHECKS[column]
            yield Finding(check, self.key[1], f"version {self.version}: {told}")
        if self.problem is not None:
            yield Finding("rows", self.key[1], f"version {self.version}: {self.problem} {_RESTORE}")


def wrong_rows(connection: Connection, among: Sequence[Wrong] | None = None) -> Iterator[Wrong]:
    """Yield the rows with something wrong, of all tenants that the transaction may see; `among` some, or all."""
    for table in ROW_TABLES:
        keys = None if among is None else [row.key for row in among if row.table is table]
        for row in _read_rows(connection, table, keys):
            found = _looked_at(table, row)
            if found.right or found.problem:
                yield found


def mend_rows(connection: Connection, rows: Iterable[Wrong]) -> None:
    """Write what the other columns make; a home where another memory has the key is left as it is."""
    for row in rows:
        for column, value in row.right.items():
            key = [one == part for one, part in zip(row.table.primary_key, row.key, strict=True)]
            try:
                with connection.begin_nested():
                    connection.execute(update(row.table).where(*key).values({column: value}))
            except IntegrityError:
                continue


def _read_rows(connection: Connection, table: Table, keys: Sequence[tuple[Any, ...]] | None) -> Iterator[RowMapping]:
    """Yield the rows of a table in the order of its key, or those of some keys, without their texts."""
    names = [name for name in (*RECORD, "home", "terms") if name != "content"]
    names += ["short_id", "search_keys", "number", "length"] if table is memories else []
    asked = select(*(table.c[name] for name in dict.fromkeys(names)), literal("").label("content"))
    key = tuple_(*table.primary_key)
    if keys is not None:
        for start in range(0, len(keys), PAGE):
            yield from connection.execute(asked.where(key.in_(keys[start : start + PAGE]))).mappings()
        return
    order = asked.order_by(*table.primary_key).limit(PAGE)
    page = connection.execute(order).mappings().all()
    while page:
        yield from page
        last = [bindparam(None, page[-1][column.name], column.type) for column in table.primary_key]
        page = connection.execute(order.where(key > tuple_(*last))).mappings().all()


def _looked_at(table: Table, row: RowMapping) -> Wrong:
    key = tuple(row[column.name] for column in table.primary_key)
    try:
        memory = to_memory(row)
    except DamagedError as error:
        return Wrong(table, key, row["version"], {}, f"it cannot be read: its column {error.column!r} is damaged.")
    right: dict[str, Any] = {"home": memory.scope.home_key}
    if table is memories:
        right |= {"short_id": short_id(memory.id), **indexed(memory, to_terms(row["terms"]))}
    differing = {name: value for name, value in right.items() if row[name] != value}
    return Wrong(table, key, memory.version, differing, None)
