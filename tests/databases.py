"""Databases with a store's tables for tests: copied from one that was laid out once, or used in turn and emptied."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import make_url

from salience.store.schema import metadata
from tests.postgres_server import Elsewhere, Server, fresh

APPLICATION = "salience_test_application"
"""A user, and its password, that owns no table, makes no role and is under row-level security."""
CARETAKER = "salience_test_caretaker"
"""Another such user, which also sees all tenants."""
_MAKE_USER = """
DO $$ BEGIN
    CREATE ROLE {user} LOGIN PASSWORD '{user}' IN ROLE {roles};
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;  -- another test, or another process, made it
END $$
"""
_END_OTHERS = """
SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
_NAMES = [f"salience.{table.name}" for table in metadata.sorted_tables]
_DELETE = "; ".join(f"DELETE FROM {name}" for name in reversed(_NAMES))  # noqa: S608 - constants
_TRUNCATE = f"TRUNCATE {', '.join(_NAMES)}"
_IS_LARGE = "SELECT pg_total_relation_size('salience.memories') > 4000000"
_DROP_INDEXES = "; ".join(
    f"DROP INDEX IF EXISTS salience.{name}, salience.{name}_new"
    for name in ("ix_memories_hnsw", "ix_memories_hnsw_half")
)


@contextmanager
def laid_out(place: Server | Elsewhere, template: str = "template1") -> Iterator[str]:
    """Yield the DSN of a new database with a store's tables, which `template` may have already, and nothing in them."""
    from salience.store.postgres import PostgresStore

    with fresh(place, template=template) as dsn:
        PostgresStore.open(dsn, embedder="none", dimension=1, language="none").close()
        yield dsn


def end_others(dsn: str) -> None:
    """End all connections to a database, whatever is under way on them."""
    import psycopg

    with psycopg.connect(dsn, autocommit=True) as superuser:
        superuser.execute(_END_OTHERS)


def empty(dsn: str) -> None:
    """Let nothing stay in the tables, nor anyone connected; deleting few rows takes a fifth of the time of TRUNCATE."""
    import psycopg

    with psycopg.connect(dsn, autocommit=True) as superuser:
        superuser.execute(_END_OTHERS)
        (is_large,) = superuser.execute(_IS_LARGE).fetchone() or (False,)
        superuser.execute(_TRUNCATE if is_large else _DELETE)
        superuser.execute(_DROP_INDEXES)  # of vectors as long as those of the last test


def as_application(place: Server | Elsewhere, dsn: str, user: str = APPLICATION) -> str:
    """Return the DSN of the same database for the user `APPLICATION`, or `CARETAKER`."""
    import psycopg

    roles = "salience_app" if user == APPLICATION else "salience_app, salience_operator"
    with psycopg.connect(place.dsn(), autocommit=True) as superuser:
        superuser.execute(_MAKE_USER.format(user=user, roles=roles).encode())
    return place.dsn(str(make_url(dsn).database), user, user)
