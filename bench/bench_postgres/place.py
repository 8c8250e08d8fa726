"""Where the store is: a server of our own or another, an empty database on it, and who works there."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from types import MappingProxyType
from typing import Any, Final

import psycopg
from psycopg import sql

from bench.bench_postgres.corpus import END
from bench.bench_postgres.meaning import MadeUp
from salience import compose
from salience import settings as configuration
from salience.engine import Engine
from salience.store.postgres.connection import APP, SCHEMA
from tests.postgres_server import Elsewhere, Server, Setting, fresh, server

SETTINGS: Final[Mapping[str, Setting]] = MappingProxyType(
    {
        "shared_buffers": "4GB",
        "effective_cache_size": "12GB",
        "maintenance_work_mem": "3GB",
        "max_wal_size": "8GB",
        "max_connections": 60,
        "max_parallel_maintenance_workers": 1,
    }
)
"""Of a server of our own; all others are PostgreSQL's."""
USER: Final = "salience_bench"
"""The application's, made here and gone afterwards."""
FIRST: Final = "first"
"""The tenant of the memory by which the store is pinned to its model."""


@dataclass(frozen=True, slots=True)
class Store:
    """A database with a store's tables.

    Attributes:
        owner: DSN of the superuser, who loads and indexes.
        application: DSN of a user that is under row-level security.
        pid: number of the server's first process, if it is ours.
    """

    owner: str
    application: str
    pid: int | None = None


@contextmanager
def store(dsn: str | None, settings: Mapping[str, Setting] = SETTINGS) -> Iterator[Store]:
    """Yield an empty store, which is gone afterwards.

    Args:
        dsn: of a superuser of another server; None for a server of our own.
        settings: of our own.
    """
    if dsn is not None:
        with _made(Elsewhere(dsn)) as made:
            yield made
        return
    with server(settings=settings) as running, _made(running) as made:
        yield made


@contextmanager
def _made(place: Server | Elsewhere) -> Iterator[Store]:
    password = secrets.token_hex(16)
    with fresh(place) as owner:
        opened(owner).close()  # makes the tables
        with psycopg.connect(owner, autocommit=True) as superuser:
            name = superuser.info.dbname
            words = {"user": sql.Identifier(USER), "app": sql.Identifier(APP), "password": sql.Literal(password)}
            superuser.execute(sql.SQL("DROP ROLE IF EXISTS {user}").format(**words))
            superuser.execute(sql.SQL("CREATE ROLE {user} LOGIN PASSWORD {password} IN ROLE {app}").format(**words))
        try:
            yield Store(owner, place.dsn(name, USER, password), place.pid if isinstance(place, Server) else None)
        finally:
            with psycopg.connect(owner, autocommit=True) as superuser:
                superuser.execute(sql.SQL("DROP ROLE IF EXISTS {user}").format(**words))


@cache
def _embedder() -> MadeUp:
    return MadeUp()


def asked_at() -> datetime:
    """Return the instant at which everything is asked: the day after the last thing was said."""
    return END.astimezone(UTC) + timedelta(days=1)


def opened(dsn: str, *, tenant: str = FIRST, **settings: Any) -> Engine:
    """Return an engine on a database, under other settings than the usual ones where they are given."""
    chosen = configuration.load().model_copy(update={"tenant": tenant, **settings})
    clock: Callable[[], datetime] = asked_at
    return compose.engine(chosen, dsn, embedder=_embedder(), clock=clock)


def of(engine: Engine, tenant: str) -> Engine:
    """Return the engine of another tenant on the same store."""
    return Engine(replace(engine.services, tenant=tenant), engine.profile)


@contextmanager
def connected(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """Yield a connection of the superuser to the store's tables, on which nothing is cut short."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"SET search_path = {SCHEMA}, public")
        connection.execute("SET statement_timeout = 0")
        yield connection
