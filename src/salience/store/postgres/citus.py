"""Distributing the tables of a store by tenant over a Citus cluster, and checks of the shards.

Tables that are distributed already stay as they are, so that the tables of a later revision can be distributed later.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import psycopg
from psycopg import sql as literals
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from salience.errors import InputError, NotAStoreError, StoreError, VersionError
from salience.records import Distributed, Finding
from salience.store.postgres import admin
from salience.store.postgres.admin import Found, check_database, check_revision
from salience.store.postgres.connection import (
    APP,
    EXCLUSIVE,
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
from salience.store.postgres.security import OF_A_TENANT
from salience.store.schema import memories, metadata

ROOT: Final = memories.name
"""The table along with which all others are spread."""
SPREAD: Final = (
    ROOT,
    *(table.name for table in metadata.sorted_tables if "tenant" in table.primary_key.c and table.name != ROOT),
)
"""Tables that are spread by tenant, those that others refer to first."""
WHOLE: Final = tuple(table.name for table in metadata.sorted_tables if "tenant" not in table.primary_key.c)
"""Tables that every server has whole."""
SETTING: Final = "citus.propagate_set_commands"
"""The setting under which a `SET LOCAL`, such as that of the tenant, reaches the workers."""
CHECK: Final = "citus"
_SPREADS: Final = """
    SELECT c.relname AS name, p.partmethod AS method, column_to_column_name(p.logicalrelid, p.partkey) AS column,
        p.colocationid AS together, p.repmodel AS replicated,
        (SELECT count(*) FROM pg_dist_shard s WHERE s.logicalrelid = p.logicalrelid) AS shards,
        pg_relation_size(c.oid) AS bytes_left
    FROM pg_dist_partition p JOIN pg_class c ON c.oid = p.logicalrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s"""
_SHAPE: Final = f"""
    SELECT json_build_object(
        'forced', c.relrowsecurity AND c.relforcerowsecurity,
        'policies', (SELECT count(*) FROM pg_policy p WHERE p.polrelid = c.oid),
        'indexes', (SELECT count(*) FROM pg_index i WHERE i.indrelid = c.oid AND i.indisvalid AND i.indisready),
        'keys', (SELECT count(*) FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'f'),
        'rights', (SELECT count(*) FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS named (it), pg_roles r
                   WHERE r.rolname = '{APP}' AND has_table_privilege(r.oid, c.oid, named.it)))::text
    FROM pg_class c WHERE c.oid = '%s'::regclass"""  # noqa: S608 - of constants
"""What a table is like, or a shard of it; Citus puts the shard's name in the place of the sign."""
_TOLD: Final[Mapping[str, str]] = {
    "forced": "row-level security is not forced",
    "policies": "the policies are not those of the table",
    "indexes": "valid indexes are not as many as those of the table",
    "keys": "foreign keys are not as many as those of the table",
    "rights": f"the rights of {APP} are not those to the table",
}
"""Part of a shape -> what is told where a shard has it otherwise."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How Citus has a table.

    Attributes:
        name: of the table.
        method: `h` by the hash of a column, `n` by none.
        column: by which it is spread; None for one that every server has whole.
        together: number of the group of tables that are spread together.
        replicated: `t` for one that every server has whole.
        shards: how many.
        bytes_left: of rows that the coordinator has kept.
    """

    name: str
    method: str
    column: str | None
    together: int
    replicated: str
    shards: int
    bytes_left: int

    def problem(self, others: Mapping[str, Spread]) -> str | None:
        """Return what is wrong with it, beside the other tables; None for nothing."""
        if self.name in WHOLE:
            return None if (self.method, self.replicated) == ("n", "t") else "is not a reference table."
        if self.name not in SPREAD:
            return None
        if (self.method, self.column) != ("h", "tenant"):
            return "is not spread by the hash of its tenant."
        together = others[ROOT].together if ROOT in others else self.together
        return None if self.together == together else f"is not spread together with {ROOT}."


def spreads(connection: Connection) -> dict[str, Spread]:
    """Return how Citus has the tables of the store that it has, by name."""
    rows = connection.exec_driver_sql(_SPREADS, (SCHEMA,))
    return {row.name: Spread(*row) for row in rows if row.name in (*SPREAD, *WHOLE)}


def is_set(connection: Connection) -> bool:
    """Return whether new sessions of the database hand settings on to the workers."""
    asked = (
        "SELECT count(*) FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase "
        "WHERE d.datname = current_database() AND s.setrole = 0 AND %s = ANY(s.setconfig)"
    )
    return bool(connection.exec_driver_sql(asked, (f"{SETTING}=local",)).scalar())


def check(engine: Engine) -> Iterator[Finding]:
    """Yield what is wrong with how the tables are spread."""
    with engine.connect() as connection:
        known = spreads(connection)
        for name in (*SPREAD, *WHOLE):
            problem = known[name].problem(known) if name in known else "is not spread."
            if problem:
                yield Finding(CHECK, None, f"the table {name!r} {problem} Run: salience db distribute")
        for name in (name for name in SPREAD if name in known):
            yield from _of_shards(connection, name)
        if not is_set(connection):
            yield Finding(CHECK, None, f"the database does not set {SETTING} = 'local'. Run: salience db distribute")
    if "tenants" in known and not reaches(engine):
        problem = "a tenant that is set for a transaction does not reach the workers, which therefore show nothing."
        yield Finding(CHECK, None, problem)


def _of_shards(connection: Connection, table: str) -> Iterator[Finding]:
    """Yield in what the shards of a table differ from it."""
    name = f"{SCHEMA}.{table}"
    own = json.loads(connection.exec_driver_sql(_SHAPE.replace("%s", name)).scalar_one())
    asked = f"SELECT success, result FROM run_command_on_shards('{name}', {quoted(_SHAPE)})"  # noqa: S608 - of constants
    answers = connection.exec_driver_sql(asked.replace("%", "%%")).all()
    shapes = [json.loads(row.result) for row in answers if row.success]
    if len(shapes) < len(answers):
        told = f"{len(answers) - len(shapes)} of {len(answers)} shards of {table!r} cannot be looked at."
        yield Finding(CHECK, None, f"{told} See that every worker runs.")
    for part, problem in _TOLD.items():
        other = sum(shape[part] != own[part] for shape in shapes)
        if other:
            yield Finding(CHECK, None, f"{other} of {len(shapes)} shards of {table!r}: {problem}.")


def reaches(engine: Engine) -> bool:
    """Return whether the tenant that a transaction sets is known where a row of that tenant is.

    The row is made for it, and undone. Its own column is part of what is asked, so that the answer is the worker's.
    """
    tenant = quoted(f"probe {uuid4().hex}")
    begin = ("BEGIN", f"SET LOCAL {SETTING} = 'local'", f"SET LOCAL salience.tenant = {tenant}")
    asked = "current_setting(left(tenant, 0) || 'salience.tenant', true) = tenant"
    with engine.connect() as connection:
        try:
            run(driver(connection), begin)
            values = f"({tenant}, 0, '')"
            connection.exec_driver_sql(f"INSERT INTO {SCHEMA}.tenants (tenant, sequence, epoch) VALUES {values}")  # noqa: S608
            known = connection.exec_driver_sql(f"SELECT {asked} FROM {SCHEMA}.tenants WHERE tenant = {tenant}")  # noqa: S608
            return known.scalar() is True
        finally:
            run(driver(connection), "ROLLBACK")


LEAST: Final = (11, 2)
"""The oldest Citus that hands the isolation of a transaction on to its workers."""
MOST_SHARDS: Final = 1024
_DISTRIBUTING: Final = 0x53414C4944495354
"""Number of the lock that one process at a time spreads tables under."""
_TELLING: Final = ("0A", "42", "55")
"""Classes of SQLSTATE of which the words are about tables and rights, and never about what is in a row."""
_CLUSTER: Final = """
    SELECT (SELECT extversion FROM pg_extension WHERE extname = 'citus') AS version,
        (SELECT groupid FROM pg_dist_local_group LIMIT 1) AS node,
        (SELECT count(*) FROM citus_get_active_worker_nodes()) AS workers,
        current_database() AS database"""


@dataclass(frozen=True, slots=True)
class Cluster:
    """What a database on a cluster is like.

    Attributes:
        version: of Citus.
        workers: how many servers take shards.
        database: its name.
        spread: table -> how Citus has it; one that it has not is left out.
        is_set: whether sessions of the database hand settings on to the workers.
        filled: tables with rows of tenants that Citus does not have yet.
        left: tables of which rows are left on the coordinator, where nobody sees them.
        above: whether the user that connects is above row-level security.
    """

    version: str
    workers: int
    database: str
    spread: Mapping[str, Spread]
    is_set: bool
    filled: tuple[str, ...]
    left: tuple[str, ...]
    above: bool

    @property
    def shards(self) -> int | None:
        """Into how many shards the tables are spread; None where they are not."""
        return self.spread[ROOT].shards if ROOT in self.spread else None


def distribute(dsn: str, *, shards: int | None = None, dry_run: bool = False, patience: float = 30.0) -> Distributed:
    """Spread the tables of a database by tenant; return what was done, and what is wrong afterwards.

    Writers wait meanwhile. All tables are spread, or none is.

    Args:
        dsn: the database on the coordinator, as the user who owns its tables.
        shards: into how many each table is spread; None for `citus.shard_count`.
        dry_run: whether only to return what would be done.
        patience: seconds to wait for others.

    Raises:
        InputError: a DSN that is none, or a number of shards that is not to be had.
        NotAStoreError: the database has no Citus, or no tables of a store.
        VersionError: Citus is too old, or the tables are of another revision than this code's.
        StoreError: Citus refuses it, or the server cannot be reached.
    """
    if shards is not None and not 1 <= shards <= MOST_SHARDS:
        raise InputError("shards", shards, f"Give a number from 1 to {MOST_SHARDS}.")
    address = Address.parse(dsn)
    where, engine = address.name, create_pool(address, 1, patience)
    try:
        with mapped(where), told(where):
            cluster = examined(engine, where)
            steps, last = planned(cluster, where, shards), finishing(cluster)
            if not dry_run:
                carried_out(engine, steps, patience)
                cluster = examined(engine, where)
                last = finishing(cluster)
                for step in last:
                    carried_out(engine, (step,), patience)
            findings = () if dry_run else tuple(check(engine))
    finally:
        engine.dispose()
    known = (where, cluster.version, cluster.workers, cluster.shards)
    return Distributed(*known, (*steps, *last), dry_run, findings)


def examined(engine: Engine, where: str) -> Cluster:
    """Return what the database is like.

    Raises:
        NotAStoreError: it has no Citus, or no tables of a store.
        VersionError: Citus is too old, or the tables are of another revision than this code's.
        StoreError: it is not the coordinator's.
    """
    with engine.connect() as connection:
        found = admin.look(connection)
        check_found(found, where)
        row = connection.exec_driver_sql(_CLUSTER).one()
        check_cluster(row.version, row.node, where)
        spread = spreads(connection)
        left = [name for name in (*SPREAD, *WHOLE) if name in spread and spread[name].bytes_left]
        settings_reach_workers = is_set(connection)
    fenced = [name for name in (*SPREAD, *WHOLE) if name in OF_A_TENANT]
    filled = has_rows(engine, [name for name in fenced if name not in spread])
    return Cluster(
        row.version, row.workers, row.database, spread, settings_reach_workers, filled, tuple(left), found.user.above
    )


def check_found(found: Found, where: str) -> None:
    """Raise unless the database has Citus, and tables of this code's revision."""
    if not found.citus:
        remedy = "Load citus by shared_preload_libraries, and let a superuser run in it: CREATE EXTENSION citus"
        raise NotAStoreError(f"store: {where}: the extension Citus is not installed in it. {remedy}")
    if not found.has_tables:
        raise NotAStoreError(f"store: {where}: it has no tables of a store. Run: salience db upgrade")
    check_database(found, where)
    check_revision(found.revision or "", where)


def check_cluster(version: str, node: int, where: str) -> None:
    """Raise unless Citus is new enough, and this is its coordinator, whose number is 0."""
    if tuple(int(number) for number in version.partition("-")[0].split(".")[:2]) < LEAST:
        least = ".".join(map(str, LEAST))
        raise VersionError(f"store: {where}: Citus is {version}, older than {least}. Install a newer one.")
    if node != 0:
        raise StoreError(f"store: {where}: it is a worker of the cluster. Connect to the coordinator.")


def has_rows(engine: Engine, tables: Sequence[str]) -> tuple[str, ...]:
    """Return those of some tables that have rows, whosever they are."""
    with transaction(engine, ("BEGIN READ ONLY", "SET LOCAL salience.operator = 'on'")) as connection:
        asked = "SELECT EXISTS (SELECT 1 FROM {}.{})"
        return tuple(name for name in tables if connection.exec_driver_sql(asked.format(SCHEMA, name)).scalar())


def planned(cluster: Cluster, where: str, shards: int | None) -> tuple[str, ...]:
    """Return the statements that spread what is not spread yet, in the order that foreign keys need: parents first.

    `alembic_version` stays with the coordinator alone: whoever migrates does so there, and an engine that is led to a
    worker finds no tables of a store, where its locks would hold for nobody else.

    Raises:
        InputError: the tables are spread into another number of shards.
        StoreError: a table is spread otherwise, or this user may not move the rows that are there.
    """
    if shards is not None and cluster.shards not in (None, shards):
        change = (
            f"SELECT alter_distributed_table('{SCHEMA}.{ROOT}', shard_count => {shards}, cascade_to_colocated => true)"
        )
        raise InputError("shards", shards, f"The tables have {cluster.shards} already. To change that, run: {change}")
    check_spread(cluster, where)
    steps = [spreading(name, shards) for name in SPREAD if name not in cluster.spread]
    steps += [f"SELECT create_reference_table('{SCHEMA}.{name}')" for name in WHOLE if name not in cluster.spread]
    return tuple(steps)


def finishing(cluster: Cluster) -> tuple[str, ...]:
    """Return what is left to be run once the tables are spread, each by itself.

    Sessions other than an engine's are to hand the tenant on too. And what the coordinator has kept of the rows that it
    gave away goes: nobody sees it, and no erasure reaches it.
    """
    name = literals.Identifier(cluster.database).as_string()
    setting = () if cluster.is_set else (f"ALTER DATABASE {name} SET {SETTING} = 'local'",)
    return (*setting, *(clearing(table) for table in cluster.left))


def check_spread(cluster: Cluster, where: str) -> None:
    """Raise `StoreError` where a table is spread otherwise, or this user may not move the rows that are there."""
    wrong = [name for name, spread in cluster.spread.items() if spread.problem(cluster.spread)]
    if wrong:
        names = ", ".join(sorted(wrong))
        remedy = f"Undo that first: SELECT undistribute_table('{SCHEMA}.{wrong[0]}')"
        raise StoreError(f"store: {where}: Citus has {names} otherwise than by tenant and together. {remedy}")
    if cluster.filled and not cluster.above:
        told = (
            f"there are rows in {', '.join(cluster.filled)}, which row-level security lets no user but a superuser copy"
        )
        raise StoreError(f"store: {where}: {told}. Run this as one, or before the first memory is stored.")


def spreading(table: str, shards: int | None) -> str:
    """Return the statement that spreads a table by tenant: the root in a group of its own, all others along with it."""
    together = "none" if table == ROOT else f"{SCHEMA}.{ROOT}"
    count = f", shard_count => {shards}" if table == ROOT and shards is not None else ""
    return f"SELECT create_distributed_table('{SCHEMA}.{table}', 'tenant', colocate_with => '{together}'{count})"


def clearing(table: str) -> str:
    """Return the statement that removes the rows of a spread table that the coordinator has kept, unseen."""
    return f"SELECT truncate_local_data_after_distributing_table('{SCHEMA}.{table}')"


def carried_out(engine: Engine, steps: tuple[str, ...], patience: float) -> None:
    """Run statements in one transaction, while nobody writes; each as a query of its own, as Citus wants it."""
    if not steps:
        return
    timeout = f"SET LOCAL lock_timeout = {int(patience * 1000)}"
    begin = ("BEGIN", timeout, "SET LOCAL statement_timeout = 0", f"SELECT pg_advisory_xact_lock({_DISTRIBUTING})")
    with transaction(engine, begin) as connection:
        connection.exec_driver_sql(EXCLUSIVE)
        for step in steps:
            connection.exec_driver_sql(step)


@contextmanager
def told(where: str) -> Iterator[None]:
    """Raise what Citus refuses as a `StoreError` in its own words, where these are about tables alone."""
    try:
        yield
    except (DBAPIError, psycopg.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        if not isinstance(cause, psycopg.Error) or not (sqlstate(error) or "").startswith(_TELLING):
            raise
        raise StoreError(f"store: {where}: Citus refuses it: {cause.diag.message_primary}.") from None
