"""Checks of a PostgreSQL store's tables, indexes and row-level security, and repairs of the tables.

The server itself enforces foreign keys. No text of a memory is shown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Final

from psycopg import sql as literals
from sqlalchemy import Connection, RowMapping, Table, literal, select, update
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import IntegrityError
from sqlalchemy.schema import CreateIndex

from salience.errors import DamagedError
from salience.records import Finding, IndexState, Scope
from salience.records.ids import short_id
from salience.store import integrity
from salience.store.integrity import MOST, Check, Found, Query
from salience.store.pins import PINNED, Meta
from salience.store.postgres import statements
from salience.store.postgres.connection import APP, EXCLUSIVE, OPERATOR, SCHEMA, Runner
from salience.store.rows import RECORD, to_memory, to_terms
from salience.store.schema import leases, memories, meta, metadata, versions

POLICY, ALL_POLICY, KEY_POLICY = "own_tenant", "all_tenants", "own_key"
"""Policies: of the rows of a tenant, of all rows, and of a key by its prefix."""
_TENANT: Final = "nullif(current_setting('salience.tenant', true), '')"
OWN: Final = {
    **{table.name: f"tenant = {_TENANT}" for table in metadata.sorted_tables if "tenant" in table.c},
    leases.name: f"name = 'upkeep:' || {_TENANT}",
}
"""Table whose rows belong to tenants -> condition for the rows that a transaction may see and write."""
PINS: Final = meta.name
"""Table of pins of the whole store. The application may add one that is missing, and change none."""
ALL: Final = "coalesce(current_setting('salience.tenant', true), '') = ''"
"""Condition under which `OPERATOR` and the owner of the tables see and write all rows."""
OWN_KEY: Final = "prefix = current_setting('salience.key', true)"
"""Condition for the API key that a server may read before it knows the tenant."""
INDEXES: Final = {"vector": "ix_memories_hnsw", "halfvec": "ix_memories_hnsw_half"}
"""Type of the indexed numbers -> name of the vector index."""
NEW, OLD = "_new", "_old"
"""Suffixes of vector indexes that are being built or dropped, or were left behind."""
M, EF_CONSTRUCTION = 16, 64
"""Defaults of pgvector."""
MAKE_INDEX: Final = "As the user who owns the tables, run: salience db index"
_MENDED: Final = "To mend it: salience db doctor --repair"
_UPGRADE: Final = "As the user who owns the tables, run: salience db upgrade"
_RESTORE: Final = "Bring the database back from a backup of the server."


def check_all(runner: Runner, repair: bool, busy_timeout: float) -> list[Finding]:
    """Return the problems of the tables of all tenants, repaired if `repair` is set and there is a repair."""
    if repair:
        return runner.write(None, lambda connection, _: check(connection, repair=True), busy_timeout, lock=EXCLUSIVE)
    return runner.read(None, check)


def check(connection: Connection, *, repair: bool = False) -> list[Finding]:
    """Return the problems that a transaction sees, which has to see all tenants; a repair locks out other writers."""
    connection.exec_driver_sql("SET LOCAL statement_timeout = 0")  # every row is read, however many there are
    findings, counts = list[Finding](), Counter[tuple[str, bool]]()
    for finding, mend in integrity.run(connection, _CHECKS, repair):
        if mend is not None and not finding.repaired:
            finding = replace(finding, problem=f"{finding.problem} {_MENDED}")
        kind = (finding.check, finding.repaired)
        counts[kind] += 1
        findings += [finding] if counts[kind] <= MOST else []
    over = {kind: count - MOST for kind, count in counts.items() if count > MOST}
    return [*findings, *(Finding(check, None, f"{count:,} more.", done) for (check, done), count in over.items())]


_BEHIND: Final = """
    SELECT w.tenant, w.latest, coalesce(t.sequence, 0) AS sequence FROM (
        SELECT each.tenant, max(each.seq) AS latest FROM (
            SELECT tenant, seq FROM memories UNION ALL SELECT tenant, seq FROM touches) AS each
        GROUP BY each.tenant) AS w
    LEFT JOIN tenants AS t ON t.tenant = w.tenant WHERE coalesce(t.sequence, -1) < w.latest ORDER BY w.tenant"""
_STRAY: Final = """
    FROM postings AS p WHERE NOT EXISTS (
        SELECT 1 FROM memories AS m WHERE m.tenant = p.tenant AND m.number = p.number AND m.forgotten_at IS NULL
        AND p.key = ANY (m.search_keys))"""
_UNPOSTED: Final = """
    FROM memories AS p, unnest(p.search_keys) AS k (key) WHERE p.forgotten_at IS NULL AND NOT EXISTS (
        SELECT 1 FROM postings AS o WHERE o.tenant = p.tenant AND o.key = k.key AND o.number = p.number)"""
_COORDINATES: Final = """
    SELECT m.tenant, m.environment, m.project, m.user_id, m.agent_id,
        ARRAY[p.environment, p.project, p.user_id, p.agent_id] AS keys, count(*) AS count
    FROM postings AS p JOIN memories AS m ON m.tenant = p.tenant AND m.number = p.number
    GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 1, 2, 3, 4, 5, 6"""
"""The scopes of memories and the coordinates of their postings, with the number of these postings."""
_UNPLACE: Final = f"""
    DELETE FROM postings AS p USING memories AS m WHERE m.tenant = %(tenant)s AND p.tenant = %(tenant)s
        AND p.number = m.number AND ARRAY[p.environment, p.project, p.user_id, p.agent_id] = %(keys)s::bigint[]
        AND {" AND ".join(f"m.{name} IS NOT DISTINCT FROM %({name})s" for name in statements.COORDINATES)}"""  # noqa: S608


def _postings(connection: Connection) -> Iterator[Found]:
    """Yield the tenants whose postings do not match their rows."""
    for condition, problem in ((_STRAY, "of no memory that has them"), (_UNPOSTED, "missing")):
        counted = f"SELECT p.tenant, count(*) AS count {condition} GROUP BY p.tenant ORDER BY p.tenant"
        for row in connection.exec_driver_sql(counted):
            yield Finding("postings", None, f"{row.count:,} postings of {row.tenant!r} are {problem}."), _mend_postings
    misplaced = Counter[str]()
    for row in _misplaced(connection):
        misplaced[row.tenant] += row.count
    for tenant, count in misplaced.items():
        yield Finding("postings", None, f"{count:,} postings of {tenant!r} are in another scope."), _mend_postings


def _misplaced(connection: Connection) -> list[Any]:
    """Return the rows of `_COORDINATES` whose coordinates are not those of the scope."""

    def right(row: Any) -> list[int | None]:
        return statements.coordinate_keys(
            Scope(row.tenant, **{name: getattr(row, name) for name in statements.COORDINATES})
        )

    return [row for row in connection.exec_driver_sql(_COORDINATES) if row.keys != right(row)]


def _mend_postings(connection: Connection) -> None:
    connection.exec_driver_sql(f"DELETE {_STRAY}")
    for row in _misplaced(connection):
        connection.exec_driver_sql(_UNPLACE, dict(row._mapping))
    for tenant in connection.exec_driver_sql(f"SELECT DISTINCT p.tenant {_UNPOSTED} ORDER BY p.tenant").scalars().all():
        statements.add_postings(connection, tenant)


_DERIVED: Final = {
    "home": ("names", "its home is not that of its scope."),
    "short_id": ("names", "its short id is not that of its id."),
    "search_keys": ("search keys", "its search keys are not those of its row."),
    "number": ("search keys", "the number by which they name it is not that of its id."),
    "length": ("search keys", "its length in terms is not that of its row."),
}
"""Column that follows from other columns -> check and problem in its finding."""


def _rows(connection: Connection) -> Iterator[Found]:
    """Yield the rows that cannot be read, and the wrong values in columns that follow from others."""
    for _, row, right, damaged in _read_rows(connection):
        at = f"version {row['version']}:"
        if damaged is not None:
            problem = f"{at} it cannot be read: its column {damaged!r} is damaged. {_RESTORE}"
            yield Finding("rows", row["id"], problem), None
        for column in right:
            check, problem = _DERIVED[column]
            yield Finding(check, row["id"], f"{at} {problem}"), _mend_rows


def _mend_rows(connection: Connection) -> None:
    """Write the right values; a home where another memory has the key stays."""
    for table, row, right, _ in list(_read_rows(connection)):
        key = [column == row[column.name] for column in table.primary_key]
        for column, value in right.items():
            try:
                with connection.begin_nested():
                    connection.execute(update(table).where(*key).values({column: value}))
            except IntegrityError:
                continue
    _mend_postings(connection)


def _read_rows(connection: Connection) -> Iterator[tuple[Table, RowMapping, dict[str, Any], str | None]]:
    """Yield the faulty rows without their texts: table, row, column -> right value, and the first damaged column."""
    for table in (memories, versions):
        names = [name for name in (*RECORD, "home", "terms") if name != "content"]
        names += ["short_id", "search_keys", "number", "length"] if table is memories else []
        columns = (*(table.c[name] for name in dict.fromkeys(names)), literal("").label("content"))
        query = select(*columns).order_by(*table.primary_key)
        for row in connection.execute(query, execution_options={"yield_per": statements.PAGE}).mappings():
            try:
                memory = to_memory(row)
            except DamagedError as error:
                yield table, row, {}, error.column
                continue
            right: dict[str, Any] = {"home": memory.scope.home_key}
            if table is memories:
                right |= {"short_id": short_id(memory.id), **statements.search_columns(memory, to_terms(row["terms"]))}
            right = {name: value for name, value in right.items() if row[name] != value}
            if right:
                yield table, row, right, None


def security_faults(connection: Connection) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return the faults of row-level security: problem, step that repairs it, and the statements of the step."""
    found: list[tuple[str, str, tuple[str, ...]]] = []
    tables = """
        SELECT c.relname AS name, c.relrowsecurity AS enabled
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = %s AND c.relname = ANY(%s) AND NOT (c.relrowsecurity AND c.relforcerowsecurity)
        ORDER BY c.relname"""
    for row in connection.exec_driver_sql(tables, (SCHEMA, list(OWN))):
        problem = f"row-level security of the table {row.name!r} is not {'forced' if row.enabled else 'enabled'}."
        force = [f"ALTER TABLE {SCHEMA}.{row.name} {word} ROW LEVEL SECURITY" for word in ("ENABLE", "FORCE")]
        found.append((problem, f"forced row-level security of {row.name}", tuple(force)))
    query = "SELECT tablename, tableowner FROM pg_tables WHERE schemaname = %s"
    owners = {row.tablename: row.tableowner for row in connection.exec_driver_sql(query, (SCHEMA,))}
    operator = "SELECT rolname::text FROM pg_roles WHERE rolname = %s"
    operators = connection.exec_driver_sql(operator, (OPERATOR,)).scalars().all()
    columns = "tablename AS table, policyname AS name, permissive, cmd, roles::text[] AS roles, qual, with_check"
    query = f"SELECT {columns} FROM pg_policies WHERE schemaname = %s ORDER BY tablename, policyname"  # noqa: S608
    policies = connection.exec_driver_sql(query, (SCHEMA,)).all()

    def bare(condition: str | None) -> str:
        """Return a condition without the casts, spaces and parentheses that PostgreSQL adds or removes."""
        return re.sub(r"::text|[\s()]", "", condition or "").lower()

    known = {(row.table, row.name): row for row in policies}

    def made(table: str, name: str, condition: str, roles: Iterable[str] = ("public",), cmd: str = "ALL") -> list[str]:
        """Return the statements that make a policy; none if it is there."""
        row, check = known.get((table, name)), condition if cmd == "ALL" else None
        right = ("PERMISSIVE", cmd, {*roles}, bare(condition), bare(check))
        if row and (row.permissive, row.cmd, {*row.roles}, bare(row.qual), bare(row.with_check)) == right:
            return []
        names = ", ".join("PUBLIC" if role == "public" else literals.Identifier(role).as_string() for role in roles)
        limits = f"USING ({condition})" + (f" WITH CHECK ({check})" if check else "")
        drop = f"DROP POLICY IF EXISTS {name} ON {SCHEMA}.{table}"
        return [drop, f"CREATE POLICY {name} ON {SCHEMA}.{table} FOR {cmd} TO {names} {limits}"]

    tables_there = [name for name in sorted(OWN) if name in owners]
    for name in tables_there:
        if statements := made(name, POLICY, OWN[name]):
            problem = f"the table {name!r} has no policy {POLICY!r} that keeps tenants apart."
            found.append((problem, f"made the policy of {name}", tuple(statements)))
    lacking = {name: made(name, ALL_POLICY, ALL, [*operators, owners[name]]) for name in tables_there}
    if any(lacking.values()):
        names = ", ".join(name for name, each in lacking.items() if each)
        problem = f"the policy {ALL_POLICY!r}, by which maintenance sees all tenants, is not on {names}."
        found.append((problem, "let maintenance see all tenants", tuple(chain(*lacking.values()))))
    if "api_keys" in owners and (statements := made("api_keys", KEY_POLICY, OWN_KEY, cmd="SELECT")):
        problem = f"the table 'api_keys' has no policy {KEY_POLICY!r}, by which a server finds a key."
        found.append((problem, "let servers find keys", tuple(statements)))
    for row in policies:
        ours = row.name in (POLICY, ALL_POLICY) or (row.table, row.name) == ("api_keys", KEY_POLICY)
        if not ours and row.table in OWN and row.permissive == "PERMISSIVE":
            problem = f"the policy {row.name!r} of the table {row.table!r} lets in more than the tenant. Drop it."
            found.append((problem, "", ()))
    may_change = "SELECT has_table_privilege(oid, %s::regclass, 'UPDATE, DELETE') FROM pg_roles WHERE rolname = %s"
    if PINS in owners and connection.exec_driver_sql(may_change, (f"{SCHEMA}.{PINS}", APP)).scalar():
        problem = f"the role {APP} may change the table {PINS!r}, and with it the model and language of all tenants."
        taken = f"REVOKE UPDATE, DELETE ON {SCHEMA}.{PINS} FROM {APP}"
        found.append((problem, f"let only maintenance change {PINS}", (taken,)))
    above = "SELECT 1 FROM pg_roles WHERE rolname = %s AND (rolsuper OR rolbypassrls)"
    for role in (APP, OPERATOR):
        if connection.exec_driver_sql(above, (role,)).scalar():
            remedy = f"Run: ALTER ROLE {role} NOSUPERUSER NOBYPASSRLS"
            found.append((f"the role {role} is above row-level security. {remedy}", "", ()))
    roles = "pg_roles a, pg_roles o WHERE (a.rolname, o.rolname) = (%s, %s)"
    member = f"SELECT pg_has_role(a.oid, o.oid, 'MEMBER') FROM {roles}"  # noqa: S608 - a constant
    if connection.exec_driver_sql(member, (APP, OPERATOR)).scalar():
        problem = f"the role {APP} is in {OPERATOR}, so that the application may see all tenants."
        found.append((f"{problem} Run: REVOKE {OPERATOR} FROM {APP}", "", ()))
    return found


def _security(connection: Connection) -> Iterator[Found]:
    for problem, _, _ in security_faults(connection):
        yield Finding("row-level security", None, problem if "Run:" in problem else f"{problem} {_UPGRADE}"), None


def indexes(connection: Connection) -> list[IndexState]:
    """Return the indexes of the store, by table and name."""
    query = """
        SELECT c.relname AS name, t.relname AS table, a.amname AS method, pg_relation_size(c.oid) AS bytes,
            coalesce(s.idx_scan, 0) AS uses, i.indisvalid AND i.indisready AS valid
        FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
        JOIN pg_am a ON a.oid = c.relam JOIN pg_namespace n ON n.oid = c.relnamespace
        LEFT JOIN pg_stat_all_indexes s ON s.indexrelid = c.oid
        WHERE n.nspname = %s ORDER BY t.relname, c.relname"""
    return [IndexState(*row) for row in connection.exec_driver_sql(query, (SCHEMA,))]


def vector_indexes(connection: Connection) -> list[Any]:
    """Return the existing vector indexes, by name: name, dimension (0 if unknown), m, ef_construction, valid, bytes."""
    query = f"""
        SELECT c.relname AS name, i.indisvalid AND i.indisready AS valid, pg_relation_size(c.oid) AS bytes,
            coalesce((regexp_match(pg_get_indexdef(c.oid), '(?:vector|halfvec)\\((\\d+)\\)'))[1]::int, 0) AS dimension,
            coalesce(substring(o.options FROM '\\ym=(\\d+)')::int, {M}) AS m,
            coalesce(substring(o.options FROM 'ef_construction=(\\d+)')::int, {EF_CONSTRUCTION}) AS ef_construction
        FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
        JOIN pg_namespace n ON n.oid = c.relnamespace, array_to_string(c.reloptions, ' ') AS o (options)
        WHERE n.nspname = %s AND a.amname = 'hnsw' ORDER BY c.relname"""  # noqa: S608
    return list(connection.exec_driver_sql(query, (SCHEMA,)))


def _indexes(connection: Connection) -> Iterator[Found]:
    """Yield the indexes that are missing, invalid or of another model."""
    held = {state.name: state.valid for state in indexes(connection)}
    problems = [invalid(name) for name, valid in held.items() if not valid]
    for index in (index for table in metadata.tables.values() for index in table.indexes if index.name not in held):
        made = str(CreateIndex(index).compile(dialect=postgresql.dialect()))  # type: ignore[no-untyped-call]
        made = " ".join(made.split())
        problems.append(f"the index {index.name} is not there. In the schema {SCHEMA}, run: {made}")
    pinned = Meta.read(connection).values.get(PINNED[1], "")
    for each in vector_indexes(connection):
        if pinned and str(each.dimension) != pinned and each.name in INDEXES.values():
            problem = f"the index {each.name} is of vectors of {each.dimension} numbers, not {pinned}."
            problems.append(f"{problem} {MAKE_INDEX}")
    yield from ((Finding("indexes", None, problem), None) for problem in problems)


def invalid(name: str) -> str:
    """Return the message for an invalid index."""
    command = f"REINDEX INDEX CONCURRENTLY {SCHEMA}.{name}"
    if name.removesuffix(NEW).removesuffix(OLD) in INDEXES.values():
        command = "salience db index"
    remedy = f"as the user who owns the tables, run: {command}"
    return f"the index {name} is not valid: it is being made, or that was cut short. If so, {remedy}"


_CHECKS: Final[tuple[Check, ...]] = (
    _rows,
    _security,
    _indexes,
    integrity.pins,
    Query(
        "sequence",
        _BEHIND,
        "the change sequence of {tenant!r} stands at {sequence}, and a row at {latest}.",
        (
            f"INSERT INTO tenants AS t (tenant, sequence, epoch) SELECT b.tenant, b.latest, '' FROM ({_BEHIND}) AS b "  # noqa: S608
            "ON CONFLICT (tenant) DO UPDATE SET sequence = excluded.sequence",
        ),
    ),
    integrity.ends,
    *integrity.in_order(_RESTORE),
    integrity.laid_by,
    integrity.requests,
    integrity.keys,
    *(
        partial(integrity.lengths, table, "vector_dims(vector)", "numbers", 1, "vector_dims(vector) <> {due}")
        for table in ("memories", "versions")
    ),
    integrity.token_vectors,
    _postings,
)
"""The checks, in this order: a repair of rows changes what their postings have to be."""
