"""Distributing the tables of a store by tenant over a Citus cluster, and checks of the shards.

Tables that are distributed already stay as they are, so that the tables of a later revision can be distributed later.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import psycopg
from psycopg import sql as literals
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from salience.errors import InputError, NotAStoreError, StoreError, VersionError
from salience.records import Distributed, Finding
from salience.store.postgres import admin
from salience.store.postgres.checking import OWN
from salience.store.postgres.connection import (
    APP,
    EXCLUSIVE,
    OPERATOR,
    SCHEMA,
    Address,
    create_pool,
    driver,
    mapped,
    quoted,
    run,
    sqlstate,
    transaction,
)
from salience.store.schema import memories, metadata

ROOT: Final = memories.name
"""The table that all others are colocated with."""
SPREAD: Final = (
    ROOT,
    *(table.name for table in metadata.sorted_tables if "tenant" in table.primary_key.c and table.name != ROOT),
)
"""Tables distributed by tenant; referenced tables first."""
WHOLE: Final = tuple(table.name for table in metadata.sorted_tables if "tenant" not in table.primary_key.c)
"""Reference tables, of which every server has a whole copy."""
SETTING: Final = "citus.propagate_set_commands"
"""The setting that passes `SET LOCAL`, such as that of the tenant, on to the workers."""
CHECK: Final = "citus"
_SPREADS: Final = """
    SELECT c.relname AS name, p.partmethod AS method, column_to_column_name(p.logicalrelid, p.partkey) AS column,
        p.colocationid AS together, p.repmodel AS replicated,
        (SELECT count(*) FROM pg_dist_shard s WHERE s.logicalrelid = p.logicalrelid) AS shards,
        pg_relation_size(c.oid) AS bytes_left
    FROM pg_dist_partition p JOIN pg_class c ON c.oid = p.logicalrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s"""
"""The method is `h` for distribution by the hash of a column, `n` for none; a reference table is replicated: `t`."""
_SHAPE: Final = f"""
    SELECT json_build_object(
        'forced', c.relrowsecurity AND c.relforcerowsecurity,
        'policies', (SELECT count(*) FROM pg_policy p WHERE p.polrelid = c.oid),
        'indexes', (SELECT count(*) FROM pg_index i WHERE i.indrelid = c.oid AND i.indisvalid AND i.indisready),
        'keys', (SELECT count(*) FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'f'),
        'rights', (SELECT count(*) FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS named (it), pg_roles r
                   WHERE r.rolname IN ('{APP}', '{OPERATOR}') AND has_table_privilege(r.oid, c.oid, named.it)))::text
    FROM pg_class c WHERE c.oid = '%s'::regclass"""  # noqa: S608 - of constants
"""Query for the properties of a table or shard; Citus replaces the placeholder by the shard's name."""
_SHAPE_PROBLEMS: Final[Mapping[str, str]] = {
    "forced": "row-level security is not forced",
    "policies": "the policies are not those of the table",
    "indexes": "valid indexes are not as many as those of the table",
    "keys": "foreign keys are not as many as those of the table",
    "rights": f"the rights of {APP} or {OPERATOR} are not those to the table",
}
"""Property of a shard that differs from its table -> problem in messages."""
LEAST: Final = (11, 2)
"""The oldest Citus that passes the isolation level on to its workers."""
MOST_SHARDS: Final = 1024
_DISTRIBUTING: Final = 0x53414C4944495354
"""Advisory lock of the distribution of tables."""
_SHOWN: Final = ("0A", "42", "55")
"""Classes of SQLSTATE whose messages are about tables and rights, and never show a row."""
_IS_SET: Final = """
    SELECT count(*) FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase
    WHERE d.datname = current_database() AND s.setrole = 0 AND %s = ANY(s.setconfig)"""
"""Whether new sessions of the database pass settings on to the workers."""
_CLUSTER: Final = """
    SELECT (SELECT extversion FROM pg_extension WHERE extname = 'citus') AS version,
        (SELECT count(*) FROM citus_get_active_worker_nodes()) AS workers,
        current_database() AS database"""


def spreads(connection: Connection) -> dict[str, Any]:
    """Return the distributions of the store's tables by name: the rows of `_SPREADS`."""
    rows = connection.exec_driver_sql(_SPREADS, (SCHEMA,))
    return {row.name: row for row in rows if row.name in (*SPREAD, *WHOLE)}


def problem_with(name: str, known: Mapping[str, Any]) -> str | None:
    """Return the problem with the distribution of a table, given that of all; None for none."""
    if name not in known:
        return "is not spread."
    row = known[name]
    if name in WHOLE:
        return None if (row.method, row.replicated) == ("n", "t") else "is not a reference table."
    if (row.method, row.column) != ("h", "tenant"):
        return "is not spread by the hash of its tenant."
    return None if row.together == known.get(ROOT, row).together else f"is not spread together with {ROOT}."


def check(engine: Engine) -> Iterator[Finding]:
    """Yield the problems with the distribution of the tables."""
    with engine.connect() as connection:
        known = spreads(connection)
        for name in (*SPREAD, *WHOLE):
            if problem := problem_with(name, known):
                yield Finding(CHECK, None, f"the table {name!r} {problem} Run: salience db distribute")
        for name in (name for name in SPREAD if name in known):
            table = f"{SCHEMA}.{name}"
            own = json.loads(connection.exec_driver_sql(_SHAPE.replace("%s", table)).scalar_one())
            query = f"SELECT success, result FROM run_command_on_shards('{table}', {quoted(_SHAPE)})"  # noqa: S608 - constants
            answers = connection.exec_driver_sql(query.replace("%", "%%")).all()
            shapes = [json.loads(row.result) for row in answers if row.success]
            if len(shapes) < len(answers):
                problem = f"{len(answers) - len(shapes)} of {len(answers)} shards of {name!r} cannot be looked at."
                yield Finding(CHECK, None, f"{problem} See that every worker runs.")
            for part, problem in _SHAPE_PROBLEMS.items():
                other = sum(shape[part] != own[part] for shape in shapes)
                if other:
                    yield Finding(CHECK, None, f"{other} of {len(shapes)} shards of {name!r}: {problem}.")
        if not connection.exec_driver_sql(_IS_SET, (f"{SETTING}=local",)).scalar():
            yield Finding(CHECK, None, f"the database does not set {SETTING} = 'local'. Run: salience db distribute")
        if "tenants" in known and not _tenant_arrives(connection):
            problem = "a tenant that is set for a transaction does not reach the workers, which therefore show nothing."
            yield Finding(CHECK, None, problem)


def _tenant_arrives(connection: Connection) -> bool:
    """Return whether the tenant that a transaction sets arrives at the worker with the tenant's rows.

    The row for the test is rolled back. The query uses its column, so that the worker answers.
    """
    tenant = quoted(f"probe {uuid4().hex}")
    below, values = driver(connection), f"({tenant}, 0, '')"
    setting = "current_setting(left(tenant, 0) || 'salience.tenant', true) = tenant"
    try:
        run(below, ("BEGIN", f"SET LOCAL {SETTING} = 'local'", f"SET LOCAL salience.tenant = {tenant}"))
        connection.exec_driver_sql(f"INSERT INTO {SCHEMA}.tenants (tenant, sequence, epoch) VALUES {values}")  # noqa: S608
        known = connection.exec_driver_sql(f"SELECT {setting} FROM {SCHEMA}.tenants WHERE tenant = {tenant}")  # noqa: S608
        return known.scalar() is True
    finally:
        run(below, "ROLLBACK")


@dataclass(frozen=True, slots=True)
class Cluster:
    """The state of a database with Citus.

    Attributes:
        version: version of Citus.
        workers: number of servers that take shards.
        spread: table -> its distribution, as `spreads` returns it.
        shards: number of shards of a table; None without distribution.
        filled: tables with rows that are not distributed yet.
        above: whether the user bypasses row-level security.
        last: statements to run after the distribution, each in its own transaction. One lets all sessions pass the
            tenant on to the workers. The others delete the rows left on the coordinator, which are invisible, and
            which no erasure deletes.
    """

    version: str
    workers: int
    spread: Mapping[str, Any]
    shards: int | None
    filled: tuple[str, ...]
    above: bool
    last: tuple[str, ...]


def distribute(dsn: str, *, shards: int | None = None, dry_run: bool = False, patience: float = 30.0) -> Distributed:
    """Distribute the tables of a database by tenant; return the steps, and the problems left afterwards.

    Writers wait meanwhile. Either all tables are distributed, or none is.

    Args:
        dsn: the database on the coordinator, as the user who owns its tables.
        shards: number of shards of a table; None for `citus.shard_count`.
        dry_run: only return the steps.
        patience: seconds to wait for locks.

    Raises:
        InputError: an invalid DSN or number of shards.
        NotAStoreError: the database has no Citus, or no tables of a store.
        VersionError: Citus is too old, or the tables are of another revision than this code's.
        StoreError: Citus refuses a step, or the server cannot be reached.
    """
    if shards is not None and not 1 <= shards <= MOST_SHARDS:
        raise InputError("shards", shards, f"Give a number from 1 to {MOST_SHARDS}.")
    address = Address.parse(dsn)
    where, engine = address.name, create_pool(address, 1, patience)
    try:
        with mapped(where), _refusals(where):
            cluster = _inspect(engine, where)
            steps = _distribution_steps(cluster, where, shards)
            if not dry_run:
                _run_steps(engine, steps, patience)
                cluster = _inspect(engine, where)
                for step in cluster.last:
                    _run_steps(engine, (step,), patience)
            findings = () if dry_run else tuple(check(engine))
    finally:
        engine.dispose()
    known = (where, cluster.version, cluster.workers, cluster.shards)
    return Distributed(*known, (*steps, *cluster.last), dry_run, findings)


def _inspect(engine: Engine, where: str) -> Cluster:
    """Return the state of the database; raise unless it has tables that can be distributed, as `distribute` does."""
    with engine.connect() as connection:
        found = admin.inspect(connection)
        if not found.citus:
            remedy = "Load citus by shared_preload_libraries, and let a superuser run in it: CREATE EXTENSION citus"
            raise NotAStoreError(f"store: {where}: the extension Citus is not installed in it. {remedy}")
        if not found.has_tables:
            raise NotAStoreError(f"store: {where}: it has no tables of a store. Run: salience db upgrade")
        admin.check_tables(found, where)
        row = connection.exec_driver_sql(_CLUSTER).one()
        if tuple(int(number) for number in row.version.partition("-")[0].split(".")[:2]) < LEAST:
            least = ".".join(map(str, LEAST))
            raise VersionError(f"store: {where}: Citus is {row.version}, older than {least}. Install a newer one.")
        spread = spreads(connection)
        database = literals.Identifier(row.database).as_string()
        is_set = connection.exec_driver_sql(_IS_SET, (f"{SETTING}=local",)).scalar()
        fenced = [name for name in (*SPREAD, *WHOLE) if name in OWN and name not in spread]
        sized = "SELECT pg_relation_size(%s::regclass)"  # the user may not see the rows
        filled = [name for name in fenced if connection.exec_driver_sql(sized, (f"{SCHEMA}.{name}",)).scalar()]
    last = [] if is_set else [f"ALTER DATABASE {database} SET {SETTING} = 'local'"]
    last += [
        f"SELECT truncate_local_data_after_distributing_table('{SCHEMA}.{name}')"
        for name in (*SPREAD, *WHOLE)
        if name in spread and spread[name].bytes_left
    ]
    count = spread[ROOT].shards if ROOT in spread else None
    return Cluster(row.version, row.workers, spread, count, tuple(filled), found.user.above, tuple(last))


def _distribution_steps(cluster: Cluster, where: str, shards: int | None) -> tuple[str, ...]:
    """Return the statements that distribute the remaining tables, referenced tables first, colocated with the root.

    `alembic_version` stays on the coordinator alone: an engine that connects to a worker by mistake, where its locks
    are useless, then finds no store there.

    Raises:
        InputError: the tables have another number of shards.
        StoreError: a table is distributed in another way, or this user may not move existing rows.
    """
    if shards is not None and cluster.shards not in (None, shards):
        change = (
            f"SELECT alter_distributed_table('{SCHEMA}.{ROOT}', shard_count => {shards}, cascade_to_colocated => true)"
        )
        raise InputError("shards", shards, f"The tables have {cluster.shards} already. To change that, run: {change}")
    wrong = [name for name in cluster.spread if problem_with(name, cluster.spread)]
    if wrong:
        names = ", ".join(sorted(wrong))
        remedy = f"Undo that first: SELECT undistribute_table('{SCHEMA}.{wrong[0]}')"
        raise StoreError(f"store: {where}: Citus has {names} otherwise than by tenant and together. {remedy}")
    if cluster.filled and not cluster.above:
        tables = ", ".join(cluster.filled)
        problem = f"there are rows in {tables}, which row-level security lets no user but a superuser copy"
        raise StoreError(f"store: {where}: {problem}. Run this as one, or before the first memory is stored.")
    count = "" if shards is None else f", shard_count => {shards}"
    together = dict.fromkeys(SPREAD, f"'{SCHEMA}.{ROOT}'") | {ROOT: f"'none'{count}"}
    return (
        *(
            f"SELECT create_distributed_table('{SCHEMA}.{name}', 'tenant', colocate_with => {together[name]})"
            for name in SPREAD
            if name not in cluster.spread
        ),
        *(f"SELECT create_reference_table('{SCHEMA}.{name}')" for name in WHOLE if name not in cluster.spread),
    )


def _run_steps(engine: Engine, steps: tuple[str, ...], patience: float) -> None:
    """Run statements in one transaction without other writers, each as a separate query, which Citus requires."""
    if not steps:
        return
    timeout = f"SET LOCAL lock_timeout = {int(patience * 1000)}"
    begin = ("BEGIN", timeout, "SET LOCAL statement_timeout = 0", f"SELECT pg_advisory_xact_lock({_DISTRIBUTING})")
    with transaction(engine, begin) as (connection, _):
        connection.exec_driver_sql(f"SELECT {EXCLUSIVE}")
        for step in steps:
            connection.exec_driver_sql(step)


@contextmanager
def _refusals(where: str) -> Iterator[None]:
    """Raise refusals of Citus as `StoreError`s with its message, if that is about tables alone."""
    try:
        yield
    except (DBAPIError, psycopg.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        if not isinstance(cause, psycopg.Error) or not (sqlstate(error) or "").startswith(_SHOWN):
            raise
        raise StoreError(f"store: {where}: Citus refuses it: {cause.diag.message_primary}.") from None
