"""Checks of a PostgreSQL store's tables, and repairs.

The server itself enforces foreign keys. No text of a memory is shown.
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
from salience.store import integrity
from salience.store.integrity import ENDS, Found, is_number
from salience.store.pins import PINNED, Meta, void
from salience.store.postgres import indexing, security, statements
from salience.store.postgres.connection import EXCLUSIVE, SCHEMA
from salience.store.postgres.statements import indexed
from salience.store.rows import RECORD, to_memory, to_terms
from salience.store.schema import memories, metadata, versions

MOST: Final = 100
"""Maximum findings of one kind; one more gives the number of the rest."""
_MENDED: Final = "To mend it: salience db doctor --repair"
_UPGRADE: Final = "As the user who owns the tables, run: salience db upgrade"


def check(connection: Connection, *, repair: bool = False) -> list[Finding]:
    """Return the problems of the tables of all tenants, repaired if `repair` is set and there is a repair.

    The transaction has to see all tenants. A repair locks out all other writers.
    """
    connection.exec_driver_sql("SET LOCAL statement_timeout = 0")  # every row is read, however many there are
    if repair:
        connection.exec_driver_sql(EXCLUSIVE)
    found, rows = _run_checks(connection), list(wrong_rows(connection))
    mends = list(dict.fromkeys(mend for _, mend in found if mend is not None))
    if any(row.right for row in rows):
        mends = [partial(mend_rows, rows=rows), *mends, _post]
    left = {finding for finding, _ in found} | {finding for row in rows for finding in row.findings()}
    if repair and mends:
        for mend in mends:
            mend(connection)
        void(connection)
        left = {finding for finding, _ in _run_checks(connection)}
        left |= {finding for row in wrong_rows(connection, rows) for finding in row.findings()}
    findings = [_with_remedy(finding, mend is not None, finding not in left) for finding, mend in found]
    of_rows = (finding for row in rows for finding in row.findings())
    findings += [_with_remedy(finding, finding.check != "rows", finding not in left) for finding in of_rows]
    return _limited(findings)


def _with_remedy(finding: Finding, can_be_mended: bool, repaired: bool) -> Finding:
    """Return a finding with the next step of the operator, if one is left."""
    if repaired:
        return replace(finding, repaired=True)
    return replace(finding, problem=f"{finding.problem} {_MENDED}") if can_be_mended else finding


def _limited(findings: Iterable[Finding]) -> list[Finding]:
    """Return up to `MOST` findings of a kind, and one with the number of the others."""
    shown: list[Finding] = []
    counts: Counter[tuple[str, bool]] = Counter()
    for finding in findings:
        kind = (finding.check, finding.repaired)
        counts[kind] += 1
        if counts[kind] <= MOST:
            shown.append(finding)
    over = {kind: count - MOST for kind, count in counts.items() if count > MOST}
    return [*shown, *(Finding(check, None, f"{count:,} more.", done) for (check, done), count in over.items())]


def _row_security(connection: Connection) -> Iterator[Found]:
    """Yield the faults of row-level security."""
    for problem in security.faults(connection):
        yield Finding("row-level security", None, problem if "Run:" in problem else f"{problem} {_UPGRADE}"), None


def _indexes(connection: Connection) -> Iterator[Found]:
    """Yield the indexes that are missing, invalid or of another model."""
    held = {state.name: state.valid for state in indexing.states(connection)}
    for name in (name for name, valid in held.items() if not valid):
        yield Finding("indexes", None, invalid(name)), None
    for index in (index for table in metadata.tables.values() for index in table.indexes):
        if index.name not in held:
            made = str(CreateIndex(index).compile(dialect=postgresql.dialect()))  # type: ignore[no-untyped-call]
            problem = f"the index {index.name} is not there. In the schema {SCHEMA}, run: {' '.join(made.split())}"
            yield Finding("indexes", None, problem), None
    pinned = Meta.read(connection).values.get(PINNED[1], "")
    for each in indexing.vector_indexes(connection):
        if pinned and str(each.dimension) != pinned and not each.is_passing:
            problem = f"the index {each.name} is of vectors of {each.dimension} numbers, not {pinned}."
            yield Finding("indexes", None, f"{problem} Run: salience db index"), None


def invalid(name: str) -> str:
    """Return the message for an invalid index."""
    again = f"REINDEX INDEX CONCURRENTLY {SCHEMA}.{name}"
    remedy = "salience db index" if indexing.is_of_vectors(name) else f"{again}, as the user who owns the tables"
    return f"the index {name} is not valid: it is being made, or that was cut short. If so, run: {remedy}"


_BEHIND: Final = """
    SELECT w.tenant, w.latest, coalesce(t.sequence, 0) AS sequence FROM (
        SELECT each.tenant, max(each.seq) AS latest FROM (
            SELECT tenant, seq FROM memories UNION ALL SELECT tenant, seq FROM touches) AS each
        GROUP BY each.tenant) AS w
    LEFT JOIN tenants AS t ON t.tenant = w.tenant WHERE coalesce(t.sequence, -1) < w.latest ORDER BY w.tenant"""


def _sequences(connection: Connection) -> Iterator[Found]:
    """Yield the tenants with rows ahead of their change sequence, which would hide writes from other processes."""
    for row in connection.exec_driver_sql(_BEHIND):
        problem = f"the change sequence of {row.tenant!r} stands at {row.sequence}, and a row at {row.latest}."
        yield Finding("sequence", None, problem), _raise_sequences


def _raise_sequences(connection: Connection) -> None:
    raised = text(
        "INSERT INTO tenants (tenant, sequence, epoch) VALUES (:tenant, :latest, '') "
        "ON CONFLICT (tenant) DO UPDATE SET sequence = excluded.sequence"
    )
    for row in connection.exec_driver_sql(_BEHIND).all():
        connection.execute(raised, {"tenant": row.tenant, "latest": row.latest})


def _ends(connection: Connection) -> Iterator[Found]:
    """Yield the versions that do not end when the next one begins."""
    for row in connection.exec_driver_sql(ENDS):
        yield Finding("versions", row.id, f"version {row.version} does not end when the next one begins."), _set_ends


def _set_ends(connection: Connection) -> None:
    connection.exec_driver_sql(
        f"UPDATE versions AS v SET valid_to = e.due FROM ({ENDS}) AS e "  # noqa: S608 - a constant
        "WHERE v.tenant = e.tenant AND v.id = e.id AND v.version = e.version"
    )


_GAPS: Final = """
    WITH each AS (
        SELECT tenant, id, version FROM versions UNION ALL SELECT tenant, id, version FROM memories),
    following AS (
        SELECT id, version, lag(version) OVER (PARTITION BY tenant, id ORDER BY version) AS before FROM each)
    SELECT id, version, before FROM following WHERE version <> before + 1 ORDER BY id, version"""


def _gaps(connection: Connection) -> Iterator[Found]:
    """Yield gaps between versions; the oldest versions may be missing, since upkeep drops them."""
    for row in connection.exec_driver_sql(_GAPS):
        problem = f"version {row.version} follows on version {row.before}: what was between is gone."
        yield Finding("versions", row.id, f"{problem} {_RESTORE}"), None


def _lengths(connection: Connection) -> Iterator[Found]:
    """Yield the vectors whose length is not that of the pinned model."""
    dimension = _dimension(connection)
    for table in ROW_TABLES if dimension else ():
        misfits = f"SELECT id, version, vector_dims(vector) AS size FROM {table.name} WHERE vector_dims(vector) <> %s"  # noqa: S608
        for row in connection.exec_driver_sql(misfits, (dimension,)):
            problem = f"version {row.version} has a vector of {row.size} numbers, not {dimension}."
            yield Finding("vectors", row.id, problem), _drop_misfits


def _drop_misfits(connection: Connection) -> None:
    for table in ROW_TABLES:
        clear = f"UPDATE {table.name} SET vector = NULL WHERE vector_dims(vector) <> %s"  # noqa: S608
        connection.exec_driver_sql(clear, (_dimension(connection),))


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
"""Condition on the posting table -> problem in messages."""


def _postings(connection: Connection) -> Iterator[Found]:
    """Yield the tenants whose postings do not match their rows."""
    for condition, problem in _POSTINGS.items():
        counted = f"SELECT p.tenant, count(*) AS count {condition} GROUP BY p.tenant ORDER BY p.tenant"
        for row in connection.exec_driver_sql(counted):
            yield Finding("postings", None, f"{row.count:,} postings of {row.tenant!r} are {problem}."), _post


def _post(connection: Connection) -> None:
    """Correct the posting table from the rows."""
    connection.exec_driver_sql(f"DELETE {_STRAY}")
    for tenant in connection.exec_driver_sql(f"SELECT DISTINCT p.tenant {_UNPOSTED} ORDER BY p.tenant").scalars().all():
        statements.post_all(connection, tenant)


def _dimension(connection: Connection) -> int:
    """Return the pinned length of a vector; 0 if it is unknown."""
    known = Meta.read(connection).values.get(PINNED[1], "")
    return int(known) if is_number(known) else 0


def _run_checks(connection: Connection) -> list[Found]:
    return [each for check in _CHECKS for each in check(connection)]


_CHECKS: Final[tuple[Callable[[Connection], Iterator[Found]], ...]] = (
    _row_security, _indexes, integrity.pins, _sequences, _ends, _gaps, integrity.laid_by, integrity.requests,
    integrity.keys, _lengths, _postings,
)  # fmt: skip
"""The checks, in this order."""


PAGE: Final = 2_000
"""Rows read at a time."""
ROW_TABLES: Final = (memories, versions)
_ROW_CHECKS: Final = {
    "home": ("names", "its home is not that of its scope."),
    "short_id": ("names", "its short id is not that of its id."),
    "search_keys": ("search keys", "its search keys are not those of its row."),
    "number": ("search keys", "the number by which they name it is not that of its id."),
    "length": ("search keys", "its length in terms is not that of its row."),
}
"""Column that follows from other columns -> check and problem in its finding."""
_RESTORE: Final = "Bring the database back from a backup of the server."


@dataclass(frozen=True, slots=True)
class Wrong:
    """A faulty row.

    Attributes:
        table: its table.
        key: its primary key.
        version: its version.
        right: column with a wrong value -> right value, which follows from other columns.
        problem: a problem without a repair; None for none.
    """

    table: Table
    key: tuple[Any, ...]
    version: int
    right: Mapping[str, Any]
    problem: str | None

    def findings(self) -> Iterator[Finding]:
        """Yield the findings of the row."""
        for column in self.right:
            check, problem = _ROW_CHECKS[column]
            yield Finding(check, self.key[1], f"version {self.version}: {problem}")
        if self.problem is not None:
            yield Finding("rows", self.key[1], f"version {self.version}: {self.problem} {_RESTORE}")


def wrong_rows(connection: Connection, among: Sequence[Wrong] | None = None) -> Iterator[Wrong]:
    """Yield the faulty rows of all tenants that the transaction sees; of the rows in `among`, if given."""
    for table in ROW_TABLES:
        keys = None if among is None else [row.key for row in among if row.table is table]
        for row in _read_rows(connection, table, keys):
            found = _check_row(table, row)
            if found.right or found.problem:
                yield found


def mend_rows(connection: Connection, rows: Iterable[Wrong]) -> None:
    """Write the right values; a home where another memory has the key stays."""
    for row in rows:
        for column, value in row.right.items():
            key = [one == part for one, part in zip(row.table.primary_key, row.key, strict=True)]
            try:
                with connection.begin_nested():
                    connection.execute(update(row.table).where(*key).values({column: value}))
            except IntegrityError:
                continue


def _read_rows(connection: Connection, table: Table, keys: Sequence[tuple[Any, ...]] | None) -> Iterator[RowMapping]:
    """Yield the rows of a table, or of some keys, in the order of the key, without their texts."""
    names = [name for name in (*RECORD, "home", "terms") if name != "content"]
    names += ["short_id", "search_keys", "number", "length"] if table is memories else []
    records = select(*(table.c[name] for name in dict.fromkeys(names)), literal("").label("content"))
    key = tuple_(*table.primary_key)
    if keys is not None:
        for start in range(0, len(keys), PAGE):
            yield from connection.execute(records.where(key.in_(keys[start : start + PAGE]))).mappings()
        return
    order = records.order_by(*table.primary_key).limit(PAGE)
    page = connection.execute(order).mappings().all()
    while page:
        yield from page
        last = [bindparam(None, page[-1][column.name], column.type) for column in table.primary_key]
        page = connection.execute(order.where(key > tuple_(*last))).mappings().all()


def _check_row(table: Table, row: RowMapping) -> Wrong:
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
