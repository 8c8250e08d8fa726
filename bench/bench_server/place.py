"""Where the memories are: a store of each kind, filled, and the keys with which it is asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import psycopg
from psycopg import sql

from bench.bench_server import texts
from salience import compose
from salience import settings as configuration
from salience.engine import Engine
from salience.server import auth as access
from salience.store.postgres.connection import APP
from tests.postgres_server import fresh, server

MEMORIES: Final = 10_000
PROJECTS: Final = 20
EMBEDDER: Final = "minilm"
TENANT: Final = "bench"
USER: Final = "salience_bench"
"""Of PostgreSQL: under row-level security, as an application's is."""
RIGHTS: Final = {"writer": ("read", "write"), "reader": ("read",)}
"""Who holds a key."""


@dataclass(frozen=True, slots=True)
class Place:
    """A store that is filled.

    Attributes:
        target: of the store.
        tokens: who -> key.
    """

    target: str
    tokens: dict[str, str]


@contextmanager
def place(kind: str, folder: Path, memories: int) -> Iterator[Place]:
    """Yield a store of a kind with so many memories; it is gone afterwards."""
    if kind == "sqlite":
        target = str(folder / "memory.db")
        _fill(target, memories)
        yield Place(target, _keys(target))
        return
    with server() as running, fresh(running) as owner:
        _fill(owner, memories)
        with psycopg.connect(owner, autocommit=True) as superuser:
            words = {"user": sql.Identifier(USER), "app": sql.Identifier(APP)}
            superuser.execute(sql.SQL("CREATE ROLE {user} LOGIN IN ROLE {app}").format(**words))
            name = superuser.info.dbname
        yield Place(running.dsn(name, USER), _keys(owner))


def opened(target: str) -> Engine:
    """Return the engine of the tenant on a store."""
    chosen = configuration.load().model_copy(update={"tenant": TENANT})
    return compose.engine(chosen, target, embedder=EMBEDDER, profile="salience")


def project(number: int) -> str:
    """Return the name of a project, by any number."""
    return f"project{number % PROJECTS}"


def _fill(target: str, memories: int) -> None:
    drafts = [
        {"content": content, "project": project(at), "duplicate": True}
        for at, content in enumerate(texts.sentences(memories, 1))
    ]
    with closing(opened(target)) as engine:
        for start in range(0, memories, 500):
            engine.remember_many(drafts[start : start + 500])


def _keys(target: str) -> dict[str, str]:
    tokens = {}
    with closing(compose.keyring(target)) as keyring:
        for who, rights in RIGHTS.items():
            tokens[who], key = access.create_key(TENANT, rights, {}, None, None, datetime.now(UTC))
            keyring.add(key)
    return tokens
