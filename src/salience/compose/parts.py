"""The concrete parts that `compose` chooses from: each is imported when it is first chosen.

SQLAlchemy comes with a file or a database, the driver of PostgreSQL with a database, httpx with a server; what is not
chosen need not be installed.
"""

from typing import TYPE_CHECKING

from salience.loading import on_use

if TYPE_CHECKING:
    from salience.client import AsyncClient, AsyncEngine, AsyncOpening, Client, Endpoint, RetryPolicy
    from salience.store.keyring import MemoryKeyring
    from salience.store.memory import MemoryStore
    from salience.store.postgres import PostgresStore
    from salience.store.postgres.citus import distribute
    from salience.store.postgres.database import PostgresDatabase
    from salience.store.postgres.keyring import PostgresKeyring
    from salience.store.postgres.opening import place_name
    from salience.store.sqlite import SQLiteStore
    from salience.store.sqlite_database import SQLiteDatabase
    from salience.store.sqlite_keyring import SQLiteKeyring
else:
    __getattr__, __dir__ = on_use(
        __name__,
        {
            "salience.client": ("AsyncClient", "AsyncEngine", "AsyncOpening", "Client", "Endpoint", "RetryPolicy"),
            "salience.store.keyring": ("MemoryKeyring",),
            "salience.store.memory": ("MemoryStore",),
            "salience.store.postgres": ("PostgresStore",),
            "salience.store.postgres.opening": ("place_name",),
            "salience.store.postgres.citus": ("distribute",),
            "salience.store.postgres.database": ("PostgresDatabase",),
            "salience.store.postgres.keyring": ("PostgresKeyring",),
            "salience.store.sqlite": ("SQLiteStore",),
            "salience.store.sqlite_database": ("SQLiteDatabase",),
            "salience.store.sqlite_keyring": ("SQLiteKeyring",),
        },
    )

__all__ = [
    "AsyncClient",
    "AsyncEngine",
    "AsyncOpening",
    "Client",
    "Endpoint",
    "MemoryKeyring",
    "MemoryStore",
    "PostgresDatabase",
    "PostgresKeyring",
    "PostgresStore",
    "RetryPolicy",
    "SQLiteDatabase",
    "SQLiteKeyring",
    "SQLiteStore",
    "distribute",
    "place_name",
]
