"""Whether Citus has the tables as the store needs them: spread by tenant, together, and each shard as its table is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from sqlalchemy import Connection, Engine

from salience.records import Finding
from salience.store.postgres import wire
from salience.store.postgres.opening import APP, SCHEMA, driver, quoted
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
            wire.run(driver(connection), begin)
            values = f"({tenant}, 0, '')"
            connection.exec_driver_sql(f"INSERT INTO {SCHEMA}.tenants (tenant, sequence, epoch) VALUES {values}")  # noqa: S608
            known = connection.exec_driver_sql(f"SELECT {asked} FROM {SCHEMA}.tenants WHERE tenant = {tenant}")  # noqa: S608
            return known.scalar() is True
        finally:
            wire.run(driver(connection), "ROLLBACK")
