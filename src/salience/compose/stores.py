"""The store of a target, and the keys beside it."""

from __future__ import annotations

import shlex
from functools import cache
from pathlib import Path

from salience import settings as configuration
from salience.access_log import TouchedStore, Touches, queue_of
from salience.batch import Vectors32
from salience.compose import parts
from salience.compose.targets import MEMORY, is_url, named, on_server, path_of
from salience.errors import StoreError
from salience.extract.distinctions import distinctions
from salience.loading import require
from salience.ports import FINGERPRINTED, Embedder, Keyring, Model, Store
from salience.settings import Settings
from salience.steps import embed_with


def model(embedder: Embedder) -> Model:
    """Return the embedder as a store is pinned to it; its fingerprint is made when it is first asked for."""

    @cache
    def fingerprint() -> Vectors32:
        return embed_with(embedder, [FINGERPRINTED]).reshape(-1)

    return Model(embedder.name, embedder.dimension, fingerprint)


def store(target: str, embedder: Embedder, settings: Settings, moving: bool = False, create: bool = True) -> Store:
    """Return the store that `target` names, pinned to the embedder, or `moving` to it, and to the language.

    Raises:
        StoreError: it does not exist, and `create` is False.
    """
    pinning = model(embedder)
    if target == MEMORY:
        return TouchedStore(parts.MemoryStore(pinning.name, pinning.dimension, pinning.fingerprint), Touches())
    if on_server(target):
        return TouchedStore(_postgres(target, pinning, settings, moving, create), queue_of(target))
    path = path_of(target)
    if not (create or path.exists() or path.with_name(f"{path.name}-wal").exists()):  # of a lone log, opening tells
        raise absent(path, target)
    return TouchedStore(_sqlite(path, pinning, settings, moving), queue_of(str(path.resolve())))


def opened(target: str | Path, model: Model, settings: Settings) -> Store:
    """Return the store that a file or database holds, for a handle of some model; it is made if it does not exist."""
    if on_server(target):
        return _postgres(str(target), model, settings, moving=False, create=True)
    return _sqlite(path_of(str(target)), model, settings, moving=False)


def absent(path: Path, target: str) -> StoreError:
    """Return the error that a store is not there, with the way to make one."""
    if target == configuration.default_target():
        return StoreError(f'store: none was made yet ({path}). Make one: salience remember "TEXT"')
    remedy = f'Check the path, or make a store there: salience --store {shlex.quote(str(path))} remember "TEXT"'
    return StoreError(f"store: {path} does not exist. {remedy}")


def require_folder(target: str | Path | None = None) -> None:
    """Return if the folder of the file that a target names exists, or the file is the platform's own.

    Raises:
        StoreError: it does not; to open the store would make it, which a mistyped path does not mean.
    """
    where = named(target)
    if where in (MEMORY, configuration.default_target()) or on_server(where) or is_url(where):
        return
    folder = path_of(where).parent
    if not folder.is_dir():
        remedy = f"Check the path, or make it: mkdir -p {shlex.quote(str(folder))}"
        raise StoreError(f"store: the folder {folder} does not exist. {remedy}")


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
        arena=settings.arena,
    )


def _postgres(target: str, pinning: Model, settings: Settings, moving: bool, create: bool) -> Store:
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
        create=create,
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
