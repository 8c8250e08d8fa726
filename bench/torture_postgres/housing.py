"""Engines of many tenants on one store, and a role that is neither owner of the tables nor superuser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import psycopg
from psycopg import sql
from sqlalchemy import make_url

from bench.torture.thoughts import TopicalEmbedder
from bench.torture.writing import PROFILE
from salience import compose
from salience import settings as configuration
from salience.engine import Engine

APP: Final = "salience_app"
"""The role that has rows and no tables; the migrations make it."""
PROBE: Final = "salience_probe"
"""The user made here, which has no more than that role."""


def opened(dsn: str, *, tenant: str = "default", pool_size: int = 10, busy_timeout: float = 30.0) -> Engine:
    """Return an engine on a database, with an embedder that costs nothing."""
    chosen = {"tenant": tenant, "pool_size": pool_size, "busy_timeout": busy_timeout}
    settings = configuration.load().model_copy(update=chosen)
    return compose.engine(settings, dsn, embedder=TopicalEmbedder(), profile=PROFILE)


def of(engine: Engine, tenant: str) -> Engine:
    """Return the engine of another tenant on the same store."""
    return Engine(replace(engine.services, tenant=tenant), engine.profile)


@contextmanager
def probe(dsn: str) -> Iterator[str]:
    """Yield the DSN of the user `PROBE` on the same database, who is gone afterwards; `dsn` is a superuser's."""
    name = sql.Identifier(PROBE)
    with psycopg.connect(dsn, autocommit=True) as superuser:
        superuser.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(name))
        superuser.execute(sql.SQL("CREATE ROLE {} LOGIN IN ROLE {}").format(name, sql.Identifier(APP)))
    try:
        yield make_url(dsn).set(username=PROBE).render_as_string(hide_password=False)
    finally:
        with psycopg.connect(dsn, autocommit=True) as superuser:
            superuser.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(name))
