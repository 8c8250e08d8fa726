"""The store of a target, and the keys beside it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from salience import settings as configuration
from salience.batch import Vectors32
from salience.compose import parts
from salience.compose.targets import MEMORY, named, on_server, path_of
from salience.derived import vectors_of
from salience.extract.distinctions import distinctions
from salience.loading import require
from salience.ports import FINGERPRINTED, Embedder, Keyring, Model, Store
from salience.settings import Settings
from salience.touches import TouchedStore, Touches, queue_of


def model(embedder: Embedder) -> Model:
    """Return the embedder as a store is pinned to it; its fingerprint is made when it is first asked for."""

    @cache
    def fingerprint() -> Vectors32:
        return vectors_of(embedder, [FINGERPRINTED]).reshape(-1)

    return Model(embedder.name, embedder.dimension, fingerprint)


def store(target: str, embedder: Embedder, settings: Settings, moving: bool = False) -> Store:
    """Return the store that `target` names, pinned to the embedder, or `moving` to it, and to the language."""
    pinning = model(embedder)
    if target == MEMORY:
        return TouchedStore(parts.MemoryStore(pinning.name, pinning.dimension, pinning.fingerprint), Touches())
    if on_server(target):
        return TouchedStore(_postgres(target, pinning, settings, moving), queue_of(target))
    path = path_of(target)
    return TouchedStore(_sqlite(path, pinning, settings, moving), queue_of(str(path.resolve())))


def _sqlite(path: Path, pinning: Model, settings: Settings, moving: bool) -> Store:
    """Return the store in a file."""
    return parts.SQLiteStore.open(
        path,
        embedder=pinning.name,
        dimension=pinning.dimension,
        fingerprint=pinning.fingerprint,
        language=settings.language,
        busy_timeout=settings.busy_timeout,
        distinguish=distinctions,
        moving=moving,
        tenant=settings.tenant,
        arena=settings.arena,
    )


def _postgres(target: str, pinning: Model, settings: Settings, moving: bool) -> Store:
    """Return the store in a PostgreSQL database."""
    require("psycopg", "a store on PostgreSQL", "postgres")
    return parts.PostgresStore.open(
        target,
        embedder=pinning.name,
        dimension=pinning.dimension,
        fingerprint=pinning.fingerprint,
        language=settings.language,
        busy_timeout=settings.busy_timeout,
        statement_timeout=settings.statement_timeout,
        pool_size=settings.pool_size,
        exact_rows=settings.exact_rows,
        cached_rows=settings.cached_rows,
        prepares=settings.prepared_statements,
        distinguish=distinctions,
        moving=moving,
        tenant=settings.tenant,
    )


def keyring(target: str | Path | None = None) -> Keyring:
    """Return the keys of a server, kept in the store that a target names; it is made and raises as by `connect`.

    Those of `:memory:` are of this call alone. It is to be closed.
    """
    settings, where = configuration.load(), named(target)
    if where == MEMORY:
        return parts.MemoryKeyring()
    if on_server(where):
        require("psycopg", "a store on PostgreSQL", "postgres")
        return parts.PostgresKeyring.open(
            where,
            busy_timeout=settings.busy_timeout,
            statement_timeout=settings.statement_timeout,
            prepares=settings.prepared_statements,
            distinguish=distinctions,
        )
    return parts.SQLiteKeyring.open(str(path_of(where)), busy_timeout=settings.busy_timeout, distinguish=distinctions)
