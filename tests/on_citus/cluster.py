"""A store on a Citus cluster, for tests: its tables made and spread anew, and emptied between tests.

```python
cluster = prepared(os.environ["SALIENCE_TEST_CITUS"])     # DSN of a superuser, of a database on the coordinator
store = PostgresStore.open(cluster.engine, ...)
```
The schema `salience` of that database is dropped and made again, which is done only where the tests made it themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlsplit

import psycopg
from psycopg import sql

from salience.errors import InputError
from salience.records import Distributed
from salience.store.postgres import citus
from salience.store.postgres.admin import upgrade
from salience.store.postgres.connection import APP, OPERATOR, SCHEMA, Address, create_pool, mapped
from salience.store.schema import metadata

GIVEN: Final = "SALIENCE_TEST_CITUS"
"""Name of the variable that holds the DSN."""
USER: Final = "salience_test_engine"
"""Who connects as an engine does: under row-level security, and let in by the workers too. His password is his name."""
MARK: Final = "salience_test_made_this"
"""A table of this name, outside the schema, says that tests made the schema."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A database on a cluster, ready for stores.

    Attributes:
        superuser: its DSN as a superuser.
        engine: its DSN as `USER`.
        spread: what spreading its tables did.
    """

    superuser: str
    engine: str
    spread: Distributed


def prepared(dsn: str, *, shards: int = 4, patience: float = 60.0) -> Cluster:
    """Return a database whose tables are new, empty and spread.

    Raises:
        InputError: it has a schema `salience` that no test made.
        StoreError: something that `salience db distribute` refuses, or finds wrong.
    """
    cleared(dsn)
    address = Address.parse(dsn)
    where, engine = address.name, create_pool(address, 1, patience)
    try:
        with mapped(where):
            upgrade(engine, where)
    finally:
        engine.dispose()
    spread = citus.distribute(dsn, shards=shards, patience=patience)
    with psycopg.connect(dsn, autocommit=True) as superuser:
        known = superuser.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (USER,)).fetchone()
        words = {"user": sql.Identifier(USER), "password": sql.Literal(USER), "app": sql.SQL(f"{APP}, {OPERATOR}")}
        make = "CREATE ROLE {user} LOGIN PASSWORD {password} IN ROLE {app}" if not known else "GRANT {app} TO {user}"
        superuser.execute(sql.SQL(make).format(**words))
    return Cluster(dsn, as_user(dsn, USER, USER), spread)


def cleared(dsn: str) -> None:
    """Drop the schema of a store, and mark the one that comes next as made by tests.

    Raises:
        InputError: no test made the one that is there.
    """
    with psycopg.connect(dsn, autocommit=True) as superuser:
        has_mark, tables = superuser.execute(
            "SELECT to_regclass(%s) IS NOT NULL, (SELECT count(*) FROM pg_class c JOIN pg_namespace n "
            "ON n.oid = c.relnamespace WHERE n.nspname = %s)",
            (f"public.{MARK}", SCHEMA),
        ).fetchone() or (False, 0)
        if tables and not has_mark:
            remedy = f"Name a database for tests alone, without a schema {SCHEMA!r}: it would be dropped."
            raise InputError(GIVEN, "***", remedy)
        superuser.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(SCHEMA)))
        superuser.execute(sql.SQL("CREATE TABLE IF NOT EXISTS public.{} ()").format(sql.Identifier(MARK)))


def emptied(cluster: Cluster) -> None:
    """Delete all that is in its tables."""
    tables = sql.SQL(", ").join(sql.Identifier(SCHEMA, name) for name in metadata.tables)
    with psycopg.connect(cluster.superuser, autocommit=True) as superuser:
        superuser.execute(sql.SQL("TRUNCATE {}").format(tables))


def as_user(dsn: str, user: str, password: str) -> str:
    """Return a DSN, in the form of a URL, for another user."""
    parts = urlsplit(dsn)
    place = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{quote(user, safe='')}:{quote(password, safe='')}@{place}").geturl()
